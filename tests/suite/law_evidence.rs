//! The evidence chain finds what was tampered with, and pruning does not break it.

use oncegate_tests::{sidecar::Done, wait::until};
use rusqlite::Connection;
use serde_json::json;

use crate::{
    law::{lost, ops},
    shop::{REFUND, Shop, VARIED},
};

/// A history worth falsifying: an unknown, a success, a refusal.
fn history() -> Shop {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    lost(&shop, &sidecar);
    assert_eq!(sidecar.billing().refund(None, "payment_intent=pi_2&amount=100").status, 200);
    sidecar.billing().refund(None, VARIED).assert_own(422, "oncegate_unresolved_effect");
    let asked = ops(&shop.home, &sidecar, &["audit", "verify", "--json"]);
    assert_eq!((asked.code, &asked.json()["intact"]), (0, &json!(true)), "{asked:?}");
    let read = shop.home.run_on_db(&["audit", "verify", "--json"]);
    assert_eq!((read.code, read.json()), (0, asked.json()), "both say the same");
    assert_eq!(sidecar.cli(&shop.home, "billing-agent", &["audit", "verify"]).code, 15);
    assert_eq!(sidecar.stop(), 0);
    shop
}

/// What somebody with the file, and without scruples, does to it.
fn tamper(shop: &Shop, statement: &str) -> Done {
    let db = Connection::open(shop.home.path("oncegate.db")).unwrap();
    let mut named = db.prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'").unwrap();
    let triggers: Vec<String> = named.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    drop(named);
    assert!(!triggers.is_empty(), "the database refuses by itself while they are there");
    assert!(db.execute_batch(statement).is_err(), "{statement}: refused while the triggers are there");
    db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").unwrap();
    for trigger in triggers {
        db.execute_batch(&format!("DROP TRIGGER \"{trigger}\"")).unwrap();
    }
    db.execute_batch(statement).unwrap();
    drop(db);
    shop.home.run_on_db(&["audit", "verify"])
}

#[track_caller]
fn found(done: &Done, event: &str) {
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.contains(event), "{event} is not named: {done:?}");
}

#[test]
fn a_changed_event() {
    let shop = history();
    found(&tamper(&shop, "UPDATE event SET author = 'somebody' WHERE seq = 2"), "BROKEN at event 2:");
}

#[test]
fn a_changed_hash() {
    let shop = history();
    found(&tamper(&shop, "UPDATE event SET hash = zeroblob(32) WHERE seq = 3"), "BROKEN at event 3:");
}

#[test]
fn a_removed_event() {
    let shop = history();
    found(&tamper(&shop, "DELETE FROM event WHERE seq = 3"), "BROKEN at event 3:");
}

#[test]
fn reordered_events() {
    let shop = history();
    let swap = "UPDATE event SET seq = 1000 WHERE seq = 2; UPDATE event SET seq = 2 WHERE seq = 3; UPDATE event SET seq = 3 WHERE seq = 1000";
    found(&tamper(&shop, swap), "BROKEN at event 2:");
}

#[test]
fn a_cut_tail() {
    let shop = history();
    let count = shop.home.query("SELECT max(seq) AS n FROM event")[0]["n"].as_i64().unwrap();
    let done = tamper(&shop, "DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)");
    found(&done, &format!("BROKEN at event {count}:"));
}

#[test]
fn an_effect_that_stands_elsewhere_than_its_events_say() {
    let shop = history();
    let done = tamper(
        &shop,
        "UPDATE effect SET stage = 'settled', result = 'failed', verification = 'manual', settled_at = 1 WHERE stage = 'reconciling'",
    );
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.contains("was last recorded as reconciling"), "{done:?}");
}

#[test]
fn pruning_takes_the_bulk_and_keeps_keys_unknowns_and_the_chain() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let unknown = lost(&shop, &sidecar);
    let form = "payment_intent=pi_2&amount=100";
    let done = sidecar.billing().refund(Some("refund:ord_2"), form);
    assert_eq!(done.status, 200);
    let theirs = sidecar.cli(&shop.home, "billing-agent", &["prune", "--older-than", "0s"]);
    assert_eq!(theirs.code, 15, "{theirs:?}");
    // It ends within the millisecond that `0s` reaches back to, or just before: asked until it is older than that. The
    // unknown one is never taken, however often it is asked.
    until("the settled effect to be shortened, alone", || {
        let pruned = ops(&shop.home, &sidecar, &["prune", "--older-than", "0s", "--json"]);
        assert_eq!(pruned.code, 0, "{pruned:?}");
        let shortened = pruned.json()["shortened"].clone();
        assert!([json!(0), json!(1)].contains(&shortened), "{pruned:?}");
        (shortened == json!(1)).then_some(())
    });
    // The key is bound for life: what is left is the receipt.
    let repeat = sidecar.billing().refund(Some("refund:ord_2"), form);
    assert_eq!((repeat.outcome(), repeat.effect()), ("succeeded", done.effect()), "{repeat:?}");
    sidecar.billing().refund(Some("refund:ord_2"), REFUND).assert_own(400, "oncegate_key_reuse");
    sidecar.billing().refund(None, REFUND).assert_unknown();
    assert_eq!(shop.writes(), 2);
    assert_eq!(shop.home.money(), (100, 12_000, 12_000), "what was consumed stays consumed");
    assert_eq!(ops(&shop.home, &sidecar, &["audit", "verify"]).code, 0);
    assert_eq!(sidecar.stop(), 0);

    // Without a sidecar the command does it itself.
    let again = shop.home.run(&["prune", "--older-than", "0s", "--json"]);
    assert_eq!((again.code, &again.json()["shortened"]), (0, &json!(0)), "{again:?}");
    assert_eq!(shop.home.run(&["prune", "--older-than", "soon"]).code, 2);
    assert_eq!(shop.home.run_on_db(&["audit", "verify"]).code, 0);
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &unknown).code, 0, "it can still be settled");
    // With a sidecar and no key, the command says what is missing instead of going round it.
    assert_eq!(shop.home.run(&["prune"]).code, 2);
}
