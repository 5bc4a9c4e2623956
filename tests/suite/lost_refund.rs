//! The whole thread: the answer to a refund is lost, and the customer is refunded exactly once.

use oncegate_tests::{answer::unknown_sentence, conf::CREDENTIAL};
use serde_json::json;

use crate::shop::{KEYS, REFUND, Shop, VARIED};

#[test]
fn lost_refund() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let agent = sidecar.billing();
    shop.books.lose(1);

    let lost = agent.refund(Some(KEYS[0]), REFUND);
    lost.assert_unknown();
    let effect = lost.effect();
    assert_eq!(lost.json()["error"]["code"], "oncegate_outcome_unknown");
    assert_eq!(lost.json()["error"]["message"], unknown_sentence(&effect));
    assert!(lost.header("oncegate-invocation").unwrap().starts_with("inv_"));

    let again = agent.refund(Some(KEYS[1]), REFUND);
    again.assert_unknown();
    assert_eq!(again.effect(), effect);

    let varied = agent.refund(Some(KEYS[2]), VARIED);
    varied.assert_own(422, "oncegate_unresolved_effect");
    assert_eq!(varied.json()["error"]["code"], "oncegate_unresolved_effect");
    assert!(varied.text().contains(&effect), "it names the open effect: {}", varied.text());
    assert_eq!(shop.writes(), 1, "neither reached the provider");

    open_effect_is_shown(&shop, &effect);
    assert_eq!(shop.home.money(), (0, 12_000, 12_000));

    let looked = sidecar.reconcile(&shop.home, "ops", &effect);
    assert_eq!(looked.code, 0, "{looked:?}");
    let settled = sidecar.cli(&shop.home, "ops", &["effect", "show", &effect, "--json"]).json();
    assert_eq!(
        json!([settled["stage"], settled["outcome"], settled["grade"], settled["verification"]]),
        json!(["settled", "succeeded", "confirmed", "provider"]),
    );
    assert_eq!(shop.home.money(), (12_000, 0, 0));
    assert_eq!(shop.home.unresolved(), Vec::<serde_json::Value>::new());

    let last = agent.refund(Some(KEYS[2]), REFUND);
    assert_eq!((last.status, last.reason.as_str()), (200, "OK (recorded; not sent again)"), "{last:?}");
    assert_eq!(last.header("x-idempotent-replay"), Some("current-state"));
    assert_eq!((last.outcome(), last.effect()), ("succeeded", effect));
    let made = &shop.books.refunds();
    assert_eq!(last.json(), made[0], "the provider's own object");
    assert_eq!((made.len(), shop.writes()), (1, 1), "refunded exactly once");
}

fn open_effect_is_shown(shop: &Shop, effect: &str) {
    let rows = shop.home.unresolved();
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = &rows[0];
    assert_eq!(
        json!([row["id"], row["stage"], row["action"], row["amount"], row["unit"]]),
        json!([effect, "reconciling", "refund", 12_000, "usd"]),
    );
    assert!(row["subject"].as_str().unwrap().contains("pi_3Pabc"), "{row}");
    assert!(row["age_s"].as_i64().is_some_and(|age| (0..600).contains(&age)), "{row}");
    assert!(!row["next_look_at"].is_null() && !row["last_evidence"].is_null(), "{row}");
}

#[test]
fn what_the_provider_got() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let answer = sidecar.billing().refund(Some(KEYS[0]), REFUND);
    assert_eq!((answer.status, answer.outcome()), (200, "succeeded"), "{answer:?}");

    let writes = shop.provider.record().writes();
    let sent = &writes[0];
    assert_eq!(sent.head.field("authorization"), Some(format!("Bearer {CREDENTIAL}").as_str()));
    let key = sent.head.field("idempotency-key").expect("a provider key");
    assert_ne!(key, KEYS[0], "the effect's own key, not the agent's");
    assert_eq!(sent.head.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case("idempotency-key")).count(), 1);
    assert_eq!(sent.head.field("proxy-authorization"), None);
    assert_eq!(sent.head.field("content-length").unwrap(), sent.body.len().to_string());
    let input = oncegate_tests::stripe::form(&sent.text());
    assert_eq!(input["metadata"]["oncegate_effect"], answer.effect());
    assert_eq!((&input["amount"], &input["payment_intent"]), (&json!("12000"), &json!("pi_3Pabc")));
}

#[test]
fn a_declared_key_outlives_the_library_s_keys() {
    let declared = "operation_key = \"refund:{{input.metadata.order_id}}\"";
    let shop = Shop::open_with(|at| {
        oncegate_tests::conf::Conf::default().stripe_host(at).refund(declared).daily_limit(50_000)
    });
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let order = format!("{REFUND}&metadata[order_id]=ord_4417");
    let lost = sidecar.billing().refund(Some(KEYS[0]), &order);
    lost.assert_unknown();
    // Another caller of the action meets the same declared key.
    let other = sidecar.agent("ops").refund(Some(KEYS[1]), &order);
    other.assert_unknown();
    assert_eq!(other.effect(), lost.effect());
    let varied = sidecar.billing().refund(Some(KEYS[2]), &format!("{VARIED}&metadata[order_id]=ord_4417"));
    assert_ne!(varied.status, 200);
    assert!(["oncegate_key_reuse", "oncegate_unresolved_effect"].contains(&varied.code()), "{varied:?}");
    assert_eq!(shop.writes(), 1);
}

#[test]
fn a_refund_without_an_amount_holds_what_is_left() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let lost = sidecar.billing().refund(None, "payment_intent=pi_3Pabc");
    lost.assert_unknown();
    assert_eq!(shop.home.money(), (0, 50_000, 50_000), "the payment was 500 dollars");
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &lost.effect()).code, 0);
    assert_eq!(shop.home.money(), (50_000, 0, 0));
    assert_eq!(shop.writes(), 1);
}

#[test]
fn the_read_back_pages_to_the_end() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let lost = sidecar.billing().refund(None, REFUND);
    lost.assert_unknown();
    for _ in 0..230 {
        shop.books.made_elsewhere("pi_3Pabc", 12_000);
    }
    let looked = sidecar.reconcile(&shop.home, "ops", &lost.effect());
    assert_eq!(looked.code, 0, "{looked:?}");
    assert_eq!(shop.home.effect(&lost.effect())["grade"], "confirmed");
    let pages =
        shop.provider.record().requests().iter().filter(|r| r.target.contains("starting_after")).count();
    assert!(pages >= 2, "231 refunds take at least three pages");
}

#[test]
fn a_scheduled_look_settles_it_without_being_asked() {
    let shop = Shop::open_with(|at| {
        let mut conf = oncegate_tests::conf::stripe_conf(at);
        conf.first_after = "1s".into();
        conf
    });
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let lost = sidecar.billing().refund(None, REFUND);
    lost.assert_unknown();
    let settled = shop.home.wait_outcome(&lost.effect(), "succeeded");
    assert_eq!((&settled["grade"], shop.writes()), (&json!("confirmed"), 1));
    assert_eq!(shop.home.money(), (12_000, 0, 0));
}

/// What only shapes the answer does not make another refund.
#[test]
fn expanding_the_answer_is_the_same_refund() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(None, REFUND);
    let again = sidecar.billing().refund(None, &format!("{REFUND}&expand[]=charge"));
    assert_eq!((first.status, again.status, again.effect()), (200, 200, first.effect()), "{again:?}");
    assert_eq!(shop.writes(), 1);
}
