//! Bounded waiting for things in another process, which can only be polled.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take before the test gives up.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// Asks again and again until there is an answer; fails the test after [`PATIENCE`].
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
