//! The control listener: what operators, commands and the published client library read. One file per resource;
//! the JSON shapes are in [`view`].
//!
//! Nothing here sends a write by itself: an approval and a replay go through [`crate::let_through`], and looking again
//! is a read at the provider.

mod actions;
mod answer;
mod approvals;
mod auth;
mod body;
mod effects;
pub(crate) mod environment;
mod guard;
mod health;
mod identity;
mod invocations;
mod limits;
mod limits_write;
mod managed;
mod once;
mod page;
mod params;
mod resolving;
pub mod show;
#[cfg(test)]
mod tests;
pub mod view;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use axum::{Extension, Router};

use tokio::sync::{Mutex, MutexGuard, watch};

use crate::state::Sidecar;
use answer::{ApiError, ErrorCode};
use once::Once;

/// Most bytes of a request's body.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// Says when the sidecar is about to stop, so that nobody is kept waiting for a person.
#[derive(Clone)]
pub(crate) struct Stopping(watch::Receiver<bool>);

/// What is read, judged and written in several steps is done by one request at a time.
#[derive(Clone, Default)]
pub(crate) struct Turn(Arc<Mutex<()>>);

impl Turn {
    async fn take(&self) -> MutexGuard<'_, ()> {
        self.0.lock().await
    }
}

/// Every route of the control listener. Calls that wait give up when `stopping` says so.
pub fn router(sidecar: Arc<Sidecar>, stopping: watch::Receiver<bool>) -> Router {
    let api = Router::new()
        .route("/auth/identity", get(identity::show))
        .merge(reading())
        .merge(
            deciding().route_layer(from_fn_with_state((Arc::clone(&sidecar), Once::default()), once::once)),
        )
        .route("/impact-limits", get(limits::list).post(limits_write::create))
        .route(
            "/impact-limits/{id}",
            get(limits::get).patch(limits_write::change).delete(limits_write::archive),
        )
        .route("/environment", get(environment::get))
        .route("/environment/halt", post(environment::halt))
        .route("/environment/resume", post(environment::resume))
        .route("/environment/prune", post(environment::prune))
        .route("/audit/verify", get(environment::verify))
        .layer(from_fn_with_state(Arc::clone(&sidecar), guard::no_browser));
    Router::new()
        .nest("/api/v2", api)
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(Extension(Stopping(stopping)))
        .layer(Extension(Turn::default()))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(guard::answer_always))
        .with_state(sidecar)
}

fn reading() -> Router<Arc<Sidecar>> {
    Router::new()
        .route("/actions", get(actions::list))
        .route("/actions/{ref}", get(actions::get))
        .route("/actions/{ref}/invocations", get(invocations::of_action))
        .route("/actions/invocations", get(invocations::list))
        .route("/actions/invocations/{id}", get(invocations::get))
        .route("/actions/effects", get(effects::list))
        .route("/actions/effects/{id}", get(effects::get))
        .route("/approvals", get(approvals::list))
        .route("/approvals/{id}", get(approvals::get))
}

/// What clients send again under one key when the answer is lost.
fn deciding() -> Router<Arc<Sidecar>> {
    Router::new()
        .route("/actions/invocations/{id}/resolve", post(invocations::resolve))
        .route("/actions/effects/{id}/reconcile", post(effects::reconcile))
        .route("/actions/effects/{id}/notes", post(resolving::note))
        .route("/actions/effects/{id}/resolve", post(resolving::resolve))
        .route("/actions/effects/{id}/replay", post(resolving::replay))
        .route("/approvals", post(approvals::ask))
        .route("/approvals/{id}/approve", post(approvals::approve))
        .route("/approvals/{id}/deny", post(approvals::deny))
}

async fn no_route(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("there is no {} here", uri.path()))
}

async fn no_method(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, format!("{} does not take this method", uri.path()))
}
