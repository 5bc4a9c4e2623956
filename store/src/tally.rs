//! What the only writer knows by heart: whether writes are halted, which names the actions of a realm have, the limits
//! with their counters, and what of them is consumed. It is read when it is first asked for and trusted while nobody else has written to the database. What
//! moves is written down once per commit, however many jobs of it move the same counter.

use std::collections::{BTreeSet, HashMap};

use oncegate_policy::action::ActionName;
use oncegate_policy::impact::Dimension;
use oncegate_policy::limit::{Limit, Period, Usage};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Fault;
use crate::facts;
use crate::kept::Statements;
use crate::limits::{self, LimitRow, Unreadable};

/// Periods whose consumption is remembered; more, and they are read again.
const WINDOWS_MAX: usize = 4_096;

/// See the module.
#[derive(Default)]
pub(crate) struct Tally {
    /// As SQLite counts the commits of other connections: with another number, nothing of this is known any more.
    version: i64,
    /// How often everything was forgotten.
    forgotten: u64,
    halted: Option<Option<String>>,
    /// Of each realm, the actions as which it was asked for something that was not settled then. One that is here for
    /// nothing costs a look.
    names: Option<HashMap<String, BTreeSet<ActionName>>>,
    limits: Option<HashMap<i64, Result<LimitRow, Unreadable>>>,
    consumed: HashMap<Window, i64>,
    /// In the order in which they were made, and not written down yet.
    moves: Vec<Move>,
}

/// One period of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    pub(crate) limit: i64,
    pub(crate) period: Period,
    pub(crate) start: Timestamp,
}

/// A change of counters, that adds.
#[derive(Clone, Copy)]
enum Move {
    Held { limit: i64, reserved: i64, unknown_exposure: i64 },
    Consumed { window: Window, amount: i64 },
}

impl Move {
    fn undone(self) -> Self {
        match self {
            Self::Held { limit, reserved, unknown_exposure } => {
                Self::Held { limit, reserved: -reserved, unknown_exposure: -unknown_exposure }
            }
            Self::Consumed { window, amount } => Self::Consumed { window, amount: -amount },
        }
    }
}

impl Tally {
    /// At the beginning of a transaction that nobody else can write in.
    pub(crate) fn begin(&mut self, statements: &dyn Statements) -> rusqlite::Result<()> {
        let version = statements.first("PRAGMA data_version", [], |row| row.get(0))?.unwrap_or_default();
        if version != self.version {
            self.forget();
            self.version = version;
        }
        Ok(())
    }

    /// Everything is read again.
    pub(crate) fn forget(&mut self) {
        let forgotten = self.forgotten.wrapping_add(1);
        *self = Self { version: self.version, forgotten, ..Self::default() };
    }

    /// The same for as long as nobody but the verbs of effects has written: what limits hold of an effect that says
    /// `dispatching` does not change meanwhile.
    pub(crate) fn age(&self) -> u64 {
        self.forgotten
    }

    /// Whether writes are halted is read again.
    pub(crate) fn forget_halt(&mut self) {
        self.halted = None;
    }

    /// A place to which [`Self::undo`] goes back.
    pub(crate) fn mark(&self) -> usize {
        self.moves.len()
    }

    /// Takes back what was moved since the mark: the job that moved it was rolled back.
    pub(crate) fn undo(&mut self, mark: usize) {
        self.halted = None;
        while self.moves.len() > mark {
            if let Some(last) = self.moves.pop() {
                self.apply(last.undone());
            }
        }
    }

    /// Why all writes are stopped, when they are.
    pub(crate) fn halted(&mut self, connection: &Connection) -> Result<Option<String>, Fault> {
        if self.halted.is_none() {
            self.halted = Some(facts::halted(connection)?);
        }
        Ok(self.halted.clone().flatten())
    }

    /// The other actions of a realm that something may be open of.
    pub(crate) fn other_names(
        &mut self,
        connection: &Connection,
        realm: &str,
        own: &ActionName,
    ) -> Result<Vec<ActionName>, Fault> {
        let names = match self.names.take() {
            Some(names) => names,
            None => facts::names_of_realms(connection)?,
        };
        let names = self.names.insert(names);
        let others = names.get(realm).into_iter().flatten().filter(|name| *name != own);
        Ok(others.cloned().collect())
    }

    /// Something is asked of a realm under this name.
    pub(crate) fn is_asked_as(&mut self, realm: &str, action: &ActionName) {
        let Some(names) = &mut self.names else { return };
        match names.get_mut(realm) {
            Some(names) if names.contains(action) => {}
            Some(names) => drop(names.insert(action.clone())),
            None => drop(names.insert(realm.to_owned(), BTreeSet::from([action.clone()]))),
        }
    }

    /// The limits in use on a dimension for which this holds, in the order in which they were made. One of them that
    /// cannot be read lets nothing pass.
    pub(crate) fn applying(
        &mut self,
        connection: &Connection,
        dimension: &Dimension,
        applies: impl Fn(&Limit) -> bool,
    ) -> Result<Vec<i64>, Fault> {
        let mut keys = Vec::new();
        for row in self.rows(connection)?.values() {
            match row {
                Ok(row) if row.archived_at.is_none() && applies(&row.limit) => keys.push(row.key),
                Err(unreadable) if !unreadable.archived && unreadable.dimension == *dimension => {
                    return Err(unreadable.fault());
                }
                Ok(_) | Err(_) => {}
            }
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// A limit, in use or not.
    pub(crate) fn limit(&mut self, connection: &Connection, key: i64) -> Result<&LimitRow, Fault> {
        let row = self.rows(connection)?.get(&key).ok_or_else(|| limits::gone(&key.to_string()))?;
        row.as_ref().map_err(Unreadable::fault)
    }

    /// A limit with what its counters say at `now`.
    pub(crate) fn usage(
        &mut self,
        connection: &Connection,
        key: i64,
        now: Timestamp,
    ) -> Result<(&Limit, Usage), Fault> {
        let period = self.limit(connection, key)?.limit.period;
        let consumed = self.consumed(connection, Window { limit: key, period, start: period.start(now) })?;
        let row = self.limit(connection, key)?;
        let (reserved, unknown_exposure) = (row.reserved, row.unknown_exposure);
        Ok((&row.limit, Usage { consumed, reserved, unknown_exposure }))
    }

    /// Room is taken, given back or exposed on a limit. A counter that would fall below zero was changed by another
    /// hand: that is the fault of the job that meets it, and of no neighbour in its commit.
    pub(crate) fn hold(
        &mut self,
        connection: &Connection,
        limit: i64,
        reserved: i64,
        unknown_exposure: i64,
    ) -> Result<(), Fault> {
        let row = self.limit(connection, limit)?;
        let exposed = row.unknown_exposure.saturating_add(unknown_exposure);
        if exposed < 0 || exposed > row.reserved.saturating_add(reserved) {
            return Err(Fault::Uncounted { limit: row.limit.name.clone() });
        }
        self.make(Move::Held { limit, reserved, unknown_exposure });
        Ok(())
    }

    /// An amount, 0 or more, is consumed in a period. A counter goes no higher than it can: it has no room for anything
    /// then, and nothing that was sent may go unrecorded for it.
    pub(crate) fn consume(
        &mut self,
        connection: &Connection,
        window: Window,
        amount: i64,
    ) -> Result<(), Fault> {
        let room = i64::MAX.saturating_sub(self.consumed(connection, window)?);
        self.make(Move::Consumed { window, amount: amount.min(room) });
        Ok(())
    }

    /// Writes the counters that moved, each once.
    pub(crate) fn write_down(&mut self, statements: &dyn Statements) -> rusqlite::Result<()> {
        if self.moves.is_empty() {
            return Ok(());
        }
        let (mut held, mut consumed) = (HashMap::<i64, (i64, i64)>::new(), HashMap::<Window, i64>::new());
        for each in self.moves.drain(..) {
            match each {
                Move::Held { limit, reserved, unknown_exposure } => {
                    let sums = held.entry(limit).or_default();
                    *sums = (sums.0.saturating_add(reserved), sums.1.saturating_add(unknown_exposure));
                }
                Move::Consumed { window, amount } => {
                    let sum = consumed.entry(window).or_default();
                    *sum = sum.saturating_add(amount);
                }
            }
        }
        for (limit, (reserved, unknown_exposure)) in held.into_iter().filter(|(_, sums)| *sums != (0, 0)) {
            statements.execute(
                "UPDATE impact_limit SET reserved = reserved + ?2, unknown_exposure = unknown_exposure + ?3 WHERE key = ?1",
                params![limit, reserved, unknown_exposure],
            )?;
        }
        for (window, amount) in consumed.into_iter().filter(|(_, amount)| *amount != 0) {
            add_consumption(statements, window, amount)?;
        }
        Ok(())
    }

    fn make(&mut self, made: Move) {
        self.moves.push(made);
        self.apply(made);
    }

    fn apply(&mut self, made: Move) {
        match made {
            Move::Held { limit, reserved, unknown_exposure } => {
                if let Some(Ok(row)) = self.limits.as_mut().and_then(|rows| rows.get_mut(&limit)) {
                    row.reserved = row.reserved.saturating_add(reserved);
                    row.unknown_exposure = row.unknown_exposure.saturating_add(unknown_exposure);
                }
            }
            Move::Consumed { window, amount } => {
                if let Some(known) = self.consumed.get_mut(&window) {
                    *known = known.saturating_add(amount);
                }
            }
        }
    }

    fn rows(
        &mut self,
        connection: &Connection,
    ) -> Result<&HashMap<i64, Result<LimitRow, Unreadable>>, Fault> {
        if self.limits.is_none() {
            self.limits = Some(limits::all(connection)?.into_iter().collect());
            for each in self.moves.clone() {
                if let Move::Held { .. } = each {
                    self.apply(each);
                }
            }
        }
        Ok(self.limits.get_or_insert_default())
    }

    fn consumed(&mut self, connection: &Connection, window: Window) -> Result<i64, Fault> {
        if let Some(known) = self.consumed.get(&window) {
            return Ok(*known);
        }
        let written = consumption(connection, window)?;
        let consumed = self.moves.iter().fold(written, |sum, each| match each {
            Move::Consumed { window: of, amount } if *of == window => sum.saturating_add(*amount),
            Move::Consumed { .. } | Move::Held { .. } => sum,
        });
        if self.consumed.len() >= WINDOWS_MAX {
            self.consumed.clear();
        }
        self.consumed.insert(window, consumed);
        Ok(consumed)
    }
}

/// What is consumed of one period, as it is written down.
pub(crate) fn consumption(connection: &Connection, window: Window) -> Result<i64, Fault> {
    let found = connection
        .prepare_cached(
            "SELECT amount FROM consumption WHERE limit_key = ?1 AND period = ?2 AND period_start = ?3",
        )?
        .query_row(params![window.limit, window.period.word(), window.start.0], |found| found.get(0))
        .optional()?;
    Ok(found.unwrap_or(0))
}

/// Adds an amount, 0 or more, to the counter of one period, which goes no higher than it can.
pub(crate) fn add_consumption(
    statements: &dyn Statements,
    window: Window,
    amount: i64,
) -> rusqlite::Result<()> {
    let add = "INSERT INTO consumption VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE
         SET amount = min(consumption.amount, 9223372036854775807 - excluded.amount) + excluded.amount";
    statements.execute(add, params![window.limit, window.period.word(), window.start.0, amount]).map(drop)
}
