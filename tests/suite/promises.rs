//! The promises of DESIGN section 1, each in a test with its name: P1 to P5.

use std::thread;

use oncegate_tests::{
    agent::Ask,
    conf::stripe_conf,
    dead::Refusing,
    gate::Gate,
    script::{Act, Reply, When},
    wait::until,
};
use serde_json::{Value, json};

use crate::shop::{KEYS, REFUND, Shop};

#[test]
fn p1_record_before_send() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    // The provider acts at the head of the request, and waits: what another process reads then was there before.
    let gate = Gate::default();
    shop.provider.on_write(Reply::json("200 OK", "{}").at(When::Head).after(&gate));
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    tunnel.start(&Ask::refund(REFUND));
    shop.provider.record().wait_for("the head", |all| !all.is_empty());
    let rows = shop.home.unresolved();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(json!([rows[0]["stage"], rows[0]["amount"]]), json!(["dispatching", 12_000]));
    assert_eq!(shop.home.money(), (0, 12_000, 0), "held before the first byte");
    gate.open();
    assert_eq!(tunnel.answer().unwrap().outcome(), "succeeded");
}

#[test]
fn p2_sent_at_most_once() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    shop.provider.on_write(Reply::lost().after(&gate));
    let agents: Vec<_> = (0..16)
        .map(|_| {
            let agent = sidecar.billing();
            thread::spawn(move || agent.refund(None, REFUND))
        })
        .collect();
    shop.provider.record().wait_writes(1);
    gate.open();
    let answers: Vec<_> = agents.into_iter().map(|agent| agent.join().unwrap()).collect();
    let effects: Vec<String> = answers.iter().map(|answer| answer.assert_unknown().effect()).collect();
    assert!(effects.iter().all(|effect| *effect == effects[0]), "one effect: {effects:?}");
    sidecar.kill9();
    let sidecar = shop.home.serve();
    for key in KEYS {
        sidecar.billing().refund(Some(key), REFUND).assert_unknown();
    }
    assert_eq!(sidecar.stop(), 0);
    let sidecar = shop.home.serve();
    sidecar.billing().refund(None, REFUND).assert_unknown();
    assert_eq!(shop.writes(), 1, "sixteen agents, four repeats, two restarts");
    assert_eq!(shop.home.money(), (0, 12_000, 12_000));
}

#[test]
fn p3_unknown_is_not_failed() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let endings = [
        Reply::lost(),
        Reply::reset(),
        Reply::json("500 Internal Server Error", r#"{"error":{"message":"failed, nothing was done"}}"#),
        Reply::json("502 Bad Gateway", "<html>"),
        Reply::raw("HTTP/1.1 402 Payment Required\r\nContent-Length: 90\r\n\r\n{\"error\"").then(Act::Close),
    ];
    let mut effects = Vec::new();
    for (number, ending) in endings.into_iter().enumerate() {
        shop.provider.on_write(ending);
        let answer = sidecar.billing().refund(None, &format!("payment_intent=pi_{number}&amount=1000"));
        effects.push(answer.assert_unknown().effect());
    }
    // Looking and finding nothing, as often as one likes, is not failed either; nor is a list that breaks.
    for effect in &effects {
        assert_eq!(sidecar.reconcile(&shop.home, "ops", effect).code, 13);
    }
    shop.provider.on_read(Reply::json("404 Not Found", r#"{"error":{"code":"resource_missing"}}"#));
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &effects[0]).code, 13);
    shop.provider.on_read(Reply::reset());
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &effects[0]).code, 13);
    sidecar.kill9();
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &effects[1]).code, 13);
    assert_eq!(shop.home.money(), (0, 5_000, 5_000));
    assert_eq!((shop.home.unresolved().len(), shop.writes()), (5, 5));
}

#[test]
fn p4_never_left_means_failed() {
    let nobody = Refusing::default();
    let shop = Shop::open_with(|_| stripe_conf(nobody.addr()));
    let sidecar = shop.home.serve();
    let chosen = Some("refund:ord_1");
    let failed = sidecar.billing().refund(chosen, REFUND);
    failed.assert_own(422, "oncegate_not_sent");
    assert_eq!(failed.outcome(), "failed");
    let effect = shop.home.effect(&failed.effect());
    assert_eq!(
        json!([effect["stage"], effect["outcome"], effect["grade"]]),
        json!(["settled", "failed", "failed"])
    );
    assert_eq!(shop.home.money(), (0, 0, 0), "the hold is released");
    assert_eq!(shop.home.unresolved(), Vec::<Value>::new());
    // Under the same chosen key it stays what it was; without one, the next try is a new one and goes through.
    let repeat = sidecar.billing().refund(chosen, REFUND);
    repeat.assert_own(422, "oncegate_not_sent");
    assert_eq!(repeat.effect(), failed.effect());
    drop(sidecar);
    shop.home.write(&stripe_conf(shop.provider.addr()).text());
    let sidecar = shop.home.serve();
    let next = sidecar.billing().refund(None, REFUND);
    assert_eq!((next.status, next.outcome()), (200, "succeeded"), "{next:?}");
    assert_ne!(next.effect(), failed.effect());
    assert_eq!((shop.writes(), shop.home.money()), (1, (12_000, 0, 0)));
}

#[test]
fn p5_the_hold_holds() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    // Ten refunds of 120 dollars at once, against 500 dollars a day: four fit.
    let gate = Gate::default();
    for _ in 0..4 {
        shop.provider.on_write(Reply::lost().after(&gate));
    }
    let agents: Vec<_> = (0..10)
        .map(|number| {
            let agent = sidecar.billing();
            thread::spawn(move || agent.refund(None, &format!("payment_intent=pi_{number}&amount=12000")))
        })
        .collect();
    shop.provider.record().wait_writes(4);
    until("six refusals", || Some(()).filter(|()| agents.iter().filter(|a| a.is_finished()).count() == 6));
    assert_eq!(shop.home.money(), (0, 48_000, 0), "held while in flight");
    gate.open();
    let answers: Vec<_> = agents.into_iter().map(|agent| agent.join().unwrap()).collect();
    let (held, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.outcome() == "unknown");
    assert_eq!((held.len(), refused.len(), shop.writes()), (4, 6, 4));
    for answer in refused {
        answer.assert_refused(403, "oncegate_limit_exceeded");
    }
    assert_eq!(shop.home.money(), (0, 48_000, 48_000));
    sidecar.kill9();
    let sidecar = shop.home.serve();
    assert_eq!(shop.home.money(), (0, 48_000, 48_000), "across a restart");
    let over = sidecar.billing().refund(None, "payment_intent=pi_x&amount=2001");
    over.assert_refused(403, "oncegate_limit_exceeded");
    let fits = sidecar.billing().refund(None, "payment_intent=pi_x&amount=2000");
    assert_eq!((fits.status, shop.home.money()), (200, (2_000, 48_000, 48_000)), "{fits:?}");
}
