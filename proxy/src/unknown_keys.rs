//! Keys that no caller has, as they are shown at a listener: counted, and told in the log, never with a byte of the key.
//! Anybody who reaches a listener may show them without end: of each listener there is one line a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::asking::Listener;
use crate::metrics::Metrics;

/// From one line to the next, for one listener.
const APART: Duration = Duration::from_secs(1);

/// What was told of them.
#[derive(Default)]
pub struct UnknownKeys {
    proxy: Mutex<Told>,
    api: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    at: Option<Instant>,
    /// Shown since then, and not told.
    untold: u64,
}

impl UnknownKeys {
    /// One was shown.
    pub fn shown(&self, metrics: &Metrics, listener: Listener) {
        let listener_word = listener.word();
        metrics.unknown_key(listener_word);
        if let Some(untold) = self.turn(listener, Instant::now()) {
            tracing::info!(
                listener = listener_word,
                outcome = "refused",
                untold,
                "a key was shown that no caller has"
            );
        }
    }

    /// How many were not told before this one, where this one is.
    fn turn(&self, listener: Listener, now: Instant) -> Option<u64> {
        let told = match listener {
            Listener::Proxy => &self.proxy,
            Listener::Api => &self.api,
        };
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.at.is_some_and(|at| now.saturating_duration_since(at) < APART) {
            told.untold = told.untold.saturating_add(1);
            return None;
        }
        told.at = Some(now);
        Some(std::mem::take(&mut told.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_second_and_none_of_it_is_lost() {
        let keys = UnknownKeys::default();
        let begin = Instant::now();
        let turn = |listener, milliseconds| keys.turn(listener, begin + Duration::from_millis(milliseconds));
        assert_eq!(turn(Listener::Proxy, 0), Some(0));
        assert_eq!([turn(Listener::Proxy, 1), turn(Listener::Proxy, 999)], [None, None]);
        // The other listener's are told apart.
        assert_eq!(turn(Listener::Api, 999), Some(0));
        assert_eq!([turn(Listener::Proxy, 1000), turn(Listener::Proxy, 2000)], [Some(2), Some(0)]);
    }
}
