//! The one thread that writes. It takes whatever is queued, runs each job in a savepoint of one transaction,
//! commits once, and only then answers. There is no timer: a lone job is committed at once, and while one commit
//! waits for the disk the next batch gathers by itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::JoinHandle;

use oncegate_policy::reconcile::Schedule;
use rusqlite::{Connection, ffi};
use tokio::sync::oneshot;

use crate::claim::Living;
use crate::error::{Fault, OpenError, StoreError};
use crate::events::Head;
use crate::failpoint;
use crate::queue::{NotQueued, Queue};

/// Jobs in one commit, at most: bounds how long the first of them waits for the last.
const BATCH_JOBS_MAX: usize = 256;
/// Pages in the write-ahead log at which the side thread begins to fold it into the database.
const LOG_PAGES_FOLD: i32 = 2_000;
/// Pages at which the writer folds the rest, between two commits, so that the log starts over.
const LOG_PAGES_MAX: i32 = 4_000;

/// A verb: how it is called in errors, and its failpoints around the commit.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    words: &'static str,
    before: Option<&'static str>,
    after: Option<&'static str>,
}

impl Step {
    /// `words` follow "could not".
    pub(crate) const fn new(words: &'static str) -> Self {
        Self { words, before: None, after: None }
    }

    pub(crate) const fn failing_at(self, before: &'static str, after: &'static str) -> Self {
        Self { words: self.words, before: Some(before), after: Some(after) }
    }
}

/// What a verb works with.
pub(crate) struct Tx<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) setting: &'a Setting,
    pub(crate) head: &'a mut Head,
}

/// What is the same for every verb of a run.
pub(crate) struct Setting {
    pub(crate) run: i64,
    pub(crate) schedule: Schedule,
    /// Attempts of this run that somebody holds.
    pub(crate) living: Arc<Living>,
    /// Invocations without an effect, of this run, that somebody holds.
    pub(crate) living_plain: Arc<Living>,
}

/// A verb with the one who waits for it.
trait Job: Send {
    fn step(&self) -> Step;
    /// Whether what it wrote is to be kept.
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;
    /// Tells the one who waits, once the commit is decided.
    fn reply(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Verb<T, F> {
    step: Step,
    verb: Option<F>,
    done: Option<Result<T, StoreError>>,
    waiting: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Verb<T, F>
where
    T: Send,
    F: FnOnce(&mut Tx<'_>) -> Result<T, Fault> + Send,
{
    fn step(&self) -> Step {
        self.step
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        let step = self.step.words;
        self.done = self.verb.take().map(|verb| verb(tx).map_err(|fault| StoreError::Failed { step, fault }));
        matches!(self.done, Some(Ok(_)))
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) {
        let done = self.done.unwrap_or(Err(StoreError::Closed));
        // Nobody listens when the caller was cancelled: the value, and a claim in it, is dropped here, and the
        // sweep finds it.
        drop(self.waiting.send(committed.and(done)));
    }
}

/// The handle that verbs use.
pub(crate) struct Writer {
    queue: Arc<Queue<Box<dyn Job>>>,
    folding: Arc<Queue<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Writer {
    /// Starts the writer on `connection`, and the side thread that folds the log on `side`.
    pub(crate) fn start(
        mut connection: Connection,
        side: Connection,
        setting: Setting,
        head: Head,
    ) -> Result<Self, OpenError> {
        let pages = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&pages);
        let watched = connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        }));
        if let Err(error) = watched {
            tracing::warn!(%error, "the length of the write-ahead log is not watched");
        }
        let mut writer =
            Self { queue: Arc::new(Queue::new()), folding: Arc::new(Queue::new()), threads: vec![] };
        let folding = Arc::clone(&writer.folding);
        writer.spawn("store-fold", move || {
            while folding.take(usize::MAX).is_some() {
                fold(&side);
            }
        })?;
        let work = Work { connection, setting, head, pages, folding: Arc::clone(&writer.folding) };
        let queue = Arc::clone(&writer.queue);
        writer.spawn("store-writer", move || work.on(&queue))?;
        Ok(writer)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread =
            std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(OpenError::Thread)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Runs a verb and waits for its commit. `waiting_max` bounds the queue for verbs that may be turned away;
    /// what follows a send must be recorded and passes `usize::MAX`.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        step: Step,
        waiting_max: usize,
        verb: impl FnOnce(&mut Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (waiting, answer) = oneshot::channel();
        let job = Verb { step, verb: Some(verb), done: None, waiting };
        self.queue.push(Box::new(job), waiting_max).map_err(|why| match why {
            NotQueued::Full => StoreError::Overloaded,
            NotQueued::Closed => StoreError::Closed,
        })?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // What is queued is still done: it may be the record of something that was sent.
        self.queue.close();
        self.folding.close();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store had panicked");
            }
        }
    }
}

/// What the writer's thread owns.
struct Work {
    connection: Connection,
    setting: Setting,
    head: Head,
    pages: Arc<AtomicI32>,
    folding: Arc<Queue<()>>,
}

impl Work {
    fn on(mut self, queue: &Queue<Box<dyn Job>>) {
        let mut asked_to_fold = false;
        while let Some(mut batch) = queue.take(BATCH_JOBS_MAX) {
            let before = self.head.clone();
            match self.commit(&mut batch) {
                Ok(()) => {
                    hit_each(&batch, |step| step.after);
                    batch.into_iter().for_each(|job| job.reply(Ok(())));
                }
                Err(source) => {
                    self.head = before;
                    self.undo(batch, source);
                }
            }
            // Off the commit path: nobody of this batch waits any more. The side thread copies most pages and
            // waits for the disk. Under steady load new pages always follow, so the writer takes the rest itself,
            // after which the log starts over. Neither ever waits for a reader.
            let pages = self.pages.load(Ordering::Relaxed);
            if pages >= LOG_PAGES_MAX {
                fold(&self.connection);
                asked_to_fold = false;
            } else if pages >= LOG_PAGES_FOLD && !asked_to_fold {
                asked_to_fold = self.folding.push((), 1).is_ok();
            } else if pages < LOG_PAGES_FOLD {
                asked_to_fold = false;
            }
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
        execute(&self.connection, "BEGIN IMMEDIATE")?;
        let start = self.head.clone();
        for job in batch.iter_mut() {
            self.run(job.as_mut())?;
        }
        if self.head != start {
            self.head.keep(&self.connection)?;
        }
        // Crash window. Before this COMMIT returns nothing of the batch exists; after it, everything does. No
        // permit is handed out before, so no byte of a governed request can have left on a batch that is lost.
        hit_each(batch, |step| step.before);
        execute(&self.connection, "COMMIT")
    }

    /// One job in a savepoint of its own: if it fails, its neighbours do not notice.
    fn run(&mut self, job: &mut dyn Job) -> rusqlite::Result<()> {
        execute(&self.connection, "SAVEPOINT job")?;
        let before = self.head.clone();
        let mut tx = Tx { connection: &self.connection, setting: &self.setting, head: &mut self.head };
        let kept = catch_unwind(AssertUnwindSafe(|| job.run(&mut tx))).unwrap_or(false);
        if self.connection.is_autocommit() {
            // A full disk or an I/O error: SQLite has rolled everything back by itself, the neighbours too.
            let why = "the whole transaction was rolled back".to_owned();
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ABORT), Some(why)));
        }
        if !kept {
            self.head = before;
            execute(&self.connection, "ROLLBACK TO job")?;
        }
        execute(&self.connection, "RELEASE job")
    }

    fn undo(&self, batch: Vec<Box<dyn Job>>, source: rusqlite::Error) {
        tracing::error!(error = %source, "the store could not commit; nothing of this batch is recorded");
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "the failed transaction could not be rolled back either");
        }
        let source = Arc::new(source);
        for job in batch {
            let step = job.step().words;
            job.reply(Err(StoreError::Commit { step, source: Arc::clone(&source) }));
        }
    }
}

fn hit_each(batch: &[Box<dyn Job>], at: impl Fn(Step) -> Option<&'static str>) {
    batch.iter().filter_map(|job| at(job.step())).for_each(failpoint::hit);
}

fn execute(connection: &Connection, statement: &'static str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}

fn fold(connection: &Connection) {
    let folded = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    if let Err(error) = folded {
        tracing::warn!(%error, "the write-ahead log could not be folded into the database; it will be tried again");
    }
}
