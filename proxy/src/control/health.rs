//! Whether the process lives, and whether it can do its work. No key needed; nothing is told.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::answer::{ApiError, one};
use crate::state::Sidecar;

/// `GET /healthz`: the process answers.
pub(crate) async fn alive() -> Response {
    one(json!({ "status": "ok" }))
}

/// `GET /readyz`: the record can be read.
pub(crate) async fn ready(State(sidecar): State<Arc<Sidecar>>) -> Result<Response, ApiError> {
    super::limits::exposures(&sidecar).await?;
    Ok(one(json!({ "status": "ready" })))
}
