//! Counters that many verbs of one commit move: read once, written once, and right whatever fails beside them.

use std::pin::pin;
use std::task::Poll;

use oncegate_policy::impact::Dimension;
use oncegate_policy::limit::Period;
use oncegate_policy::reconcile::Looker;
use oncegate_policy::refusal::Code;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::look::Found;
use oncegate_store::{Hand, Store, StoreError};
use rusqlite::Connection;

use crate::by_hand::{by_hand, done, poll};
use crate::support::{Memory, NOON, answered, limit, lost, matched, seen};

/// What became of each, all of them in one commit.
fn together(store: &Store, hand: &mut Hand, asked: Vec<NewEffect>) -> Vec<Result<Admitted, StoreError>> {
    let count = asked.len();
    let mut admissions: Vec<_> = asked.into_iter().map(|new| Box::pin(store.admit(new, NOON))).collect();
    assert!(admissions.iter_mut().all(|admission| poll(admission.as_mut()).is_pending()));
    assert_eq!(hand.commit(count), count);
    admissions
        .into_iter()
        .map(|mut admission| match poll(admission.as_mut()) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("it is committed"),
        })
        .collect()
}

fn word(answer: &Result<Admitted, StoreError>) -> String {
    match answer {
        Ok(Admitted::Granted { .. }) => "granted".to_owned(),
        Ok(Admitted::Refused(refusal)) => refusal.code.word().to_owned(),
        Ok(Admitted::Repeat(_) | Admitted::Parked(_)) => "something else".to_owned(),
        Err(_) => "failed".to_owned(),
    }
}

fn shell(memory: &Memory) -> Connection {
    Connection::open(memory.folder.path().join("hand.db")).unwrap()
}

fn counters(memory: &Memory, name: &str) -> (i64, i64) {
    let statement = "SELECT reserved, unknown_exposure FROM impact_limit WHERE name = ?1";
    shell(memory).query_row(statement, [name], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

#[test]
fn a_neighbour_that_fails_takes_nothing_back_and_leaves_nothing() {
    let (memory, store, mut hand) = by_hand();
    shell(&memory)
        .execute_batch("CREATE TRIGGER no BEFORE INSERT ON room WHEN NEW.amount = 7 BEGIN SELECT RAISE(ABORT, 'no'); END")
        .unwrap();
    let asked = [50, 7, 60, 50].map(|amount| memory.refund(&format!("pi_{}", memory.ids.get()), amount));
    let answers = together(&store, &mut hand, asked.into());
    let words: Vec<_> = answers.iter().map(word).collect();
    assert_eq!(words, ["granted", "failed", "granted", "limit_exceeded"]);
    assert_eq!(counters(&memory, "cap"), (110, 0));
    let asked = [40, 1].map(|amount| memory.refund(&format!("pi_{}", memory.ids.get()), amount));
    let words: Vec<_> = together(&store, &mut hand, asked.into()).iter().map(word).collect();
    assert_eq!(words, ["granted", "limit_exceeded"]);
    assert_eq!(counters(&memory, "cap"), (150, 0));
}

/// The counters as they are known within a commit, after a job that had moved them and then failed: neighbours find the
/// room that there is, to the cent.
#[test]
fn what_a_failed_job_had_moved_is_moved_back_for_its_neighbours() {
    for (exchange, kind) in [(answered(200), "answered"), (answered(402), "answered"), (lost(), "lost")] {
        let (memory, store, mut hand) = by_hand();
        let granted = done(&mut hand, store.admit(memory.refund("pi_1", 50), NOON)).unwrap();
        let Admitted::Granted { permit, effect } = granted else { panic!("there is room") };
        shell(&memory)
            .execute_batch(&format!(
                "CREATE TRIGGER no BEFORE INSERT ON event WHEN NEW.kind = '{kind}' BEGIN SELECT RAISE(ABORT, 'no'); END"
            ))
            .unwrap();
        let mut fails = pin!(store.record(permit.spend(), seen(&exchange), NOON));
        assert!(poll(fails.as_mut()).is_pending());
        let mut asked = [101, 60, 41, 40].map(|amount| {
            Box::pin(store.admit(memory.refund(&format!("pi_{}", memory.fresh()), amount), NOON))
        });
        assert!(asked.iter_mut().all(|admission| poll(admission.as_mut()).is_pending()));
        assert_eq!(hand.commit(5), 5);
        // The claim comes back with it, and goes with it.
        let Poll::Ready(Err(failed)) = poll(fails.as_mut()) else { panic!("it fails") };
        assert!(matches!(failed.error, StoreError::Failed { .. }));
        drop(failed);
        let words = asked.map(|mut admission| match poll(admission.as_mut()) {
            Poll::Ready(answer) => word(&answer),
            Poll::Pending => panic!("it is committed"),
        });
        assert_eq!(words, ["limit_exceeded", "granted", "limit_exceeded", "granted"], "{exchange:?}");
        assert_eq!(counters(&memory, "cap"), (150, 0));
        // All of them were dropped, and the one that failed is as unknown as they are.
        assert_eq!(done(&mut hand, store.sweep(NOON)).unwrap().len(), 3);
        assert_eq!(counters(&memory, "cap"), (150, 150));
        shell(&memory).execute_batch("DROP TRIGGER no").unwrap();
        let found = done(&mut hand, store.apply_finding(&effect.id, matched(), Looker::Schedule, NOON));
        assert!(matches!(found, Ok(Found::Settled(_))), "{found:?}");
        assert_eq!(counters(&memory, "cap"), (100, 100));
    }
}

/// Two limits, of which nothing is known by heart when the commit begins that consumes on both and asks for more.
#[test]
fn what_a_commit_consumes_counts_in_its_own_window_only() {
    let (memory, store, mut hand) = by_hand();
    let limits = vec![limit("cap", Period::Day, 150), limit("month", Period::Month, 150)];
    done(&mut hand, store.sync_limits(limits, NOON)).unwrap();
    let granted = done(&mut hand, store.admit(memory.refund("pi_1", 50), NOON)).unwrap();
    let Admitted::Granted { permit, .. } = granted else { panic!("there is room") };
    // Somebody else wrote: everything is read again.
    shell(&memory)
        .execute_batch("UPDATE impact_limit SET amount = 151; UPDATE impact_limit SET amount = 150")
        .unwrap();
    let mut recorded = pin!(store.record(permit.spend(), seen(&answered(200)), NOON));
    assert!(poll(recorded.as_mut()).is_pending());
    let words: Vec<_> = {
        let mut asked = [101, 100, 1].map(|amount| {
            Box::pin(store.admit(memory.refund(&format!("pi_{}", memory.fresh()), amount), NOON))
        });
        assert!(asked.iter_mut().all(|admission| poll(admission.as_mut()).is_pending()));
        assert_eq!(hand.commit(4), 4);
        asked
            .iter_mut()
            .map(|admission| match poll(admission.as_mut()) {
                Poll::Ready(answer) => word(&answer),
                Poll::Pending => panic!("it is committed"),
            })
            .collect()
    };
    assert_eq!(words, ["limit_exceeded", "granted", "limit_exceeded"]);
    assert!(matches!(poll(recorded.as_mut()), Poll::Ready(Ok(_))));
    for exposure in done(&mut hand, store.exposures(NOON)).unwrap() {
        let usage = (exposure.usage.consumed, exposure.usage.reserved);
        assert_eq!(usage, (50, 100), "{}", exposure.limit.name);
    }
}

#[test]
fn what_another_hand_writes_is_seen_at_once() {
    let (memory, store, mut hand) = by_hand();
    let mut ask =
        |subject: &str, amount| word(&done(&mut hand, store.admit(memory.refund(subject, amount), NOON)));
    assert_eq!(ask("pi_1", 50), "granted");
    shell(&memory).execute_batch("UPDATE impact_limit SET amount = 60").unwrap();
    assert_eq!(ask("pi_2", 20), "limit_exceeded");
    assert_eq!(ask("pi_3", 10), "granted");
    shell(&memory).execute_batch("INSERT INTO halt (reason, by, at) VALUES ('by hand', 'ops', 1)").unwrap();
    assert_eq!(ask("pi_4", 0), Code::Halted.word());
    shell(&memory).execute_batch("UPDATE halt SET lifted_by = 'ops', lifted_at = 2").unwrap();
    assert_eq!(ask("pi_5", 0), "granted");
}

#[test]
fn limits_that_change_in_the_same_commit_count_what_came_before_and_after() {
    for fails in [false, true] {
        let (memory, store, mut hand) = by_hand();
        if fails {
            shell(&memory)
                .execute_batch(
                    "CREATE TRIGGER no BEFORE INSERT ON impact_limit BEGIN SELECT RAISE(ABORT, 'no'); END",
                )
                .unwrap();
        }
        let limits = vec![limit("cap", Period::Day, 150), limit("other", Period::Total, 1_000)];
        let mut before = pin!(store.admit(memory.refund("pi_1", 50), NOON));
        let mut change = pin!(store.sync_limits(limits, NOON));
        let mut after = pin!(store.admit(memory.refund("pi_2", 100), NOON));
        assert!(poll(before.as_mut()).is_pending() && poll(change.as_mut()).is_pending());
        assert!(poll(after.as_mut()).is_pending());
        assert_eq!(hand.commit(3), 3);
        let Poll::Ready(Ok(Admitted::Granted { permit, .. })) = poll(before.as_mut()) else { panic!("room") };
        assert!(matches!(poll(change.as_mut()), Poll::Ready(changed) if changed.is_err() == fails));
        assert!(matches!(poll(after.as_mut()), Poll::Ready(Ok(Admitted::Granted { .. }))));
        assert_eq!(counters(&memory, "cap"), (150, 0));
        if !fails {
            assert_eq!(counters(&memory, "other"), (150, 0));
        }
        done(&mut hand, store.record(permit.spend(), seen(&answered(200)), NOON)).unwrap();
        assert_eq!(counters(&memory, "cap"), (100, 0));
        let refused = done(&mut hand, store.admit(memory.refund("pi_3", 1), NOON));
        assert_eq!(word(&refused), "limit_exceeded", "what was consumed counts");
    }
}

/// Counters that another hand has spoilt are the trouble of those who need them, and of nobody else.
#[test]
fn spoilt_counters_fail_alone() {
    let (memory, store, mut hand) = by_hand();
    let granted = done(&mut hand, store.admit(memory.refund("pi_1", 100), NOON)).unwrap();
    let Admitted::Granted { permit, .. } = granted else { panic!("there is room") };
    shell(&memory).execute_batch("UPDATE impact_limit SET reserved = 0").unwrap();
    let mut other = memory.refund("pi_2", 1);
    other.impact = None;
    let mut spoilt = pin!(store.record(permit.spend(), seen(&answered(200)), NOON));
    let mut beside = pin!(store.admit(other, NOON));
    assert!(poll(spoilt.as_mut()).is_pending() && poll(beside.as_mut()).is_pending());
    assert_eq!(hand.commit(2), 2);
    let Poll::Ready(Err(failed)) = poll(spoilt.as_mut()) else { panic!("it fails") };
    assert!(matches!(failed.error, StoreError::Failed { .. }));
    drop(failed);
    let Poll::Ready(Ok(Admitted::Granted { permit, effect })) = poll(beside.as_mut()) else {
        panic!("beside")
    };
    // Nobody finishes either of them. One of them cannot be ended; the other one is.
    drop(permit);
    assert_eq!(done(&mut hand, store.sweep(NOON)).unwrap(), std::slice::from_ref(&effect.id));
    assert_eq!(done(&mut hand, store.sweep(NOON)).unwrap(), []);
    shell(&memory).execute_batch("UPDATE impact_limit SET reserved = 100").unwrap();
    assert_eq!(done(&mut hand, store.sweep(NOON)).unwrap().len(), 1, "once it is mended, too");
}

/// A row that cannot be read any more is the trouble of those who need it, and of nobody else.
#[test]
fn an_unreadable_limit_fails_alone() {
    let (memory, store, mut hand) = by_hand();
    let granted = done(&mut hand, store.admit(memory.refund("pi_1", 100), NOON)).unwrap();
    let Admitted::Granted { permit, .. } = granted else { panic!("there is room") };
    let add = "INSERT INTO impact_limit (id, name, dimension, unit, period, amount, action, created_at, archived_at)
        VALUES ('lim_' || ?1, ?1, 'money', ?2, 'day', 1, 'not an action', 1, ?3)";
    shell(&memory).execute(add, rusqlite::params!["archived", "usd", 1]).unwrap();
    shell(&memory).execute(add, rusqlite::params!["other", "eur", None::<i64>]).unwrap();
    let recorded = done(&mut hand, store.record(permit.spend(), seen(&answered(200)), NOON)).unwrap();
    assert_eq!(recorded.stage.outcome().word(), "succeeded");
    assert_eq!(word(&done(&mut hand, store.admit(memory.refund("pi_2", 10), NOON))), "granted");
    // What it may have been meant for is not let through.
    let mut euros = memory.refund("pi_3", 10);
    if let Some(impact) = &mut euros.impact {
        impact.dimension = Dimension::Money { currency: "eur".into() };
    }
    assert_eq!(word(&done(&mut hand, store.admit(euros, NOON))), "failed");
    assert!(done(&mut hand, store.exposures(NOON)).is_err());
    shell(&memory).execute_batch("UPDATE impact_limit SET archived_at = 1 WHERE name = 'other'").unwrap();
    assert_eq!(done(&mut hand, store.exposures(NOON)).unwrap().len(), 1);
}
