//! `/actions/invocations`: the same record, by invocation.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use oncegate_policy::action::ActionName;
use oncegate_policy::caller::Scope;
use oncegate_policy::id::InvocationId;
use oncegate_store::read::EffectFilter;
use oncegate_store::view::EffectDetail;
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

/// `GET /actions/invocations`
pub(crate) async fn list(
    State(sidecar): State<Arc<Sidecar>>,
    _asker: Asker,
    params: Params,
) -> Result<Response, ApiError> {
    let action = params.read("action", "an action's name", ActionName::parse)?;
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
    let found = sidecar.store.list(filter).await;
    let found = found.map_err(|error| ApiError::internal("list invocations", &error))?;
    let invocations = found.effects.iter().map(|view| show::invocation(view, false)).collect();
    Ok(page(invocations, Pagination::of(window, found.total)))
}

/// `GET /actions/invocations/{id}`. What the provider said is for the key that asked, and for keys that decide.
pub(crate) async fn get(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
) -> Result<Response, ApiError> {
    let view = find(&sidecar, &id).await?.view;
    let shown = view.caller == asker.name || asker.needs(Scope::ActionsResolve).is_ok();
    Ok(one(show::invocation(&view, shown)))
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
    body::nothing(body).await?;
    let view = find(&sidecar, &id).await?.view;
    if view.caller == asker.name {
        return Err(ApiError::own("an invocation never resolves it"));
    }
    let message = format!("this invocation is governed: resolve its effect {}", view.id);
    Err(ApiError::new(ErrorCode::Conflict, message)
        .with_details(json!({ "reason": "governed", "effectId": view.id.as_str() })))
}

async fn find(sidecar: &Arc<Sidecar>, id: &str) -> Result<EffectDetail, ApiError> {
    let missing = || ApiError::not_found("invocation");
    let id = InvocationId::parse(id).ok_or_else(missing)?;
    let found = sidecar.store.effect_of(&id).await;
    found.map_err(|error| ApiError::internal("read the invocation", &error))?.ok_or_else(missing)
}
