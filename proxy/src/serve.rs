//! Start and stop: the parts put together, listeners bound, everything that runs in the background.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oncegate_certs::{Authority, Leaves};
use oncegate_policy::caller::CallerName;
use oncegate_policy::id::OwnerId;
use oncegate_store::lock::Lock;
use oncegate_store::{OpenError, Store, StoreError, StoreOptions};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::control::serving::{self, Api, Bounds};
use crate::descriptors::Shares;
use crate::listener::{self, Door, Socket};
use crate::load::Loaded;
use crate::own::{Own, Ports};
use crate::places::Places;
use crate::reload::Files;
use crate::run_port::RunPorts;
use crate::sockets::{self, OwnPorts, address, bind};
use crate::state::{Sidecar, Snapshot, SnapshotError, new_ulid};
use crate::strays::{self, Stray};
use crate::task;
use crate::traced::Traces;
use crate::vault::{Vault, VaultError};
use crate::{control, reconciler, secrets, upstream};

/// Minted leaves that are kept.
const LEAVES_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("1024 is not zero");
/// What listeners and background need beyond the grace of their connections.
const AFTER_GRACE: Duration = Duration::from_secs(1);
/// How long a graceful stop waits for open connections, and then for dispatches.
const GRACE: Duration = Duration::from_secs(20);

/// What a start may be given beside the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where time comes from.
    pub clock: Clock,
    /// How long a graceful stop waits for open connections.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Clock::System, grace: GRACE }
    }
}

/// Why a sidecar could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// A port or socket could not be had.
    #[error("{what} cannot listen on {at}")]
    Listen {
        /// Which listener.
        what: &'static str,
        /// Where.
        at: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The certificate authority.
    #[error("the certificate authority cannot be used")]
    Authority(#[from] oncegate_certs::AuthorityError),
    /// The bundle for clients.
    #[error("the certificate bundle cannot be written")]
    Bundle(#[from] oncegate_certs::BundleError),
    /// The database.
    #[error("the database cannot be opened")]
    Open(#[from] OpenError),
    /// The first things written to it, or read from it.
    #[error("the database {} cannot be used{}", database.display(), said(source))]
    Store {
        /// Which.
        database: PathBuf,
        /// The verb that failed.
        source: StoreError,
    },
    /// The vault.
    #[error("the vault cannot be used")]
    Vault(#[from] VaultError),
    /// The configuration names something that cannot be had.
    #[error("the configuration cannot be used")]
    Snapshot(#[from] SnapshotError),
}

/// Names what is open and belongs to no action any more.
async fn name_strays(store: &Store, snapshot: &Snapshot) -> Result<(), StoreError> {
    match strays::of(store, snapshot).await {
        Ok(strays) => strays.iter().for_each(Stray::warn),
        // What was sent may be missing in it: nothing is sent on its word.
        Err(error) if error.trouble().is_some() => return Err(error),
        // What reads and writes for a request says so as well, and stops where it has to.
        Err(error) => {
            tracing::error!(error = upstream::chain(&error), "what is not settled could not be read")
        }
    }
    Ok(())
}

/// What is wrong with the record as a whole, where that is known.
fn said(error: &StoreError) -> String {
    error.trouble().map(|trouble| format!(": {}", trouble.sentence())).unwrap_or_default()
}

/// A sidecar that serves.
pub struct Running {
    sidecar: Arc<Sidecar>,
    proxy: SocketAddr,
    control: SocketAddr,
    own_ports: BTreeMap<CallerName, OwnPorts>,
    bundle: PathBuf,
    ca_pem: PathBuf,
    run_ports: RunPorts,
    grace: Duration,
    stop: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
    background: Vec<JoinHandle<()>>,
}

/// Starts a sidecar: the lock of its database first, so that a second one is told that it is one; then ports, since they
/// fail most often and cost nothing; then trust, then the record.
///
/// # Errors
/// The step that failed.
pub async fn start(loaded: Loaded, options: Options) -> Result<Running, StartError> {
    let files = Files::of(&loaded);
    let trust_dir = loaded.trust_dir();
    let Loaded { config, directory, .. } = loaded;
    let database = directory.join(&config.store.path);
    let lock = Lock::take(&database)?;
    let proxy = bind("the proxy", config.proxy.listen).await?;
    let control = bind("the control API", config.control.listen).await?;
    let mut sockets = sockets::of_callers(&config.callers, &directory).await?;

    let (leaves, bundle) = trust(&directory.join(&config.ca_dir), &trust_dir, &options.clock)?;

    let now = options.clock.now();
    let store_options = StoreOptions {
        path: database.clone(),
        schedule: config.reconcile.schedule,
        queue_capacity: config.store.max_waiting,
        keep_responses: config.store.keep_responses,
    };
    let limits = config.limits.clone();
    let max_connections = config.proxy.max_connections;
    let vault = Vault::open(&config, &directory).await?;
    vault.seal_what_is_not()?;
    let proxy_addr = address("the proxy", &proxy)?;
    let control_addr = address("the control API", &control)?;
    sockets.insert(0, (Socket::Tcp(proxy), Door::Anyone));
    let (ports, own_ports) = sockets::ports(&sockets)?;
    let ours = Arc::new(Ports::from(ports));
    let snapshot = Snapshot::new(config, directory, Arc::new(vault), Arc::clone(&ours))?;
    let store = Store::open_locked(lock, store_options, OwnerId::from_ulid(&new_ulid()), now)?;
    let unusable = |source| StartError::Store { database: database.clone(), source };
    for difference in store.sync_limits(limits, now).await.map_err(unusable)? {
        tracing::info!(difference, "a limit differs from what was recorded");
    }
    name_strays(&store, &snapshot).await.map_err(unusable)?;
    let sidecar = Arc::new(Sidecar::new(store, options.clock, leaves, files, snapshot));

    let secrets = sidecar.snapshot().config.secrets.keys().cloned().collect();
    drop(task::start(secrets::warn_of_missing(sidecar.snapshot(), secrets)));

    let (stop, stopped) = watch::channel(false);
    trace(&sidecar, &stopped);
    let routes = control::router(Arc::clone(&sidecar), stopped.clone());
    let api = Api { routes, bounds: Bounds::default(), stop: stopped.clone() };
    let places = Places::new(allowed(max_connections));
    let here = Arc::new(Own { proxies: ours, control: control_addr, api: api.clone(), places });
    let run_ports = RunPorts {
        sidecar: Arc::downgrade(&sidecar),
        own: Arc::downgrade(&here),
        stop: stopped.clone(),
        grace: options.grace,
    };
    let listeners = listen(&sidecar, &here, sockets, &stopped, options.grace);
    let background = vec![
        task::start(reconciler::run(Arc::clone(&sidecar), stopped.clone())),
        task::start(serving::serve(Arc::clone(&sidecar), control, api, options.grace)),
    ];
    let ca_pem = trust_dir.join("ca.pem");
    Ok(Running {
        sidecar,
        proxy: proxy_addr,
        control: control_addr,
        own_ports,
        bundle,
        ca_pem,
        run_ports,
        grace: options.grace,
        stop,
        listeners,
        background,
    })
}

/// How many connections of agents there may be at a time. Says so where one listener may be promised more.
fn allowed(max_connections: usize) -> usize {
    let shares = Shares::of_this_process();
    if let Some(limit) = shares.limit
        && shares.agents < max_connections
    {
        tracing::warn!(
            limit,
            connections = shares.agents,
            max_connections,
            "the limit on descriptors allows fewer connections of agents than max_connections: raise it (ulimit -n, LimitNOFILE)"
        );
    }
    shares.agents
}

/// Each socket in a task of its own.
fn listen(
    sidecar: &Arc<Sidecar>,
    own: &Arc<Own>,
    sockets: Vec<(Socket, Door)>,
    stopped: &watch::Receiver<bool>,
    grace: Duration,
) -> Vec<JoinHandle<()>> {
    let serve = |(socket, door)| {
        let (sidecar, own) = (Arc::clone(sidecar), Arc::clone(own));
        task::start(listener::serve(sidecar, own, socket, door, stopped.clone(), grace))
    };
    sockets.into_iter().map(serve).collect()
}

/// The CA, and the files that make agents trust it; and where the bundle is.
fn trust(ca_dir: &Path, trust_dir: &Path, clock: &Clock) -> Result<(Leaves, PathBuf), StartError> {
    let authority = Arc::new(Authority::load_or_create(ca_dir, clock.system())?);
    let mut bundle = oncegate_certs::write_bundle(ca_dir, &authority)?;
    if trust_dir != ca_dir {
        bundle = oncegate_certs::write_trust(trust_dir, &authority)?;
    }
    Ok((Leaves::new(authority, LEAVES_MAX), bundle))
}

/// Spans go to the collector, where one is configured.
fn trace(sidecar: &Sidecar, stopped: &watch::Receiver<bool>) {
    if let Some(collector) = sidecar.snapshot().config.otel.endpoint.clone() {
        // Set once: this is the only place.
        drop(sidecar.traces.set(Traces::to(collector, stopped.clone())));
    }
}

impl Running {
    /// Where agents connect.
    #[must_use]
    pub fn proxy_addr(&self) -> SocketAddr {
        self.proxy
    }

    /// Where the API listens.
    #[must_use]
    pub fn control_addr(&self) -> SocketAddr {
        self.control
    }

    /// Ports that stand for one caller each.
    #[must_use]
    pub fn own_ports(&self) -> &BTreeMap<CallerName, OwnPorts> {
        &self.own_ports
    }

    /// System roots and our CA, in one file.
    #[must_use]
    pub fn bundle(&self) -> &Path {
        &self.bundle
    }

    /// Our CA alone.
    #[must_use]
    pub fn ca_pem(&self) -> &Path {
        &self.ca_pem
    }

    /// Opens ports for runs.
    #[must_use]
    pub fn run_ports(&self) -> &RunPorts {
        &self.run_ports
    }

    /// The shared handles.
    #[must_use]
    pub fn sidecar(&self) -> &Arc<Sidecar> {
        &self.sidecar
    }

    /// Stops accepting, lets open requests end, begins no look and no dispatch any more, and waits for those that are on
    /// their way: open connections and what runs in the background have one grace, dispatches another. What is cut off
    /// then is swept at the next start.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let ended = async {
            for task in self.listeners.into_iter().chain(self.background) {
                // They do not fail; if one panicked, the panic has been printed.
                drop(task.await);
            }
        };
        if tokio::time::timeout(self.grace + AFTER_GRACE, ended).await.is_err() {
            tracing::warn!("something in the background had not ended");
        }
        let (pipelines, wire) = (&self.sidecar.in_pipeline, &self.sidecar.on_the_wire);
        let drained = async {
            while pipelines.count() + wire.count() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(self.grace, drained).await.is_err() {
            tracing::warn!("some dispatches had not ended; they are unknown until somebody looks");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::load;

    /// The one place is taken by a request that hangs, and somebody waits for it.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_stop_is_heard_while_every_place_is_taken() {
        let provider = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let digest = oncegate_policy::fingerprint::digest_hex(b"ogk_agent");
        let text = format!(
            "[proxy]\nlisten = \"127.0.0.1:0\"\nmax_connections = 1\n[control]\nlisten = \"127.0.0.1:0\"\n\
             [callers.agent]\nkey_sha256 = \"{digest}\"\nscopes = [\"actions:invoke\"]\n\
             [hosts.\"slow.test:80\"]\nplain = true\nconnect_to = \"{}\"\n",
            provider.local_addr().unwrap()
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("oncegate.toml");
        std::fs::write(&file, text).unwrap();
        let options = Options { grace: Duration::from_millis(100), ..Options::default() };
        let running = start(load::load(&file).unwrap(), options).await.unwrap();

        let mut agent = TcpStream::connect(running.proxy_addr()).await.unwrap();
        let get = "GET http://slow.test/ HTTP/1.1\r\nHost: slow.test\r\nProxy-Authorization: Bearer ogk_agent\r\n\r\n";
        agent.write_all(get.as_bytes()).await.unwrap();
        let hanging = provider.accept().await.unwrap();
        let waiting = TcpStream::connect(running.proxy_addr()).await.unwrap();
        tokio::time::timeout(Duration::from_secs(15), running.stop()).await.expect("it ends");
        drop((hanging, waiting, agent));
    }
}
