//! Opening: one sidecar per database, every setting that durability rests on asserted, no scan.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use oncegate_policy::id::OwnerId;
use oncegate_policy::time::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi, params};
use tokio::sync::Notify;

use crate::by_hand::{Hand, Reading};
use crate::claim::Living;
use crate::error::OpenError;
use crate::events::Head;
use crate::failpoint::{self, Plant};
use crate::found::{self, Found};
use crate::lock::{self, Lock};
use crate::queue::Queue;
use crate::read::Reader;
use crate::writer::{Setting, Writer};
use crate::{Inner, Store, StoreOptions, migrate};

/// How long a statement waits for somebody at the sqlite3 shell.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements kept prepared; more than all verbs together have.
const STATEMENTS_MAX: usize = 160;
/// The log shrinks to this after it was folded.
const LOG_BYTES_KEPT: i64 = 16 * 1024 * 1024;

impl Store {
    /// Opens the database for this run, makes it if it is not there, and holds its lock until the last clone goes.
    ///
    /// # Errors
    /// Another sidecar runs on it, or the file cannot be used safely.
    pub fn open(options: StoreOptions, owner: OwnerId, now: Timestamp) -> Result<Self, OpenError> {
        Self::open_locked(None, options, owner, now)
    }

    /// The same, with the lock that was taken on it before.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_locked(
        lock: Option<Lock>,
        options: StoreOptions,
        owner: OwnerId,
        now: Timestamp,
    ) -> Result<Self, OpenError> {
        let opened = Opened::new(lock, &options, owner, now)?;
        let reader = Reader::open(&opened.path)?;
        let Opened { lock, found, path, connection, setting, head } = opened;
        let at = path.display();
        match found {
            Found::Record => {}
            Found::Nothing => tracing::warn!(
                "there was no database at {at}: a new one was made, and nothing is known of what was sent before"
            ),
            Found::EmptyFile => tracing::warn!(
                "there was no database at {at}, but a file with nothing in it: nothing is known of what was sent before; \
                 if this is not the first start, stop and restore a backup"
            ),
        }
        let shared = Shared::of(&setting);
        let writer = Writer::start(connection, path, setting, head)?;
        let reader = reader.telling(writer.counters());
        Ok(shared.store(writer, reader, lock, &options))
    }

    /// As [`Store::open`], without a thread: what is asked of the store is done when the holder of the hand does it.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_by_hand(
        options: StoreOptions,
        owner: OwnerId,
        now: Timestamp,
    ) -> Result<(Self, Hand), OpenError> {
        let Opened { lock, path, connection, setting, head, found: _ } =
            Opened::new(None, &options, owner, now)?;
        let reading = Reading::of(&path);
        let filled = Arc::new(Notify::new());
        let looks = Arc::new(Queue::by_hand(Arc::clone(&filled)));
        let shared = Shared::of(&setting);
        let verbs = Queue::by_hand(Arc::clone(&filled));
        let (writer, work) = Writer::without_threads(verbs, connection, setting, head);
        let reader = Reader::by_hand(Arc::clone(&looks)).telling(writer.counters());
        let hand = Hand { work, verbs: writer.queue(), looks, reading, filled };
        Ok((shared.store(writer, reader, lock, &options), hand))
    }
}

/// A database that this run has for itself.
struct Opened {
    lock: Lock,
    found: Found,
    /// By its own name.
    path: PathBuf,
    connection: Connection,
    setting: Setting,
    head: Head,
}

impl Opened {
    fn new(
        lock: Option<Lock>,
        options: &StoreOptions,
        owner: OwnerId,
        now: Timestamp,
    ) -> Result<Self, OpenError> {
        let mut found = found::look(&options.path)?;
        found::room_beside(&options.path)?;
        let is_new = lock::create(&options.path)?;
        let path = lock::own_name(&options.path);
        // One that was taken on a file that has gone since is of no use, and in the way of the other.
        let lock = match lock.filter(|_| !is_new) {
            Some(lock) => lock,
            None => Lock::of(&path)?,
        };
        let mut connection = writing(&path)?;
        let failed = |source| OpenError::database("open", &path, source);
        if found == Found::Record && migrate::is_empty(&connection).map_err(failed)? {
            found = Found::EmptyFile;
        }
        upgrade(&mut connection, &path)?;
        connection
            .execute("INSERT INTO run (id, started_at) VALUES (?1, ?2)", params![owner.as_str(), now.0])
            .map_err(failed)?;
        let run = connection.last_insert_rowid();
        let head = Head::read(&connection).map_err(failed)?;
        let setting = Setting {
            run,
            owner,
            schedule: options.schedule,
            living: Arc::default(),
            living_plain: Arc::default(),
        };
        Ok(Self { lock, found, path, connection, setting, head })
    }
}

/// To the latest version. What is rebuilt is sorted in files and not in memory, however much it is, and what the log has
/// grown by is folded at once.
fn upgrade(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |step| move |source| OpenError::database(step, path, source);
    let upgraded = match migrate::upgrade(connection, path) {
        Err(OpenError::Unusable { source, .. }) if wants_a_folder(&source) => {
            // As in a container whose root is read-only: then in memory after all.
            connection.pragma_update(None, "temp_store", "MEMORY").map_err(failed("configure"))?;
            migrate::upgrade(connection, path)
        }
        upgraded => upgraded,
    };
    if upgraded? {
        let folded = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        if folded.map_err(failed("upgrade"))? {
            tracing::warn!("somebody reads the database: its log is folded later, and is long until then");
        }
    }
    // Savepoints keep their undo pages here and not in a file.
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(failed("configure"))
}

/// Whether SQLite has found no folder to put its files for sorting into.
fn wants_a_folder(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|said| said.extended_code == ffi::SQLITE_IOERR_GETTEMPPATH)
}

/// What the verbs share with those who call them.
struct Shared {
    living: Arc<Living>,
    living_plain: Arc<Living>,
    owner: OwnerId,
}

impl Shared {
    fn of(setting: &Setting) -> Self {
        Self {
            living: Arc::clone(&setting.living),
            living_plain: Arc::clone(&setting.living_plain),
            owner: setting.owner.clone(),
        }
    }

    fn store(self, writer: Writer, reader: Reader, lock: Lock, options: &StoreOptions) -> Store {
        let Self { living, living_plain, owner } = self;
        let inner = Inner {
            writer,
            reader,
            living,
            swept_earlier: AtomicBool::new(false),
            living_plain,
            owner,
            schedule: options.schedule,
            keep_responses: options.keep_responses,
            queue_capacity: options.queue_capacity,
            _lock: lock,
        };
        Store { inner: Arc::new(inner) }
    }
}

/// A connection that may write, with every setting that durability rests on asserted.
pub(crate) fn writing(path: &Path) -> Result<Connection, OpenError> {
    let failed = |step| move |source| OpenError::database(step, path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed("open"))?;
    configure(&connection).map_err(failed("configure"))?;
    // FULL: in WAL with NORMAL a power cut can lose the claim of something that was sent.
    require(&connection, path, "journal_mode", "wal")?;
    let (_, level) = synchronous();
    require(&connection, path, "synchronous", level)?;
    require(&connection, path, "fullfsync", "1")?;
    require(&connection, path, "checkpoint_fullfsync", "1")?;
    require(&connection, path, "foreign_keys", "1")?;
    require(&connection, path, "mmap_size", "0")?;
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    keep_plans(connection)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", synchronous().0)?;
    // Where the system's own sync leaves it to the disk when it writes, this does not; elsewhere it changes nothing.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(()))?;
    // The writer folds the log itself, between commits.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_KEPT, |_| Ok(()))?;
    // An erased request body is overwritten, not only unlinked.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    Ok(())
}

/// The word that is set and the number that must come back: FULL, but for a proof that must notice NORMAL.
fn synchronous() -> (&'static str, &'static str) {
    if failpoint::planted(Plant::SynchronousNormal) { ("NORMAL", "1") } else { ("FULL", "2") }
}

/// A plan never depends on what is bound. Otherwise SQLite prepares every statement again that meets a partial
/// index with other values than last time: ten times the work of running it.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

fn require(
    connection: &Connection,
    path: &Path,
    setting: &'static str,
    wanted: &str,
) -> Result<(), OpenError> {
    let found = connection
        .pragma_query_value(None, setting, |row| row.get::<_, rusqlite::types::Value>(0))
        .map_err(|source| OpenError::database("configure", path, source))?;
    let found = match found {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other @ (rusqlite::types::Value::Null
        | rusqlite::types::Value::Real(_)
        | rusqlite::types::Value::Blob(_)) => format!("{other:?}"),
    };
    if found == wanted {
        return Ok(());
    }
    Err(OpenError::Unsafe { path: path.to_owned(), setting, found })
}

/// A connection that can write nothing.
pub(crate) fn reading(path: &Path) -> Result<Connection, OpenError> {
    let connection = reading_any(path)?;
    migrate::require(&connection, path)?;
    Ok(connection)
}

/// As [`reading`], of a database that may be of an earlier version: for its chain alone.
pub(crate) fn reading_chain(path: &Path) -> Result<Connection, OpenError> {
    let connection = reading_any(path)?;
    migrate::require_no_later(&connection, path)?;
    Ok(connection)
}

fn reading_any(path: &Path) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::database("open", path, source);
    if found::look(path)? != Found::Record || !path.is_file() {
        return Err(OpenError::NotADatabase { path: path.to_owned() });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    keep_plans(&connection).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An upgrade may sort every attempt there is.
    #[test]
    fn only_what_follows_an_upgrade_is_kept_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("once.db");
        lock::create(&path).unwrap();
        let mut connection = writing(&path).unwrap();
        let kept = |connection: &Connection| {
            connection.pragma_query_value(None, "temp_store", |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!(kept(&connection), 0);
        upgrade(&mut connection, &path).unwrap();
        assert_eq!(kept(&connection), 2);
    }
}
