//! The control listener: what operators, commands and the published client library read. One file per resource;
//! the JSON shapes are in [`view`].
//!
//! Nothing here sends a write by itself: an approval and a replay go through [`crate::let_through`], and looking again
//! is a read at the provider.

pub(crate) mod actions;
mod actions_write;
mod adapter_action;
mod answer;
mod approvals;
mod auth;
mod body;
mod definitions;
mod effects;
pub(crate) mod environment;
mod guard;
mod health;
mod identity;
mod import;
mod invocations;
mod invoke;
mod limits;
mod limits_write;
mod managed;
mod managed_secrets;
mod metrics;
mod once;
mod open_effects;
mod page;
mod params;
mod previews;
mod resolving;
pub mod routes;
mod secrets;
pub mod serving;
pub mod show;
mod template_action;

#[cfg(test)]
pub(crate) use actions::shown as shown_action;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod view;
mod waits;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::{Extension, Router};

use tokio::sync::watch;

use crate::state::Sidecar;
use answer::{ApiError, ErrorCode};
use once::Once;
use waits::Waits;

/// Most bytes of a request's body.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// Says when the sidecar is about to stop, so that nobody is kept waiting for a person.
#[derive(Clone)]
pub(crate) struct Stopping(watch::Receiver<bool>);

/// Every route of the control listener. Calls that wait give up when `stopping` says so.
pub fn router(sidecar: Arc<Sidecar>, stopping: watch::Receiver<bool>) -> Router {
    let once = from_fn_with_state((Arc::clone(&sidecar), Once::default()), once::once);
    let api = guarded(routes::plain_routes().merge(routes::once_routes().route_layer(once)), &sidecar);
    let watching = guarded(routes::watching_routes(), &sidecar);
    Router::new()
        .nest(routes::PREFIX, api)
        .merge(watching)
        .merge(routes::health_routes())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(Extension(Stopping(stopping)))
        .layer(Extension(Waits::default()))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(guard::answer_always))
        .with_state(sidecar)
}

/// With the door in front: no browser, then the key and the scope that the table names.
fn guarded(routes: Router<Arc<Sidecar>>, sidecar: &Arc<Sidecar>) -> Router<Arc<Sidecar>> {
    routes
        .route_layer(from_fn_with_state(Arc::clone(sidecar), auth::by_table))
        .layer(from_fn_with_state(Arc::clone(sidecar), guard::no_browser))
}

/// Families of the published API that are not built.
const NOT_BUILT: [&str; 3] = ["approval-policies", "budgets", "connections"];

async fn no_route(uri: Uri) -> ApiError {
    let below = uri.path().strip_prefix(routes::PREFIX).and_then(|rest| rest.strip_prefix('/'));
    let family = below.and_then(|below| below.split('/').next());
    if let Some(family) = family.filter(|family| NOT_BUILT.contains(family)) {
        return ApiError::new(ErrorCode::NotBuilt, format!("{family} are not built in Oncegate"));
    }
    ApiError::new(ErrorCode::NotFound, format!("there is no {} here", uri.path()))
}

async fn no_method(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, format!("{} does not take this method", uri.path()))
}
