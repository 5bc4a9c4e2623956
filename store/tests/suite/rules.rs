//! The database refuses by itself, tried with raw SQL.

use oncegate_policy::limit::Period;
use rusqlite::Connection;

use crate::support::{Memory, NOON, answered, limit, with_key};

fn refuses(shell: &Connection, statement: &str) {
    let said = shell.execute_batch(statement);
    assert!(said.is_err(), "the database allowed: {statement}");
}

/// Effect 1 is settled, 2 unknown, 3 dispatching.
async fn three() -> Memory {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    let (permit, _) = memory.granted(with_key(memory.refund("pi_1", 600), "k1"), NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
    memory.unknown(memory.refund("pi_2", 600), NOON).await;
    let (permit, _) = memory.granted(memory.refund("pi_3", 600), NOON).await;
    drop(permit);
    memory
}

#[tokio::test]
async fn a_second_dispatch() {
    let memory = three().await;
    let shell = memory.shell();
    for effect in 1..=3 {
        refuses(
            &shell,
            &format!(
                "INSERT INTO attempt (id, effect, kind, run, started_at) VALUES ('att_x', {effect}, 'dispatch', 1, 0)"
            ),
        );
    }
    refuses(
        &shell,
        "UPDATE attempt SET kind = 'dispatch', ended_at = 1, seen = 'lost' WHERE kind <> 'dispatch'; SELECT RAISE",
    );
}

#[tokio::test]
async fn a_stage_going_backwards() {
    let memory = three().await;
    let shell = memory.shell();
    let settled = "result = NULL, verification = NULL, settled_at = NULL";
    for statement in [
        &format!("UPDATE effect SET stage = 'reconciling', unknown_since = 1, {settled} WHERE key = 1"),
        &format!("UPDATE effect SET stage = 'dispatching', run = 1, {settled} WHERE key = 1"),
        "UPDATE effect SET result = 'failed' WHERE key = 1",
        "UPDATE effect SET verification = 'manual' WHERE key = 1",
        "UPDATE effect SET settled_at = 1 WHERE key = 1",
        "UPDATE effect SET stage = 'dispatching', run = 1, unknown_since = NULL, next_look_at = NULL WHERE key = 2",
        "UPDATE effect SET stage = 'ready', approval = 'apr_1', claimed_at = NULL, unknown_since = NULL, next_look_at = NULL WHERE key = 2",
        "UPDATE effect SET stage = 'rejected', rejection = 'denied', rejected_at = 1, run = NULL, claimed_at = NULL WHERE key = 3",
        "UPDATE effect SET stage = 'gone' WHERE key = 3",
        "DELETE FROM effect WHERE key = 1",
    ] {
        refuses(&shell, statement);
    }
}

#[tokio::test]
async fn a_stage_without_what_belongs_to_it() {
    let memory = three().await;
    let shell = memory.shell();
    for statement in [
        "UPDATE effect SET stage = 'settled' WHERE key = 2",
        "UPDATE effect SET stage = 'settled', next_look_at = NULL, result = 'confirmed', verification = 'unverified', settled_at = 1 WHERE key = 2",
        "UPDATE effect SET next_look_at = 5 WHERE key = 1",
        "UPDATE effect SET run = NULL WHERE key = 3",
        "UPDATE effect SET stage = 'reconciling', run = NULL WHERE key = 3",
        "UPDATE effect SET pruned_at = 1 WHERE key = 2",
        "UPDATE effect SET expires_at = 1 WHERE key = 2",
    ] {
        refuses(&shell, statement);
    }
}

#[tokio::test]
async fn an_effect_that_becomes_another() {
    let memory = three().await;
    let shell = memory.shell();
    for change in [
        "id = 'eff_other'",
        "caller = 'other'",
        "action = 'other'",
        "fingerprint = zeroblob(32)",
        "caller_key = 'k2'",
        "provider_key = 'p2'",
        "amount = 1",
        "request_digest = zeroblob(32)",
        "claimed_at = 7",
        "created_at = 7",
    ] {
        refuses(&shell, &format!("UPDATE effect SET {change} WHERE key = 1"));
    }
    // One key, two requests.
    refuses(
        &shell,
        "INSERT INTO effect (id, invocation, caller, action, listener, fingerprint, caller_key, provider_key, can_read_back,
             target, request_digest, created_at, stage, claimed_at, run)
         SELECT 'eff_x', 'inv_x', caller, action, listener, zeroblob(32), caller_key, 'p', 0, target, request_digest, 0,
             'dispatching', 0, 1 FROM effect WHERE key = 1",
    );
}

#[tokio::test]
async fn an_edited_attempt_or_evidence() {
    let memory = three().await;
    let shell = memory.shell();
    for statement in [
        "UPDATE attempt SET verdict = 'failed' WHERE effect = 1",
        "UPDATE attempt SET ended_at = NULL, seen = NULL, verdict = NULL, status = NULL, digest = NULL WHERE effect = 1",
        "DELETE FROM attempt WHERE effect = 1",
        "UPDATE event SET text = 'x' WHERE seq = 2",
        "DELETE FROM event WHERE seq = 2",
        "UPDATE evidence SET text = 'x'",
        "DELETE FROM evidence",
        "UPDATE chain_head SET seq = 0",
        "DELETE FROM chain_head",
    ] {
        refuses(&shell, statement);
    }
}

#[tokio::test]
async fn a_counter_below_zero_and_a_hold_that_ends_twice() {
    let memory = three().await;
    let shell = memory.shell();
    for statement in [
        "UPDATE impact_limit SET reserved = -1",
        "UPDATE impact_limit SET unknown_exposure = -1",
        "UPDATE impact_limit SET unknown_exposure = reserved + 1",
        "UPDATE impact_limit SET reserved = reserved - 100000, unknown_exposure = 0",
        "UPDATE consumption SET amount = -1",
        "DELETE FROM impact_limit",
        "UPDATE hold SET state = 'released', consumed = 0, ended_at = 1 WHERE effect = 1",
        "UPDATE hold SET state = 'held', consumed = NULL, ended_at = NULL WHERE effect = 1",
        "UPDATE hold SET ended_at = 99 WHERE effect = 1",
        // Not before the effect is settled, either.
        "UPDATE hold SET state = 'released', consumed = 0, ended_at = 1 WHERE effect = 2",
        "UPDATE hold SET amount = 1 WHERE effect = 2",
        "DELETE FROM hold WHERE effect = 2",
        "INSERT INTO hold (effect, limit_key, amount, state) SELECT effect, limit_key, amount, 'held' FROM hold WHERE effect = 2",
        "INSERT INTO hold (effect, limit_key, amount, state) VALUES (99, 1, 5, 'held')",
    ] {
        refuses(&shell, statement);
    }
}
