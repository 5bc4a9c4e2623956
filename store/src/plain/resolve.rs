//! What becomes of an invocation without an effect after its dispatch: a person's word on an unknown one, the end of
//! one that nobody will finish, and retention.

use oncegate_policy::caller::CallerName;
use oncegate_policy::classify::Verdict;
use oncegate_policy::exchange::{Exchange, Loss, Phase};
use oncegate_policy::id::InvocationId;
use oncegate_policy::plain::PlainStatus;
use oncegate_policy::time::Timestamp;
use rusqlite::params;
use serde_json::json;

use super::{PlainView, end, event, gone, look};
use crate::Store;
use crate::error::{Fault, StoreError};
use crate::read::collect;
use crate::record::Seen;
use crate::resolve::ResolvedAs;
use crate::writer::{Step, Tx};

const RESOLVE: Step =
    Step::new("resolve an invocation").failing_at("before_resolve_commit", "after_resolve_commit");

/// What became of a person's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedPlain {
    /// It settles the invocation.
    Done(PlainView),
    /// The key that made an invocation never resolves it (P8).
    OwnInvocation(PlainView),
    /// Only an unknown invocation is resolved.
    NotUnknown(PlainView),
    /// Nothing is said why.
    NoEvidence,
    /// There is no such invocation; one with an effect is resolved through its effect.
    Missing,
}

impl Store {
    /// Settles an unknown invocation by a person's word. Sends nothing, and does not free the key.
    ///
    /// # Errors
    /// The record could not be written: it is as unknown as before.
    pub async fn resolve_plain(
        &self,
        id: &InvocationId,
        outcome: ResolvedAs,
        by: &CallerName,
        evidence: String,
        external_reference: Option<String>,
        now: Timestamp,
    ) -> Result<ResolvedPlain, StoreError> {
        let (id, by) = (id.clone(), by.clone());
        let verb = move |tx: &mut Tx<'_>| {
            let Some(known) = look::by_id(tx.connection, &id)? else { return Ok(ResolvedPlain::Missing) };
            if known.caller == by {
                return Ok(ResolvedPlain::OwnInvocation(known));
            }
            if evidence.trim().is_empty() {
                return Ok(ResolvedPlain::NoEvidence);
            }
            if known.status != PlainStatus::Unknown {
                return Ok(ResolvedPlain::NotUnknown(known));
            }
            let word = Word {
                outcome,
                by: &by,
                evidence: evidence.trim(),
                reference: external_reference.as_deref(),
            };
            resolve(tx, &id, &word, now)?;
            Ok(ResolvedPlain::Done(look::by_id(tx.connection, &id)?.ok_or_else(|| gone(&id))?))
        };
        self.inner.writer.write(RESOLVE, usize::MAX, verb).await
    }
}

struct Word<'a> {
    outcome: ResolvedAs,
    by: &'a CallerName,
    evidence: &'a str,
    reference: Option<&'a str>,
}

fn resolve(tx: &mut Tx<'_>, id: &InvocationId, word: &Word<'_>, now: Timestamp) -> Result<(), Fault> {
    let (outcome, by) = (word.outcome.word(), word.by);
    tx.connection
        .prepare_cached(
            "UPDATE plain_invocation SET status = ?2, resolved_as = ?2, resolved_by = ?3, resolved_at = ?4,
                 evidence = ?5, external_reference = ?6 WHERE id = ?1",
        )?
        .execute(params![id.as_str(), outcome, by.as_str(), now.0, word.evidence, word.reference])?;
    let text = format!("resolved as {outcome} by {by}: {}", word.evidence);
    let detail = json!({ "outcome": outcome, "external_reference": word.reference });
    event(tx, "plain_resolved", id, Some(by.as_str()), Some(&text), detail, now)
}

/// One that nobody will finish.
#[derive(Clone, Copy)]
pub(crate) struct Abandoned {
    pub(crate) key: i64,
    /// Whether it is of this run.
    ours: bool,
}

/// Calls unknown whatever says `running` with no living owner, at most `swept_max` of them.
pub(crate) fn sweep(tx: &mut Tx<'_>, swept_max: usize, now: Timestamp) -> Result<Vec<Abandoned>, Fault> {
    let open = abandoned(tx, swept_max)?;
    for each in &open {
        interrupted(tx, *each, now)?;
    }
    Ok(open)
}

/// What says `running` with no living owner. Nothing is read of it that could be unreadable.
pub(crate) fn abandoned(tx: &Tx<'_>, count_max: usize) -> Result<Vec<Abandoned>, Fault> {
    let (run, living) = (tx.setting.run, &tx.setting.living_plain);
    let mut statement = tx.connection.prepare_cached(
        "SELECT key, run FROM plain_invocation INDEXED BY plain_open WHERE status = 'running' ORDER BY key",
    )?;
    let mut open: Vec<(i64, i64)> =
        collect(&mut statement.query([])?, |columns| Ok((columns.next()?, columns.next()?)))?;
    open.retain(|(key, by)| *by != run || !living.holds(*key));
    open.truncate(count_max);
    Ok(open.into_iter().map(|(key, by)| Abandoned { key, ours: by == run }).collect())
}

/// Calls one unknown.
pub(crate) fn interrupted(
    tx: &mut Tx<'_>,
    Abandoned { key, ours }: Abandoned,
    now: Timestamp,
) -> Result<(), Fault> {
    let id = {
        let mut statement = tx.connection.prepare_cached("SELECT id FROM plain_invocation WHERE key = ?1")?;
        collect(&mut statement.query([key])?, |columns| columns.word("invocation id", InvocationId::parse))?
    };
    let Some(id) = id.first() else { return Ok(()) };
    let cause = if ours { "the task that sent it ended" } else { "the process that sent it ended" };
    let loss = Loss { phase: Phase::Interrupted, cause: cause.to_owned(), status: None };
    end(tx, key, id, &Seen::of(Verdict::Unknown, &Exchange::Lost(loss)), now)?;
    tracing::warn!(invocation.id = %id, "an invocation was interrupted; its outcome is unknown");
    Ok(())
}
