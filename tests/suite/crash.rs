//! The process is killed at each step of a refund, started again on the same folder, and has sent at most once.

use oncegate_tests::{
    binary::{Build, oncegate},
    sidecar::{Sidecar, finish},
    wait::until,
};
use serde_json::json;

use crate::shop::{REFUND, Shop, VARIED};

/// A refund during which the process aborts at a failpoint; then the sidecar as it is shipped, on the same folder.
#[track_caller]
fn crash_at(shop: &Shop, point: &str) -> Sidecar {
    let failpoint = format!("{point}=abort");
    let mut doomed = shop.home.serve_with(Build::Failpoints, &[("ONCEGATE_FAILPOINT", &failpoint)]);
    let mut tunnel = doomed.billing().tunnel("api.stripe.com");
    tunnel.start(&oncegate_tests::agent::Ask::refund(REFUND));
    assert_eq!(doomed.ended(), -1, "it is to die by a signal; log: {}", doomed.log());
    assert!(tunnel.answer().is_err(), "nobody was told anything");
    shop.home.serve()
}

/// What holds after a crash that came after the commit: unknown, held, and a repeat is not sent.
#[track_caller]
fn unknown_and_held(shop: &Shop, sidecar: &Sidecar) -> String {
    let effects = shop.home.effects();
    assert_eq!(effects.len(), 1, "{effects:?}");
    let id = effects[0]["id"].as_str().unwrap().to_owned();
    shop.home.wait_outcome(&id, "unknown");
    assert_eq!(shop.home.money(), (0, 12_000, 12_000));
    let rows = shop.home.unresolved();
    assert_eq!(json!([rows[0]["id"], rows[0]["stage"]]), json!([id, "reconciling"]), "{rows:?}");
    let before = shop.writes();
    let again = sidecar.billing().refund(None, REFUND);
    again.assert_unknown();
    assert_eq!(again.effect(), id);
    sidecar.billing().refund(None, VARIED).assert_own(422, "oncegate_unresolved_effect");
    assert_eq!(shop.writes(), before, "nothing more was sent");
    id
}

/// The read-back finds the refund that was made.
#[track_caller]
fn settles(shop: &Shop, sidecar: &Sidecar, id: &str) {
    let looked = sidecar.reconcile(&shop.home, "ops", id);
    assert_eq!(looked.code, 0, "{looked:?}");
    assert_eq!(shop.home.effect(id)["grade"], "confirmed");
    assert_eq!(shop.home.money(), (12_000, 0, 0));
    let again = sidecar.billing().refund(None, REFUND);
    assert_eq!((again.status, again.json()), (200, shop.books.refunds()[0].clone()), "{again:?}");
    assert_eq!((shop.writes(), shop.books.refunds().len()), (1, 1), "refunded once");
}

#[test]
fn before_commit() {
    let shop = Shop::open();
    let sidecar = crash_at(&shop, "before_commit");
    assert_eq!(shop.writes(), 0, "no byte before the commit");
    assert_eq!(shop.home.effects(), Vec::<serde_json::Value>::new());
    assert_eq!(shop.home.money(), (0, 0, 0));
    let again = sidecar.billing().refund(None, REFUND);
    assert_eq!((again.status, again.outcome()), (200, "succeeded"), "{again:?}");
    assert_eq!((shop.writes(), shop.home.money()), (1, (12_000, 0, 0)));
}

#[test]
fn after_commit() {
    let shop = Shop::open();
    let sidecar = crash_at(&shop, "after_commit");
    assert_eq!(shop.writes(), 0, "before the first byte");
    let id = unknown_and_held(&shop, &sidecar);
    let looked = sidecar.reconcile(&shop.home, "ops", &id);
    assert_eq!(looked.code, 13, "nothing found is not failed: {looked:?}");
    assert_eq!((shop.home.money(), shop.writes()), ((0, 12_000, 12_000), 0));
}

#[test]
fn after_send() {
    let shop = Shop::open();
    let sidecar = crash_at(&shop, "after_send");
    shop.provider.record().wait_writes(1);
    let id = unknown_and_held(&shop, &sidecar);
    settles(&shop, &sidecar, &id);
}

#[test]
fn before_record() {
    let shop = Shop::open();
    let sidecar = crash_at(&shop, "before_record");
    assert_eq!(shop.writes(), 1);
    let id = unknown_and_held(&shop, &sidecar);
    settles(&shop, &sidecar, &id);
}

#[test]
fn failpoints_are_listed_and_not_shipped() {
    let mut listing = std::process::Command::new(oncegate(Build::Failpoints));
    listing.arg("failpoints");
    let done = finish(listing);
    assert_eq!(done.code, 0, "{done:?}");
    for point in ["before_commit", "after_commit", "after_send", "before_record"] {
        assert!(done.out.contains(point), "{point} is not in {}", done.out);
    }
    let shop = Shop::open();
    assert_eq!(shop.home.run(&["failpoints"]).code, 2, "no such command as shipped");
    let sidecar = shop.home.serve_with(Build::Plain, &[("ONCEGATE_FAILPOINT", "after_send=abort")]);
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
}

#[test]
fn kill_9_while_the_answer_is_awaited() {
    let shop = Shop::open();
    let gate = oncegate_tests::gate::Gate::default();
    let sidecar = shop.home.serve();
    shop.provider.on_write(oncegate_tests::script::Reply::json("200 OK", "{}").after(&gate));
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    tunnel.start(&oncegate_tests::agent::Ask::refund(REFUND));
    shop.provider.record().wait_writes(1);
    assert_eq!(shop.home.money(), (0, 12_000, 0), "in flight: held, and not yet unknown");
    sidecar.kill9();
    assert_eq!(shop.home.unresolved()[0]["stage"], "dispatching", "as the dead process left it");
    let sidecar = shop.home.serve();
    unknown_and_held(&shop, &sidecar);
    gate.open();
    until("one write still", || Some(()).filter(|()| shop.writes() == 1));
}

#[test]
fn one_sidecar_per_database() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let second = shop.home.try_serve(Build::Plain, &[]);
    let refused = second.err().expect("a second one on the same folder does not serve");
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("oncegate.db"), "it names the database: {}", refused.err);
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200, "the first goes on");
}
