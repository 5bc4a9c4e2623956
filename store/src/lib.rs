//! The memory. One verb is one transaction, durable when the verb returns.
//!
//! Everything that outlives a request is here: what was asked, what was claimed, what was seen, what is held.
//! The rules themselves are in `oncegate-policy`; the database repeats the ones that must never break. The
//! store sends nothing and asks no clock what time it is: time is handed in. Read `admit`, `claim`, `record`, `settle`, `sweep` and
//! `look` first.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use oncegate_policy::id::OwnerId;
use oncegate_policy::reconcile::Schedule;

pub mod admit;
pub mod approval;
pub mod by_hand;
pub mod claim;
pub mod error;
pub mod events;
pub mod examine;
pub mod failpoint;
pub mod found;
pub mod gained;
pub mod halt;
pub mod limits;
pub mod list;
pub mod lock;
pub mod look;
pub mod open;
pub mod plain;
pub mod preview;
pub mod prune;
pub mod read;
pub mod ready;
pub mod record;
pub mod replay;
pub mod resolve;
pub mod stats;
pub mod sweep;
pub mod trouble;
pub mod unsettled;
pub mod view;

mod attempt;
mod dependencies;
pub mod earlier;
mod facts;
mod holds;
mod insert;
mod job;
mod kept;
mod keys;
mod migrate;
mod place;
mod queue;
mod row;
mod settle;
mod tally;
mod writer;

pub use admit::{Admitted, NewEffect, RefusedRequest};
pub use by_hand::Hand;
pub use claim::{Claim, DispatchPermit, PlainClaim, PlainPermit, ReplayClaim, ReplayPermit, Unrecorded};
pub use error::{OpenError, StoreError};
pub use list::{EffectFilter, EffectList, InvocationList, InvocationView};
pub use look::{Found, LookDue};
pub use plain::{Begun, NewPlain, PlainView};
pub use preview::{CreatedPreview, NewPreview, PreviewView};
pub use read::Reader;
pub use record::Seen;
pub use stats::StoreStats;
pub use trouble::Trouble;
pub use view::{EffectDetail, EffectView, Exposure, SecretNames, StoredRequest, StoredResponse};

/// The memory of one sidecar. Clones share it; the last one to go closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The database file.
    pub path: PathBuf,
    /// When the provider is asked.
    pub schedule: Schedule,
    /// How many admissions may wait for the writer; one more is refused as overloaded.
    pub queue_capacity: usize,
    /// How long recorded answers are kept for repeats.
    pub keep_responses: Duration,
}

/// In the order in which it is taken down: first the readers, then the writer, which ends what it has, folds the log
/// into the database and removes it (SQLite does that when the last connection closes, if that one may write), then the
/// lock is given up.
struct Inner {
    reader: read::Reader,
    writer: writer::Writer,
    living: Arc<claim::Living>,
    /// Whether what earlier runs have left dispatching is swept: this run adds nothing to it.
    swept_earlier: AtomicBool,
    living_plain: Arc<claim::Living>,
    owner: OwnerId,
    schedule: Schedule,
    keep_responses: Duration,
    queue_capacity: usize,
    _lock: lock::Lock,
}

impl Store {
    /// This run of the process.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.inner.owner
    }

    /// The read-only half, which also works beside a running sidecar.
    #[must_use]
    pub fn reader(&self) -> &read::Reader {
        &self.inner.reader
    }
}
