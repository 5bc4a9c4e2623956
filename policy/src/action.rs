//! What an agent may do: the name and the rules that the law needs of a declared action.

use std::fmt;

/// The name of an action: `[actions.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActionName(String);

impl ActionName {
    /// Names that the API's routes need for themselves.
    pub const RESERVED: [&'static str; 4] = ["import", "invocations", "effects", "previews"];

    /// 1 to 64 characters out of `a-z A-Z 0-9 _ . -`, and not one of [`Self::RESERVED`]: the name is a path
    /// segment of the API and clients do not escape it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
            && !text.starts_with('.')
            && !Self::RESERVED.contains(&text);
        fits.then(|| Self(text.to_owned()))
    }

    /// The name as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ActionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
