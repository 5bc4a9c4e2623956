//! Looks: which are due, and what a finding does to an effect.

use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::effect::{SettledResult, Stage, Verification};
use oncegate_policy::id::{AttemptId, EffectId};
use oncegate_policy::reconcile::{Finding, Looker, Settles, settles};
use oncegate_policy::time::Timestamp;
use oncegate_policy::told::Told;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use crate::Store;
use crate::error::{Fault, StoreError};
use crate::events::text_of;
use crate::holds::Ending;
use crate::row::{self, Effect};
use crate::settle::{End, Fact};
use crate::view::EffectView;
use crate::writer::{Step, Tx};

const FIND: Step = Step::new("record a finding").failing_at("before_finding_commit", "after_finding_commit");

/// How long ago a pass can have begun that asks what is due.
const PASS_MAX: Duration = Duration::from_secs(600);

/// How often the wait for a look that may confirm a success is doubled, at most.
const DOUBLED_MAX: u32 = 20;

/// An effect to look for, with what the adapter needs for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookDue {
    /// The effect, with its answer.
    pub view: EffectView,
    /// What was given as [`crate::admit::NewEffect::memory`]; empty once it is erased because nothing is left to
    /// look for.
    pub memory: String,
}

/// What a finding did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It settled the effect, or confirmed it.
    Settled(EffectView),
    /// It is kept as evidence; the effect is as unknown as before.
    StillUnknown(EffectView),
    /// Something else had settled the effect, or nothing was ever sent.
    AlreadySettled(EffectView),
    /// There is no such effect.
    Missing,
}

impl Store {
    /// Unknown effects whose look is due, the longest overdue first. A look that is further off than any can be was
    /// planned before the clock was set back: it is due, too. Those of the actions in `but` are left out.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn due(
        &self,
        now: Timestamp,
        limit: usize,
        but: &[ActionName],
    ) -> Result<Vec<LookDue>, StoreError> {
        let but = listed(but);
        // What became unknown since `now` was taken was planned from a later moment: that is no clock that was set back.
        let latest = self.inner.schedule.next(now, u32::MAX).plus(PASS_MAX);
        let look = move |connection: &Connection| {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rest = "WHERE e.stage = 'reconciling' AND e.next_look_at IS NOT NULL
                AND (e.next_look_at <= ?1 OR e.next_look_at > ?2)
                AND e.action NOT IN (SELECT value FROM json_each(?4)) ORDER BY e.next_look_at LIMIT ?3";
            with_memory(connection, row::few(connection, rest, params![now.0, latest.0, limit, but])?)
        };
        self.inner.reader.read("read which looks are due", look).await
    }

    /// Effects that the provider acknowledged `before` a moment, whose look that could confirm them has not been made. Those of
    /// the actions in `but` are left out. One whose look could not be completed has its next turn as long after it as it has
    /// waited until then.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn unconfirmed(
        &self,
        before: Timestamp,
        limit: usize,
        but: &[ActionName],
    ) -> Result<Vec<LookDue>, StoreError> {
        let but = listed(but);
        let first_after =
            i64::try_from(self.inner.schedule.first_after.as_millis()).unwrap_or(i64::MAX >> DOUBLED_MAX);
        let look = move |connection: &Connection| {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rest = "WHERE e.key IN (SELECT effect FROM request) AND e.stage = 'settled' AND e.settled_at <= ?1
                AND e.settled_at <= ?1 - ?4 * ((1 << min(?5, (SELECT count(*) FROM attempt AS tried
                    WHERE tried.key BETWEEN e.key << 20 AND (e.key << 20) + 1048575 AND tried.kind = 'reconcile'
                        AND tried.seen = 'unreadable' AND tried.started_at >= e.settled_at))) - 1)
                AND e.action NOT IN (SELECT value FROM json_each(?3)) ORDER BY e.key LIMIT ?2";
            let found = row::few(connection, rest, params![before.0, limit, but, first_after, DOUBLED_MAX])?;
            with_memory(connection, found)
        };
        self.inner.reader.read("read what may be confirmed", look).await
    }

    /// One effect with its memory. `None` when there is no such effect.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn memory(&self, id: &EffectId) -> Result<Option<LookDue>, StoreError> {
        let id = id.clone();
        let look = move |connection: &Connection| {
            let Some(effect) = row::by_id(connection, &id)? else { return Ok(None) };
            Ok(with_memory(connection, vec![effect])?.pop())
        };
        self.inner.reader.read("read an effect's memory", look).await
    }

    /// When the next look is due that is later than `after`, if any is.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn next_look(&self, after: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let look = move |connection: &Connection| {
            let mut statement = connection.prepare_cached(
                "SELECT min(next_look_at) FROM effect
                 WHERE stage = 'reconciling' AND next_look_at IS NOT NULL AND next_look_at > ?1",
            )?;
            Ok(statement.query_row([after.0], |found| found.get::<_, Option<i64>>(0))?.map(Timestamp))
        };
        self.inner.reader.read("read when the next look is due", look).await
    }

    /// What a look showed. Only a match or the provider's own failed record settles, and never `failed` for the
    /// key that asked for the effect.
    ///
    /// # Errors
    /// The record could not be written; a scheduled look is due again.
    pub async fn apply_finding(
        &self,
        id: &EffectId,
        finding: Finding,
        looker: Looker,
        now: Timestamp,
    ) -> Result<Found, StoreError> {
        let id = id.clone();
        let verb = move |tx: &mut Tx<'_>| match row::by_id(tx.connection, &id)? {
            None => Ok(Found::Missing),
            Some(mut effect) => apply(tx, &mut effect, &finding, &looker, now),
        };
        // Evidence, whoever asked for it: the provider has answered, and may not say it again.
        self.inner.writer.write(FIND, usize::MAX, verb).await
    }

    /// What the look after a 2xx showed: a match makes `acknowledged` into `confirmed`; anything else is evidence. One that
    /// could not be completed is made again.
    ///
    /// # Errors
    /// The record could not be written; the effect stays acknowledged.
    pub async fn confirm(
        &self,
        id: &EffectId,
        finding: Finding,
        now: Timestamp,
    ) -> Result<Found, StoreError> {
        let id = id.clone();
        let verb = move |tx: &mut Tx<'_>| match row::by_id(tx.connection, &id)? {
            None => Ok(Found::Missing),
            Some(effect) => confirm(tx, &effect, &finding, now),
        };
        self.inner.writer.write(FIND, usize::MAX, verb).await
    }
}

/// Names as SQLite reads a list of them.
fn listed(actions: &[ActionName]) -> String {
    text_of(&actions.iter().map(ActionName::as_str).collect::<Vec<_>>())
}

fn with_memory(connection: &Connection, effects: Vec<Effect>) -> Result<Vec<LookDue>, Fault> {
    let mut statement = connection.prepare_cached("SELECT memory FROM request WHERE effect = ?1")?;
    let mut due = Vec::with_capacity(effects.len());
    for effect in effects {
        let memory: Option<String> = statement.query_row([effect.key], |found| found.get(0)).optional()?;
        due.push(LookDue { view: effect.view, memory: memory.unwrap_or_default() });
    }
    Ok(due)
}

fn apply(
    tx: &mut Tx<'_>,
    effect: &mut Effect,
    finding: &Finding,
    looker: &Looker,
    now: Timestamp,
) -> Result<Found, Fault> {
    let by = looker_word(looker);
    match &effect.view.stage {
        Stage::Reconciling { .. } => {}
        // The dispatch is still on its way and will say more than any look; the finding is kept.
        Stage::Dispatching { .. } => {
            look_attempt(tx, effect, finding, by, (false, now))?;
            tx.note_fact(effect, fact(finding, &text(finding), by), now)?;
            return Ok(Found::StillUnknown(tx.again(effect)?));
        }
        Stage::Settled(_) => {
            look_attempt(tx, effect, finding, by, (false, now))?;
            note_after_the_end(tx, effect, finding, by, now)?;
            return Ok(Found::AlreadySettled(tx.again(effect)?));
        }
        Stage::AwaitingApproval { .. } | Stage::Ready | Stage::Rejected(_) => {
            return Ok(Found::AlreadySettled(effect.view.clone()));
        }
    }
    let settles = settles(finding, looker, effect.view.caller.as_str());
    look_attempt(tx, effect, finding, by, (settles != Settles::Nothing, now))?;
    let text = text(finding);
    match settles {
        Settles::Nothing => still_unknown(tx, effect, finding, looker, now),
        Settles::Succeeded => {
            let end = End {
                result: SettledResult::Confirmed,
                verification: Verification::Provider,
                holds: Ending::Consumed,
            };
            tx.settled_response(effect, record(finding), now)?;
            tx.settle(effect, &end, fact(finding, &text, by), now)?;
            Ok(Found::Settled(effect.view.clone()))
        }
        Settles::Failed => {
            let end = End {
                result: SettledResult::Failed,
                verification: Verification::Provider,
                holds: Ending::Released,
            };
            tx.settled_response(effect, record(finding), now)?;
            tx.settle(effect, &end, fact(finding, &text, by), now)?;
            Ok(Found::Settled(effect.view.clone()))
        }
    }
}

/// Only the schedule's own looks move the schedule: a key that asks again and again must not put the look that
/// may settle `failed` off (P8).
fn still_unknown(
    tx: &mut Tx<'_>,
    effect: &Effect,
    finding: &Finding,
    looker: &Looker,
    now: Timestamp,
) -> Result<Found, Fault> {
    match looker {
        Looker::Schedule => {
            let looks = effect.view.looks.saturating_add(1);
            let next = effect.view.can_read_back.then(|| tx.setting.schedule.next(now, looks));
            tx.connection
                .prepare_cached("UPDATE effect SET looks = ?2, next_look_at = ?3 WHERE key = ?1")?
                .execute(params![effect.key, looks, next.map(|at| at.0)])?;
        }
        Looker::Caller(_) => {}
    }
    tx.note_fact(effect, fact(finding, &text(finding), looker_word(looker)), now)?;
    Ok(Found::StillUnknown(tx.again(effect)?))
}

fn confirm(tx: &mut Tx<'_>, effect: &Effect, finding: &Finding, now: Timestamp) -> Result<Found, Fault> {
    let settlement = match &effect.view.stage {
        Stage::Settled(settlement) => settlement,
        Stage::Dispatching { .. } | Stage::Reconciling { .. } => {
            return Ok(Found::StillUnknown(effect.view.clone()));
        }
        Stage::AwaitingApproval { .. } | Stage::Ready | Stage::Rejected(_) => {
            return Ok(Found::AlreadySettled(effect.view.clone()));
        }
    };
    let open = settlement.result == SettledResult::Acknowledged
        && settlement.verification == Verification::Unverified;
    let made = match finding {
        Finding::Matched { .. } | Finding::ProviderSaysFailed { .. } | Finding::NoMatch { .. } => true,
        Finding::Unreadable { .. } => false,
    };
    look_attempt(tx, effect, finding, "schedule", (made, now))?;
    if made {
        // Whatever it showed: nothing is left to remember the input for.
        tx.forget_request(effect.key)?;
    }
    if !open || !matches!(finding, Finding::Matched { .. }) {
        note_after_the_end(tx, effect, finding, "schedule", now)?;
        return Ok(Found::AlreadySettled(tx.again(effect)?));
    }
    tx.connection
        .prepare_cached("UPDATE effect SET result = 'confirmed', verification = 'provider' WHERE key = ?1")?
        .execute([effect.key])?;
    tx.confirmed(effect, fact(finding, &text(finding), "schedule"), now)?;
    Ok(Found::Settled(tx.again(effect)?))
}

fn note_after_the_end(
    tx: &mut Tx<'_>,
    effect: &Effect,
    finding: &Finding,
    by: &str,
    now: Timestamp,
) -> Result<(), Fault> {
    let outcome = effect.view.stage.outcome().word();
    let contradicts = match finding {
        Finding::Matched { .. } => outcome == "failed",
        Finding::ProviderSaysFailed { .. } => outcome == "succeeded",
        Finding::NoMatch { .. } | Finding::Unreadable { .. } => false,
    };
    let remark = if contradicts { "; this CONTRADICTS the recorded outcome, which stays" } else { "" };
    let text = format!("after the effect was settled as {outcome}: {}{remark}", text(finding));
    if contradicts {
        tracing::error!(effect.id = %effect.view.id, outcome, found = %text, "a look contradicts the recorded outcome");
    }
    tx.note_fact(effect, fact(finding, &text, by), now)
}

/// The attempt of a look. Where the effect has had too many of them, its event alone tells of it: a finding is recorded
/// in any case.
fn look_attempt(
    tx: &Tx<'_>,
    effect: &Effect,
    finding: &Finding,
    by: &str,
    (decides, now): (bool, Timestamp),
) -> Result<(), Fault> {
    let Some(key) = tx.next_attempt(effect.key, decides)? else { return Ok(()) };
    let id = AttemptId::from_ulid(&tx.fresh_ulid(now)?);
    tx.connection
        .prepare_cached(
            "INSERT INTO attempt (key, id, effect, kind, author, run, started_at, ended_at, seen, cause)
             VALUES (?1, ?2, ?3, 'reconcile', ?4, ?5, ?6, ?6, ?7, ?8)",
        )?
        .execute(params![
            key,
            id.as_str(),
            effect.key,
            by,
            tx.setting.run,
            now.0,
            finding.word(),
            what(finding)
        ])?;
    Ok(())
}

fn fact<'a>(finding: &Finding, text: &'a str, by: &'a str) -> Fact<'a> {
    Fact {
        kind: "looked",
        author: Some(by),
        text,
        detail: json!({ "found": finding.word(), "reference": reference(finding) }).to_string(),
    }
}

fn looker_word(looker: &Looker) -> &str {
    match looker {
        Looker::Schedule => "schedule",
        Looker::Caller(name) => name,
    }
}

fn text(finding: &Finding) -> String {
    match finding {
        Finding::Matched { what, .. } => format!("found at the provider: {what}"),
        Finding::ProviderSaysFailed { what, .. } => format!("the provider's record says failed: {what}"),
        Finding::NoMatch { what } => format!("nothing found, which proves nothing: {what}"),
        Finding::Unreadable { what } => format!("the look could not be completed: {what}"),
    }
}

fn what(finding: &Finding) -> &str {
    match finding {
        Finding::Matched { what, .. }
        | Finding::ProviderSaysFailed { what, .. }
        | Finding::NoMatch { what }
        | Finding::Unreadable { what } => what.as_str(),
    }
}

fn reference(finding: &Finding) -> Option<&str> {
    match finding {
        Finding::Matched { reference, .. } | Finding::ProviderSaysFailed { reference, .. } => {
            reference.as_ref().map(Told::as_str)
        }
        Finding::NoMatch { .. } | Finding::Unreadable { .. } => None,
    }
}

fn record(finding: &Finding) -> Option<&[u8]> {
    match finding {
        Finding::Matched { record, .. } | Finding::ProviderSaysFailed { record, .. } => record.as_deref(),
        Finding::NoMatch { .. } | Finding::Unreadable { .. } => None,
    }
}
