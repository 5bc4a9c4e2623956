//! Dispatches that nobody will finish: of an earlier run, or of a task of this run that is gone.

use oncegate_policy::classify::Verdict;
use oncegate_policy::effect::Stage;
use oncegate_policy::exchange::{Exchange, Loss, Phase};
use oncegate_policy::id::EffectId;
use oncegate_policy::time::Timestamp;
use rusqlite::Connection;
use serde_json::json;

use crate::error::{Fault, StoreError};
use crate::record::{Seen, end_attempt};
use crate::settle::Fact;
use crate::writer::{Step, Tx};
use crate::{Store, plain, row};

const SWEEP: Step =
    Step::new("sweep interrupted dispatches").failing_at("before_sweep_commit", "after_sweep_commit");
/// Open attempts, and open invocations without an effect, in one transaction, at most.
const SWEPT_MAX: usize = 500;

impl Store {
    /// Calls unknown whatever says `dispatching` with no living owner, and closes attempts that nobody holds. A byte
    /// may have left in each: none is sent again, and none is called failed. The same for invocations without an
    /// effect. Returns the effects that became unknown.
    ///
    /// All in few commits, and each in its own where that fails: one that cannot be ended stays as it is, is logged, and
    /// keeps no other from it.
    ///
    /// # Errors
    /// The record could not be written; the next sweep finds them again.
    pub async fn sweep(&self, now: Timestamp) -> Result<Vec<EffectId>, StoreError> {
        let mut unknown = Vec::new();
        loop {
            let verb = move |tx: &mut Tx<'_>| {
                let (closed, found) = sweep(tx, now)?;
                Ok((closed.max(plain::resolve::sweep(tx, SWEPT_MAX, now)?), found))
            };
            match self.inner.writer.write(SWEEP, usize::MAX, verb).await {
                Ok((closed, mut found)) => {
                    unknown.append(&mut found);
                    if closed < SWEPT_MAX {
                        return Ok(unknown);
                    }
                }
                Err(error) if error.concerns_one() => {
                    tracing::error!(error = error.chain(), "what was interrupted is swept one by one");
                    unknown.append(&mut self.sweep_each(now).await?);
                    let verb = move |tx: &mut Tx<'_>| plain::resolve::sweep(tx, SWEPT_MAX, now);
                    self.inner.writer.write(SWEEP, usize::MAX, verb).await?;
                    return Ok(unknown);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn sweep_each(&self, now: Timestamp) -> Result<Vec<EffectId>, StoreError> {
        let list = move |tx: &mut Tx<'_>| abandoned(tx, usize::MAX);
        let mut unknown = Vec::new();
        for open in self.inner.writer.write(SWEEP, usize::MAX, list).await? {
            match self.inner.writer.write(SWEEP, usize::MAX, move |tx| end(tx, open, now)).await {
                Ok(became) => unknown.extend(became),
                Err(error) if error.concerns_one() => {
                    tracing::error!(error = error.chain(), "an interrupted dispatch could not be ended");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(unknown)
    }
}

/// How many attempts were closed, and which effects became unknown by it.
fn sweep(tx: &mut Tx<'_>, now: Timestamp) -> Result<(usize, Vec<EffectId>), Fault> {
    let open = abandoned(tx, SWEPT_MAX)?;
    let mut unknown = Vec::new();
    for each in &open {
        unknown.extend(end(tx, *each, now)?);
    }
    Ok((open.len(), unknown))
}

/// Open attempts without a living owner, oldest first, with the run that each is of.
fn abandoned(tx: &Tx<'_>, count_max: usize) -> Result<Vec<(i64, i64)>, Fault> {
    let mut open = open_attempts(tx.connection)?;
    open.retain(|(attempt, by)| *by != tx.setting.run || !tx.setting.living.holds(*attempt));
    open.truncate(count_max);
    Ok(open)
}

/// Ends one attempt. The effect, if it became unknown by it.
fn end(tx: &mut Tx<'_>, (attempt, by): (i64, i64), now: Timestamp) -> Result<Option<EffectId>, Fault> {
    let ours = by == tx.setting.run;
    let cause = if ours { "the task that sent it ended" } else { "the process that sent it ended" };
    let loss = Loss { phase: Phase::Interrupted, cause: cause.to_owned(), status: None };
    let seen = Seen::of(Verdict::Unknown, &Exchange::Lost(loss));
    end_attempt(tx, attempt, &seen, now)?;
    tx.setting.living.forget(attempt);
    let Some(mut effect) = row::by_attempt(tx.connection, attempt)? else { return Ok(None) };
    let text = seen.text();
    let fact = Fact { kind: "interrupted", author: Some("sweep"), text: &text, detail: json!({}) };
    if matches!(effect.view.stage, Stage::Dispatching { .. }) {
        tx.unknown(&mut effect, fact, now)?;
        return Ok(Some(effect.view.id));
    }
    tx.note_fact(&effect, fact, now)?;
    Ok(None)
}

/// Attempts without an end: a partial index, no scan over what is settled.
fn open_attempts(connection: &Connection) -> Result<Vec<(i64, i64)>, Fault> {
    // Left to itself SQLite reads the whole table to save a sort of the few.
    let mut statement = connection.prepare_cached(
        "SELECT key, run FROM attempt INDEXED BY attempt_open WHERE ended_at IS NULL ORDER BY key",
    )?;
    let open = statement.query_map([], |found| Ok((found.get(0)?, found.get(1)?)))?;
    Ok(open.collect::<Result<_, _>>()?)
}
