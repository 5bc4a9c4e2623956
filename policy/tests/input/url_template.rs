use oncegate_policy::authority::Authority;
use oncegate_policy::path::{Ambiguity, CanonicalPath};
use oncegate_policy::query;
use oncegate_policy::template::{RenderFault, Scope};
use oncegate_policy::url_template::{Captured, Scheme, UrlFault, UrlTemplate};
use serde_json::json;

const TICKETS: &str =
    "https://tickets.example/v1/projects/{{input.project}}/tickets?ref={{input.ref}}&kind=bug";

fn template(text: &str) -> UrlTemplate {
    UrlTemplate::parse(text).unwrap()
}

fn matched(template: &UrlTemplate, url: &str) -> Option<Captured> {
    let (scheme, rest) = url.split_once("://").unwrap();
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    let (host, target) = rest.split_at(rest.find('/').unwrap());
    let (path, raw_query) = target.split_once('?').unwrap_or((target, ""));
    let authority = Authority::parse(host, Some(scheme.default_port())).unwrap();
    let path = CanonicalPath::parse(path).unwrap();
    template.matches(scheme, &authority, &path, &query::parse(Some(raw_query)).unwrap())
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_request_is_read_back_into_input() {
    let captured = matched(
        &template(TICKETS),
        "https://tickets.example/v1/projects/a%20b/tickets?x=1&kind=bug&ref=r1&x=2",
    );
    let wanted = Captured {
        input: pairs(&[("project", "a b"), ("ref", "r1")]),
        rest: pairs(&[("x", "1"), ("x", "2")]),
    };
    assert_eq!(captured, Some(wanted));
}

#[test]
fn what_stands_in_its_query_is_named() {
    let template = template(TICKETS);
    assert_eq!(template.parameters().collect::<Vec<_>>(), ["ref", "kind"]);
    assert_eq!(template.query_inputs().collect::<Vec<_>>(), ["ref"]);
}

#[test]
fn two_templates_overlap_where_some_request_matches_both() {
    let at = |rest: &str| template(&format!("https://a.example/{rest}"));
    for (one, other, overlap, same) in [
        ("x/y", "x/y", true, true),
        ("x/y", "x/z", false, false),
        ("x/y", "x/{{input.a}}", true, false),
        ("x/", "x/{{input.a}}", false, false),
        ("x/{{input.b}}", "x/{{input.a}}", true, true),
        ("x", "x?k=1", true, false),
        ("x?k=1", "x?k=1", true, true),
        ("x?k=1", "x?k=2", false, false),
        ("x?k=1", "x?k={{input.k}}", true, false),
        ("x?k=", "x?k={{input.k}}", false, false),
        ("x?k={{input.a}}", "x?k={{input.b}}", true, true),
        ("x?k={{input.a}}", "x?j={{input.a}}", true, false),
        ("x?k=1&j={{input.a}}", "x?j={{input.b}}&k=1", true, true),
        ("x?k={{effect.id}}", "x?k={{input.k}}", false, false),
    ] {
        for (one, other) in [(one, other), (other, one)] {
            assert_eq!(at(one).overlaps(&at(other)), overlap, "{one} {other}");
            assert_eq!(at(one).matches_the_same(&at(other)), same, "{one} {other}");
        }
    }
}

#[test]
fn another_request_does_not_match() {
    let others = [
        "http://tickets.example/v1/projects/p/tickets?ref=r&kind=bug",
        "https://other.example/v1/projects/p/tickets?ref=r&kind=bug",
        "https://tickets.example:8443/v1/projects/p/tickets?ref=r&kind=bug",
        "https://tickets.example/V1/projects/p/tickets?ref=r&kind=bug",
        "https://tickets.example/v1/projects/p/tickets/?ref=r&kind=bug",
        "https://tickets.example/v1/projects/p/tickets?ref=r",
        "https://tickets.example/v1/projects/p/tickets?ref=r&kind=task",
        "https://tickets.example/v1/projects/p/tickets?ref=&kind=bug",
        // Of two values, servers take the first or the last.
        "https://tickets.example/v1/projects/p/tickets?ref=r&ref=s&kind=bug",
        "https://tickets.example/v1/projects/p/tickets?ref=r&kind=bug&kind=bug",
    ];
    for url in others {
        assert_eq!(matched(&template(TICKETS), url), None, "{url}");
    }
    assert_eq!(matched(&template("https://a.example/x/{{input.y}}"), "https://a.example/x/"), None);
}

#[test]
fn what_is_built_is_read_back_the_same() {
    let urls = template(TICKETS);
    for project in ["p", "a b", "ä&?=#", "100%", "...", "a+b", "~._-", "{{input.x}}"] {
        let input = json!({ "project": project, "ref": "a/b\\c;d&e=%2F" });
        let url = urls.build(&Scope::of_input(&input)).unwrap();
        let captured = matched(&urls, &url).unwrap();
        assert_eq!(captured.input, pairs(&[("project", project), ("ref", "a/b\\c;d&e=%2F")]), "{url}");
        assert!(captured.rest.is_empty());
    }
    let input = json!({ "project": 7, "ref": true });
    let wanted = "https://tickets.example/v1/projects/7/tickets?ref=true&kind=bug";
    assert_eq!(urls.build(&Scope::of_input(&input)).as_deref(), Ok(wanted));
}

#[test]
fn a_value_never_changes_the_path() {
    let urls = template("https://a.example/x/{{input.v}}/y");
    for value in [".", "..", "a/b", "a\\b", "a;b", "a\nb", "a\0", "%2e%2e", "%2F", "%252F"] {
        let input = json!({ "v": value });
        let wanted = RenderFault::UrlSegment { path: "input.v".to_owned() };
        assert_eq!(urls.build(&Scope::of_input(&input)), Err(wanted), "{value:?}");
    }
    let input = json!({ "v": "" });
    let wanted = RenderFault::Empty { path: "input.v".to_owned() };
    assert_eq!(urls.build(&Scope::of_input(&input)), Err(wanted));
}

#[test]
fn ports_and_hosts_are_spelled_in_one_way() {
    let table = [
        ("https://A.Example.:443/x", "https://a.example/x"),
        ("http://a.example:80/x", "http://a.example/x"),
        ("https://a.example:80/x", "https://a.example:80/x"),
        ("https://[2001:DB8::1]:8443/%78/", "https://[2001:db8::1]:8443/x/"),
        ("https://a.example", "https://a.example/"),
        ("https://a.example?q=a%20b+c", "https://a.example/?q=a%20b%20c"),
    ];
    for (written, built) in table {
        assert_eq!(template(written).build(&Scope::of_input(&json!({}))).as_deref(), Ok(built), "{written}");
        assert_eq!(template(written).to_string(), built, "{written}");
    }
}

#[test]
fn effects_and_answers_build_but_never_match() {
    let input = json!({ "ref": "r" });
    let response = json!({ "id": "t/1" });
    let mut scope =
        Scope { input: &input, effect_id: Some("eff_1"), effect_key: None, response: Some(&response) };
    let verify = template("https://t.example/search?q=metadata:'{{effect.id}}'+ref:{{input.ref}}");
    assert!(!verify.is_matchable());
    let wanted = "https://t.example/search?q=metadata%3A%27eff_1%27%20ref%3Ar";
    assert_eq!(verify.build(&scope).as_deref(), Ok(wanted));
    assert_eq!(matched(&verify, wanted), None);

    let by_id = template("https://t.example/tickets/{{response.id}}");
    assert_eq!(by_id.build(&scope), Err(RenderFault::UrlSegment { path: "response.id".to_owned() }));
    let response = json!({ "id": "t1" });
    scope.response = Some(&response);
    assert_eq!(by_id.build(&scope).as_deref(), Ok("https://t.example/tickets/t1"));
    assert_eq!(matched(&by_id, "https://t.example/tickets/t1"), None);
}

#[test]
fn what_is_no_url_template_is_refused() {
    use UrlFault as F;
    let table = [
        ("ftp://a.example/", F::Scheme),
        ("a.example/", F::Scheme),
        ("https://{{input.host}}/x", F::HostPlaceholder),
        ("https://a.example/x#y", F::Fragment),
        ("https://a.example/x/../y", F::Ambiguous(Ambiguity::DotSegment)),
        ("https://a.example//x", F::Ambiguous(Ambiguity::EmptySegment)),
        ("https://a.example/a b", F::Ambiguous(Ambiguity::Control)),
        ("https://a.example/x?a;b", F::Ambiguous(Ambiguity::QuerySemicolon)),
        ("https://a.example/x?=1", F::Ambiguous(Ambiguity::QueryName)),
        ("https://a.example/x?{{input.a}}=1", F::QueryName),
        ("https://a.example/x?a=1&a=2", F::QueryTwice { name: "a".to_owned() }),
        ("https://a.example/v{{input.a}}/x", F::MixedSegment { segment: "v{{input.a}}".to_owned() }),
        (
            "https://a.example/{{input.a}}{{input.b}}",
            F::MixedSegment { segment: "{{input.a}}{{input.b}}".to_owned() },
        ),
        ("https://a.example/{{secret:K}}", F::Secret),
        ("https://a.example/?k={{secret:K}}", F::Secret),
        ("https://a.example/{{input.a}}/{{input.a}}", F::CapturedTwice { path: "a".to_owned() }),
        ("https://a.example/{{input.a.b}}?x={{input.a}}", F::CapturedTwice { path: "a.b".to_owned() }),
    ];
    for (written, fault) in table {
        assert_eq!(UrlTemplate::parse(written), Err(fault), "{written}");
    }
    assert!(matches!(UrlTemplate::parse("https://u:p@a.example/"), Err(F::Authority(_))));
    assert!(matches!(UrlTemplate::parse("https://a.example/{{input.a"), Err(F::Template(_))));
    assert!(UrlTemplate::parse("https://a.example/{{input.a}}?x={{input.ab}}").is_ok());
}

#[test]
fn literal_segments_win_from_the_left() {
    let order = [
        "https://a.example/x/y?k=1",
        "https://a.example/x/y?k={{input.k}}",
        "https://a.example/x/y",
        "https://a.example/x/{{input.b}}",
        "https://a.example/{{input.a}}/y",
        "https://a.example/{{input.a}}/{{input.b}}",
    ];
    for pair in order.windows(2) {
        let [narrow, wide] = pair else { continue };
        assert!(template(narrow).specificity() > template(wide).specificity(), "{narrow} before {wide}");
    }
}

#[test]
fn the_rest_of_a_path_is_one_value_with_slashes() {
    let files = || template("https://a.example/repos/{{input.repo}}/contents").with_rest("path");
    let authority = Authority::parse("a.example", Some(443)).unwrap();
    for (path, captured) in [
        ("/repos/r/contents/a.md", Some(("r", "a.md"))),
        ("/repos/r/contents/docs/a%20b.md", Some(("r", "docs/a b.md"))),
        ("/repos/r/contents/docs%2Fa.md", Some(("r", "docs/a.md"))),
        ("/repos/r/contents/x/docs%2Fa.md", Some(("r", "x/docs/a.md"))),
        ("/repos/r%2Fx/contents/a.md", None),
        ("/repos/r/contents%2Fa.md", None),
        ("/repos/r/contents", None),
        ("/repos/r/contents/", None),
        ("/repos/r/contents/a/", None),
        ("/repos/r/other/a.md", None),
    ] {
        let read = CanonicalPath::parse(path).or_else(|_| CanonicalPath::spread(path)).unwrap();
        let found = files().matches(Scheme::Https, &authority, &read, &[]);
        let expected = captured.map(|(repo, path)| pairs(&[("repo", repo), ("path", path)]));
        assert_eq!(found.map(|found| found.input), expected, "{path}");
    }
    // Where each segment has its own place, an encoded slash is no slash.
    let plain = template("https://a.example/repos/{{input.a}}/{{input.b}}");
    let spread = CanonicalPath::spread("/repos/a%2Fb").unwrap();
    assert_eq!(plain.matches(Scheme::Https, &authority, &spread, &[]), None);

    for (path, built) in [
        ("docs/a b.md", Some("docs/a%20b.md")),
        ("a.md", Some("a.md")),
        ("../a", None),
        ("a//b", None),
        ("/a", None),
        ("a/", None),
        ("a;b", None),
    ] {
        let input = json!({"repo": "r", "path": path});
        let url = files().build(&Scope::of_input(&input));
        let expected = built.map(|path| format!("https://a.example/repos/r/contents/{path}"));
        assert_eq!(url.ok(), expected, "{path}");
    }
}
