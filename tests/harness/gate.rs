//! A gate that a test opens: how a scripted provider waits for an event instead of for time.

use std::sync::{Arc, Condvar, Mutex};

use crate::wait::PATIENCE;

/// Closed until somebody opens it; stays open.
#[derive(Clone, Default)]
pub struct Gate {
    inner: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    /// Lets everybody through who waits now or later.
    pub fn open(&self) {
        let (open, changed) = &*self.inner;
        *open.lock().unwrap() = true;
        changed.notify_all();
    }

    /// Waits until it is open, or until [`PATIENCE`] is over; says whether it was opened.
    pub fn pass(&self) -> bool {
        let (open, changed) = &*self.inner;
        let guard = open.lock().unwrap();
        let (guard, _) = changed.wait_timeout_while(guard, PATIENCE, |open| !*open).unwrap();
        *guard
    }
}
