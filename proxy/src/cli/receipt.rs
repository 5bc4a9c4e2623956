//! The receipt of one effect, for a person: what was sent, what came back, who decided what and when.

use jiff::Timestamp;
use oncegate_store::SecretNames;

use super::table::facts;
use super::words;
use crate::control::view::{AttemptJson, EffectJson, EvidenceJson, ReservationJson};

/// All of it, as text.
pub(crate) fn written(effect: &EffectJson, now: Timestamp) -> String {
    let mut text = facts(&stands(effect));
    section(&mut text, "sent", &sent(effect));
    section(&mut text, "came back", &came_back(effect));
    section(&mut text, "when", &when(effect, now));
    section(&mut text, "linked", &linked(effect));
    let currency = effect.impact.as_ref().and_then(|impact| impact.currency.as_deref());
    let limits = effect.reservations.iter().flatten().map(|held| reservation(held, currency));
    lines(&mut text, "limits", limits);
    lines(&mut text, "attempts", effect.attempts.iter().flatten().map(attempt));
    lines(&mut text, "evidence", effect.evidence.iter().flatten().map(evidence));
    text
}

type Row = (&'static str, Option<String>);

/// Where it stands, and who vouches for that.
fn stands(effect: &EffectJson) -> Vec<(&'static str, String)> {
    vec![
        ("effect", effect.id.clone()),
        ("outcome", effect.outcome.clone()),
        ("grade", effect.grade.clone()),
        ("verification", effect.verification.clone()),
        ("stage", effect.stage.clone()),
        ("action", effect.action.clone()),
        ("caller", format!("{} ({} listener)", effect.caller, effect.listener)),
        ("invocation", effect.invocation_id.clone()),
    ]
}

fn sent(effect: &EffectJson) -> Vec<Row> {
    vec![
        ("target", Some(effect.target.clone())),
        ("request", Some(format!("sha256 {}", effect.request_digest))),
        ("subject", effect.subject.clone()),
        ("amount", effect.impact.as_ref().map(|impact| words::impact(Some(impact)))),
        ("operation key", effect.operation_key.clone()),
        ("caller's key", effect.idempotency_key.clone()),
        ("provider key", Some(effect.provider_key.clone())),
        ("fault drill", effect.fault_drill.clone()),
        ("credential", effect.credential.as_ref().and_then(credential)),
    ]
}

/// `STRIPE_KEY in header authorization`; nothing where none was placed.
fn credential(names: &SecretNames) -> Option<String> {
    let placed = names.iter().map(|(place, secrets)| format!("{} in {place}", secrets.join(", ")));
    Some(placed.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

fn came_back(effect: &EffectJson) -> Vec<Row> {
    // The last attempt that saw an answer: what the provider said in the end.
    let answered = effect.attempts.iter().flatten().rev().find(|attempt| attempt.response_digest.is_some());
    vec![
        ("status", effect.response_status.map(|status| status.to_string())),
        (
            "answer",
            answered.and_then(|attempt| attempt.response_digest.as_ref().map(|hex| format!("sha256 {hex}"))),
        ),
        ("what happened", effect.error.clone()),
    ]
}

fn when(effect: &EffectJson, now: Timestamp) -> Vec<Row> {
    let at = |moment: &String| {
        let relative = moment.parse().map(|at| format!("  ({})", words::relative(at, now)));
        format!("{moment}{}", relative.unwrap_or_default())
    };
    vec![
        ("created", Some(at(&effect.created_at))),
        ("dispatched", effect.dispatched_at.as_ref().map(at)),
        ("unknown since", effect.unknown_since.as_ref().map(at)),
        ("next look", effect.next_look_at.as_ref().map(at)),
        ("settled", effect.settled_at.as_ref().map(at)),
        ("replay until", effect.replay_until.as_ref().map(at)),
    ]
}

fn linked(effect: &EffectJson) -> Vec<Row> {
    let depends_on = effect.depends_on.iter().flatten();
    let depends_on: Vec<_> = depends_on.map(|on| format!("{} = {}", on.effect, on.outcome)).collect();
    let compensated_by = effect.compensated_by.as_deref().unwrap_or_default().join(", ");
    let some = |text: String| (!text.is_empty()).then_some(text);
    vec![
        ("retry of", effect.retry_of.clone()),
        ("retried by", effect.retried_by.clone()),
        ("depends on", some(depends_on.join(", "))),
        ("compensates", effect.compensates.clone()),
        ("compensated by", some(compensated_by)),
        ("approval", effect.approval_id.clone()),
    ]
}

fn section(text: &mut String, title: &str, rows: &[Row]) {
    let known: Vec<_> =
        rows.iter().filter_map(|(name, value)| value.clone().map(|value| (*name, value))).collect();
    let written = facts(&known);
    lines(text, title, written.lines().map(str::to_owned));
}

fn lines(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        text.push_str(&format!("\n{title}\n"));
        lines.for_each(|line| text.push_str(&format!("  {line}\n")));
    }
}

fn reservation(held: &ReservationJson, currency: Option<&str>) -> String {
    let amount = words::amount(held.amount, currency);
    let consumed = held.consumed.filter(|consumed| *consumed != held.amount && held.state == "consumed");
    let actual = consumed.map(|actual| format!(" ({} of it)", words::amount(actual, currency)));
    format!("{}: {amount} {}{}", held.limit, held.state, actual.unwrap_or_default())
}

fn evidence(fact: &EvidenceJson) -> String {
    let source = fact.source.as_deref().map(|source| format!("  by {source}")).unwrap_or_default();
    format!("#{}  {}  {}{source}  {}", fact.seq, fact.at, fact.kind, fact.text)
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
