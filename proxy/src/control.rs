//! The control listener: what operators, commands and the published client library read. One file per resource;
//! the JSON shapes are in [`view`].
//!
//! What is deliberately absent: anything that sends a write. Looking again is a read at the provider.

mod answer;
mod auth;
mod effects;
mod guard;
mod health;
mod identity;
mod limits;
mod page;
mod params;
pub mod show;
#[cfg(test)]
mod tests;
pub mod view;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use crate::state::Sidecar;
use answer::{ApiError, ErrorCode};

/// Most bytes of a request's body.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// Every route of the control listener.
pub fn router(sidecar: Arc<Sidecar>) -> Router {
    let api = Router::new()
        .route("/auth/identity", get(identity::show))
        .route("/actions/effects", get(effects::list))
        .route("/actions/effects/{id}", get(effects::get))
        .route("/actions/effects/{id}/reconcile", post(effects::reconcile))
        .route("/impact-limits", get(limits::list))
        .route("/impact-limits/{id}", get(limits::get))
        .layer(from_fn_with_state(Arc::clone(&sidecar), guard::no_browser));
    Router::new()
        .nest("/api/v2", api)
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(guard::answer_always))
        .with_state(sidecar)
}

async fn no_route(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("there is no {} here", uri.path()))
}

async fn no_method(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, format!("{} does not take this method", uri.path()))
}
