//! Calls that wait for a person: so many at once, and so many of one caller. Without a bound, agents that ask for a
//! decision take the places of those who could give it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use oncegate_policy::caller::CallerName;

/// Calls that wait at once. Well below the connections of the listener: the rest is for those who decide.
pub(super) const WAITS_MAX: usize = 256;
/// Of one caller.
pub(super) const WAITS_PER_CALLER_MAX: usize = 64;

/// Who waits, and how often.
#[derive(Clone, Default)]
pub(super) struct Waits {
    waiting: Arc<Mutex<BTreeMap<CallerName, usize>>>,
}

/// One call that waits; its place is free again when it is dropped.
pub(super) struct Waiting {
    waits: Waits,
    caller: CallerName,
}

impl Waits {
    /// A place for one more call of a caller; `None` when it has to be answered at once.
    pub(super) fn enter(&self, caller: &CallerName) -> Option<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (waiting.values().sum::<usize>(), waiting.get(caller).copied().unwrap_or(0));
        if all >= WAITS_MAX || own >= WAITS_PER_CALLER_MAX {
            return None;
        }
        waiting.insert(caller.clone(), own + 1);
        Some(Waiting { waits: self.clone(), caller: caller.clone() })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = self.waits.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.get_mut(&self.caller) {
            Some(own) if *own > 1 => *own -= 1,
            Some(_) | None => _ = waiting.remove(&self.caller),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_takes_its_share_and_all_together_theirs() {
        let waits = Waits::default();
        let caller = |name: &str| CallerName::parse(name).unwrap();
        let mut held: Vec<_> =
            (0..WAITS_PER_CALLER_MAX).map(|_| waits.enter(&caller("a")).unwrap()).collect();
        assert!(waits.enter(&caller("a")).is_none());
        held.pop();
        held.push(waits.enter(&caller("a")).unwrap());
        for other in ["b", "c", "d"] {
            held.extend((0..WAITS_PER_CALLER_MAX).map(|_| waits.enter(&caller(other)).unwrap()));
        }
        assert_eq!(held.len(), WAITS_MAX);
        assert!(waits.enter(&caller("e")).is_none());
        drop(held);
        assert!(waits.enter(&caller("e")).is_some());
        assert!(waits.waiting.lock().unwrap().is_empty());
    }
}
