use std::collections::BTreeMap;

use oncegate_policy::body::{self, BodyKind};
use oncegate_policy::classify::{Verdict, verdict};
use oncegate_policy::exchange::{Answer, Exchange};
use oncegate_policy::url_template::UrlTemplate;
use serde_json::json;

use super::*;
use crate::declared::Declared;
use crate::plan::{Marks, Planned, Request};
use crate::{Adapter, Prepared};

#[test]
fn every_file_of_the_folder_is_an_entry() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("catalog");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(entries().unwrap().iter().map(|entry| entry.name).collect::<Vec<_>>(), files);
}

#[test]
fn every_fact_has_its_source() {
    for entry in entries().unwrap() {
        let shown = serde_json::to_value(&entry).unwrap();
        let facts = shown.as_object().unwrap().values().filter_map(Value::as_object);
        let mut counted = 0;
        for fact in facts {
            let source = fact["source"].as_str().unwrap();
            assert!(source.starts_with("https://") && source.len() > 12, "{}: {source}", entry.name);
            assert!(fact["confirmed"].is_boolean(), "{}", entry.name);
            counted += 1;
        }
        assert!(counted >= 1 && !entry.facts.hosts.is_empty(), "{}", entry.name);
        let named = matches!(entry.facts.key.what.place, Place::None) == entry.facts.key.what.name.is_none();
        assert!(named, "{}: a place has a name", entry.name);
    }
}

fn declared(entry: &Entry) -> Declared {
    Declared {
        method: "POST".into(),
        url: UrlTemplate::parse("https://provider.example/v1/things").unwrap(),
        headers: vec![],
        scope_headers: vec![],
        body: None,
        subject: None,
        impact: None,
        idempotency: entry.replay(),
        verify: None,
        response: entry.response(),
    }
}

/// What each preset does to a request: the header or member that is set, and the window in minutes.
#[test]
fn a_request_through_each_preset_carries_the_key_in_its_place() {
    let expected: BTreeMap<&str, (&str, u64)> = BTreeMap::from([
        ("akahu", ("idempotency-key:", 1440)),
        ("aws-cloudcontrol", ("ClientToken", 2160)),
        ("aws-verifiedpermissions", ("clientToken", 480)),
        ("checkout-com", ("cko-idempotency-key:", 1440)),
        ("plaid", ("idempotency_key", 2880)),
        ("plaid-bank-transfers", ("idempotency_key", 10_080)),
        ("qonto", ("x-qonto-idempotency-key:", 30)),
        ("resend", ("idempotency-key:", 1440)),
        ("stripe", ("idempotency-key:", 1440)),
    ]);
    let sent = r#"{"amount":1,"idempotency_key":"mine"}"#;
    let input = body::read(Some("application/json"), sent.as_bytes()).unwrap().1;
    let headers = [("idempotency-key".to_owned(), "mine".to_owned())];
    for entry in entries().unwrap() {
        let adapter = Adapter::Declared(declared(&entry));
        let request = Request {
            method: "POST",
            headers: &headers,
            query: &[],
            body_kind: BodyKind::Json,
            body: sent.as_bytes(),
            input: &input,
        };
        let Planned::Ready(plan) = adapter.plan(&request) else { panic!("{}", entry.name) };
        let marks = Marks { effect_id: "eff_1", provider_key: "key-1" };
        let prepared = adapter.prepare(&request, &plan, &marks).unwrap();
        let window = plan.replay_window_ms.map(|ms| ms / 60_000);
        let wanted = expected.get(entry.name);
        assert_eq!(window, wanted.map(|(_, minutes)| *minutes), "{}", entry.name);
        let as_it_came = Prepared { headers: vec![], body: sent.as_bytes().to_vec() };
        match wanted.map(|(name, _)| name.split_once(':').map_or((*name, false), |(name, _)| (name, true))) {
            Some((header, true)) => {
                let set = vec![(header.to_owned(), "key-1".to_owned())];
                assert_eq!(prepared, Prepared { headers: set, ..as_it_came }, "{}", entry.name);
                let gone = [header, "x-fields", "range", "if-range"];
                assert_eq!(plan.drop_headers, gone, "the agent's own key, and what shapes the answer alone");
            }
            Some((member, false)) => {
                let body: Value = serde_json::from_slice(&prepared.body).unwrap();
                assert_eq!((&body[member], &body["amount"]), (&json!("key-1"), &json!(1)), "{}", entry.name);
            }
            None => assert_eq!(prepared, as_it_came, "{}: nothing that is not confirmed", entry.name),
        }
    }
}

#[test]
fn what_is_not_confirmed_enables_no_replay() {
    let all = entries().unwrap();
    let mut entry = all.iter().find(|entry| entry.name == "stripe").unwrap().clone();
    assert!(entry.replay().is_some());
    entry.facts.key.confirmed = false;
    assert!(entry.replay().is_none());
    entry.facts.key.confirmed = true;
    entry.facts.window.as_mut().unwrap().confirmed = false;
    assert!(entry.replay().is_none());
    let mut doubtful = all.iter().find(|entry| entry.name == "slack").unwrap().clone();
    doubtful.facts.response.as_mut().unwrap().confirmed = false;
    assert_eq!(doubtful.response(), ResponseRules::default());
}

/// A refusal that comes with 2xx is no success, and what may have been done in spite of it is no failure.
#[test]
fn each_preset_reads_how_its_provider_speaks_inside_a_2xx() {
    use Verdict::{Failed, Succeeded, Unknown};
    let captured = |status: &str| {
        json!({"status": "COMPLETED",
        "purchase_units": [{"payments": {"captures": [{"status": status}]}}]})
    };
    let all = entries().unwrap();
    for (name, body, seen) in [
        ("slack", json!({"ok": true, "ts": "1"}), Succeeded),
        ("slack", json!({"ok": false, "error": "channel_not_found"}), Failed),
        ("slack", json!({"ok": false, "error": "internal_error"}), Unknown),
        ("slack", json!({}), Unknown),
        ("adyen", json!({"pspReference": "8", "resultCode": "Authorised"}), Succeeded),
        ("adyen", json!({"pspReference": "8", "resultCode": "Refused", "refusalReason": "FRAUD"}), Failed),
        ("adyen", json!({"pspReference": "8", "resultCode": "Error"}), Unknown),
        ("adyen", json!({"pspReference": "8", "resultCode": "Cancelled"}), Unknown),
        ("adyen", json!({"pspReference": "8", "status": "received"}), Succeeded),
        ("checkout-com", json!({"id": "pay_1", "approved": true, "status": "Authorized"}), Succeeded),
        ("checkout-com", json!({"id": "pay_1", "approved": false, "status": "Declined"}), Failed),
        ("checkout-com", json!({"id": "pay_1", "approved": false, "status": "Card Verified"}), Unknown),
        ("checkout-com", json!({"action_id": "act_1", "reference": "r"}), Succeeded),
        ("paypal", json!({"id": "1", "status": "COMPLETED"}), Succeeded),
        ("paypal", json!({"id": "1", "status": "PENDING"}), Succeeded),
        ("paypal", json!({"id": "1", "status": "FAILED"}), Unknown),
        ("paypal", json!({"id": "1", "status": "DECLINED"}), Failed),
        ("paypal", captured("COMPLETED"), Succeeded),
        ("paypal", captured("DECLINED"), Unknown),
        (
            "shopify",
            json!({"data": {"refundCreate": {"refund": {"id": "gid"}, "userErrors": []}}}),
            Succeeded,
        ),
        ("shopify", json!({"errors": [{"message": "Throttled"}]}), Unknown),
        ("linear", json!({"data": {"issueCreate": {"success": true}}}), Succeeded),
        ("linear", json!({"data": null, "errors": [{"message": "Entity not found"}]}), Unknown),
        ("square", json!({"payment": {"id": "p", "status": "COMPLETED"}}), Succeeded),
        ("square", json!({"payment": {"id": "p", "status": "FAILED"}}), Unknown),
        ("square", json!({"refund": {"id": "r", "status": "PENDING"}}), Succeeded),
        ("square", json!({"refund": {"id": "r", "status": "REJECTED"}}), Unknown),
    ] {
        let entry = all.iter().find(|entry| entry.name == name).unwrap();
        let answer =
            Answer { status: 200, reason: None, headers: vec![], body: body.to_string().into_bytes() };
        assert_eq!(verdict(&Exchange::Answered(answer), &entry.response()), seen, "{name}: {body}");
    }
}
