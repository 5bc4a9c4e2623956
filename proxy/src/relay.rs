//! Wakers that know whether they were woken by what they wake.
//!
//! A task that wakes itself while it runs is put behind all others, and the runtime wakes another thread that may take it:
//! for a connection that only has to be looked at once more, this costs more than the request. The parts of an HTTP
//! connection wake each other in this way with every body. So who wakes itself is polled again at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// How often what wakes itself is polled again at once. Whoever does it still is put behind the others.
const TURNS_MAX: usize = 4;

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const WOKEN: u8 = 2;

/// A waker that passes on to another one, unless it is told to be quiet.
pub struct Relay {
    inner: Arc<Inner>,
    waker: Waker,
}

struct Inner {
    state: AtomicU8,
    outer: Mutex<Waker>,
}

impl Default for Relay {
    fn default() -> Self {
        let inner = Arc::new(Inner { state: AtomicU8::new(IDLE), outer: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(Arc::clone(&inner)), inner }
    }
}

impl Relay {
    /// From now on it passes on to `outer`. The context to poll with.
    pub fn towards(&self, outer: &Waker) -> Context<'_> {
        let mut known = self.inner.outer();
        if !known.will_wake(outer) {
            known.clone_from(outer);
        }
        drop(known);
        Context::from_waker(&self.waker)
    }

    /// Does something during which it passes nothing on. Whether it was woken meanwhile, by whomever: who asked for
    /// quiet has to look again then.
    pub fn quietly<T>(&self, doing: impl FnOnce() -> T) -> (T, bool) {
        // Whoever does not see it yet passes on, which is a wake-up too many at worst.
        self.inner.state.store(RUNNING, Ordering::Relaxed);
        let done = doing();
        let woken = self.inner.state.swap(IDLE, Ordering::SeqCst) == WOKEN;
        (done, woken)
    }

    /// Polls a future, and polls it again at once when it was woken meanwhile.
    pub fn poll<F: Future>(&self, mut future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut own = self.towards(cx.waker());
        for _ in 0..TURNS_MAX {
            let (polled, woken) = self.quietly(|| future.as_mut().poll(&mut own));
            if polled.is_ready() || !woken {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Inner {
    fn outer(&self) -> MutexGuard<'_, Waker> {
        self.outer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.state.compare_exchange(RUNNING, WOKEN, Ordering::SeqCst, Ordering::SeqCst);
        if noted == Err(IDLE) {
            // Not while it is locked: who is woken on another thread would have to wait for it at once.
            let outer = self.outer().clone();
            outer.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls once what wakes itself `times` times. How often it ran, and how often its task was woken.
    fn ran(times: usize) -> (usize, usize) {
        let (relay, task) = (Relay::default(), Arc::new(Counted::default()));
        let (mut runs, mut left) = (0, times);
        let mut future = std::pin::pin!(poll_fn(|cx| {
            runs += 1;
            if left > 0 {
                left -= 1;
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        let waker = Waker::from(Arc::clone(&task));
        assert!(relay.poll(future.as_mut(), &mut Context::from_waker(&waker)).is_pending());
        (runs, task.0.load(Ordering::SeqCst))
    }

    #[test]
    fn what_wakes_itself_runs_again_without_its_task_being_woken() {
        assert_eq!(ran(0), (1, 0));
        assert_eq!(ran(1), (2, 0));
        assert_eq!(ran(TURNS_MAX - 1), (TURNS_MAX, 0));
    }

    #[test]
    fn what_does_not_stop_waking_itself_waits_for_its_turn() {
        assert_eq!(ran(TURNS_MAX), (TURNS_MAX, 1));
        assert_eq!(ran(usize::MAX), (TURNS_MAX, 1));
    }

    #[test]
    fn who_wakes_between_two_polls_wakes_the_task_of_the_last_one() {
        let (relay, first, last) =
            (Relay::default(), Arc::new(Counted::default()), Arc::new(Counted::default()));
        let mut waker = None;
        for task in [&first, &last] {
            let mut future = std::pin::pin!(poll_fn(|cx| {
                waker = Some(cx.waker().clone());
                Poll::<()>::Pending
            }));
            let task = Waker::from(Arc::clone(task));
            assert!(relay.poll(future.as_mut(), &mut Context::from_waker(&task)).is_pending());
        }
        waker.unwrap().wake();
        assert_eq!((first.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (0, 1));
    }
}
