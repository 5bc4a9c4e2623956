//! After sending: looking for an effect at the provider, as a small pure state machine.

use oncegate_policy::exchange::Answer;
use oncegate_policy::reconcile::Finding;
use oncegate_policy::told::Told;
use serde_json::Value;

use crate::read_back::ReadBack;

/// What is remembered of an effect.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// `eff_…`
    pub effect_id: &'a str,
    /// The key that was sent to the provider.
    pub provider_key: &'a str,
    /// What was asked.
    pub input: &'a Value,
    /// The plan's `fingerprint_scope` and `read_scope`: headers that a read has to repeat.
    pub headers: &'a [(String, String)],
    /// The body of the provider's answer, if one came.
    pub response: Option<&'a Value>,
    /// When the dispatch was claimed.
    pub sent_at_ms: i64,
}

/// Where a look stands.
#[derive(Clone, Copy, Debug)]
pub enum LookStep<'a> {
    /// Nothing was asked yet.
    First,
    /// One question was answered.
    Next {
        /// The question.
        request: &'a ReadBack,
        /// The answer, complete.
        answer: &'a Answer,
        /// How many questions were answered in this look, this one included.
        page: usize,
    },
}

/// What follows in a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Ask this, and come back with the answer.
    Ask(ReadBack),
    /// The end of the look.
    Found(Finding),
    /// This effect cannot be looked for: only a person can settle it.
    Impossible(&'static str),
}

/// A look that ends without having seen what it had to see.
pub(crate) fn unreadable(what: impl Into<Told>) -> Look {
    Look::Found(Finding::Unreadable { what: what.into() })
}
