//! What belongs to no single effect: questions to a person, the halt, retention, the evidence chain.

use oncegate_store::approval::ApprovalView;
use oncegate_store::events::ChainReport;
use oncegate_store::halt::Halt;
use oncegate_store::prune::Pruned;
use serde_json::{Value, json};

use super::moment;
use crate::control::view::{ApprovalJson, EnvironmentJson};

/// A question to a person.
#[must_use]
pub fn approval(view: &ApprovalView) -> ApprovalJson {
    ApprovalJson {
        id: view.id.to_string(),
        status: view.status.clone(),
        title: view.title.clone(),
        description: view.description.clone(),
        payload: view.payload.clone().unwrap_or(Value::Null),
        effect_id: view.effect.as_ref().map(ToString::to_string),
        requested_by: view.caller.to_string(),
        requested_at: moment(view.asked_at),
        expires_at: moment(view.expires_at),
        decided_by: view.decided_by.as_ref().map(ToString::to_string),
        decided_at: view.decided_at.map(moment),
        decision_note: view.note.clone(),
        decision_origin: match (&view.decided_by, view.decided_at) {
            (Some(_), _) => Some("human".to_owned()),
            // By its time.
            (None, Some(_)) => Some("system".to_owned()),
            (None, None) => None,
        },
    }
}

/// Whether writes are halted.
#[must_use]
pub fn environment(halt: Option<&Halt>) -> EnvironmentJson {
    EnvironmentJson {
        id: "local".to_owned(),
        status: if halt.is_some() { "halted" } else { "active" }.to_owned(),
        halted: halt.is_some(),
        halt_reason: halt.map(|halt| halt.reason.clone()),
        halted_by: halt.map(|halt| halt.by.to_string()),
        halted_at: halt.map(|halt| moment(halt.at)),
        let_go: Vec::new(),
    }
}

/// What a prune took away.
#[must_use]
pub fn pruned(pruned: &Pruned) -> Value {
    json!({
        "responses": pruned.responses,
        "shortened": pruned.shortened,
        "removed": pruned.removed,
        "previews": pruned.previews,
        "invocations": pruned.invocations,
    })
}

/// What a check of the evidence chain found.
#[must_use]
pub fn chain(report: &ChainReport) -> Value {
    let fault = report.fault.as_ref().map(|fault| json!({ "seq": fault.seq, "what": fault.what }));
    json!({ "intact": report.fault.is_none(), "events": report.rows, "fault": fault })
}
