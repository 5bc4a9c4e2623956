//! Questions to a person lapse when their time is over: every view shows it from then on. Looks at providers may take long,
//! so nothing here waits for a pass of the reconciler.

use std::sync::Arc;
use std::time::Duration;

use oncegate_store::StoreError;
use tokio::sync::watch;

use crate::listener::stopped;
use crate::state::Sidecar;
use crate::upstream;

/// A question lapses at most this much later than it says.
const STEP_MIN: Duration = Duration::from_millis(10);
/// The clock may be set while nobody looks, and a question in another way than by being asked is none of ours.
const STEP_MAX: Duration = Duration::from_secs(15);

/// Runs until `stop` says so.
pub(crate) async fn run(sidecar: Arc<Sidecar>, mut stop: watch::Receiver<bool>) {
    loop {
        // Registered before the look: what is asked during it is not missed.
        let asked = sidecar.asked.notified();
        tokio::pin!(asked);
        asked.as_mut().enable();
        let wait = lapse(&sidecar).await.unwrap_or_else(|error| {
            tracing::error!(
                error = upstream::chain(&error),
                "questions that nobody answered could not be ended"
            );
            STEP_MAX
        });
        tokio::select! {
            // Heard even if it is time to look: otherwise it would be looked twice.
            biased;
            () = asked => {}
            () = tokio::time::sleep(wait) => {}
            () = stopped(&mut stop) => return,
        }
    }
}

/// Ends what is over, and says how long the next one has.
pub(crate) async fn lapse(sidecar: &Arc<Sidecar>) -> Result<Duration, StoreError> {
    let Some(next) = sidecar.store.next_expiry().await? else { return Ok(STEP_MAX) };
    let now = sidecar.clock.now();
    if next > now {
        return Ok(next.since(now).clamp(STEP_MIN, STEP_MAX));
    }
    for effect in sidecar.store.expire_approvals(now).await? {
        tracing::info!(effect.id = %effect, "nobody approved in time; nothing was sent");
    }
    // One that cannot be ended is not tried again at once.
    let left = sidecar.store.next_expiry().await?;
    Ok(if left == Some(next) { STEP_MAX } else { STEP_MIN })
}
