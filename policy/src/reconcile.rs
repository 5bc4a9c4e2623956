//! Looking again: what a look may show, what it may settle, and when the next one is due.

use std::time::Duration;

use crate::time::Timestamp;
use crate::told::Told;

/// What a read-back showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The provider has a record of this very operation, applied.
    Matched {
        /// What matched, for the evidence: `refund re_…`.
        what: Told,
        /// The provider's id of the thing, if it has one.
        reference: Option<Told>,
        /// The provider's own object, which answers a repeat: JSON bytes.
        record: Option<Vec<u8>>,
    },
    /// The provider has a record of this very operation in a failed state.
    ProviderSaysFailed {
        /// What the record says.
        what: Told,
        /// The provider's id of the thing, if it has one.
        reference: Option<Told>,
        /// The provider's own object, JSON bytes.
        record: Option<Vec<u8>>,
    },
    /// The look was complete and showed nothing. Proves nothing: the record may come later.
    NoMatch {
        /// What was looked through.
        what: Told,
    },
    /// The look could not be completed.
    Unreadable {
        /// Why.
        what: Told,
    },
}

impl Finding {
    /// The word in the record and in the metrics.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Matched { .. } => "matched",
            Self::ProviderSaysFailed { .. } => "provider_failed",
            Self::NoMatch { .. } => "no_match",
            Self::Unreadable { .. } => "unreadable",
        }
    }
}

/// Who asked for the look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looker {
    /// The schedule.
    Schedule,
    /// A key, by its caller's name.
    Caller(String),
}

/// What a finding does to an unknown effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settles {
    /// Succeeded, confirmed by the provider.
    Succeeded,
    /// Failed, by the provider's own record.
    Failed,
    /// Nothing: it stays unknown.
    Nothing,
}

/// Only a match, or the provider's own record of a failure, settles. A look that the asking key itself asked for
/// never settles `failed`: an agent must not be able to free its own hold (P8).
#[must_use]
pub fn settles(finding: &Finding, looker: &Looker, asked_by: &str) -> Settles {
    match finding {
        Finding::Matched { .. } => Settles::Succeeded,
        Finding::ProviderSaysFailed { .. } => match looker {
            Looker::Caller(name) if name == asked_by => Settles::Nothing,
            Looker::Schedule | Looker::Caller(_) => Settles::Failed,
        },
        Finding::NoMatch { .. } | Finding::Unreadable { .. } => Settles::Nothing,
    }
}

/// When to look. Doubles from `first_after` up to `max_interval`, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Before the first look.
    pub first_after: Duration,
    /// Between later looks, at most.
    pub max_interval: Duration,
}

impl Schedule {
    /// When the look after `looks` looks is due.
    #[must_use]
    pub fn next(&self, now: Timestamp, looks: u32) -> Timestamp {
        let doubled = self.first_after.saturating_mul(1_u32.checked_shl(looks.min(30)).unwrap_or(u32::MAX));
        now.plus(doubled.min(self.max_interval.max(self.first_after)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_record_settles_and_never_failed_for_the_one_who_asked() {
        let matched = Finding::Matched { what: "refund".into(), reference: None, record: None };
        let failed = Finding::ProviderSaysFailed { what: "refund".into(), reference: None, record: None };
        let nothing = Finding::NoMatch { what: "2 pages".into() };
        let unreadable = Finding::Unreadable { what: "503".into() };
        let agent = Looker::Caller("agent".into());
        let ops = Looker::Caller("ops".into());
        for (finding, looker, settled) in [
            (&matched, &Looker::Schedule, Settles::Succeeded),
            (&matched, &agent, Settles::Succeeded),
            (&failed, &Looker::Schedule, Settles::Failed),
            (&failed, &ops, Settles::Failed),
            (&failed, &agent, Settles::Nothing),
            (&nothing, &Looker::Schedule, Settles::Nothing),
            (&nothing, &ops, Settles::Nothing),
            (&unreadable, &ops, Settles::Nothing),
        ] {
            assert_eq!(settles(finding, looker, "agent"), settled, "{finding:?} {looker:?}");
        }
    }

    #[test]
    fn looks_back_off_and_never_stop() {
        let schedule =
            Schedule { first_after: Duration::from_secs(30), max_interval: Duration::from_secs(3600) };
        let after = |looks| schedule.next(Timestamp(0), looks).0 / 1000;
        assert_eq!((0..9).map(after).collect::<Vec<_>>(), [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(after(u32::MAX), 3600);
    }
}
