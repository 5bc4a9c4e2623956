//! The evidence chain finds what was changed, removed or reordered, and names the first bad row.

use rusqlite::Connection;

use oncegate_policy::reconcile::Looker;

use crate::support::{Memory, NOON, answered, matched, no_match};

async fn history() -> Memory {
    let memory = Memory::new();
    let (permit, _) = memory.granted(memory.refund("pi_1", 600), NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
    let unknown = memory.unknown(memory.refund("pi_2", 600), NOON).await;
    memory.store.apply_finding(&unknown.id, no_match(), Looker::Schedule, NOON).await.unwrap();
    memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, NOON).await.unwrap();
    memory.unknown(memory.refund("pi_3", 600), NOON).await;
    memory
}

/// A hand that knows how to drop triggers.
fn forge(memory: &Memory, statements: &str) {
    let shell: Connection = memory.shell();
    // And the checks, too.
    shell.pragma_update(None, "ignore_check_constraints", true).unwrap();
    shell
        .execute_batch(
            "DROP TRIGGER event_fixed; DROP TRIGGER event_stays; DROP TRIGGER effect_moves;
             DROP TRIGGER chain_head_grows;",
        )
        .unwrap();
    shell.execute_batch(statements).unwrap();
}

#[tokio::test]
async fn an_untouched_chain_is_whole() {
    let report = history().await.store.verify_chain().await.unwrap();
    assert_eq!((report.rows, report.fault), (8, None));
}

#[tokio::test]
async fn each_way_of_tampering_is_named() {
    for (statements, seq, what) in [
        ("UPDATE event SET text = 'nothing happened' WHERE seq = 4", 4, "changed"),
        ("UPDATE event SET at = at + 1 WHERE seq = 1", 1, "changed"),
        ("UPDATE event SET detail = '{}' WHERE seq = 3", 3, "changed"),
        ("UPDATE event SET author = NULL WHERE seq = 2", 2, "changed"),
        ("DELETE FROM event WHERE seq = 3", 3, "missing"),
        ("DELETE FROM event WHERE seq = 1", 1, "missing"),
        ("DELETE FROM event WHERE seq = 8", 9 - 1, "end of the chain"),
        ("UPDATE event SET hash = x'00' WHERE seq = 4", 4, "changed"),
        ("UPDATE event SET prev_hash = x'' WHERE seq = 5", 5, "the row before it"),
        ("UPDATE event SET text = CAST(x'ff' AS TEXT) WHERE seq = 4", 4, "cannot be read"),
        ("UPDATE chain_head SET hash = x'00'", 9, "end of the chain"),
        ("DROP TRIGGER chain_head_stays; DELETE FROM chain_head", 9, "end of the chain"),
        (
            "UPDATE event SET seq = 100 WHERE seq = 3; UPDATE event SET seq = 3 WHERE seq = 4;
             UPDATE event SET seq = 4 WHERE seq = 100",
            3,
            "the row before it",
        ),
        (
            "UPDATE effect SET result = 'failed' WHERE id LIKE '%1' AND stage = 'settled'",
            2,
            "was last recorded as settled acknowledged unverified and stands as settled failed unverified",
        ),
        (
            "DELETE FROM event WHERE seq > 5; UPDATE chain_head SET seq = 5, hash = (SELECT hash FROM event WHERE seq = 5)",
            4,
            "stands as settled confirmed provider",
        ),
    ] {
        let memory = history().await;
        forge(&memory, statements);
        let fault = memory.store.verify_chain().await.unwrap().fault;
        let fault = fault.unwrap_or_else(|| panic!("not found: {statements}"));
        assert!(fault.seq == seq && fault.what.contains(what), "{statements}: {fault:?}");
    }
}
