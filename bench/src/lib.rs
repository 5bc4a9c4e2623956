//! The benchmark rig: an origin, Oncegate, two floors and a client, all on loopback, measured in turn.
//!
//! It sends real requests over real TLS and counts every one of them at the origin, which answers only when the
//! injected credential has arrived: a number that this rig prints stands for work that was done. In reading order.

pub mod measure;
pub mod report;
pub mod rig;
pub mod roles;
pub mod targets;

pub mod child;
pub mod client;
pub mod origin;

pub mod floor;
pub mod journal;

pub mod message;
pub mod stats;
pub mod tls;

/// Why a measurement could not be made, in words.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {cause}")]
pub struct Failure {
    /// What was being done.
    pub step: &'static str,
    /// What went wrong.
    pub cause: String,
}

impl Failure {
    /// A failure of `step` for `cause` and everything behind it.
    pub fn new(step: &'static str, cause: impl std::fmt::Display) -> Self {
        Self { step, cause: cause.to_string() }
    }
}

/// Names the step of an error.
pub trait During<T> {
    /// Turns any error into a [`Failure`] of `step`.
    ///
    /// # Errors
    /// The error, named.
    fn during(self, step: &'static str) -> Result<T, Failure>;
}

impl<T, E: std::fmt::Display> During<T> for Result<T, E> {
    fn during(self, step: &'static str) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, error))
    }
}
