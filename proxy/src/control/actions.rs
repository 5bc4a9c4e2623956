//! `/actions`: what is declared, read only.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use oncegate_config::model::{Action, ActionKind};
use oncegate_policy::action::ActionName;
use serde_json::{Value, json};

use super::adapter_action::{self, Shown};
use super::answer::{ApiError, one, page};
use super::auth::Asker;
use super::page::Pagination;
use super::params::Id;
use super::template_action;
use crate::adapting;
use crate::state::{Sidecar, Snapshot};

/// `act_` and the name: an action has no other id here.
pub(crate) const ID_PREFIX: &str = "act_";

/// `GET /actions`
pub(crate) async fn list(State(sidecar): State<Arc<Sidecar>>, _asker: Asker) -> Response {
    let snapshot = sidecar.snapshot();
    let actions: Vec<_> = snapshot.config.actions.values().map(shown).collect();
    let pagination = Pagination::whole(actions.len());
    page(actions, pagination)
}

/// `GET /actions/{ref}`, by name or by id
pub(crate) async fn get(
    State(sidecar): State<Arc<Sidecar>>,
    _asker: Asker,
    Id(text): Id,
) -> Result<Response, ApiError> {
    let snapshot = sidecar.snapshot();
    let name = name(&snapshot, &text)?;
    let action = snapshot.config.actions.get(&name).ok_or_else(|| ApiError::not_found("action"))?;
    Ok(one(shown(action)))
}

/// The declared action that a path names.
pub(crate) fn name(snapshot: &Snapshot, text: &str) -> Result<ActionName, ApiError> {
    let declared =
        |text: &str| ActionName::parse(text).filter(|name| snapshot.config.actions.contains_key(name));
    declared(text)
        .or_else(|| declared(text.strip_prefix(ID_PREFIX)?))
        .ok_or_else(|| ApiError::not_found("action"))
}

/// The action that a filter names, by name or by id. It need not be declared any more.
pub(crate) fn named(snapshot: &Snapshot, text: &str) -> Option<ActionName> {
    name(snapshot, text).ok().or_else(|| ActionName::parse(text))
}

/// The id of an action.
pub(crate) fn id(name: &ActionName) -> String {
    format!("{ID_PREFIX}{name}")
}

/// One definition, in the words in which it could be sent.
pub(crate) fn shown(action: &Action) -> Value {
    let of_adapter = |shown: Shown| (json!({ "adapter": shown.adapter }), true, shown.impact, Value::Null);
    let (kind, governed, impact, verify) = match &action.kind {
        ActionKind::StripeRefund(refund) => of_adapter(adapter_action::stripe_refund(action, refund)),
        ActionKind::StripeWrite(write) => {
            let Shown { adapter, impact } = adapter_action::stripe_write(action, write);
            let verify = write.route.verify.as_ref().map_or(Value::Null, template_action::verify);
            (json!({ "adapter": adapter }), true, impact, verify)
        }
        ActionKind::GithubWrite(write) => {
            let Shown { adapter, impact } = adapter_action::github_write(action, write);
            let verify = write.route.verify.as_ref().map_or(Value::Null, template_action::verify);
            (json!({ "adapter": adapter }), true, impact, verify)
        }
        ActionKind::ResendEmail(email) => of_adapter(adapter_action::resend_email(action, email)),
        ActionKind::GithubFile(file) => of_adapter(adapter_action::github_file(action, file)),
        ActionKind::Declared(declared) => (
            template_action::shown(declared),
            declared.governed,
            declared.impact.as_ref().map_or(Value::Null, template_action::impact),
            declared.verify.as_ref().map_or(Value::Null, template_action::verify),
        ),
    };
    let mut document = json!({
        "id": id(&action.name),
        "name": action.name.as_str(),
        "description": action.description,
        "enabled": action.enabled,
        "inputSchema": action.input_schema.clone().or_else(|| adapting::adapter(action).input_schema()),
        "governed": governed,
        "impact": impact,
        "verify": verify,
        "requiresApproval": action.requires_approval,
        "approvalWhen": action.approval_when.map(|when| format!("amount > {}", when.amount_above)),
        "approvalExpires": template_action::span(action.approval_expires),
        "identicalWithin": template_action::span(action.identical_within),
        "when": template_action::when(&action.when),
        "operationKey": action.operation_key.as_ref().map(ToString::to_string),
        "subject": action.subject.as_ref().map(ToString::to_string),
        "faultDrill": action.fault_drill.map(|drill| drill.word()),
    });
    if let (Some(members), Value::Object(kind)) = (document.as_object_mut(), kind) {
        members.extend(kind);
    }
    document
}
