//! A store that works only when it is told to.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use oncegate_policy::id::EffectId;
use oncegate_policy::limit::Period;
use oncegate_store::admit::Admitted;
use oncegate_store::{Hand, Store, StoreError, Trouble};

use crate::support::{Memory, NOON, limit, options, owner};

pub(crate) fn poll<F: Future>(asked: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    asked.poll(&mut Context::from_waker(Waker::noop()))
}

/// What is asked, done at once.
pub(crate) fn done<T>(hand: &mut Hand, asked: impl Future<Output = T>) -> T {
    let mut asked = pin!(asked);
    loop {
        if let Poll::Ready(got) = poll(asked.as_mut()) {
            return got;
        }
        assert!(hand.commit(1) + hand.read(1) > 0, "it waits for nothing");
    }
}

/// A store by hand, and an ordinary one beside it to make requests with.
pub(crate) fn by_hand() -> (Memory, Store, Hand) {
    let memory = Memory::new();
    let path = memory.folder.path().join("hand.db");
    let (store, mut hand) = Store::open_by_hand(options(path), owner(2), NOON).unwrap();
    done(&mut hand, store.sync_limits(vec![limit("cap", Period::Day, 150)], NOON)).unwrap();
    (memory, store, hand)
}

#[test]
fn nothing_is_done_before_the_hand_does_it() {
    let (memory, store, mut hand) = by_hand();
    let mut first = pin!(store.admit(memory.refund("pi_1", 100), NOON));
    let mut second = pin!(store.admit(memory.refund("pi_2", 100), NOON));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    assert_eq!((hand.verbs(), hand.reads()), (2, 0));
    assert!(poll(first.as_mut()).is_pending(), "time alone does nothing");
    // In one commit, and still one after the other: the second one finds no room.
    assert_eq!(hand.commit(2), 2);
    assert!(matches!(poll(first.as_mut()), Poll::Ready(Ok(Admitted::Granted { .. }))));
    assert!(matches!(poll(second.as_mut()), Poll::Ready(Ok(Admitted::Refused(_)))));
}

#[test]
fn what_waits_when_the_hand_is_dropped_never_happens() {
    let (memory, store, hand) = by_hand();
    let new = memory.refund("pi_1", 100);
    let id = new.effect.clone();
    {
        let mut asked = pin!(store.admit(new, NOON));
        assert!(poll(asked.as_mut()).is_pending());
        drop(hand);
    }
    drop(store);
    let path = memory.folder.path().join("hand.db");
    let (store, mut hand) = Store::open_by_hand(options(path), owner(3), NOON).unwrap();
    assert!(done(&mut hand, store.effect(&id)).unwrap().is_none());
}

/// As with the threads of an ordinary store: the log starts over from time to time.
#[test]
fn the_log_stays_short() {
    let (memory, store, mut hand) = by_hand();
    let log = memory.folder.path().join("hand.db-wal");
    let (mut written, mut longest, mut before) = (0, 0, 0);
    for number in 0..200 {
        let mut new = memory.refund(&format!("pi_{number}"), 1);
        new.impact = None;
        assert!(matches!(done(&mut hand, store.admit(new, NOON)), Ok(Admitted::Granted { .. })));
        let pages = store.stats().log_pages;
        written += if pages > before { pages - before } else { pages };
        longest = longest.max(pages);
        before = pages;
    }
    assert!(written > 1_000, "{written} pages are too few to tell");
    assert!(longest < 600, "{longest} of {written} pages in the log");
    assert!(log.metadata().unwrap().len() < 600 * 4_200);
}

/// Effects that are dispatched and that nobody will finish, in the order in which they were made.
fn left(memory: &Memory, store: &Store, hand: &mut Hand, count: usize) -> Vec<EffectId> {
    let mut asked: Vec<_> = (0..count)
        .map(|number| {
            let mut new = memory.refund(&format!("pi_{number}"), 1);
            new.impact = None;
            (new.effect.clone(), Box::pin(store.admit(new, NOON)))
        })
        .collect();
    assert!(asked.iter_mut().all(|(_, admission)| poll(admission.as_mut()).is_pending()));
    while hand.commit(count) > 0 {}
    // Each permit is dropped at once.
    let granted = |answer| matches!(answer, Poll::Ready(Ok(Admitted::Granted { .. })));
    assert!(asked.iter_mut().all(|(_, admission)| granted(poll(admission.as_mut()))));
    asked.into_iter().map(|(id, _)| id).collect()
}

/// One transaction ends 500 at most, and a sweep as many as there are.
#[test]
fn a_sweep_ends_however_many_were_left() {
    let (memory, store, mut hand) = by_hand();
    let left = left(&memory, &store, &mut hand, 501);
    assert_eq!(done(&mut hand, store.sweep(NOON)).unwrap(), left);
    assert_eq!(done(&mut hand, store.sweep(NOON)).unwrap(), []);
}

/// One effect that cannot be ended keeps no other from it. A disk that is full keeps all of them from it, and says so.
#[test]
fn a_sweep_goes_on_behind_one_fault_and_stops_at_a_full_disk() {
    for fills in [false, true] {
        let (memory, store, mut hand) = by_hand();
        let mut left = left(&memory, &store, &mut hand, 200);
        let spoilt = left.remove(0);
        let shell = rusqlite::Connection::open(memory.folder.path().join("hand.db")).unwrap();
        shell
            .execute_batch(&format!(
                "CREATE TRIGGER no BEFORE INSERT ON event WHEN NEW.effect = '{spoilt}' BEGIN SELECT RAISE(ABORT, 'no'); END"
            ))
            .unwrap();
        let mut sweep = pin!(store.sweep(NOON));
        // All of them together, which fails; then what there is; then each.
        for _ in 0..2 {
            assert!(poll(sweep.as_mut()).is_pending());
            assert_eq!(hand.commit(1), 1);
        }
        hand.fill_disk(fills).unwrap();
        let swept = done(&mut hand, sweep);
        match fills {
            false => assert_eq!(swept.unwrap(), left),
            true => assert!(swept.is_err(), "{swept:?}"),
        }
    }
}

/// None of them would fare better alone.
#[test]
fn a_sweep_that_finds_the_disk_full_tries_nothing_one_by_one() {
    let (memory, store, mut hand) = by_hand();
    let left = left(&memory, &store, &mut hand, 200);
    hand.fill_disk(true).unwrap();
    {
        let mut sweep = pin!(store.sweep(NOON));
        assert!(poll(sweep.as_mut()).is_pending());
        assert_eq!(hand.commit(1), 1);
        assert!(matches!(poll(sweep.as_mut()), Poll::Ready(Err(_))));
    }
    hand.fill_disk(false).unwrap();
    assert_eq!(done(&mut hand, store.sweep(NOON)).unwrap(), left);
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let (memory, store, mut hand) = by_hand();
    let new = memory.refund("pi_held", 100);
    let Admitted::Granted { permit, effect } = done(&mut hand, store.admit(new, NOON)).unwrap() else {
        panic!("there is room");
    };
    hand.fill_disk(true).unwrap();
    let mut refused = 0;
    for number in 0..200 {
        let mut new = memory.refund(&format!("pi_{number}"), 1);
        new.impact = None;
        match done(&mut hand, store.admit(new, NOON)) {
            Ok(Admitted::Granted { .. }) => {}
            Ok(other) => panic!("{other:?}"),
            Err(StoreError::Failed { .. } | StoreError::Commit { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 100, "only {refused} of 200");
    assert_eq!(store.stats().trouble, Some(Trouble::Full));
    assert_eq!(done(&mut hand, store.trouble()), None, "what changes nothing needs no room");
    hand.fill_disk(false).unwrap();
    assert_eq!(permit.effect(), &effect.id);
    assert!(matches!(
        done(&mut hand, store.admit(memory.refund("pi_new", 50), NOON)),
        Ok(Admitted::Granted { .. })
    ));
    assert_eq!(done(&mut hand, store.verify_chain()).unwrap().fault, None);
}
