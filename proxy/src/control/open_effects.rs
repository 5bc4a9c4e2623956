//! What is not changed while effects are not settled: what holds them, by anybody; what settles them, by who asked for
//! them (P8).

use std::sync::Arc;

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_store::EffectFilter;
use serde_json::json;

use super::answer::{ApiError, ErrorCode};
use super::auth::Asker;
use crate::state::Sidecar;

/// The effects that are not settled are held by what the definition says.
pub(super) async fn none(sidecar: &Arc<Sidecar>, name: &ActionName, what: &str) -> Result<(), ApiError> {
    let open = count(sidecar, name, None).await?;
    if open == 0 {
        return Ok(());
    }
    let message = format!(
        "{open} effects of {name} are not settled: it cannot be {what} before they are. `oncegate effects \
         --unresolved` lists them."
    );
    Err(ApiError::new(ErrorCode::Conflict, message)
        .with_details(json!({ "reason": "open_effects", "open": open })))
}

/// What an effect is judged by and read back with settles it: who asked for the effect does not make that. `what` is
/// what another key has to change.
pub(super) async fn none_of(
    sidecar: &Arc<Sidecar>,
    name: &ActionName,
    asker: &Asker,
    what: &str,
) -> Result<(), ApiError> {
    let open = count(sidecar, name, Some(asker.name.clone())).await?;
    if open == 0 {
        return Ok(());
    }
    let message = format!(
        "{open} effects of {name} that this key has asked for are not settled: another key has to change {what}. \
         Nothing was changed."
    );
    Err(ApiError::new(ErrorCode::Conflict, message)
        .with_details(json!({ "reason": "own_open_effects", "open": open })))
}

/// How many effects of an action are not settled, of everybody or of one caller.
async fn count(
    sidecar: &Arc<Sidecar>,
    name: &ActionName,
    caller: Option<CallerName>,
) -> Result<u64, ApiError> {
    let filter = EffectFilter {
        action: Some(name.clone()),
        caller,
        unresolved: Some(true),
        limit: 1,
        ..EffectFilter::default()
    };
    let open = sidecar.store.list(filter).await;
    open.map(|open| open.total).map_err(|error| ApiError::unrecorded("list effects", &error))
}
