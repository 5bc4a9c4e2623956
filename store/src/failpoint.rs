//! Named places at which a test stops the process, as a power cut would. Compiled in with the cargo feature
//! `failpoints` only.

/// Every place of the store, with what has happened when the process stops there.
pub const NAMES: &[(&str, &str)] = &[
    ("before_commit", "an admission is written and not committed: nothing of it may be found later"),
    ("after_commit", "an admission is durable and its permit not handed out: no byte has left"),
    ("after_send", "the request was written and no answer read (hit by the proxy)"),
    ("before_record", "the provider answered and nothing was written yet (hit by the proxy)"),
    ("before_record_commit", "the provider answered and the outcome is not committed"),
    ("after_record_commit", "the outcome is durable and nobody was told"),
    ("before_sweep_commit", "interrupted dispatches are marked and not committed"),
    ("after_sweep_commit", "interrupted dispatches are unknown and nobody was told"),
    ("before_finding_commit", "a read-back ended and its finding is not committed"),
    ("after_finding_commit", "a finding is durable and nobody was told"),
    ("before_resolve_commit", "a person's word is not committed"),
    ("after_resolve_commit", "a person's word is durable and the person was not told"),
    ("before_approve_commit", "an approval is not committed"),
    ("after_approve_commit", "an approval is durable and its dispatch not claimed"),
    ("before_replay_commit", "a replay is written and not committed: no byte has left"),
    ("after_replay_commit", "a replay is durable and its permit not handed out"),
    ("before_halt_commit", "a halt, or its end, is not committed"),
    ("after_halt_commit", "a halt, or its end, is durable and the person was not told"),
    ("before_limits_commit", "a start or a reload has written the declared limits and not committed them"),
    ("after_limits_commit", "the declared limits of a start or a reload are durable and not in force yet"),
    ("before_upgrade_commit", "a start has brought the schema to its version and not committed it"),
    ("after_upgrade_commit", "the schema is of this version and nothing was opened with it yet"),
];

/// A fault that a proof plants on purpose, to see that it would be found. Chosen by `ONCEGATE_PLANT`, and only in a
/// build with the feature `failpoints`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A commit returns before the disk has it.
    SynchronousNormal,
    /// A permit is handed out before its claim is committed, and the commit waits for the request to leave.
    SendBeforeClaim,
}

impl Plant {
    /// The word in `ONCEGATE_PLANT`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::SynchronousNormal => "synchronous-normal",
            Self::SendBeforeClaim => "send-before-claim",
        }
    }
}

pub use at::{hit, planted, wait_for_send};

#[cfg(feature = "failpoints")]
mod at {
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Duration;

    use super::Plant;

    /// For a request to leave; one that was refused never does.
    const SEND_WAIT: Duration = Duration::from_millis(200);

    static SENT: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

    /// Stops the process here if `ONCEGATE_FAILPOINT` is `<name>=abort`.
    pub fn hit(name: &str) {
        let chosen = std::env::var("ONCEGATE_FAILPOINT").unwrap_or_default();
        if chosen.split_once('=') == Some((name, "abort")) {
            std::process::abort();
        }
        if name == "after_send" {
            *SENT.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            SENT.1.notify_all();
        }
    }

    /// Whether `ONCEGATE_PLANT` is this fault.
    #[must_use]
    pub fn planted(fault: Plant) -> bool {
        std::env::var("ONCEGATE_PLANT").is_ok_and(|chosen| chosen == fault.word())
    }

    /// Waits until `after_send` is hit, and not for long.
    pub fn wait_for_send() {
        let mut sent = SENT.0.lock().unwrap_or_else(PoisonError::into_inner);
        *sent = false;
        drop(SENT.1.wait_timeout_while(sent, SEND_WAIT, |sent| !*sent));
    }
}

#[cfg(not(feature = "failpoints"))]
mod at {
    use super::Plant;

    /// Does nothing: the feature `failpoints` is off.
    #[inline]
    pub fn hit(_name: &str) {}

    /// Never: the feature `failpoints` is off.
    #[inline]
    #[must_use]
    pub fn planted(_fault: Plant) -> bool {
        false
    }

    /// Does not wait: the feature `failpoints` is off.
    #[inline]
    pub fn wait_for_send() {}
}
