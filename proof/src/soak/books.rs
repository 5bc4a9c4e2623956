//! What the provider applied, and whether a record agrees with it.

use std::collections::HashMap;

use crate::below::rows::{Fault, Row, Summary};

/// With a planted fault, one of so many writes is counted twice.
const TWICE_EVERY: usize = 5;

/// How a disagreement about one effect begins.
pub(crate) const DISAGREES: &str = "the provider and the record disagree";

/// One thing that was done.
#[derive(Clone, Debug)]
struct Applied {
    amount: i64,
    times: u64,
    /// The tick from which on it is listed.
    listed_from: u64,
}

/// The provider's truth.
#[derive(Clone, Default)]
pub(crate) struct Books {
    applied: HashMap<String, Applied>,
    /// Who was refunded, and by which effect.
    orders: HashMap<String, String>,
    violations: Vec<Fault>,
    /// The planted fault.
    pub(crate) counts_twice: bool,
}

impl Books {
    /// Does what a write asks for.
    pub(crate) fn apply(&mut self, effect: &str, order: &str, amount: i64, listed_from: u64) {
        if let Some(before) = self.orders.insert(order.to_owned(), effect.to_owned()) {
            self.violations.push(format!("P2: order {order} was refunded by {before} and by {effect}"));
        }
        let twice = self.counts_twice && self.applied.len().is_multiple_of(TWICE_EVERY);
        let fresh = Applied { amount, times: 0, listed_from };
        self.applied.entry(effect.to_owned()).or_insert(fresh).times += 1 + u64::from(twice);
    }

    /// Something arrived that nobody can have sent.
    pub(crate) fn odd(&mut self, what: Fault) {
        self.violations.push(what);
    }

    /// How often an effect was applied.
    pub(crate) fn times(&self, effect: &str) -> u64 {
        self.applied.get(effect).map_or(0, |applied| applied.times)
    }

    /// Whether a look finds an effect at this tick.
    pub(crate) fn listed(&self, effect: &str, tick: u64) -> bool {
        self.applied.get(effect).is_some_and(|applied| applied.listed_from <= tick)
    }

    /// What lagged is listed.
    pub(crate) fn list_all(&mut self) {
        self.applied.values_mut().for_each(|applied| applied.listed_from = 0);
    }

    /// How many effects were applied.
    pub(crate) fn count(&self) -> usize {
        self.applied.len()
    }

    /// The record against this truth: every effect by itself, nothing that is not on record, and the sums. The limits'
    /// own counters were added up when the record was read.
    pub(crate) fn agree(&self, found: &Summary) -> Result<(), Fault> {
        if let Some(violation) = self.violations.first() {
            return Err(violation.clone());
        }
        let (mut consumed, mut open, mut known) = (0, 0, 0);
        for row in found.effects.values() {
            let times = self.times(&row.id);
            self.agrees(row, times)?;
            known += usize::from(times > 0);
            match row.stage.as_str() {
                "settled" => consumed += row.consumed(),
                _ if times > 0 => open += row.amount,
                _ => {}
            }
        }
        if known != self.count() {
            return Err(format!(
                "I2: {} were applied, of which {known} are on record: {:?}",
                self.count(),
                self.missing(found)
            ));
        }
        let moved: i64 = self.applied.values().map(|applied| applied.amount).sum();
        if consumed + open != moved {
            return Err(format!("I5: {consumed} consumed and {open} held, of {moved} that were moved"));
        }
        Ok(())
    }

    fn agrees(&self, row: &Row, times: u64) -> Result<(), Fault> {
        let may = match (row.stage.as_str(), row.result.as_str()) {
            ("settled", "confirmed" | "acknowledged") => times == 1,
            ("settled", _) => times == 0,
            ("dispatching" | "reconciling", _) => times <= 1,
            _ => times == 0,
        };
        let amount = self.applied.get(&row.id).map_or(row.amount, |applied| applied.amount);
        if may && amount == row.amount {
            return Ok(());
        }
        let applied = self.applied.get(&row.id);
        Err(format!("{DISAGREES}: applied {times} times, {applied:?}, and on record as {row:?}"))
    }

    fn missing(&self, found: &Summary) -> Option<(&String, &Applied)> {
        let recorded = |id: &String| found.effects.values().any(|row| row.id == *id);
        self.applied.iter().find(|(id, _)| !recorded(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(stage: &str, result: &str) -> Summary {
        let row = Row { id: "eff_1".into(), stage: stage.into(), result: result.into(), ..Row::default() };
        Summary { effects: [("key".to_owned(), row)].into(), ..Summary::default() }
    }

    fn books(times: u64) -> Books {
        let mut books = Books::default();
        for _ in 0..times {
            books.apply("eff_1", "one", 0, 0);
        }
        // Here it is the record that is asked, not the order.
        books.violations.clear();
        books
    }

    #[test]
    fn a_record_agrees_with_one_truth_only() {
        for (stage, result, may) in [
            ("settled", "acknowledged", &[1][..]),
            ("settled", "confirmed", &[1]),
            ("settled", "failed", &[0]),
            ("reconciling", "", &[0, 1]),
            ("dispatching", "", &[0, 1]),
            ("awaiting_approval", "", &[0]),
            ("rejected", "", &[0]),
        ] {
            for times in 0..3 {
                let agrees = books(times).agree(&record(stage, result)).is_ok();
                assert_eq!(agrees, may.contains(&times), "{stage} {result} {times}");
            }
        }
        assert!(books(1).agree(&Summary::default()).is_err(), "what is not on record");
    }

    #[test]
    fn an_order_is_refunded_once() {
        let mut books = Books::default();
        books.apply("eff_1", "one", 0, 0);
        books.apply("eff_2", "one", 0, 0);
        assert!(books.agree(&record("settled", "confirmed")).is_err());
    }
}
