//! Connections to providers: made, and kept for the next request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use oncegate_policy::exchange::NotSent;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::dial::{self, Destination, Dialler};
use super::link::Link;
use crate::descriptors::Shares;
use crate::task;

/// Idle connections kept for one destination.
const IDLE_PER_DESTINATION_MAX: usize = 256;
/// A connection idle for longer is dropped; most servers close theirs after a minute.
const IDLE_FOR_MAX: Duration = Duration::from_secs(30);
/// How often idle connections are looked at: one that its provider has closed holds a descriptor no longer than this.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(1);

/// Makes connections, and has idle ones by destination. Reads take any; governed writes only one that was idle for a moment.
#[derive(Default)]
pub struct Pool {
    dialler: Dialler,
    idle: Arc<Mutex<Shelf>>,
}

/// What is idle.
#[derive(Default)]
struct Shelf {
    by_destination: BTreeMap<Key, Vec<Idle>>,
    /// How many there are in all.
    count: usize,
    /// Somebody looks at them from time to time.
    attended: bool,
}

/// Two requests may share a connection only if they were to be dialled in the very same way: the destination is
/// made once per host and configuration, and its address in memory stands for all of that.
type Key = usize;

struct Idle {
    link: Box<Link>,
    since: Instant,
    /// Keeps the destination alive, so that its address cannot come to mean another one.
    _destination: Arc<Destination>,
}

fn key(destination: &Arc<Destination>) -> Key {
    Arc::as_ptr(destination) as usize
}

impl Pool {
    /// One whose connections are made in this way.
    #[must_use]
    pub fn over(dialler: Dialler) -> Self {
        Self { dialler, idle: Arc::default() }
    }

    /// A fresh connection, within `within`.
    ///
    /// # Errors
    /// The step at which it ended. No byte of a request can have left.
    pub async fn dial(&self, destination: &Destination, within: Duration) -> Result<Box<Link>, NotSent> {
        dial::dial(&self.dialler, destination, within).await
    }

    /// The most recently used connection that was idle for less than `within` and is ready for a request.
    pub fn take(&self, destination: &Arc<Destination>, within: Duration) -> Option<Box<Link>> {
        let within = within.min(IDLE_FOR_MAX);
        loop {
            // Locked for the taking alone: whether it is ready is asked of the connection, not of the shelf.
            let now = Instant::now();
            let Idle { mut link, .. } = lock(&self.idle).newest(key(destination), now, within)?;
            if link.is_ready() {
                link.reused = true;
                link.written_before = link.written.bytes();
                link.silence.broken_at(now);
                return Some(link);
            }
        }
    }

    /// How many destinations have an idle connection, and how many there are in all.
    pub fn sizes(&self) -> (usize, usize) {
        let shelf = lock(&self.idle);
        let lists = shelf.by_destination.values().filter(|list| !list.is_empty());
        (lists.count(), shelf.count)
    }

    /// Keeps a connection whose answer has ended. One that is not done with its request (the answer came early) ends
    /// by itself.
    pub fn put(&self, destination: &Arc<Destination>, mut link: Box<Link>) {
        if !link.is_done() {
            return link.let_go();
        }
        let idle = Idle { link, since: Instant::now(), _destination: Arc::clone(destination) };
        let too_many = {
            let mut shelf = lock(&self.idle);
            if !shelf.attended
                && let Ok(runtime) = Handle::try_current()
            {
                shelf.attended = true;
                runtime.spawn(task::apart(attend(Arc::downgrade(&self.idle))));
            }
            shelf.put(key(destination), idle)
        };
        if let Some(Idle { link, .. }) = too_many {
            link.let_go();
        }
    }
}

fn lock(shelf: &Mutex<Shelf>) -> MutexGuard<'_, Shelf> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    /// Takes off the one that came last, if that was less than `within` ago. Lists are in the order of coming.
    fn newest(&mut self, key: Key, now: Instant, within: Duration) -> Option<Idle> {
        let list = self.by_destination.get_mut(&key)?;
        if now.duration_since(list.last()?.since) >= within {
            return None;
        }
        self.count = self.count.saturating_sub(1);
        list.pop()
    }

    /// Puts one there; gives back one that there is no room for.
    fn put(&mut self, key: Key, idle: Idle) -> Option<Idle> {
        if self.count >= Shares::of_this_process().idle {
            return Some(idle);
        }
        let list = self.by_destination.entry(key).or_default();
        let oldest = (list.len() >= IDLE_PER_DESTINATION_MAX).then(|| list.remove(0));
        list.push(idle);
        self.count = self.count.saturating_add(usize::from(oldest.is_none()));
        oldest
    }

    /// Takes off those that were idle for too long; those that are closed go at once.
    fn expired(&mut self) -> Vec<Idle> {
        let now = Instant::now();
        let mut expired = Vec::new();
        for list in self.by_destination.values_mut() {
            let young = list.partition_point(|idle| now.duration_since(idle.since) >= IDLE_FOR_MAX);
            expired.extend(list.drain(..young));
            list.retain_mut(|idle| idle.link.is_ready());
        }
        self.by_destination.retain(|_, list| !list.is_empty());
        self.count = self.by_destination.values().map(Vec::len).sum();
        expired
    }
}

/// Looks at what is idle, until nothing is. Nobody drives an idle connection, so that its provider has closed it is only
/// seen by looking.
async fn attend(shelf: Weak<Mutex<Shelf>>) {
    loop {
        tokio::time::sleep(LOOKED_AT_EVERY).await;
        let Some(shelf) = shelf.upgrade() else { return };
        let (expired, attended) = {
            let mut shelf = lock(&shelf);
            let expired = shelf.expired();
            shelf.attended = shelf.count > 0;
            (expired, shelf.attended)
        };
        expired.into_iter().for_each(|idle| idle.link.let_go());
        if !attended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use http::Request;
    use oncegate_policy::authority::Authority;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::super::dial::{Connected, Wires};
    use super::super::whole;
    use super::*;

    /// A provider that gives every request the same answer, until it is told to hang up.
    struct Provider {
        answer: Vec<u8>,
        dialled: AtomicUsize,
        hang_up: tokio::sync::watch::Receiver<bool>,
    }

    impl Wires for Provider {
        fn connect(&self, _: &Destination) -> Connected {
            self.dialled.fetch_add(1, Ordering::SeqCst);
            let (ours, theirs) = tokio::io::duplex(4096);
            tokio::spawn(serve(theirs, self.answer.clone(), self.hang_up.clone()));
            Box::pin(async move { Ok(Box::new(ours) as Box<dyn super::super::wire::Stream>) })
        }
    }

    async fn serve(
        mut stream: DuplexStream,
        answer: Vec<u8>,
        mut hang_up: tokio::sync::watch::Receiver<bool>,
    ) {
        let mut asked = Vec::new();
        loop {
            let mut piece = [0; 1024];
            let read = tokio::select! {
                read = stream.read(&mut piece) => read.unwrap(),
                _ = hang_up.wait_for(|told| *told) => return,
            };
            asked.extend_from_slice(&piece[..read]);
            if read == 0 {
                return;
            }
            if asked.ends_with(b"\r\n\r\n") {
                asked.clear();
                stream.write_all(&answer).await.unwrap();
            }
        }
    }

    fn destination() -> Arc<Destination> {
        let authority = Authority::parse("provider.test", Some(443)).unwrap();
        let ours = Arc::default();
        Arc::new(Destination { authority, tls: None, connect_to: None, allow_private: true, ours })
    }

    /// A pool before such a provider, and what tells it to hang up.
    fn pool(answer: &[u8]) -> (Pool, Arc<Provider>, tokio::sync::watch::Sender<bool>) {
        let (told, hang_up) = tokio::sync::watch::channel(false);
        let provider = Provider { answer: answer.to_vec(), dialled: AtomicUsize::new(0), hang_up };
        let provider = Arc::new(provider);
        (Pool::over(Dialler::Simulated(Arc::clone(&provider) as Arc<dyn Wires>)), provider, told)
    }

    const WITHIN: Duration = Duration::from_secs(20);

    /// Asks once over a kept connection or a fresh one, and gives the length of the answer.
    async fn ask(pool: &Pool, to: &Arc<Destination>) -> usize {
        let mut link = match pool.take(to, WITHIN) {
            Some(link) => link,
            None => pool.dial(to, WITHIN).await.unwrap(),
        };
        link.ready().await.unwrap();
        let request = Request::get("/").body(whole(Bytes::new())).unwrap();
        let mut body = link.send(Box::new(request)).await.unwrap().into_body();
        let mut length = 0;
        while let Some(frame) = link.frame(&mut body).await {
            length += frame.unwrap().into_data().unwrap().len();
        }
        pool.put(to, link);
        length
    }

    #[tokio::test]
    async fn a_connection_serves_again_whatever_shape_its_answer_has() {
        let long =
            [b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n".to_vec(), vec![b'.'; 100_000]].concat();
        for (answer, length) in [
            (&b"HTTP/1.1 204 No Content\r\n\r\n"[..], 0),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 0),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", 5),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 5),
            (&long, 100_000),
        ] {
            let ((pool, provider, _told), to) = (pool(answer), destination());
            for _ in 0..3 {
                assert_eq!(ask(&pool, &to).await, length);
                assert_eq!(pool.sizes(), (1, 1));
            }
            assert_eq!(provider.dialled.load(Ordering::SeqCst), 1);
        }
    }

    #[tokio::test]
    async fn one_that_says_it_closes_is_not_kept() {
        let closing = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let ((pool, _provider, _told), to) = (pool(closing), destination());
        ask(&pool, &to).await;
        assert_eq!(pool.sizes(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_its_provider_has_closed_is_neither_taken_nor_kept() {
        let ((pool, provider, told), to) = (pool(b"HTTP/1.1 204 No Content\r\n\r\n"), destination());
        ask(&pool, &to).await;
        told.send_replace(true);
        tokio::time::timeout(LOOKED_AT_EVERY * 3, async {
            while pool.sizes() != (0, 0) {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await
        .expect("it is looked at");
        assert!(pool.take(&to, WITHIN).is_none());
        assert_eq!(provider.dialled.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_idle_for_long_goes() {
        let ((pool, _provider, _told), to) = (pool(b"HTTP/1.1 204 No Content\r\n\r\n"), destination());
        ask(&pool, &to).await;
        tokio::time::sleep(IDLE_FOR_MAX - Duration::from_secs(5)).await;
        assert_eq!(pool.sizes(), (1, 1));
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert_eq!(pool.sizes(), (0, 0));
    }
}
