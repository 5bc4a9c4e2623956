//! A person's word: resolve, notes, and running again on purpose.

use oncegate_tests::{agent::Ask, answer::Answer, sidecar::Sidecar};
use serde_json::json;

use crate::{
    law::{call, call_under, detail, kinds, lost, ops, says_no},
    shop::{KEYS, REFUND, Shop, VARIED},
};

const WHY: &str = "the bank's list of 12 March shows no such refund";

fn resolve(shop: &Shop, sidecar: &Sidecar, effect: &str, outcome: &str) -> i32 {
    ops(&shop.home, sidecar, &["effect", "resolve", effect, "--outcome", outcome, "--reason", WHY]).code
}

fn retry(sidecar: &Sidecar, invocation: &str, key: &str, form: &str) -> Answer {
    let ask = Ask::refund(form).key(key).field("Oncegate-Retry-Of", invocation);
    sidecar.billing().ask("api.stripe.com", &ask)
}

#[test]
fn failed_releases_and_the_next_one_runs_anew() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    let short =
        ops(&shop.home, &sidecar, &["effect", "resolve", &effect, "--outcome", "failed", "--reason", "no"]);
    assert_eq!(short.code, 2, "{short:?}");
    let path = format!("/actions/effects/{effect}/resolve");
    let short = call(&sidecar, "ops", "POST", &path, r#"{"outcome":"failed","reason":"too short"}"#);
    says_no(&short, 400, "VALIDATION_ERROR", "");
    assert_eq!(shop.home.money(), (0, 12_000, 12_000));

    assert_eq!(resolve(&shop, &sidecar, &effect, "failed"), 1, "it exits by the outcome");
    assert_eq!(shop.home.money(), (0, 0, 0), "the hold is released");
    let settled = detail(&sidecar, &effect);
    assert_eq!(
        json!([settled["outcome"], settled["grade"], settled["verification"], settled["unresolvedExposure"]]),
        json!(["failed", "failed", "manual", false]),
    );
    let fact =
        settled["evidence"].as_array().unwrap().iter().find(|fact| fact["kind"] == "resolved").unwrap();
    assert!(fact["source"] == "ops" && fact["text"].as_str().unwrap().contains(WHY), "{fact}");
    says_no(
        &call(&sidecar, "ops", "POST", &path, &format!(r#"{{"outcome":"succeeded","reason":"{WHY}"}}"#)),
        409,
        "CONFLICT",
        "not_unknown",
    );
    assert_eq!(resolve(&shop, &sidecar, &effect, "succeeded"), 15, "settled is settled");

    let anew = sidecar.billing().refund(None, REFUND);
    assert_eq!((anew.status, shop.writes()), (200, 2), "{anew:?}");
    assert_ne!(anew.effect(), effect);
    let (old, new) = (detail(&sidecar, &effect), detail(&sidecar, &anew.effect()));
    assert_eq!(json!([old["retriedBy"], new["retryOf"]]), json!([new["invocationId"], old["invocationId"]]));
    let receipt = ops(&shop.home, &sidecar, &["effect", "show", &effect]).out;
    for fact in ["manual", "resolved as failed by ops", "retried by", new["invocationId"].as_str().unwrap()] {
        assert!(receipt.contains(fact), "{fact} is not in:\n{receipt}");
    }
}

#[test]
fn succeeded_consumes_and_a_repeat_reads_the_receipt() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    let done = ops(
        &shop.home,
        &sidecar,
        &[
            "effect",
            "resolve",
            &effect,
            "--outcome",
            "succeeded",
            "--reason",
            WHY,
            "--external-reference",
            "re_1",
            "--json",
        ],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let settled = done.json();
    assert_eq!(json!([settled["grade"], settled["verification"]]), json!(["acknowledged", "manual"]));
    assert_eq!(shop.home.money(), (12_000, 0, 0), "the hold is consumed");
    let repeat = sidecar.billing().refund(Some(KEYS[0]), REFUND);
    assert_eq!((repeat.status, repeat.effect(), repeat.outcome()), (200, effect, "succeeded"), "{repeat:?}");
    assert_eq!(repeat.json()["verification"], "manual");
    assert_eq!(shop.writes(), 1);
}

#[test]
fn what_was_really_taken_is_consumed() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    let done = ops(
        &shop.home,
        &sidecar,
        &[
            "effect",
            "resolve",
            &effect,
            "--outcome",
            "failed",
            "--reason",
            WHY,
            "--partial-effect",
            "confirmed",
            "--actual-impact",
            "money:usd:500",
        ],
    );
    assert_eq!((done.code, shop.home.money()), (1, (500, 0, 0)), "{done:?}");
    let settled = detail(&sidecar, &effect);
    let fact =
        settled["evidence"].as_array().unwrap().iter().find(|fact| fact["kind"] == "resolved").unwrap();
    assert_eq!(fact["detail"]["partialEffect"], "confirmed", "{fact}");
}

/// Who reads it may make the request again: it is told that a part may have been applied.
#[test]
fn a_person_s_failure_is_not_called_nothing() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let effect = sidecar.billing().refund(Some("refund:ord_1"), REFUND).assert_unknown().effect();
    let resolve = |more: &str| {
        let body = format!(r#"{{"outcome":"failed","reason":"{WHY}",{more}}}"#);
        call(&sidecar, "ops", "POST", &format!("/actions/effects/{effect}/resolve"), &body)
    };
    let usd = |amount: u32| format!(r#"{{"dimension":"money","currency":"usd","amount":{amount}}}"#);
    // What does not fit is not passed over.
    for more in [
        format!(r#""actualImpact":[{},{}]"#, usd(500), usd(500)),
        r#""actualImpact":[{"dimension":"money","currency":"eur","amount":500}]"#.to_owned(),
        format!(r#""partialEffect":"none","actualImpact":[{}]"#, usd(500)),
    ] {
        says_no(&resolve(&more), 400, "VALIDATION_ERROR", "");
    }
    assert_eq!(shop.home.money(), (0, 12_000, 12_000));
    let settled = resolve(&format!(r#""partialEffect":"confirmed","actualImpact":[{}]"#, usd(500)));
    assert_eq!((settled.status, shop.home.money()), (200, (500, 0, 0)), "{settled:?}");
    let repeat = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
    repeat.assert_own(422, "oncegate_failed");
    assert!(!repeat.reason.contains("nothing was applied"), "{repeat:?}");
    assert!(repeat.reason.contains("may have noted that a part of it was applied"), "{repeat:?}");
}

#[test]
fn the_key_that_asked_never_resolves() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    // The operator's own agent: asked through the proxy, decided through the API.
    let effect = sidecar.agent("ops").refund(None, REFUND).assert_unknown().effect();
    let body = format!(r#"{{"outcome":"failed","reason":"{WHY}"}}"#);
    let path = format!("/actions/effects/{effect}/resolve");
    says_no(&call(&sidecar, "ops", "POST", &path, &body), 403, "AUTHORIZATION_ERROR", "own_request");
    says_no(&call(&sidecar, "billing-agent", "POST", &path, &body), 403, "AUTHORIZATION_ERROR", "");
    let invocation = detail(&sidecar, &effect)["invocationId"].as_str().unwrap().to_owned();
    let path = format!("/actions/invocations/{invocation}/resolve");
    says_no(&call(&sidecar, "ops", "POST", &path, &body), 403, "AUTHORIZATION_ERROR", "own_request");
    assert_eq!(resolve(&shop, &sidecar, &effect, "failed"), 15);
    assert_eq!((shop.home.money(), shop.writes()), ((0, 12_000, 12_000), 1));
}

#[test]
fn notes_are_evidence() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    let noted = ops(&shop.home, &sidecar, &["effect", "note", &effect, "called the bank, they look into it"]);
    assert_eq!(noted.code, 0, "{noted:?}");
    let shown = detail(&sidecar, &effect);
    assert_eq!(kinds(&shown).last(), Some(&"note"), "{shown}");
    assert_eq!(shown["outcome"], "unknown");
    let path = format!("/actions/effects/{effect}/notes");
    for (caller, body, status, code) in [
        ("billing-agent", r#"{"note":"x"}"#, 403, "AUTHORIZATION_ERROR"),
        ("ops", "{}", 400, "VALIDATION_ERROR"),
        ("ops", r#"{"note":" "}"#, 400, "VALIDATION_ERROR"),
    ] {
        says_no(&call(&sidecar, caller, "POST", &path, body), status, code, "");
    }
    let none = call(
        &sidecar,
        "ops",
        "POST",
        "/actions/effects/eff_01ARZ3NDEKTSV4RRFFQ69G5FAV/notes",
        r#"{"note":"x"}"#,
    );
    says_no(&none, 404, "NOT_FOUND", "");
}

#[test]
fn a_named_retry_runs_once_after_a_failure_and_never_else() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let first = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
    let invocation = first.header("oncegate-invocation").unwrap().to_owned();
    retry(&sidecar, &invocation, "refund:ord_1b", REFUND).assert_own(422, "oncegate_unresolved_effect");
    retry(&sidecar, &invocation, "refund:ord_1c", VARIED).assert_own(422, "oncegate_unresolved_effect");
    assert_eq!(shop.writes(), 1, "unknown is resolved first");
    assert_eq!(resolve(&shop, &sidecar, &first.effect(), "failed"), 1);

    let bound = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
    assert_eq!(
        (bound.outcome(), bound.effect()),
        ("failed", first.effect()),
        "a chosen key is bound for life"
    );
    let second = retry(&sidecar, &invocation, "refund:ord_1d", REFUND);
    assert_eq!((second.status, shop.writes()), (200, 2), "{second:?}");
    assert_eq!(detail(&sidecar, &second.effect())["retryOf"], json!(invocation));
    let other = "payment_intent=pi_2&amount=100";
    retry(&sidecar, &invocation, "refund:ord_1e", other).assert_own(403, "oncegate_retry_refused");
    let succeeded = second.header("oncegate-invocation").unwrap().to_owned();
    retry(&sidecar, &succeeded, "refund:ord_1f", other).assert_own(403, "oncegate_retry_refused");
    retry(&sidecar, "inv_01ARZ3NDEKTSV4RRFFQ69G5FAV", "refund:ord_1g", other)
        .assert_own(403, "oncegate_retry_refused");
    retry(&sidecar, "nonsense", "refund:ord_1h", other).assert_own(400, "oncegate_invalid_input");
    assert_eq!(shop.writes(), 2);
}

#[test]
fn a_call_that_is_sent_again_under_its_key_is_made_once() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    let path = format!("/actions/effects/{effect}/notes");
    let note = |key, body: &str| call_under(&sidecar, "ops", Some(key), ("POST", path.as_str(), body));
    let first = note(KEYS[0], r#"{"note":"called the bank"}"#);
    let again = note(KEYS[0], r#"{"note":"called the bank"}"#);
    assert_eq!((again.status, &again.body), (200, &first.body), "{again:?}");
    assert_eq!(again.header("x-idempotent-replay"), Some("recorded"));
    let other = note(KEYS[0], r#"{"note":"called nobody"}"#);
    says_no(&other, 409, "idempotency_key_reuse", "");
    let notes = |shown: &serde_json::Value| kinds(shown).iter().filter(|kind| **kind == "note").count();
    assert_eq!(notes(&detail(&sidecar, &effect)), 1);
    assert_eq!(note(KEYS[1], r#"{"note":"called the bank"}"#).status, 200);
    assert_eq!(notes(&detail(&sidecar, &effect)), 2, "another key is another call");

    let path = format!("/actions/effects/{effect}/replay");
    let replay = || call_under(&sidecar, "ops", Some(KEYS[1]), ("POST", path.as_str(), ""));
    shop.books.lose(1);
    assert_eq!(replay().json()["data"]["outcome"], "unknown");
    assert_eq!(replay().json()["data"]["outcome"], "unknown");
    assert_eq!(shop.writes(), 2, "one dispatch, one replay");
}
