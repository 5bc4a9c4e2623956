//! The leaves minted so far, by server name.

use crate::authority::Authority;
use crate::leaf::{Leaf, MintError};
use crate::name::LeafName;
use lru::LruCache;
use rustls::server::{NoServerSessionStorage, ResolvesServerCertUsingSni};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, crypto::ring::Ticketer};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Leaf certificates by server name: minted when first asked for, the least recently used forgotten.
///
/// Of several callers for one name the first mints and the others wait for it; other names do not wait.
pub struct Leaves {
    authority: Arc<Authority>,
    slots: Mutex<LruCache<String, Slot>>,
    /// What every leaf is served with, but for the leaf.
    common: Result<ServerConfig, rustls::Error>,
    minted: AtomicU64,
}

/// A name's place in the cache. Its lock is held while its leaf is minted; that of the cache never is.
type Slot = Arc<Mutex<Option<Ready>>>;

/// A leaf ready to serve.
struct Ready {
    config: Arc<ServerConfig>,
    from: SystemTime,
    until: SystemTime,
}

impl fmt::Debug for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaves").field("minted", &self.minted()).finish_non_exhaustive()
    }
}

impl Leaves {
    /// No leaves yet, and never more than `capacity` at once.
    pub fn new(authority: Arc<Authority>, capacity: NonZeroUsize) -> Leaves {
        Leaves {
            authority,
            slots: Mutex::new(LruCache::new(capacity)),
            common: common(),
            minted: AtomicU64::new(0),
        }
    }

    /// What serves TLS as `server_name`: a DNS name (A-labels) or an IP literal without brackets.
    ///
    /// A leaf that has a day left or less, or is not yet valid at `now`, is replaced.
    ///
    /// # Errors
    ///
    /// When the name is no server name, and when minting fails.
    pub fn server_config(&self, server_name: &str, now: SystemTime) -> Result<Arc<ServerConfig>, MintError> {
        let name = LeafName::parse(server_name).map_err(|source| MintError::Name { source })?;
        let slot = self.slot(name.spelling());
        let mut place = lock(&slot);
        if let Some(ready) = place.as_ref().filter(|ready| ready.from <= now && now < ready.until) {
            return Ok(Arc::clone(&ready.config));
        }
        let leaf = self.authority.mint(&name, now)?;
        let (from, until) = (leaf.usable_from, leaf.usable_until);
        let config = Arc::new(self.serve(leaf).map_err(|source| MintError::Serve { source })?);
        self.minted.fetch_add(1, Ordering::Relaxed);
        *place = Some(Ready { config: Arc::clone(&config), from, until });
        Ok(config)
    }

    /// How many leaves were minted so far.
    pub fn minted(&self) -> u64 {
        self.minted.load(Ordering::Relaxed)
    }

    fn slot(&self, name: String) -> Slot {
        Arc::clone(lock(&self.slots).get_or_insert(name, Slot::default))
    }

    fn serve(&self, leaf: Leaf) -> Result<ServerConfig, rustls::Error> {
        let mut config = self.common.clone()?;
        config.cert_resolver = Arc::new(SingleCertAndKey::from(CertifiedKey::new(leaf.chain, leaf.key)));
        Ok(config)
    }
}

/// How TLS is served, with no certificate yet.
fn common() -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(crate::provider())
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    // Who offers the older one alone (`curl -0`) is served in it.
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()];
    // Agents are on this machine or near it, and most of their libraries ask for AES-256 first out of habit.
    config.ignore_client_order = true;
    // Early data can be played again by anyone on the path: a write must never arrive that way.
    config.max_early_data_size = 0;
    // A client keeps the last one; each costs a key schedule and a record.
    config.send_tls13_tickets = 1;
    // One for all names, so that a session outlives the leaf it began with. Sessions are bound to their SNI. Without
    // tickets sessions are remembered here, which is rustls's own way and does no harm.
    if let Ok(tickets) = Ticketer::new() {
        config.ticketer = tickets;
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    Ok(config)
}

/// Locks, whoever panicked before: what the locks guard is replaced whole or not at all.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    #[test]
    fn a_name_that_is_being_minted_holds_up_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::load_or_create(dir.path(), now()).unwrap();
        let leaves = Leaves::new(Arc::new(authority), NonZeroUsize::new(8).unwrap());
        let slot = leaves.slot("slow.example".to_owned());
        let minting = lock(&slot);
        leaves.server_config("other.example", now()).unwrap();
        drop(minting);
        assert_eq!(leaves.minted(), 1);
    }

    #[test]
    fn a_caller_that_panicked_leaves_the_cache_usable() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::load_or_create(dir.path(), now()).unwrap();
        let leaves = Leaves::new(Arc::new(authority), NonZeroUsize::new(8).unwrap());
        let slot = leaves.slot("api.example".to_owned());
        std::thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let _slots = lock(&leaves.slots);
                let _place = lock(&slot);
                panic!("on purpose");
            });
            assert!(panicking.join().is_err());
        });
        leaves.server_config("api.example", now()).unwrap();
    }
}
