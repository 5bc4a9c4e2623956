//! Credentials that are the same for every read of a host, or for every write of an action, made once.
//!
//! Only those whose secrets are in the sidecar's own environment: it cannot change while the process lives. Whatever
//! else a secret may come from is asked for each request, as it is declared.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderName, HeaderValue};
use oncegate_config::model::{Config, Credential, SecretSource};
use oncegate_policy::action::ActionName;
use oncegate_policy::authority::Authority;
use oncegate_policy::template::{Piece, Template};
use zeroize::Zeroizing;

use super::{Lent, Placed, Wanted};
use crate::scrub::Scrubber;

/// Hosts whose credential is kept; only those declared with a leading dot can fill it.
const KEPT_MAX: usize = 1024;

/// What is placed, for one configuration.
#[derive(Default)]
pub struct Kept(Mutex<All>);

#[derive(Default)]
struct All {
    /// In reads that belong to no action.
    hosts: BTreeMap<Authority, Arc<Made>>,
    /// In writes, with where they go: at most as many as there are actions.
    actions: BTreeMap<ActionName, (Authority, Arc<Made>)>,
}

struct Made {
    headers: Vec<(HeaderName, HeaderValue)>,
    query: Vec<(String, Zeroizing<String>)>,
    scrubber: Scrubber,
}

impl Kept {
    /// What was placed before in writes of this action, or in reads that belong to none.
    #[must_use]
    pub fn get(&self, action: Option<&ActionName>, authority: &Authority) -> Option<Placed> {
        let made = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let made = match action {
                None => kept.hosts.get(authority)?,
                Some(name) => {
                    kept.actions.get(name).filter(|(to, _)| to == authority).map(|(_, made)| made)?
                }
            };
            Arc::clone(made)
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

    /// Keeps what was placed, if it stays the same.
    pub fn keep(
        &self,
        config: &Config,
        action: Option<&ActionName>,
        authority: &Authority,
        wanted: &Wanted<'_>,
        placed: &Placed,
    ) {
        if !stays(config, wanted) {
            return;
        }
        let made = Arc::new(Made {
            headers: placed.headers.clone(),
            query: placed.query.clone(),
            scrubber: placed.scrubber.clone(),
        });
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match action {
            Some(name) => drop(kept.actions.insert(name.clone(), (authority.clone(), made))),
            None if kept.hosts.len() < KEPT_MAX => drop(kept.hosts.insert(authority.clone(), made)),
            None => {}
        }
    }
}

/// Whether what is wanted is the same for every request. A signature never is.
fn stays(config: &Config, wanted: &Wanted<'_>) -> bool {
    let credential = match wanted.credential.as_deref() {
        Some(Credential::Header { value, .. } | Credential::Query { value, .. }) => is_fixed(config, value),
        Some(Credential::Basic { user, password }) => is_fixed(config, user) && is_fixed(config, password),
        Some(Credential::Sigv4(_)) => false,
        None => true,
    };
    credential && wanted.headers.iter().all(|(_, value)| is_fixed(config, value))
}

/// Whether a template is filled with nothing but what is in the environment.
fn is_fixed(config: &Config, template: &Template) -> bool {
    let from_environment = |name: &String| {
        config.secrets.get(name).is_some_and(|spec| match &spec.from {
            SecretSource::Env(_) => true,
            SecretSource::File(_)
            | SecretSource::Command(_)
            | SecretSource::OAuth2(_)
            | SecretSource::Vault => false,
        })
    };
    template.pieces().iter().all(|piece| match piece {
        Piece::Text(_) => true,
        Piece::Secret(name) => from_environment(name),
        Piece::Input(_) | Piece::EffectId | Piece::EffectKey | Piece::Response(_) => false,
    })
}
