//! One run of the process in a simulation: the real sidecar on a runtime of one thread, with a clock that only moves
//! when everything waits, a store whose commits are made by hand, and the simulated network.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex};

use oncegate::clock::{Clock, Simulated};
use oncegate::control::serving::{Api, Bounds};
use oncegate::listener::Seat;
use oncegate::own::{Own, Ports};
use oncegate::places::{Place, Places};
use oncegate::reload::Files;
use oncegate::state::{Sidecar, Snapshot, new_ulid};
use oncegate::upstream::dial::Dialler;
use oncegate::upstream::pool::Pool;
use oncegate::upstream::wire::Stream;
use oncegate::vault::Vault;
use oncegate::{connection, control, load, reconciler, reload};
use oncegate_certs::{Authority, Leaves};
use oncegate_policy::id::OwnerId;
use oncegate_policy::time::Timestamp;
use oncegate_store::{Hand, Store, StoreOptions};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use super::agents::{self, Call, Done};
use super::config::{self, Settings};
use super::wires::ToProvider;
use super::world::{Shared, lock};
use crate::failure::{During, Failure};
use crate::memory::Empty;

/// Leaves that are kept; none is minted.
const LEAVES: NonZeroUsize = NonZeroUsize::new(8).expect("8 is not zero");
/// Admissions that may wait for the store.
const QUEUE: usize = 64;
/// Agents' connections at once.
const SEATS: usize = 256;

/// The secret of the refunds; the provider's answers never hold it.
const STRIPE_KEY: &str = oncegate_tests::conf::CREDENTIAL;

/// What every run of every seed shares: made once, because it takes its time.
pub(crate) struct Ground {
    pub(crate) authority: Arc<Authority>,
    /// Holds the vault.
    pub(crate) folder: tempfile::TempDir,
    pub(crate) empty: Empty,
}

impl Ground {
    pub(crate) fn new() -> Result<Self, Failure> {
        let folder = crate::memory::folder()?;
        let authority = Authority::load_or_create(folder.path(), Clock::System.system())
            .during("make a certificate authority")?;
        let config = configuration(folder.path(), Settings { per_day: None })?.config;
        let vault = runtime()?.block_on(Vault::open(&config, folder.path())).during("open the vault")?;
        vault.put("STRIPE_KEY", STRIPE_KEY, Clock::System.now()).during("put a secret")?;
        Ok(Self { authority: Arc::new(authority), folder, empty: Empty::new()? })
    }
}

/// A sidecar that runs, and what the simulation does to it.
pub(crate) struct Life {
    pub(crate) sidecar: Arc<Sidecar>,
    pub(crate) hand: Hand,
    pub(crate) wall: Arc<Simulated>,
    own: Arc<Own>,
    seats: Arc<Semaphore>,
    stop: watch::Sender<bool>,
    done: Arc<Mutex<Vec<Done>>>,
    heard: Arc<Notify>,
    directory: std::path::PathBuf,
}

impl Life {
    /// Starts the sidecar as a start of the process does, without its sockets, and without its reconciler if the
    /// simulation makes the passes itself.
    pub(crate) async fn begin(
        ground: &Ground,
        world: &Shared,
        database: &Path,
        settings: Settings,
        now: Timestamp,
        reconciles: bool,
    ) -> Result<Self, Failure> {
        let wall = Arc::new(Simulated::at(now));
        let clock = Clock::Simulated(Arc::clone(&wall));
        let directory = ground.folder.path().to_owned();
        let loaded = configuration(&directory, settings)?;
        let files = Files::of(&loaded);
        let config = loaded.config;
        let options = StoreOptions {
            path: database.to_owned(),
            schedule: config.reconcile.schedule,
            queue_capacity: QUEUE,
            keep_responses: config.store.keep_responses,
        };
        let limits = config.limits.clone();
        let vault = Vault::open(&config, &directory).await.during("open the vault")?;
        let here = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let ours = Arc::new(Ports::from(vec![here(8080)]));
        let snapshot = Snapshot::new(config, directory.clone(), Arc::new(vault), Arc::clone(&ours));
        let snapshot = snapshot.during("make a snapshot")?;
        let owner = OwnerId::from_ulid(&new_ulid());
        let (store, mut hand) = Store::open_by_hand(options, owner, now).during("open the store")?;
        {
            let mut synced = std::pin::pin!(store.sync_limits(limits, now));
            let polled = std::future::poll_fn(|cx| {
                let early = synced.as_mut().poll(cx);
                hand.commit(1);
                if early.is_ready() { early } else { synced.as_mut().poll(cx) }
            });
            polled.await.during("bring the limits into the record")?;
        }
        let leaves = Leaves::new(Arc::clone(&ground.authority), LEAVES);
        let mut sidecar = Sidecar::new(store, clock, leaves, files, snapshot);
        let wires = Dialler::Simulated(Arc::new(ToProvider(Arc::clone(world))));
        sidecar.pool = Arc::new(Pool::over(wires));
        let sidecar = Arc::new(sidecar);
        let (stop, stopped) = watch::channel(false);
        let routes = control::router(Arc::clone(&sidecar), stopped.clone());
        let api = Api { routes, bounds: Bounds::default(), stop: stopped.clone() };
        let own = Arc::new(Own { proxies: ours, control: here(8081), api, places: Places::new(SEATS) });
        if reconciles {
            tokio::spawn(reconciler::run(Arc::clone(&sidecar), stopped));
        }
        Ok(Self {
            sidecar,
            hand,
            wall,
            own,
            seats: Arc::new(Semaphore::new(SEATS)),
            stop,
            done: Arc::default(),
            heard: Arc::new(Notify::new()),
            directory,
        })
    }

    /// Lets everything run that can, until all of it waits: for a clock, for the store, or for nothing.
    pub(crate) async fn settle(&self) {
        // The runtime polls this task again only when no other is ready; twice, since a timer may have fired between.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until `deadline`, or until something happens before it. Meanwhile the clock moves from one timer to the
    /// next.
    pub(crate) async fn wait(&self, deadline: Instant) {
        tokio::select! {
            biased;
            () = self.hand.asked() => {}
            () = self.heard.notified() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }

    /// A call on a connection of its own.
    pub(crate) fn call(&self, call: Call) {
        let Ok(permit) = Arc::clone(&self.seats).try_acquire_owned() else { return };
        let (near, far) = tokio::io::duplex(64 * 1024);
        let seat = Seat::take(&self.sidecar, self.stop.subscribe(), [Place::elsewhere(), Place::elsewhere()]);
        let (sidecar, own) = (Arc::clone(&self.sidecar), Arc::clone(&self.own));
        tokio::spawn(connection::serve(sidecar, own, Box::new(far), None, seat));
        let (done, heard) = (Arc::clone(&self.done), Arc::clone(&self.heard));
        tokio::spawn(async move {
            let _permit = permit;
            let begun = Instant::now();
            let answer = agents::make(Box::new(near) as Box<dyn Stream>, &call).await;
            let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let mut all = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.push(Done { call, took_ms, answer });
            drop(all);
            heard.notify_one();
        });
    }

    /// What has ended since, in an order that does not depend on who was woken first.
    pub(crate) fn done(&self) -> Vec<Done> {
        let mut all = self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut ended = std::mem::take(&mut *all);
        ended.sort_by_key(|done| done.call.number);
        ended
    }

    /// The configuration is another one from now on.
    pub(crate) fn reload(&self, world: &Shared, settings: Settings) -> Result<(), Failure> {
        let loaded = configuration(&self.directory, settings)?;
        let (sidecar, world) = (Arc::clone(&self.sidecar), Arc::clone(world));
        tokio::spawn(async move {
            // A store that cannot write keeps the old one, and says so.
            let taken = reload::take(&sidecar, loaded).await.is_ok();
            lock(&world).note(("reloaded", taken));
        });
        Ok(())
    }
}

fn configuration(directory: &Path, settings: Settings) -> Result<load::Loaded, Failure> {
    let text = config::text(settings, "unused.db");
    let name = directory.join("oncegate.toml");
    let texts = [load::Text { name: name.display().to_string(), text }];
    load::judge(&name, &texts).during("read the configuration of the simulation")
}

/// The runtime of one run: one thread, a clock that stands until everything waits, and no system calls for time or
/// sockets.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        // The driver of the simulation is polled again when no other task is ready, and not before.
        .event_interval(u32::MAX)
        .build()
        .during("make a runtime")
}
