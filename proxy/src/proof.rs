//! What shows who is on the other side of a connection. Kept with the connection and asked anew for every request
//! inside it: a key that is revoked counts no more, however long a tunnel stays open.

use oncegate_policy::caller::CallerName;
use sha2::{Digest, Sha256};

use crate::state::Sidecar;

/// SHA-256 of a key.
pub type Digest32 = [u8; 32];

/// SHA-256 of a key as it was presented.
#[must_use]
pub fn digest(key: &str) -> Digest32 {
    Sha256::digest(key.as_bytes()).into()
}

/// How a connection was told from others'.
#[derive(Clone)]
pub enum Proof {
    /// It came in where only this caller is let in.
    OwnListener(CallerName),
    /// It was redirected to where only this caller's connections are.
    OwnTransparent(CallerName),
    /// A configured key or a run's token.
    Key {
        /// Whose key it is said to be, where that was said.
        named: Option<CallerName>,
        /// Of the key; the key itself is not kept.
        digest: Digest32,
    },
}

impl Proof {
    /// Whether it shows this caller, by the configuration of this moment.
    #[must_use]
    pub fn shows(&self, sidecar: &Sidecar, caller: &CallerName) -> bool {
        match self {
            Self::OwnListener(_) | Self::OwnTransparent(_) => {
                self.caller(sidecar).is_some_and(|shown| shown == *caller)
            }
            Self::Key { named, digest } => {
                named.as_ref().is_none_or(|named| named == caller) && sidecar.is_key_of(digest, caller)
            }
        }
    }

    /// Whom it shows, by the configuration of this moment.
    #[must_use]
    pub fn caller(&self, sidecar: &Sidecar) -> Option<CallerName> {
        match self {
            Self::OwnListener(name) => {
                let snapshot = sidecar.snapshot();
                let listens = snapshot.living_caller(name, sidecar.clock.now())?.listen.is_some();
                listens.then(|| name.clone())
            }
            Self::OwnTransparent(name) => {
                let snapshot = sidecar.snapshot();
                let caller = snapshot.living_caller(name, sidecar.clock.now())?;
                caller.transparent_listen.is_some().then(|| name.clone())
            }
            Self::Key { named, digest } => {
                let caller = sidecar.caller_for_key(digest)?;
                named.as_ref().is_none_or(|named| *named == caller).then_some(caller)
            }
        }
    }
}
