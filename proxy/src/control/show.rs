//! From what the store shows to the JSON shapes of the API.

use oncegate_policy::effect::{Outcome, SettledResult, Stage, Verification};
use oncegate_policy::impact::{Dimension, Impact};
use oncegate_policy::time::Timestamp;
use oncegate_store::view::{
    AttemptView, EffectDetail, EffectView, EvidenceView, Exposure, NeverSent, Reservation,
};
use serde_json::Value;

use super::view::{
    AttemptJson, DependencyJson, EffectJson, EvidenceJson, ImpactJson, LimitJson, ReservationJson,
};
use crate::respond::settled_as_failed;

mod house;
mod invocation;

pub use house::{approval, chain, environment, pruned};
pub use invocation::{decided, either, invocation, plain, refused, unrecorded, unrecorded_plain};

/// An effect as it stands in lists.
#[must_use]
pub fn effect(view: &EffectView) -> EffectJson {
    let stage = &view.stage;
    EffectJson {
        id: view.id.to_string(),
        invocation_id: view.invocation.to_string(),
        action: view.action.to_string(),
        action_name: view.action.to_string(),
        caller: view.caller.to_string(),
        listener: view.listener.clone(),
        status: stage.invocation_status().to_owned(),
        stage: stage.word().to_owned(),
        outcome: stage.outcome().word().to_owned(),
        grade: stage.grade().word().to_owned(),
        verification: stage.verification().word().to_owned(),
        unresolved_exposure: stage.outcome() == Outcome::Unknown,
        subject: view.subject.clone(),
        impact: view.impact.as_ref().map(impact),
        target: view.target.clone(),
        request_digest: view.request_digest.clone(),
        provider_key: view.provider_key.clone(),
        operation_key: view.declared_key.clone().or_else(|| view.second_key.clone()),
        idempotency_key: view.caller_key.clone(),
        response_status: view.response_status,
        error: match &view.stage {
            Stage::Settled(settlement) if settlement.result == SettledResult::Failed => Some(failed(view)),
            Stage::Rejected(_) => invocation::rejected(&view.stage),
            Stage::AwaitingApproval { .. }
            | Stage::Ready
            | Stage::Dispatching { .. }
            | Stage::Reconciling { .. }
            | Stage::Settled(_) => what_went_wrong(view),
        },
        can_read_back: view.can_read_back,
        next_look_at: next_look(stage).map(moment),
        looks: view.looks,
        replay_until: view.replay_until.map(moment),
        retry_of: view.retry_of.as_ref().map(ToString::to_string),
        retried_by: view.retried_by.as_ref().map(ToString::to_string),
        compensates: view.compensates.as_ref().map(ToString::to_string),
        approval_id: view.approval.as_ref().map(ToString::to_string),
        preview_id: view.preview.as_ref().map(ToString::to_string),
        fault_drill: view.drill.clone(),
        credential: view.credential.clone(),
        created_at: moment(view.created_at),
        dispatched_at: view.claimed_at.map(moment),
        unknown_since: view.unknown_since.map(moment),
        settled_at: settled(stage).map(moment),
        depends_on: None,
        compensated_by: None,
        attempts: None,
        evidence: None,
        reservations: None,
    }
}

/// An effect with everything that is known of it.
#[must_use]
pub fn detail(detail: &EffectDetail) -> EffectJson {
    let depends_on = detail.depends_on.iter().map(|(effect, outcome)| DependencyJson {
        effect: effect.to_string(),
        outcome: outcome.word().to_owned(),
    });
    EffectJson {
        depends_on: Some(depends_on.collect()),
        compensated_by: Some(detail.compensated_by.iter().map(ToString::to_string).collect()),
        attempts: Some(detail.attempts.iter().map(attempt).collect()),
        evidence: Some(detail.evidence.iter().map(evidence).collect()),
        reservations: Some(detail.reservations.iter().map(reservation).collect()),
        ..effect(&detail.view)
    }
}

/// A limit.
#[must_use]
pub fn limit(exposure: &Exposure) -> LimitJson {
    let limit = &exposure.limit;
    LimitJson {
        id: exposure.id.to_string(),
        name: limit.name.clone(),
        dimension: limit.dimension.word().to_owned(),
        currency: currency(&limit.dimension),
        unit: limit.dimension.unit().to_owned(),
        period: limit.period.word().to_owned(),
        period_start: moment(exposure.period_start),
        action_name: limit.action.as_ref().map(ToString::to_string),
        resource_prefix: limit.resource_prefix.clone(),
        amount: limit.amount,
        consumed: exposure.usage.consumed,
        reserved: exposure.usage.reserved,
        unknown_exposure: exposure.usage.unknown_exposure,
        available: exposure.available(),
        archived_at: exposure.archived_at.map(moment),
    }
}

pub(crate) fn impact(impact: &Impact) -> ImpactJson {
    ImpactJson {
        dimension: impact.dimension.word().to_owned(),
        currency: currency(&impact.dimension),
        unit: impact.dimension.unit().to_owned(),
        amount: impact.amount,
        bound: impact.bound.word().to_owned(),
    }
}

fn attempt(attempt: &AttemptView) -> AttemptJson {
    AttemptJson {
        id: attempt.id.to_string(),
        kind: attempt.kind.word().to_owned(),
        author: attempt.author.clone(),
        started_at: moment(attempt.started_at),
        ended_at: attempt.ended_at.map(moment),
        verdict: attempt.verdict.clone(),
        seen: attempt.seen.clone(),
        step: attempt.step.clone(),
        cause: attempt.cause.clone(),
        response_status: attempt.status,
        response_digest: attempt.digest.clone(),
    }
}

fn evidence(evidence: &EvidenceView) -> EvidenceJson {
    EvidenceJson {
        seq: evidence.seq,
        at: moment(evidence.at),
        kind: evidence.kind.clone(),
        source: evidence.author.clone(),
        text: evidence.text.clone(),
        detail: camel_case(&evidence.detail),
    }
}

/// Rows have snake case, and the API has none of it.
fn camel_case(detail: &Value) -> Value {
    match detail {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (camel_cased(name), camel_case(value)));
            Value::Object(members.collect())
        }
        Value::Array(items) => items.iter().map(camel_case).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => detail.clone(),
    }
}

fn camel_cased(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut name, part| {
        let mut letters = part.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
        name
    })
}

fn reservation(reservation: &Reservation) -> ReservationJson {
    ReservationJson {
        limit_id: reservation.limit.to_string(),
        limit: reservation.name.clone(),
        amount: reservation.amount,
        state: reservation.state.clone(),
        consumed: reservation.consumed,
        ended_at: reservation.ended_at.map(moment),
    }
}

fn currency(dimension: &Dimension) -> Option<String> {
    match dimension {
        Dimension::Money { currency } => Some(currency.clone()),
        Dimension::ResourceMutations | Dimension::Declared { .. } => None,
    }
}

fn what_went_wrong(view: &EffectView) -> Option<String> {
    let never = view.never_sent.as_ref().map(nothing_left);
    never.or_else(|| {
        view.last_loss.as_ref().map(|loss| format!("answer lost ({}): {}", loss.phase.word(), loss.cause))
    })
}

/// Why it has failed. The same with the answer at hand and without it.
fn failed(view: &EffectView) -> String {
    match (view.stage.verification(), &view.never_sent, view.response_status) {
        (Verification::Unverified, Some(proof), _) => nothing_left(proof),
        (Verification::Unverified, None, Some(status)) => format!("the provider answered {status}"),
        (Verification::Unverified, None, None) | (Verification::Provider | Verification::Manual, _, _) => {
            settled_as_failed(view)
        }
    }
}

fn nothing_left(proof: &NeverSent) -> String {
    format!("nothing left ({}): {}", proof.step, proof.cause)
}

fn next_look(stage: &Stage) -> Option<Timestamp> {
    match stage {
        Stage::Reconciling { next_look_at, .. } => *next_look_at,
        Stage::AwaitingApproval { .. }
        | Stage::Ready
        | Stage::Dispatching { .. }
        | Stage::Settled(_)
        | Stage::Rejected(_) => None,
    }
}

fn settled(stage: &Stage) -> Option<Timestamp> {
    match stage {
        Stage::Settled(settlement) => Some(settlement.at),
        Stage::AwaitingApproval { .. }
        | Stage::Ready
        | Stage::Dispatching { .. }
        | Stage::Reconciling { .. }
        | Stage::Rejected(_) => None,
    }
}

/// `2026-11-29T19:40:56.123Z`
#[must_use]
pub fn moment(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(moment) => format!("{moment:.3}"),
        // Beyond year 9999: still a moment that can be told from others.
        Err(_) => format!("{}ms", at.0),
    }
}

#[cfg(test)]
mod tests {
    use oncegate_policy::action::ActionName;
    use oncegate_policy::caller::CallerName;
    use oncegate_policy::effect::Settlement;
    use oncegate_policy::exchange::{Loss, Phase};
    use oncegate_policy::fingerprint::Fingerprint;
    use oncegate_policy::id::{EffectId, InvocationId, LimitId};
    use oncegate_policy::impact::Bound;
    use oncegate_policy::limit::{Limit, Period, Usage};

    use super::*;

    const ULID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

    fn usd() -> Dimension {
        Dimension::Money { currency: "usd".into() }
    }

    fn lost(stage: Stage) -> EffectView {
        EffectView {
            id: EffectId::from_ulid(ULID),
            invocation: InvocationId::from_ulid(ULID),
            caller: CallerName::parse("agent").unwrap(),
            action: ActionName::parse("refund").unwrap(),
            listener: "proxy".into(),
            stage,
            subject: Some("pi_1".into()),
            resource: None,
            impact: Some(Impact { dimension: usd(), amount: Some(12_000), bound: Bound::Exact }),
            provider_key: "eff-key".into(),
            caller_key: None,
            second_key: None,
            declared_key: Some("refund:42".into()),
            fingerprint: Fingerprint::from_hex(&"0".repeat(64)).unwrap(),
            request_digest: "0".repeat(64),
            target: "POST https://api.stripe.com/v1/refunds".into(),
            response: None,
            response_status: None,
            last_loss: Some(Loss { phase: Phase::AwaitingHead, cause: "reset".into(), status: None }),
            never_sent: None,
            created_at: Timestamp(0),
            claimed_at: Some(Timestamp(1)),
            unknown_since: Some(Timestamp(2)),
            looks: 0,
            can_read_back: true,
            replay_until: None,
            retry_of: None,
            retried_by: None,
            compensates: None,
            approval: None,
            preview: None,
            drill: None,
            credential: Some([("header authorization".to_owned(), vec!["STRIPE_KEY".to_owned()])].into()),
        }
    }

    #[test]
    fn an_unknown_effect() {
        let stage =
            Stage::Reconciling { since: Timestamp(2), next_look_at: Some(Timestamp(30_002)), looks: 0 };
        let shown = serde_json::to_value(effect(&lost(stage))).unwrap();
        for (member, value) in [
            ("id", serde_json::json!(format!("eff_{ULID}"))),
            ("invocationId", serde_json::json!(format!("inv_{ULID}"))),
            ("status", "unknown".into()),
            ("stage", "reconciling".into()),
            ("outcome", "unknown".into()),
            ("grade", "unknown".into()),
            ("verification", "unverified".into()),
            ("unresolvedExposure", true.into()),
            ("nextLookAt", "1970-01-01T00:00:30.002Z".into()),
            ("error", "answer lost (awaiting_head): reset".into()),
            ("retryOf", Value::Null),
        ] {
            assert_eq!(shown[member], value, "{member}");
        }
        assert_eq!(shown["impact"]["amount"], 12_000);
        assert!(shown.get("attempts").is_none());
    }

    #[test]
    fn what_stands_in_evidence_is_in_camel_case() {
        let row = serde_json::json!({
            "actual_impact": [{ "dimension": "resource_mutations" }], "status": 200, "external_reference": "T_1",
        });
        let shown = serde_json::json!({
            "actualImpact": [{ "dimension": "resource_mutations" }], "status": 200, "externalReference": "T_1",
        });
        assert_eq!(camel_case(&row), shown);
        assert_eq!(["a_b_c", "a", "", "_x"].map(camel_cased), ["aBC", "a", "", "X"]);
    }

    #[test]
    fn a_settled_effect_has_no_exposure() {
        let settlement = Settlement {
            result: SettledResult::Confirmed,
            verification: Verification::Provider,
            at: Timestamp(9),
        };
        let shown = effect(&lost(Stage::Settled(settlement)));
        assert_eq!((shown.grade.as_str(), shown.verification.as_str()), ("confirmed", "provider"));
        assert!(!shown.unresolved_exposure);
        assert_eq!(shown.settled_at.as_deref(), Some("1970-01-01T00:00:00.009Z"));
    }

    #[test]
    fn a_limit_says_what_is_left() {
        let exposure = Exposure {
            id: LimitId::from_ulid(ULID),
            limit: Limit {
                name: "refunds-per-day".into(),
                dimension: usd(),
                period: Period::Day,
                amount: 50_000,
                action: None,
                resource_prefix: None,
            },
            period_start: Timestamp(0),
            usage: Usage { consumed: 0, reserved: 12_000, unknown_exposure: 12_000 },
            archived_at: None,
        };
        let shown = serde_json::to_value(limit(&exposure)).unwrap();
        assert_eq!(shown["available"], 38_000);
        assert_eq!(shown["unknownExposure"], 12_000);
        assert_eq!(shown["currency"], "usd");
        assert_eq!(shown["period"], "day");
        // A client that reads shapes back reads this one.
        assert!(serde_json::from_value::<LimitJson>(shown).is_ok());
    }
}
