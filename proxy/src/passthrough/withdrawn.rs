//! Whether what is open and may write may stay so: a WebSocket, and a request that is passed on while it is still written.

use std::time::Duration;

use oncegate_config::model::Host;
use oncegate_policy::caller::Scope;

use crate::front::Standing;
use crate::receive::Via;
use crate::state::Sidecar;

/// How often it is asked: a halt or a key that was taken out ends it.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Ends when it may not go on, and says why. `takes` says whether a host still takes such a thing.
pub(super) async fn withdrawn(
    sidecar: &Sidecar,
    via: &Via,
    standing: &Standing,
    takes: fn(&Host) -> bool,
) -> &'static str {
    loop {
        tokio::time::sleep(ASKED_EVERY).await;
        let snapshot = sidecar.snapshot();
        let shown = standing.proof.shows(sidecar, &via.caller);
        let known = snapshot.config.callers.get(&via.caller).filter(|_| shown);
        if known.is_none_or(|caller| !caller.scopes.contains(&Scope::ActionsInvoke)) {
            return "its caller may not ask for actions any more";
        }
        if !snapshot.host(&via.authority).is_some_and(takes) {
            return "its host does not take it any more";
        }
        match sidecar.store.halted().await {
            Ok(None) => {}
            Ok(Some(_)) => return "writes are halted",
            Err(_) => return "whether writes are halted could not be read",
        }
    }
}
