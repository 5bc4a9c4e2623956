//! What the reconciler leaves alone for a while: effects that could not be recorded on, and servers that do not answer or ask
//! for a pause. So they keep others from no turn. Known to this run only: the next one tries each again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What rests at a time. With more of them it is not they that are at fault.
const RESTING_MAX: usize = 1_024;

/// See the module.
#[derive(Debug)]
pub struct PutOff<K> {
    until: Mutex<HashMap<K, Instant>>,
}

impl<K> Default for PutOff<K> {
    fn default() -> Self {
        Self { until: Mutex::default() }
    }
}

impl<K: Eq + Hash> PutOff<K> {
    /// Lets one rest. `false` when too many do already.
    #[must_use]
    pub fn rest(&self, id: K, how_long: Duration) -> bool {
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

    /// Whether one rests.
    #[must_use]
    pub fn rests(&self, id: &K) -> bool {
        self.until().get(id).is_some_and(|until| *until > Instant::now())
    }

    /// The first `count_max` of a list that do not rest.
    pub fn awake<T>(&self, mut listed: Vec<T>, id: impl Fn(&T) -> &K, count_max: usize) -> Vec<T> {
        let until = self.until();
        listed.retain(|each| !until.contains_key(id(each)));
        listed.truncate(count_max);
        listed
    }

    fn until(&self) -> MutexGuard<'_, HashMap<K, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use oncegate_policy::id::EffectId;

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
