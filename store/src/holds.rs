//! Room taken on limits. Counters stand beside each limit and move in the transaction that moves the hold.

use oncegate_policy::action::ActionName;
use oncegate_policy::effect::Stage;
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::limit::{self, Limit, Period, Usage};
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, params};

use crate::error::Fault;
use crate::kept::Statements;
use crate::limits::LimitRow;
use crate::read::collect;
use crate::row::Effect;
use crate::tally::Window;
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
pub(crate) fn room(tx: &mut Tx<'_>, wanted: &Wanted<'_>, now: Timestamp) -> Result<Reserved, Fault> {
    let Some(impact) = wanted.impact else {
        return Ok(Reserved::Room(Room { limits: vec![], amount: 0, age: tx.tally.age() }));
    };
    let applies = |limit: &Limit| limit.applies(wanted.action, wanted.resource, impact);
    let limits = tx.tally.applying(tx.connection, &impact.dimension, applies)?;
    for key in &limits {
        let (limit, usage) = tx.tally.usage(tx.connection, *key, now)?;
        if !limit::fits(limit, &usage, impact.amount) {
            return Ok(Reserved::NoRoom(no_room(limit, &usage, impact.amount)));
        }
    }
    Ok(Reserved::Room(Room { limits, amount: impact.amount.unwrap_or(0), age: tx.tally.age() }))
}

/// Room that was found, on these limits, and is to be taken in the same transaction.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    limits: Vec<i64>,
    amount: i64,
    /// The tally's then. At another age the effect may hold room on other limits too.
    age: u64,
}

/// Takes the room that [`room`] has found.
pub(crate) fn take(tx: &mut Tx<'_>, effect: i64, room: &Room) -> Result<(), Fault> {
    for limit in &room.limits {
        hold(tx.statements, effect, *limit, room.amount)?;
        tx.tally.hold(tx.connection, *limit, room.amount, 0)?;
    }
    Ok(())
}

fn hold(statements: &dyn Statements, effect: i64, limit: i64, amount: i64) -> Result<(), Fault> {
    let insert = "INSERT OR FAIL INTO room (effect, limit_key, amount) VALUES (?1, ?2, ?3)";
    Ok(statements.execute(insert, params![effect, limit, amount]).map(drop)?)
}

/// Room that a limit gives to what was open before it applied: nobody was asked whether it fits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Covered {
    pub(crate) effects: u64,
    pub(crate) amount: i64,
}

/// Lets a limit that is new, wider or named otherwise hold what is in flight or unknown: money whose fate is not known
/// is not free because a limit was declared anew. What it holds already stays as it is. Work for each open effect.
///
/// Nobody has bounded the sum of what was admitted without this limit. It holds no more than its counter can say, which
/// leaves no room for anything else, and the start that declares it is not stopped by it.
pub(crate) fn cover(tx: &Tx<'_>, row: &LimitRow) -> Result<Covered, Fault> {
    let mut covered = Covered::default();
    let mut room = i64::MAX.saturating_sub(row.reserved);
    for open in open_effects(tx.connection, row)? {
        let impact =
            Impact { dimension: row.limit.dimension.clone(), amount: open.amount, bound: Bound::Exact };
        if !row.limit.applies(&open.action, open.resource.as_deref(), &impact) {
            continue;
        }
        let amount = open.amount.unwrap_or(0).min(room);
        room = room.saturating_sub(amount);
        hold(tx.statements, open.key, row.key, amount)?;
        tx.connection
            .prepare_cached(
                "UPDATE impact_limit SET reserved = reserved + ?2, unknown_exposure = unknown_exposure + ?3 WHERE key = ?1",
            )?
            .execute(params![row.key, amount, if open.unknown { amount } else { 0 }])?;
        covered.effects = covered.effects.saturating_add(1);
        covered.amount = covered.amount.saturating_add(amount);
    }
    Ok(covered)
}

struct OpenEffect {
    key: i64,
    action: ActionName,
    resource: Option<String>,
    amount: Option<i64>,
    unknown: bool,
}

/// What is in flight or unknown, counts what the limit counts, and is not held by it.
fn open_effects(connection: &Connection, row: &LimitRow) -> Result<Vec<OpenEffect>, Fault> {
    // The index of what is open; left to itself SQLite reads the whole table.
    let mut statement = connection.prepare_cached(
        "SELECT key, action, resource, amount, stage = 'reconciling' FROM effect INDEXED BY effect_open
         WHERE stage NOT IN ('settled', 'rejected') AND stage IN ('dispatching', 'reconciling')
             AND dimension = ?1 AND unit = ?2
             AND NOT EXISTS (SELECT 1 FROM room WHERE room.effect = effect.key AND room.limit_key = ?3)
         ORDER BY key",
    )?;
    let dimension = &row.limit.dimension;
    collect(&mut statement.query(params![dimension.word(), dimension.unit(), row.key])?, |columns| {
        Ok(OpenEffect {
            key: columns.next()?,
            action: columns.word("action", ActionName::parse)?,
            resource: columns.next()?,
            amount: columns.next()?,
            unknown: columns.next()?,
        })
    })
}

/// What asks for room.
pub(crate) struct Wanted<'a> {
    pub(crate) action: &'a ActionName,
    pub(crate) resource: Option<&'a str>,
    pub(crate) impact: Option<&'a Impact>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn of(view: &'a EffectView) -> Self {
        Self { action: &view.action, resource: view.resource.as_deref(), impact: view.impact.as_ref() }
    }
}

/// Whether there was room.
pub(crate) enum Reserved {
    /// On every limit that applies, if one does.
    Room(Room),
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

/// The effect became unknown: what it holds is counted as exposure too.
pub(crate) fn expose(tx: &mut Tx<'_>, effect: &Effect) -> Result<(), Fault> {
    for held in holds_of(tx, effect)? {
        tx.tally.hold(tx.connection, held.limit, 0, held.amount)?;
    }
    Ok(())
}

/// The effect is settled, and each hold ends with it, once: its row says how only where a person has said how much it was.
/// A success is consumed in the period of its last write.
pub(crate) fn end(tx: &mut Tx<'_>, effect: &Effect, ending: &Ending, now: Timestamp) -> Result<(), Fault> {
    let was_unknown = matches!(effect.view.stage, Stage::Reconciling { .. });
    for held in holds_of(tx, effect)? {
        let consumed = match ending {
            Ending::Consumed => held.amount,
            Ending::Released => 0,
            Ending::Actual { amounts, otherwise_consumed } => {
                let dimension = &tx.tally.limit(tx.connection, held.limit)?.limit.dimension;
                let named = amounts.iter().find(|(of, _)| of == dimension);
                named.map_or(if *otherwise_consumed { held.amount } else { 0 }, |(_, actual)| *actual)
            }
        };
        if let Ending::Actual { .. } = ending {
            tx.connection
                .prepare_cached("UPDATE room SET actual = ?3 WHERE effect = ?1 AND limit_key = ?2")?
                .execute(params![effect.key, held.limit, consumed])?;
        }
        let exposed = if was_unknown { held.amount } else { 0 };
        tx.tally.hold(tx.connection, held.limit, -held.amount, -exposed)?;
        if consumed > 0 {
            // Only what is unknown can have been written again since it was claimed.
            let written_at = match effect.view.claimed_at {
                Some(claimed_at) if !was_unknown => claimed_at,
                Some(_) | None => last_write(tx.connection, effect.key)?.unwrap_or(now),
            };
            consume(tx, held.limit, consumed, written_at)?;
        }
    }
    Ok(())
}

fn consume(tx: &mut Tx<'_>, limit: i64, amount: i64, at: Timestamp) -> Result<(), Fault> {
    let own = tx.tally.limit(tx.connection, limit)?.limit.period;
    let periods = [Some(Period::Day), (own != Period::Day).then_some(own)];
    for period in periods.into_iter().flatten() {
        tx.tally.consume(tx.connection, Window { limit, period, start: period.start(at) }, amount)?;
    }
    Ok(())
}

/// When the provider was last written to for this effect. A replay that never left wrote nothing; of one without an end it
/// is not known.
fn last_write(connection: &Connection, effect: i64) -> Result<Option<Timestamp>, Fault> {
    let at: Option<i64> = connection
        .prepare_cached(
            "SELECT max(started_at) FROM attempt
             WHERE key BETWEEN ?1 << 20 AND (?1 << 20) + 1048575 AND kind <> 'reconcile'
                 AND seen IS NOT 'not_sent'",
        )?
        .query_row([effect], |row| row.get(0))?;
    Ok(at.map(Timestamp))
}

/// One effect's hold on one limit, in the limit's minor units.
struct Held {
    limit: i64,
    amount: i64,
}

fn holds_of(tx: &Tx<'_>, effect: &Effect) -> Result<Vec<Held>, Fault> {
    if let Some(room) = effect.room.as_ref().filter(|room| room.age == tx.tally.age()) {
        return Ok(room.limits.iter().map(|limit| Held { limit: *limit, amount: room.amount }).collect());
    }
    let all = "SELECT limit_key, amount FROM room WHERE effect = ?1";
    tx.statements
        .once(all, [effect.key], |statement, effect| {
            let held =
                statement.query_map(effect, |row| Ok(Held { limit: row.get(0)?, amount: row.get(1)? }))?;
            held.collect()
        })
        .map_err(Fault::from)
}
