//! The places at a listener. When all are taken, whoever has asked nothing for the longest time gives up its own:
//! connections that say nothing never keep an operator out, nor an agent.
//!
//! At the control listener a client asks with each request, and is silent in between. At the proxy's an agent asks with
//! its first key, and is never silent again: its connection may carry a tunnel.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// More than descriptors can be had.
const PLACES_MAX: usize = 1 << 20;

/// All places, and who of those that have one asks nothing.
pub struct Places {
    count: usize,
    permits: Arc<Semaphore>,
    silent: Mutex<Silent>,
}

#[derive(Default)]
struct Silent {
    next: u64,
    /// In the order in which they fell silent.
    since: BTreeMap<u64, Arc<Notify>>,
    /// Somebody waits for a place, and nobody was silent.
    wanted: bool,
}

/// One connection's place; free again when it is dropped.
pub struct Place {
    /// `None` for one that is counted elsewhere.
    among: Option<(Arc<Places>, OwnedSemaphorePermit)>,
    /// Where it stands among the silent.
    silent_at: Mutex<Option<u64>>,
    give_up: Arc<Notify>,
    asked: AtomicBool,
}

impl Places {
    /// So many, and at least one.
    #[must_use]
    pub fn new(connections: usize) -> Arc<Self> {
        let count = connections.clamp(1, PLACES_MAX);
        Arc::new(Self { count, permits: Arc::new(Semaphore::new(count)), silent: Mutex::default() })
    }

    /// Waits for a place, if need be for that of the one that has been silent the longest.
    pub async fn take(self: &Arc<Self>) -> Option<Place> {
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.silent().ask_one();
                let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
                self.silent().wanted = false;
                permit
            }
        };
        let place = Place::new(Some((Arc::clone(self), permit)));
        place.is_silent();
        Some(place)
    }

    /// Waits until nobody has one.
    pub async fn empty(&self) {
        let all = u32::try_from(self.count).unwrap_or(u32::MAX);
        drop(self.permits.acquire_many(all).await);
    }

    fn silent(&self) -> MutexGuard<'_, Silent> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Silent {
    /// The longest silent gives up its place, or else the next one that falls silent.
    fn ask_one(&mut self) {
        match self.since.pop_first() {
            Some((_, longest)) => longest.notify_one(),
            None => self.wanted = true,
        }
    }
}

impl Place {
    /// That of a connection which is bounded elsewhere.
    #[must_use]
    pub fn elsewhere() -> Self {
        Self::new(None)
    }

    fn new(among: Option<(Arc<Places>, OwnedSemaphorePermit)>) -> Self {
        let give_up = Arc::default();
        Self { among, silent_at: Mutex::default(), give_up, asked: AtomicBool::new(false) }
    }

    /// Its client asks for nothing now.
    pub fn is_silent(&self) {
        let Some((places, _)) = &self.among else { return };
        let mut silent = places.silent();
        if std::mem::take(&mut silent.wanted) {
            return self.give_up.notify_one();
        }
        let at = silent.next;
        silent.next += 1;
        silent.since.insert(at, Arc::clone(&self.give_up));
        *self.at() = Some(at);
    }

    /// Its client has asked something.
    pub fn asks(&self) {
        self.asked.store(true, Ordering::Relaxed);
        let (Some((places, _)), Some(at)) = (&self.among, self.at().take()) else { return };
        let mut silent = places.silent();
        // It was asked to go at this very moment, and is answered first: somebody else goes.
        if silent.since.remove(&at).is_none() {
            silent.ask_one();
        }
    }

    /// Whether its client has asked anything at all.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Until somebody else needs it.
    pub async fn is_needed(&self) {
        self.give_up.notified().await;
    }

    fn at(&self) -> MutexGuard<'_, Option<u64>> {
        self.silent_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let at = self.at().take();
        if let (Some((places, _)), Some(at)) = (&self.among, at) {
            places.silent().since.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    async fn is_ready(mut future: impl Future + Unpin) -> bool {
        poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut future).poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn the_longest_silent_gives_up_its_place() {
        let places = Places::new(2);
        let (first, second) = (places.take().await.unwrap(), places.take().await.unwrap());
        first.asks();
        first.is_silent();
        let mut third = pin!(places.take());
        assert!(!is_ready(third.as_mut()).await);
        assert!(!is_ready(pin!(first.is_needed())).await);
        assert!(is_ready(pin!(second.is_needed())).await);
        drop(second);
        let third = third.await.unwrap();

        // Nobody is silent: the next one that is.
        first.asks();
        third.asks();
        let mut fourth = pin!(places.take());
        assert!(!is_ready(fourth.as_mut()).await);
        third.is_silent();
        assert!(is_ready(pin!(third.is_needed())).await);
        first.is_silent();
        assert!(!is_ready(pin!(first.is_needed())).await, "one is enough");
        drop(third);
        assert!(fourth.await.is_some());
    }

    #[tokio::test]
    async fn one_that_asks_as_it_is_to_go_is_answered_and_another_goes() {
        let places = Places::new(2);
        let (first, second) = (places.take().await.unwrap(), places.take().await.unwrap());
        let mut third = pin!(places.take());
        assert!(!is_ready(third.as_mut()).await);
        first.asks();
        assert!(is_ready(pin!(second.is_needed())).await);
        drop(second);
        assert!(third.await.is_some());
    }
}
