//! Retention of invocations without an effect. A caller's key names its request for life; the chain keeps the rest.

use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, params};

use crate::Store;
use crate::error::{Fault, StoreError};
use crate::prune::{FOUND_MAX, PRUNE, Weighs, erased_event, slices};
use crate::read::collect;
use crate::writer::Tx;

struct Ended {
    key: i64,
    bytes: i64,
}

impl Weighs for Ended {
    fn bytes(&self) -> i64 {
        self.bytes
    }
}

impl Store {
    /// Erases answers older than `[store] keep_responses`.
    pub(crate) async fn prune_plain_answers(
        &self,
        oldest: Timestamp,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut erased = 0_u64;
        loop {
            let find = move |connection: &Connection| answered(connection, oldest);
            let found = self.inner.reader.read("find old answers", find).await?;
            if found.is_empty() {
                return Ok(erased);
            }
            for slice in slices(found) {
                let verb = move |tx: &mut Tx<'_>| {
                    let mut gone = 0_u64;
                    for ended in &slice {
                        gone = gone.saturating_add(erase(tx.connection, ended.key)?);
                    }
                    erased_event(tx, gone, oldest, now)?;
                    Ok(gone)
                };
                erased = erased.saturating_add(self.inner.writer.write(PRUNE, usize::MAX, verb).await?);
            }
        }
    }

    /// Takes away what ended before `before`.
    pub(crate) async fn prune_plain(&self, before: Timestamp, now: Timestamp) -> Result<u64, StoreError> {
        let (mut pruned, mut after) = (0_u64, 0);
        loop {
            let find = move |connection: &Connection| ended(connection, before, after);
            let found = self.inner.reader.read("find what is to be pruned", find).await?;
            let Some(last) = found.last() else { return Ok(pruned) };
            after = last.key;
            for slice in slices(found) {
                let verb = move |tx: &mut Tx<'_>| {
                    let mut gone = 0_u64;
                    for ended in &slice {
                        gone = gone.saturating_add(prune(tx.connection, ended.key, now)?);
                    }
                    Ok(gone)
                };
                pruned = pruned.saturating_add(self.inner.writer.write(PRUNE, usize::MAX, verb).await?);
            }
        }
    }
}

fn answered(connection: &Connection, oldest: Timestamp) -> Result<Vec<Ended>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT key, length(response_body) FROM plain_invocation INDEXED BY plain_answer_age
         WHERE response_body IS NOT NULL AND status IN ('succeeded', 'failed') AND ended_at < ?1
         ORDER BY ended_at LIMIT ?2",
    )?;
    collect(&mut statement.query(params![oldest.0, FOUND_MAX])?, |columns| {
        Ok(Ended { key: columns.next()?, bytes: columns.next()? })
    })
}

fn ended(connection: &Connection, before: Timestamp, after: i64) -> Result<Vec<Ended>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT key, coalesce(length(response_body), 0) FROM plain_invocation
         WHERE key > ?1 AND status IN ('succeeded', 'failed') AND coalesce(resolved_at, ended_at) < ?2
             AND pruned_at IS NULL
         ORDER BY key LIMIT ?3",
    )?;
    collect(&mut statement.query(params![after, before.0, FOUND_MAX])?, |columns| {
        Ok(Ended { key: columns.next()?, bytes: columns.next()? })
    })
}

/// The answer goes; what became of the invocation stays.
fn erase(connection: &Connection, key: i64) -> Result<u64, Fault> {
    let erased = connection
        .prepare_cached(
            "UPDATE plain_invocation SET response_reason = NULL, response_headers = NULL, response_body = NULL
             WHERE key = ?1 AND response_body IS NOT NULL AND status IN ('succeeded', 'failed')",
        )?
        .execute([key])?;
    Ok(u64::try_from(erased).unwrap_or(u64::MAX))
}

fn prune(connection: &Connection, key: i64, now: Timestamp) -> Result<u64, Fault> {
    const FREE: &str =
        "DELETE FROM plain_invocation WHERE key = ?1 AND pruned_at IS NOT NULL AND caller_key IS NULL
        AND retry_of IS NULL AND retried_by IS NULL
        AND NOT EXISTS (SELECT 1 FROM further_key WHERE plain = plain_invocation.key)";
    erase(connection, key)?;
    let marked = connection
        .prepare_cached("UPDATE plain_invocation SET pruned_at = ?2 WHERE key = ?1 AND pruned_at IS NULL")?
        .execute(params![key, now.0])?;
    connection.prepare_cached(FREE)?.execute([key])?;
    Ok(u64::try_from(marked).unwrap_or(u64::MAX))
}
