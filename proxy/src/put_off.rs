//! Effects that could not be recorded on: each rests for a while, so that it is neither asked about at its provider again
//! at once nor keeps others from their turn. Known to this run only: the next one tries each again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncegate_policy::id::EffectId;
use tokio::time::Instant;

/// Effects that rest at a time. With more of them it is not the effects that are at fault.
const RESTING_MAX: usize = 1_024;

/// See the module.
#[derive(Debug, Default)]
pub struct PutOff {
    until: Mutex<HashMap<EffectId, Instant>>,
}

impl PutOff {
    /// Lets an effect rest. `false` when too many do already.
    #[must_use]
    pub fn rest(&self, id: EffectId, how_long: Duration) -> bool {
        let mut until = self.until();
        let room = until.len() < RESTING_MAX;
        if room {
            until.insert(id, Instant::now() + how_long);
        }
        room
    }

    /// Forgets those that have rested. How many still do.
    pub fn resting(&self) -> usize {
        let now = Instant::now();
        let mut until = self.until();
        until.retain(|_, until| *until > now);
        until.len()
    }

    /// The first `count_max` of a list that do not rest.
    pub fn awake<T>(&self, mut listed: Vec<T>, id: impl Fn(&T) -> &EffectId, count_max: usize) -> Vec<T> {
        let until = self.until();
        listed.retain(|each| !until.contains_key(id(each)));
        listed.truncate(count_max);
        listed
    }

    fn until(&self) -> MutexGuard<'_, HashMap<EffectId, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_rests_keeps_nobody_from_a_turn() {
        let put_off = PutOff::default();
        let ids: Vec<_> =
            (0..3).map(|number| EffectId::from_ulid(&format!("01ARZ3NDEKTSV4RR{number:010}"))).collect();
        let awake = || put_off.awake(ids.clone(), |id| id, 1);
        assert_eq!(awake(), ids[..1]);
        assert!(put_off.rest(ids[0].clone(), Duration::from_secs(15)));
        assert_eq!((put_off.resting(), awake()), (1, ids[1..2].to_vec()));
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!((put_off.resting(), awake()), (0, ids[..1].to_vec()));
    }
}
