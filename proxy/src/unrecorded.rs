//! What was seen of a provider and could not be written down: the disk was full, or another program held the lock, for a
//! moment. It is the only evidence there is of what was sent, so it is kept in memory and tried again for as long as the
//! process lives. Whoever asked has been told `unknown` meanwhile.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use oncegate_store::{Seen, Unrecorded};
use tokio::sync::Semaphore;

use crate::state::Sidecar;
use crate::upstream;

/// Before the second try; doubled before each later one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Between two tries, at most.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Bytes of answers that are kept, at most. What does not fit is dropped, and its effect unknown.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What each takes beside its body.
const EACH_BYTES: usize = 4 * 1024;

/// Room for what is kept.
pub struct Room(Semaphore);

impl Default for Room {
    fn default() -> Self {
        Self(Semaphore::new(KEPT_BYTES_MAX))
    }
}

/// Tries to `record` what was `seen` until it is written down. `None` when it never can be, or when there is no room to
/// keep it: its claim is dropped then, and the sweep calls it unknown.
pub async fn keep<C, T, Tried>(
    sidecar: &Sidecar,
    mut claim: C,
    seen: &Arc<Seen>,
    record: impl Fn(C, Arc<Seen>) -> Tried,
) -> Option<T>
where
    C: Debug,
    Tried: Future<Output = Result<T, Box<Unrecorded<C>>>>,
{
    let bytes = u32::try_from(seen.body_bytes().saturating_add(EACH_BYTES)).unwrap_or(u32::MAX);
    let Ok(_room) = sidecar.unrecorded.0.try_acquire_many(bytes) else {
        tracing::error!("too much waits to be recorded: what was seen is dropped");
        return None;
    };
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        pause = PAUSE_MAX.min(pause * 2);
        match record(claim, Arc::clone(seen)).await {
            Ok(recorded) => {
                tracing::info!("an outcome that could not be recorded is recorded now");
                return Some(recorded);
            }
            Err(failed) if failed.error.may_pass() => claim = failed.claim,
            Err(failed) => {
                let error = upstream::chain(&failed.error);
                tracing::error!(error, "an outcome cannot be recorded, and is dropped");
                return None;
            }
        }
    }
}
