//! `/actions/effects`: what happened, what is not known, and looking again.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use oncegate_policy::caller::Scope;
use oncegate_policy::effect::{Grade, Outcome, Stage};
use oncegate_policy::id::EffectId;
use oncegate_policy::reconcile::Looker;
use oncegate_store::read::EffectFilter;
use oncegate_store::view::EffectDetail;
use serde_json::json;

use super::answer::{ApiError, ErrorCode, one, page};
use super::auth::Asker;
use super::page::{Pagination, Window};
use super::params::{Id, Params};
use super::{body, show};
use crate::reconciler::{self, LookError};
use crate::state::{Sidecar, Snapshot};

/// Every stage's public word.
const STAGES: [&str; 6] = ["awaiting_approval", "ready", "dispatching", "reconciling", "settled", "rejected"];
const OUTCOMES: [Outcome; 5] =
    [Outcome::NotDispatched, Outcome::Pending, Outcome::Succeeded, Outcome::Failed, Outcome::Unknown];
const GRADES: [Grade; 7] = [
    Grade::Confirmed,
    Grade::Acknowledged,
    Grade::Unknown,
    Grade::Failed,
    Grade::Refused,
    Grade::Denied,
    Grade::Pending,
];

/// `GET /actions/effects`
pub(crate) async fn list(
    State(sidecar): State<Arc<Sidecar>>,
    _asker: Asker,
    params: Params,
) -> Result<Response, ApiError> {
    let window = Window::read(params.get("limit"), params.get("offset"))?;
    let filter = filter(&sidecar.snapshot(), &params, window)?;
    let found =
        sidecar.store.list(filter).await.map_err(|error| ApiError::unrecorded("list effects", &error))?;
    let effects = found.effects.iter().map(show::effect).collect();
    Ok(page(effects, Pagination::of(window, found.total)))
}

/// `GET /actions/effects/{id}`
pub(crate) async fn get(
    State(sidecar): State<Arc<Sidecar>>,
    _asker: Asker,
    Id(id): Id,
) -> Result<Response, ApiError> {
    let id = effect_id(&id)?;
    Ok(one(show::detail(&find(&sidecar, &id).await?)))
}

/// `POST /actions/effects/{id}/reconcile`: one look, now. Reads at the provider and settles only on what the
/// law allows the asking key.
pub(crate) async fn reconcile(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ActionsInvoke)?;
    body::nothing(body).await?;
    let id = effect_id(&id)?;
    let looker = Looker::Caller(asker.name.as_str().to_owned());
    tracing::info!(effect.id = %id, caller.name = %asker.name, "a look is asked for");
    if let Err(error) = reconciler::look_now(&sidecar, &id, looker).await {
        return Err(not_looked(&sidecar, &id, &error).await);
    }
    Ok(one(show::detail(&find(&sidecar, &id).await?)))
}

pub(crate) async fn find(sidecar: &Arc<Sidecar>, id: &EffectId) -> Result<EffectDetail, ApiError> {
    sidecar
        .store
        .effect(id)
        .await
        .map_err(|error| ApiError::internal("read the effect", &error))?
        .ok_or_else(|| ApiError::not_found("effect"))
}

pub(crate) fn effect_id(text: &str) -> Result<EffectId, ApiError> {
    EffectId::parse(text).ok_or_else(|| ApiError::not_found("effect"))
}

fn filter(snapshot: &Snapshot, params: &Params, window: Window) -> Result<EffectFilter, ApiError> {
    let stage = |text: &str| STAGES.into_iter().find(|word| *word == text).map(str::to_owned);
    let outcome = |text: &str| OUTCOMES.into_iter().find(|outcome| outcome.word() == text);
    let grade = |text: &str| GRADES.into_iter().find(|grade| grade.word() == text);
    Ok(EffectFilter {
        action: params.read("action", "an action's name", |text| super::actions::named(snapshot, text))?,
        outcome: params.read("outcome", "an outcome", outcome)?,
        stage: params.read("stage", "a stage", stage)?,
        grade: params.read("grade", "a grade", grade)?,
        unresolved: params.boolean("unresolved")?,
        key: params.get("key").map(str::to_owned),
        limit: window.limit,
        offset: window.offset,
        ..EffectFilter::default()
    })
}

async fn not_looked(sidecar: &Arc<Sidecar>, id: &EffectId, error: &LookError) -> ApiError {
    match error {
        LookError::Missing => ApiError::not_found("effect"),
        LookError::Settled => match find(sidecar, id).await {
            Ok(effect) => nothing_to_look_for(&effect.view.stage),
            Err(error) => error,
        },
        LookError::Store(error) => ApiError::unrecorded("record the look", error),
    }
}

fn nothing_to_look_for(stage: &Stage) -> ApiError {
    let (reason, why) = match stage {
        Stage::AwaitingApproval { .. } | Stage::Ready => ("not_sent", "the effect has not been sent yet"),
        Stage::Rejected(_) => ("not_sent", "the effect was never sent"),
        Stage::Dispatching { .. } => ("in_flight", "the effect is on its way"),
        Stage::Settled(_) | Stage::Reconciling { .. } => ("settled", "the effect is settled"),
    };
    ApiError::new(ErrorCode::Conflict, format!("there is nothing to look for: {why}"))
        .with_details(json!({ "reason": reason }))
}
