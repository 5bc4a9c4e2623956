//! A store without threads. What is asked of it waits until whoever holds the hand does it, one commit or one read at a
//! time: a simulator decides what comes first, what shares a commit, and what is lost when the process ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::Notify;

use crate::error::{Fault, StoreError};
use crate::open;
use crate::queue::Queue;
use crate::read::Look;
use crate::writer::{Job, Work};

/// Pages of a database, at most, as SQLite has it by itself.
const PAGES_MAX: u32 = u32::MAX - 1;

/// The connection that reads. Who opens stores by the ten thousand never reads, and a tenth of the time went into this:
/// so it is opened by the first read.
pub(crate) struct Reading {
    path: PathBuf,
    opened: Option<Connection>,
}

impl Reading {
    pub(crate) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), opened: None }
    }

    fn connection(&mut self) -> Option<&Connection> {
        if self.opened.is_none() {
            match open::reading(&self.path) {
                Ok(connection) => self.opened = Some(connection),
                Err(error) => tracing::error!(%error, "the database cannot be read"),
            }
        }
        self.opened.as_ref()
    }
}

/// Does what the threads of a store otherwise do. What still waits when it is dropped never happens, as when the
/// process ends.
pub struct Hand {
    // Goes before the writer's connection, which folds the log when it closes as the last.
    pub(crate) reading: Reading,
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
            self.work.on_the_side();
        }
        taken
    }

    /// Answers the first `reads_max` reads, or, if the database cannot be read, ends them. Returns how many there were.
    pub fn read(&mut self, reads_max: usize) -> usize {
        let looks = self.looks.take_now(reads_max);
        let taken = looks.len();
        if taken > 0
            && let Some(connection) = self.reading.connection()
        {
            looks.into_iter().for_each(|look| look(connection));
        }
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
