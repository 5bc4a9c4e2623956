//! How a command ends: exit codes that scripts rely on, and the message for a person.

use std::fmt;
use std::process::ExitCode;

use serde_json::Value;

/// How a command ended. The numbers are documented and stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; and the effect succeeded, where there is one.
    Done,
    /// Failed.
    Failed,
    /// Wrong usage or configuration.
    Usage,
    /// The outcome is not known.
    Unknown,
    /// Waiting for approval.
    Waiting,
    /// Refused.
    Refused,
    /// The code of the command that `run` ran.
    Command(u8),
}

impl Exit {
    /// The number.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unknown => 13,
            Self::Waiting => 14,
            Self::Refused => 15,
            Self::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// Why a command stopped early: what to exit with, and what to say.
#[derive(Debug)]
pub(crate) struct Stop {
    /// What the process exits with.
    pub(crate) exit: Exit,
    /// For a person; several lines are allowed.
    pub(crate) message: String,
    /// For a program that asked for `--json`; `None` where there is nothing beside the message.
    pub(crate) document: Option<Value>,
}

impl Stop {
    /// Wrong usage or configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), document: None }
    }

    /// Something that should have worked did not.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into(), document: None }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error and everything behind it, in one line: `cannot read x: permission denied`.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some libraries repeat their cause in their own text.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_numbers() {
        let numbers = [Exit::Done, Exit::Failed, Exit::Usage, Exit::Unknown, Exit::Waiting, Exit::Refused];
        assert_eq!(numbers.map(Exit::number), [0, 1, 2, 13, 14, 15]);
        assert_eq!(Exit::Command(7).number(), 7);
    }
}
