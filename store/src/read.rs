//! Reading, on connections of its own that can write nothing. A reader needs no lock and works beside a running
//! sidecar.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use oncegate_policy::effect::{Outcome, Stage};
use oncegate_policy::id::{AttemptId, EffectId, InvocationId, LimitId};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::Store;
use crate::error::{Fault, OpenError, StoreError};
use crate::events::{self, ChainReport};
use crate::queue::{NotQueued, Queue};
use crate::row::{self, Columns, Effect};
use crate::stats::Counters;
use crate::trouble::Trouble;
use crate::view::{AttemptKind, AttemptView, EffectDetail, EvidenceView, Exposure, Reservation};
use crate::{attempt, limits, open};

pub use crate::list::{EffectFilter, EffectList};

/// Threads that read, each with a connection.
const READERS: usize = 2;
/// Reads that may wait; one more is refused as overloaded.
const WAITING_MAX: usize = 4_096;

pub(crate) type Look = Box<dyn FnOnce(&Connection) + Send>;

/// The read-only half of the memory.
#[derive(Clone)]
pub struct Reader {
    pool: Arc<Pool>,
    /// Of the store that reads with it: what is found damaged counts for its writer too.
    told: Option<Arc<Counters>>,
}

struct Pool {
    queue: Arc<Queue<Look>>,
    threads: Vec<JoinHandle<()>>,
}

impl Reader {
    /// Reads a database that a sidecar made, running or not.
    ///
    /// # Errors
    /// There is no such database, or this version cannot read it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::by(path, open::reading)
    }

    /// The same for [`Reader::verify_chain`] alone, of a database that may be of an earlier version.
    ///
    /// # Errors
    /// There is no such database, or it is of a later version.
    pub fn open_chain(path: &Path) -> Result<Self, OpenError> {
        Self::by(path, open::reading_chain)
    }

    fn by(path: &Path, connect: fn(&Path) -> Result<Connection, OpenError>) -> Result<Self, OpenError> {
        let mut pool = Pool { queue: Arc::new(Queue::new()), threads: Vec::with_capacity(READERS) };
        for number in 0..READERS {
            let connection = connect(path)?;
            let queue = Arc::clone(&pool.queue);
            let work = move || {
                while let Some(looks) = queue.take(1) {
                    looks.into_iter().for_each(|look| look(&connection));
                }
            };
            let name = format!("store-reader-{number}");
            pool.threads.push(std::thread::Builder::new().name(name).spawn(work).map_err(OpenError::Thread)?);
        }
        Ok(Self { pool: Arc::new(pool), told: None })
    }

    /// One without threads: whoever holds the queue answers what is in it, on a connection of its own.
    pub(crate) fn by_hand(looks: Arc<Queue<Look>>) -> Self {
        Self { pool: Arc::new(Pool { queue: looks, threads: vec![] }), told: None }
    }

    /// Damage that a read meets closes the store to new rights to send, as that does which a write meets.
    pub(crate) fn telling(self, counters: Arc<Counters>) -> Self {
        Self { told: Some(counters), ..self }
    }

    /// One read in a thread of the pool.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        step: &'static str,
        look: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (waiting, answer) = oneshot::channel();
        let told = self.told.clone();
        let job = move |connection: &Connection| {
            let found = look(connection).map_err(|fault| StoreError::Failed { step, fault });
            // Before the one who waits is answered: it must not send on the word of a record that lacks something.
            if let (Some(told), Err(error)) = (told, &found)
                && error.trouble() == Some(Trouble::Damaged)
            {
                told.met(Some(Trouble::Damaged));
            }
            // Nobody listens when the caller was cancelled.
            drop(waiting.send(found));
        };
        self.pool.queue.push(Box::new(job), WAITING_MAX).map_err(|why| match why {
            NotQueued::Full => StoreError::Overloaded,
            NotQueued::Closed => StoreError::Closed,
        })?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// One effect with everything that is known of it.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn effect(&self, id: &EffectId) -> Result<Option<EffectDetail>, StoreError> {
        let id = id.clone();
        self.read("read an effect", move |connection| {
            snapshot(connection, |inside| {
                row::by_id(inside, &id)?.map(|effect| detail(inside, effect)).transpose()
            })
        })
        .await
    }

    /// The effect of one invocation.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn effect_of(&self, invocation: &InvocationId) -> Result<Option<EffectDetail>, StoreError> {
        let id = invocation.clone();
        self.read("read an invocation", move |connection| {
            snapshot(connection, |inside| {
                row::by_invocation(inside, &id)?.map(|effect| detail(inside, effect)).transpose()
            })
        })
        .await
    }

    /// Every limit with its counters at `now`, archived ones last.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn exposures(&self, now: Timestamp) -> Result<Vec<Exposure>, StoreError> {
        self.read("read the limits", move |connection| {
            snapshot(connection, |inside| limits::exposures(inside, now))
        })
        .await
    }

    /// Checks the whole evidence chain.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn verify_chain(&self) -> Result<ChainReport, StoreError> {
        self.read("check the evidence chain", events::verify).await
    }
}

impl Store {
    /// One effect with everything that is known of it.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn effect(&self, id: &EffectId) -> Result<Option<EffectDetail>, StoreError> {
        self.inner.reader.effect(id).await
    }

    /// The effect of one invocation.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn effect_of(&self, invocation: &InvocationId) -> Result<Option<EffectDetail>, StoreError> {
        self.inner.reader.effect_of(invocation).await
    }

    /// Every limit with its counters at `now`, archived ones last.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn exposures(&self, now: Timestamp) -> Result<Vec<Exposure>, StoreError> {
        self.inner.reader.exposures(now).await
    }

    /// Checks the whole evidence chain.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn verify_chain(&self) -> Result<ChainReport, StoreError> {
        self.inner.reader.verify_chain().await
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reading thread of the store had panicked");
            }
        }
    }
}

/// Several statements that must agree with each other.
pub(crate) fn snapshot<T>(
    connection: &Connection,
    look: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let inside = connection.unchecked_transaction()?;
    look(&inside)
}

pub(crate) fn detail(connection: &Connection, effect: Effect) -> Result<EffectDetail, Fault> {
    Ok(EffectDetail {
        attempts: attempts(connection, &effect)?,
        evidence: evidence(connection, &effect.view.id)?,
        reservations: reservations(connection, effect.key)?,
        depends_on: depends_on(connection, effect.key)?,
        compensated_by: compensated_by(connection, &effect.view.id)?,
        view: effect.view,
    })
}

fn attempts(connection: &Connection, effect: &Effect) -> Result<Vec<AttemptView>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, kind, author, started_at, ended_at, verdict, seen, step, cause, status, digest
         FROM attempt WHERE key BETWEEN ?1 << 20 AND (?1 << 20) + 1048575 ORDER BY key",
    )?;
    let mut attempts = collect(&mut statement.query([effect.key])?, |columns| {
        Ok(AttemptView {
            id: columns
                .maybe("attempt id", AttemptId::parse)?
                .unwrap_or_else(|| attempt::dispatch_id(&effect.view.id)),
            kind: columns.word("kind of attempt", AttemptKind::parse)?,
            author: columns.next()?,
            started_at: Timestamp(columns.next()?),
            ended_at: columns.time()?,
            verdict: columns.next()?,
            seen: columns.next()?,
            step: columns.next()?,
            cause: columns.next()?,
            status: columns.next()?,
            digest: columns.next::<Option<Vec<u8>>>()?.map(|digest| row::to_hex(&digest)),
        })
    })?;
    if let Stage::Dispatching { claimed_at, .. } = &effect.view.stage
        && !attempts.iter().any(|attempt| attempt.kind == AttemptKind::Dispatch)
    {
        // No row of its own before something was seen of it.
        attempts.insert(0, AttemptView::dispatching(attempt::dispatch_id(&effect.view.id), *claimed_at));
    }
    Ok(attempts)
}

fn evidence(connection: &Connection, effect: &EffectId) -> Result<Vec<EvidenceView>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, kind, author, text, detail FROM event WHERE effect = ?1 AND text IS NOT NULL ORDER BY seq",
    )?;
    collect(&mut statement.query([effect.as_str()])?, |columns| {
        Ok(EvidenceView {
            seq: columns.next()?,
            at: Timestamp(columns.next()?),
            kind: columns.next()?,
            author: columns.next()?,
            text: columns.next()?,
            detail: columns.word("detail", |text| serde_json::from_str(text).ok())?,
        })
    })
}

fn reservations(connection: &Connection, effect: i64) -> Result<Vec<Reservation>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT l.id, l.name, h.amount, h.state, h.consumed, h.ended_at
         FROM hold h JOIN impact_limit l ON l.key = h.limit_key WHERE h.effect = ?1 ORDER BY h.limit_key",
    )?;
    collect(&mut statement.query([effect])?, |columns| {
        Ok(Reservation {
            limit: columns.word("limit id", LimitId::parse)?,
            name: columns.next()?,
            amount: columns.next()?,
            state: columns.next()?,
            consumed: columns.next()?,
            ended_at: columns.time()?,
        })
    })
}

pub(crate) fn depends_on(connection: &Connection, effect: i64) -> Result<Vec<(EffectId, Outcome)>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT e.id, d.outcome FROM dependency d JOIN effect e ON e.key = d.on_effect WHERE d.effect = ?1",
    )?;
    collect(&mut statement.query([effect])?, |columns| {
        Ok((columns.word("effect id", EffectId::parse)?, columns.word("outcome", row::outcome)?))
    })
}

fn compensated_by(connection: &Connection, effect: &EffectId) -> Result<Vec<EffectId>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT id FROM effect WHERE compensates = ?1 ORDER BY key")?;
    collect(&mut statement.query(params![effect.as_str()])?, |columns| {
        columns.word("effect id", EffectId::parse)
    })
}

/// Every row as a value, or the first fault.
pub(crate) fn collect<T>(
    rows: &mut rusqlite::Rows<'_>,
    read: impl Fn(&mut Columns<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(&mut Columns::of(row))?);
    }
    Ok(found)
}
