//! Retention: recorded answers after their time, and by command the bulk of effects that ended long ago. Keys stay,
//! the chain stays, and what is unknown is never touched.

use std::time::Duration;

use oncegate_policy::id::EffectId;
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, params};
use serde_json::json;

use crate::Store;
use crate::error::{Fault, StoreError};
use crate::events::Event;
use crate::read::collect;
use crate::writer::{Step, Tx};

const PRUNE: Step = Step::new("prune");
/// Rows in one transaction, at most: a prune never makes an admission wait long.
const BATCH: i64 = 100;
/// A row that nothing refers to and no key protects is removed whole only at this age: long after the longest
/// time in which an identical request would be recognised by it.
const REMOVED_AFTER: Duration = Duration::from_secs(90 * 24 * 3_600);

/// What was taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Recorded answers that were older than `keep_responses`.
    pub responses: u64,
    /// Effects that lost their attempts, holds and answer, keeping their identity and outcome.
    pub shortened: u64,
    /// Effects without a key that were removed whole; what happened to them stays in the chain.
    pub removed: u64,
}

impl Store {
    /// Erases answers older than `keep_responses`, and, if `ended_before` is given, the bulk of effects that ended
    /// before it. In small batches.
    ///
    /// # Errors
    /// The record could not be written; what was pruned before stays pruned.
    pub async fn prune(&self, ended_before: Option<Timestamp>, now: Timestamp) -> Result<Pruned, StoreError> {
        let mut pruned = Pruned::default();
        let oldest = Timestamp(
            now.0.saturating_sub(i64::try_from(self.inner.keep_responses.as_millis()).unwrap_or(i64::MAX)),
        );
        loop {
            let erased =
                self.inner.writer.write(PRUNE, usize::MAX, move |tx| responses(tx, oldest, now)).await?;
            pruned.responses = pruned.responses.saturating_add(erased);
            if erased == 0 {
                break;
            }
        }
        let Some(before) = ended_before else { return Ok(pruned) };
        let mut after = 0;
        loop {
            let batch =
                self.inner.writer.write(PRUNE, usize::MAX, move |tx| effects(tx, before, after, now)).await?;
            pruned.shortened = pruned.shortened.saturating_add(batch.shortened);
            pruned.removed = pruned.removed.saturating_add(batch.removed);
            match batch.last {
                Some(last) => after = last,
                None => return Ok(pruned),
            }
        }
    }
}

/// Answers, and what was remembered for a look that nobody made.
fn responses(tx: &mut Tx<'_>, oldest: Timestamp, now: Timestamp) -> Result<u64, Fault> {
    let settled = "(SELECT 1 FROM effect WHERE key = kept.effect AND stage = 'settled')";
    let erased = tx
        .connection
        .prepare_cached(&format!(
            "DELETE FROM response WHERE effect IN (
                 SELECT effect FROM response AS kept WHERE at < ?1 AND EXISTS {settled} ORDER BY at LIMIT ?2)"
        ))?
        .execute(params![oldest.0, BATCH])?;
    tx.connection
        .prepare_cached(
            "DELETE FROM request WHERE effect IN (
                 SELECT kept.effect FROM request AS kept JOIN effect ON effect.key = kept.effect
                 WHERE effect.stage = 'settled' AND effect.settled_at < ?1 LIMIT ?2)",
        )?
        .execute(params![oldest.0, BATCH])?;
    let erased = u64::try_from(erased).unwrap_or(u64::MAX);
    if erased > 0 {
        tx.append(&Event {
            at: now,
            kind: "answers_erased",
            effect: None,
            stage: None,
            author: None,
            text: None,
            detail: json!({ "answers": erased, "kept_before": oldest.0 }),
        })?;
    }
    Ok(erased)
}

struct Batch {
    shortened: u64,
    removed: u64,
    last: Option<i64>,
}

fn effects(tx: &mut Tx<'_>, before: Timestamp, after: i64, now: Timestamp) -> Result<Batch, Fault> {
    let ended = ended(tx.connection, before, after)?;
    let mut batch = Batch { shortened: 0, removed: 0, last: ended.last().map(|found| found.key) };
    for found in ended {
        shorten(tx, found.key, now)?;
        let old = now.since(found.ended_at) >= REMOVED_AFTER;
        let removed = old && remove(tx.connection, found.key)?;
        let count = if removed { &mut batch.removed } else { &mut batch.shortened };
        *count = count.saturating_add(1);
        tx.append(&Event {
            at: now,
            kind: "pruned",
            effect: Some(&found.id),
            stage: removed.then_some("pruned"),
            author: None,
            text: None,
            detail: json!({ "removed": removed }),
        })?;
    }
    Ok(batch)
}

struct Ended {
    key: i64,
    id: EffectId,
    ended_at: Timestamp,
}

fn ended(connection: &Connection, before: Timestamp, after: i64) -> Result<Vec<Ended>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT key, id, coalesce(settled_at, rejected_at) AS ended_at FROM effect
         WHERE key > ?1 AND stage IN ('settled', 'rejected') AND ended_at < ?2 AND pruned_at IS NULL
         ORDER BY key LIMIT ?3",
    )?;
    collect(&mut statement.query(params![after, before.0, BATCH])?, |columns| {
        Ok(Ended {
            key: columns.next()?,
            id: columns.word("effect id", EffectId::parse)?,
            ended_at: Timestamp(columns.next()?),
        })
    })
}

fn shorten(tx: &Tx<'_>, effect: i64, now: Timestamp) -> Result<(), Fault> {
    tx.connection
        .prepare_cached("UPDATE effect SET pruned_at = ?2 WHERE key = ?1")?
        .execute(params![effect, now.0])?;
    tx.forget_response(effect)?;
    tx.forget_request(effect)?;
    for statement in ["DELETE FROM attempt WHERE effect = ?1", "DELETE FROM hold WHERE effect = ?1"] {
        tx.connection.prepare_cached(statement)?.execute([effect])?;
    }
    Ok(())
}

/// Removes the row if no key and no other row needs it. A caller's key names its request for life.
fn remove(connection: &Connection, effect: i64) -> Result<bool, Fault> {
    let free = "caller_key IS NULL AND declared_key IS NULL
        AND NOT EXISTS (SELECT 1 FROM effect AS other WHERE other.retry_of = effect.invocation)
        AND NOT EXISTS (SELECT 1 FROM effect AS other WHERE other.retried_by = effect.invocation)
        AND NOT EXISTS (SELECT 1 FROM effect AS other WHERE other.compensates = effect.id)
        AND NOT EXISTS (SELECT 1 FROM dependency WHERE on_effect = effect.key)
        AND NOT EXISTS (SELECT 1 FROM approval WHERE approval.effect = effect.key)";
    let mut statement = connection.prepare_cached(&format!("SELECT {free} FROM effect WHERE key = ?1"))?;
    if !statement.query_row([effect], |found| found.get::<_, bool>(0))? {
        return Ok(false);
    }
    connection.prepare_cached("DELETE FROM dependency WHERE effect = ?1")?.execute([effect])?;
    connection.prepare_cached("DELETE FROM effect WHERE key = ?1")?.execute([effect])?;
    Ok(true)
}
