//! Limits: declared in the configuration, counted here.

use oncegate_policy::action::ActionName;
use oncegate_policy::id::LimitId;
use oncegate_policy::limit::{Limit, Period, Usage};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use self::rows::{archived, by_id, by_name};
use crate::Store;
use crate::error::{Fault, StoreError};
use crate::events::Event;
use crate::holds::{self, Covered};
use crate::tally::{self, Window};
use crate::view::Exposure;
use crate::writer::{Step, Tx};

mod rows;
mod sync;

pub(crate) use rows::{LimitRow, Unreadable, all, by_key};

const SYNC: Step = Step::new("take over the declared limits")
    .failing_at("before_limits_commit", "after_limits_commit")
    .on_limits();
const CREATE: Step = Step::new("make a limit").on_limits();
const CHANGE: Step = Step::new("change a limit").on_limits();
const ARCHIVE: Step = Step::new("archive a limit").on_limits();

/// What became of a new limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreatedLimit {
    /// It counts from now on.
    Created(Exposure),
    /// The very same limit is there already: a client that lost its answer gets it again.
    Exists(Exposure),
    /// Another limit has this name.
    NameTaken(Exposure),
}

/// What became of a change to a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedLimit {
    /// It is so from now on.
    Changed(Box<Exposure>),
    /// Another limit has this name.
    NameTaken,
    /// There is no such limit, or it is archived.
    Missing,
}

impl Store {
    /// Makes the limits those that are declared. One that is declared no more is archived and its holds still settle, unless
    /// another one is declared for the very same scope: then that is the same limit under another name;
    /// lowering one frees nothing. A new or wider one holds at once what is in flight or unknown. Returns each difference in words.
    ///
    /// # Errors
    /// The record could not be written: the limits are as before.
    pub async fn sync_limits(&self, limits: Vec<Limit>, now: Timestamp) -> Result<Vec<String>, StoreError> {
        self.inner.writer.write(SYNC, usize::MAX, move |tx| sync::sync(tx, &limits, now)).await
    }

    /// Makes a limit, or the archived one of its name again. It holds at once what is in flight or unknown and counts against it, whether that fits or not.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn create_limit(&self, limit: Limit, now: Timestamp) -> Result<CreatedLimit, StoreError> {
        let verb = move |tx: &mut Tx<'_>| {
            if let Some(there) = by_name(tx.connection, &limit.name)? {
                let same = there.limit == limit;
                let exposure = exposure(tx.connection, there, now)?;
                return Ok(if same {
                    CreatedLimit::Exists(exposure)
                } else {
                    CreatedLimit::NameTaken(exposure)
                });
            }
            match archived(tx.connection, &limit)? {
                // Made again: what was consumed and held under it still counts.
                Some(row) => update(tx, &row, &limit, now)?,
                None => insert(tx, &limit, now)?,
            };
            let made = by_name(tx.connection, &limit.name)?.ok_or_else(|| gone(&limit.name))?;
            Ok(CreatedLimit::Created(exposure(tx.connection, made, now)?))
        };
        self.inner.writer.write(CREATE, usize::MAX, verb).await
    }

    /// Renames a limit or changes its amount. Lowering frees nothing.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn change_limit(
        &self,
        id: &LimitId,
        name: Option<String>,
        amount: Option<i64>,
        now: Timestamp,
    ) -> Result<ChangedLimit, StoreError> {
        let id = id.clone();
        let verb = move |tx: &mut Tx<'_>| {
            let Some(there) = by_id(tx.connection, &id)?.filter(|row| row.archived_at.is_none()) else {
                return Ok(ChangedLimit::Missing);
            };
            let mut changed = there.limit.clone();
            changed.name = name.clone().unwrap_or(changed.name);
            changed.amount = amount.unwrap_or(changed.amount);
            if by_name(tx.connection, &changed.name)?.is_some_and(|named| named.key != there.key) {
                return Ok(ChangedLimit::NameTaken);
            }
            if changed != there.limit {
                update(tx, &there, &changed, now)?;
            }
            let there = by_key(tx.connection, there.key)?;
            Ok(ChangedLimit::Changed(Box::new(exposure(tx.connection, there, now)?)))
        };
        self.inner.writer.write(CHANGE, usize::MAX, verb).await
    }

    /// Takes a limit out of use. Its holds still settle. `None` when there is no such limit.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn archive_limit(&self, id: &LimitId, now: Timestamp) -> Result<Option<Exposure>, StoreError> {
        let id = id.clone();
        let verb = move |tx: &mut Tx<'_>| {
            let Some(there) = by_id(tx.connection, &id)? else { return Ok(None) };
            if there.archived_at.is_none() {
                archive(tx, &there, now)?;
            }
            let there = by_key(tx.connection, there.key)?;
            Ok(Some(exposure(tx.connection, there, now)?))
        };
        self.inner.writer.write(ARCHIVE, usize::MAX, verb).await
    }
}

fn insert(tx: &mut Tx<'_>, limit: &Limit, now: Timestamp) -> Result<Covered, Fault> {
    let id = LimitId::from_ulid(&tx.fresh_ulid(now)?);
    tx.connection
        .prepare_cached(
            "INSERT INTO impact_limit (id, name, dimension, unit, period, amount, action, resource_prefix, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            id.as_str(),
            limit.name,
            limit.dimension.word(),
            limit.dimension.unit(),
            limit.period.word(),
            limit.amount,
            limit.action.as_ref().map(ActionName::as_str),
            limit.resource_prefix,
            now.0
        ])?;
    let row = by_key(tx.connection, tx.connection.last_insert_rowid())?;
    let covered = holds::cover(tx, &row)?;
    event(tx, "limit_made", &id, limit_json(limit, covered), now)?;
    Ok(covered)
}

fn update(tx: &mut Tx<'_>, row: &LimitRow, limit: &Limit, now: Timestamp) -> Result<Covered, Fault> {
    tx.connection
        .prepare_cached(
            "UPDATE impact_limit SET name = ?2, period = ?3, amount = ?4, action = ?5, resource_prefix = ?6,
                 archived_at = NULL WHERE key = ?1",
        )?
        .execute(params![
            row.key,
            limit.name,
            limit.period.word(),
            limit.amount,
            limit.action.as_ref().map(ActionName::as_str),
            limit.resource_prefix
        ])?;
    if limit.period != row.limit.period && limit.period != Period::Day {
        recount(tx.connection, row.key, limit.period)?;
    }
    let covered = holds::cover(tx, &by_key(tx.connection, row.key)?)?;
    event(tx, "limit_changed", &row.id, limit_json(limit, covered), now)?;
    Ok(covered)
}

/// Another period: its counters are built from the days, which are always kept.
fn recount(connection: &Connection, limit: i64, period: Period) -> Result<(), Fault> {
    connection.execute(
        "DELETE FROM consumption WHERE limit_key = ?1 AND period = ?2",
        params![limit, period.word()],
    )?;
    let mut statement = connection
        .prepare("SELECT period_start, amount FROM consumption WHERE limit_key = ?1 AND period = 'day'")?;
    let days: Vec<(i64, i64)> =
        statement.query_map([limit], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    for (day, amount) in days {
        let start = period.start(Timestamp(day));
        tally::add_consumption(connection, Window { limit, period, start }, amount)?;
    }
    Ok(())
}

fn archive(tx: &mut Tx<'_>, row: &LimitRow, now: Timestamp) -> Result<(), Fault> {
    mark_archived(tx, row, now)?;
    announce_archived(tx, row, now)
}

fn mark_archived(tx: &Tx<'_>, row: &LimitRow, now: Timestamp) -> Result<(), Fault> {
    tx.connection
        .prepare_cached("UPDATE impact_limit SET archived_at = ?2 WHERE key = ?1")?
        .execute(params![row.key, now.0])?;
    Ok(())
}

fn announce_archived(tx: &mut Tx<'_>, row: &LimitRow, now: Timestamp) -> Result<(), Fault> {
    event(tx, "limit_archived", &row.id, json!({ "name": row.limit.name, "reserved": row.reserved }), now)
}

fn event(
    tx: &mut Tx<'_>,
    kind: &'static str,
    id: &LimitId,
    mut detail: Value,
    now: Timestamp,
) -> Result<(), Fault> {
    if let Some(members) = detail.as_object_mut() {
        members.insert("limit".to_owned(), id.as_str().into());
    }
    let detail = detail.to_string();
    tx.append(&Event { at: now, kind, effect: None, stage: None, author: None, text: None, detail })
}

fn limit_json(limit: &Limit, covered: Covered) -> Value {
    json!({
        "name": limit.name,
        "dimension": limit.dimension.word(),
        "unit": limit.dimension.unit(),
        "period": limit.period.word(),
        "amount": limit.amount,
        "action": limit.action.as_ref().map(ActionName::as_str),
        "resource_prefix": limit.resource_prefix,
        "held_effects": covered.effects,
        "held_amount": covered.amount,
    })
}

/// Every limit, archived ones last. Of these, one that cannot be read is left out.
pub(crate) fn exposures(connection: &Connection, now: Timestamp) -> Result<Vec<Exposure>, Fault> {
    let mut shown = Vec::new();
    for (_, row) in rows::shown(connection)? {
        match row {
            Ok(row) => shown.push(exposure(connection, row, now)?),
            Err(unreadable) if unreadable.archived => {}
            Err(unreadable) => return Err(unreadable.fault()),
        }
    }
    Ok(shown)
}

fn exposure(connection: &Connection, row: LimitRow, now: Timestamp) -> Result<Exposure, Fault> {
    let consumed = consumed(connection, &row, now)?;
    let usage = Usage { consumed, reserved: row.reserved, unknown_exposure: row.unknown_exposure };
    let period_start = row.limit.period.start(now);
    Ok(Exposure { id: row.id, limit: row.limit, period_start, usage, archived_at: row.archived_at })
}

/// In its current period.
fn consumed(connection: &Connection, row: &LimitRow, now: Timestamp) -> Result<i64, Fault> {
    let period = row.limit.period;
    tally::consumption(connection, Window { limit: row.key, period, start: period.start(now) })
}

pub(crate) fn gone(name: &str) -> Fault {
    Fault::Unreadable { what: "limit", found: name.to_owned() }
}
