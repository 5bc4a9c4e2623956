//! Limits: what may be spent in a period, and whether there is room.

use crate::action::ActionName;
use crate::impact::{Dimension, Impact};
use crate::time::Timestamp;

/// Over what a limit counts. Periods are UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// A calendar day.
    Day,
    /// A calendar month.
    Month,
    /// For ever.
    Total,
}

impl Period {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Total => "total",
        }
    }

    /// Reads the public word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Day, Self::Month, Self::Total].into_iter().find(|period| period.word() == text)
    }

    /// When the period that holds `now` began; the epoch for [`Period::Total`].
    #[must_use]
    pub fn start(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Day => now.day_start(),
            Self::Month => now.month_start(),
            Self::Total => Timestamp(0),
        }
    }
}

/// A cap, shared by every caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// `[limits.NAME]`, unique.
    pub name: String,
    /// What is counted.
    pub dimension: Dimension,
    /// Over what.
    pub period: Period,
    /// In minor units or counts, 0 or more.
    pub amount: i64,
    /// Only effects of this action, if set.
    pub action: Option<ActionName>,
    /// Only effects whose resource (subject) starts with this, if set.
    pub resource_prefix: Option<String>,
}

impl Limit {
    /// Whether an effect of `action` on `resource` with this impact counts against this limit.
    #[must_use]
    pub fn applies(&self, action: &ActionName, resource: Option<&str>, impact: &Impact) -> bool {
        self.dimension == impact.dimension
            && self.action.as_ref().is_none_or(|only| only == action)
            && self
                .resource_prefix
                .as_deref()
                .is_none_or(|prefix| resource.is_some_and(|resource| is_below(resource, prefix)))
    }
}

/// Stands in the name of a resource for what is not known, and may be anything: before its `/`, or at its end.
pub const ANY: &str = "*";

/// Whether one of the names of a resource, which are one a line, begins with a prefix.
fn is_below(resource: &str, prefix: &str) -> bool {
    let rest_of_prefix = || prefix.split_once('/').map_or("", |(_, rest)| rest);
    let first_unknown = |name: &str| {
        name.strip_prefix(ANY)
            .and_then(|name| name.strip_prefix('/'))
            .is_some_and(|rest| rest.starts_with(rest_of_prefix()))
    };
    let end_unknown = |name: &str| name.strip_suffix(ANY).is_some_and(|known| prefix.starts_with(known));
    resource.split('\n').any(|name| name.starts_with(prefix) || first_unknown(name) || end_unknown(name))
}

/// What a limit's counters say. `reserved` is every hold that is still open, whatever period it came from:
/// money whose fate is unknown is not free because midnight passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Succeeded in the current period.
    pub consumed: i64,
    /// Held: in flight or unknown.
    pub reserved: i64,
    /// The part of `reserved` whose effect is unknown.
    pub unknown_exposure: i64,
}

impl Usage {
    /// `amount - consumed - reserved`; negative after a limit was lowered.
    #[must_use]
    pub fn available(&self, amount: i64) -> i64 {
        amount.saturating_sub(self.consumed).saturating_sub(self.reserved)
    }
}

/// Whether `wanted` fits. `None` wanted is an amount that nobody could establish: it never fits.
#[must_use]
pub fn fits(limit: &Limit, usage: &Usage, wanted: Option<i64>) -> bool {
    wanted.is_some_and(|wanted| wanted >= 0 && wanted <= usage.available(limit.amount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impact::Bound;

    fn limit(amount: i64) -> Limit {
        Limit {
            name: "refunds-per-day".into(),
            dimension: Dimension::Money { currency: "usd".into() },
            period: Period::Day,
            amount,
            action: ActionName::parse("refund"),
            resource_prefix: Some("acct_1/".into()),
        }
    }

    #[test]
    fn room_is_what_is_neither_consumed_nor_reserved() {
        let usage = |consumed, reserved| Usage { consumed, reserved, unknown_exposure: 0 };
        for (amount, used, wanted, fits_in) in [
            (100, usage(0, 0), Some(100), true),
            (100, usage(0, 0), Some(101), false),
            (100, usage(40, 20), Some(40), true),
            (100, usage(40, 20), Some(41), false),
            (100, usage(0, 0), None, false),
            (100, usage(0, 0), Some(-1), false),
            (50, usage(80, 0), Some(0), false),
            (i64::MAX, usage(i64::MAX, i64::MAX), Some(1), false),
        ] {
            assert_eq!(fits(&limit(amount), &used, wanted), fits_in, "{amount} {used:?} {wanted:?}");
        }
    }

    #[test]
    fn a_limit_applies_to_its_dimension_action_and_prefix() {
        let impact = |currency: &str| Impact {
            dimension: Dimension::Money { currency: currency.into() },
            amount: Some(1),
            bound: Bound::Exact,
        };
        let action = |name: &str| ActionName::parse(name).unwrap();
        let limit = limit(100);
        assert!(limit.applies(&action("refund"), Some("acct_1/pi_1"), &impact("usd")));
        assert!(!limit.applies(&action("refund"), Some("acct_2/pi_1"), &impact("usd")));
        assert!(!limit.applies(&action("refund"), None, &impact("usd")));
        assert!(!limit.applies(&action("charge"), Some("acct_1/pi_1"), &impact("usd")));
        assert!(!limit.applies(&action("refund"), Some("acct_1/pi_1"), &impact("eur")));
    }

    #[test]
    fn a_resource_of_more_names_is_below_the_prefix_of_any() {
        for (resource, prefix, below) in [
            ("a@x/b\na@x/c", "a@x/c", true),
            ("a@x/b\na@x/c", "a@x/", true),
            ("a@x/b\na@x/c", "c", false),
            ("*/b\n*/c", "a@x/c", true),
            ("*/b\n*/c", "a@x/", true),
            ("*/b\n*/c", "a@x/d", false),
            ("*/b", "a@x", true),
            ("*b", "a@x", false),
            ("ch_1\npi_*", "pi_3", true),
            ("ch_1\npi_*", "pi_", true),
            ("ch_1\npi_*", "p", true),
            ("ch_1\npi_*", "ch_2", false),
            ("acct_1/pi_*", "acct_1/pi_3", true),
            ("acct_1/pi_*", "acct_2/pi_3", false),
        ] {
            assert_eq!(is_below(resource, prefix), below, "{resource:?} {prefix}");
        }
    }

    #[test]
    fn what_is_available_may_be_less_than_nothing() {
        let usage = Usage { consumed: 70, reserved: 50, unknown_exposure: 50 };
        assert_eq!((usage.available(150), usage.available(100)), (30, -20));
    }

    #[test]
    fn a_period_begins_at_midnight_on_the_first_or_never() {
        let now = Timestamp(1_709_210_096_789); // 2024-02-29T12:34:56.789
        for (period, word, start) in [
            (Period::Day, "day", 1_709_164_800_000),     // 2024-02-29
            (Period::Month, "month", 1_706_745_600_000), // 2024-02-01
            (Period::Total, "total", 0),
        ] {
            assert_eq!((period.word(), period.start(now)), (word, Timestamp(start)));
            assert_eq!(Period::parse(word), Some(period));
        }
        assert_eq!(Period::parse("week"), None);
    }
}
