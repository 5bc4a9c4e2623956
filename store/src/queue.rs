//! A queue between callers and a thread of the store.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// First in, first out; taken in batches.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

struct State<T> {
    waiting: VecDeque<T>,
    closed: bool,
}

/// Why something was not queued.
pub(crate) enum NotQueued {
    Full,
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { waiting: VecDeque::new(), closed: false }), filled: Condvar::new() }
    }

    /// Appends unless `capacity` items wait already.
    pub(crate) fn push(&self, item: T, capacity: usize) -> Result<(), NotQueued> {
        let mut state = self.lock();
        if state.closed {
            return Err(NotQueued::Closed);
        }
        if state.waiting.len() >= capacity {
            return Err(NotQueued::Full);
        }
        state.waiting.push_back(item);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Waits for something and takes up to `batch_max` of what is there; `None` once closed and empty.
    pub(crate) fn take(&self, batch_max: usize) -> Option<Vec<T>> {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = state.waiting.len().min(batch_max);
        Some(state.waiting.drain(..taken).collect())
    }

    /// How many wait.
    pub(crate) fn depth(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Lets what is queued be taken, and nothing more in.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
