//! The database refuses by itself, tried with raw SQL.

use oncegate_policy::id::{EffectId, InvocationId};
use oncegate_policy::limit::Period;
use oncegate_store::resolve::{Resolution, ResolvedAs};
use rusqlite::Connection;

use crate::support::{Memory, NOON, answered, caller, limit, ulid, with_key};

/// A new invocation without an effect.
fn plain(id: &str, key: &str, status: &str) -> String {
    format!(
        "INSERT INTO plain_invocation (id, caller, action, listener, fingerprint, caller_key, target, created_at, status, run)
         VALUES ('{id}', 'agent', 'ping', 'api', zeroblob(32), {key}, 'POST x', 0, '{status}', 1)"
    )
}

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
    let unknown = EffectId::from_ulid(&ulid(2));
    memory.store.begin_replay(&unknown, &caller("ops"), |_| Ok(()), NOON).await.unwrap();
    assert_eq!(memory.count("attempt WHERE kind = 'replay'"), 1);
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
        "UPDATE attempt SET kind = 'dispatch', ended_at = 1, seen = 'lost' WHERE kind = 'replay'",
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
        // Claimed again, by this run or another one.
        "UPDATE effect SET stage = 'dispatching' WHERE key = 3",
        "UPDATE effect SET stage = 'dispatching', run = 2 WHERE key = 3",
        "UPDATE effect SET run = 2 WHERE key = 3",
        // Nothing was seen of its dispatch.
        "UPDATE effect SET stage = 'reconciling', run = NULL, unknown_since = 1 WHERE key = 3",
        "UPDATE effect SET stage = 'settled', run = NULL, result = 'failed', verification = 'unverified', settled_at = 1 WHERE key = 3",
        "UPDATE effect SET credential = '{}' WHERE key = 2",
        "UPDATE effect SET credential = NULL WHERE key = 2",
        "DELETE FROM effect WHERE key = 1",
        // Not before its attempts, either.
        "UPDATE effect SET pruned_at = 1 WHERE key = 1; DELETE FROM response; DELETE FROM request; DELETE FROM room WHERE effect = 1;
             DELETE FROM effect WHERE key = 1",
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
        "key = 7",
        "rowid = 7",
        "oid = 7",
        "_rowid_ = 7",
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
    // No room for the keys of its attempts.
    let (highest, new) = ((1_i64 << 43) - 1, "'dispatching', 0, 1 FROM effect WHERE key = 1");
    let insert = |key: i64| {
        format!(
            "INSERT INTO effect (key, id, invocation, caller, action, listener, fingerprint, provider_key, can_read_back,
                 target, request_digest, created_at, stage, claimed_at, run)
             SELECT {key}, 'eff_y', 'inv_y', caller, action, listener, zeroblob(32), 'p', 0, target, request_digest, 0, {new}"
        )
    };
    refuses(&shell, &insert(highest + 1));
    shell.execute_batch(&format!("BEGIN; {}; ROLLBACK", insert(highest))).unwrap();
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
        "UPDATE impact_limit SET key = 7",
        "UPDATE hold SET state = 'released', consumed = 0, ended_at = 1 WHERE effect = 1",
        "DELETE FROM hold WHERE effect = 2",
        // The answer has settled it: nobody says how much it was.
        "UPDATE room SET actual = 0 WHERE effect = 1",
        // Not before the effect is settled, either.
        "UPDATE room SET actual = 0 WHERE effect = 2",
        "UPDATE room SET amount = 1 WHERE effect = 2",
        "DELETE FROM room WHERE effect = 2",
        "INSERT INTO room (effect, limit_key, amount) SELECT effect, limit_key, amount FROM room WHERE effect = 2",
        "INSERT INTO room (effect, limit_key, amount) VALUES (99, 1, 5)",
        "INSERT INTO room (effect, limit_key, amount) VALUES (3, 2, 5)",
    ] {
        refuses(&shell, statement);
    }
    let limits = ["cap", "other"].map(|name| limit(name, Period::Day, 10_000));
    memory.store.sync_limits(limits.into(), NOON).await.unwrap();
    // What was open is held by it; what is settled is not.
    assert_eq!(memory.count("hold WHERE limit_key = 2 AND state = 'held'"), 2);
    refuses(&shell, "INSERT INTO room (effect, limit_key, amount) VALUES (1, 2, 5)");
    let word = Resolution {
        outcome: ResolvedAs::Failed,
        reason: "looked it up in the dashboard".into(),
        partial_effect: None,
        actual_impact: vec![],
        external_reference: None,
    };
    let unknown = memory.view(&EffectId::from_ulid(&ulid(2))).await.id;
    memory.store.resolve(&unknown, &caller("ops"), word, NOON).await.unwrap();
    assert_eq!(memory.count("hold WHERE effect = 2 AND state = 'released'"), 2);
    for actual in ["NULL", "0", "5"] {
        refuses(&shell, &format!("UPDATE room SET actual = {actual} WHERE effect = 2 AND limit_key = 1"));
    }
}

/// There are no references from one effect to another, nor to its run: triggers look for what is named.
#[tokio::test]
async fn an_effect_that_names_what_is_not_there() {
    let memory = three().await;
    let shell = memory.shell();
    let (eff, inv) = (|number| format!("'eff_{}'", ulid(number)), |number| format!("'inv_{}'", ulid(number)));
    let insert = |id: &str, invocation: &str, run: i64, names: [&str; 3]| {
        let [retry_of, retried_by, compensates] = names;
        format!(
            "INSERT INTO effect (id, invocation, caller, action, listener, fingerprint, provider_key, can_read_back,
                 target, request_digest, created_at, stage, claimed_at, run, retry_of, retried_by, compensates)
             SELECT {id}, {invocation}, caller, action, listener, zeroblob(32), 'p', 0, target, request_digest, 0,
                 'dispatching', 0, {run}, {retry_of}, {retried_by}, {compensates} FROM effect WHERE key = 1"
        )
    };
    let none = ["NULL"; 3];
    for statement in [
        insert(&eff(8), &inv(8), 7, none),
        insert(&eff(8), &inv(1), 1, none),
        insert(&eff(8), &inv(8), 1, [&inv(9), "NULL", "NULL"]),
        insert(&eff(8), &inv(8), 1, ["NULL", &inv(1), "NULL"]),
        insert(&eff(8), &inv(8), 1, ["NULL", "NULL", &eff(9)]),
        "DELETE FROM run".to_owned(),
        "UPDATE run SET key = 7".to_owned(),
        "UPDATE effect SET retried_by = 'inv_x' WHERE key = 1".to_owned(),
        format!("UPDATE effect SET compensates = {} WHERE key = 2", eff(1)),
    ] {
        refuses(&shell, &statement);
    }
    // An invocation that is not called as its effect is there once as well, and both are found.
    let own = inv(7);
    shell.execute_batch(&insert(&eff(8), &own, 1, [&inv(1), "NULL", &eff(3)])).unwrap();
    for statement in [
        insert(&eff(9), &own, 1, none),
        insert(&eff(7), &own, 1, none),
        insert(&eff(9), &inv(9), 1, [&inv(1), "NULL", "NULL"]),
        format!("UPDATE effect SET retried_by = {} WHERE key = 1", inv(3)),
        plain(own.trim_matches('\''), "NULL", "running"),
        plain(inv(1).trim_matches('\''), "NULL", "running"),
    ] {
        refuses(&shell, &statement);
    }
    shell.execute_batch(&format!("UPDATE effect SET retried_by = {own} WHERE key = 1")).unwrap();
    shell.execute_batch(&insert(&eff(9), &inv(9), 1, [&own, "NULL", "NULL"])).unwrap();
    for (invocation, effect) in [(1, 1), (7, 8)] {
        let found = memory.store.effect_of(&InvocationId::from_ulid(&ulid(invocation))).await.unwrap();
        assert_eq!(found.unwrap().view.id, EffectId::from_ulid(&ulid(effect)));
    }
}

#[tokio::test]
async fn a_preview_used_twice_or_by_another() {
    let memory = three().await;
    let shell = memory.shell();
    shell
        .execute_batch(
            "INSERT INTO preview (id, caller, action, basis, fingerprint, input, document, created_at, expires_at)
             VALUES ('prv_1', 'agent', 'refund', zeroblob(32), zeroblob(32), '{}', '{}', 0, 100),
                 ('prv_2', 'agent', 'refund', zeroblob(32), zeroblob(32), '{}', '{}', 0, 100)",
        )
        .unwrap();
    let effect = |changed: &str| {
        format!(
            "INSERT INTO effect (id, invocation, caller, action, listener, fingerprint, provider_key, can_read_back,
                 target, request_digest, created_at, stage, claimed_at, run, preview)
             SELECT {changed} FROM (SELECT 'eff_x' AS id, 'inv_x' AS invocation, caller, action, target, request_digest,
                 5 AS at, 'prv_1' AS preview FROM effect WHERE key = 1)"
        )
    };
    let columns = |caller: &str, action: &str, at: &str, preview: &str| {
        effect(&format!(
            "id, invocation, {caller}, {action}, 'api', zeroblob(32), 'p', 0, target, request_digest, {at}, 'dispatching', {at}, 1, {preview}"
        ))
    };
    for statement in [
        &columns("'other'", "action", "at", "preview"),
        &columns("caller", "'other'", "at", "preview"),
        &columns("caller", "action", "100", "preview"),
        &columns("caller", "action", "at", "'prv_3'"),
        "UPDATE preview SET used_by = 1",
        "UPDATE effect SET preview = 'prv_1' WHERE key = 1",
        "INSERT INTO preview (id, caller, action, basis, fingerprint, input, document, created_at, expires_at, superseded_at)
             VALUES ('prv_4', 'agent', 'refund', zeroblob(32), zeroblob(32), '{}', '{}', 0, 100, 1)",
    ] {
        refuses(&shell, statement);
    }
    shell.execute_batch(&columns("caller", "action", "at", "preview")).unwrap();
    shell
        .execute_batch(
            "UPDATE preview SET used_by = (SELECT key FROM effect WHERE id = 'eff_x') WHERE id = 'prv_1'",
        )
        .unwrap();
    shell.execute_batch("UPDATE preview SET superseded_at = 7 WHERE id = 'prv_2'").unwrap();
    let again =
        columns("caller", "action", "at", "preview").replace("eff_x", "eff_y").replace("inv_x", "inv_y");
    for statement in [
        &again,
        &again.replace("prv_1", "prv_2"),
        "UPDATE preview SET used_by = NULL WHERE id = 'prv_1'",
        "UPDATE preview SET basis = randomblob(32)",
        "UPDATE preview SET expires_at = 1000",
        "UPDATE preview SET document = '1'",
        "UPDATE preview SET document = 'null', input = 'null' WHERE id = 'prv_1'",
        "UPDATE preview SET superseded_at = NULL WHERE id = 'prv_2'",
        "DELETE FROM preview WHERE id = 'prv_1'",
    ] {
        refuses(&shell, statement);
    }
    shell.execute_batch("DELETE FROM preview WHERE id = 'prv_2'").unwrap();
}

#[tokio::test]
async fn an_invocation_without_an_effect_that_ends_twice_or_by_the_wrong_word() {
    let memory = three().await;
    let shell = memory.shell();
    for id in ["inv_a", "inv_b", "inv_c"] {
        shell.execute_batch(&plain(id, &format!("'{id}'"), "running")).unwrap();
    }
    let own: String =
        shell.query_row("SELECT invocation FROM effect WHERE key = 1", [], |row| row.get(0)).unwrap();
    let ended = "run = NULL, ended_at = 1, seen = 'lost'";
    shell
        .execute_batch(&format!("UPDATE plain_invocation SET status = 'unknown', {ended} WHERE id = 'inv_b'"))
        .unwrap();
    shell
        .execute_batch(&format!("UPDATE plain_invocation SET status = 'failed', {ended} WHERE id = 'inv_c'"))
        .unwrap();
    let word = "resolved_as = 'succeeded', resolved_at = 2, evidence = 'seen'";
    for statement in [
        &plain("inv_d", "'inv_a'", "running"),
        &plain("inv_d", "NULL", "succeeded"),
        &plain("inv_d", "NULL", "unknown"),
        &plain(&own, "NULL", "running"),
        &plain("eff_d", "NULL", "running"),
        "UPDATE plain_invocation SET status = 'succeeded' WHERE id = 'inv_a'",
        &format!(
            "UPDATE plain_invocation SET status = 'succeeded', {ended}, {word}, resolved_by = 'ops' WHERE id = 'inv_a'"
        ),
        "UPDATE plain_invocation SET status = 'succeeded' WHERE id = 'inv_b'",
        "UPDATE plain_invocation SET status = 'running', run = 1, ended_at = NULL, seen = NULL WHERE id = 'inv_b'",
        &format!("UPDATE plain_invocation SET {word}, resolved_by = 'ops' WHERE id = 'inv_b'"),
        &format!(
            "UPDATE plain_invocation SET status = 'failed', {word}, resolved_by = 'ops' WHERE id = 'inv_b'"
        ),
        // Who asked does not decide.
        &format!(
            "UPDATE plain_invocation SET status = 'succeeded', {word}, resolved_by = 'agent' WHERE id = 'inv_b'"
        ),
        &format!("UPDATE plain_invocation SET status = 'succeeded', {word} WHERE id = 'inv_b'"),
        &format!(
            "UPDATE plain_invocation SET status = 'succeeded', {word}, resolved_by = 'ops' WHERE id = 'inv_c'"
        ),
        "UPDATE plain_invocation SET status = 'succeeded' WHERE id = 'inv_c'",
        "UPDATE plain_invocation SET ended_at = 9 WHERE id = 'inv_c'",
        "UPDATE plain_invocation SET seen = 'not_sent' WHERE id = 'inv_c'",
        "UPDATE plain_invocation SET caller = 'ops' WHERE id = 'inv_b'",
        "UPDATE plain_invocation SET fingerprint = randomblob(32) WHERE id = 'inv_c'",
        "UPDATE plain_invocation SET caller_key = NULL WHERE id = 'inv_c'",
        "UPDATE plain_invocation SET pruned_at = 1 WHERE id = 'inv_b'",
        "DELETE FROM plain_invocation WHERE id = 'inv_c'",
        "DELETE FROM plain_invocation WHERE id = 'inv_b'",
    ] {
        refuses(&shell, statement);
    }
    let settle = format!(
        "UPDATE plain_invocation SET status = 'succeeded', {word}, resolved_by = 'ops' WHERE id = 'inv_b'"
    );
    shell.execute_batch(&settle).unwrap();
    for statement in [
        "UPDATE plain_invocation SET evidence = 'other' WHERE id = 'inv_b'",
        "UPDATE plain_invocation SET status = 'failed', resolved_as = 'failed' WHERE id = 'inv_b'",
        "UPDATE plain_invocation SET resolved_by = 'boss' WHERE id = 'inv_b'",
    ] {
        refuses(&shell, statement);
    }
}
