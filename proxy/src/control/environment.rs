//! `/environment`: whether writes are halted, halting and going on, and retention.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use oncegate_policy::caller::Scope;
use oncegate_policy::time::Timestamp;
use serde::Deserialize;

use super::answer::{ApiError, one};
use super::auth::Asker;
use super::{body, show};
use crate::state::Sidecar;

/// Longest reason, in characters: it is part of the sentence that agents read.
pub(crate) const REASON_CHARS_MAX: usize = 500;

/// Effects that a resume names.
const LET_GO_SHOWN_MAX: u32 = 200;

/// Alone among bodies it may hold what nobody knows: a brake is not refused for a misspelt word.
#[derive(Deserialize)]
struct HaltBody {
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PruneBody {
    older_than_seconds: Option<u64>,
}

/// `GET /environment`
pub(crate) async fn get(State(sidecar): State<Arc<Sidecar>>, _asker: Asker) -> Result<Response, ApiError> {
    let halt = sidecar.store.halted().await;
    let halt = halt.map_err(|error| ApiError::unrecorded("read whether writes are halted", &error))?;
    Ok(one(show::environment(halt.as_ref())))
}

/// `POST /environment/halt`: safe to repeat; a halt that stands stays as it is.
pub(crate) async fn halt(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::EnvironmentsHalt)?;
    let HaltBody { reason } = body::object(body).await?;
    let reason = body::maybe_text("reason", reason.as_ref(), REASON_CHARS_MAX)?;
    let reason = reason.unwrap_or_else(|| "no reason given".to_owned());
    let halt = sidecar.store.halt(&reason, &asker.name, sidecar.clock.now()).await;
    let halt = halt.map_err(|error| ApiError::unrecorded("halt", &error))?;
    tracing::warn!(caller.name = %halt.by, reason = halt.reason, "all writes are halted");
    Ok(one(show::environment(Some(&halt))))
}

/// `POST /environment/resume`: safe to repeat. Says what it lets go.
pub(crate) async fn resume(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::EnvironmentsHalt)?;
    body::nothing(body).await?;
    // Read before: afterwards some of it may be sent already.
    let ready = sidecar.store.ready(LET_GO_SHOWN_MAX).await;
    let ready = ready.map_err(|error| ApiError::unrecorded("read what is approved", &error))?;
    let mut environment = show::environment(None);
    let lifted = sidecar.store.resume(&asker.name, sidecar.clock.now()).await;
    if lifted.map_err(|error| ApiError::unrecorded("resume", &error))?.is_some() {
        tracing::warn!(caller.name = %asker.name, let_go = ready.len(), "writes go on");
        // What was approved meanwhile is sent now.
        environment.let_go = ready.iter().map(ToString::to_string).collect();
        sidecar.look_soon.notify_waiters();
    }
    Ok(one(environment))
}

/// `POST /environment/prune`: erases recorded answers after their time, and, if an age is given, the bulk of effects
/// that ended longer ago. Unknown ones never.
pub(crate) async fn prune(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ActionsGovern)?;
    let PruneBody { older_than_seconds } = body::object(body).await?;
    let now = sidecar.clock.now();
    let before = older_than_seconds.map(|seconds| ended_before(Duration::from_secs(seconds), now));
    let pruned = sidecar.store.prune(before, now).await;
    let pruned = pruned.map_err(|error| ApiError::internal("prune", &error))?;
    tracing::info!(caller.name = %asker.name, ?pruned, "pruned");
    Ok(one(show::pruned(&pruned)))
}

/// `GET /audit/verify`: reads the whole evidence chain.
pub(crate) async fn verify(State(sidecar): State<Arc<Sidecar>>, asker: Asker) -> Result<Response, ApiError> {
    asker.needs(Scope::ActionsResolve)?;
    let report = sidecar.store.verify_chain().await;
    let report = report.map_err(|error| ApiError::unrecorded("read the evidence chain", &error))?;
    if let Some(fault) = &report.fault {
        tracing::error!(event.seq = fault.seq, fault.what, "the evidence chain is not what was written");
    }
    Ok(one(show::chain(&report)))
}

/// The moment before which an effect has to have ended.
pub(crate) fn ended_before(age: Duration, now: Timestamp) -> Timestamp {
    now.minus(age)
}
