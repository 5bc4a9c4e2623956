//! Values as a person reads them.

use crate::control::view::{EffectJson, ImpactJson};
use jiff::{SignedDuration, Timestamp};

use super::exit::Exit;

/// `$120.00`-like for currencies of two decimals, else the plain number: `120.00 USD`, `5000 JPY`, `3`.
pub(crate) fn amount(number: i64, currency: Option<&str>) -> String {
    match currency {
        Some(currency) => {
            let name = currency.to_ascii_uppercase();
            match decimals(currency) {
                0 => format!("{number} {name}"),
                decimals => format!("{} {name}", with_point(number, decimals)),
            }
        }
        None => number.to_string(),
    }
}

fn with_point(number: i64, decimals: usize) -> String {
    let digits = format!("{:0>width$}", number.unsigned_abs(), width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(decimals));
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{whole}.{fraction}")
}

/// ISO 4217's minor units, where they are not two.
fn decimals(currency: &str) -> usize {
    match currency {
        "bif" | "clp" | "djf" | "gnf" | "jpy" | "kmf" | "krw" | "mga" | "pyg" | "rwf" | "ugx" | "vnd"
        | "vuv" | "xaf" | "xof" | "xpf" => 0,
        "bhd" | "jod" | "kwd" | "omr" | "tnd" => 3,
        _ => 2,
    }
}

/// What an effect changes, or a dash.
pub(crate) fn impact(impact: Option<&ImpactJson>) -> String {
    let Some(impact) = impact else { return "-".to_owned() };
    match impact.amount {
        Some(number) if impact.currency.is_some() => amount(number, impact.currency.as_deref()),
        Some(number) => format!("{number} {}", impact.unit),
        None => "?".to_owned(),
    }
}

/// How long ago or how soon a moment is: `3m ago`, `in 27s`.
pub(crate) fn relative(moment: Timestamp, now: Timestamp) -> String {
    let away = moment.duration_since(now);
    if away > SignedDuration::ZERO {
        format!("in {}", span(away))
    } else {
        format!("{} ago", span(away.abs()))
    }
}

fn span(length: SignedDuration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How a command ends that was about one effect.
pub(crate) fn exit_of(effect: &EffectJson) -> Exit {
    match effect.outcome.as_str() {
        "succeeded" => Exit::Done,
        "failed" => Exit::Failed,
        "not_dispatched" if effect.stage == "awaiting_approval" => Exit::Waiting,
        "not_dispatched" => Exit::Refused,
        _ => Exit::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_written_with_its_own_decimals() {
        for (number, currency, text) in [
            (12_000, Some("usd"), "120.00 USD"),
            (5, Some("usd"), "0.05 USD"),
            (-5, Some("usd"), "-0.05 USD"),
            (0, Some("usd"), "0.00 USD"),
            (5_000, Some("jpy"), "5000 JPY"),
            (1_234, Some("kwd"), "1.234 KWD"),
            (i64::MIN, Some("usd"), "-92233720368547758.08 USD"),
            (3, None, "3"),
        ] {
            assert_eq!(amount(number, currency), text);
        }
    }

    #[test]
    fn moments_are_near_or_far() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let at = |second| relative(Timestamp::from_second(second).unwrap(), now);
        assert_eq!(at(1_000_027), "in 27s");
        assert_eq!(at(1_000_000), "0s ago");
        assert_eq!(at(1_000_000 - 180), "3m ago");
        assert_eq!(at(1_000_000 - 90_000), "25h ago");
        assert_eq!(at(1_000_000 - 300_000), "3d ago");
    }
}
