//! `/actions/invocations`: the same record, by invocation.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use oncegate_policy::action::ActionName;
use oncegate_policy::caller::Scope;
use oncegate_policy::id::InvocationId;
use oncegate_store::plain::resolve::ResolvedPlain;
use oncegate_store::resolve::ResolvedAs;
use oncegate_store::view::EffectView;
use oncegate_store::{EffectFilter, InvocationView};
use serde::Deserialize;
use serde_json::json;

use super::answer::{ApiError, ErrorCode, one, page};
use super::auth::Asker;
use super::page::{Pagination, Window};
use super::params::{Id, Params};
use super::{body, show};
use crate::state::Sidecar;

/// Every status of an invocation.
const STATUSES: [&str; 7] =
    ["pending_approval", "running", "succeeded", "failed", "unknown", "denied", "expired"];

/// Longest evidence or reference, in characters.
const TEXT_CHARS_MAX: usize = 4_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resolve {
    outcome: String,
    evidence: String,
    external_reference: Option<String>,
}

/// `GET /actions/invocations`
pub(crate) async fn list(
    State(sidecar): State<Arc<Sidecar>>,
    _asker: Asker,
    params: Params,
) -> Result<Response, ApiError> {
    let action =
        params.read("action", "an action's name", |text| super::actions::named(&sidecar.snapshot(), text))?;
    listed(&sidecar, action, &params).await
}

/// `GET /actions/{ref}/invocations`
pub(crate) async fn of_action(
    State(sidecar): State<Arc<Sidecar>>,
    _asker: Asker,
    Id(name): Id,
    params: Params,
) -> Result<Response, ApiError> {
    let name = super::actions::name(&sidecar.snapshot(), &name)?;
    listed(&sidecar, Some(name), &params).await
}

async fn listed(
    sidecar: &Arc<Sidecar>,
    action: Option<ActionName>,
    params: &Params,
) -> Result<Response, ApiError> {
    let window = Window::read(params.get("limit"), params.get("offset"))?;
    let known = |text: &str| STATUSES.into_iter().find(|word| *word == text).map(str::to_owned);
    let status = params.read("status", "an invocation's status", known)?;
    let (limit, offset) = (window.limit, window.offset);
    let filter = EffectFilter { action, status, limit, offset, ..EffectFilter::default() };
    let found = sidecar.store.invocations(filter).await;
    let found = found.map_err(|error| ApiError::unrecorded("list invocations", &error))?;
    let invocations = found.items.iter().map(|view| show::either(view, false)).collect();
    Ok(page(invocations, Pagination::of(window, found.total)))
}

/// `GET /actions/invocations/{id}`. What the provider said is for the key that asked, and for keys that decide.
pub(crate) async fn get(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
) -> Result<Response, ApiError> {
    let view = find(&sidecar, &id).await?;
    let caller = match &view {
        InvocationView::Governed(view) => &view.caller,
        InvocationView::Plain(view) => &view.caller,
    };
    let shown = *caller == asker.name || asker.needs(Scope::ActionsResolve).is_ok();
    Ok(one(show::either(&view, shown)))
}

/// `POST /actions/invocations/{id}/resolve`: for invocations without an effect alone. A governed one is settled
/// through its effect, where its limits are.
pub(crate) async fn resolve(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ActionsResolve)?;
    // Who may not decide is told so, whatever the body says.
    let view = match find(&sidecar, &id).await? {
        InvocationView::Plain(view) => view,
        InvocationView::Governed(view) => return Err(governed(&asker, &view)),
    };
    if view.caller == asker.name {
        return Err(ApiError::own("an invocation never resolves it"));
    }
    let asked: Resolve = body::object(body).await?;
    let outcome = [ResolvedAs::Succeeded, ResolvedAs::Failed]
        .into_iter()
        .find(|each| each.word() == asked.outcome)
        .ok_or_else(|| ApiError::parameter("outcome", "succeeded or failed"))?;
    let evidence = body::text("evidence", &asked.evidence, TEXT_CHARS_MAX)?;
    let reference = body::maybe_text("externalReference", asked.external_reference.as_ref(), TEXT_CHARS_MAX)?;
    let now = sidecar.clock.now();
    let resolved =
        sidecar.store.resolve_plain(&view.id, outcome, &asker.name, evidence, reference, now).await;
    match resolved.map_err(|error| ApiError::unrecorded("resolve an invocation", &error))? {
        ResolvedPlain::Done(view) => Ok(one(show::plain(&view, true))),
        ResolvedPlain::OwnInvocation(_) => Err(ApiError::own("an invocation never resolves it")),
        ResolvedPlain::NotUnknown(view) => {
            let message = format!("invocation {} is {}, not unknown", view.id, view.status.word());
            Err(ApiError::new(ErrorCode::Conflict, message).with_details(json!({ "reason": "not_unknown" })))
        }
        ResolvedPlain::NoEvidence => Err(ApiError::parameter("evidence", "a text that says how it is known")),
        ResolvedPlain::Missing => Err(ApiError::not_found("invocation")),
    }
}

/// A governed invocation is settled through its effect, where its limits are.
fn governed(asker: &Asker, view: &EffectView) -> ApiError {
    if view.caller == asker.name {
        return ApiError::own("an invocation never resolves it");
    }
    let message = format!("this invocation is governed: resolve its effect {}", view.id);
    ApiError::new(ErrorCode::Conflict, message)
        .with_details(json!({ "reason": "governed", "effectId": view.id.as_str() }))
}

async fn find(sidecar: &Arc<Sidecar>, id: &str) -> Result<InvocationView, ApiError> {
    let missing = || ApiError::not_found("invocation");
    let internal = |error| ApiError::internal("read an invocation", &error);
    let id = InvocationId::parse(id).ok_or_else(missing)?;
    if let Some(detail) = sidecar.store.effect_of(&id).await.map_err(internal)? {
        return Ok(InvocationView::Governed(Box::new(detail.view)));
    }
    let plain = sidecar.store.plain(&id).await.map_err(internal)?;
    plain.map(|view| InvocationView::Plain(Box::new(view))).ok_or_else(missing)
}
