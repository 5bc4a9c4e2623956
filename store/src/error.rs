//! What can go wrong, each with the step at which it did.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oncegate_policy::id::{EffectId, InvocationId};

use crate::trouble::Trouble;

/// Why a verb did nothing. A refusal is not here: it is an ordinary answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A statement of the verb failed; its transaction was rolled back.
    #[error("the store could not {step}")]
    Failed {
        /// The verb, as words that follow "could not".
        step: &'static str,
        /// The cause.
        #[source]
        fault: Fault,
    },
    /// The verb was done and its commit failed: nothing of it is there.
    #[error("the store could not make durable what it did to {step}")]
    Commit {
        /// The verb.
        step: &'static str,
        /// Shared by everything that was in the same commit.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// As many admissions as the queue may hold are waiting. Nothing was recorded.
    #[error("too much is waiting to be recorded")]
    Overloaded,
    /// The store is being closed, or its thread has ended.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// What it is a sign of; `None` when it is about a statement, a row or the queue, and not about the file.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Failed { fault, .. } => match fault {
                Fault::Database(source) => Trouble::of(source),
                Fault::Damaged => Some(Trouble::Damaged),
                Fault::Moved => Some(Trouble::Moved),
                Fault::Panicked
                | Fault::Unreadable { .. }
                | Fault::Altered { .. }
                | Fault::OutOfOrder { .. }
                | Fault::NotRunning { .. }
                | Fault::Uncounted { .. }
                | Fault::NoMoreAttempts { .. }
                | Fault::Gone { .. } => None,
            },
            Self::Commit { source, .. } => Trouble::of(source),
            Self::Overloaded | Self::Closed => None,
        }
    }

    /// Whether nothing of the verb is in the record, now or after a restart, on account of the file, another program or the
    /// queue. A commit whose sync failed may stand in the log all the same.
    #[must_use]
    pub fn is_undone(&self) -> bool {
        match (self, self.trouble()) {
            (Self::Overloaded, _) | (Self::Failed { .. }, Some(_)) => true,
            // Not for what SQLite calls a fault of the disk (`IOERR`): then the commit stands in the log already.
            (Self::Commit { source, .. }, Some(Trouble::Full | Trouble::ReadOnly | Trouble::Locked)) => {
                source.sqlite_error_code() != Some(rusqlite::ErrorCode::SystemIoFailure)
            }
            (Self::Commit { .. }, Some(Trouble::Damaged | Trouble::Moved | Trouble::Disk) | None)
            | (Self::Failed { .. }, None)
            | (Self::Closed, _) => false,
        }
    }

    /// Whether it may be the trouble of this one verb, so that others are worth trying: neither the file nor the store as
    /// a whole is known to be the cause.
    #[must_use]
    pub fn concerns_one(&self) -> bool {
        match self {
            Self::Failed { fault: Fault::Database(_), .. } | Self::Commit { .. } => self.trouble().is_none(),
            Self::Failed { .. } => true,
            Self::Overloaded | Self::Closed => false,
        }
    }

    /// Whether the very same verb may be done later in the life of this process: what is in its way is the disk, or
    /// another program, and not the record. A panic may be of what stood beside it, or come each time.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self.trouble() {
            Some(Trouble::Full | Trouble::ReadOnly | Trouble::Locked | Trouble::Disk) => true,
            // What is written into a file that was moved is found by whoever puts it back.
            Some(Trouble::Moved | Trouble::Damaged) => false,
            None => matches!(self, Self::Overloaded) || self.is_panic(),
        }
    }

    /// Whether it is a defect of ours, which nothing says will be gone at the next try.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Failed { fault: Fault::Panicked, .. })
    }

    /// With every cause, for a line of the log.
    pub(crate) fn chain(&self) -> String {
        let mut said = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(found) = cause {
            said.push_str(": ");
            said.push_str(&found.to_string());
            cause = found.source();
        }
        said
    }
}

/// The cause inside a verb.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// SQLite said no: a constraint, a full disk, a damaged file.
    #[error("the database refused")]
    Database(#[from] rusqlite::Error),
    /// The file was found damaged before, perhaps in a place that this verb does not read: what was sent may be
    /// missing there, so nothing more is sent on its word.
    #[error("the record cannot be relied on: {}", Trouble::Damaged.sentence())]
    Damaged,
    /// A defect of ours: what this verb met, nobody had thought of. Its message is where the process says such things.
    #[error("it panicked")]
    Panicked,
    /// Where the database was opened there is another file, or none.
    #[error("the record would not be found again: {}", Trouble::Moved.sentence())]
    Moved,
    /// A row that this version cannot read.
    #[error("a stored {what} cannot be read: {found}")]
    Unreadable {
        /// Which value.
        what: &'static str,
        /// What stands there.
        found: String,
    },
    /// What is kept to be sent is not what was prepared: another hand has changed it.
    #[error("the request of effect {effect} is not the one that was recorded: it is not sent")]
    Altered {
        /// The effect.
        effect: EffectId,
    },
    /// A claim whose effect is not where a claim can be.
    #[error("effect {effect} is in stage {stage}")]
    OutOfOrder {
        /// The effect.
        effect: EffectId,
        /// Where it stands.
        stage: &'static str,
    },
    /// A claim whose invocation is not running any more, or not there.
    #[error("invocation {invocation} is not running")]
    NotRunning {
        /// The invocation.
        invocation: InvocationId,
    },
    /// The counters of a limit do not add up: another hand has changed them.
    #[error("the counters of limit {limit} do not add up")]
    Uncounted {
        /// The limit's name.
        limit: String,
    },
    /// An effect was sent again so often that another time could not be told from the others.
    #[error("effect {effect} has had as many attempts as it can have")]
    NoMoreAttempts {
        /// The effect.
        effect: EffectId,
    },
    /// No such effect, although a claim for it is held.
    #[error("effect {effect} is not in the record")]
    Gone {
        /// The effect.
        effect: EffectId,
    },
}

/// Why the database was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("another oncegate already runs on {}: stop it first, or use another [store] path", path.display())]
    Locked {
        /// The database.
        path: PathBuf,
    },
    /// A file could not be made or opened.
    #[error("cannot {step} {}", path.display())]
    File {
        /// `create`, `lock`.
        step: &'static str,
        /// Which file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// There is no such database, or it was never opened by a sidecar.
    #[error(
        "{} is not an oncegate database, or was copied without the log (-wal) beside it: put a whole backup in its place",
        path.display()
    )]
    NotADatabase {
        /// Which file.
        path: PathBuf,
    },
    /// Its log is there, and holds what was sent.
    #[error(
        "{} is there without {}, which was moved or emptied: put that back, or restore a backup; to begin anew, move the log away",
        log.display(),
        path.display()
    )]
    LogAlone {
        /// The database.
        path: PathBuf,
        /// Its log.
        log: PathBuf,
    },
    /// The disk, or another program, is in the way, and not the record.
    #[error("the database {} cannot be used: {}", path.display(), trouble.sentence())]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// What it is.
        trouble: Trouble,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
    /// The file is not what SQLite wrote.
    #[error(
        "{} is damaged, or no database at all: keep the file as it is, and restore a backup beside it",
        path.display()
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
    /// The file was written by a later version.
    #[error("{} has schema version {found}, this oncegate knows {known}: use the newer oncegate", path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The latest that this program knows.
        known: i64,
    },
    /// The file is of an earlier version, and this is only a reader.
    #[error("{} has schema version {found}, this oncegate needs {known}: start the sidecar once to upgrade it", path.display())]
    Older {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version that this program reads.
        known: i64,
    },
    /// A setting that durability rests on could not be made.
    #[error("{} runs with {setting} = {found}, which does not keep what it is told", path.display())]
    Unsafe {
        /// Which file.
        path: PathBuf,
        /// The pragma.
        setting: &'static str,
        /// What it is.
        found: String,
    },
    /// A statement failed on the way.
    #[error("cannot {step} the database {}", path.display())]
    Database {
        /// `open`, `configure`, `upgrade`.
        step: &'static str,
        /// Which file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for the store")]
    Thread(#[source] std::io::Error),
}

impl OpenError {
    /// What a statement's failure on the way means.
    pub(crate) fn database(step: &'static str, path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match Trouble::of(&source) {
            Some(Trouble::Damaged) => Self::Damaged { path, source },
            Some(
                trouble @ (Trouble::Full
                | Trouble::ReadOnly
                | Trouble::Locked
                | Trouble::Moved
                | Trouble::Disk),
            ) => Self::Unusable { path, trouble, source },
            None => Self::Database { step, path, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_the_trouble_of_one_verb_and_no_end_of_the_store() {
        let panicked = StoreError::Failed { step: "sweep", fault: Fault::Panicked };
        assert!(panicked.concerns_one() && !StoreError::Closed.concerns_one());
        assert!(panicked.may_pass() && panicked.is_panic() && !StoreError::Closed.may_pass());
        assert_eq!(panicked.chain(), "the store could not sweep: it panicked");
    }
}
