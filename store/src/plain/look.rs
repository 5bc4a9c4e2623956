//! Rows of invocations without an effect, to values and to the facts of a decision.

use std::sync::LazyLock;

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::id::{EffectId, InvocationId};
use oncegate_policy::plain::{KnownPlain, PlainFacts, PlainStatus};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::attempt::{Dispatched, dispatch};
use crate::error::Fault;
use crate::kept::Statements;
use crate::plain::{NewPlain, PlainResolution, PlainView};
use crate::resolve::ResolvedAs;
use crate::row::{self, Columns};
use crate::view::{ResponseSource, StoredResponse};

/// Everything but the answer's reason, headers and body.
const COLUMNS: &str =
    "SELECT id, caller, action, listener, fingerprint, caller_key, target, status, created_at,
    ended_at, retry_of, retried_by, resolved_as, resolved_by, evidence, external_reference, resolved_at,
    seen, step, cause, seen_status";
const WITH_ANSWER: &str = "response_reason, response_headers, response_body FROM plain_invocation";
static BY_ID: LazyLock<String> = LazyLock::new(|| format!("{COLUMNS}, {WITH_ANSWER} WHERE id = ?1"));
static BY_KEY: LazyLock<String> = LazyLock::new(|| format!("{COLUMNS}, {WITH_ANSWER} WHERE key = ?1"));
/// The keys are a JSON list.
static LISTED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{COLUMNS}, NULL, NULL, NULL FROM plain_invocation WHERE key IN (SELECT value FROM json_each(?1)) ORDER BY key DESC"
    )
});

pub(crate) fn by_id(connection: &Connection, id: &InvocationId) -> Result<Option<PlainView>, Fault> {
    one(connection, &BY_ID, [id.as_str()])
}

pub(crate) fn by_key(connection: &Connection, key: i64) -> Result<Option<PlainView>, Fault> {
    one(connection, &BY_KEY, [key])
}

/// What other tables know it by.
pub(crate) fn key_of(connection: &Connection, id: &InvocationId) -> Result<Option<i64>, Fault> {
    let mut statement = connection.prepare_cached("SELECT key FROM plain_invocation WHERE id = ?1")?;
    Ok(statement.query_row([id.as_str()], |row| row.get(0)).optional()?)
}

/// Those with these keys, the highest first, without their answers.
pub(crate) fn listed(connection: &Connection, keys: &str) -> Result<Vec<PlainView>, Fault> {
    let mut statement = connection.prepare_cached(&LISTED)?;
    let mut rows = statement.query([keys])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(view(row)?);
    }
    Ok(found)
}

fn one(connection: &Connection, statement: &str, params: impl Params) -> Result<Option<PlainView>, Fault> {
    let mut statement = connection.prepare_cached(statement)?;
    statement.query_row(params, |row| Ok(view(row))).optional()?.transpose()
}

fn view(row: &Row<'_>) -> Result<PlainView, Fault> {
    let columns = &mut Columns::of(row);
    let id = columns.word("invocation id", InvocationId::parse)?;
    let caller = columns.word("caller", CallerName::parse)?;
    let action = columns.word("action", ActionName::parse)?;
    let listener = columns.next()?;
    let fingerprint = columns.fingerprint()?;
    let (caller_key, target) = (columns.next()?, columns.next()?);
    let status = columns.word("status", PlainStatus::parse)?;
    let (created_at, ended_at) = (Timestamp(columns.next()?), columns.time()?);
    let retry_of = columns.maybe("invocation id", InvocationId::parse)?;
    let retried_by = columns.maybe("invocation id", InvocationId::parse)?;
    let resolution = resolution(columns)?;
    let Dispatched { last_loss, never_sent, answered } = dispatch(columns)?;
    let response = response(columns, answered)?;
    Ok(PlainView {
        id,
        caller,
        action,
        listener,
        fingerprint,
        caller_key,
        target,
        status,
        created_at,
        ended_at,
        response,
        response_status: answered,
        last_loss,
        never_sent,
        resolution,
        retry_of,
        retried_by,
    })
}

fn resolution(columns: &mut Columns<'_>) -> Result<Option<PlainResolution>, Fault> {
    let outcome = columns.maybe("outcome", ResolvedAs::parse)?;
    let by = columns.maybe("caller", CallerName::parse)?;
    let evidence: Option<String> = columns.next()?;
    let external_reference = columns.next()?;
    let at = columns.time()?;
    let whole = outcome.zip(by).zip(evidence).zip(at);
    Ok(whole.map(|(((outcome, by), evidence), at)| PlainResolution {
        outcome,
        by,
        evidence,
        external_reference,
        at,
    }))
}

fn response(columns: &mut Columns<'_>, status: Option<u16>) -> Result<Option<StoredResponse>, Fault> {
    let reason = columns.next()?;
    let headers: Option<String> = columns.next()?;
    let body: Option<Vec<u8>> = columns.next()?;
    let Some(((status, headers), body)) = status.zip(headers).zip(body) else { return Ok(None) };
    let headers = row::headers_from(&headers)?;
    Ok(Some(StoredResponse { source: ResponseSource::Dispatch, status, reason, headers, body }))
}

/// SQL for the key of what a caller's key names: in its own row, or among the further ones.
macro_rules! under_key {
    (plain) => {
        "coalesce((SELECT key FROM plain_invocation WHERE caller = ?1 AND action = ?2 AND caller_key = ?3),
            (SELECT plain FROM further_key WHERE caller = ?1 AND action = ?2 AND key = ?3))"
    };
    (effect) => {
        "coalesce((SELECT key FROM effect WHERE caller = ?1 AND action = ?2 AND caller_key = ?3),
            (SELECT effect FROM further_key WHERE caller = ?1 AND action = ?2 AND key = ?3))"
    };
}
const UNDER_KEY: &str = concat!(
    "SELECT id, fingerprint, status, retried_by IS NOT NULL FROM plain_invocation WHERE key = ",
    under_key!(plain)
);

/// What the record holds that could be in the way of `new`.
pub(crate) fn facts(connection: &Connection, new: &NewPlain) -> Result<PlainFacts, Fault> {
    let (caller, action) = (new.caller.as_str(), new.action.as_str());
    let mut facts = PlainFacts {
        halted: crate::facts::halted(connection)?,
        open_effect: open_like(connection, new)?,
        ..PlainFacts::default()
    };
    if let Some(key) = &new.caller_key {
        facts.by_caller_key = known(connection, UNDER_KEY, [caller, action, key])?;
        facts.governed_under_key = governed_under(connection, [caller, action, key])?;
    }
    if let Some(key) = &new.second_key {
        facts.by_second_key = known(connection, UNDER_KEY, [caller, action, key])?;
        facts.governed_under_second_key = governed_under(connection, [caller, action, key])?;
    }
    if let Some(named) = &new.retry_of {
        let statement = "SELECT id, fingerprint, status, retried_by IS NOT NULL FROM plain_invocation
            WHERE id = ?1 AND action = ?2 AND caller = ?3";
        facts.retry_target = known(connection, statement, [named.as_str(), action, caller])?;
    }
    Ok(facts)
}

fn known(connection: &Connection, statement: &str, params: impl Params) -> Result<Option<KnownPlain>, Fault> {
    let read = |columns: &mut Columns<'_>| {
        Ok(KnownPlain {
            invocation: columns.word("invocation id", InvocationId::parse)?,
            fingerprint: columns.fingerprint()?,
            status: columns.word("status", PlainStatus::parse)?,
            retried: columns.next()?,
        })
    };
    let mut statement = connection.prepare_cached(statement)?;
    statement.query_row(params, |row| Ok(read(&mut Columns::of(row)))).optional()?.transpose()
}

/// The effect under a caller's key, from when the action was governed.
fn governed_under(connection: &Connection, named: [&str; 3]) -> Result<Option<EffectId>, Fault> {
    let mut statement =
        connection.prepare_cached(concat!("SELECT id FROM effect WHERE key = ", under_key!(effect)))?;
    let read = |row: &Row<'_>| Ok(Columns::of(row).word("effect id", EffectId::parse));
    statement.query_row(named, read).optional()?.transpose()
}

/// The effect of the very same request that is not settled, whoever asked for it. The index `effect_open` has few rows.
fn open_like(connection: &Connection, new: &NewPlain) -> Result<Option<EffectId>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM effect INDEXED BY effect_open
         WHERE fingerprint = ?1 AND action = ?2 AND stage NOT IN ('settled', 'rejected') LIMIT 1",
    )?;
    let named = params![row::from_hex(&new.fingerprint), new.action.as_str()];
    let read = |row: &Row<'_>| Ok(Columns::of(row).word("effect id", EffectId::parse));
    statement.query_row(named, read).optional()?.transpose()
}

/// The invocation under a caller's key, from when the action was not governed.
pub(crate) fn under_key(
    statements: &dyn Statements,
    named: [&str; 3],
) -> Result<Option<InvocationId>, Fault> {
    let under = concat!("SELECT id FROM plain_invocation WHERE key = ", under_key!(plain));
    let read = |row: &Row<'_>| Ok(Columns::of(row).word("invocation id", InvocationId::parse));
    statements.first(under, named, read)?.transpose()
}
