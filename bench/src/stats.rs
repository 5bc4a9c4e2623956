//! Numbers out of samples.

use serde::Serialize;

/// One value per round, summed up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of what the rounds gave; `None` if none gave anything.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let upper = *values.get(values.len() / 2)?;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(*values.get(values.len() / 2 - 1)?, upper)
        } else {
            upper
        };
        Some(Self { median, min, max })
    }
}

/// The `per_mille`th value of sorted samples, in nanoseconds, as microseconds. 0 when there are none.
#[must_use]
pub fn quantile_us(sorted: &[u64], per_mille: usize) -> f64 {
    let rank = (sorted.len() * per_mille).div_ceil(1000).saturating_sub(1);
    sorted.get(rank).map_or(0.0, |nanos| micros(*nanos))
}

/// Nanoseconds as microseconds.
#[must_use]
pub fn micros(nanos: u64) -> f64 {
    float(nanos) / 1000.0
}

/// A count as a number to calculate with.
#[must_use]
pub fn float(count: u64) -> f64 {
    // Exact below 2^53, which no run of this rig comes near.
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^53")]
    let value = count as f64;
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = Spread::of([3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.5, min: 1.0, max: 10.0 });
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn quantiles_are_samples() {
        let sorted: Vec<u64> = (1..=100).map(|n| n * 1000).collect();
        assert_eq!(quantile_us(&sorted, 500), 50.0);
        assert_eq!(quantile_us(&sorted, 990), 99.0);
        assert_eq!(quantile_us(&[], 990), 0.0);
    }
}
