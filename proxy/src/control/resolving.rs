//! What a person does about one effect: a note, a resolution, a replay. Never by the key that asked for it (P8).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use oncegate_policy::caller::Scope;
use oncegate_policy::id::EffectId;
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_store::replay::ReplayRefusal;
use oncegate_store::resolve::{PartialEffect, REASON_CHARS_MIN, Resolution, Resolved, ResolvedAs};
use serde::Deserialize;
use serde_json::json;

use super::answer::{ApiError, ErrorCode, one};
use super::auth::Asker;
use super::effects::{effect_id, find};
use super::params::Id;
use super::{body, show};
use crate::let_through::{self, ANSWER_WITHIN, Replayed};
use crate::state::Sidecar;
use crate::task;

/// Longest note, reason or reference, in characters.
const TEXT_CHARS_MAX: usize = 4_000;
/// Dimensions that one resolution may speak of.
const ACTUAL_MAX: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    note: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resolve {
    outcome: String,
    reason: String,
    partial_effect: Option<String>,
    actual_impact: Option<Vec<Actual>>,
    external_reference: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Actual {
    dimension: String,
    currency: Option<String>,
    unit: Option<String>,
    amount: i64,
    bound: Option<String>,
}

/// `POST /actions/effects/{id}/notes`
pub(crate) async fn note(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ActionsResolve)?;
    let Note { note } = body::object(body).await?;
    let note = body::text("note", &note, TEXT_CHARS_MAX)?;
    let id = effect_id(&id)?;
    let noted = sidecar.store.note(&id, &asker.name, &note, sidecar.clock.now()).await;
    noted
        .map_err(|error| ApiError::unrecorded("add the note", &error))?
        .ok_or_else(|| ApiError::not_found("effect"))?;
    now(&sidecar, &id).await
}

/// `POST /actions/effects/{id}/resolve`
pub(crate) async fn resolve(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ActionsResolve)?;
    let asked: Resolve = body::object(body).await?;
    let id = effect_id(&id)?;
    let resolution = resolution(&asked)?;
    fits(&resolution, find(&sidecar, &id).await?.view.impact.as_ref())?;
    let resolved = sidecar.store.resolve(&id, &asker.name, resolution, sidecar.clock.now()).await;
    match resolved.map_err(|error| ApiError::unrecorded("record the resolution", &error))? {
        Resolved::Done(view) => {
            let outcome = view.stage.outcome().word();
            tracing::info!(effect.id = %id, caller.name = %asker.name, outcome, "resolved by a person");
            now(&sidecar, &id).await
        }
        Resolved::OwnEffect(_) => Err(ApiError::own("an effect never resolves it")),
        Resolved::NotUnknown(view) => {
            let stage = view.stage.word();
            let message = format!("only an unknown effect is resolved, and this one is {stage}");
            Err(ApiError::new(ErrorCode::Conflict, message)
                .with_details(json!({ "reason": "not_unknown", "stage": stage })))
        }
        Resolved::ReasonTooShort => Err(too_short()),
        Resolved::Missing => Err(ApiError::not_found("effect")),
    }
}

/// `POST /actions/effects/{id}/replay`: the very same bytes, under the key that the provider deduplicates on.
pub(crate) async fn replay(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ActionsResolve)?;
    body::nothing(body).await?;
    let id = effect_id(&id)?;
    if find(&sidecar, &id).await?.view.caller == asker.name {
        // Before its credential is fetched; the store says so again.
        return Err(ApiError::own("an effect never replays it"));
    }
    let task = {
        let (sidecar, id, by) = (Arc::clone(&sidecar), id.clone(), asker.name.clone());
        task::start(async move { let_through::replay(&sidecar, &id, &by).await })
    };
    let replayed = match tokio::time::timeout(ANSWER_WITHIN, task).await {
        // Still listening to the provider; what it says is recorded when it comes.
        Err(_) => return now(&sidecar, &id).await,
        Ok(Err(panicked)) => return Err(ApiError::internal("replay the effect", &panicked)),
        Ok(Ok(replayed)) => replayed.map_err(|error| ApiError::internal("record the replay", &error))?,
    };
    match replayed {
        Replayed::Done(_) => now(&sidecar, &id).await,
        Replayed::Refused(refusal) => Err(not_replayed(&refusal)),
        Replayed::Unavailable(refusal) => Err(replay_refused(refusal.code.word(), &refusal.sentence)),
        Replayed::Missing => Err(ApiError::not_found("effect")),
    }
}

async fn now(sidecar: &Arc<Sidecar>, id: &EffectId) -> Result<Response, ApiError> {
    Ok(one(show::detail(&find(sidecar, id).await?)))
}

fn not_replayed(refusal: &ReplayRefusal) -> ApiError {
    let why = match refusal {
        ReplayRefusal::OwnEffect => return ApiError::own("an effect never replays it"),
        ReplayRefusal::Unsupported => {
            "the provider is not known to deduplicate on a key for this action".to_owned()
        }
        ReplayRefusal::KeyNotKept => {
            "the provider answered the first try and keeps no key of what was no success: it might do it \
             a second time"
                .to_owned()
        }
        ReplayRefusal::WindowClosed => "the provider may have forgotten the key by now".to_owned(),
        ReplayRefusal::NotUnknown => "only an unknown effect is replayed".to_owned(),
        ReplayRefusal::Halted(reason) => format!("all writes are halted by the operator ({reason})"),
        ReplayRefusal::InFlight => {
            "the dispatch is still listened to, or another replay is on its way".to_owned()
        }
    };
    replay_refused(refusal.word(), &why)
}

fn replay_refused(reason: &str, why: &str) -> ApiError {
    let why = why.trim_end_matches('.');
    ApiError::new(ErrorCode::ReplayRefused, format!("no replay: {why}. Nothing was sent."))
        .with_details(json!({ "reason": reason }))
}

fn too_short() -> ApiError {
    ApiError::parameter("reason", &format!("a reason of at least {REASON_CHARS_MIN} characters"))
}

fn resolution(asked: &Resolve) -> Result<Resolution, ApiError> {
    let outcome = match asked.outcome.as_str() {
        "succeeded" => ResolvedAs::Succeeded,
        "failed" => ResolvedAs::Failed,
        _ => return Err(ApiError::parameter("outcome", "succeeded or failed")),
    };
    if asked.reason.trim().chars().count() < REASON_CHARS_MIN {
        return Err(too_short());
    }
    let partial_effect = asked.partial_effect.as_deref().map(|word| {
        [PartialEffect::None, PartialEffect::Possible, PartialEffect::Confirmed]
            .into_iter()
            .find(|known| known.word() == word)
            .ok_or_else(|| ApiError::parameter("partialEffect", "none, possible or confirmed"))
    });
    let actual = asked.actual_impact.as_deref().unwrap_or_default();
    if actual.len() > ACTUAL_MAX {
        return Err(ApiError::parameter("actualImpact", "a list of at most 16"));
    }
    Ok(Resolution {
        outcome,
        reason: body::text("reason", &asked.reason, TEXT_CHARS_MAX)?,
        partial_effect: partial_effect.transpose()?,
        actual_impact: actual.iter().map(actual_impact).collect::<Result<_, _>>()?,
        external_reference: body::maybe_text(
            "externalReference",
            asked.external_reference.as_ref(),
            TEXT_CHARS_MAX,
        )?,
    })
}

/// What a person says was taken counts as they say it, or is refused: what is passed over would be believed to be recorded.
fn fits(resolution: &Resolution, impact: Option<&Impact>) -> Result<(), ApiError> {
    let refuse = |expected: &str| Err(ApiError::parameter("actualImpact", expected));
    let said = &resolution.actual_impact;
    let Some((dimension, amount)) = said.first() else { return Ok(()) };
    if said.len() > 1 {
        return refuse("one entry: an effect takes of one dimension");
    }
    let Some(impact) = impact else { return refuse("left out: this effect takes nothing of a limit") };
    if *dimension != impact.dimension {
        let (word, unit) = (impact.dimension.word(), impact.dimension.unit());
        return refuse(&format!("in the effect's own dimension, {word} in {unit}"));
    }
    if *amount > 0 && resolution.partial_effect == Some(PartialEffect::None) {
        return refuse("0, or left out, beside `partialEffect: none`");
    }
    Ok(())
}

fn actual_impact(actual: &Actual) -> Result<(Dimension, i64), ApiError> {
    let bounds = [Bound::Exact, Bound::UpperBound];
    if actual.bound.as_ref().is_some_and(|word| bounds.iter().all(|bound| bound.word() != word)) {
        return Err(ApiError::parameter("actualImpact.bound", "exact or upper_bound"));
    }
    if actual.amount < 0 {
        return Err(ApiError::parameter("actualImpact.amount", "a whole number, 0 or more"));
    }
    let (currency, unit) = (actual.currency.as_deref(), actual.unit.as_deref());
    // The published client has no `unit` here: what is not money has its unit in `currency`.
    let (currency, unit) = match actual.dimension.as_str() {
        "money" => (currency, unit),
        _ => (None, unit.or(currency)),
    };
    Ok((dimension(Some("actualImpact"), &actual.dimension, currency, unit)?, actual.amount))
}

/// The words of a dimension, as impacts and limits have them; what is found wrong stands below `member`, where there is one.
/// What says two things would hold something else than was meant: a limit in a unit that no action has.
pub(crate) fn dimension(
    member: Option<&str>,
    word: &str,
    currency: Option<&str>,
    unit: Option<&str>,
) -> Result<Dimension, ApiError> {
    let name = |text: &str| {
        text.len() <= 32
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let place = |what: &str| member.map_or_else(|| what.to_owned(), |member| format!("{member}.{what}"));
    let wrong = |what: &str, expected: &str| Err(ApiError::parameter(&place(what), expected));
    match (word, currency, unit) {
        ("money", Some(currency), Some(unit)) if !currency.eq_ignore_ascii_case(unit) => {
            wrong("unit", "left out for money: its unit is the `currency`")
        }
        ("money", Some(currency), _) | ("money", None, Some(currency)) => {
            let currency = currency.to_ascii_lowercase();
            if currency.len() == 3 && currency.bytes().all(|b| b.is_ascii_lowercase()) {
                return Ok(Dimension::Money { currency });
            }
            wrong("currency", "three letters (ISO 4217)")
        }
        ("money", None, None) => wrong("currency", "given for money"),
        (_, Some(_), _) => wrong("currency", "left out: it goes with money only"),
        ("resource_mutations", None, None | Some("resource_mutations")) => Ok(Dimension::ResourceMutations),
        ("resource_mutations", None, Some(_)) => wrong("unit", "left out for resource_mutations"),
        (word, None, unit) if name(word) => {
            let unit = body::text(&place("unit"), unit.unwrap_or(word), 64)?;
            Ok(Dimension::Declared { name: word.to_owned(), unit })
        }
        (_, None, _) => wrong("dimension", "money, resource_mutations or a lower-case name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_read_by_their_words() {
        let read = |word: &str, unit: Option<&str>| dimension(None, word, None, unit).ok();
        assert_eq!(read("money", Some("USD")), Some(Dimension::Money { currency: "usd".into() }));
        assert_eq!(read("resource_mutations", None), Some(Dimension::ResourceMutations));
        let emails = Dimension::Declared { name: "emails".into(), unit: "emails".into() };
        assert_eq!(read("emails", None), Some(emails));
        for (word, unit) in [("money", None), ("money", Some("dollars")), ("resource_mutations", Some("x"))] {
            assert_eq!(read(word, unit), None, "{word}");
        }
        assert_eq!(read("Emails", None), None);
        let usd = |word: &str, unit: Option<&str>| dimension(Some("x"), word, Some("usd"), unit);
        for unit in [None, Some("USD")] {
            assert_eq!(usd("money", unit).ok(), Some(Dimension::Money { currency: "usd".into() }));
        }
        for (word, unit) in [("money", Some("eur")), ("emails", None), ("resource_mutations", None)] {
            assert!(usd(word, unit).is_err(), "{word}");
        }
    }

    #[test]
    fn a_resolution_is_checked_before_anything_is_recorded() {
        let asked = |text: &str| resolution(&serde_json::from_str(text).unwrap());
        let good = asked(
            r#"{"outcome":"failed","reason":"the bank says no","partialEffect":"confirmed",
                "actualImpact":[{"dimension":"money","currency":"usd","amount":500,"bound":"exact"}]}"#,
        )
        .unwrap();
        assert_eq!(good.actual_impact, [(Dimension::Money { currency: "usd".into() }, 500)]);
        for bad in [
            r#"{"outcome":"unknown","reason":"the bank says no"}"#,
            r#"{"outcome":"failed","reason":"  too short  "}"#,
            r#"{"outcome":"failed","reason":"the bank says no","partialEffect":"maybe"}"#,
            r#"{"outcome":"failed","reason":"the bank says no","actualImpact":[{"dimension":"money","currency":"usd","amount":-1}]}"#,
        ] {
            assert!(asked(bad).is_err(), "{bad}");
        }
    }
}
