//! Time as a value. No function of this crate asks what time it is: callers hand it in.

use std::time::Duration;

const DAY_MS: i64 = 86_400_000;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This moment and `span` more; stops at the end of time instead of wrapping.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// So long before this moment; stops at the beginning of time.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long ago `earlier` was; zero when the clock went back.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The start of this moment's day, UTC.
    #[must_use]
    pub fn day_start(self) -> Self {
        Self(self.0.div_euclid(DAY_MS).saturating_mul(DAY_MS))
    }

    /// The start of this moment's month, UTC.
    #[must_use]
    pub fn month_start(self) -> Self {
        let day = self.0.div_euclid(DAY_MS);
        Self(day.saturating_sub(day_of_month(day)).saturating_mul(DAY_MS))
    }
}

/// Days since the first of the month of day number `day` (0 is 1970-01-01): the usual era arithmetic of the
/// proleptic Gregorian calendar, in years that begin on 1 March.
fn day_of_month(day: i64) -> i64 {
    let shifted = day.saturating_add(719_468);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    of_year - (153 * month + 2) / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_the_calendar_says() {
        // (moment, first of its month), from `date -u +%s`
        for (moment, first) in [
            (951_826_800_000, 949_363_200_000),     // 2000-02-29T12:20 -> 2000-02-01
            (1_709_164_800_000, 1_706_745_600_000), // 2024-02-29 -> 2024-02-01
            (1_735_689_599_999, 1_733_011_200_000), // 2024-12-31T23:59:59.999 -> 2024-12-01
            (1_735_689_600_000, 1_735_689_600_000), // 2025-01-01
            (-1, -2_678_400_000),                   // 1969-12-31 -> 1969-12-01
        ] {
            assert_eq!(Timestamp(moment).month_start(), Timestamp(first), "{moment}");
        }
    }

    /// Two times 400 years, counted day by day, on both sides of 1970.
    #[test]
    fn every_day_lies_in_the_month_that_counting_says() {
        let leaps = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let years = |from: i64, to: i64| (from..to).map(|year| 365 + i64::from(leaps(year))).sum::<i64>();
        let mut first = -years(1570, 1970);
        for year in 1570..2370 {
            let february = 28 + i64::from(leaps(year));
            for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
                for day in first..first + length {
                    let begins = Timestamp(day * DAY_MS);
                    let last = Timestamp(begins.0 + DAY_MS - 1);
                    assert_eq!((begins.day_start(), last.day_start()), (begins, begins), "day {day}");
                    let month = Timestamp(first * DAY_MS);
                    assert_eq!((begins.month_start(), last.month_start()), (month, month), "day {day}");
                }
                first += length;
            }
        }
        assert_eq!(first, years(1970, 2370));
    }

    #[test]
    fn spans_are_milliseconds_and_stop_at_the_ends_of_time() {
        let span = Duration::from_secs(2);
        assert_eq!(
            (Timestamp(5).plus(span), Timestamp(5).minus(span)),
            (Timestamp(2_005), Timestamp(-1_995))
        );
        assert_eq!(Timestamp(2_005).since(Timestamp(5)), span);
        let for_ever = Duration::MAX;
        assert_eq!(Timestamp(5).plus(for_ever), Timestamp(i64::MAX));
        assert_eq!(Timestamp(-5).minus(for_ever), Timestamp(i64::MIN));
        assert_eq!(Timestamp(i64::MIN).day_start(), Timestamp(i64::MIN));
    }

    #[test]
    fn a_clock_that_goes_back_gives_no_negative_age() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
    }
}
