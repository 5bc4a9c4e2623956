//! `docs/openapi.json` and real answers: no member is in an answer that the description does not name.

use std::fs;

use oncegate_tests::{conf::stripe_conf, sidecar::Sidecar};
use serde_json::{Value, json};

use crate::{
    law::call,
    shop::{DESK, REFUND, Shop},
};

const DESCRIPTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");

/// Names and their schemas.
type Members<'a> = Vec<(&'a String, &'a Value)>;

/// Notes each member of an answer that the schema has no word for. Where it names no members, any are described.
fn undescribed(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let (members, items) = described(document, schema);
    match value {
        Value::Object(given) if !members.is_empty() => {
            for (name, value) in given {
                let at = format!("{at}.{name}");
                match members.iter().find(|(known, _)| known.as_str() == name.as_str()) {
                    Some((_, schema)) => undescribed(document, schema, value, &at, found),
                    None => found.push(at),
                }
            }
        }
        Value::Array(given) => {
            for (value, schema) in given.iter().zip(items.iter().cycle()) {
                undescribed(document, schema, value, &format!("{at}[]"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {}
    }
}

/// The members and the items that a schema describes, with those of all that it is put together from.
fn described<'a>(document: &'a Value, schema: &'a Value) -> (Members<'a>, Vec<&'a Value>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return described(document, document.pointer(reference.trim_start_matches('#')).unwrap());
    }
    let mut members: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
    let mut items: Vec<_> = schema.get("items").into_iter().collect();
    for part in ["allOf", "oneOf"].iter().flat_map(|name| schema[*name].as_array().into_iter().flatten()) {
        let (more_members, more_items) = described(document, part);
        members.extend(more_members);
        items.extend(more_items);
    }
    (members, items)
}

/// Asks as a person with every scope, and gives the answer's `data`.
#[track_caller]
fn asked(
    document: &Value,
    sidecar: &Sidecar,
    (method, route): (&str, &str),
    path: &str,
    body: &str,
) -> Value {
    let answer = call(sidecar, "ops", method, path, body);
    assert!(answer.status < 300, "{method} {path}: {answer:?}");
    let operation = &document["paths"][format!("/api/v2{route}")][method.to_lowercase()];
    let mut told = &operation["responses"][answer.status.to_string()];
    if let Some(reference) = told["$ref"].as_str() {
        told = document.pointer(reference.trim_start_matches('#')).unwrap();
    }
    let schema = &told["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{method} {route} {}", answer.status);
    let (given, mut found) = (answer.json(), Vec::new());
    undescribed(document, schema, &given, "", &mut found);
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, Vec::<String>::new(), "{method} {path}");
    given["data"].clone()
}

#[test]
fn every_member_of_an_answer_is_described() {
    let document: Value = serde_json::from_str(&fs::read_to_string(DESCRIPTION).unwrap()).unwrap();
    let shop = Shop::open_with(|at| stripe_conf(at).host(DESK, at));
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let effect = sidecar.billing().refund(Some("refund:ord_1"), REFUND).assert_unknown().effect();
    let ask = |method: &str, route: &str, id: &str, body: &str| {
        let path = match (route.find('{'), route.find('}')) {
            (Some(open), Some(close)) => format!("{}{id}{}", &route[..open], &route[close + 1..]),
            (_, _) => route.to_owned(),
        };
        asked(&document, &sidecar, (method, route), &path, body)
    };
    let action = json!({
        "name": "open-ticket", "method": "POST", "urlTemplate": format!("https://{DESK}/v1/tickets"),
        "bodyTemplate": { "title": "{{input.title}}" }, "subject": "{{input.title}}", "scopeHeaders": ["X-Tenant"],
        "idempotency": { "header": "X-Key", "window": "24h" },
        "response": { "succeededWhen": [{ "path": "ok", "equals": true }] },
        "verify": { "url": format!("https://{DESK}/v1/tickets?title={{{{input.title}}}}"), "match": [{ "path": "0.id" }] },
        "impact": { "dimension": "resource_mutations", "amount": "1", "bound": "exact" },
    });
    ask("POST", "/actions", "", &action.to_string());
    ask("PATCH", "/actions/{ref}", "open-ticket", r#"{"description":"Opens a ticket"}"#);
    ask("GET", "/actions/{ref}/versions", "open-ticket", "");
    for list in
        ["/actions", "/actions/effects", "/actions/invocations", "/impact-limits", "/secrets", "/approvals"]
    {
        ask("GET", list, "", "");
    }
    let input = r#"{"input":{"payment_intent":"pi_9","amount":100}}"#;
    let preview = ask("POST", "/actions/{ref}/previews", "refund", input);
    ask("GET", "/actions/previews/{id}", preview["id"].as_str().unwrap(), "");
    ask("POST", "/actions/{ref}/invoke", "refund", input);
    ask("POST", "/actions/effects/{id}/reconcile", &effect, "");
    ask("GET", "/actions/effects/{id}", &effect, "");
    let spec = format!(
        "openapi: 3.0.3\nservers: [{{url: \"https://{DESK}/v1\"}}]\npaths:\n  /notes:\n    post: {{operationId: note}}\n"
    );
    ask("POST", "/actions/import", "", &json!({ "spec": spec, "dryRun": true }).to_string());
    ask("DELETE", "/actions/{ref}", "open-ticket", "");
    ask("POST", "/environment/prune", "", "{}");
    for one in ["/auth/identity", "/environment", "/audit/verify"] {
        ask("GET", one, "", "");
    }
}
