//! Who asks, and what their key allows.

use std::fmt;

/// The name of a caller: `[callers.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallerName(String);

impl CallerName {
    /// 1 to 64 characters out of `a-z A-Z 0-9 _ . -`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
        fits.then(|| Self(text.to_owned()))
    }

    /// The name as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Ask for actions, and for a look at what came of them.
    ActionsInvoke,
    /// Resolve, replay and annotate what another key asked for.
    ActionsResolve,
    /// Define actions and change what is declared of them.
    ActionsGovern,
    /// Put secrets into the vault.
    SecretsWrite,
    /// Make, change and archive limits.
    ImpactLimitsWrite,
    /// Halt and resume.
    EnvironmentsHalt,
    /// Approve and deny.
    ApprovalsDecide,
}

impl Scope {
    /// Every scope with its public spelling.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::ActionsInvoke, "actions:invoke"),
        (Self::ActionsResolve, "actions:resolve"),
        (Self::ActionsGovern, "actions:govern"),
        (Self::SecretsWrite, "secrets:write"),
        (Self::ImpactLimitsWrite, "impact-limits:write"),
        (Self::EnvironmentsHalt, "environments:halt"),
        (Self::ApprovalsDecide, "approvals:decide"),
    ];

    /// Reads the public spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, word)| *word == text).map(|(scope, _)| *scope)
    }

    /// The public spelling.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(scope, _)| *scope == self).map_or("", |(_, word)| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::ActionName;

    #[test]
    fn a_name_is_a_segment_of_a_path() {
        let longest = "n".repeat(64);
        for (text, caller, action) in [
            ("refund", true, true),
            ("Refund-2.0_x", true, true),
            (longest.as_str(), true, true),
            ("", false, false),
            (&"n".repeat(65), false, false),
            ("a/b", false, false),
            ("a b", false, false),
            ("a\u{e9}", false, false),
            (".", true, false),
            (".refund", true, false),
            ("effects", true, false),
            ("invocations", true, false),
            ("import", true, false),
            ("previews", true, false),
        ] {
            let (as_caller, as_action) = (CallerName::parse(text), ActionName::parse(text));
            assert_eq!(as_caller.as_ref().map(CallerName::as_str), caller.then_some(text));
            assert_eq!(as_action.as_ref().map(ActionName::as_str), action.then_some(text));
            assert_eq!(as_caller.map(|name| name.to_string()), caller.then(|| text.to_owned()));
            assert_eq!(as_action.map(|name| name.to_string()), action.then(|| text.to_owned()));
        }
    }

    #[test]
    fn each_scope_is_read_in_its_public_spelling() {
        for (scope, word) in Scope::ALL {
            assert_eq!((scope.word(), Scope::parse(word)), (word, Some(scope)));
        }
        assert_eq!(Scope::parse("actions:*"), None);
    }
}
