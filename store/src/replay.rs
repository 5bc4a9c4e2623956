//! Sending the very same bytes again, under the key that the provider deduplicates on. Recorded before it is
//! sent, one at a time, only while the effect is unknown and the provider still remembers the key.

use std::sync::Arc;
use std::time::Duration;

use oncegate_policy::caller::CallerName;
use oncegate_policy::classify::Verdict;
use oncegate_policy::effect::Stage;
use oncegate_policy::id::{AttemptId, EffectId};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use crate::claim::{Claimed, ReplayClaim, ReplayPermit, Unrecorded};
use crate::error::{Fault, StoreError};
use crate::ready::{PreparedRequest, prepared};
use crate::record::{Seen, SeenExchange, too_late};
use crate::row::{self, Effect};
use crate::settle::Fact;
use crate::view::{EffectView, ResponseSource};
use crate::writer::{Step, Tx};
use crate::{Store, attempt, facts};

const REPLAY: Step =
    Step::new("begin a replay").failing_at("before_replay_commit", "after_replay_commit").permitting();
const RECORD: Step = Step::new("record a replay").failing_at("before_record_commit", "after_record_commit");

/// Statuses that a provider gives before it has looked at the key: they say nothing of the first try. A failure
/// drawn from them would free money that may be gone.
const SAYS_NOTHING: [u16; 5] = [401, 403, 407, 425, 429];

/// A replay's first byte leaves this long before the provider may have forgotten the key: two clocks never quite agree, and
/// it takes its time to arrive. For a short window it is a tenth of it.
const CLOSES_BEFORE_MAX: Duration = Duration::from_secs(60);

/// When a key that was used at `claimed_at`, and is remembered `until` then, is not relied on any more.
#[must_use]
pub fn closes_at(claimed_at: Timestamp, until: Timestamp) -> Timestamp {
    until.minus(CLOSES_BEFORE_MAX.min(until.since(claimed_at) / 10))
}

/// Why there is no replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayRefusal {
    /// The provider does not deduplicate for this action.
    Unsupported,
    /// The provider has answered the first try with something else than success, and keeps no key of that: what was
    /// applied all the same would be applied again.
    KeyNotKept,
    /// The provider may have forgotten the key.
    WindowClosed,
    /// Only an unknown effect is replayed.
    NotUnknown,
    /// The key that asked for an effect never replays it (P8).
    OwnEffect,
    /// The operator has stopped all writes, for this reason.
    Halted(String),
    /// The dispatch is still being listened to, or another replay is on its way.
    InFlight,
}

impl ReplayRefusal {
    /// The word for `details.reason`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unsupported | Self::KeyNotKept => "replay_unsupported",
            Self::WindowClosed => "window_closed",
            Self::NotUnknown => "not_unknown",
            Self::OwnEffect => "own_effect",
            Self::Halted(_) => "halted",
            Self::InFlight => "in_flight",
        }
    }
}

/// What became of the wish to replay.
#[derive(Debug)]
pub enum Replaying {
    /// Recorded, durable: the same bytes may be sent once more.
    Granted {
        /// The right to send.
        permit: ReplayPermit,
        /// What to send, byte for byte.
        prepared: PreparedRequest,
    },
    /// No, and nothing was sent.
    Refused(ReplayRefusal, EffectView),
    /// There is no such effect.
    Missing,
}

enum Inside {
    Granted { claimed: Claimed, prepared: PreparedRequest },
    Other(Replaying),
}

impl Store {
    /// Records a replay and hands out the right to it, unless `judge` says no. It is asked inside the transaction, about
    /// the effect as it is claimed and what would be sent, because what is declared of the provider is not in the record.
    ///
    /// # Errors
    /// The record could not be written: nothing may be sent.
    pub async fn begin_replay(
        &self,
        id: &EffectId,
        by: &CallerName,
        judge: impl Fn(&PreparedRequest) -> Result<(), ReplayRefusal> + Send + 'static,
        now: Timestamp,
    ) -> Result<Replaying, StoreError> {
        let (id, by) = (id.clone(), by.clone());
        let verb = move |tx: &mut Tx<'_>| match row::by_id(tx.connection, &id)? {
            None => Ok(Inside::Other(Replaying::Missing)),
            Some(effect) => begin(tx, effect, &by, &judge, now),
        };
        Ok(match self.inner.writer.write(REPLAY, usize::MAX, verb).await? {
            Inside::Granted { claimed, prepared } => {
                Replaying::Granted { permit: ReplayPermit::of_committed(claimed), prepared }
            }
            Inside::Other(other) => other,
        })
    }

    /// The end of a replay. Its answer is the provider's word on the effect, where it is one: a replay that was never
    /// sent, or was turned away at the door, says nothing of the first try.
    ///
    /// # Errors
    /// The record could not be written: as for [`Store::record`]. The sweep only closes the attempt then.
    pub async fn record_replay(
        &self,
        claim: ReplayClaim,
        seen: impl Into<Arc<Seen>>,
        now: Timestamp,
    ) -> Result<EffectView, Box<Unrecorded<ReplayClaim>>> {
        let (attempt, id, seen) = (claim.claimed.attempt, claim.effect().clone(), seen.into());
        let verb = move |tx: &mut Tx<'_>| {
            let mut effect = attempt::effect_of(tx.connection, attempt, &id)?;
            record(tx, &mut effect, attempt, &seen, now)?;
            Ok(effect.view)
        };
        match self.inner.writer.write(RECORD, usize::MAX, verb).await {
            Ok(view) => {
                self.inner.living.forget(attempt);
                Ok(view)
            }
            Err(error) => Err(Unrecorded::of(claim, error)),
        }
    }
}

fn begin(
    tx: &mut Tx<'_>,
    effect: Effect,
    by: &CallerName,
    judge: &dyn Fn(&PreparedRequest) -> Result<(), ReplayRefusal>,
    now: Timestamp,
) -> Result<Inside, Fault> {
    if let Some(refusal) = refusal(tx, &effect, by, now)? {
        return Ok(Inside::Other(Replaying::Refused(refusal, effect.view)));
    }
    let (key, id) = (effect.key, effect.view.id.clone());
    let prepared = prepared(tx.connection, effect)?.ok_or_else(|| Fault::Gone { effect: id.clone() })?;
    if let Err(refusal) = judge(&prepared) {
        return Ok(Inside::Other(Replaying::Refused(refusal, prepared.view)));
    }
    // Crash window: the replay is recorded before its first byte. A crash in between leaves an open replay of an
    // unknown effect; the sweep closes it and the effect stays as unknown as it was.
    let Some(attempt) = tx.next_attempt(key, true)? else {
        return Err(Fault::NoMoreAttempts { effect: id });
    };
    let attempt_id = AttemptId::from_ulid(&tx.fresh_ulid(now)?);
    tx.connection
        .prepare_cached(
            "INSERT INTO attempt (key, id, effect, kind, author, run, started_at)
             VALUES (?1, ?2, ?3, 'replay', ?4, ?5, ?6)",
        )?
        .execute(params![attempt, attempt_id.as_str(), key, by.as_str(), tx.setting.run, now.0])?;
    let PreparedRequest { view, request, memory } = prepared;
    let effect = Effect { key, view, room: None };
    let text = format!("replay under provider key {} begun by {by}", effect.view.provider_key);
    let fact = Fact { kind: "replay", author: Some(by.as_str()), text: &text, detail: json!({}).to_string() };
    tx.note_fact(&effect, fact, now)?;
    let prepared = PreparedRequest { view: effect.view, request, memory };
    Ok(Inside::Granted { claimed: tx.setting.living.claim(id, attempt), prepared })
}

fn refusal(
    tx: &Tx<'_>,
    effect: &Effect,
    by: &CallerName,
    now: Timestamp,
) -> Result<Option<ReplayRefusal>, Fault> {
    let view = &effect.view;
    if view.caller == *by {
        return Ok(Some(ReplayRefusal::OwnEffect));
    }
    let Some(until) = view.replay_until else { return Ok(Some(ReplayRefusal::Unsupported)) };
    if !matches!(view.stage, Stage::Reconciling { .. }) {
        return Ok(Some(ReplayRefusal::NotUnknown));
    }
    if closes_at(view.claimed_at.unwrap_or(view.created_at), until) <= now {
        return Ok(Some(ReplayRefusal::WindowClosed));
    }
    if let Some(reason) = facts::halted(tx.connection)? {
        return Ok(Some(ReplayRefusal::Halted(reason)));
    }
    Ok(is_open(tx.connection, effect.key)?.then_some(ReplayRefusal::InFlight))
}

fn is_open(connection: &Connection, effect: i64) -> Result<bool, Fault> {
    let mut statement =
        connection.prepare_cached(
            "SELECT 1 FROM attempt WHERE key BETWEEN ?1 << 20 AND (?1 << 20) + 1048575 AND ended_at IS NULL LIMIT 1",
        )?;
    Ok(statement.query_row([effect], |_| Ok(())).optional()?.is_some())
}

fn record(
    tx: &mut Tx<'_>,
    effect: &mut Effect,
    attempt: i64,
    seen: &Seen,
    now: Timestamp,
) -> Result<(), Fault> {
    tx.end_attempt(effect, attempt, seen, now)?;
    if !matches!(effect.view.stage, Stage::Reconciling { .. }) {
        return too_late(tx, effect, seen, now);
    }
    let settles = match (&seen.exchange, seen.verdict) {
        (_, Verdict::Unknown) | (SeenExchange::NotSent(_) | SeenExchange::Lost(_), Verdict::Failed) => None,
        (SeenExchange::Answered { answer, .. }, Verdict::Failed) if SAYS_NOTHING.contains(&answer.status) => {
            None
        }
        (_, Verdict::Succeeded) | (SeenExchange::Answered { .. }, Verdict::Failed) => seen.end(),
    };
    let remark = if settles.is_some() { "" } else { "; this says nothing of the first try" };
    let text = format!("replay: {}{remark}", seen.text());
    let fact =
        Fact { kind: "replayed", author: Some(seen.author()), text: &text, detail: seen.detail_text() };
    let Some(end) = settles else {
        return tx.note_fact(effect, fact, now);
    };
    if let SeenExchange::Answered { answer, .. } = &seen.exchange {
        let mut answer = answer.clone();
        answer.source = ResponseSource::Replay;
        tx.keep_response(effect, answer, now)?;
    }
    tx.settle(effect, &end, fact, now)
}
