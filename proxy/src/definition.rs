//! Definitions of actions as the API speaks of them, and as the configuration keeps them: JSON in, TOML out, judged by
//! the reader that judges what a person writes. Pure but for [`versions`], which keeps files.

pub(crate) mod entry;
pub(crate) mod faults;
pub(crate) mod file;
pub(crate) mod names;
pub(crate) mod openapi;
pub(crate) mod toml_value;
pub(crate) mod versions;

#[cfg(test)]
mod tests;

use serde::Serialize;

/// One thing that is wrong with a definition, in the words of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// The member, dotted: `verify.match[0].path`.
    pub(crate) field: String,
    /// What is wrong, and what would be right.
    pub(crate) message: String,
}

impl Problem {
    /// What is wrong with a member.
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}
