//! What is asked for again: under a key whose first call was refused, of a preview, and of something that waits.

use oncegate_tests::conf::Conf;
use serde_json::{Value, json};

use crate::{
    api_invoke::invoke,
    law::{approval_in, call, call_under, data, detail, ops, says_no},
    shop::{REFUND, Shop, desk_conf},
};
use oncegate_tests::{provider::Provider, sidecar::Home};

fn refund(payment: &str) -> Value {
    json!({ "input": { "payment_intent": payment, "amount": 12_000 } })
}

#[test]
fn a_refusal_leaves_the_key_to_the_call_that_is_corrected() {
    let provider = Provider::tls(&[crate::shop::DESK]);
    let home = Home::new(&desk_conf(provider.addr()));
    let sidecar = home.serve();
    let ask = |key: &str, body: &str| call_under(&sidecar, "ops", Some(key), ("POST", "/approvals", body));
    assert_eq!(ask("v", r#"{"titel":"a"}"#).status, 400);
    let made = ask("v", r#"{"title":"a"}"#);
    assert_eq!(made.status, 201, "{made:?}");
    let again = ask("v", r#"{"title":"a"}"#);
    assert_eq!((again.status, again.header("x-idempotent-replay")), (201, Some("recorded")));
    says_no(&ask("v", r#"{"title":"b"}"#), 409, "idempotency_key_reuse", "");
    // A no of the moment is asked for again as well.
    for number in 0..63 {
        assert_eq!(ask(&format!("q{number}"), r#"{"title":"a"}"#).status, 201);
    }
    let full = ask("w", r#"{"title":"a"}"#);
    says_no(&full, 409, "CONFLICT", "full");
    let decided = format!("/approvals/{}/deny", data(&made)["id"].as_str().unwrap());
    assert_eq!(call(&sidecar, "billing-agent", "POST", &decided, "").status, 403, "no right to");
    let now = call_under(&sidecar, "ops", Some("w"), ("POST", "/approvals", r#"{"title":"a"}"#));
    assert_eq!(now.status, 409, "still full, and asked anew: {now:?}");
    assert_eq!(now.header("x-idempotent-replay"), None);
}

#[test]
fn a_preview_is_made_once_under_its_key() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let make = |path: &str, key: &str, body: &Value| {
        call_under(&sidecar, "billing-agent", Some(key), ("POST", path, &body.to_string()))
    };
    let path = "/actions/refund/previews";
    let first = data(&make(path, "5", &refund("pi_1")));
    let again = make(path, "5", &refund("pi_1"));
    assert_eq!((again.status, &data(&again)["id"]), (201, &first["id"]));
    says_no(&make(path, "5", &refund("pi_2")), 409, "idempotency_key_reuse", "");
    let refresh = format!("/actions/previews/{}/refresh", first["id"].as_str().unwrap());
    let second = data(&make(&refresh, "6", &json!({})));
    assert_eq!(data(&make(&refresh, "6", &json!({})))["id"], second["id"]);
    // An input may be as long as one that is invoked.
    let mut long = refund("pi_1");
    long["input"]["metadata"] = json!({ "note": "x".repeat(100 * 1024) });
    assert_ne!(make(path, "7", &long).status, 413);
}

#[test]
fn a_repeat_says_that_it_is_one() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let first = data(&invoke(&sidecar, "billing-agent", None, "refund", &refund("pi_1")));
    let again = data(&invoke(&sidecar, "billing-agent", None, "refund", &refund("pi_1")));
    assert_eq!((&first["replayed"], &again["replayed"]), (&json!(false), &json!(true)));
    assert_eq!((first["id"].clone(), shop.writes()), (again["id"].clone(), 1));
    let input = refund("pi_1")["input"].to_string();
    let told = sidecar.cli(&shop.home, "billing-agent", &["invoke", "refund", "--input", &input]);
    let words = "recorded before; nothing was sent for this call";
    assert!(told.code == 0 && told.out.contains(words) && told.err.contains(words), "{told:?}");
    assert_eq!(shop.writes(), 1);
}

/// Approved under a halt: nobody has sent it, and somebody will.
#[test]
fn what_is_approved_and_waits_is_running_and_not_unknown() {
    let shop = Shop::open_with(|at| {
        Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(50_000)
    });
    let sidecar = shop.home.serve();
    let parked = sidecar.billing().refund(None, REFUND);
    let (effect, approval) = (parked.effect(), approval_in(&parked));
    let reconcile = format!("/actions/effects/{effect}/reconcile");
    says_no(&call(&sidecar, "ops", "POST", &reconcile, ""), 409, "CONFLICT", "not_sent");
    for command in [["halt", "--reason", "wait"].as_slice(), &["approve", &approval]] {
        ops(&shop.home, &sidecar, command);
    }
    let again = invoke(&sidecar, "billing-agent", None, "refund", &refund("pi_3Pabc"));
    assert_eq!(again.header("x-idempotent-replay"), Some("current-state"), "{again:?}");
    assert_eq!((&data(&again)["status"], &data(&again)["outcome"]), (&json!("running"), &json!("pending")));
    let input = refund("pi_3Pabc")["input"].to_string();
    let told = sidecar.cli(&shop.home, "billing-agent", &["invoke", "refund", "--input", &input]);
    assert_eq!(told.code, 14, "it waits: {told:?}");
    let proxied = sidecar.billing().refund(None, REFUND);
    assert_eq!((proxied.code(), proxied.outcome()), ("oncegate_in_flight", "pending_approval"));
    says_no(&call(&sidecar, "ops", "POST", &reconcile, ""), 409, "CONFLICT", "not_sent");
    assert_eq!((shop.writes(), detail(&sidecar, &effect)["stage"].clone()), (0, json!("ready")));
}
