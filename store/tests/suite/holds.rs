//! How a hold ends: as what, for how much, and in which period.

use oncegate_policy::impact::Dimension;
use oncegate_policy::limit::Period;
use oncegate_policy::reconcile::Looker;
use oncegate_store::replay::Replaying;
use oncegate_store::resolve::{Resolution, ResolvedAs};

use crate::support::{DAY, HOUR, Memory, NOON, answered, caller, limit, lost, matched, not_sent, seen, usd};

/// It was written last on the next day: there it counts.
#[tokio::test]
async fn a_replay_is_consumed_in_the_period_in_which_it_was_sent() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    let tomorrow = NOON.plus(DAY);
    let mut new = memory.refund("pi_1", 6_000);
    new.replay_until = Some(tomorrow.plus(HOUR));
    let unknown = memory.unknown(new, NOON).await;
    let begun = memory.store.begin_replay(&unknown.id, &caller("ops"), |_| Ok(()), tomorrow).await.unwrap();
    let Replaying::Granted { permit, .. } = begun else { panic!("{begun:?}") };
    memory.store.record_replay(permit.spend(), seen(&answered(200)), tomorrow.plus(DAY)).await.unwrap();
    for (day, consumed) in [(NOON, 0), (tomorrow, 6_000), (tomorrow.plus(DAY), 0)] {
        assert_eq!(memory.used("cap", day).await.0, consumed);
    }
}

/// Of a replay that never left nothing was written: not when there was no connection, and not when whoever was to send it
/// had gone before. One that may have left counts.
#[tokio::test]
async fn p5_a_replay_that_never_left_moves_no_success_to_another_day() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    let tomorrow = NOON.plus(DAY);
    for (subject, ends, day) in
        [("pi_1", Some(not_sent()), NOON), ("pi_2", None, NOON), ("pi_3", Some(lost()), tomorrow)]
    {
        let mut new = memory.refund(subject, 1_000);
        new.replay_until = Some(tomorrow.plus(HOUR));
        let unknown = memory.unknown(new, NOON).await;
        let before = memory.used("cap", day).await.0;
        let begun =
            memory.store.begin_replay(&unknown.id, &caller("ops"), |_| Ok(()), tomorrow).await.unwrap();
        let Replaying::Granted { permit, .. } = begun else { panic!("{begun:?}") };
        match ends {
            Some(exchange) => {
                memory.store.record_replay(permit.spend(), seen(&exchange), tomorrow).await.unwrap();
            }
            None => {
                drop(permit);
                memory.store.sweep(tomorrow).await.unwrap();
            }
        }
        memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, tomorrow).await.unwrap();
        assert_eq!(memory.used("cap", day).await.0, before + 1_000, "{subject}");
    }
}

#[tokio::test]
async fn a_hold_ends_as_consumed_or_released() {
    let memory = Memory::new();
    let euros = Dimension::Money { currency: "eur".into() };
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    let word = |outcome, actual_impact| Resolution {
        outcome,
        reason: "looked it up in the dashboard".into(),
        partial_effect: None,
        actual_impact,
        external_reference: None,
    };
    for (amount, ends, state, consumed) in [
        (100, Ok(200), "consumed", 100),
        (0, Ok(200), "consumed", 0),
        (100, Ok(402), "released", 0),
        (0, Ok(402), "released", 0),
        (100, Err(word(ResolvedAs::Succeeded, vec![])), "consumed", 100),
        (100, Err(word(ResolvedAs::Succeeded, vec![(usd(), 30)])), "consumed", 30),
        (100, Err(word(ResolvedAs::Succeeded, vec![(usd(), 0)])), "released", 0),
        (100, Err(word(ResolvedAs::Succeeded, vec![(euros.clone(), 30)])), "consumed", 100),
        (100, Err(word(ResolvedAs::Failed, vec![(euros, 30), (usd(), 40)])), "consumed", 40),
        (100, Err(word(ResolvedAs::Failed, vec![])), "released", 0),
    ] {
        let new = memory.refund(&format!("pi_{}", memory.fresh()), amount);
        let id = match ends {
            Ok(status) => {
                let (permit, _) = memory.granted(new, NOON).await;
                memory.record(permit.spend(), &answered(status), NOON).await.id
            }
            Err(resolution) => {
                let unknown = memory.unknown(new, NOON).await;
                memory.store.resolve(&unknown.id, &caller("ops"), resolution, NOON).await.unwrap();
                unknown.id
            }
        };
        let holds = memory.store.effect(&id).await.unwrap().unwrap().reservations;
        let [hold] = holds.as_slice() else { panic!("{holds:?}") };
        assert_eq!((hold.amount, hold.ended_at), (amount, Some(NOON)));
        assert_eq!((hold.state.as_str(), hold.consumed), (state, Some(consumed)));
    }
    assert_eq!(memory.used("cap", NOON).await, (370, 0, 0, 9_630));
}
