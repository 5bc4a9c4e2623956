//! The timer of an agent's connection.
//!
//! The HTTP library asks for a new one with every request, for the bound on the time that its head may take. A timer of
//! the runtime goes into a wheel behind a lock, and out of it again. So one is kept for the life of a connection, and is
//! moved on only when it goes off too early: at most once in the time that it bounds.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use tokio::time;

/// For one connection.
#[derive(Clone, Default)]
pub struct HeadTimer {
    kept: Kept,
}

type Kept = Arc<Mutex<Option<Pin<Box<time::Sleep>>>>>;

fn lock(kept: &Kept) -> MutexGuard<'_, Option<Pin<Box<time::Sleep>>>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let deadline = time::Instant::from_std(deadline);
        // One that goes off later would be too late.
        let kept = lock(&self.kept).take().filter(|kept| kept.deadline() <= deadline);
        let timer = kept.unwrap_or_else(|| Box::pin(time::sleep_until(deadline)));
        Box::pin(Sleeping { deadline, timer: Some(timer), kept: Arc::clone(&self.kept) })
    }

    fn now(&self) -> Instant {
        time::Instant::now().into_std()
    }
}

/// Until a moment, by a timer that may go off before.
struct Sleeping {
    deadline: time::Instant,
    /// `None` only when it is dropped.
    timer: Option<Pin<Box<time::Sleep>>>,
    kept: Kept,
}

impl Sleep for Sleeping {}

impl Future for Sleeping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let Some(timer) = &mut self.timer else { return Poll::Ready(()) };
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        *lock(&self.kept) = self.timer.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_wait_has_its_whole_time_whatever_came_before() {
        let timer = HeadTimer::default();
        let second = Duration::from_secs(1);
        for waited in [0, 7, 9, 3] {
            // Dropped before its time, as when a head has arrived.
            let mut short = timer.sleep(second * 10);
            tokio::select! {
                () = &mut short => panic!("too early"),
                () = time::sleep(second * waited) => {}
            }
            drop(short);
            let begun = time::Instant::now();
            timer.sleep(second * 10).await;
            assert_eq!(begun.elapsed().as_secs(), 10);
        }
        timer.sleep(second * 10).await;
        let begun = time::Instant::now();
        timer.sleep(second).await;
        assert_eq!(begun.elapsed().as_secs(), 1, "an earlier end after a later one");
    }
}
