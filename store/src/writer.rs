//! The one thread that writes. It takes whatever is queued, runs all of it in one transaction, commits once, and only
//! then answers. If one job fails half-way, all are run again, each in a savepoint. There is no timer: a lone job is
//! committed at once, and while one commit waits for the disk the next batch gathers by itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use oncegate_policy::id::OwnerId;
use oncegate_policy::reconcile::Schedule;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::claim::Living;
use crate::error::{Fault, OpenError, StoreError};
use crate::events::Head;
use crate::job::Verb;
use crate::kept::{Kept, Statements};
use crate::open;
use crate::place::Place;
use crate::queue::{NotQueued, Queue};
use crate::stats::{Counters, StoreStats};
use crate::tally::Tally;
use crate::trouble::Trouble;

mod commit;

use commit::hit_each;

pub(crate) use crate::job::{Job, Step};

/// Jobs in one commit, at most: bounds how long the first of them waits for the last.
const BATCH_JOBS_MAX: usize = 256;
/// Pages in the write-ahead log at which the side thread begins to fold it into the database. Whoever commits meanwhile
/// waits for the same disk: more pages at once are fewer in all, and longer waits.
const LOG_PAGES_FOLD: u64 = 500;
/// Pages that the side thread may have left when the writer folds the rest, between two commits, so that the log starts
/// over. Everybody waits for that.
const LOG_PAGES_REST: u64 = 128;
/// Pages at which the writer folds whatever is left.
const LOG_PAGES_MAX: u64 = 4_000;
/// Pages at which a log that cannot start over is reported: 64 MiB.
const LOG_PAGES_WARN: u64 = 16_000;

/// What a verb works with.
pub(crate) struct Tx<'a> {
    pub(crate) connection: &'a Connection,
    /// On the same connection, for what every write needs.
    pub(crate) statements: &'a dyn Statements,
    pub(crate) setting: &'a Setting,
    pub(crate) head: &'a mut Head,
    pub(crate) tally: &'a mut Tally,
}

/// What is the same for every verb of a run.
pub(crate) struct Setting {
    pub(crate) run: i64,
    pub(crate) owner: OwnerId,
    pub(crate) schedule: Schedule,
    /// Attempts of this run that somebody holds.
    pub(crate) living: Arc<Living>,
    /// Invocations without an effect, of this run, that somebody holds.
    pub(crate) living_plain: Arc<Living>,
}

/// The handle that verbs use.
pub(crate) struct Writer {
    queue: Arc<Queue<Box<dyn Job>>>,
    side: Arc<Side>,
    counters: Arc<Counters>,
    /// Not watched where the store is worked by hand.
    place: Option<Arc<Place>>,
    /// The side thread, then the writer.
    threads: [Option<JoinHandle<()>>; 2],
}

impl Writer {
    /// Starts the writer on `connection`, and the side thread that folds the log of the database at `path`.
    pub(crate) fn start(
        connection: Connection,
        path: PathBuf,
        setting: Setting,
        head: Head,
    ) -> Result<Self, OpenError> {
        let place = Place::of(&path).map_err(|source| OpenError::File {
            step: "find",
            path: path.clone(),
            source,
        })?;
        let (mut writer, mut work) = Self::without_threads(Queue::new(), connection, setting, head);
        let place = Arc::new(place);
        (writer.place, work.turns.place) = (Some(Arc::clone(&place)), Some(place));
        let side = Arc::clone(&writer.side);
        writer.threads[0] = spawn("store-fold", move || side.on(&path))?;
        let queue = Arc::clone(&writer.queue);
        writer.threads[1] = spawn("store-writer", move || work.on(&queue))?;
        Ok(writer)
    }

    /// The handle, and the work that somebody has to do.
    pub(crate) fn without_threads(
        queue: Queue<Box<dyn Job>>,
        mut connection: Connection,
        setting: Setting,
        head: Head,
    ) -> (Self, Work) {
        let counters = Arc::new(Counters::default());
        let seen = Arc::clone(&counters);
        let watched = connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            seen.log_pages.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }));
        if let Err(error) = watched {
            tracing::warn!(%error, "the length of the write-ahead log is not watched");
        }
        let writer = Self {
            queue: Arc::new(queue),
            side: Arc::new(Side::new()),
            counters: Arc::clone(&counters),
            place: None,
            threads: [None, None],
        };
        let side = Arc::clone(&writer.side);
        let turns = Turns {
            setting,
            head,
            tally: Tally::default(),
            counters,
            side,
            place: None,
            is_moved: false,
            log_was: 0,
            asked_at: 0,
            was_long: false,
        };
        (writer, Work { connection, turns })
    }

    /// What waits to be written.
    pub(crate) fn queue(&self) -> Arc<Queue<Box<dyn Job>>> {
        Arc::clone(&self.queue)
    }

    /// Whether the database is not where it was opened.
    pub(crate) fn is_moved(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.is_left())
    }

    /// What is known of the file, shared with whoever reads it.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    pub(crate) fn stats(&self) -> StoreStats {
        self.counters.read(self.queue.depth())
    }

    /// Runs a verb and waits for its commit. `waiting_max` bounds the queue for verbs that may be turned away;
    /// what follows a send must be recorded, and what a person decides must count: both pass `usize::MAX`.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        step: Step,
        waiting_max: usize,
        verb: impl FnMut(&mut Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (waiting, answer) = oneshot::channel();
        let job = Verb::new(step, verb, waiting);
        self.queue.push(Box::new(job), waiting_max).map_err(|why| match why {
            NotQueued::Full => StoreError::Overloaded,
            NotQueued::Closed => StoreError::Closed,
        })?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // One after the other: connections that close at once take each other for users of the log, and none folds it.
        let [side, writer] = &mut self.threads;
        self.side.asked.close();
        join(side.take());
        // What is queued is still done: it may be the record of something that was sent.
        self.queue.close();
        join(writer.take());
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<Option<JoinHandle<()>>, OpenError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map(Some).map_err(OpenError::Thread)
}

fn join(thread: Option<JoinHandle<()>>) {
    if thread.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("a thread of the store had panicked");
    }
}

/// What the writer's thread owns.
pub(crate) struct Work {
    pub(crate) connection: Connection,
    turns: Turns,
}

/// What it works on the connection with, one batch after the other.
struct Turns {
    setting: Setting,
    head: Head,
    tally: Tally,
    counters: Arc<Counters>,
    side: Arc<Side>,
    place: Option<Arc<Place>>,
    /// Whether the database was somewhere else when a right to send was asked for last: none is given then.
    is_moved: bool,
    /// Pages of the log after the last commit, and when the side thread was asked last.
    log_was: u64,
    asked_at: u64,
    was_long: bool,
}

impl Work {
    fn on(self, queue: &Queue<Box<dyn Job>>) {
        let Self { connection, mut turns } = self;
        let kept = Kept::new(&connection);
        while let Some(batch) = queue.take(BATCH_JOBS_MAX) {
            turns.turn(&kept, batch);
        }
    }

    /// One batch: one commit, and then the answers.
    pub(crate) fn turn(&mut self, batch: Vec<Box<dyn Job>>) {
        self.turns.turn(&Kept::new(&self.connection), batch);
    }

    /// What the side thread is asked, where there is none.
    pub(crate) fn on_the_side(&self) {
        let side = &self.turns.side;
        if !side.asked.take_now(usize::MAX).is_empty() {
            side.folded.store(fold(&self.connection), Ordering::Relaxed);
        }
    }
}

impl Turns {
    fn turn(&mut self, kept: &Kept<'_>, mut batch: Vec<Box<dyn Job>>) {
        let (before, begun) = (self.head.clone(), Instant::now());
        self.look_for_the_file(&batch);
        match self.commit(kept, &mut batch) {
            Ok(durable) => {
                let met = batch.iter().filter_map(|job| job.fault()).find_map(Trouble::of);
                if durable || met.is_some() {
                    self.counters.met(met);
                }
                if durable {
                    self.counters.committed(batch.len(), begun.elapsed());
                    hit_each(&batch, |step| step.after);
                }
                batch.into_iter().for_each(|job| job.reply(Ok(())));
            }
            Err(source) => {
                self.counters.failed();
                self.counters.met(Some(Trouble::of(&source).unwrap_or(Trouble::Disk)));
                self.head = before;
                self.tally.forget();
                self.undo(kept.connection, batch, source);
            }
        }
        self.keep_the_log_short(kept.connection);
    }

    /// Before a right to send is given: whether it would be found after a restart.
    fn look_for_the_file(&mut self, batch: &[Box<dyn Job>]) {
        let Some(place) = self.place.as_ref().filter(|_| batch.iter().any(|job| job.step().permits)) else {
            return;
        };
        let is_left = place.is_left();
        if is_left && !self.is_moved {
            tracing::error!("the database cannot be relied on: {}", Trouble::Moved.sentence());
        }
        self.is_moved = is_left;
    }

    /// Off the commit path: nobody of the batch waits any more. The side thread copies most pages and waits for the
    /// disk. Under steady load new pages always follow, so it does that again until few are left, and the writer takes
    /// these itself, after which the log starts over. Neither ever waits for a reader: while somebody reads an old
    /// snapshot, the log only grows, and that is said.
    fn keep_the_log_short(&mut self, connection: &Connection) {
        let pages = self.counters.log_pages.load(Ordering::Relaxed);
        if pages < self.log_was {
            // It has started over.
            self.asked_at = 0;
            self.side.folded.store(0, Ordering::Relaxed);
        }
        self.log_was = pages;
        let left = pages.saturating_sub(self.side.folded.load(Ordering::Relaxed));
        if pages >= LOG_PAGES_MAX || (pages >= LOG_PAGES_FOLD && left <= LOG_PAGES_REST) {
            fold(connection);
        } else if pages >= LOG_PAGES_FOLD && pages - self.asked_at > LOG_PAGES_REST {
            // One that waits already will see these pages as well.
            drop(self.side.asked.push((), 1));
            self.asked_at = pages;
        }
        // After a fold the next commit lets the log start over, unless somebody still needs what is in it.
        let long = pages >= LOG_PAGES_WARN;
        let held = long && self.was_long;
        self.was_long = long;
        if held != self.counters.log_held.swap(held, Ordering::Relaxed) {
            if held {
                tracing::warn!(
                    pages,
                    "somebody holds a long read on the database: its log cannot start over and grows"
                );
            } else {
                tracing::info!(pages, "the database's log starts over again");
            }
        }
    }
}

fn execute(statements: &dyn Statements, statement: &'static str) -> rusqlite::Result<()> {
    statements.execute(statement, []).map(drop)
}

/// Pages of the log that are in the database now, all those before the oldest snapshot that somebody reads.
fn fold(connection: &Connection) -> u64 {
    let folded = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(2));
    if let Err(error) = &folded {
        tracing::warn!(%error, "the write-ahead log could not be folded into the database; it will be tried again");
    }
    folded.ok().and_then(|pages| u64::try_from(pages).ok()).unwrap_or(0)
}

/// What the side thread is asked, and how far it is.
struct Side {
    asked: Queue<()>,
    /// Pages of the log that are in the database. May be of the log before this one, for an instant: then the writer folds
    /// more by itself than it should.
    folded: AtomicU64,
}

impl Side {
    fn new() -> Self {
        Self { asked: Queue::new(), folded: AtomicU64::new(0) }
    }

    /// The side thread's life. Its connection is made when the log is long for the first time: most runs are over before.
    fn on(&self, database: &Path) {
        let mut kept = None;
        while self.asked.take(usize::MAX).is_some() {
            match kept.take().map_or_else(|| open::writing(database), Ok) {
                Ok(connection) => self.folded.store(fold(kept.insert(connection)), Ordering::Relaxed),
                Err(error) => tracing::warn!(%error, "only the writer can fold the write-ahead log"),
            }
        }
    }
}
