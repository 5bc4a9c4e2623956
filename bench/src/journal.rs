//! The least that a durable record of a write costs: two group commits in SQLite, one writer thread.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::{During, Failure};

/// Writes of one commit.
const BATCH_MAX: usize = 256;
/// Commits between two foldings of the log.
const FOLD_EVERY: usize = 512;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS effect (
        key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, stage TEXT NOT NULL, request BLOB, response BLOB
    ) STRICT;
    CREATE TABLE IF NOT EXISTS room (
        key INTEGER PRIMARY KEY, reserved INTEGER NOT NULL, consumed INTEGER NOT NULL, amount INTEGER NOT NULL
    ) STRICT;
    INSERT OR IGNORE INTO room VALUES (1, 0, 0, 1000000000000);
";

enum Entry {
    /// Look for the name, reserve, insert.
    Begin { name: String, request: Vec<u8> },
    /// Settle and consume.
    End { key: i64, response: Vec<u8> },
}

type Job = (Entry, oneshot::Sender<i64>);

/// The record of the floor with a journal.
pub struct Journal {
    queue: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens or makes it.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let connection = connect(path).during("open the floor's journal")?;
        let (queue, jobs) = channel();
        let work = move || work(&connection, &jobs);
        let thread =
            std::thread::Builder::new().name("journal".to_owned()).spawn(work).during("start a thread")?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Records that something is about to be sent; durable when this returns.
    pub async fn begin(&self, name: String, request: Vec<u8>) -> Option<i64> {
        self.put(Entry::Begin { name, request }).await
    }

    /// Records what came back; durable when this returns.
    pub async fn end(&self, key: i64, response: Vec<u8>) -> Option<i64> {
        self.put(Entry::End { key, response }).await
    }

    async fn put(&self, entry: Entry) -> Option<i64> {
        let (done, waiting) = oneshot::channel();
        self.queue.as_ref()?.send((entry, done)).ok()?;
        waiting.await.ok()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed, and everyone who waited got nothing.
            drop(thread.join());
        }
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

/// Takes what is queued, commits it, tells everybody. A failure drops the batch: who waits for it gets nothing.
fn work(connection: &Connection, jobs: &Receiver<Job>) {
    let mut commits = 0_usize;
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        batch.extend(jobs.try_iter().take(BATCH_MAX - 1));
        let Ok(keys) = commit(connection, &batch) else { continue };
        for ((_, done), key) in batch.into_iter().zip(keys) {
            // Nobody listens when the client has gone.
            done.send(key).unwrap_or_default();
        }
        commits += 1;
        if commits.is_multiple_of(FOLD_EVERY) {
            drop(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
        }
    }
}

fn commit(connection: &Connection, batch: &[Job]) -> rusqlite::Result<Vec<i64>> {
    let transaction = connection.unchecked_transaction()?;
    let keys = batch.iter().map(|(entry, _)| put(connection, entry)).collect::<Result<_, _>>()?;
    transaction.commit()?;
    Ok(keys)
}

fn put(connection: &Connection, entry: &Entry) -> rusqlite::Result<i64> {
    match entry {
        Entry::Begin { name, request } => {
            if connection.prepare_cached("SELECT 1 FROM effect WHERE name = ?1")?.exists([name])? {
                return Err(rusqlite::Error::QueryReturnedNoRows);
            }
            connection
                .prepare_cached(
                    "UPDATE room SET reserved = reserved + 1 WHERE key = 1 AND reserved + consumed < amount",
                )?
                .execute([])?;
            connection
                .prepare_cached("INSERT INTO effect (name, stage, request) VALUES (?1, 'dispatching', ?2)")?
                .execute(params![name, request])?;
            Ok(connection.last_insert_rowid())
        }
        Entry::End { key, response } => {
            connection
                .prepare_cached(
                    "UPDATE effect SET stage = 'settled', request = NULL, response = ?2 WHERE key = ?1",
                )?
                .execute(params![key, response])?;
            connection
                .prepare_cached(
                    "UPDATE room SET reserved = reserved - 1, consumed = consumed + 1 WHERE key = 1",
                )?
                .execute([])?;
            Ok(*key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_recorded_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("floor.db");
        let journal = Journal::open(&path).unwrap();
        let key = journal.begin("a".to_owned(), vec![1]).await.unwrap();
        assert_eq!(journal.end(key, vec![2]).await, Some(key));
        assert_eq!(journal.begin("a".to_owned(), vec![1]).await, None, "the same name twice");
        drop(journal);
        let connection = Connection::open(&path).unwrap();
        let settled: i64 = connection
            .query_row("SELECT count(*) FROM effect WHERE stage = 'settled'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(settled, 1);
    }
}
