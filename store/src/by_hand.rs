//! A store without threads. What is asked of it waits until whoever holds the hand does it, one commit or one read at a
//! time: a simulator decides what comes first, what shares a commit, and what is lost when the process ends.

use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::Notify;

use crate::error::{Fault, StoreError};
use crate::queue::Queue;
use crate::read::Look;
use crate::writer::{Job, Work};

/// Pages of a database, at most, as SQLite has it by itself.
const PAGES_MAX: u32 = u32::MAX - 1;

/// Does what the threads of a store otherwise do. What still waits when it is dropped never happens, as when the
/// process ends.
pub struct Hand {
    // Goes before the writer's connection, which folds the log when it closes as the last.
    pub(crate) reading: Connection,
    pub(crate) work: Work,
    pub(crate) verbs: Arc<Queue<Box<dyn Job>>>,
    pub(crate) looks: Arc<Queue<Look>>,
    pub(crate) filled: Arc<Notify>,
}

impl Hand {
    /// Waits until something was asked since the last wait.
    pub async fn asked(&self) {
        self.filled.notified().await;
    }

    /// How many verbs wait to be committed.
    #[must_use]
    pub fn verbs(&self) -> usize {
        self.verbs.depth()
    }

    /// How many reads wait to be answered.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.looks.depth()
    }

    /// Commits the first `verbs_max` of what waits together, and answers them. Returns how many there were.
    pub fn commit(&mut self, verbs_max: usize) -> usize {
        let batch = self.verbs.take_now(verbs_max);
        let taken = batch.len();
        if taken > 0 {
            self.work.turn(batch);
        }
        taken
    }

    /// Answers the first `reads_max` reads. Returns how many there were.
    pub fn read(&mut self, reads_max: usize) -> usize {
        let looks = self.looks.take_now(reads_max);
        let taken = looks.len();
        looks.into_iter().for_each(|look| look(&self.reading));
        taken
    }

    /// From now on the database cannot grow, or can again: a full disk, as SQLite reports it.
    ///
    /// # Errors
    /// SQLite did not take it.
    pub fn fill_disk(&mut self, full: bool) -> Result<(), StoreError> {
        let pages_max = if full { 1 } else { PAGES_MAX };
        let set = self.work.connection.pragma_update_and_check(None, "max_page_count", pages_max, |_| Ok(()));
        let failed = |fault| StoreError::Failed { step: "bound the database", fault: Fault::Database(fault) };
        set.map_err(failed)
    }
}
