//! Where the databases of a proof are that asks what the law says, and not what the disk keeps.

use std::path::Path;
use std::time::Duration;

use oncegate_policy::id::OwnerId;
use oncegate_policy::reconcile::Schedule;
use oncegate_policy::time::Timestamp;
use oncegate_store::{Store, StoreOptions};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::failure::{During, Failure};

/// Files here never wait for a disk.
const MEMORY: &str = "/dev/shm";
/// Statements that a reader beside a store keeps prepared; more than all checks together have.
const STATEMENTS_MAX: usize = 64;
/// The run that has made an empty database.
const MAKER: &str = "01ARZ3NDEKTSV4RRMADE000000";

/// A folder in memory where the system has one, else among the temporary files; gone with the value.
pub(crate) fn folder() -> Result<TempDir, Failure> {
    let in_memory = tempfile::tempdir_in(Path::new(MEMORY));
    in_memory.or_else(|_| tempfile::tempdir()).during("make a folder for a database")
}

/// Sees what is committed to a database, and writes nothing.
pub(crate) fn shell(database: &Path) -> Result<Connection, Failure> {
    // Only ever one thread uses it.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let shell = Connection::open_with_flags(database, flags).during("read a database beside its store")?;
    shell.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(shell)
}

/// A database that is still empty, to be copied: to make one takes longer than most of what is played on it.
pub(crate) struct Empty {
    folder: TempDir,
}

impl Empty {
    /// One as the store makes it.
    pub(crate) fn new() -> Result<Self, Failure> {
        let empty = Self { folder: folder()? };
        let never = Duration::from_secs(3_600);
        let options = StoreOptions {
            path: empty.folder.path().join("once.db"),
            schedule: Schedule { first_after: never, max_interval: never },
            queue_capacity: 1,
            keep_responses: never,
        };
        let made = Store::open_by_hand(options, OwnerId::from_ulid(MAKER), Timestamp(0));
        drop(made.during("make a database")?);
        Ok(empty)
    }

    /// Another one at `to`, with what `sql` makes of it.
    pub(crate) fn copy(&self, to: &Path, sql: &str) -> Result<(), Failure> {
        for ending in ["", "-wal"] {
            let from = self.folder.path().join(format!("once.db{ending}"));
            if from.exists() {
                let to = format!("{}{ending}", to.display());
                std::fs::copy(from, to).during("copy a database")?;
            }
        }
        if sql.is_empty() {
            return Ok(());
        }
        let gardener = Connection::open(to).during("plant a fault")?;
        gardener.execute_batch(sql).during("plant a fault")
    }
}
