//! The right to send, as values. A permit exists only because a claim was committed; spending it gives the claim
//! that the outcome is recorded with. Neither can be copied, so one committed claim is at most one send.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncegate_policy::id::{EffectId, InvocationId};

use crate::error::StoreError;
use crate::holds::Room;
use crate::view::EffectView;

/// The right to send one effect's request once.
#[must_use = "a permit that is dropped leaves an effect that the sweep will call unknown"]
#[derive(Debug)]
pub struct DispatchPermit {
    claimed: Claimed,
}

/// A spent permit: what the outcome is recorded with.
#[must_use = "a claim that is dropped leaves an effect that the sweep will call unknown"]
#[derive(Debug)]
pub struct Claim {
    pub(crate) claimed: Claimed,
}

/// The right to send one effect's request again, once, under the provider's key.
#[must_use = "a permit that is dropped leaves an open replay that the sweep will close as never sent"]
#[derive(Debug)]
pub struct ReplayPermit {
    claimed: Claimed,
}

/// A spent replay permit.
#[must_use = "a claim that is dropped leaves an open replay that the sweep will close"]
#[derive(Debug)]
pub struct ReplayClaim {
    pub(crate) claimed: Claimed,
}

impl DispatchPermit {
    /// Called once per committed claim, by the verbs that wait for the commit.
    pub(crate) fn of_committed(claimed: Claimed) -> Self {
        Self { claimed }
    }

    /// The effect that may be sent.
    #[must_use]
    pub fn effect(&self) -> &EffectId {
        &self.claimed.effect
    }

    /// Gives the right up for the send that follows.
    pub fn spend(self) -> Claim {
        Claim { claimed: self.claimed }
    }
}

impl Claim {
    /// The effect that was sent.
    #[must_use]
    pub fn effect(&self) -> &EffectId {
        &self.claimed.effect
    }
}

impl ReplayPermit {
    /// Called once per committed replay, by the verb that waits for the commit.
    pub(crate) fn of_committed(claimed: Claimed) -> Self {
        Self { claimed }
    }

    /// The effect that may be sent again.
    #[must_use]
    pub fn effect(&self) -> &EffectId {
        &self.claimed.effect
    }

    /// Gives the right up for the send that follows.
    pub fn spend(self) -> ReplayClaim {
        self.claimed.held.spent();
        ReplayClaim { claimed: self.claimed }
    }
}

impl ReplayClaim {
    /// The effect that was sent again.
    #[must_use]
    pub fn effect(&self) -> &EffectId {
        &self.claimed.effect
    }
}

/// The right to send the request of one invocation without an effect once.
#[must_use = "a permit that is dropped leaves an invocation that the sweep will call unknown"]
#[derive(Debug)]
pub struct PlainPermit {
    claimed: PlainClaimed,
}

/// A spent permit: what the outcome of an invocation without an effect is recorded with.
#[must_use = "a claim that is dropped leaves an invocation that the sweep will call unknown"]
#[derive(Debug)]
pub struct PlainClaim {
    pub(crate) claimed: PlainClaimed,
}

impl PlainPermit {
    /// Called once per committed invocation, by the verb that waits for the commit.
    pub(crate) fn of_committed(claimed: PlainClaimed) -> Self {
        Self { claimed }
    }

    /// The invocation that may be sent.
    #[must_use]
    pub fn invocation(&self) -> &InvocationId {
        &self.claimed.invocation
    }

    /// Gives the right up for the send that follows.
    pub fn spend(self) -> PlainClaim {
        PlainClaim { claimed: self.claimed }
    }
}

impl PlainClaim {
    /// The invocation that was sent.
    #[must_use]
    pub fn invocation(&self) -> &InvocationId {
        &self.claimed.invocation
    }
}

/// An outcome that could not be written down, and what it may be tried again with: for as long as somebody holds this,
/// no sweep calls what was sent interrupted.
#[must_use = "dropped, it leaves what the sweep will call unknown, whatever was seen"]
#[derive(Debug, thiserror::Error)]
#[error("an outcome could not be recorded")]
pub struct Unrecorded<C: std::fmt::Debug> {
    /// A [`Claim`], [`ReplayClaim`] or [`PlainClaim`].
    pub claim: C,
    /// Why not.
    #[source]
    pub error: StoreError,
}

impl<C: std::fmt::Debug> Unrecorded<C> {
    pub(crate) fn of(claim: C, error: StoreError) -> Box<Self> {
        Box::new(Self { claim, error })
    }
}

/// An effect as it was claimed: so it is for as long as it says `dispatching`, and need not be read again.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) view: EffectView,
    pub(crate) room: Room,
}

/// One open attempt of this run.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) effect: EffectId,
    pub(crate) attempt: i64,
    pub(crate) remembered: Option<Box<Remembered>>,
    held: Held,
}

impl Claimed {
    /// With the effect that it was made for, and the room that this has taken.
    pub(crate) fn remembering(self, view: &EffectView, room: Room) -> Self {
        Self { remembered: Some(Box::new(Remembered { view: view.clone(), room })), ..self }
    }
}

/// One running invocation without an effect, of this run.
#[derive(Debug)]
pub(crate) struct PlainClaimed {
    pub(crate) invocation: InvocationId,
    pub(crate) key: i64,
    _held: Held,
}

impl PlainClaimed {
    /// Called inside the transaction that inserts it.
    pub(crate) fn new(living: &Living, invocation: InvocationId, key: i64) -> Self {
        Self { invocation, key, _held: living.hold(key) }
    }
}

/// With whoever holds the claim; gone when that one is gone, however it ended.
#[derive(Debug)]
struct Held {
    /// Whether a permit to replay was spent: from then on a byte may have left.
    spent: Arc<AtomicBool>,
}

impl Held {
    fn spent(&self) {
        self.spent.store(true, Ordering::SeqCst);
    }
}

/// Which open rows of this run somebody still holds. A claim whose holder panicked or was cancelled must not stay
/// `dispatching` until the next start: the sweep asks here.
#[derive(Debug, Default)]
pub(crate) struct Living {
    /// Each with one holder beside this one while somebody holds it.
    rows: Mutex<HashMap<i64, Arc<AtomicBool>>>,
}

impl Living {
    /// Registers an attempt; called inside the transaction that inserts it, so that no sweep can come between.
    pub(crate) fn claim(&self, effect: EffectId, attempt: i64) -> Claimed {
        Claimed { effect, attempt, remembered: None, held: self.hold(attempt) }
    }

    fn hold(&self, row: i64) -> Held {
        let spent = Arc::new(AtomicBool::new(false));
        self.rows().insert(row, Arc::clone(&spent));
        Held { spent }
    }

    /// Whether somebody still holds the row.
    pub(crate) fn holds(&self, row: i64) -> bool {
        self.rows().get(&row).is_some_and(is_held)
    }

    /// Whether a replay of this run was given up with its permit unspent: nothing of it has left.
    pub(crate) fn gave_up_unspent(&self, row: i64) -> bool {
        self.rows().get(&row).is_some_and(|spent| !is_held(spent) && !spent.load(Ordering::SeqCst))
    }

    /// The rows that were given out and that nobody holds any more, in order.
    pub(crate) fn abandoned(&self) -> Vec<i64> {
        let rows = self.rows();
        let mut abandoned: Vec<_> =
            rows.iter().filter(|(_, spent)| !is_held(spent)).map(|(row, _)| *row).collect();
        abandoned.sort_unstable();
        abandoned
    }

    /// Forgets a row that ended.
    pub(crate) fn forget(&self, row: i64) {
        self.rows().remove(&row);
    }

    /// Forgets a row that nobody held when it was looked at. A row of a commit that failed was never there: its number
    /// may have been given to another one since, and that one is held.
    pub(crate) fn forget_abandoned(&self, row: i64) {
        let mut rows = self.rows();
        if rows.get(&row).is_some_and(|spent| !is_held(spent)) {
            rows.remove(&row);
        }
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<i64, Arc<AtomicBool>>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_held(row: &Arc<AtomicBool>) -> bool {
    Arc::strong_count(row) > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_lives_as_long_as_its_claim_and_is_forgotten_when_it_ended() {
        let living = Living::default();
        let claimed = |row| living.claim(EffectId::from_ulid("01J0000000000000000000000A"), row);
        let (first, second) = (claimed(1), claimed(2));
        assert_eq!([1, 2, 3].map(|row| living.holds(row)), [true, true, false]);
        drop(first);
        assert_eq!([1, 2].map(|row| living.holds(row)), [false, true]);
        living.forget(1);
        living.forget(2);
        assert!(!living.holds(second.attempt));
        assert!(living.rows().is_empty(), "a run may end millions of rows");
    }

    #[test]
    fn a_number_that_was_given_out_again_is_held() {
        let living = Living::default();
        let claimed = || living.claim(EffectId::from_ulid("01J0000000000000000000000A"), 1);
        // Its commit failed, and a sweep has seen that nobody holds it.
        drop(claimed());
        assert_eq!(living.abandoned(), [1]);
        let again = claimed();
        living.forget_abandoned(1);
        assert!(living.holds(1));
        drop(again);
        living.forget_abandoned(1);
        assert!(living.rows().is_empty());
    }
}
