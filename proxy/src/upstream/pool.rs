//! Connections to providers: made, and kept for the next request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncegate_policy::exchange::NotSent;
use tokio::time::Instant;

use super::dial::{self, Destination, Dialler, Link};

/// Idle connections kept for one destination.
const IDLE_PER_DESTINATION_MAX: usize = 256;
/// Idle connections kept in all.
const IDLE_MAX: usize = 1024;
/// A connection idle for longer is dropped; most servers close theirs after a minute.
const IDLE_FOR_MAX: Duration = Duration::from_secs(30);

/// Makes connections, and has idle ones by destination. Reads take any; governed writes only one that was idle for a moment.
#[derive(Default)]
pub struct Pool {
    dialler: Dialler,
    idle: Mutex<HashMap<Key, Vec<Idle>>>,
}

/// Two requests may share a connection only if they were to be dialled in the very same way: the destination is
/// made once per host and configuration, and its address in memory stands for all of that.
type Key = usize;

struct Idle {
    link: Link,
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
        Self { dialler, idle: Mutex::default() }
    }

    /// A fresh connection, within `within`.
    ///
    /// # Errors
    /// The step at which it ended. No byte of a request can have left.
    pub async fn dial(&self, destination: &Destination, within: Duration) -> Result<Link, NotSent> {
        dial::dial(&self.dialler, destination, within).await
    }

    /// The most recently used connection that was idle for less than `within` and is ready for a request. One that
    /// is open and not ready yet (its task has not seen the end of the last answer) stays for the next one.
    pub fn take(&self, destination: &Arc<Destination>, within: Duration) -> Option<Link> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let list = idle.get_mut(&key(destination))?;
        list.retain(|kept| kept.since.elapsed() < IDLE_FOR_MAX && !kept.link.sender.is_closed());
        let fits = |kept: &Idle| kept.since.elapsed() < within && kept.link.sender.is_ready();
        let Idle { mut link, .. } = list.remove(list.iter().rposition(fits)?);
        link.reused = true;
        link.written_before = link.written.bytes();
        Some(link)
    }

    /// How many destinations have an idle connection, and how many there are in all.
    pub fn sizes(&self) -> (usize, usize) {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = idle.values().filter(|list| !list.is_empty());
        lists.fold((0, 0), |(destinations, all), list| (destinations + 1, all + list.len()))
    }

    /// Keeps a connection whose answer has ended.
    pub fn put(&self, destination: &Arc<Destination>, link: Link) {
        if link.sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.values().map(Vec::len).sum::<usize>() >= IDLE_MAX {
            for list in idle.values_mut() {
                list.retain(|kept| kept.since.elapsed() < IDLE_FOR_MAX && !kept.link.sender.is_closed());
            }
            idle.retain(|_, list| !list.is_empty());
        }
        let list = idle.entry(key(destination)).or_default();
        if list.len() >= IDLE_PER_DESTINATION_MAX {
            list.remove(0);
        }
        list.push(Idle { link, since: Instant::now(), _destination: Arc::clone(destination) });
    }
}
