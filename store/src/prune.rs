//! Retention: recorded answers after their time, and by command the bulk of effects that ended long ago. Keys stay,
//! the chain stays, and what is unknown is never touched.
//!
//! What is to go is looked up on a reader's connection; the writer takes it away in slices, and looks again. A slice
//! is bounded in rows and in bytes, because an erased page is written over.

use std::time::Duration;

use oncegate_policy::id::EffectId;
use oncegate_policy::identity::IDENTICAL_WITHIN_MAX;
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, params};
use serde_json::json;

use crate::error::{Fault, StoreError};
use crate::events::Event;
use crate::read::collect;
use crate::writer::{Step, Tx};
use crate::{Store, preview};

pub(crate) const PRUNE: Step = Step::new("prune");
const FIND: &str = "find what is to be pruned";
/// Rows in one transaction, at most: about two milliseconds of the writer's time.
pub(crate) const SLICE_ROWS: usize = 32;
/// Bytes of answers in one transaction; one answer alone may be longer.
const SLICE_BYTES: i64 = 256 * 1024;
/// Rows that are looked up at a time.
pub(crate) const FOUND_MAX: i64 = 1_024;
/// A row that nothing refers to and no key protects is removed whole only at this age: no identical request is recognised
/// by it any more, whatever an action declares.
const REMOVED_AFTER: Duration = IDENTICAL_WITHIN_MAX;

/// What was taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Recorded answers that were older than `keep_responses`.
    pub responses: u64,
    /// Effects that lost their attempts, holds and answer, keeping their identity and outcome.
    pub shortened: u64,
    /// Effects without a key that were removed whole; what happened to them stays in the chain.
    pub removed: u64,
    /// Previews that expired without being used.
    pub previews: u64,
    /// Invocations without an effect that were removed, or that lost their answer and keep their key and outcome.
    pub invocations: u64,
}

impl Store {
    /// Erases answers older than `keep_responses` and expired previews, and, if `ended_before` is given, the bulk of
    /// what ended before it.
    ///
    /// # Errors
    /// The record could not be written; what was pruned before stays pruned.
    pub async fn prune(&self, ended_before: Option<Timestamp>, now: Timestamp) -> Result<Pruned, StoreError> {
        let keep = i64::try_from(self.inner.keep_responses.as_millis()).unwrap_or(i64::MAX);
        let oldest = Timestamp(now.0.saturating_sub(keep));
        let mut pruned = Pruned {
            responses: self.prune_responses(oldest, now).await?,
            previews: self.prune_previews(now).await?,
            ..Pruned::default()
        };
        pruned.responses = pruned.responses.saturating_add(self.prune_plain_answers(oldest, now).await?);
        self.prune_requests(oldest).await?;
        if let Some(before) = ended_before {
            self.prune_effects(before, now, &mut pruned).await?;
            pruned.invocations = self.prune_plain(before, now).await?;
        }
        Ok(pruned)
    }

    async fn prune_responses(&self, oldest: Timestamp, now: Timestamp) -> Result<u64, StoreError> {
        let mut erased = 0_u64;
        let mut after = 0;
        loop {
            let page = self.inner.reader.read(FIND, move |connection| kept_responses(connection, after));
            let page = page.await?;
            let Some(last) = page.last() else { return Ok(erased) };
            after = last.effect;
            // They lie in the order in which they were asked for, and none is older than that.
            let more = page.iter().any(|kept| kept.asked_at < oldest.0);
            let old = page.into_iter().filter(|kept| kept.settled && kept.at < oldest.0).collect();
            for slice in slices(old) {
                let verb = move |tx: &mut Tx<'_>| {
                    let mut gone = 0_u64;
                    for answer in &slice {
                        gone = gone.saturating_add(tx.forget_response(answer.effect)?);
                    }
                    erased_event(tx, gone, oldest, now)?;
                    Ok(gone)
                };
                erased = erased.saturating_add(self.inner.writer.write(PRUNE, usize::MAX, verb).await?);
            }
            if !more {
                return Ok(erased);
            }
        }
    }

    /// What was remembered for a look that nobody made.
    async fn prune_requests(&self, oldest: Timestamp) -> Result<(), StoreError> {
        let old = self.inner.reader.read(FIND, move |connection| old_requests(connection, oldest)).await?;
        for slice in old.chunks(SLICE_ROWS) {
            let slice = slice.to_vec();
            let verb = move |tx: &mut Tx<'_>| slice.iter().try_for_each(|effect| tx.forget_request(*effect));
            self.inner.writer.write(PRUNE, usize::MAX, verb).await?;
        }
        Ok(())
    }

    async fn prune_previews(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut removed = 0_u64;
        loop {
            let verb = move |tx: &mut Tx<'_>| preview::remove_expired(tx, now);
            match self.inner.writer.write(PRUNE, usize::MAX, verb).await? {
                0 => return Ok(removed),
                some => removed = removed.saturating_add(some),
            }
        }
    }

    async fn prune_effects(
        &self,
        before: Timestamp,
        now: Timestamp,
        pruned: &mut Pruned,
    ) -> Result<(), StoreError> {
        let mut after = 0;
        loop {
            let found =
                self.inner.reader.read(FIND, move |connection| ended(connection, before, after)).await?;
            let Some(last) = found.last() else { return Ok(()) };
            after = last.key;
            for slice in slices(found) {
                let verb = move |tx: &mut Tx<'_>| effects(tx, &slice, now);
                let (shortened, removed) = self.inner.writer.write(PRUNE, usize::MAX, verb).await?;
                pruned.shortened = pruned.shortened.saturating_add(shortened);
                pruned.removed = pruned.removed.saturating_add(removed);
            }
        }
    }
}

/// What is erased has a size.
pub(crate) trait Weighs {
    /// Bytes that are written over.
    fn bytes(&self) -> i64;
}

/// In the order given, each slice small enough for one transaction.
pub(crate) fn slices<T: Weighs>(found: Vec<T>) -> Vec<Vec<T>> {
    let mut slices: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0_i64;
    for item in found {
        let size = item.bytes();
        match slices.last_mut() {
            Some(slice) if slice.len() < SLICE_ROWS && bytes.saturating_add(size) <= SLICE_BYTES => {
                bytes = bytes.saturating_add(size);
                slice.push(item);
            }
            Some(_) | None => {
                bytes = size;
                slices.push(vec![item]);
            }
        }
    }
    slices
}

struct KeptResponse {
    effect: i64,
    at: i64,
    bytes: i64,
    /// When its effect was asked for.
    asked_at: i64,
    /// What is unknown keeps its own.
    settled: bool,
}

impl Weighs for KeptResponse {
    fn bytes(&self) -> i64 {
        self.bytes
    }
}

/// The answers that are kept, in the order of their effects: what is erased is no row any more, so that the old ones are
/// the first. An index by age would be one page more for each write.
fn kept_responses(connection: &Connection, after: i64) -> Result<Vec<KeptResponse>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT kept.effect, kept.at, length(kept.body), effect.created_at, effect.stage = 'settled'
         FROM response AS kept CROSS JOIN effect ON effect.key = kept.effect
         WHERE kept.effect > ?1 ORDER BY kept.effect LIMIT ?2",
    )?;
    collect(&mut statement.query([after, FOUND_MAX])?, |columns| {
        Ok(KeptResponse {
            effect: columns.next()?,
            at: columns.next()?,
            bytes: columns.next()?,
            asked_at: columns.next()?,
            settled: columns.next()?,
        })
    })
}

fn old_requests(connection: &Connection, oldest: Timestamp) -> Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT kept.effect FROM request AS kept JOIN effect ON effect.key = kept.effect
         WHERE effect.stage = 'settled' AND effect.settled_at < ?1",
    )?;
    collect(&mut statement.query([oldest.0])?, |columns| columns.next())
}

/// In the chain: how many answers are gone.
pub(crate) fn erased_event(
    tx: &mut Tx<'_>,
    answers: u64,
    oldest: Timestamp,
    now: Timestamp,
) -> Result<(), Fault> {
    if answers == 0 {
        return Ok(());
    }
    let detail = json!({ "answers": answers, "kept_before": oldest.0 }).to_string();
    let kind = "answers_erased";
    tx.append(&Event { at: now, kind, effect: None, stage: None, author: None, text: None, detail })
}

struct Ended {
    key: i64,
    id: EffectId,
    ended_at: Timestamp,
    bytes: i64,
}

impl Weighs for Ended {
    fn bytes(&self) -> i64 {
        self.bytes
    }
}

fn ended(connection: &Connection, before: Timestamp, after: i64) -> Result<Vec<Ended>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT key, id, coalesce(settled_at, rejected_at) AS ended_at,
             coalesce((SELECT length(body) FROM response WHERE response.effect = effect.key), 0)
                 + coalesce((SELECT length(input) + length(document) FROM preview WHERE used_by = effect.key), 0)
         FROM effect
         WHERE key > ?1 AND stage IN ('settled', 'rejected') AND ended_at < ?2 AND pruned_at IS NULL
         ORDER BY key LIMIT ?3",
    )?;
    collect(&mut statement.query(params![after, before.0, FOUND_MAX])?, |columns| {
        Ok(Ended {
            key: columns.next()?,
            id: columns.word("effect id", EffectId::parse)?,
            ended_at: Timestamp(columns.next()?),
            bytes: columns.next()?,
        })
    })
}

/// How many were shortened, and how many removed.
fn effects(tx: &mut Tx<'_>, slice: &[Ended], now: Timestamp) -> Result<(u64, u64), Fault> {
    let (mut shortened, mut gone) = (0_u64, 0_u64);
    for found in slice {
        if !shorten(tx, found.key, now)? {
            // Another prune was faster.
            continue;
        }
        let old = now.since(found.ended_at) >= REMOVED_AFTER;
        let removed = old && remove(tx.connection, found.key)?;
        let count = if removed { &mut gone } else { &mut shortened };
        *count = count.saturating_add(1);
        tx.append(&Event {
            at: now,
            kind: "pruned",
            effect: Some(&found.id),
            stage: removed.then_some("pruned"),
            author: None,
            text: None,
            detail: json!({ "removed": removed }).to_string(),
        })?;
    }
    Ok((shortened, gone))
}

fn shorten(tx: &Tx<'_>, effect: i64, now: Timestamp) -> Result<bool, Fault> {
    let marked = tx
        .connection
        .prepare_cached("UPDATE effect SET pruned_at = ?2 WHERE key = ?1 AND pruned_at IS NULL")?
        .execute(params![effect, now.0])?;
    if marked == 0 {
        return Ok(false);
    }
    tx.forget_response(effect)?;
    tx.forget_request(effect)?;
    preview::shorten(tx.connection, effect)?;
    for statement in [
        "DELETE FROM attempt WHERE key BETWEEN ?1 << 20 AND (?1 << 20) + 1048575",
        "DELETE FROM room WHERE effect = ?1",
    ] {
        tx.connection.prepare_cached(statement)?.execute([effect])?;
    }
    Ok(true)
}

/// Removes the row if no key and no other row needs it. A caller's key names its request for life.
fn remove(connection: &Connection, effect: i64) -> Result<bool, Fault> {
    const FREE: &str = "SELECT caller_key IS NULL AND declared_key IS NULL
        AND NOT EXISTS (SELECT 1 FROM further_key WHERE further_key.effect = effect.key)
        AND NOT EXISTS (SELECT 1 FROM effect AS other WHERE other.retry_of = effect.invocation)
        AND NOT EXISTS (SELECT 1 FROM effect AS other WHERE other.retried_by = effect.invocation)
        AND NOT EXISTS (SELECT 1 FROM effect AS other WHERE other.compensates = effect.id)
        AND NOT EXISTS (SELECT 1 FROM dependency WHERE on_effect = effect.key)
        AND NOT EXISTS (SELECT 1 FROM approval WHERE approval.effect = effect.key)
        FROM effect WHERE key = ?1";
    let mut statement = connection.prepare_cached(FREE)?;
    if !statement.query_row([effect], |found| found.get::<_, bool>(0))? {
        return Ok(false);
    }
    preview::remove_with(connection, effect)?;
    connection.prepare_cached("DELETE FROM dependency WHERE effect = ?1")?.execute([effect])?;
    connection.prepare_cached("DELETE FROM effect WHERE key = ?1")?.execute([effect])?;
    Ok(true)
}
