//! What was seen of a provider and could not be written down: the disk was full, or another program held the lock, for a
//! moment. It is the only evidence there is of what was sent, so it is kept in memory and tried again for as long as the
//! process lives. Whoever asked has been told `unknown` meanwhile.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use oncegate_store::{Seen, Unrecorded};
use tokio::sync::Semaphore;

use crate::upstream;

/// Before the second try; doubled before each later one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Between two tries, at most.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Bytes of answers that are kept, at most. What does not fit is dropped, and its effect unknown.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Panics of one record before it is given up: a person can settle what the sweep calls unknown, and nothing that a task holds.
const PANICS_MAX: u32 = 12;
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
/// keep it: its claim is dropped then, the log says what was seen of which id, and the sweep calls it unknown.
pub async fn keep<C, T, Tried>(
    room: &Room,
    about: &str,
    mut claim: C,
    seen: &Arc<Seen>,
    record: impl Fn(C, Arc<Seen>) -> Tried,
) -> Option<T>
where
    C: Debug,
    Tried: Future<Output = Result<T, Box<Unrecorded<C>>>>,
{
    let bytes = u32::try_from(seen.body_bytes().saturating_add(EACH_BYTES)).unwrap_or(u32::MAX);
    let Ok(_room) = room.0.try_acquire_many(bytes) else {
        tracing::error!(about, seen = seen.text(), "too much waits to be recorded: what was seen is dropped");
        return None;
    };
    let mut pause = FIRST_PAUSE;
    let mut panics = 0;
    loop {
        tokio::time::sleep(pause).await;
        pause = PAUSE_MAX.min(pause * 2);
        match record(claim, Arc::clone(seen)).await {
            Ok(recorded) => {
                tracing::info!("an outcome that could not be recorded is recorded now");
                return Some(recorded);
            }
            Err(failed) if failed.error.may_pass() && panics < PANICS_MAX => {
                panics += u32::from(failed.error.is_panic());
                claim = failed.claim;
            }
            Err(failed) => {
                let error = upstream::chain(&failed.error);
                tracing::error!(
                    about,
                    seen = seen.text(),
                    error,
                    "an outcome cannot be recorded, and is dropped"
                );
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use oncegate_policy::classify::Verdict;
    use oncegate_policy::exchange::{Exchange, Loss, Phase};
    use oncegate_store::StoreError;
    use oncegate_store::error::Fault;

    use super::*;

    /// How often it was tried, and what came of it, where each try up to `works_at` panics.
    async fn tried(works_at: u32) -> (u32, Option<()>) {
        let loss = Loss { phase: Phase::AwaitingHead, cause: "reset".to_owned(), status: None };
        let seen = Arc::new(Seen::of(Verdict::Unknown, &Exchange::Lost(loss)));
        let tries = Cell::new(0);
        let record = |claim: (), _| {
            tries.set(tries.get() + 1);
            let works = tries.get() == works_at;
            let panicked = StoreError::Failed { step: "record", fault: Fault::Panicked };
            async move { if works { Ok(()) } else { Err(Box::new(Unrecorded { claim, error: panicked })) } }
        };
        let recorded = keep(&Room::default(), "eff_1", (), &seen, record).await;
        (tries.get(), recorded)
    }

    /// P3: what was seen is the only evidence, and a panic of the store says nothing of the next try.
    #[tokio::test(start_paused = true)]
    async fn p3_a_panic_does_not_drop_what_was_seen() {
        assert_eq!(tried(3).await, (3, Some(())));
    }

    #[tokio::test(start_paused = true)]
    async fn what_panics_each_time_is_given_up_for_a_person_to_settle() {
        assert_eq!(tried(u32::MAX).await, (PANICS_MAX + 1, None));
    }
}
