//! The only place that asks what time it is. Tests hand in a clock of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oncegate_policy::time::Timestamp;
use tokio::time::Instant;

/// Where time comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system's wall clock.
    System,
    /// Milliseconds since 1970 that a test moves by hand.
    Manual(Arc<AtomicI64>),
    /// Runs with the runtime's clock, which a simulator may hold and let go, and jumps when it is told to.
    Simulated(Arc<Simulated>),
}

/// A wall clock in a simulation.
#[derive(Debug)]
pub struct Simulated {
    /// Where the runtime's clock stood.
    begun: Instant,
    /// What this one said then, with its jumps since.
    wall_ms: AtomicI64,
}

impl Simulated {
    /// One that says `now` at this moment of the runtime.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { begun: Instant::now(), wall_ms: AtomicI64::new(now.0) }
    }

    /// Somebody sets it forward, or back.
    pub fn jump(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
    }

    fn now(&self) -> i64 {
        let ran = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.wall_ms.load(Ordering::SeqCst).saturating_add(ran)
    }
}

impl Clock {
    /// Now, for everything that is recorded.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => {
                let since = self.system().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
                Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            }
            Self::Manual(ms) => Timestamp(ms.load(Ordering::SeqCst)),
            Self::Simulated(clock) => Timestamp(clock.now()),
        }
    }

    /// Now, for certificates.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that may")]
    pub fn system(&self) -> SystemTime {
        match self {
            Self::System => SystemTime::now(),
            Self::Manual(_) | Self::Simulated(_) => {
                UNIX_EPOCH + Duration::from_millis(u64::try_from(self.now().0).unwrap_or(0))
            }
        }
    }
}
