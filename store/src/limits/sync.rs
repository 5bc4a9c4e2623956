//! The limits that are declared become the limits that count.

use std::cmp::Reverse;

use oncegate_policy::limit::Limit;
use oncegate_policy::time::Timestamp;
use rusqlite::Connection;

use super::rows::{LimitRow, active, archived, by_name};
use super::{announce_archived, consumed, insert, mark_archived, update};
use crate::error::Fault;
use crate::holds::Covered;
use crate::writer::Tx;

pub(super) fn sync(tx: &mut Tx<'_>, declared: &[Limit], now: Timestamp) -> Result<Vec<String>, Fault> {
    let mut differences = Vec::new();
    let (kept, going): (Vec<_>, Vec<_>) = active(tx.connection)?.into_iter().partition(|row| {
        declared.iter().any(|limit| limit.name == row.limit.name && limit.dimension == row.limit.dimension)
    });
    let new: Vec<_> =
        declared.iter().filter(|limit| !kept.iter().any(|row| row.limit.name == limit.name)).collect();
    let Renamed { renamed, gone } = Renamed::find(tx.connection, going, &new, now)?;
    // All names are free before the first of them is taken.
    for row in renamed.iter().map(|(row, _)| row).chain(&gone) {
        mark_archived(tx, row, now)?;
    }
    for row in &gone {
        let (name, reserved) = (&row.limit.name, row.reserved);
        differences.push(format!("limit {name} is archived; {reserved} is still held on it"));
        announce_archived(tx, row, now)?;
    }
    for (row, limit) in renamed {
        let (was, name, said) = (&row.limit.name, &limit.name, said(limit));
        differences.push(format!(
            "limit {name} is {was} under another name, and what was consumed still counts: {said}"
        ));
        differences.extend(held(limit, update(tx, &row, limit, now)?));
    }
    for limit in declared {
        match by_name(tx.connection, &limit.name)? {
            Some(row) if row.limit == *limit => {}
            Some(row) => {
                differences.push(format!(
                    "limit {} was {}, is {}",
                    limit.name,
                    said(&row.limit),
                    said(limit)
                ));
                differences.extend(held(limit, update(tx, &row, limit, now)?));
            }
            None => match archived(tx.connection, limit)? {
                // Declared again: what was consumed and held under it still counts.
                Some(row) => {
                    differences.push(format!("limit {} is back: {}", limit.name, said(limit)));
                    differences.extend(held(limit, update(tx, &row, limit, now)?));
                }
                None => {
                    differences.push(format!("limit {} is new: {}", limit.name, said(limit)));
                    differences.extend(held(limit, insert(tx, limit, now)?));
                }
            },
        }
    }
    Ok(differences)
}

/// Limits that are declared no more: those that go on under another name, and those that do not.
struct Renamed<'d> {
    renamed: Vec<(LimitRow, &'d Limit)>,
    gone: Vec<LimitRow>,
}

impl<'d> Renamed<'d> {
    /// A limit that is declared anew, for the very scope of one that goes, is that one under another name: what was
    /// consumed in this scope was consumed, whatever the limit of it is called. Of several, the one of the same amount,
    /// and else the one that has the least left.
    fn find(
        connection: &Connection,
        mut going: Vec<LimitRow>,
        new: &[&'d Limit],
        now: Timestamp,
    ) -> Result<Self, Fault> {
        let mut renamed: Vec<(LimitRow, &'d Limit)> = Vec::new();
        for same_amount in [true, false] {
            for limit in new {
                if renamed.iter().any(|(_, taken)| taken.name == limit.name) {
                    continue;
                }
                let mut best = None;
                for (at, row) in going.iter().enumerate() {
                    if is_scope_of(row, limit) && (!same_amount || row.limit.amount == limit.amount) {
                        best = best.max(Some((used(connection, row, now)?, Reverse(at))));
                    }
                }
                // One of this name was there before, and has more against it: it is that one again.
                let before = archived(connection, limit)?;
                let before = before.map(|row| used(connection, &row, now)).transpose()?;
                if let Some((_, Reverse(at))) =
                    best.filter(|(used, _)| before.is_none_or(|other| other <= *used))
                {
                    renamed.push((going.remove(at), limit));
                }
            }
        }
        Ok(Self { renamed, gone: going })
    }
}

fn is_scope_of(row: &LimitRow, limit: &Limit) -> bool {
    let Limit { name: _, amount: _, dimension, period, action, resource_prefix } = &row.limit;
    (dimension, period, action, resource_prefix)
        == (&limit.dimension, &limit.period, &limit.action, &limit.resource_prefix)
}

/// What counts against it now.
fn used(connection: &Connection, row: &LimitRow, now: Timestamp) -> Result<i64, Fault> {
    Ok(consumed(connection, row, now)?.saturating_add(row.reserved))
}

/// What a limit holds from now on that was open before, in words.
fn held(limit: &Limit, covered: Covered) -> Option<String> {
    let Covered { effects, amount } = covered;
    let (name, unit) = (&limit.name, limit.dimension.unit());
    (effects > 0).then(|| format!("limit {name} holds {amount} {unit} of {effects} open effects"))
}

fn said(limit: &Limit) -> String {
    let action = limit.action.as_ref().map_or_else(String::new, |action| format!(" for {action}"));
    let prefix = limit.resource_prefix.as_ref().map_or_else(String::new, |prefix| format!(" under {prefix}"));
    format!("{} {} per {}{action}{prefix}", limit.amount, limit.dimension.unit(), limit.period.word())
}
