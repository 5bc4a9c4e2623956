//! One batch, one commit: its jobs, run together, or apart when one of them fails half-way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rusqlite::{Connection, ffi};

use super::{Turns, Tx, execute};
use crate::error::{Fault, StoreError};
use crate::events::Head;
use crate::failpoint::{self, Plant};
use crate::job::{Job, Step};
use crate::kept::Kept;
use crate::trouble::Trouble;

impl Turns {
    /// Whether something was committed.
    pub(super) fn commit(
        &mut self,
        kept: &Kept<'_>,
        batch: &mut Vec<Box<dyn Job>>,
    ) -> rusqlite::Result<bool> {
        let start = self.head.clone();
        loop {
            self.begin(kept)?;
            match self.run_together(kept, batch)? {
                Together::Done => break,
                Together::Damaged if batch.len() > 1 => self.roll_back(kept, &start)?,
                Together::Spoilt if batch.len() > 1 => {
                    self.roll_back(kept, &start)?;
                    self.begin(kept)?;
                    if self.run_all_apart(kept, batch)? {
                        break;
                    }
                    self.roll_back(kept, &start)?;
                }
                Together::Damaged | Together::Spoilt | Together::Nothing => {
                    self.roll_back(kept, &start)?;
                    return Ok(false);
                }
            }
        }
        self.tally.write_down(kept)?;
        if self.head != start {
            self.head.keep(kept)?;
        }
        // Crash window. Before this COMMIT returns nothing of the batch exists; after it, everything does. No
        // permit is handed out before, so no byte of a governed request can have left on a batch that is lost.
        hit_each(batch, |step| step.before);
        if failpoint::planted(Plant::SendBeforeClaim) {
            tell_too_early(batch);
        }
        execute(kept, "COMMIT")?;
        Ok(true)
    }

    fn begin(&mut self, kept: &Kept<'_>) -> rusqlite::Result<()> {
        execute(kept, "BEGIN IMMEDIATE")?;
        self.tally.begin(kept)
    }

    fn roll_back(&mut self, kept: &Kept<'_>, start: &Head) -> rusqlite::Result<()> {
        self.head = start.clone();
        self.tally.forget();
        execute(kept, "ROLLBACK")
    }

    /// All of them, with nothing between them: a savepoint would copy each page that its job touches.
    fn run_together(&mut self, kept: &Kept<'_>, batch: &mut [Box<dyn Job>]) -> rusqlite::Result<Together> {
        let mut done = Together::Nothing;
        for job in batch {
            if Self::run_into_damage(job.as_ref()) {
                continue;
            }
            self.write_down_before(kept, job.as_ref())?;
            let (before, mark) = (self.head.clone(), self.tally.mark());
            let changes = kept.connection.total_changes();
            if self.run(kept, job.as_mut())? {
                done = Together::Done;
            } else if Self::run_into_damage(job.as_ref()) {
                // SQLite commits nothing more of this transaction. The others are run again without this job.
                return Ok(Together::Damaged);
            } else if kept.connection.total_changes() == changes {
                self.head = before;
                self.tally.undo(mark);
            } else {
                return Ok(Together::Spoilt);
            }
        }
        Ok(done)
    }

    fn run_into_damage(job: &dyn Job) -> bool {
        matches!(job.fault().and_then(Trouble::of), Some(Trouble::Damaged))
    }

    /// Each in a savepoint of its own. `false`: one has met a page that is damaged. SQLite commits nothing of this transaction
    /// then, and it is begun again without that job.
    fn run_all_apart(&mut self, kept: &Kept<'_>, batch: &mut [Box<dyn Job>]) -> rusqlite::Result<bool> {
        for job in batch.iter_mut().filter(|job| !Self::run_into_damage(job.as_ref())) {
            self.run_apart(kept, job.as_mut())?;
            if Self::run_into_damage(job.as_ref()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One job in a savepoint of its own: if it fails, its neighbours do not notice.
    fn run_apart(&mut self, kept: &Kept<'_>, job: &mut dyn Job) -> rusqlite::Result<()> {
        self.write_down_before(kept, job)?;
        execute(kept, "SAVEPOINT job")?;
        let (before, mark) = (self.head.clone(), self.tally.mark());
        if !self.run(kept, job)? {
            self.head = before;
            self.tally.undo(mark);
            execute(kept, "ROLLBACK TO job")?;
        }
        execute(kept, "RELEASE job")
    }

    /// What neighbours have moved is in the rows that this one works on, and stays there if it fails.
    fn write_down_before(&mut self, kept: &Kept<'_>, job: &dyn Job) -> rusqlite::Result<()> {
        if job.step().on_limits { self.tally.write_down(kept) } else { Ok(()) }
    }

    /// Whether what the job wrote is to be kept. An error takes everybody's work with it.
    fn run(&mut self, kept: &Kept<'_>, job: &mut dyn Job) -> rusqlite::Result<bool> {
        if job.step().permits && self.counters.damaged() {
            job.refuse(Fault::Damaged);
            return Ok(false);
        }
        if job.step().permits && self.is_moved {
            job.refuse(Fault::Moved);
            return Ok(false);
        }
        let mut tx = Tx {
            connection: kept.connection,
            statements: kept,
            setting: &self.setting,
            head: &mut self.head,
            tally: &mut self.tally,
        };
        let done = catch_unwind(AssertUnwindSafe(|| job.run(&mut tx))).unwrap_or(false);
        if job.step().on_limits {
            self.tally.forget();
        }
        // At once, so that a neighbour behind it gives no right to send either.
        if Self::run_into_damage(job) {
            self.counters.met(Some(Trouble::Damaged));
        }
        if kept.connection.is_autocommit() {
            // A full disk or an I/O error: SQLite has rolled everything back by itself, the neighbours too.
            let said = job.fault().and_then(rusqlite::Error::sqlite_error).copied();
            let said = said.unwrap_or_else(|| ffi::Error::new(ffi::SQLITE_ABORT));
            let why = format!("{said}: the whole transaction was rolled back");
            return Err(rusqlite::Error::SqliteFailure(said, Some(why)));
        }
        Ok(done)
    }

    pub(super) fn undo(&self, connection: &Connection, batch: Vec<Box<dyn Job>>, source: rusqlite::Error) {
        tracing::error!(error = %source, "the store could not commit; nothing of this batch is recorded");
        if !connection.is_autocommit()
            && let Err(error) = connection.execute_batch("ROLLBACK")
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

/// What became of jobs that nothing keeps apart.
enum Together {
    /// One at least is done, and none that failed has left anything behind.
    Done,
    /// Each has failed, and none has left anything behind.
    Nothing,
    /// One has failed half-way: nothing of any may be kept.
    Spoilt,
    /// One has met a page that is damaged, and is not run again: nothing of any can be kept.
    Damaged,
}

pub(super) fn hit_each(batch: &[Box<dyn Job>], at: impl Fn(Step) -> Option<&'static str>) {
    batch.iter().filter_map(|job| at(job.step())).for_each(failpoint::hit);
}

/// The planted fault: whoever waits for an admission is told before the commit.
fn tell_too_early(batch: &mut Vec<Box<dyn Job>>) {
    if batch.iter().any(|job| job.step().before == Some("before_commit")) {
        batch.drain(..).for_each(|job| job.reply(Ok(())));
        failpoint::wait_for_send();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use oncegate_policy::id::OwnerId;
    use oncegate_policy::reconcile::Schedule;
    use oncegate_policy::time::Timestamp;
    use tokio::sync::oneshot;

    use crate::error::{Fault, StoreError};
    use crate::job::{Job, Step, Verb};
    use crate::writer::Tx;
    use crate::{Store, StoreOptions};

    const STEP: Step = Step::new("try");

    fn job<T: Send + 'static>(
        verb: impl FnMut(&mut Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> (Box<dyn Job>, oneshot::Receiver<Result<T, StoreError>>) {
        let (waiting, answer) = oneshot::channel();
        (Box::new(Verb::new(STEP, verb, waiting)), answer)
    }

    fn halt(tx: &Tx<'_>) -> Result<(), Fault> {
        Ok(tx.connection.execute("INSERT INTO halt (reason, by, at) VALUES ('r', 'b', 1)", []).map(drop)?)
    }

    fn failed(code: i32) -> Fault {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None).into()
    }

    /// Plays one batch on a new database; how often halts were counted after it.
    fn played(batch: Vec<Box<dyn Job>>) -> i64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("once.db");
        let second = Duration::from_secs(1);
        let options = StoreOptions {
            path: path.clone(),
            schedule: Schedule { first_after: second, max_interval: second },
            queue_capacity: 1,
            keep_responses: second,
        };
        let owner = OwnerId::from_ulid("01ARZ3NDEKTSV4RRFFQ69G5FAV");
        let (store, mut hand) = Store::open_by_hand(options, owner, Timestamp(1)).unwrap();
        hand.work.turn(batch);
        let count = "SELECT count(*) FROM halt";
        let halts = hand.work.connection.query_row(count, [], |row| row.get(0)).unwrap();
        drop((store, hand));
        halts
    }

    /// It was done once, and that was rolled back with the neighbour that spoilt it.
    #[test]
    fn a_job_that_panics_when_it_is_run_again_was_not_done() {
        let mut runs = 0;
        let (first, told) = job(move |_| {
            runs += 1;
            assert_eq!(runs, 1, "not again");
            Ok(())
        });
        let (spoils, _) = job(|tx| halt(tx).and(Err::<(), _>(Fault::Damaged)));
        assert_eq!(played(vec![first, spoils]), 0);
        let told = told.blocking_recv().unwrap();
        assert!(matches!(told, Err(StoreError::Failed { step: "try", fault: Fault::Panicked })), "{told:?}");
    }

    #[test]
    fn who_meets_a_damaged_page_keeps_nobody_else_from_the_commit() {
        let (done, told) = job(|tx| halt(tx));
        let (meets, met) = job(|tx| {
            tx.connection.execute("UPDATE chain_head SET seq = 7 WHERE one = 1", [])?;
            Err::<(), _>(failed(rusqlite::ffi::SQLITE_CORRUPT))
        });
        assert_eq!(played(vec![done, meets]), 1);
        assert!(told.blocking_recv().unwrap().is_ok());
        assert!(matches!(met.blocking_recv().unwrap(), Err(StoreError::Failed { .. })));
    }

    /// Also where another job has spoilt the batch: what SQLite has met a damaged page in, it does not commit.
    #[test]
    fn what_is_committed_was_run_in_a_transaction_that_met_no_damage() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(what)
        };
        let (ran, begins, met) = (note("done"), note("spoils"), note("meets"));
        let (done, told) = job(move |tx| {
            ran();
            halt(tx)
        });
        let (spoils, _) = job(move |tx| {
            begins();
            tx.connection.execute("UPDATE chain_head SET seq = 7 WHERE one = 1", [])?;
            Err::<(), _>(Fault::Damaged)
        });
        let (meets, _) = job(move |_| {
            met();
            Err::<(), _>(failed(rusqlite::ffi::SQLITE_CORRUPT))
        });
        assert_eq!(played(vec![done, spoils, meets]), 1);
        assert!(told.blocking_recv().unwrap().is_ok());
        let order = order.lock().unwrap();
        let after = order.iter().skip_while(|what| **what != "meets");
        assert_eq!(after.copied().collect::<Vec<_>>(), ["meets", "done", "spoils", "done", "spoils"]);
    }

    #[test]
    fn alone_a_job_that_fails_leaves_nothing() {
        for code in [rusqlite::ffi::SQLITE_CORRUPT, rusqlite::ffi::SQLITE_CONSTRAINT] {
            let (fails, told) = job(move |tx| halt(tx).and(Err::<(), _>(failed(code))));
            assert_eq!(played(vec![fails]), 0);
            assert!(matches!(told.blocking_recv().unwrap(), Err(StoreError::Failed { .. })));
        }
    }
}
