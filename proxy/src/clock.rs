//! The only place that asks what time it is. Tests hand in a clock of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oncegate_policy::time::Timestamp;

/// Where time comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system's wall clock.
    System,
    /// Milliseconds since 1970 that a test moves by hand.
    Manual(Arc<AtomicI64>),
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
        }
    }

    /// Now, for certificates.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that may")]
    pub fn system(&self) -> SystemTime {
        match self {
            Self::System => SystemTime::now(),
            Self::Manual(ms) => {
                UNIX_EPOCH + Duration::from_millis(u64::try_from(ms.load(Ordering::SeqCst)).unwrap_or(0))
            }
        }
    }
}
