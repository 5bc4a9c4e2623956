//! `oncegate limits`: what is left of every limit.

use std::path::PathBuf;

use clap::Args;

use super::exit::{Exit, Stop};
use super::source::{Source, shaped};
use super::table::{Align, table};
use super::{Common, print, words};
use crate::control::view::LimitJson;

#[derive(Args)]
pub(crate) struct LimitsArgs {
    /// Read this database instead of asking a sidecar
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

/// Shows the limits.
pub(crate) async fn run(common: &Common, args: &LimitsArgs) -> Result<Exit, Stop> {
    let document = Source::choose(common, args.db.as_deref())?.limits().await?;
    if common.json {
        print::json(&document);
        return Ok(Exit::Done);
    }
    let limits: Vec<LimitJson> = shaped(&document)?;
    if limits.is_empty() {
        print::note("no limits");
        return Ok(Exit::Done);
    }
    print::out(&listed(&limits));
    Ok(Exit::Done)
}

/// A table of limits.
pub(crate) fn listed(limits: &[LimitJson]) -> String {
    let rows: Vec<_> = limits.iter().map(row).collect();
    let columns = [
        ("LIMIT", Align::Left),
        ("PERIOD", Align::Left),
        ("AMOUNT", Align::Right),
        ("CONSUMED", Align::Right),
        ("RESERVED", Align::Right),
        ("UNKNOWN", Align::Right),
        ("AVAILABLE", Align::Right),
        ("UNIT", Align::Left),
    ];
    table(&columns, &rows)
}

fn row(limit: &LimitJson) -> Vec<String> {
    let number = |number| words::amount(number, limit.currency.as_deref());
    vec![
        limit.name.clone(),
        limit.period.clone(),
        number(limit.amount),
        number(limit.consumed),
        number(limit.reserved),
        number(limit.unknown_exposure),
        number(limit.available),
        limit.unit.clone(),
    ]
}
