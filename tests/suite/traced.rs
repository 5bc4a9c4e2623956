//! Spans for a collector: one for each governed request, inside the caller's trace, and nothing that is secret.

use oncegate_tests::{
    agent::Ask,
    conf::{CREDENTIAL, stripe_conf},
    provider::Provider,
    script::Reply,
    wait::until,
};
use serde_json::{Value, json};

use crate::shop::{REFUND, Shop, VARIED};

/// Every span that the collector got.
fn spans(collector: &Provider) -> Vec<Value> {
    let requests = collector.record().writes();
    let bodies = requests.iter().filter(|request| request.complete).map(|request| {
        assert_eq!(request.target, "/v1/traces");
        serde_json::from_slice::<Value>(&request.body).unwrap()
    });
    bodies
        .flat_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone())
        .collect()
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    all.iter().find(|one| one["key"] == name).map_or(&Value::Null, |one| &one["value"])
}

#[test]
fn a_collector_gets_one_span_for_each_governed_request() {
    let collector = Provider::plain();
    collector.on_write(Reply::json("200 OK", "{}"));
    let at = collector.addr();
    let shop =
        Shop::open_with(|stripe| stripe_conf(stripe).with(&format!("[otel]\nendpoint = \"http://{at}\"")));
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let traced =
        Ask::refund(REFUND).field("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let effect = sidecar.billing().ask("api.stripe.com", &traced).assert_unknown().effect();
    sidecar.billing().refund(None, REFUND).assert_unknown();
    sidecar.billing().refund(None, VARIED).assert_refused(422, "oncegate_unresolved_effect");
    let mut spans = until("three spans", || Some(spans(&collector)).filter(|spans| spans.len() == 3));
    spans.sort_by_key(|span| span["startTimeUnixNano"].as_str().unwrap().to_owned());
    let first = &spans[0];
    assert_eq!(first["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(first["parentSpanId"], "b7ad6b7169203331");
    assert_eq!((&first["name"], &first["status"]["code"]), (&json!("oncegate refund"), &json!(2)));
    let outcomes: Vec<_> = spans
        .iter()
        .map(|span| {
            json!([
                attribute(span, "oncegate.outcome")["stringValue"],
                attribute(span, "oncegate.repeat")["boolValue"]
            ])
        })
        .collect();
    assert_eq!(outcomes, [json!(["unknown", false]), json!(["unknown", true]), json!(["refused", false])]);
    assert_eq!(attribute(first, "oncegate.effect_id")["stringValue"], effect.as_str());
    assert_eq!(attribute(&spans[2], "oncegate.code")["stringValue"], "unresolved_effect");
    let all = String::from_utf8_lossy(&collector.record().all_bytes()).into_owned();
    assert!(!all.contains(CREDENTIAL) && !all.contains("pi_3Pabc"), "neither credential nor input: {all}");
}

#[test]
fn a_collector_that_is_not_there_changes_nothing() {
    let nobody = oncegate_tests::dead::Refusing::default();
    let at = nobody.addr();
    let shop =
        Shop::open_with(|stripe| stripe_conf(stripe).with(&format!("[otel]\nendpoint = \"http://{at}\"")));
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
    until("a word in the log", || Some(()).filter(|()| sidecar.log().contains("spans could not be sent")));
    assert_eq!(sidecar.billing().refund(None, "payment_intent=pi_2&amount=100").status, 200);
    assert_eq!(shop.writes(), 2);
}
