//! Whether the process lives, and whether it can do its work. No key needed; nothing is told.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::answer::{ApiError, ErrorCode, one};
use crate::state::Sidecar;

/// `GET /healthz`: the process answers.
pub(crate) async fn alive() -> Response {
    one(json!({ "status": "ok" }))
}

/// `GET /readyz`: the record can be read and, where the last transaction failed, be written again.
pub(crate) async fn ready(State(sidecar): State<Arc<Sidecar>>) -> Result<Response, ApiError> {
    super::limits::exposures(&sidecar).await?;
    if let Some(trouble) = sidecar.store.trouble().await {
        let why = trouble.sentence();
        let message = format!(
            "the record cannot be written: {why}. Until then governed writes are refused; reads go on"
        );
        return Err(ApiError::new(ErrorCode::Unavailable, message));
    }
    Ok(one(json!({ "status": "ready" })))
}
