//! Drives the shared table of which action a request means, as far as pure functions decide it.

use std::collections::BTreeMap;

use oncegate_policy::authority::Authority;
use oncegate_policy::body;
use oncegate_policy::path::CanonicalPath;
use oncegate_policy::query;
use oncegate_policy::router::{Route, Router};
use oncegate_policy::url_template::{Scheme, UrlTemplate};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    request: String,
    expect: String,
    connect: Option<String>,
    sni: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    input: Option<BTreeMap<String, String>>,
}

/// What the proxy decides with more than these functions, and why.
const BEYOND: [(&str, &str); 2] = [
    ("post /v1/refunds", "whether a token is a known method is judged by the HTTP reader"),
    ("GET /v1/refunds", "X-HTTP-Method-Override is a header rule of the pipeline"),
];

fn router() -> Router {
    let route = |action: &str, url: &str| Route {
        action: action.to_owned(),
        method: "POST".to_owned(),
        url: UrlTemplate::parse(url).unwrap(),
        when: vec![],
        governed: true,
        writes_by_get: false,
    };
    let (router, remarks) = Router::build(vec![
        route("refund", "https://api.stripe.com/v1/refunds"),
        route("capture", "https://api.stripe.com/v1/charges/{{input.charge}}/capture"),
    ]);
    assert_eq!(remarks, []);
    router
}

/// The action or the refusal, and the input that the URL gives.
fn judge(router: &Router, case: &Case) -> (String, Value) {
    let refused = |code: &str| (code.to_owned(), json!({}));
    let (method, target) = case.request.split_once(' ').unwrap();
    if method == "CONNECT" {
        return match Authority::parse(target, None) {
            Ok(_) => refused("connected"),
            Err(_) => refused("invalid_request"),
        };
    }
    let (scheme, written, target) = match target.strip_prefix("http://") {
        Some(rest) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap());
            (Scheme::Http, host, path)
        }
        None => (Scheme::Https, case.connect.as_deref().unwrap_or("api.stripe.com:443"), target),
    };
    let authority = Authority::parse(written, Some(scheme.default_port())).unwrap();
    let told = [case.sni.as_ref(), case.headers.get("Host")];
    if told
        .into_iter()
        .flatten()
        .any(|other| Authority::parse(other, Some(authority.port)) != Ok(authority.clone()))
    {
        return refused("ambiguous");
    }
    let (raw_path, raw_query) = match target.split_once('?') {
        Some((path, raw_query)) => (path, Some(raw_query)),
        None => (target, None),
    };
    let (Ok(path), Ok(query)) = (CanonicalPath::parse(raw_path), query::parse(raw_query)) else {
        return refused("ambiguous");
    };
    match router.candidates(method, scheme, &authority, &path, &query).first() {
        Some(candidate) => {
            let input = body::merge(&candidate.captured.input, &candidate.captured.rest, json!({})).unwrap();
            (candidate.action.to_owned(), input)
        }
        None if matches!(method, "GET" | "HEAD" | "OPTIONS") => refused("passthrough"),
        None => refused("undeclared"),
    }
}

#[test]
fn every_matching_case_is_decided_as_expected() {
    let cases: Cases = toml::from_str(include_str!("../cases/matching.toml")).unwrap();
    assert_eq!(cases.case.len(), 24);
    let router = router();
    for case in cases.case {
        let (decided, input) = judge(&router, &case);
        let beyond = BEYOND.iter().any(|(request, _)| *request == case.request);
        if beyond {
            assert!(!["refund", "capture"].contains(&decided.as_str()), "{}", case.request);
            continue;
        }
        assert_eq!(decided, case.expect, "{}", case.request);
        if let Some(wanted) = case.input {
            assert_eq!(input, json!(wanted), "{}", case.request);
        }
    }
}
