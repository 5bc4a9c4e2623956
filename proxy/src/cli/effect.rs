//! `oncegate effect …`: one effect, and what a person does about it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use oncegate_policy::id::EffectId;
use serde_json::{Value, json};

use super::client::expect_data;
use super::exit::{Exit, Stop};
use super::source::{self, Source, shaped};
use super::{Common, print, receipt, words};
use crate::clock::Clock;
use crate::control::view::EffectJson;

#[derive(Subcommand)]
pub(crate) enum EffectCommand {
    /// Everything that is known of one effect
    Show(ShowArgs),
    /// Ask the provider now what happened; sends no write. Exits by the outcome, 15 when it is settled already
    Reconcile(OneArgs),
    /// Send the same bytes again under the key that the provider deduplicates on. Exits by the outcome, 15 when refused
    Replay(OneArgs),
    /// Settle an unknown effect by a person's word. Exits by the outcome, 15 when refused
    Resolve(ResolveArgs),
    /// Add a note to the evidence
    Note(NoteArgs),
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// `eff_…`
    #[arg(value_parser = effect_id)]
    id: EffectId,
    /// Read this database instead of asking a sidecar
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// `eff_…`
    #[arg(value_parser = effect_id)]
    id: EffectId,
}

#[derive(Args)]
pub(crate) struct ResolveArgs {
    /// `eff_…`
    #[arg(value_parser = effect_id)]
    id: EffectId,
    /// What happened at the provider
    #[arg(long, value_enum)]
    outcome: Outcome,
    /// How that is known, in at least 10 characters
    #[arg(long, value_name = "R")]
    reason: String,
    /// Whether a failed effect left something behind
    #[arg(long, value_enum, value_name = "P")]
    partial_effect: Option<Partial>,
    /// How much was really taken, as DIMENSION:UNIT:AMOUNT, for example money:usd:500
    #[arg(long, value_name = "D:U:A", value_parser = actual_impact)]
    actual_impact: Vec<Value>,
    /// Where to look it up at the provider
    #[arg(long, value_name = "X")]
    external_reference: Option<String>,
}

#[derive(Args)]
pub(crate) struct NoteArgs {
    /// `eff_…`
    #[arg(value_parser = effect_id)]
    id: EffectId,
    /// What to remember
    text: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Outcome {
    /// It was applied: the hold is consumed
    Succeeded,
    /// It was not: the hold is released
    Failed,
}

#[derive(Clone, Copy, ValueEnum)]
enum Partial {
    None,
    Possible,
    Confirmed,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

impl Partial {
    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Possible => "possible",
            Self::Confirmed => "confirmed",
        }
    }
}

fn effect_id(text: &str) -> Result<EffectId, String> {
    EffectId::parse(text).ok_or_else(|| "an effect's id looks like eff_01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned())
}

fn actual_impact(text: &str) -> Result<Value, String> {
    let wrong = || "write it as DIMENSION:UNIT:AMOUNT, for example money:usd:500".to_owned();
    let (rest, amount) = text.rsplit_once(':').ok_or_else(wrong)?;
    let (dimension, unit) = rest.split_once(':').ok_or_else(wrong)?;
    let amount: i64 = amount.parse().ok().filter(|amount| *amount >= 0).ok_or_else(wrong)?;
    Ok(json!({ "dimension": dimension, "unit": unit, "amount": amount, "bound": "exact" }))
}

/// Does what the command says.
pub(crate) async fn run(common: &Common, command: &EffectCommand) -> Result<Exit, Stop> {
    match command {
        EffectCommand::Show(args) => {
            let document = Source::choose(common, args.db.as_deref())?.effect(&args.id).await?;
            print_effect(common, &document)?;
            Ok(Exit::Done)
        }
        EffectCommand::Reconcile(args) => by_outcome(common, &args.id, "reconcile", &json!({})).await,
        EffectCommand::Replay(args) => by_outcome(common, &args.id, "replay", &json!({})).await,
        EffectCommand::Resolve(args) => {
            let document = json!({
                "outcome": args.outcome.word(),
                "reason": args.reason,
                "partialEffect": args.partial_effect.map(Partial::word),
                "actualImpact": args.actual_impact,
                "externalReference": args.external_reference,
            });
            by_outcome(common, &args.id, "resolve", &document).await
        }
        EffectCommand::Note(args) => {
            let path = format!("/actions/effects/{}/notes", args.id);
            let document = source::api(common)?.post(&path, &json!({ "note": args.text })).await?;
            print_effect(common, &expect_data(document)?)?;
            Ok(Exit::Done)
        }
    }
}

/// One step about one effect; the command ends as the effect stands after it.
async fn by_outcome(common: &Common, id: &EffectId, step: &str, document: &Value) -> Result<Exit, Stop> {
    let path = format!("/actions/effects/{id}/{step}");
    let look = format!("`oncegate effect show {id}`");
    let (document, effect) = source::api(common)?.effect(&path, document, &look).await?;
    print_shaped(common, &document, &effect);
    Ok(words::exit_of(&effect))
}

fn print_effect(common: &Common, document: &Value) -> Result<(), Stop> {
    print_shaped(common, document, &shaped(document)?);
    Ok(())
}

fn print_shaped(common: &Common, document: &Value, effect: &EffectJson) {
    if common.json {
        print::json(document);
    } else {
        let now = Timestamp::from_millisecond(Clock::System.now().0).unwrap_or_default();
        print::out(&receipt::written(effect, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actual_impacts_are_read() {
        let read = actual_impact("money:usd:500").unwrap();
        assert_eq!(
            (&read["dimension"], &read["unit"], &read["amount"]),
            (&json!("money"), &json!("usd"), &json!(500))
        );
        for bad in ["money", "money:usd", "money:usd:x", "money:usd:-1", "500"] {
            assert!(actual_impact(bad).is_err(), "{bad}");
        }
    }
}
