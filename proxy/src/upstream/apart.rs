//! A connection that goes on by itself: nobody waits for what is still on its way.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::link::{Connection, ended};
use super::wire::Written;

/// Nothing written for so long ends a connection that was let go: its provider does not take the rest.
pub(super) const REST_STALLED_MAX: Duration = Duration::from_secs(30);

/// Kept while the answer is read whose connection goes on by itself.
pub struct Apart {
    _kept: oneshot::Sender<Infallible>,
}

impl Apart {
    /// Gives a connection a task of its own.
    pub(super) fn of(connection: Option<Connection>, written: Written) -> Self {
        let (kept, over) = oneshot::channel();
        if let (Some(mut connection), Ok(runtime)) = (connection, Handle::try_current()) {
            runtime.spawn(async move {
                tokio::select! {
                    biased;
                    result = &mut connection => ended(result),
                    _ = over => rest(connection, &written).await,
                }
            });
        }
        Self { _kept: kept }
    }
}

/// What nobody waits for.
async fn rest(mut connection: Connection, written: &Written) {
    let mut stalled = pin!(sleep(REST_STALLED_MAX));
    let mut before = written.bytes();
    let taken = poll_fn(|cx| {
        // Asked first: to drive the connection is to try to write, which counts as written.
        if stalled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        let taken = connection.as_mut().poll(cx).map(Some);
        let now = written.bytes();
        if now != before {
            before = now;
            stalled.as_mut().reset(Instant::now() + REST_STALLED_MAX);
        }
        taken
    });
    match taken.await {
        Some(result) => ended(result),
        None => tracing::debug!("a provider has answered and does not take the rest of its request"),
    }
}
