//! What is where the database is, told before SQLite opens it: SQLite removes the log of a file with nothing in it, and begins
//! a new log beside a new file. Both would destroy the only record of what was sent.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::ffi;

use crate::error::OpenError;
use crate::lock;

/// What SQLite writes at once of the files that it has beside a database, and some for the first transactions.
const ROOM_BYTES: u64 = 64 * 1024;

/// The number of ext2, ext3 and ext4 (`EXT4_SUPER_MAGIC`, statfs(2)).
const EXT: u64 = 0xEF53;
/// What ext4 keeps for itself: a fiftieth of its blocks, and not more than this.
const KEPT_PART: u64 = 50;
const KEPT_BLOCKS_MAX: u64 = 4096;

/// What was where the database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No file: a start makes one.
    Nothing,
    /// As a copy leaves it that had no room, and a first start that was killed at once.
    EmptyFile,
    /// A file with something in it.
    Record,
}

/// Looks, and changes nothing.
///
/// # Errors
/// What is there must not be opened: it is no database, or a log that has lost its own.
pub fn look(path: &Path) -> Result<Found, OpenError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::File { step: "look at", path, source }
    };
    let path = lock::own_name(path);
    let log = log_of(&path);
    let (size, logged) = (bytes(&path).map_err(failed(&path))?, bytes(&log).map_err(failed(&log))?);
    let found = match size {
        None => Found::Nothing,
        Some(0) => Found::EmptyFile,
        Some(_) => Found::Record,
    };
    match (found, logged) {
        (Found::Nothing | Found::EmptyFile, Some(1..)) => Err(OpenError::LogAlone { path, log }),
        (Found::Nothing | Found::EmptyFile, None | Some(0)) | (Found::Record, _) => Ok(found),
    }
}

/// The log that SQLite keeps beside a database, by its own name.
pub(crate) fn log_of(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

fn bytes(path: &Path) -> io::Result<Option<u64>> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the disk has room for what stands beside a database. On a file system with small blocks SQLite itself finds that
/// there is none by a signal that ends the process: it maps a file into memory whose blocks cannot be had.
pub(crate) fn room_beside(path: &Path) -> Result<(), OpenError> {
    let path = lock::own_name(path);
    let Some(folder) = path.parent() else { return Ok(()) };
    let (Ok(disk), Ok(kind)) = (rustix::fs::statvfs(folder), rustix::fs::statfs(folder)) else {
        return Ok(());
    };
    // Root may have what is kept for it. What ext4 keeps for itself counts as free to root, and nobody has it.
    let keeps = u64::try_from(kind.f_type).is_ok_and(|kind| kind == EXT);
    let kept = if keeps { (disk.f_blocks / KEPT_PART).min(KEPT_BLOCKS_MAX) } else { 0 };
    let is_root = rustix::process::geteuid().is_root();
    let free = if is_root { disk.f_bfree.saturating_sub(kept) } else { disk.f_bavail };
    // Some that are not on a disk have no blocks at all.
    if disk.f_blocks == 0 || free.saturating_mul(disk.f_frsize) >= ROOM_BYTES {
        return Ok(());
    }
    let full = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None);
    Err(OpenError::database("open", &path, full))
}
