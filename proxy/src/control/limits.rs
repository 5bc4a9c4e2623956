//! `/impact-limits`: what is left of each.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use oncegate_policy::id::LimitId;
use oncegate_store::view::Exposure;

use super::answer::{ApiError, one, page};
use super::auth::Asker;
use super::page::Pagination;
use super::params::{Id, Params};
use super::show;
use crate::state::Sidecar;

/// `GET /impact-limits`
pub(crate) async fn list(
    State(sidecar): State<Arc<Sidecar>>,
    _asker: Asker,
    params: Params,
) -> Result<Response, ApiError> {
    let archived = params.boolean("includeArchived")?.unwrap_or(false);
    let limits: Vec<_> = exposures(&sidecar)
        .await?
        .iter()
        .filter(|exposure| archived || exposure.archived_at.is_none())
        .map(show::limit)
        .collect();
    let pagination = Pagination::whole(limits.len());
    Ok(page(limits, pagination))
}

/// `GET /impact-limits/{id}`
pub(crate) async fn get(
    State(sidecar): State<Arc<Sidecar>>,
    _asker: Asker,
    Id(id): Id,
) -> Result<Response, ApiError> {
    let missing = || ApiError::not_found("impact limit");
    let id = LimitId::parse(&id).ok_or_else(missing)?;
    let exposures = exposures(&sidecar).await?;
    exposures
        .iter()
        .find(|exposure| exposure.id == id)
        .map(|exposure| one(show::limit(exposure)))
        .ok_or_else(missing)
}

/// Every limit, archived ones too.
pub(crate) async fn exposures(sidecar: &Arc<Sidecar>) -> Result<Vec<Exposure>, ApiError> {
    sidecar
        .store
        .exposures(sidecar.clock.now())
        .await
        .map_err(|error| ApiError::unrecorded("read the limits", &error))
}
