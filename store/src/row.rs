//! Rows to values. The only place that knows which column an effect's word stands in; everything read is
//! checked again, since the file may have been touched by another hand.

use std::sync::LazyLock;

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::effect::{Outcome, Rejection, SettledResult, Settlement, Stage, Verification};
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::id::{ApprovalId, EffectId, InvocationId, OwnerId, PreviewId};
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::refusal::Code;
use oncegate_policy::time::Timestamp;
use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::attempt::{Dispatched, dispatch};
use crate::error::Fault;
use crate::events::text_of;
use crate::facts::effect_of_invocation;
use crate::holds::Room;
use crate::view::{EffectView, ResponseSource, SecretNames, StoredResponse};

/// An effect with the key that other tables know it by.
pub(crate) struct Effect {
    pub(crate) key: i64,
    pub(crate) view: EffectView,
    /// What it holds on limits, where that is known without reading it.
    pub(crate) room: Option<Room>,
}

/// Everything of an effect but its answer.
const COLUMNS: &str =
    "SELECT e.key, e.id, e.invocation, e.caller, e.action, e.listener, e.subject, e.resource,
    e.dimension, e.unit, e.amount, e.bound, e.provider_key, e.caller_key,
    (SELECT k.key FROM further_key k WHERE k.effect = e.key AND k.original = 1), e.declared_key, e.fingerprint,
    e.request_digest, e.target, e.created_at, e.claimed_at, e.unknown_since, e.looks, e.can_read_back,
    e.replay_until, e.retry_of, e.retried_by, e.compensates, e.approval, e.preview, e.drill, e.credential,
    e.stage, e.expires_at, (SELECT id FROM run WHERE run.key = e.run), e.next_look_at,
    e.result, e.verification, e.settled_at, e.rejection, e.rejection_code,
    d.seen, d.step, d.cause, d.status";
const FROM: &str = "FROM effect e LEFT JOIN attempt d ON d.key = e.key << 20";
/// Not joined: rows that a page skips are not looked up. The body comes last in its row and is not read for it.
const KEPT_STATUS: &str = "(SELECT status FROM response WHERE response.effect = e.key)";
static WITH_ANSWER: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{COLUMNS}, r.source, r.status, r.reason, r.headers, r.body {FROM} LEFT JOIN response r ON r.effect = e.key"
    )
});
static WITHOUT_ANSWER: LazyLock<String> =
    LazyLock::new(|| format!("{COLUMNS}, NULL, {KEPT_STATUS}, NULL, NULL, NULL {FROM}"));
static BY_ID: LazyLock<String> = LazyLock::new(|| format!("{} WHERE e.id = ?1", *WITH_ANSWER));
static BY_INVOCATION: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE e.key = {}", *WITH_ANSWER, effect_of_invocation!("?1")));
static BY_ATTEMPT: LazyLock<String> = LazyLock::new(|| format!("{} WHERE e.key = ?1 >> 20", *WITH_ANSWER));

/// The effect with this id.
pub(crate) fn by_id(connection: &Connection, id: &EffectId) -> Result<Option<Effect>, Fault> {
    one(connection, &BY_ID, [id.as_str()])
}

/// The effect of this invocation.
pub(crate) fn by_invocation(connection: &Connection, id: &InvocationId) -> Result<Option<Effect>, Fault> {
    one(connection, &BY_INVOCATION, [id.as_str()])
}

/// The effect that this attempt is about.
pub(crate) fn by_attempt(connection: &Connection, attempt: i64) -> Result<Option<Effect>, Fault> {
    one(connection, &BY_ATTEMPT, [attempt])
}

/// Effects without their answers, `e` being the effect in `rest`.
pub(crate) fn many(connection: &Connection, rest: &str, params: impl Params) -> Result<Vec<Effect>, Fault> {
    all(connection, &format!("{} {rest}", *WITHOUT_ANSWER), params)
}

/// The same with their answers, for few effects.
pub(crate) fn few(connection: &Connection, rest: &str, params: impl Params) -> Result<Vec<Effect>, Fault> {
    all(connection, &format!("{} {rest}", *WITH_ANSWER), params)
}

fn all(connection: &Connection, statement: &str, params: impl Params) -> Result<Vec<Effect>, Fault> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(effect(row)?);
    }
    Ok(found)
}

fn one(connection: &Connection, statement: &str, params: impl Params) -> Result<Option<Effect>, Fault> {
    let mut statement = connection.prepare_cached(statement)?;
    statement.query_row(params, |row| Ok(effect(row))).optional()?.transpose()
}

/// Reads columns from left to right, so that their order is written down once.
pub(crate) struct Columns<'r> {
    row: &'r Row<'r>,
    at: usize,
}

impl<'r> Columns<'r> {
    pub(crate) fn of(row: &'r Row<'r>) -> Self {
        Self { row, at: 0 }
    }

    pub(crate) fn next<T: FromSql>(&mut self) -> Result<T, Fault> {
        let at = self.at;
        self.at = self.at.saturating_add(1);
        Ok(self.row.get(at)?)
    }

    /// A word that must be one of ours.
    pub(crate) fn word<T>(
        &mut self,
        what: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Fault> {
        let found: String = self.next()?;
        read(&found).ok_or(Fault::Unreadable { what, found })
    }

    /// A word that may be missing.
    pub(crate) fn maybe<T>(
        &mut self,
        what: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let found: Option<String> = self.next()?;
        found.map(|found| read(&found).ok_or(Fault::Unreadable { what, found })).transpose()
    }

    pub(crate) fn time(&mut self) -> Result<Option<Timestamp>, Fault> {
        Ok(self.next::<Option<i64>>()?.map(Timestamp))
    }

    fn hex(&mut self) -> Result<String, Fault> {
        Ok(to_hex(&self.next::<[u8; 32]>()?))
    }

    pub(crate) fn fingerprint(&mut self) -> Result<Fingerprint, Fault> {
        fingerprint(&self.hex()?)
    }
}

fn effect(row: &Row<'_>) -> Result<Effect, Fault> {
    let columns = &mut Columns::of(row);
    let key = columns.next()?;
    let id = columns.word("effect id", EffectId::parse)?;
    let invocation = columns.word("invocation id", InvocationId::parse)?;
    let caller = columns.word("caller", CallerName::parse)?;
    let action = columns.word("action", ActionName::parse)?;
    let listener = columns.next()?;
    let subject = columns.next()?;
    let resource = columns.next()?;
    let impact = impact(columns)?;
    let provider_key = columns.next()?;
    let caller_key = columns.next()?;
    let second_key = columns.next()?;
    let declared_key = columns.next()?;
    let fingerprint = columns.fingerprint()?;
    let request_digest = columns.hex()?;
    let target = columns.next()?;
    let created_at = Timestamp(columns.next()?);
    let claimed_at = columns.time()?;
    let unknown_since = columns.time()?;
    let looks = columns.next()?;
    let can_read_back = columns.next()?;
    let replay_until = columns.time()?;
    let retry_of = columns.maybe("invocation id", InvocationId::parse)?;
    let retried_by = columns.maybe("invocation id", InvocationId::parse)?;
    let compensates = columns.maybe("effect id", EffectId::parse)?;
    let approval = columns.maybe("approval id", ApprovalId::parse)?;
    let preview = columns.maybe("preview id", PreviewId::parse)?;
    let drill = columns.next()?;
    let credential = columns.maybe("names of secrets", |text| serde_json::from_str(text).ok())?;
    let stage =
        stage(columns, &StageFacts { approval: approval.as_ref(), claimed_at, unknown_since, looks })?;
    let Dispatched { last_loss, never_sent, answered } = dispatch(columns)?;
    let (kept_status, response) = response(columns)?;
    let view = EffectView {
        id,
        invocation,
        caller,
        action,
        listener,
        stage,
        subject,
        resource,
        impact,
        provider_key,
        caller_key,
        second_key,
        declared_key,
        fingerprint,
        request_digest,
        target,
        response,
        response_status: kept_status.or(answered),
        last_loss,
        never_sent,
        created_at,
        claimed_at,
        unknown_since,
        looks,
        can_read_back,
        replay_until,
        retry_of,
        retried_by,
        compensates,
        approval,
        preview,
        drill,
        credential,
    };
    Ok(Effect { key, view, room: None })
}

/// What the stage shares with columns that outlive it.
struct StageFacts<'a> {
    approval: Option<&'a ApprovalId>,
    claimed_at: Option<Timestamp>,
    unknown_since: Option<Timestamp>,
    looks: u32,
}

fn stage(columns: &mut Columns<'_>, facts: &StageFacts<'_>) -> Result<Stage, Fault> {
    let word: String = columns.next()?;
    let expires_at = columns.time()?;
    let owner = columns.maybe("owner", OwnerId::parse)?;
    let next_look_at = columns.time()?;
    let result = columns.maybe("result", result)?;
    let verification = columns.maybe("verification", Verification::parse)?;
    let settled_at = columns.time()?;
    let rejection: Option<String> = columns.next()?;
    let code = columns.maybe("code", code)?;
    let stage = match word.as_str() {
        "awaiting_approval" => facts
            .approval
            .zip(expires_at)
            .map(|(approval, expires_at)| Stage::AwaitingApproval { approval: approval.clone(), expires_at }),
        "ready" => Some(Stage::Ready),
        "dispatching" => {
            facts.claimed_at.zip(owner).map(|(claimed_at, owner)| Stage::Dispatching { claimed_at, owner })
        }
        "reconciling" => {
            facts.unknown_since.map(|since| Stage::Reconciling { since, next_look_at, looks: facts.looks })
        }
        "settled" => result
            .zip(verification)
            .zip(settled_at)
            .map(|((result, verification), at)| Stage::Settled(Settlement { result, verification, at })),
        "rejected" => match (rejection.as_deref(), code) {
            (Some("refused"), Some(code)) => Some(Stage::Rejected(Rejection::Refused(code))),
            (Some("denied"), None) => Some(Stage::Rejected(Rejection::Denied)),
            (Some("expired"), None) => Some(Stage::Rejected(Rejection::Expired)),
            _ => None,
        },
        _ => None,
    };
    stage.ok_or(Fault::Unreadable { what: "stage", found: word })
}

fn impact(columns: &mut Columns<'_>) -> Result<Option<Impact>, Fault> {
    let dimension: Option<String> = columns.next()?;
    let unit: Option<String> = columns.next()?;
    let amount = columns.next()?;
    let bound = columns.maybe("bound", bound)?;
    let whole = dimension.zip(unit).zip(bound);
    Ok(whole.map(|((dimension, unit), bound)| Impact {
        dimension: Dimension::from_words(&dimension, &unit),
        amount,
        bound,
    }))
}

/// The status of the answer that is kept, and the answer itself where it is read.
fn response(columns: &mut Columns<'_>) -> Result<(Option<u16>, Option<StoredResponse>), Fault> {
    let source = columns.maybe("response source", ResponseSource::parse)?;
    let status: Option<u16> = columns.next()?;
    let reason = columns.next()?;
    let headers: Option<String> = columns.next()?;
    let body: Option<Vec<u8>> = columns.next()?;
    let (Some(source), Some(code)) = (source, status) else { return Ok((status, None)) };
    let headers = headers.map(|text| headers_from(&text)).transpose()?.unwrap_or_default();
    let body = body.unwrap_or_default();
    Ok((status, Some(StoredResponse { source, status: code, reason, headers, body })))
}

pub(crate) fn fingerprint(hex: &str) -> Result<Fingerprint, Fault> {
    Fingerprint::from_hex(hex).ok_or_else(|| Fault::Unreadable { what: "fingerprint", found: hex.to_owned() })
}

pub(crate) fn result(word: &str) -> Option<SettledResult> {
    [SettledResult::Confirmed, SettledResult::Acknowledged, SettledResult::Failed]
        .into_iter()
        .find(|result| result_word(*result) == word)
}

pub(crate) fn result_word(result: SettledResult) -> &'static str {
    match result {
        SettledResult::Confirmed => "confirmed",
        SettledResult::Acknowledged => "acknowledged",
        SettledResult::Failed => "failed",
    }
}

pub(crate) fn outcome(word: &str) -> Option<Outcome> {
    [Outcome::NotDispatched, Outcome::Pending, Outcome::Succeeded, Outcome::Failed, Outcome::Unknown]
        .into_iter()
        .find(|outcome| outcome.word() == word)
}

/// Where an effect stands, as the chain records it.
pub(crate) fn mark(stage: &Stage) -> String {
    match stage {
        Stage::Settled(settlement) => {
            format!("settled {} {}", result_word(settlement.result), settlement.verification.word())
        }
        Stage::AwaitingApproval { .. }
        | Stage::Ready
        | Stage::Dispatching { .. }
        | Stage::Reconciling { .. }
        | Stage::Rejected(_) => stage.word().to_owned(),
    }
}

fn code(word: &str) -> Option<Code> {
    Code::ALL.into_iter().find(|code| code.word() == word)
}

fn bound(word: &str) -> Option<Bound> {
    [Bound::Exact, Bound::UpperBound].into_iter().find(|bound| bound.word() == word)
}

/// Headers as they are kept: a JSON list of pairs.
pub(crate) fn headers_to(headers: &[(String, String)]) -> String {
    text_of(&headers)
}

pub(crate) fn names_to(names: &SecretNames) -> String {
    text_of(names)
}

pub(crate) fn headers_from(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let unreadable = || Fault::Unreadable { what: "list of headers", found: text.to_owned() };
    let pairs: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|_| unreadable())?;
    let pair = |pair: &serde_json::Value| {
        let text = |at: usize| pair.get(at).and_then(serde_json::Value::as_str).map(str::to_owned);
        text(0).zip(text(1)).ok_or_else(unreadable)
    };
    pairs.iter().map(pair).collect()
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |at: u8| DIGITS.get(usize::from(at)).copied().unwrap_or('0');
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        hex.push(digit(byte >> 4));
        hex.push(digit(byte & 15));
    }
    hex
}

pub(crate) fn from_hex(fingerprint: &Fingerprint) -> [u8; 32] {
    let digits = fingerprint.as_str().as_bytes();
    let digit = |at: usize| {
        let letter = digits.get(at).copied().unwrap_or(b'0');
        (letter as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).unwrap_or(0)
    };
    std::array::from_fn(|at| (digit(2 * at) << 4) | digit(2 * at + 1))
}
