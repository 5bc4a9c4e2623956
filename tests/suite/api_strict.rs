//! A member that is misspelt must not silently not hold; and who decides sees what is decided over.

use serde_json::json;

use crate::{
    law::{approval_in, call, data, ops},
    shop::{REFUND, Shop},
};
use oncegate_tests::conf::Conf;

#[test]
fn members_that_nobody_knows_are_refused_where_they_would_change_what_is_done() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = "eff_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for (method, path, body) in [
        (
            "POST",
            "/actions/refund/invoke".to_owned(),
            r#"{"input":{"payment_intent":"pi_1","amount":1},"previewid":"prv_1"}"#,
        ),
        ("POST", "/actions/refund/invoke".to_owned(), r#"{"payment_intent":"pi_1","amount":1}"#),
        (
            "POST",
            "/actions/refund/invoke".to_owned(),
            r#"{"input":{"payment_intent":"pi_1","amount":1},"retryof":"x"}"#,
        ),
        (
            "POST",
            "/actions/refund/previews".to_owned(),
            r#"{"input":{"payment_intent":"pi_1","amount":1},"ttlSecond":1}"#,
        ),
        (
            "POST",
            "/impact-limits".to_owned(),
            r#"{"name":"x","dimension":"money","currency":"usd","period":"day","amount":1,"action":"refund"}"#,
        ),
        ("POST", "/approvals".to_owned(), r#"{"title":"may I?","expires_in_seconds":5}"#),
        ("POST", "/approvals/apr_01ARZ3NDEKTSV4RRFFQ69G5FAV/approve".to_owned(), r#"{"nte":"fine"}"#),
        ("POST", "/approvals/apr_01ARZ3NDEKTSV4RRFFQ69G5FAV/deny".to_owned(), r#"{"nte":"no"}"#),
        ("POST", format!("/actions/effects/{effect}/notes"), r#"{"note":"seen","by":"me"}"#),
        ("PUT", "/secrets/NEW_KEY".to_owned(), r#"{"value":"v","allowed_hosts":["api.stripe.com"]}"#),
    ] {
        let answer = call(&sidecar, "ops", method, &path, body);
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_str()),
            (400, Some("VALIDATION_ERROR")),
            "{path} {body}: {answer:?}"
        );
    }
    // What the published client may say beside it is taken, and a halt halts, whatever else it says.
    let asked = r#"{"title":"may I?","runId":"run_1","parentSpanId":null}"#;
    assert_eq!(call(&sidecar, "ops", "POST", "/approvals", asked).status, 201);
    assert_eq!(call(&sidecar, "ops", "POST", "/environment/halt", r#"{"reasn":"fire"}"#).status, 200);
    assert_eq!(call(&sidecar, "ops", "POST", "/environment/resume", "{}").status, 200);
    let hint = call(&sidecar, "ops", "POST", "/actions/refund/invoke", r#"{"previewid":"prv_1"}"#).text();
    assert!(hint.contains("did you mean `previewId`?"), "{hint}");
    shop.books.lose(1);
    let lost = sidecar.billing().refund(None, REFUND).assert_unknown().effect();
    let resolve =
        json!({ "outcome": "failed", "reason": "asked the provider", "actualimpact": [] }).to_string();
    let answer = call(&sidecar, "ops", "POST", &format!("/actions/effects/{lost}/resolve"), &resolve);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!((shop.writes(), shop.home.money()), (1, (0, 12_000, 12_000)), "{effect} is none of ours");
}

#[test]
fn who_decides_sees_the_exact_request() {
    let shop = Shop::open_with(|at| {
        Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(50_000)
    });
    let sidecar = shop.home.serve();
    let approval = approval_in(&sidecar.billing().refund(None, REFUND));
    let path = format!("/approvals/{approval}");
    let shown = data(&call(&sidecar, "ops", "GET", &path, ""));
    assert!(shown["title"].as_str().unwrap().contains("payment_intent/pi_3Pabc"), "{shown}");
    let payload = &shown["payload"];
    assert_eq!(json!([payload["action"], payload["impact"]["amount"]]), json!(["refund", 12_000]));
    assert_eq!(payload["request"]["url"], "https://api.stripe.com/v1/refunds");
    let body = payload["request"]["body"].as_str().unwrap();
    assert!(body.contains("payment_intent=pi_3Pabc") && body.contains("amount=12000"), "{body}");
    assert!(!shown.to_string().contains("sk_test_"), "{shown}");
    assert_eq!(ops(&shop.home, &sidecar, &["approve", &approval]).code, 0);
    let settled = data(&call(&sidecar, "ops", "GET", &path, ""));
    assert_eq!(settled["payload"], json!(null), "erased with the request: {settled}");
}

#[test]
fn explain_says_that_a_limit_can_never_be_met() {
    let shop = Shop::open();
    let url = "https://api.stripe.com/v1/refunds";
    let over = shop.home.run(&["explain", "POST", url, "--data", "payment_intent=pi_1&amount=50001"]);
    assert_eq!(over.code, 15, "{over:?}");
    assert!(over.out.contains("limit_exceeded") && over.out.contains("refunds-per-day"), "{over:?}");
    let fits = shop.home.run(&["explain", "POST", url, "--data", "payment_intent=pi_1&amount=50000"]);
    assert_eq!(fits.code, 0, "{fits:?}");
}
