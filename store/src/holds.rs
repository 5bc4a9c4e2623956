//! Room taken on limits. Counters stand beside each limit and move in the transaction that moves the hold.

use oncegate_policy::id::EffectId;
use oncegate_policy::impact::Dimension;
use oncegate_policy::limit::{self, Limit, Period, Usage};
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Fault;
use crate::limits::{self, LimitRow};
use crate::view::EffectView;
use crate::writer::Tx;

/// How the holds of an effect end.
pub(crate) enum Ending {
    /// It was applied: all of it is consumed.
    Consumed,
    /// It was not: all of it is free again.
    Released,
    /// A person says how much it was, by dimension; what is not named follows the outcome.
    Actual {
        /// What was really taken.
        amounts: Vec<(Dimension, i64)>,
        /// Whether what is not named was taken whole.
        otherwise_consumed: bool,
    },
}

/// Whether there is room on every limit that applies. Called in the transaction that claims the dispatch, by the
/// only writer: no two admissions can see the same room.
pub(crate) fn room(tx: &Tx<'_>, wanted: &Wanted<'_>, now: Timestamp) -> Result<Reserved, Fault> {
    for row in applicable(tx, wanted)? {
        let usage = usage(tx.connection, &row, now)?;
        let amount = wanted.impact.and_then(|impact| impact.amount);
        if !limit::fits(&row.limit, &usage, amount) {
            return Ok(Reserved::NoRoom(no_room(&row.limit, &usage, amount)));
        }
    }
    Ok(Reserved::Room)
}

/// Takes the room that [`room`] has found.
pub(crate) fn take(tx: &Tx<'_>, effect: i64, wanted: &Wanted<'_>) -> Result<(), Fault> {
    let amount = wanted.impact.and_then(|impact| impact.amount).unwrap_or(0);
    for row in applicable(tx, wanted)? {
        tx.connection
            .prepare_cached(
                "INSERT INTO hold (effect, limit_key, amount, state) VALUES (?1, ?2, ?3, 'held')",
            )?
            .execute(params![effect, row.key, amount])?;
        tx.connection
            .prepare_cached("UPDATE impact_limit SET reserved = reserved + ?2 WHERE key = ?1")?
            .execute(params![row.key, amount])?;
    }
    Ok(())
}

fn applicable(tx: &Tx<'_>, wanted: &Wanted<'_>) -> Result<Vec<LimitRow>, Fault> {
    let Some(impact) = wanted.impact else { return Ok(vec![]) };
    let mut rows = limits::of_dimension(tx.connection, &impact.dimension)?;
    rows.retain(|row| row.limit.applies(wanted.action, wanted.resource, impact));
    Ok(rows)
}

/// What asks for room.
pub(crate) struct Wanted<'a> {
    pub(crate) action: &'a oncegate_policy::action::ActionName,
    pub(crate) resource: Option<&'a str>,
    pub(crate) impact: Option<&'a oncegate_policy::impact::Impact>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn of(view: &'a EffectView) -> Self {
        Self { action: &view.action, resource: view.resource.as_deref(), impact: view.impact.as_ref() }
    }
}

/// Whether there was room.
pub(crate) enum Reserved {
    /// On every limit, or none applies.
    Room,
    /// Not on this one.
    NoRoom(Refusal),
}

fn no_room(limit: &Limit, usage: &Usage, wanted: Option<i64>) -> Refusal {
    let (name, unit) = (&limit.name, limit.dimension.unit());
    match wanted {
        None => Refusal::new(
            Code::AmountUnbounded,
            format!(
                "Limit {name} applies and the amount ({unit}) cannot be established. Nothing was sent. State the amount."
            ),
        ),
        Some(wanted) => Refusal::new(
            Code::LimitExceeded,
            format!(
                "Limit {name} has {} {unit} available of {} and this needs {wanted}. Nothing was sent. Do not retry; ask a person.",
                usage.available(limit.amount).max(0),
                limit.amount
            ),
        ),
    }
}

/// What the counters of a limit say at `now`.
pub(crate) fn usage(connection: &Connection, row: &LimitRow, now: Timestamp) -> Result<Usage, Fault> {
    let start = row.limit.period.start(now);
    let consumed = connection
        .prepare_cached(
            "SELECT amount FROM consumption WHERE limit_key = ?1 AND period = ?2 AND period_start = ?3",
        )?
        .query_row(params![row.key, row.limit.period.word(), start.0], |found| found.get(0))
        .optional()?
        .unwrap_or(0);
    Ok(Usage { consumed, reserved: row.reserved, unknown_exposure: row.unknown_exposure })
}

/// The effect became unknown: what it holds is counted as exposure too.
pub(crate) fn expose(tx: &Tx<'_>, effect: i64) -> Result<(), Fault> {
    for (_, limit_key, amount) in open_holds(tx.connection, effect)? {
        tx.connection
            .prepare_cached(
                "UPDATE impact_limit SET unknown_exposure = unknown_exposure + ?2 WHERE key = ?1",
            )?
            .execute(params![limit_key, amount])?;
    }
    Ok(())
}

/// The effect is settled: each hold ends, once. A success is consumed in the period of its last write.
pub(crate) fn end(
    tx: &Tx<'_>,
    effect: i64,
    was_unknown: bool,
    ending: &Ending,
    now: Timestamp,
) -> Result<(), Fault> {
    let holds = open_holds(tx.connection, effect)?;
    if holds.is_empty() {
        return Ok(());
    }
    let written_at = last_write(tx.connection, effect)?.unwrap_or(now);
    for (hold, limit_key, amount) in holds {
        let row = limits::by_key(tx.connection, limit_key)?;
        let consumed = match ending {
            Ending::Consumed => amount,
            Ending::Released => 0,
            Ending::Actual { amounts, otherwise_consumed } => amounts
                .iter()
                .find(|(dimension, _)| *dimension == row.limit.dimension)
                .map_or(if *otherwise_consumed { amount } else { 0 }, |(_, actual)| *actual),
        };
        let state =
            if consumed == 0 && !matches!(ending, Ending::Consumed) { "released" } else { "consumed" };
        tx.connection
            .prepare_cached("UPDATE hold SET state = ?2, consumed = ?3, ended_at = ?4 WHERE key = ?1")?
            .execute(params![hold, state, consumed, now.0])?;
        let exposed = if was_unknown { amount } else { 0 };
        tx.connection
            .prepare_cached(
                "UPDATE impact_limit SET reserved = reserved - ?2, unknown_exposure = unknown_exposure - ?3 WHERE key = ?1",
            )?
            .execute(params![limit_key, amount, exposed])?;
        if consumed > 0 {
            consume(tx.connection, &row, consumed, written_at)?;
        }
    }
    Ok(())
}

fn consume(connection: &Connection, row: &LimitRow, amount: i64, at: Timestamp) -> Result<(), Fault> {
    let own = row.limit.period;
    add_consumption(connection, row.key, Period::Day, Period::Day.start(at), amount)?;
    if own != Period::Day {
        add_consumption(connection, row.key, own, own.start(at), amount)?;
    }
    Ok(())
}

/// Adds to the counter of one period.
pub(crate) fn add_consumption(
    connection: &Connection,
    limit: i64,
    period: Period,
    start: Timestamp,
    amount: i64,
) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO consumption VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET amount = consumption.amount + excluded.amount",
        )?
        .execute(params![limit, period.word(), start.0, amount])?;
    Ok(())
}

/// When the provider was last written to for this effect.
fn last_write(connection: &Connection, effect: i64) -> Result<Option<Timestamp>, Fault> {
    let at: Option<i64> = connection
        .prepare_cached("SELECT max(started_at) FROM attempt WHERE effect = ?1 AND kind <> 'reconcile'")?
        .query_row([effect], |row| row.get(0))?;
    Ok(at.map(Timestamp))
}

fn open_holds(connection: &Connection, effect: i64) -> Result<Vec<(i64, i64, i64)>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT key, limit_key, amount FROM hold WHERE effect = ?1 AND state = 'held'")?;
    let holds = statement.query_map([effect], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(holds.collect::<Result<_, _>>()?)
}

/// Whether an effect is named that the record does not have, for refusals.
pub(crate) fn unmet(on: &EffectId, needs: &str, stands: &str) -> Refusal {
    Refusal::naming(
        Code::DependencyUnmet,
        on.clone(),
        format!("This depends on effect {on} being {needs}, and it is {stands}. Nothing was sent."),
    )
}
