//! What grows without end, or further than a number goes, stops nobody.

use oncegate_policy::id::{AttemptId, EffectId};
use oncegate_policy::limit::Period;
use oncegate_policy::reconcile::Looker;
use oncegate_store::StoreError;
use oncegate_store::admit::Admitted;
use oncegate_store::error::Fault;
use oncegate_store::look::Found;
use oncegate_store::resolve::{Resolution, Resolved, ResolvedAs};

use crate::support::{DAY, Memory, NOON, answered, caller, limit, matched, no_match, seen, ulid, usd, word};

fn attempt_with_number(memory: &Memory, number: i64) {
    let statement = "INSERT INTO attempt (key, id, effect, kind, author, run, started_at, ended_at, seen)
        SELECT (key << 20) + ?1, ?2, key, 'reconcile', 'agent', 1, 1, 1, 'no_match' FROM effect";
    let id = AttemptId::from_ulid(&ulid(memory.fresh()));
    memory.shell().execute(statement, rusqlite::params![number, id.as_str()]).unwrap();
}

/// Whoever may invoke may ask for looks again and again.
#[tokio::test]
async fn looks_without_end_use_up_nothing_that_decides() {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 100), NOON).await;
    attempt_with_number(&memory, 4_096);
    let attempts = memory.count("attempt");
    for looker in [Looker::Caller("agent".into()), Looker::Schedule] {
        let found = memory.store.apply_finding(&unknown.id, no_match(), looker, NOON).await.unwrap();
        assert!(matches!(found, Found::StillUnknown(_)), "{found:?}");
    }
    assert_eq!((memory.count("attempt"), memory.count("event WHERE kind = 'looked'")), (attempts, 2));
    assert_eq!(memory.view(&unknown.id).await.looks, 1, "the schedule goes on");

    attempt_with_number(&memory, (1 << 20) - 1);
    let replay = memory.store.begin_replay(&unknown.id, &caller("ops"), |_| Ok(()), NOON).await;
    assert!(
        matches!(replay, Err(StoreError::Failed { fault: Fault::NoMoreAttempts { .. }, .. })),
        "{replay:?}"
    );
    let found = memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, NOON).await.unwrap();
    assert!(matches!(&found, Found::Settled(view) if word(view).0 == "succeeded"), "{found:?}");
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

/// The key of the newest effect is free again once that one is pruned. Whoever still held it has no word on another.
#[tokio::test]
async fn a_late_answer_is_never_taken_for_that_of_the_next_effect() {
    let memory = Memory::new();
    let (permit, first) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let late = permit.spend();
    memory.store.mark_unknown(&late, "no answer", NOON).await.unwrap();
    resolve(&memory, &first.id, 100).await;
    let long_after = NOON.plus(800 * DAY);
    assert_eq!(memory.store.prune(Some(long_after), long_after).await.unwrap().removed, 1);

    let (_permit, second) = memory.granted(memory.refund("pi_2", 100), long_after).await;
    assert_eq!(memory.count("effect WHERE key = 1"), 1, "the key is used again");
    let marked = memory.store.mark_unknown(&late, "no answer", long_after).await;
    assert!(matches!(marked, Err(StoreError::Failed { fault: Fault::Gone { .. }, .. })), "{marked:?}");
    let recorded = memory.store.record(late, seen(&answered(200)), long_after).await;
    let failed = recorded.map_err(|failed| failed.error);
    assert!(matches!(failed, Err(StoreError::Failed { fault: Fault::Gone { .. }, .. })), "{failed:?}");
    assert_eq!(memory.view(&second.id).await.stage.word(), "dispatching");
}

async fn resolve(memory: &Memory, id: &EffectId, actual: i64) {
    let resolution = Resolution {
        outcome: ResolvedAs::Succeeded,
        reason: "the bank's statement says so".into(),
        partial_effect: None,
        actual_impact: vec![(usd(), actual)],
        external_reference: None,
    };
    let resolved = memory.store.resolve(id, &caller("ops"), resolution, NOON).await.unwrap();
    assert!(matches!(resolved, Resolved::Done(_)), "{resolved:?}");
}

/// A person may have mistyped it. Whatever succeeds afterwards is still recorded.
#[tokio::test]
async fn a_counter_that_is_full_refuses_and_nothing_else() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Month, 10_000)], NOON).await.unwrap();
    let (permit, _) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let unknown = memory.unknown(memory.refund("pi_2", 100), NOON).await;
    resolve(&memory, &unknown.id, i64::MAX).await;
    let view = memory.record(permit.spend(), &answered(200), NOON).await;
    assert_eq!(word(&view).0, "succeeded");
    assert_eq!(memory.used("cap", NOON).await, (i64::MAX, 0, 0, 10_000 - i64::MAX));
    let refused = memory.store.admit(memory.refund("pi_3", 1), NOON).await.unwrap();
    assert!(matches!(refused, Admitted::Refused(_)), "{refused:?}");

    // Another day of the same month, and then the days are added up for another period.
    let yesterday = NOON.minus(DAY);
    let shell = memory.shell();
    let day =
        "INSERT INTO consumption SELECT limit_key, period, ?1, amount FROM consumption WHERE period = 'day'";
    shell.execute(day, [Period::Day.start(yesterday).0]).unwrap();
    let said = memory.store.sync_limits(vec![limit("cap", Period::Total, 10_000)], NOON).await.unwrap();
    assert_eq!(said.len(), 1);
    assert_eq!(memory.exposure("cap", NOON).await.usage.consumed, i64::MAX);
}

/// Nobody asked whether they fit when there was no limit.
#[tokio::test]
async fn a_limit_that_covers_more_than_it_can_count_is_full() {
    let memory = Memory::new();
    let (permit, _) = memory.granted(memory.refund("pi_1", i64::MAX), NOON).await;
    let unknown = memory.unknown(memory.refund("pi_2", i64::MAX), NOON).await;
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    assert_eq!(memory.exposure("cap", NOON).await.usage.reserved, i64::MAX);
    let refused = memory.store.admit(memory.refund("pi_3", 1), NOON).await.unwrap();
    assert!(matches!(refused, Admitted::Refused(_)), "{refused:?}");
    // And both end as any other.
    memory.record(permit.spend(), &answered(402), NOON).await;
    memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, NOON).await.unwrap();
    assert_eq!(memory.exposure("cap", NOON).await.usage.reserved, 0);
}

/// They lie in the order of their effects, and those before them may stay for long.
#[tokio::test]
async fn old_answers_behind_many_that_stay_are_erased() {
    let memory = Memory::new();
    let (permit, _) = memory.granted(memory.refund("pi_1", 1), NOON).await;
    memory.record(permit.spend(), &answered(500), NOON).await;
    let many = "WITH RECURSIVE number (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM number WHERE n < 1100)
        INSERT INTO effect (id, invocation, caller, action, listener, fingerprint, provider_key, can_read_back, target,
            request_digest, created_at, stage, claimed_at, run)
        SELECT 'eff_' || n, 'inv_' || n, caller, action, listener, randomblob(32), n, 0, target, request_digest,
            created_at, 'dispatching', claimed_at, 1 FROM effect JOIN number WHERE key = 1;
        INSERT INTO response SELECT key, claimed_at, 'dispatch', 500, NULL, '[]', x'' FROM effect WHERE key > 1";
    memory.shell().execute_batch(many).unwrap();
    let month_on = NOON.plus(31 * DAY);
    for (subject, at) in [("pi_2", NOON), ("pi_3", month_on)] {
        let (permit, _) = memory.granted(memory.refund(subject, 1), at).await;
        memory.record(permit.spend(), &answered(200), at).await;
    }
    assert_eq!(memory.store.prune(None, month_on).await.unwrap().responses, 1);
    assert_eq!(memory.count("response"), 1_102);
    assert_eq!(memory.store.prune(None, month_on).await.unwrap().responses, 0);
}
