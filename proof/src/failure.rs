//! Why a proof could not be carried out. A violation is not here: it is what a proof finds.

use std::fmt::Display;

/// A step that went wrong.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}: {cause}")]
pub(crate) struct Failure {
    step: String,
    cause: String,
}

impl Failure {
    pub(crate) fn new(step: impl Into<String>, cause: impl Display) -> Self {
        Self { step: step.into(), cause: cause.to_string() }
    }
}

/// Names the step of whatever failed.
pub(crate) trait During<T> {
    fn during(self, step: &str) -> Result<T, Failure>;
}

impl<T, E: Display> During<T> for Result<T, E> {
    fn during(self, step: &str) -> Result<T, Failure> {
        self.map_err(|cause| Failure::new(step, cause))
    }
}

impl<T> During<T> for Option<T> {
    fn during(self, step: &str) -> Result<T, Failure> {
        self.ok_or_else(|| Failure::new(step, "there is none"))
    }
}
