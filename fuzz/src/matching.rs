//! From a request to the action that it means: by whatever order the actions were declared.

use std::sync::OnceLock;

use oncegate_policy::authority::Authority;
use oncegate_policy::body;
use oncegate_policy::json;
use oncegate_policy::path::CanonicalPath;
use oncegate_policy::query;
use oncegate_policy::router::Router;
use oncegate_policy::template::Scope;
use oncegate_policy::url_template::Scheme;
use serde_json::Value;

const ACTIONS: &str = r#"
[hosts."api.example"]
[hosts."a.example:8443"]
[actions.one]
method = "POST"
url = "https://api.example/v1/{{input.kind}}/{{input.id}}"
[actions.two]
method = "POST"
url = "https://api.example/v1/refunds/{{input.id}}"
[actions.three]
method = "POST"
url = "https://api.example/v1/{{input.kind}}/all"
[actions.four]
method = "POST"
url = "https://api.example/v1/refunds"
when = [{ path = "input.amount", equals = "5" }]
[actions.five]
method = "POST"
url = "https://api.example/v1/refunds"
[actions.six]
method = "POST"
url = "https://api.example/v1/refunds?expand={{input.expand}}"
[actions.seven]
method = "PUT"
url = "https://a.example:8443/{{input.a.b}}/{{input.c}}"
[secrets.K]
from = { env = "K" }
allowed_hosts = ["api.github.com"]
[actions.file]
adapter = { type = "github.file_update" }
credential_secret = "K"
"#;

fn routers() -> &'static [Router; 2] {
    static BOTH: OnceLock<[Router; 2]> = OnceLock::new();
    BOTH.get_or_init(|| {
        let source = oncegate_config::Source { name: "fuzz", text: ACTIONS };
        let config = oncegate_config::parse(&[source]).expect("a configuration without faults").config;
        let routes = config.routes();
        let backwards = routes.iter().rev().cloned().collect();
        [Router::build(routes).0, Router::build(backwards).0]
    })
}

/// Five lines: method, authority, path, query, and a body, which is taken for JSON and, where items are judged, for a form too.
pub fn run(data: &[u8]) {
    let Some([method, authority, path, raw_query, text]) = crate::lines(data) else { return };
    ["application/json", "application/x-www-form-urlencoded"].iter().for_each(|kind| items(kind, text));
    let Ok(authority) = Authority::parse(authority, Some(443)) else { return };
    let Ok(query) = query::parse((!raw_query.is_empty()).then_some(raw_query)) else { return };
    for path in [CanonicalPath::parse(path), CanonicalPath::spread(path)].into_iter().flatten() {
        let found = routers().each_ref().map(|router| {
            let candidates = router.candidates(method, Scheme::Https, &authority, &path, &query);
            candidates.into_iter().map(|one| (one.action, one.captured, one.when)).collect::<Vec<_>>()
        });
        assert_eq!(found[0], found[1], "the order of declaration matters");
        for (action, captured, _) in &found[0] {
            meant(action, &captured.input, &captured.rest, text);
        }
    }
}

/// What is judged of the items of a list is what is found by who goes through them wherever that can be done: through an
/// object's members, and one value alone. Where it is not, the request is refused.
fn items(content_type: &str, text: &str) {
    let Ok((_, input)) = body::read(Some(content_type), text.as_bytes()) else { return };
    for path in ["items.*.role", "a.*"] {
        if json::lookalike(&input, path).is_none() {
            let judged: Vec<Value> = json::select(&input, path).into_iter().cloned().collect();
            let (list, below) = path.split_once(".*").expect("a path of items");
            assert_eq!(judged, gone_through(&input[list], below.strip_prefix('.')), "{path} {text:?}");
        }
    }
}

fn gone_through(list: &Value, member: Option<&str>) -> Vec<Value> {
    let items: Vec<&Value> = match list {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        Value::Null => vec![],
        Value::String(text) if text.is_empty() => vec![],
        Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![list],
    };
    let of = |item: &Value| member.map_or(Some(item.clone()), |member| item.get(member).cloned());
    items.into_iter().filter_map(of).collect()
}

/// The URL says it once: what is in the body too is refused, and nothing that the URL said is lost.
fn meant(action: &str, captured: &[(String, String)], rest: &[(String, String)], text: &str) {
    let Ok((_, members)) = body::read(Some("application/json"), text.as_bytes()) else { return };
    let Ok(input) = body::merge(captured, rest, members.clone()) else { return };
    for (name, value) in captured {
        let said = name.split('.').try_fold(&input, |at, part| at.get(part));
        assert_eq!(said.and_then(|said| said.as_str()), Some(value.as_str()), "{action} {name}");
    }
    for (name, value) in members.as_object().into_iter().flatten() {
        let there = &input[name.as_str()];
        assert!(there == value || there.is_object(), "{action} {name}");
    }
    // Rendering what it said is total.
    drop(
        oncegate_policy::template::Template::parse("{{input.id}}")
            .map(|one| one.render(&Scope::of_input(&input))),
    );
}
