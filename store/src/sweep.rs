//! Dispatches that nobody will finish: of an earlier run, or of a task of this run that is gone.

use std::sync::atomic::Ordering;

use oncegate_policy::classify::Verdict;
use oncegate_policy::effect::Stage;
use oncegate_policy::exchange::{Exchange, Loss, NotSent, Phase};
use oncegate_policy::id::EffectId;
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde_json::json;

use crate::error::{Fault, StoreError};
use crate::record::Seen;
use crate::settle::Fact;
use crate::writer::{Step, Tx};
use crate::{Store, attempt, plain, row};

const SWEEP: Step =
    Step::new("sweep interrupted dispatches").failing_at("before_sweep_commit", "after_sweep_commit");
/// Open attempts, and open invocations without an effect, in one transaction, at most.
const SWEPT_MAX: usize = 500;

impl Store {
    /// Calls unknown whatever says `dispatching` with no living owner, and closes attempts that nobody holds. A byte
    /// may have left in each but a replay whose permit was not spent: none is sent again, and none is called failed. The same for invocations without an
    /// effect. Returns the effects that became unknown.
    ///
    /// All in few commits, and each in its own where that fails: one that cannot be ended stays as it is, is logged, and
    /// keeps no other from it.
    ///
    /// # Errors
    /// The record could not be written; the next sweep finds them again.
    pub async fn sweep(&self, now: Timestamp) -> Result<Vec<EffectId>, StoreError> {
        // What this run has claimed is known by heart. What earlier runs have left is read until a sweep ends well.
        let earlier = !self.inner.swept_earlier.load(Ordering::SeqCst);
        let mut unknown = Vec::new();
        loop {
            let verb = move |tx: &mut Tx<'_>| {
                let swept = sweep(tx, earlier, now)?;
                let plain = plain::resolve::sweep(tx, SWEPT_MAX, now)?;
                Ok((swept, plain))
            };
            match self.inner.writer.write(SWEEP, usize::MAX, verb).await {
                Ok((mut swept, plain)) => {
                    // Not before the commit: until then, this is all that is known of them.
                    swept.ended.iter().for_each(|attempt| self.inner.living.forget_abandoned(*attempt));
                    plain.iter().for_each(|each| self.inner.living_plain.forget_abandoned(each.key));
                    unknown.append(&mut swept.unknown);
                    if swept.closed.max(plain.len()) < SWEPT_MAX {
                        self.inner.swept_earlier.store(true, Ordering::SeqCst);
                        return Ok(unknown);
                    }
                }
                Err(error) if error.concerns_one() => {
                    tracing::error!(error = error.chain(), "what was interrupted is swept one by one");
                    // Those first: of them nobody is told, of effects whoever asked for the sweep.
                    self.sweep_each_plain(now).await?;
                    unknown.append(&mut self.sweep_each(earlier, now).await?);
                    return Ok(unknown);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn sweep_each(&self, earlier: bool, now: Timestamp) -> Result<Vec<EffectId>, StoreError> {
        let list = move |tx: &mut Tx<'_>| abandoned(tx, earlier, usize::MAX);
        let mut unknown = Vec::new();
        let listed = self.inner.writer.write(SWEEP, usize::MAX, list).await?;
        listed.gone.iter().for_each(|attempt| self.inner.living.forget_abandoned(*attempt));
        for open in listed.abandoned {
            match self.inner.writer.write(SWEEP, usize::MAX, move |tx| end(tx, open, now)).await {
                Ok(became) => {
                    self.inner.living.forget_abandoned(open.attempt);
                    unknown.extend(became);
                }
                Err(error) if error.concerns_one() => {
                    tracing::error!(error = error.chain(), "an interrupted dispatch could not be ended");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(unknown)
    }

    async fn sweep_each_plain(&self, now: Timestamp) -> Result<(), StoreError> {
        let list = move |tx: &mut Tx<'_>| plain::resolve::abandoned(tx, usize::MAX);
        for open in self.inner.writer.write(SWEEP, usize::MAX, list).await? {
            let end = move |tx: &mut Tx<'_>| plain::resolve::interrupted(tx, open, now);
            match self.inner.writer.write(SWEEP, usize::MAX, end).await {
                Ok(()) => self.inner.living_plain.forget_abandoned(open.key),
                Err(error) if error.concerns_one() => {
                    tracing::error!(error = error.chain(), "an interrupted invocation could not be ended");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What one transaction has done.
struct Swept {
    /// How many attempts it has closed.
    closed: usize,
    /// These, and what had ended already.
    ended: Vec<i64>,
    unknown: Vec<EffectId>,
}

/// What nobody holds any more.
struct Listed {
    /// It says that it is on its way.
    abandoned: Vec<Abandoned>,
    /// It does not, or was never committed.
    gone: Vec<i64>,
}

/// One that nobody will finish.
#[derive(Clone, Copy)]
struct Abandoned {
    attempt: i64,
    /// Whether it is of this run.
    ours: bool,
}

fn sweep(tx: &mut Tx<'_>, earlier: bool, now: Timestamp) -> Result<Swept, Fault> {
    let Listed { abandoned, gone: mut ended } = abandoned(tx, earlier, SWEPT_MAX)?;
    let mut unknown = Vec::new();
    for each in &abandoned {
        unknown.extend(end(tx, *each, now)?);
    }
    ended.extend(abandoned.iter().map(|each| each.attempt));
    Ok(Swept { closed: abandoned.len(), ended, unknown })
}

/// Dispatches and replays without a living owner, in the order of their effects.
fn abandoned(tx: &Tx<'_>, earlier: bool, count_max: usize) -> Result<Listed, Fault> {
    let mut open = open_attempts(tx.connection)?;
    if earlier {
        open.append(&mut dispatching(tx.connection)?);
    }
    let mut gone = Vec::new();
    for attempt in tx.setting.living.abandoned() {
        match owner_of(tx.connection, attempt)? {
            Some(run) => open.push((attempt, run)),
            None if open.iter().any(|(open, _)| *open == attempt) => {}
            None => gone.push(attempt),
        }
    }
    open.retain(|(attempt, by)| *by != tx.setting.run || !tx.setting.living.holds(*attempt));
    open.sort_unstable();
    open.dedup();
    open.truncate(count_max);
    let ours = |by: i64| by == tx.setting.run;
    let abandoned = open.into_iter().map(|(attempt, by)| Abandoned { attempt, ours: ours(by) }).collect();
    Ok(Listed { abandoned, gone })
}

/// Ends one attempt. The effect, if it became unknown by it.
fn end(tx: &mut Tx<'_>, abandoned: Abandoned, now: Timestamp) -> Result<Option<EffectId>, Fault> {
    let attempt = abandoned.attempt;
    let seen = last_seen(tx, abandoned);
    let Some(mut effect) = row::by_attempt(tx.connection, attempt)? else { return Ok(None) };
    tx.end_attempt(&effect, attempt, &seen, now)?;
    let text = seen.text();
    let fact =
        Fact { kind: "interrupted", author: Some("sweep"), text: &text, detail: json!({}).to_string() };
    if matches!(effect.view.stage, Stage::Dispatching { .. }) {
        tx.unknown(&mut effect, fact, now)?;
        return Ok(Some(effect.view.id));
    }
    tx.note_fact(&effect, fact, now)?;
    Ok(None)
}

/// What is known of one that nobody will finish. Only of a replay is it known whether it was begun at all.
fn last_seen(tx: &Tx<'_>, Abandoned { attempt, ours }: Abandoned) -> Seen {
    let exchange = if ours && !attempt::is_dispatch(attempt) && tx.setting.living.gave_up_unspent(attempt) {
        Exchange::NotSent(NotSent::GivenUp("the task that was to send it ended".to_owned()))
    } else {
        let cause = if ours { "the task that sent it ended" } else { "the process that sent it ended" };
        Exchange::Lost(Loss { phase: Phase::Interrupted, cause: cause.to_owned(), status: None })
    };
    Seen::of(Verdict::Unknown, &exchange)
}

/// Replays without an end, and dispatches that became unknown while their socket was read, each with its run: a partial
/// index, no scan over what is settled.
fn open_attempts(connection: &Connection) -> Result<Vec<(i64, i64)>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT key, run FROM attempt INDEXED BY attempt_open WHERE ended_at IS NULL")?;
    let open = statement.query_map([], |found| Ok((found.get(0)?, found.get(1)?)))?;
    Ok(open.collect::<Result<_, _>>()?)
}

/// Dispatches whose effect says `dispatching`, each with its run: the index of what is open.
fn dispatching(connection: &Connection) -> Result<Vec<(i64, i64)>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT key << 20, run FROM effect INDEXED BY effect_open
         WHERE stage NOT IN ('settled', 'rejected') AND stage = 'dispatching'",
    )?;
    let open = statement.query_map([], |found| Ok((found.get(0)?, found.get(1)?)))?;
    Ok(open.collect::<Result<_, _>>()?)
}

/// The run that an effect is dispatched by, if it still says so.
fn owner_of(connection: &Connection, attempt: i64) -> Result<Option<i64>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT run FROM effect WHERE key << 20 = ?1 AND key = ?1 >> 20 AND stage = 'dispatching'",
    )?;
    Ok(statement.query_row([attempt], |found| found.get(0)).optional()?)
}
