//! What must be true of the database after each commit, read by other statements than the store's own.

use rusqlite::{Connection, Row};

use super::ghost::{Ghost, Is};
use crate::failure::{During, Failure};

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    invariant: &'static str,
    what: String,
    after: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Self { invariant, what: what.into(), after: String::new() }
    }

    /// With the steps that led to it.
    pub(crate) fn after(mut self, trace: &str) -> Self {
        trace.clone_into(&mut self.after);
        self
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)?;
        if self.after.is_empty() { Ok(()) } else { write!(f, "\n  after{}", self.after) }
    }
}

/// The effects of one schedule, with what hangs on them. Attempts are found by their keys: no index has their effects.
const EFFECTS: &str = "SELECT e.id, e.stage, coalesce(e.result, ''), coalesce(e.verification, ''),
        (SELECT count(*) FROM attempt a WHERE a.effect = e.key AND a.kind = 'dispatch'
            AND a.key BETWEEN e.key << 20 AND (e.key << 20) + 1048575) + (e.stage = 'dispatching'),
        (SELECT count(*) FROM attempt a WHERE a.effect = e.key AND a.kind = 'replay'
            AND a.key BETWEEN e.key << 20 AND (e.key << 20) + 1048575),
        coalesce((SELECT v.stage FROM event v WHERE v.effect = e.id AND v.stage IS NOT NULL
            ORDER BY v.seq DESC LIMIT 1), ''),
        coalesce((SELECT h.amount FROM hold h WHERE h.effect = e.key AND h.state = 'held'), 0)
    FROM effect e WHERE e.key > ?1 ORDER BY e.key";

/// The limit of one schedule.
const LIMIT: &str = "SELECT l.reserved, l.unknown_exposure,
        (SELECT coalesce(sum(c.amount), 0) FROM consumption c WHERE c.limit_key = l.key AND c.period = 'day')
    FROM impact_limit l WHERE l.name = ?1";

struct Found {
    id: String,
    stage: String,
    result: String,
    verification: String,
    dispatches: u32,
    replays: u32,
    chained: String,
    held: i64,
}

fn found(row: &Row<'_>) -> rusqlite::Result<Found> {
    Ok(Found {
        id: row.get(0)?,
        stage: row.get(1)?,
        result: row.get(2)?,
        verification: row.get(3)?,
        dispatches: row.get(4)?,
        replays: row.get(5)?,
        chained: row.get(6)?,
        held: row.get(7)?,
    })
}

/// Compares what is committed with what really happened. The outer error: it could not be read.
pub(crate) fn check(
    shell: &Connection,
    ghost: &Ghost,
    limit: &str,
    first_row: i64,
) -> Result<Result<(), Violation>, Failure> {
    let step = "read a database beside its store";
    let mut statement = shell.prepare_cached(EFFECTS).during(step)?;
    let rows = statement.query_map([first_row], found).during(step)?;
    let rows = rows.collect::<rusqlite::Result<Vec<Found>>>().during(step)?;
    let mut limits = shell.prepare_cached(LIMIT).during(step)?;
    let counted = limits
        .query_row([limit], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))
        .during(step)?;
    Ok(effects(&rows, ghost).and_then(|()| ledger(counted, ghost)))
}

fn effects(rows: &[Found], ghost: &Ghost) -> Result<(), Violation> {
    if rows.len() != ghost.known.len() {
        let what = format!("{} effects are recorded, {} were made", rows.len(), ghost.known.len());
        return Err(Violation::new("I6/I7: no effect is lost or made up", what));
    }
    for (row, known) in rows.iter().zip(&ghost.known) {
        let wrong = |invariant, what: String| Err(Violation::new(invariant, format!("{}: {what}", row.id)));
        if row.id != known.id.as_str() {
            return wrong("I6/I7: no effect is lost or made up", format!("in the place of {}", known.id));
        }
        let (result, verification) = match known.is {
            Is::Settled(result, verification) => (result, verification),
            Is::Waiting | Is::Ready | Is::OnTheWire | Is::Unknown | Is::Rejected => ("", ""),
        };
        let recorded = (row.stage.as_str(), row.result.as_str(), row.verification.as_str());
        if recorded != (known.is.stage(), result, verification) {
            return wrong(
                "I3/I4/I6: an outcome has its evidence, and stays",
                format!("{recorded:?} is recorded, and it is {:?}", known.is),
            );
        }
        if row.dispatches != known.sends || row.dispatches > 1 || row.replays != known.replays {
            return wrong(
                "I1: one dispatch, and every contact is recorded before it",
                format!("{} and {} attempts, {known:?}", row.dispatches, row.replays),
            );
        }
        let chained = row.chained.split(' ').next().unwrap_or_default();
        let settled = format!("settled {} {}", row.result, row.verification);
        if chained != row.stage || (row.stage == "settled" && row.chained != settled) {
            return wrong("I6: every move is in the chain", format!("{} and {}", row.stage, row.chained));
        }
        let held = if known.counted && known.is.is_open() { known.amount } else { 0 };
        if row.held != held {
            return wrong("I5: a hold goes with its effect", format!("{} is held for {known:?}", row.held));
        }
    }
    Ok(())
}

fn ledger(recorded: (i64, i64, i64), ghost: &Ghost) -> Result<(), Violation> {
    let (reserved, unknown) = ghost.reserved();
    let real = (reserved, unknown, ghost.consumed(None));
    if recorded == real {
        return Ok(());
    }
    let what = format!("reserved, unknown, consumed are {recorded:?} in the record and {real:?} in truth");
    Err(Violation::new("I5: the ledger is the sum of the effects", what))
}
