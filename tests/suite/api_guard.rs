//! The control listener's door: every route of the table, and everything that must not get through. Each refusal has
//! one shape, whatever was asked for, and tells nothing.

use std::{io::Write, net::TcpStream};

use oncegate::control::routes::{self, Access, Route};
use oncegate_tests::{
    answer::Answer,
    conf::{BILLING_KEY, CREDENTIAL, OPS_KEY},
    sidecar::Sidecar,
    wait::PATIENCE,
    wire::Wire,
};
use serde_json::Value;

use crate::shop::Shop;

/// An id of every kind's shape, so that a route is reached and nothing is there.
fn target(route: &Route) -> String {
    let ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let kind = [
        ("/effects/", "eff_"),
        ("/invocations/", "inv_"),
        ("/approvals/", "apr_"),
        ("/impact-limits/", "lim_"),
        ("/previews/", "prv_"),
    ]
    .into_iter()
    .find(|(part, _)| route.path.contains(part));
    let id = kind.map_or("nothing".to_owned(), |(_, prefix)| format!("{prefix}{ulid}"));
    let mut path = route.path.to_owned();
    while let (Some(open), Some(close)) = (path.find('{'), path.find('}')) {
        path.replace_range(open..=close, &id);
    }
    path
}

/// What is sent with a request beside its head.
struct Knock<'a> {
    host: Option<&'a str>,
    fields: String,
    query: &'a str,
}

impl Knock<'_> {
    fn with(fields: &str) -> Knock<'static> {
        Knock { host: None, fields: fields.to_owned(), query: "" }
    }

    fn key(key: &str) -> Knock<'static> {
        Knock::with(&format!("Authorization: Bearer {key}\r\n"))
    }
}

#[track_caller]
fn knock(sidecar: &Sidecar, route: &Route, with: &Knock<'_>) -> Answer {
    let mut tcp = TcpStream::connect(sidecar.control).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let own = sidecar.control.to_string();
    let (host, body) = (with.host.unwrap_or(&own), if route.method == "GET" { "" } else { "{}" });
    let head = format!(
        "{} {}{} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{body}",
        route.method,
        target(route),
        with.query,
        body.len(),
        with.fields
    );
    tcp.write_all(head.as_bytes()).unwrap();
    Answer::read(&mut Wire::new(tcp), false).unwrap()
}

/// The names of an answer's header fields and of its body's members: what must not depend on what was asked for.
fn shape(answer: &Answer) -> (Vec<String>, Vec<String>) {
    let mut fields: Vec<String> =
        answer.head.fields.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    fields.sort_unstable();
    let document = answer.json();
    let mut members: Vec<String> = document.as_object().unwrap().keys().cloned().collect();
    members.extend(document["error"].as_object().unwrap().keys().map(|name| format!("error.{name}")));
    (fields, members)
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str, route: &Route) {
    let document = answer.json();
    assert_eq!(answer.status, status, "{route:?}: {document}");
    assert_eq!(document["success"], Value::Bool(false), "{route:?}");
    assert_eq!(document["error"]["code"], code, "{route:?}: {document}");
    let said = format!("{:?}{document}", answer.head);
    for never in [BILLING_KEY, OPS_KEY, CREDENTIAL, "/tmp", "billing-agent", "oncegate.db", "og_wrong"] {
        assert!(!said.contains(never), "{route:?} tells {never}: {said}");
    }
}

fn serve() -> (Shop, Sidecar) {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    (shop, sidecar)
}

fn guarded() -> impl Iterator<Item = &'static Route> {
    routes::all().filter(|route| route.access != Access::Open)
}

#[test]
fn every_route_is_served_to_a_key_with_every_scope() {
    let (_shop, sidecar) = serve();
    for route in routes::all() {
        let answer = knock(&sidecar, route, &Knock::key(OPS_KEY));
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(![401, 403, 405].contains(&answer.status) && answer.status < 500, "{route:?}: {said}");
        assert!(!said.contains("there is no /"), "{route:?} is not a route: {said}");
    }
}

#[test]
fn without_a_key_of_ours_every_route_says_the_same() {
    let (shop, sidecar) = serve();
    let wrong = [
        Knock::with(""),
        Knock::key("og_wrong_key"),
        Knock::key(CREDENTIAL),
        Knock::with("Authorization: Basic b3BzOm9nX3dyb25n\r\n"),
        Knock::with(&format!("Proxy-Authorization: Bearer {OPS_KEY}\r\n")),
        Knock::with(&format!("X-Api-Key: {OPS_KEY}\r\n")),
        // Which of two would count is for nobody to guess.
        Knock::with(&format!("Authorization: Bearer {OPS_KEY}\r\nAuthorization: Bearer {BILLING_KEY}\r\n")),
        Knock::with(&format!("Authorization: Bearer {OPS_KEY}\r\nAuthorization: Bearer {OPS_KEY}\r\n")),
    ];
    let mut shapes = std::collections::BTreeSet::new();
    for route in guarded() {
        for with in &wrong {
            let answer = knock(&sidecar, route, with);
            refused(&answer, 401, "AUTHENTICATION_FAILED", route);
            shapes.insert(shape(&answer));
        }
        let in_query = format!("?key={OPS_KEY}&access_token={OPS_KEY}");
        let answer = knock(&sidecar, route, &Knock { host: None, fields: String::new(), query: &in_query });
        refused(&answer, 401, "AUTHENTICATION_FAILED", route);
        shapes.insert(shape(&answer));
    }
    assert_eq!(shapes.len(), 1, "{shapes:?}");
    assert!(shop.home.query("select * from halt where lifted_at is null").is_empty(), "nobody has halted");
    assert!(!sidecar.log().contains(OPS_KEY), "a key stands in the log");
}

#[test]
fn a_key_without_the_scope_is_refused_on_every_operators_route() {
    let (_shop, sidecar) = serve();
    let mut shapes = std::collections::BTreeSet::new();
    let mut operators = 0;
    for route in guarded() {
        let Access::Scoped(scope) = route.access else { continue };
        if scope.word() == "actions:invoke" {
            continue;
        }
        operators += 1;
        let answer = knock(&sidecar, route, &Knock::key(BILLING_KEY));
        refused(&answer, 403, "AUTHORIZATION_ERROR", route);
        assert_eq!(answer.json()["error"]["details"]["requiredScope"], scope.word(), "{route:?}");
        shapes.insert(shape(&answer));
    }
    assert!(operators >= 10, "{operators} routes of operators");
    assert_eq!(shapes.len(), 1, "{shapes:?}");
}

#[test]
fn foreign_names_and_web_pages_are_refused_before_the_key_counts() {
    let (_shop, sidecar) = serve();
    let key = format!("Authorization: Bearer {OPS_KEY}\r\n");
    let port = sidecar.control.port();
    let hosts = ["evil.example".to_owned(), format!("evil.example:{port}"), format!("10.0.0.7:{port}")];
    let mut shapes = std::collections::BTreeSet::new();
    for route in guarded() {
        for host in &hosts {
            let with = Knock { host: Some(host), fields: key.clone(), query: "" };
            let answer = knock(&sidecar, route, &with);
            refused(&answer, 403, "AUTHORIZATION_ERROR", route);
            shapes.insert(shape(&answer));
        }
        for origin in ["https://evil.example", "null", &format!("http://127.0.0.1:{port}")] {
            let with = Knock::with(&format!("{key}Origin: {origin}\r\n"));
            let answer = knock(&sidecar, route, &with);
            refused(&answer, 403, "AUTHORIZATION_ERROR", route);
            shapes.insert(shape(&answer));
        }
    }
    assert_eq!(shapes.len(), 1, "{shapes:?}");
}
