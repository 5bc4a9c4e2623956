//! Dispatches that nobody will finish: of an earlier run, or of a task of this run that is gone.

use std::sync::Arc;

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
    /// # Errors
    /// The record could not be written; the next sweep finds them again.
    pub async fn sweep(&self, now: Timestamp) -> Result<Vec<EffectId>, StoreError> {
        let mut unknown = Vec::new();
        loop {
            let verb = move |tx: &mut Tx<'_>| {
                let (closed, found) = sweep(tx, now)?;
                Ok((closed.max(plain::resolve::sweep(tx, SWEPT_MAX, now)?), found))
            };
            let (closed, mut found) = self.inner.writer.write(SWEEP, usize::MAX, verb).await?;
            unknown.append(&mut found);
            if closed < SWEPT_MAX {
                return Ok(unknown);
            }
        }
    }
}

/// How many attempts were closed, and which effects became unknown by it.
fn sweep(tx: &mut Tx<'_>, now: Timestamp) -> Result<(usize, Vec<EffectId>), Fault> {
    let (run, living) = (tx.setting.run, Arc::clone(&tx.setting.living));
    let mut open = open_attempts(tx.connection)?;
    open.retain(|(attempt, by)| *by != run || !living.holds(*attempt));
    open.truncate(SWEPT_MAX);
    let mut unknown = Vec::new();
    for (attempt, by) in &open {
        let cause = if *by == run { "the task that sent it ended" } else { "the process that sent it ended" };
        let loss = Loss { phase: Phase::Interrupted, cause: cause.to_owned(), status: None };
        let seen = Seen::of(Verdict::Unknown, &Exchange::Lost(loss));
        end_attempt(tx, *attempt, &seen, now)?;
        living.forget(*attempt);
        let Some(mut effect) = row::by_attempt(tx.connection, *attempt)? else { continue };
        let text = seen.text();
        let fact = Fact { kind: "interrupted", author: Some("sweep"), text: &text, detail: json!({}) };
        if matches!(effect.view.stage, Stage::Dispatching { .. }) {
            tx.unknown(&mut effect, fact, now)?;
            unknown.push(effect.view.id);
        } else {
            tx.note_fact(&effect, fact, now)?;
        }
    }
    Ok((open.len(), unknown))
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
