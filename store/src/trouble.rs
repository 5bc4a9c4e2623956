//! What keeps the record from being written, for those who have to mend it. Nothing is decided by it: each verb says by
//! itself that it failed.

use rusqlite::{Error, ErrorCode, ffi, params};

use crate::Store;
use crate::writer::Step;

const TRY: Step = Step::new("be written to");

/// What keeps the record from being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No room on the disk, or in what this process may write.
    Full,
    /// The file, its folder or its file system cannot be written.
    ReadOnly,
    /// Another process holds the lock for writing for longer than the store waits for it.
    Locked,
    /// The file is not what SQLite wrote.
    Damaged,
    /// It was moved or removed, or its log was: what is written now, nobody would find after a restart.
    Moved,
    /// The disk said no in another way.
    Disk,
}

impl Trouble {
    /// What an error of SQLite's is a sign of; `None` when it is about a statement and not about the file.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        let code = error.sqlite_error_code()?;
        // The shared index of the log cannot grow: to SQLite that is a fault of the disk, whatever it is.
        if error.sqlite_error().is_some_and(|said| said.extended_code == ffi::SQLITE_IOERR_SHMSIZE) {
            return Some(Self::Full);
        }
        let known = [
            (ErrorCode::DiskFull, Self::Full),
            (ErrorCode::ReadOnly, Self::ReadOnly),
            (ErrorCode::DatabaseBusy, Self::Locked),
            (ErrorCode::DatabaseCorrupt, Self::Damaged),
            (ErrorCode::NotADatabase, Self::Damaged),
            (ErrorCode::SystemIoFailure, Self::Disk),
            (ErrorCode::CannotOpen, Self::Disk),
        ];
        known.into_iter().find(|(one, _)| *one == code).map(|(_, trouble)| trouble)
    }

    /// What is wrong, and what to do about it: a clause without a full stop.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Full => "its disk is full: make room on it",
            Self::ReadOnly => "it is read-only: let the sidecar write the database and its folder",
            Self::Locked => "another program holds its lock: end that program, or its transaction",
            Self::Damaged => "it is damaged: stop the sidecar, keep the file as it is, and restore a backup",
            Self::Moved => {
                "its file or its log (-wal) was moved or removed: put both back, or stop the sidecar and restore a backup"
            }
            Self::Disk => "its disk fails: the sidecar's log says how",
        }
    }
}

impl Store {
    /// What kept the last transaction from being durable, if it still does: then it is tried with a transaction that
    /// changes nothing, since nobody else may have asked for one meanwhile. While all is well nothing is written.
    pub async fn trouble(&self) -> Option<Trouble> {
        if self.inner.writer.is_moved() {
            return Some(Trouble::Moved);
        }
        let known = self.stats().trouble?;
        if known == Trouble::Damaged {
            return Some(known);
        }
        let tried = self.inner.writer.write(TRY, self.inner.queue_capacity, |tx| {
            // Twice, so that the page is written and says what it said before.
            for by in [1, -1] {
                let mut touch = tx
                    .connection
                    .prepare_cached("UPDATE run SET started_at = started_at + ?1 WHERE key = ?2")?;
                touch.execute(params![by, tx.setting.run])?;
            }
            Ok(())
        });
        match tried.await {
            Ok(()) => None,
            Err(_) => Some(self.stats().trouble.unwrap_or(known)),
        }
    }
}
