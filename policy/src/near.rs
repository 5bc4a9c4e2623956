//! Subjects that may be the same thing under another name.

/// Another subject of the same action on which an open effect may well be of the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NearSubject {
    /// Exactly this one: another name of the same thing.
    Named(String),
    /// Any that begins so and has begun: which of them is the same thing could not be read.
    Beginning(String),
}
