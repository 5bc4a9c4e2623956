//! How long a provider may say nothing. One that has forgotten the connection (a balancer before it has) would else keep an
//! agent's place and two descriptors for ever, also when the agent is long gone.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Nothing said for so long is an end.
pub(crate) const IDLE_MAX: Duration = Duration::from_mins(15);
/// Why it ends.
pub(crate) const TOO_LONG: &str = "the provider has said nothing for 15 minutes";

/// Since when nothing was said. Cheap while something is: the alarm is set once, and asks when it goes off. A connection
/// keeps its own for all its requests: to set one anew takes the lock of the runtime's timers, and so does to take it off.
#[derive(Default)]
pub(crate) struct Silence {
    alarm: Option<(Pin<Box<Sleep>>, Instant)>,
}

impl Silence {
    /// Something was said.
    pub(crate) fn broken(&mut self) {
        if self.alarm.is_some() {
            self.broken_at(Instant::now());
        }
    }

    /// Something was said at that moment.
    pub(crate) fn broken_at(&mut self, when: Instant) {
        if let Some((_, since)) = &mut self.alarm {
            *since = when;
        }
    }

    /// Ready when nothing was said for [`IDLE_MAX`].
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (alarm, since) = self.alarm.get_or_insert_with(|| {
            let now = Instant::now();
            (Box::pin(sleep_until(now + IDLE_MAX)), now)
        });
        while alarm.as_mut().poll(cx).is_ready() {
            let end = *since + IDLE_MAX;
            if end <= Instant::now() {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(end);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_what_says_nothing_and_nothing_else() {
        let mut silence = Silence::default();
        let begun = Instant::now();
        for _ in 0..3 {
            assert!(timeout(IDLE_MAX / 2, poll_fn(|cx| silence.poll(cx))).await.is_err());
            silence.broken();
        }
        advance(Duration::from_secs(1)).await;
        poll_fn(|cx| silence.poll(cx)).await;
        let lasted = begun.elapsed();
        assert!(lasted >= IDLE_MAX / 2 * 5 && lasted < IDLE_MAX * 3, "{lasted:?}");
    }
}
