//! Credentials that are the same for every read of a host, made once.
//!
//! Only those whose secrets are in the sidecar's own environment: it cannot change while the process lives. Whatever
//! else a secret may come from is asked for each request, as it is declared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderName, HeaderValue};
use oncegate_config::model::{Config, Credential, Host, SecretSource};
use oncegate_policy::authority::Authority;
use zeroize::Zeroizing;

use super::{Lent, Placed};
use crate::scrub::Scrubber;

/// Hosts whose credential is kept; only those declared with a leading dot can fill it.
const KEPT_MAX: usize = 1024;

/// What is placed for a host's own credential, by authority, for one configuration.
#[derive(Default)]
pub struct Kept(Mutex<HashMap<Authority, Arc<Made>>>);

struct Made {
    headers: Vec<(HeaderName, HeaderValue)>,
    query: Vec<(String, Zeroizing<String>)>,
    scrubber: Scrubber,
}

impl Kept {
    /// What was placed before for this authority.
    #[must_use]
    pub fn get(&self, authority: &Authority) -> Option<Placed> {
        let made = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(kept.get(authority)?)
        };
        Some(Placed {
            headers: made.headers.clone(),
            query: made.query.clone(),
            scrubber: made.scrubber.clone(),
            signer: None,
            lent: Lent::default(),
            unminted: None,
        })
    }

    /// Keeps what was placed of a host's credential, if it stays the same.
    pub fn keep(&self, config: &Config, host: &Host, authority: &Authority, placed: &Placed) {
        if !host.credential.as_ref().is_some_and(|credential| stays(config, credential)) {
            return;
        }
        let made = Arc::new(Made {
            headers: placed.headers.clone(),
            query: placed.query.clone(),
            scrubber: placed.scrubber.clone(),
        });
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.insert(authority.clone(), made);
        }
    }
}

/// Whether a credential is the same for every request. A signature never is.
fn stays(config: &Config, credential: &Credential) -> bool {
    let fixed = match credential {
        Credential::Header { .. } | Credential::Basic { .. } | Credential::Query { .. } => true,
        Credential::Sigv4(_) => false,
    };
    let from_environment = |name: &&str| {
        config.secrets.get(*name).is_some_and(|spec| match &spec.from {
            SecretSource::Env(_) => true,
            SecretSource::File(_)
            | SecretSource::Command(_)
            | SecretSource::OAuth2(_)
            | SecretSource::Vault => false,
        })
    };
    fixed && credential.secrets().iter().all(from_environment)
}
