//! Whether a sidecar could serve a database, as far as that can be seen without a change of it.

use std::fs::OpenOptions;
use std::path::Path;

use oncegate_policy::time::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::{Fault, OpenError};
use crate::events::Head;
use crate::found::{self, Found};
use crate::{limits, migrate, open, unsettled};

/// What is not settled, read at once.
const READ_AT_ONCE: u32 = 64;

/// Whether it can be written, nobody else keeps its lock, and what a start reads of it can be read: what every page holds is
/// not. One that is not there is made by a start, one of an earlier version is upgraded, and an empty one is filled.
///
/// # Errors
/// What is in the way.
pub fn examine(path: &Path) -> Result<Found, OpenError> {
    let found = found::look(path)?;
    if found == Found::Nothing {
        return Ok(found);
    }
    let writable = OpenOptions::new().read(true).write(true).open(path).map(drop);
    writable.map_err(|source| OpenError::File { step: "write", path: path.to_owned(), source })?;
    if found == Found::EmptyFile {
        return Ok(found);
    }
    found::room_beside(path)?;
    let failed = |source| OpenError::database("read", path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    // Whoever closes it last would fold the log, and that is a change. Of an empty log nothing is left.
    let logged = found::log_of(path).metadata().is_ok_and(|log| log.len() > 0);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, logged).map_err(failed)?;
    connection.busy_timeout(open::BUSY_TIMEOUT).map_err(failed)?;
    let reads = match migrate::require(&connection, path) {
        Ok(()) => true,
        Err(OpenError::Older { .. }) => false,
        Err(OpenError::NotADatabase { .. }) if migrate::is_empty(&connection).map_err(failed)? => {
            return Ok(Found::EmptyFile);
        }
        Err(error) => return Err(error),
    };
    // Given back at once: a sidecar that runs on it wants it as well.
    drop(connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?);
    let inside = connection.transaction().map_err(failed)?;
    match reads.then(|| read(&inside)).transpose() {
        Err(Fault::Database(source)) => Err(failed(source)),
        // What is wrong with one row, a start passes by and says.
        Ok(_) | Err(_) => Ok(found),
    }
}

/// What a start reads before it serves.
fn read(connection: &Connection) -> Result<(), Fault> {
    connection.query_row("SELECT max(key) FROM run", [], |_| Ok(()))?;
    Head::read(connection)?;
    limits::exposures(connection, Timestamp(0))?;
    let mut after = 0;
    while let Some(last) = unsettled::read(connection, after, READ_AT_ONCE)?.last() {
        after = last.place;
    }
    Ok(())
}
