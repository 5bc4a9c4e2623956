//! Short texts that a provider may have written: they end in rows that are never changed, so their length is not the
//! provider's to choose.

use std::fmt;

/// Most characters of one, as many as the longest id that a look takes
/// (<https://docs.stripe.com/upgrades>, on backward-compatible changes).
pub const CHARS_MAX: usize = 255;
/// Of one that is cut, so many characters of its end stay: what was answered stands behind what was asked.
const END_CHARS: usize = 85;
/// Stands where something was cut out.
const CUT: char = '\u{2026}';

/// At most [`CHARS_MAX`] characters without control characters, made so when it is made: a longer text loses its middle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told(String);

impl Told {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Told {
    fn from(text: &str) -> Self {
        let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        if text.chars().nth(CHARS_MAX).is_none() {
            return Self(text.chars().map(shown).collect());
        }
        let begin = text.chars().take(CHARS_MAX - END_CHARS - 1).map(shown);
        let mut end: Vec<char> = text.chars().rev().take(END_CHARS).map(shown).collect();
        end.reverse();
        Self(begin.chain([CUT]).chain(end).collect())
    }
}

impl From<String> for Told {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_longer_than_what_it_may_be() {
        let whole = "\u{fc}".repeat(CHARS_MAX);
        for (text, told) in [
            ("refund re_1", "refund re_1"),
            ("", ""),
            (whole.as_str(), whole.as_str()),
            ("a\r\nb\0\u{1b}[2J\u{85}", "a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}[2J\u{fffd}"),
        ] {
            assert_eq!(Told::from(text).as_str(), told);
        }
        for filler in ["x", "\u{10348}", "\n"] {
            let long = Told::from(format!("GET /v1/{} was answered with 404", filler.repeat(3_000_000)));
            assert_eq!(long.as_str().chars().count(), CHARS_MAX);
            assert!(
                long.as_str().starts_with("GET /v1/") && long.as_str().ends_with(" was answered with 404")
            );
            assert!(!long.as_str().contains('\n'));
        }
    }
}
