//! The record alone, with little and with much in it: an admission must not take longer for what was settled before.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::ledger;
use crate::stats::{Spread, quantile_us};
use crate::{During, Failure};

/// How much is stored, and how often it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Settled effects of the small record, and of the large one.
    pub effects: [u64; 2],
    /// Rounds; in each, both are measured in turn.
    pub rounds: usize,
    /// Governed writes of one record in one round, by one caller.
    pub writes: u64,
}

/// How many write at a time while a record is filled.
const FILLING: u64 = 256;

/// One record.
#[derive(Debug, Serialize)]
pub struct Record {
    /// Settled effects before it was measured.
    pub effects: u64,
    /// To open it, in milliseconds.
    pub open_ms: f64,
    /// The middle admission of each round, from the call to the durable commit, in microseconds.
    pub admission_us: Spread,
}

/// Both records.
#[derive(Debug, Serialize)]
pub struct Growth {
    /// With little in it.
    pub small: Record,
    /// With much in it.
    pub large: Record,
}

impl Growth {
    /// How many times as long an admission takes with much in the record.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.large.admission_us.median / self.small.admission_us.median
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let line = |record: &Record| {
            let Spread { median, min, max } = record.admission_us;
            format!(
                "{:9} effects: opened in {:.1} ms, admission p50 {median:.0} us ({min:.0} to {max:.0})\n",
                record.effects, record.open_ms
            )
        };
        format!(
            "{}{}an admission takes {:.2} times as long (at most 1.2)\n",
            line(&self.small),
            line(&self.large),
            self.ratio()
        )
    }
}

/// Fills two records in `dir`, and measures them in turn.
///
/// # Errors
/// A record could not be made, or a write was not recorded.
pub async fn run(dir: &Path, bounds: Bounds) -> Result<Growth, Failure> {
    let paths = [dir.join("small.db"), dir.join("large.db")];
    let mut open_ms = [0.0; 2];
    let mut stores = Vec::new();
    for ((path, effects), open_ms) in paths.iter().zip(bounds.effects).zip(&mut open_ms) {
        fill(path, effects).await?;
        let begun = Instant::now();
        stores.push(ledger::open_again(path, 1).await?);
        *open_ms = begun.elapsed().as_secs_f64() * 1_000.0;
    }
    let mut admissions = [Vec::new(), Vec::new()];
    for round in 0..bounds.rounds as u64 {
        for ((store, effects), medians) in stores.iter().zip(bounds.effects).zip(&mut admissions) {
            let first = effects + round * bounds.writes;
            let mut nanos = Vec::new();
            for number in first..first + bounds.writes {
                nanos.push(ledger::admission(store, number).await?);
            }
            nanos.sort_unstable();
            medians.push(quantile_us(&nanos, 500));
        }
    }
    let record = |at: usize| {
        let admission_us = Spread::of(admissions[at].iter().copied()).ok_or("no round").during("sum up")?;
        Ok(Record { effects: bounds.effects[at], open_ms: open_ms[at], admission_us })
    };
    Ok(Growth { small: record(0)?, large: record(1)? })
}

/// A record with so many settled effects, closed again.
async fn fill(path: &Path, effects: u64) -> Result<(), Failure> {
    let store = ledger::open(path).await?;
    let callers = FILLING.min(effects.max(1));
    let filling: Vec<_> = (0..callers)
        .map(|caller| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in (caller..effects).step_by(usize::try_from(callers).unwrap_or(1)) {
                    ledger::write(&store, number).await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for each in filling {
        each.await.during("wait for a caller")??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_records_are_filled_and_measured() {
        let dir = tempfile::tempdir().unwrap();
        let bounds = Bounds { effects: [8, 300], rounds: 2, writes: 4 };
        let growth = run(dir.path(), bounds).await.unwrap();
        assert!(growth.ratio() > 0.0 && growth.ratio().is_finite(), "{growth:?}");
        assert!(growth.text().contains("300 effects"), "{}", growth.text());
        for (name, settled) in [("small.db", 8 + 8), ("large.db", 300 + 8)] {
            let shell = rusqlite::Connection::open(dir.path().join(name)).unwrap();
            let count = "SELECT count(*) FROM effect WHERE stage = 'settled'";
            assert_eq!(shell.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), settled);
        }
    }
}
