//! Each key of a caller that was answered with an invocation names it for life: both of a call that carries two, and those
//! that came with its repeats.

use oncegate_tests::{answer::Answer, sidecar::Sidecar};
use serde_json::{Value, json};

use crate::{
    law::{call, call_under, data, detail, says_no},
    shop::{KEYS, REFUND, Shop, VARIED},
};

/// A refund by name, of `amount`, under one key or two.
fn refund(sidecar: &Sidecar, field: Option<&str>, operation: Option<&str>, amount: u32) -> Answer {
    let mut body = json!({ "input": { "payment_intent": "pi_3Pabc", "amount": amount } });
    if let Some(key) = operation {
        body["operationKey"] = key.into();
    }
    call_under(sidecar, "billing-agent", field, ("POST", "/actions/refund/invoke", &body.to_string()))
}

/// The effect of a call, and whether the record was what answered.
fn effect(answer: &Answer) -> (Value, bool) {
    (data(answer)["effectId"].clone(), answer.header("x-idempotent-replay") == Some("current-state"))
}

#[test]
fn p6_a_match_on_either_of_two_keys_is_a_match() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let (first, replayed) = effect(&refund(&sidecar, Some("refund:42"), Some("op-1"), 500));
    assert!(first.is_string() && !replayed);
    let shown = detail(&sidecar, first.as_str().unwrap());
    assert_eq!(json!([shown["idempotencyKey"], shown["operationKey"]]), json!(["refund:42", "op-1"]));
    for (field, operation) in [
        (Some("refund:42"), Some("op-1")),
        (Some("refund:42"), None),
        (None, Some("op-1")),
        (Some("op-1"), None),
        // What came beside a match is bound by it.
        (Some("refund:42"), Some("op-2")),
        (Some(KEYS[0]), Some("op-1")),
        (None, Some("op-2")),
        (Some(KEYS[0]), None),
    ] {
        let again = refund(&sidecar, field, operation, 500);
        assert_eq!(effect(&again), (first.clone(), true), "{field:?} {operation:?}");
        says_no(&refund(&sidecar, field, operation, 700), 409, "idempotency_key_reuse", "key_reuse");
    }
    for (field, operation) in [(Some("new"), Some("op-1")), (Some("refund:42"), Some("new"))] {
        says_no(&refund(&sidecar, field, operation, 700), 409, "idempotency_key_reuse", "key_reuse");
    }
    // The proxy knows them too.
    let proxied = sidecar.billing().refund(Some("op-2"), "payment_intent=pi_3Pabc&amount=500");
    assert_eq!(first, proxied.effect().as_str());
    assert_eq!(shop.writes(), 1);

    // Both chosen, and both new: another operation. A key of each names neither.
    let (second, replayed) = effect(&refund(&sidecar, Some("refund:43"), Some("op-3"), 500));
    assert!(second != first && !replayed);
    let between = refund(&sidecar, Some("refund:43"), Some("op-1"), 500);
    says_no(&between, 400, "VALIDATION_ERROR", "ambiguous");
    assert_eq!(between.json()["error"]["details"]["effectId"], second);
    assert_eq!((shop.writes(), shop.home.money()), (2, (1_000, 0, 0)));
    let listed = data(&call(&sidecar, "ops", "GET", "/actions/effects?key=op-2", ""));
    assert_eq!(listed.as_array().unwrap().iter().map(|one| &one["id"]).collect::<Vec<_>>(), [&first]);
}

/// A library fills the field beside it by itself: that says nothing of the content, and is bound all the same.
#[test]
fn a_librarys_key_beside_an_operation_key_does_not_make_content_count() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let (first, _) = effect(&refund(&sidecar, Some(KEYS[0]), Some("op-1"), 500));
    let (second, replayed) = effect(&refund(&sidecar, Some(KEYS[1]), Some("op-2"), 500));
    assert!(first != second && !replayed);
    assert_eq!(effect(&refund(&sidecar, Some(KEYS[0]), None, 500)), (first, true));
    assert_eq!(effect(&refund(&sidecar, Some(KEYS[1]), None, 500)), (second, true));
    assert_eq!(shop.writes(), 2);
}

/// With `identical_within` at nothing, only the key can say so.
#[test]
fn p6_a_key_that_came_with_a_repeat_names_it_for_life() {
    let shop = Shop::open_with(|at| {
        oncegate_tests::conf::Conf::default()
            .stripe_host(at)
            .refund("identical_within = \"0s\"")
            .daily_limit(50_000)
    });
    let sidecar = shop.home.serve();
    let agent = sidecar.billing();
    shop.books.lose(1);
    let lost = agent.refund(Some(KEYS[0]), REFUND).assert_unknown().effect();
    assert_eq!(agent.refund(Some(KEYS[1]), REFUND).assert_unknown().effect(), lost);
    agent.refund(Some(KEYS[1]), VARIED).assert_refused(400, "oncegate_key_reuse");
    let path = format!("/actions/effects/{lost}/resolve");
    let word = r#"{"outcome":"failed","reason":"looked it up at the provider"}"#;
    assert_eq!(call(&sidecar, "ops", "POST", &path, word).status, 200);
    for key in [KEYS[0], KEYS[1]] {
        assert_eq!(agent.refund(Some(key), REFUND).effect(), lost, "{key}");
        let (effect, replayed) = effect(&refund(&sidecar, Some(key), None, 12_000));
        assert_eq!((effect, replayed), (lost.as_str().into(), true), "{key}");
        agent.refund(Some(key), VARIED).assert_refused(400, "oncegate_key_reuse");
    }
    assert_eq!(shop.writes(), 1);
    let new = agent.refund(Some(KEYS[2]), REFUND);
    assert_ne!(new.effect(), lost, "a key that nobody has asked under");
    assert_eq!(shop.writes(), 2);
}
