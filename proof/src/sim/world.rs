//! What outlives a crash: the provider, what was shown to whom, the faults that were drawn, and what was found wrong.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::time::Instant;

use super::books::{Books, Fate};
use crate::rng::Rng;
use crate::schedules::plant::Plant as InTheDatabase;

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Fault {
    /// The provider applies, and its connection ends before an answer.
    LostAnswer,
    /// It applies, and the answer breaks in its middle.
    ResetMidAnswer,
    /// It applies, and answers 500.
    FailedAfterApply,
    /// It does not apply, and answers 503.
    FailedWithoutApply,
    /// It applies, and answers later than the agent waits.
    SlowAnswer,
    /// It applies, and answers later than anybody listens.
    NoAnswer,
    /// It applies, and answers something that is no HTTP.
    Garbled,
    /// It reads the request, drops it and resets the connection.
    Dropped,
    /// Its record says that the operation failed, and the answer is lost.
    FailedRecord,
    /// It applies, and does not list it for a while, or ever.
    ListLags,
    /// A look is answered 500, or not at all.
    LookFails,
    /// Nobody listens at its address.
    DialRefused,
    /// The name does not resolve.
    NoName,
    /// Its certificate is not trusted.
    TlsFails,
    /// The connection is never made.
    DialHangs,
    /// It closes a kept connection.
    StaleConnection,
    /// The database cannot grow.
    DiskFull,
    /// The process ends and starts again.
    Crash,
    /// The wall clock jumps.
    ClockJump,
    /// An agent ends its connection before its answer.
    HangUp,
}

/// An invariant that does not hold, and when.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
    /// Milliseconds since the seed began.
    pub(crate) at_ms: u64,
    /// Commits of the store until then.
    pub(crate) step: u64,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { invariant, what, at_ms, step } = self;
        write!(f, "step {step}, {at_ms} ms: {invariant}: {what}")
    }
}

/// A fault of the sidecar that is planted in the simulation, to see that it would be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// Whatever carries the request sends it again when the connection is reset.
    Resends,
    /// What becomes unknown is called failed at once.
    UnknownFreed,
    /// A hold is not counted.
    RoomUncounted,
}

impl Plant {
    pub(crate) const ALL: [Self; 3] = [Self::Resends, Self::UnknownFreed, Self::RoomUncounted];

    /// What is done to the database behind the store's back.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Self::Resends => "",
            Self::UnknownFreed => InTheDatabase::UnknownFreed.sql(),
            Self::RoomUncounted => InTheDatabase::RoomUncounted.sql(),
        }
    }
}

/// Everything that agents, provider and checks share.
pub(crate) struct World {
    /// What the provider and the wires do.
    pub(crate) rng: Rng,
    pub(crate) books: Books,
    pub(crate) plant: Option<Plant>,
    /// Until when the disk was full; `None` while it is.
    pub(crate) disk_full_until_ms: Option<u64>,
    /// What becomes of every write, where that is not drawn.
    pub(crate) fate: Option<Fate>,
    /// Nothing breaks any more.
    pub(crate) healed: bool,
    pub(crate) faults: BTreeSet<Fault>,
    /// Sees what is committed.
    pub(crate) shell: Connection,
    /// Commits so far.
    pub(crate) step: u64,
    pub(crate) violation: Option<Violation>,
    /// Ids are random, and a seed's digest must not be: each is known by when it was first met.
    names: HashMap<String, usize>,
    digest: DefaultHasher,
    /// Where this run of the process began, in the seed's time and in the runtime's.
    begun: (u64, Option<Instant>),
}

/// Shared by the tasks of one runtime.
pub(crate) type Shared = Arc<Mutex<World>>;

pub(crate) fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(rng: Rng, shell: Connection, plant: Option<Plant>) -> Self {
        Self {
            rng,
            books: Books::default(),
            plant,
            disk_full_until_ms: Some(0),
            fate: None,
            healed: false,
            faults: BTreeSet::new(),
            shell,
            step: 0,
            violation: None,
            names: HashMap::new(),
            digest: DefaultHasher::new(),
            begun: (0, None),
        }
    }

    /// A new run of the process: its runtime's clock begins anew.
    pub(crate) fn begin(&mut self, at_ms: u64) {
        self.begun = (at_ms, Some(Instant::now()));
    }

    /// The run has ended; when that was. Asked within its runtime, whose clock goes with it.
    pub(crate) fn stop(&mut self) -> u64 {
        let at_ms = self.now_ms();
        self.begun = (at_ms, None);
        at_ms
    }

    /// Milliseconds since the seed began.
    pub(crate) fn now_ms(&self) -> u64 {
        let (before, begun) = self.begun;
        before + begun.map_or(0, |begun| u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// One in `sides`, unless everything is healed: something breaks.
    pub(crate) fn breaks(&mut self, percent: usize, fault: Fault) -> bool {
        let broken = !self.healed && self.rng.below(100) < percent;
        if broken {
            self.faults.insert(fault);
        }
        broken
    }

    /// Something that happened, for the digest.
    pub(crate) fn note(&mut self, what: impl Hash) {
        self.now_ms().hash(&mut self.digest);
        what.hash(&mut self.digest);
    }

    /// The number of an id, by its first mention.
    pub(crate) fn number(&mut self, id: &str) -> usize {
        let next = self.names.len();
        *self.names.entry(id.to_owned()).or_insert(next)
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Something is wrong. The first one counts.
    pub(crate) fn violated(&mut self, invariant: &'static str, what: impl Into<String>) {
        let (at_ms, step, what) = (self.now_ms(), self.step, what.into());
        self.violation.get_or_insert(Violation { invariant, what, at_ms, step });
    }
}
