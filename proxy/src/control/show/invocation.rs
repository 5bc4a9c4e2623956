//! Invocations: the same record as the effects, as the published client reads it.

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::effect::{Grade, Outcome, Rejection, SettledResult, Stage};
use oncegate_policy::id::InvocationId;
use oncegate_policy::plain::PlainStatus;
use oncegate_policy::refusal::Refusal;
use oncegate_store::InvocationView;
use oncegate_store::plain::PlainView;
use oncegate_store::view::EffectView;
use serde_json::Value;

use super::{failed, moment, nothing_left};
use crate::asking::Fresh;
use crate::control::view::{DecisionJson, InvocationJson};
use crate::respond::unknown_sentence;

/// An invocation. `with_body` shows what the provider said.
#[must_use]
pub fn invocation(view: &EffectView, with_body: bool) -> InvocationJson {
    let stage = &view.stage;
    let kept = view.response.as_ref();
    InvocationJson {
        id: Some(view.invocation.to_string()),
        invocation_id: Some(view.invocation.to_string()),
        action_name: view.action.to_string(),
        caller: view.caller.to_string(),
        status: stage.invocation_status().to_owned(),
        outcome: stage.outcome().word().to_owned(),
        grade: Some(stage.grade().word().to_owned()),
        effect_id: Some(view.id.to_string()),
        pending_approval: matches!(stage, Stage::AwaitingApproval { .. }),
        approval_id: view.approval.as_ref().map(ToString::to_string),
        response_status: view.response_status,
        body: kept.filter(|_| with_body).map_or(Value::Null, |kept| body(&kept.body)),
        error: error(view),
        decision: decision(stage),
        retry_of: view.retry_of.as_ref().map(ToString::to_string),
        retried_by: view.retried_by.as_ref().map(ToString::to_string),
        created_at: Some(moment(view.created_at)),
        replayed: None,
    }
}

/// What was refused before it became an invocation: nothing was sent, and its key stays free.
#[must_use]
pub fn refused(caller: &CallerName, action: &ActionName, refusal: &Refusal) -> InvocationJson {
    InvocationJson {
        status: "failed".to_owned(),
        outcome: Outcome::NotDispatched.word().to_owned(),
        grade: Some(Grade::Refused.word().to_owned()),
        decision: Some(denial("system", refusal.code.word(), &refusal.sentence)),
        ..without_record(caller, action, &refusal.sentence)
    }
}

/// What may have been sent, and could not be written down.
#[must_use]
pub fn unrecorded(caller: &CallerName, action: &ActionName, ids: &Fresh) -> InvocationJson {
    InvocationJson {
        id: Some(ids.invocation.to_string()),
        invocation_id: Some(ids.invocation.to_string()),
        effect_id: Some(ids.effect.to_string()),
        status: "unknown".to_owned(),
        outcome: Outcome::Unknown.word().to_owned(),
        grade: Some(Grade::Unknown.word().to_owned()),
        ..without_record(caller, action, &unknown_sentence(&ids.effect))
    }
}

/// The same of an action that is not governed.
#[must_use]
pub fn unrecorded_plain(caller: &CallerName, action: &ActionName, ids: &Fresh) -> InvocationJson {
    InvocationJson {
        id: Some(ids.invocation.to_string()),
        invocation_id: Some(ids.invocation.to_string()),
        status: PlainStatus::Unknown.word().to_owned(),
        outcome: Outcome::Unknown.word().to_owned(),
        ..without_record(caller, action, &unknown_plain(&ids.invocation))
    }
}

/// An invocation of either kind.
#[must_use]
pub fn either(view: &InvocationView, with_body: bool) -> InvocationJson {
    match view {
        InvocationView::Governed(view) => invocation(view, with_body),
        InvocationView::Plain(view) => plain(view, with_body),
    }
}

/// An invocation of an action that is not governed: it has no effect and no grade.
#[must_use]
pub fn plain(view: &PlainView, with_body: bool) -> InvocationJson {
    let (outcome, error) = match view.status {
        PlainStatus::Running => (Outcome::Pending, None),
        PlainStatus::Succeeded => (Outcome::Succeeded, None),
        PlainStatus::Failed => (Outcome::Failed, Some(failed_plain(view))),
        PlainStatus::Unknown => (Outcome::Unknown, Some(unknown_plain(&view.id))),
    };
    let kept = view.response.as_ref();
    InvocationJson {
        id: Some(view.id.to_string()),
        invocation_id: Some(view.id.to_string()),
        action_name: view.action.to_string(),
        caller: view.caller.to_string(),
        status: view.status.word().to_owned(),
        outcome: outcome.word().to_owned(),
        grade: None,
        effect_id: None,
        pending_approval: false,
        approval_id: None,
        response_status: view.response_status,
        body: kept.filter(|_| with_body).map_or(Value::Null, |kept| body(&kept.body)),
        error,
        decision: None,
        retry_of: view.retry_of.as_ref().map(ToString::to_string),
        retried_by: view.retried_by.as_ref().map(ToString::to_string),
        created_at: Some(moment(view.created_at)),
        replayed: None,
    }
}

fn failed_plain(view: &PlainView) -> String {
    match (&view.never_sent, &view.resolution, view.response_status) {
        (Some(proof), _, _) => nothing_left(proof),
        (None, Some(word), _) => format!("settled as failed by {}: {}", word.by, word.evidence),
        (None, None, Some(status)) => format!("the provider answered {status}"),
        (None, None, None) => "it was not applied".to_owned(),
    }
}

fn unknown_plain(id: &InvocationId) -> String {
    format!(
        "The provider may have applied invocation {id}; its action is not governed, so nobody reconciles it. Do not retry; a person has to settle it."
    )
}

fn without_record(caller: &CallerName, action: &ActionName, error: &str) -> InvocationJson {
    InvocationJson {
        id: None,
        invocation_id: None,
        action_name: action.to_string(),
        caller: caller.to_string(),
        status: String::new(),
        outcome: String::new(),
        grade: None,
        effect_id: None,
        pending_approval: false,
        approval_id: None,
        response_status: None,
        body: Value::Null,
        error: Some(error.to_owned()),
        decision: None,
        retry_of: None,
        retried_by: None,
        created_at: None,
        replayed: None,
    }
}

/// What a person decided over, right after it; `refusal` when a rule said no to what the person had approved.
#[must_use]
pub fn decided(view: &EffectView, refusal: Option<&Refusal>) -> InvocationJson {
    let shown = invocation(view, false);
    match refusal {
        Some(refusal) => InvocationJson {
            error: Some(refusal.sentence.clone()),
            decision: Some(denial("system", refusal.code.word(), &refusal.sentence)),
            ..shown
        },
        None => shown,
    }
}

fn body(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

fn error(view: &EffectView) -> Option<String> {
    match &view.stage {
        Stage::AwaitingApproval { .. } | Stage::Ready | Stage::Dispatching { .. } => None,
        Stage::Reconciling { .. } => Some(unknown_sentence(&view.id)),
        Stage::Settled(settlement) => match settlement.result {
            SettledResult::Confirmed | SettledResult::Acknowledged => None,
            SettledResult::Failed => Some(failed(view)),
        },
        Stage::Rejected(_) => rejected(&view.stage),
    }
}

/// Why it ended unsent. The same of the effect and of its invocation.
pub(super) fn rejected(stage: &Stage) -> Option<String> {
    decision(stage).map(|decision| decision.explanation)
}

fn decision(stage: &Stage) -> Option<DecisionJson> {
    let rejection = match stage {
        Stage::Rejected(rejection) => rejection,
        Stage::AwaitingApproval { .. }
        | Stage::Ready
        | Stage::Dispatching { .. }
        | Stage::Reconciling { .. }
        | Stage::Settled(_) => return None,
    };
    Some(match rejection {
        Rejection::Denied => {
            denial("human", "APPROVAL_DENIED", "A person has denied this. Nothing was sent. Do not retry.")
        }
        Rejection::Expired => {
            denial("system", "APPROVAL_EXPIRED", "Nobody approved this in time. Nothing was sent.")
        }
        Rejection::Refused(code) => {
            denial("system", code.word(), "This was refused when it was to be sent. Nothing was sent.")
        }
    })
}

fn denial(source: &str, code: &str, explanation: &str) -> DecisionJson {
    DecisionJson {
        source: source.to_owned(),
        code: code.to_owned(),
        effect: "denied".to_owned(),
        explanation: explanation.to_owned(),
    }
}
