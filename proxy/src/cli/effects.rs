//! `oncegate effects`: what was done, newest first.

use std::path::PathBuf;

use clap::Args;

use super::exit::{Exit, Stop};
use super::pages::Part;
use super::source::{Source, Wanted, shaped};
use super::table::{Align, table};
use super::{Common, print, words};
use crate::control::view::EffectJson;

#[derive(Args)]
pub(crate) struct EffectsArgs {
    /// Only what is waiting, on its way or unknown
    #[arg(long)]
    unresolved: bool,
    /// Only this action
    #[arg(long, value_name = "A")]
    action: Option<String>,
    /// Only under this key: the operation's or the caller's
    #[arg(long, value_name = "K")]
    key: Option<String>,
    #[command(flatten)]
    part: Part,
    /// Read this database instead of asking a sidecar
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

/// Lists effects.
pub(crate) async fn run(common: &Common, args: &EffectsArgs) -> Result<Exit, Stop> {
    let source = Source::choose(common, args.db.as_deref())?;
    let wanted = Wanted {
        unresolved: args.unresolved,
        action: args.action.clone(),
        key: args.key.clone(),
        part: args.part,
    };
    let document = source.effects(&wanted).await?.told();
    if common.json {
        print::json(&document);
        return Ok(Exit::Done);
    }
    let effects: Vec<EffectJson> = shaped(&document)?;
    if effects.is_empty() {
        print::note("no effects");
        return Ok(Exit::Done);
    }
    print::out(&listed(&effects));
    Ok(Exit::Done)
}

/// A table of effects.
pub(crate) fn listed(effects: &[EffectJson]) -> String {
    let rows: Vec<_> = effects.iter().map(row).collect();
    let columns = [
        ("EFFECT", Align::Left),
        ("ACTION", Align::Left),
        ("OUTCOME", Align::Left),
        ("GRADE", Align::Left),
        ("AMOUNT", Align::Right),
        ("SUBJECT", Align::Left),
        ("CALLER", Align::Left),
        ("CREATED", Align::Left),
    ];
    table(&columns, &rows)
}

fn row(effect: &EffectJson) -> Vec<String> {
    vec![
        effect.id.clone(),
        effect.action.clone(),
        effect.outcome.clone(),
        effect.grade.clone(),
        words::impact(effect.impact.as_ref()),
        effect.subject.clone().unwrap_or_else(|| "-".to_owned()),
        effect.caller.clone(),
        effect.created_at.clone(),
    ]
}
