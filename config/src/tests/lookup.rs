//! Hosts by authority, and routes.

use oncegate_policy::authority::Authority;
use oncegate_policy::router::Router;

use super::config;
use crate::model::Placement;

#[test]
fn the_most_specific_host_wins_and_the_port_must_match() {
    let config = config(
        "[hosts.\".example.com\"]\nca_file = \"suffix\"\n\
         [hosts.\".b.example.com\"]\nca_file = \"longer\"\n\
         [hosts.\"a.b.example.com\"]\nca_file = \"exact\"\n\
         [hosts.\"a.b.example.com:8443\"]\nca_file = \"port\"\n\
         [hosts.\"plain.example\"]\nplain = true\n",
    );
    for (authority, found) in [
        ("x.example.com:443", Some("suffix")),
        ("x.y.example.com:443", Some("suffix")),
        ("example.com:443", None),
        ("badexample.com:443", None),
        ("x.b.example.com:443", Some("longer")),
        ("b.example.com:443", Some("suffix")),
        ("A.B.example.com.:443", Some("exact")),
        ("a.b.example.com:8443", Some("port")),
        ("x.example.com:8443", None),
    ] {
        let host = config.host_for(&Authority::parse(authority, None).unwrap());
        let found_file = host.and_then(|host| host.ca_file.as_ref()).and_then(|file| file.to_str());
        assert_eq!(found_file, found, "{authority}");
    }
    let plain = config.host_for(&Authority::parse("plain.example:80", None).unwrap());
    assert!(plain.is_some_and(|host| host.plain && !host.implied));
}

#[test]
fn a_host_that_only_an_action_names_says_so() {
    let config = config("[actions.x]\nmethod = \"POST\"\nurl = \"http://a.example:8080/x\"\n");
    let host = config.host_for(&Authority::parse("a.example:8080", None).unwrap());
    assert!(host.is_some_and(|host| host.plain && host.implied));
}

#[test]
fn a_secret_of_the_vault_without_a_list_goes_where_it_is_named() {
    let config = config(
        "[hosts.\".b.example\"]\ncredential = { query = \"k\", value = \"{{secret:K}}\" }\n\
         [hosts.\"a.example\"]\n[hosts.\"c.example\"]\n\
         [secrets.K]\nfrom = { vault = true }\n\
         [secrets.L]\nfrom = { vault = true }\nallowed_hosts = [\".example\"]\nallowed_placements = [\"header\"]\n\
         [actions.open]\nmethod = \"POST\"\nurl = \"https://a.example/t\"\n\
         headers = { \"X-Key\" = \"{{secret:K}}\" }\n",
    );
    let may = |name: &str, host: &str| config.may_go(name, &config.secrets[name], host);
    for (host, named) in [
        ("a.example", true),
        ("x.b.example", true),
        ("b.example", false),
        ("c.example", false),
        ("xa.example", false),
    ] {
        assert_eq!((may("K", host), may("L", host)), (named, true), "{host}");
    }
    assert!(!may("L", "example"));
    for place in [Placement::Header, Placement::Url, Placement::Body] {
        assert!(config.secrets["K"].may_stand(place));
        assert_eq!(config.secrets["L"].may_stand(place), place == Placement::Header);
    }
}

#[test]
fn routes_of_adapters_and_declared_actions() {
    let config = config(
        "[hosts.\"api.stripe.com\"]\n[hosts.\"a.example\"]\n\
         [secrets.K]\nfrom = { vault = true }\nallowed_hosts = [\"api.stripe.com\"]\n\
         [actions.refund]\nadapter = { type = \"stripe.refund\", mode = \"live\", currency = \"eur\" }\n\
         credential_secret = \"K\"\n\
         [actions.open]\nmethod = \"PUT\"\nurl = \"https://a.example/t/{{input.id}}\"\nenabled = false\n\
         when = [{ path = \"input.kind\", equals = \"x\" }]\n",
    );
    let routes = config.routes();
    let spelled: Vec<_> = routes
        .iter()
        .map(|route| (route.action.as_str(), route.method.as_str(), route.url.to_string()))
        .collect();
    assert_eq!(
        spelled,
        [
            ("open", "PUT", "https://a.example/t/{{input.id}}".to_owned()),
            ("refund", "POST", "https://api.stripe.com/v1/refunds".to_owned()),
        ]
    );
    assert_eq!(routes[0].when[0].path, "input.kind");
    let open = oncegate_policy::action::ActionName::parse("open").unwrap();
    assert_eq!(config.actions[&open].when[0].path, "kind");
    let (_, remarks) = Router::build(routes);
    assert_eq!(remarks, []);
}

#[test]
fn what_is_not_written_about_plain_is_told_by_port_and_urls() {
    let parsed = crate::parse(&[crate::Source {
        name: "t.toml",
        text: "[hosts]\n\"a.example:80\" = {}\n\"b.example:8080\" = {}\n\"c.example\" = {}\n\"d.example\" = {}\n\
               [actions.b]\nmethod = \"POST\"\nurl = \"http://b.example:8080/b\"\n\
               [actions.c]\nmethod = \"POST\"\nurl = \"http://c.example/c\"\n",
    }])
    .unwrap();
    let host = |at: &str| parsed.config.host_for(&Authority::parse(at, None).unwrap()).map(|host| host.plain);
    assert_eq!(host("a.example:80"), Some(true));
    assert_eq!(host("b.example:8080"), Some(true));
    assert_eq!(host("c.example:80"), Some(true));
    assert_eq!(host("d.example:443"), Some(false));
}

#[test]
fn a_host_that_only_an_action_names_is_declared_by_it() {
    let parsed = crate::parse(&[crate::Source {
        name: "t.toml",
        text: "[actions.x]\nmethod = \"POST\"\nurl = \"https://tickets.example/x\"\nsubject = \"x\"\n",
    }])
    .unwrap();
    let at = Authority::parse("tickets.example:443", None).unwrap();
    let host = parsed.config.host_for(&at).unwrap();
    assert!(host.reads && !host.writes && host.credential.is_none());
    assert!(parsed.warnings.iter().any(|warning| warning.message.contains("has no `[hosts.")));
}
