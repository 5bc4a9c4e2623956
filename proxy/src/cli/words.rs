//! Values as a person reads them.

use crate::control::view::{EffectJson, ImpactJson};
use jiff::{SignedDuration, Timestamp};
use oncegate_policy::money;

use super::exit::Exit;

/// `120.00 USD`, `5000 JPY`; without a currency the plain number.
pub(crate) fn amount(number: i64, currency: Option<&str>) -> String {
    currency.map_or_else(|| number.to_string(), |currency| money::in_words(number, currency))
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
