//! `oncegate effect show` and `oncegate effect reconcile`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hyper::Method;
use jiff::Timestamp;
use oncegate_policy::id::EffectId;
use serde_json::Value;

use super::client::expect_data;
use super::exit::{Exit, Stop};
use super::source::{self, Source, shaped};
use super::table::facts;
use super::{Common, print, words};
use crate::clock::Clock;
use crate::control::view::{AttemptJson, EffectJson};

#[derive(Subcommand)]
pub(crate) enum EffectCommand {
    /// Everything that is known of one effect
    Show(ShowArgs),
    /// Ask the provider now what happened; sends no write. Exits by the outcome, 15 when it is settled already
    Reconcile(ReconcileArgs),
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
pub(crate) struct ReconcileArgs {
    /// `eff_…`
    #[arg(value_parser = effect_id)]
    id: EffectId,
}

fn effect_id(text: &str) -> Result<EffectId, String> {
    EffectId::parse(text).ok_or_else(|| "an effect's id looks like eff_01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned())
}

/// Does what the command says.
pub(crate) async fn run(common: &Common, command: &EffectCommand) -> Result<Exit, Stop> {
    match command {
        EffectCommand::Show(args) => {
            let document = Source::choose(common, args.db.as_deref())?.effect(&args.id).await?;
            print_effect(common, &document)?;
            Ok(Exit::Done)
        }
        EffectCommand::Reconcile(args) => {
            let path = format!("/actions/effects/{}/reconcile", args.id);
            let document = expect_data(source::api(common)?.call(Method::POST, &path).await?)?;
            let effect = print_effect(common, &document)?;
            Ok(words::exit_of(&effect))
        }
    }
}

fn print_effect(common: &Common, document: &Value) -> Result<EffectJson, Stop> {
    let effect: EffectJson = shaped(document)?;
    if common.json {
        print::json(document);
    } else {
        let now = Timestamp::from_millisecond(Clock::System.now().0).unwrap_or_default();
        print::out(&written(&effect, now));
    }
    Ok(effect)
}

fn written(effect: &EffectJson, now: Timestamp) -> String {
    let ago = |moment: &String| {
        let relative = moment.parse().map(|at| format!("  ({})", words::relative(at, now)));
        format!("{moment}{}", relative.unwrap_or_default())
    };
    let mut rows = vec![
        ("effect", effect.id.clone()),
        ("outcome", format!("{} ({})", effect.outcome, effect.grade)),
        ("stage", effect.stage.clone()),
        ("verification", effect.verification.clone()),
        ("action", effect.action.clone()),
        ("caller", effect.caller.clone()),
        ("invocation", effect.invocation_id.clone()),
        ("target", effect.target.clone()),
    ];
    let optional = [
        ("subject", effect.subject.clone()),
        ("amount", effect.impact.as_ref().map(|impact| words::impact(Some(impact)))),
        ("operation key", effect.operation_key.clone()),
        ("caller's key", effect.idempotency_key.clone()),
        ("provider key", Some(effect.provider_key.clone())),
        ("answered", effect.response_status.map(|status| status.to_string())),
        ("what happened", effect.error.clone()),
        ("created", Some(ago(&effect.created_at))),
        ("dispatched", effect.dispatched_at.as_ref().map(ago)),
        ("unknown since", effect.unknown_since.as_ref().map(ago)),
        ("next look", effect.next_look_at.as_ref().map(ago)),
        ("settled", effect.settled_at.as_ref().map(ago)),
        ("retry of", effect.retry_of.clone()),
        ("retried by", effect.retried_by.clone()),
        ("approval", effect.approval_id.clone()),
        ("fault drill", effect.fault_drill.clone()),
    ];
    rows.extend(optional.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
    let mut text = facts(&rows);
    for reservation in effect.reservations.iter().flatten() {
        text.push_str(&format!(
            "\nlimit {}: {} {}\n",
            reservation.limit,
            words::amount(
                reservation.amount,
                effect.impact.as_ref().and_then(|impact| impact.currency.as_deref())
            ),
            reservation.state
        ));
    }
    section(&mut text, "attempts", effect.attempts.iter().flatten().map(attempt));
    section(
        &mut text,
        "evidence",
        effect.evidence.iter().flatten().map(|fact| {
            let source = fact.source.as_deref().map(|source| format!("  by {source}")).unwrap_or_default();
            format!("{}  {}{source}  {}", fact.at, fact.kind, fact.text)
        }),
    );
    text
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        text.push_str(&format!("\n{title}\n"));
        lines.for_each(|line| text.push_str(&format!("  {line}\n")));
    }
}

fn attempt(attempt: &AttemptJson) -> String {
    let parts = [
        attempt.verdict.clone().or_else(|| attempt.seen.clone()),
        attempt.response_status.map(|status| status.to_string()),
        attempt.step.clone(),
        attempt.cause.clone(),
        attempt.author.as_ref().map(|author| format!("by {author}")),
    ];
    let rest: Vec<_> = parts.into_iter().flatten().collect();
    format!("{}  {}  {}", attempt.started_at, attempt.kind, rest.join(" · "))
}
