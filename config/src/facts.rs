//! What the sections say that can only be judged once all of them are read, with where they say it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use oncegate_policy::authority::Authority;
use oncegate_policy::limit::Limit;
use oncegate_policy::url_template::Scheme;

use crate::Presets;
use crate::fault::Place;
use crate::lookup;
use crate::model::{self, Host, HostPattern, Placement, SecretSpec};

/// Facts for the cross checks. Faulty entries leave their names here too: a second fault for a name that is
/// declared, only badly, would send its reader to the wrong place.
#[derive(Default)]
pub(crate) struct Facts {
    /// What `preset` may name.
    pub(crate) presets: Presets,
    /// `[proxy] upstream_timeout`, unless it is faulty.
    pub(crate) upstream_timeout: Option<Duration>,
    /// Every written `respond_within`.
    pub(crate) waits: Vec<(Place, Duration)>,
    /// Every `listen`, with its one spelling.
    pub(crate) listens: Vec<(Place, String)>,
    /// Every key's hash, with its caller.
    pub(crate) key_hashes: Vec<(Place, String, [u8; 32])>,
    /// Every declared secret; `None` if what is declared of it is faulty.
    pub(crate) secrets: BTreeMap<String, Option<SecretSpec>>,
    /// Where the first secret of the vault is declared.
    pub(crate) kept_in_vault: Option<Place>,
    /// Every place that names a secret.
    pub(crate) secret_uses: Vec<SecretUse>,
    /// Every secret that it takes to mint another one.
    pub(crate) minting: Vec<Minting>,
    /// Every server where tokens are minted.
    pub(crate) token_hosts: Vec<(Place, Authority)>,
    /// What every declared action sets in its requests' headers.
    pub(crate) fields: Vec<Fields>,
    /// Every host whose name could be read.
    pub(crate) hosts: Vec<(Place, Host)>,
    /// Where every action is declared.
    pub(crate) actions: BTreeMap<String, Place>,
    /// Where every action goes.
    pub(crate) destinations: Vec<Destination>,
    /// Every limit.
    pub(crate) limits: Vec<(Place, Limit)>,
    /// Every action that a limit names.
    pub(crate) limited_actions: Vec<(Place, String)>,
}

/// One place that names a secret.
pub(crate) struct SecretUse {
    pub(crate) place: Place,
    pub(crate) secret: String,
    pub(crate) placement: Placement,
    /// Where the request goes; `None` if that could not be read.
    pub(crate) to: Option<HostPattern>,
}

/// A secret that it takes to mint another one.
pub(crate) struct Minting {
    pub(crate) place: Place,
    /// What is minted.
    pub(crate) minted: String,
    /// What it takes.
    pub(crate) part: String,
    /// A refresh token, which a provider may replace.
    pub(crate) renews: bool,
}

/// What a declared action sets in its requests' headers.
pub(crate) struct Fields {
    pub(crate) authority: Authority,
    /// It has a `credential_secret`, which goes before the host's credential.
    pub(crate) own_credential: bool,
    /// By `headers` or `idempotency`: where, and the field's name.
    pub(crate) set: Vec<(Place, String)>,
}

/// Where an action goes.
pub(crate) struct Destination {
    pub(crate) place: Place,
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
}

impl Facts {
    pub(crate) fn listens(&mut self, place: Place, address: &SocketAddr) {
        // Port 0 is another port each time.
        if address.port() != 0 {
            self.listens_at(place, address.to_string());
        }
    }

    pub(crate) fn listens_at(&mut self, place: Place, spelling: String) {
        self.listens.push((place, spelling));
    }

    pub(crate) fn uses(
        &mut self,
        place: Place,
        secret: &str,
        placement: Placement,
        to: Option<&HostPattern>,
    ) {
        self.secret_uses.push(SecretUse { place, secret: secret.to_owned(), placement, to: to.cloned() });
    }

    /// The places that name a secret, as far as they could be read.
    pub(crate) fn uses_of_secrets(&self) -> Vec<model::SecretUse> {
        let one =
            |one: &SecretUse| Some(model::SecretUse { secret: one.secret.clone(), to: one.to.clone()? });
        self.secret_uses.iter().filter_map(one).collect()
    }

    pub(crate) fn host_for(&self, authority: &Authority) -> Option<&Host> {
        lookup::most_specific(self.hosts.iter().map(|(_, host)| host), authority)
    }
}
