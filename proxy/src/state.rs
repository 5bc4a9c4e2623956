//! What every part of a running sidecar shares, and the snapshot of the configuration that one request keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use oncegate_adapters::Adapter;
use oncegate_certs::{Leaves, upstream_config};
use oncegate_config::model::{Action, Caller, Config, Host};
use oncegate_policy::action::ActionName;
use oncegate_policy::authority::Authority;
use oncegate_policy::caller::CallerName;
use oncegate_policy::id::EffectId;
use oncegate_policy::router::Router;
use oncegate_policy::time::Timestamp;
use oncegate_store::Store;
use subtle::ConstantTimeEq;
use tokio::sync::Notify;
use ulid::Ulid;

use crate::clock::Clock;
use crate::control::tls;
use crate::editions::Editions;
use crate::fits::Schema;
use crate::in_flight::{Counted, InFlight};
use crate::metrics::Metrics;
use crate::own::Ports;
use crate::probe::Probes;
use crate::proof::Digest32;
use crate::put_off::PutOff;
use crate::reload::Files;
use crate::run_tokens::RunTokens;
use crate::scrub::Scrubbers;
use crate::secrets::{Kept, Tokens};
use crate::traced::Traces;
use crate::unknown_keys::UnknownKeys;
use crate::upstream::dial::Destination;
use crate::upstream::pool::Pool;
use crate::vault::Vault;
use crate::{adapting, unrecorded, upstream};

mod unusable;

pub use unusable::SnapshotError;

/// Destinations remembered per snapshot; only hosts declared with a leading dot can fill it.
const DESTINATIONS_MAX: usize = 1024;

/// The shared handles, and nothing else.
pub struct Sidecar {
    /// The memory.
    pub store: Store,
    /// Where time comes from.
    pub clock: Clock,
    /// Minted certificates.
    pub leaves: Leaves,
    /// Keeps definitions and admissions apart.
    pub editions: Editions,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Takes spans, where a collector is configured.
    pub traces: OnceLock<Traces>,
    /// Kept connections to providers.
    pub pool: Arc<Pool>,
    /// Access tokens that were minted.
    pub tokens: Tokens,
    /// Effects whose answer somebody waits for.
    pub in_flight: InFlight,
    /// One at a time claims what was approved.
    pub letting_through: tokio::sync::Mutex<()>,
    /// Dispatches whose socket is still read, late ones included.
    pub on_the_wire: Counted,
    /// Requests in the pipeline that may become one.
    pub in_pipeline: Counted,
    /// How far the clients came that `oncegate doctor` tries.
    pub probes: Probes,
    /// Keys that nobody has, as they are shown.
    pub unknown_keys: UnknownKeys,
    /// For outcomes that could not be recorded yet.
    pub unrecorded: unrecorded::Room,
    /// Wakes the reconciler.
    pub look_soon: Notify,
    /// Somebody has asked a person something, which lapses at a time of its own.
    pub asked: Notify,
    /// Effects that the reconciler leaves alone for a while.
    pub put_off: PutOff<EffectId>,
    /// Servers that it asks nothing for a while.
    pub unasked: PutOff<Authority>,
    /// Where the configuration comes from.
    pub files: Files,
    /// What `oncegate run` has handed to its commands.
    run_tokens: RunTokens,
    snapshot: ArcSwap<Snapshot>,
}

/// One configuration, made ready. A request keeps the one it began with.
pub struct Snapshot {
    /// As it was read.
    pub config: Config,
    /// Relative paths begin here.
    pub directory: PathBuf,
    /// What was put through the API; one for all configurations.
    pub vault: Arc<Vault>,
    /// Where agents connect, and what is never dialled; one for all configurations.
    pub ours: Arc<Ports>,
    /// What takes secrets out of answers, as far as it was made already.
    pub scrubbers: Scrubbers,
    /// Hosts' own credentials, as far as they stay the same.
    pub credentials: Kept,
    /// Which action a request means.
    pub router: Router,
    /// What each action means at its provider.
    pub adapters: BTreeMap<ActionName, Adapter>,
    /// What the control listener proves itself with; `None` where it speaks plain HTTP.
    pub control_tls: Option<Arc<rustls::ServerConfig>>,
    schemas: BTreeMap<ActionName, Schema>,
    /// Servers where something is looked for by the id of its effect.
    read_by_effect: BTreeSet<Authority>,
    trust: BTreeMap<PathBuf, Arc<rustls::ClientConfig>>,
    system_trust: Arc<rustls::ClientConfig>,
    destinations: Mutex<BTreeMap<Authority, Arc<Destination>>>,
}

impl Snapshot {
    /// Makes a configuration ready.
    ///
    /// # Errors
    /// A `ca_file` that cannot be read or holds no certificate, or a schema that is none.
    pub fn new(
        config: Config,
        directory: PathBuf,
        vault: Arc<Vault>,
        ours: Arc<Ports>,
    ) -> Result<Self, SnapshotError> {
        let (router, _) = Router::build(config.routes());
        let adapters: BTreeMap<_, _> =
            config.actions.iter().map(|(name, action)| (name.clone(), adapting::adapter(action))).collect();
        let by_effect = config
            .actions
            .iter()
            .filter(|(name, _)| adapters.get(name).is_some_and(Adapter::is_read_by_effect));
        let read_by_effect = by_effect.map(|(_, action)| adapting::authority(action)).collect();
        let schemas = config
            .actions
            .iter()
            .filter_map(|(name, action)| Some((name, action.input_schema.as_ref()?)))
            .map(|(name, schema)| match Schema::of(schema) {
                Ok(schema) => Ok((name.clone(), schema)),
                Err(fault) => Err(SnapshotError::Schema { action: name.clone(), fault: Box::new(fault) }),
            })
            .collect::<Result<_, _>>()?;
        let alpn: &[&[u8]] = &[b"http/1.1"];
        let mut trust = BTreeMap::new();
        for path in config.hosts.iter().filter_map(|host| host.ca_file.clone()) {
            let pem = std::fs::read(directory.join(&path))
                .map_err(|source| SnapshotError::CaFile { path: path.clone(), source })?;
            let trusted = upstream_config(Some(&pem), alpn)
                .map_err(|source| SnapshotError::CaFileContent { path: path.clone(), source })?;
            trust.insert(path, trusted);
        }
        let system_trust = upstream_config(None, alpn)?;
        let control_tls =
            config.control.tls.as_ref().map(|files| tls::load(files, &directory)).transpose()?;
        let destinations = Mutex::default();
        Ok(Self {
            config,
            directory,
            vault,
            ours,
            scrubbers: Scrubbers::default(),
            credentials: Kept::default(),
            router,
            adapters,
            control_tls,
            schemas,
            read_by_effect,
            trust,
            system_trust,
            destinations,
        })
    }

    /// The declared host of an authority, if there is one.
    #[must_use]
    pub fn host(&self, authority: &Authority) -> Option<&Host> {
        self.config.host_for(authority)
    }

    /// An enabled action and its adapter: what may be asked for, and sent.
    #[must_use]
    pub fn action(&self, name: &str) -> Option<(&Action, &Adapter)> {
        self.declared(name).filter(|(action, _)| action.enabled)
    }

    /// An action, enabled or not, and its adapter: what its effects are looked for by.
    #[must_use]
    pub fn declared(&self, name: &str) -> Option<(&Action, &Adapter)> {
        let (name, action) = self.config.actions.get_key_value(&ActionName::parse(name)?)?;
        Some((action, self.adapters.get(name)?))
    }

    /// Whether something that was sent there is looked for by the id of its effect: then no other request may hold one.
    #[must_use]
    pub fn is_read_by_effect(&self, authority: &Authority) -> bool {
        self.read_by_effect.contains(authority)
    }

    /// The compiled input schema of an action that declares one.
    #[must_use]
    pub fn schema(&self, name: &ActionName) -> Option<&Schema> {
        self.schemas.get(name)
    }

    /// The adapter in whose error format answers of ours on this host are given: that of any adapter action.
    #[must_use]
    pub fn shape(&self, authority: &Authority) -> Option<&Adapter> {
        self.config
            .actions
            .values()
            .filter(|action| adapting::authority(action) == *authority)
            .filter_map(|action| self.adapters.get(&action.name))
            .find(|adapter| adapting::is_provider(adapter))
    }

    /// Where to dial for a declared host.
    pub fn destination(&self, authority: &Authority, host: &Host) -> Arc<Destination> {
        let mut known = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(destination) = known.get(authority) {
            return Arc::clone(destination);
        }
        let trusted =
            host.ca_file.as_ref().and_then(|path| self.trust.get(path)).unwrap_or(&self.system_trust);
        let destination = Arc::new(Destination {
            authority: authority.clone(),
            tls: (!host.plain).then(|| Arc::clone(trusted)),
            connect_to: host.connect_to.clone(),
            allow_private: host.allow_private,
            ours: Arc::clone(&self.ours),
        });
        if known.len() < DESTINATIONS_MAX {
            known.insert(authority.clone(), Arc::clone(&destination));
        }
        destination
    }

    /// Where tokens are minted: as a declared host is dialled, else by its public name and the system's trust. Over TLS
    /// in any case.
    pub fn token_destination(&self, authority: &Authority) -> Arc<Destination> {
        match self.host(authority).filter(|host| !host.plain) {
            Some(host) => self.destination(authority, host),
            None => Arc::new(Destination {
                authority: authority.clone(),
                tls: Some(Arc::clone(&self.system_trust)),
                connect_to: None,
                allow_private: false,
                ours: Arc::clone(&self.ours),
            }),
        }
    }

    /// Whose key this is, and until when. Every key is compared, and each comparison takes the same time wherever it differs.
    #[must_use]
    pub fn caller_for_key(
        &self,
        presented: &Digest32,
        now: Timestamp,
    ) -> Option<(&CallerName, &Caller, Option<Timestamp>)> {
        let mut found = None;
        for (name, caller) in &self.config.callers {
            for valid in &caller.keys {
                if bool::from(valid.sha256.ct_eq(presented)) {
                    let expires = caller.expires.into_iter().chain(valid.expires).min();
                    found = Some((name, caller, expires));
                }
            }
        }
        found.filter(|(_, _, expires)| expires.is_none_or(|expires| now < expires))
    }

    /// A caller that is declared and has not expired.
    #[must_use]
    pub fn living_caller(&self, name: &CallerName, now: Timestamp) -> Option<&Caller> {
        let caller = self.config.callers.get(name)?;
        caller.expires.is_none_or(|expires| now < expires).then_some(caller)
    }

    /// The bounds of one exchange.
    #[must_use]
    pub fn bounds(&self) -> upstream::Bounds {
        let proxy = &self.config.proxy;
        upstream::Bounds {
            upstream_timeout: proxy.upstream_timeout,
            max_response_body: proxy.max_response_body,
            reuse_idle_within: proxy.reuse_idle_within,
            begin_before: None,
        }
    }
}

impl Sidecar {
    /// Puts the parts together.
    #[must_use]
    pub fn new(store: Store, clock: Clock, leaves: Leaves, files: Files, snapshot: Snapshot) -> Self {
        Self {
            store,
            clock,
            leaves,
            editions: Editions::default(),
            metrics: Arc::default(),
            traces: OnceLock::new(),
            pool: Arc::default(),
            tokens: Tokens::default(),
            in_flight: InFlight::default(),
            letting_through: tokio::sync::Mutex::default(),
            on_the_wire: Counted::default(),
            in_pipeline: Counted::default(),
            probes: Probes::default(),
            unknown_keys: UnknownKeys::default(),
            unrecorded: unrecorded::Room::default(),
            look_soon: Notify::new(),
            asked: Notify::new(),
            put_off: PutOff::default(),
            unasked: PutOff::default(),
            files,
            run_tokens: RunTokens::default(),
            snapshot: ArcSwap::from_pointee(snapshot),
        }
    }

    /// The configuration as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Takes another configuration for every request from now on.
    pub fn replace_snapshot(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
    }

    /// A key for one run of one command, or `None` when there is no such caller.
    pub fn issue_run_token(&self, caller: &CallerName) -> Option<String> {
        if !self.snapshot().config.callers.contains_key(caller) {
            return None;
        }
        self.run_tokens.issue(caller)
    }

    /// Ends a run's token: the run is over.
    pub fn revoke_run_token(&self, token: &str) {
        self.run_tokens.revoke(token);
    }

    /// Whose key this is: a configured key or a run's token.
    #[must_use]
    pub fn caller_for_key(&self, presented: &Digest32) -> Option<CallerName> {
        self.of_key(presented, CallerName::clone)
    }

    /// Whether this is a key of that caller's.
    #[must_use]
    pub fn is_key_of(&self, presented: &Digest32, caller: &CallerName) -> bool {
        self.of_key(presented, |name| name == caller).unwrap_or(false)
    }

    /// What is to be known of the one whose key this is.
    fn of_key<T>(&self, presented: &Digest32, known: impl FnOnce(&CallerName) -> T) -> Option<T> {
        let snapshot = self.snapshot.load();
        let now = self.clock.now();
        if let Some((name, ..)) = snapshot.caller_for_key(presented, now) {
            return Some(known(name));
        }
        let caller = self.run_tokens.caller(presented)?;
        snapshot.living_caller(&caller, now).map(|_| known(&caller))
    }
}

/// A new id's 26 characters, sortable by time.
#[must_use]
pub fn new_ulid() -> String {
    Ulid::new().to_string()
}
