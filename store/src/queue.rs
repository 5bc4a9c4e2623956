//! A queue between callers and a thread of the store.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// First in, first out; taken in batches.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Filled,
}

/// How the one who takes is told.
enum Filled {
    /// It is a thread that waits here.
    Thread(Condvar),
    /// It is whoever holds a [`crate::by_hand::Hand`].
    Hand(Arc<Notify>),
}

struct State<T> {
    waiting: VecDeque<T>,
    /// How many threads sleep at [`Queue::take`]: to wake one that does not is a call of the system for nothing.
    asleep: usize,
    closed: bool,
}

impl<T> State<T> {
    fn first(&mut self, batch_max: usize) -> Vec<T> {
        let taken = self.waiting.len().min(batch_max);
        self.waiting.drain(..taken).collect()
    }
}

/// Why something was not queued.
pub(crate) enum NotQueued {
    Full,
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self::telling(Filled::Thread(Condvar::new()))
    }

    /// One that no thread waits at: [`Self::take_now`] takes from it.
    pub(crate) fn by_hand(filled: Arc<Notify>) -> Self {
        Self::telling(Filled::Hand(filled))
    }

    fn telling(filled: Filled) -> Self {
        Self { state: Mutex::new(State { waiting: VecDeque::new(), asleep: 0, closed: false }), filled }
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
        let asleep = state.asleep;
        drop(state);
        match &self.filled {
            Filled::Thread(filled) if asleep > 0 => filled.notify_one(),
            Filled::Thread(_) => {}
            Filled::Hand(filled) => filled.notify_one(),
        }
        Ok(())
    }

    /// Waits for something and takes up to `batch_max` of what is there; `None` once closed and empty.
    pub(crate) fn take(&self, batch_max: usize) -> Option<Vec<T>> {
        let Filled::Thread(filled) = &self.filled else { return None };
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state.asleep += 1;
            state = filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.asleep -= 1;
        }
        Some(state.first(batch_max))
    }

    /// Up to `batch_max` of what is there, without waiting.
    pub(crate) fn take_now(&self, batch_max: usize) -> Vec<T> {
        self.lock().first(batch_max)
    }

    /// How many wait.
    pub(crate) fn depth(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Lets what is queued be taken, and nothing more in.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        if let Filled::Thread(filled) = &self.filled {
            filled.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
