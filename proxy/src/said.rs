//! What the pipeline has to say in the end, before a listener gives it a shape.

use oncegate_policy::exchange::{Answer, Exchange};
use oncegate_policy::id::EffectId;
use oncegate_policy::refusal::Refusal;
use oncegate_store::view::EffectView;
use tokio::sync::oneshot;

use crate::logged::{Line, Step};

/// The end of one request's way through the pipeline.
pub enum Said {
    /// No, and nothing was sent.
    Refused(Refusal),
    /// The provider's own answer, just now: its success or its definite refusal.
    Provider {
        /// The effect.
        view: Box<EffectView>,
        /// Complete, without secrets.
        answer: Answer,
    },
    /// What the record says now: an unknown or never-sent first try, or anything repeated.
    Record {
        /// The effect.
        view: Box<EffectView>,
        /// It was there before this request.
        repeat: bool,
    },
    /// It was sent and its outcome could not be written down: unknown, whatever was seen.
    Unrecorded(EffectId),
}

/// Gives the waiting connection its answer, once, and writes the request's line then. The connection may be gone: that
/// changes nothing (P9).
pub struct Answering {
    waiting: Option<oneshot::Sender<Said>>,
    line: Option<Line>,
}

impl Answering {
    /// The two ends.
    #[must_use]
    pub fn channel() -> (Self, oneshot::Receiver<Said>) {
        let (give, take) = oneshot::channel();
        (Self { waiting: Some(give), line: None }, take)
    }

    /// What the line will be about.
    pub fn about(&mut self, line: Line) {
        self.line = Some(line);
    }

    /// A step has ended now.
    pub fn lap(&mut self, step: Step) {
        if let Some(line) = &mut self.line {
            line.lap(step);
        }
    }

    /// The provider's side has ended, in this way.
    pub fn saw(&mut self, exchange: &Exchange) {
        if let Some(line) = &mut self.line {
            line.saw(exchange);
        }
    }

    /// Whether the answer is given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.waiting.is_none()
    }

    /// Answers; later answers go nowhere.
    pub fn give(&mut self, said: Said) {
        let Some(waiting) = self.waiting.take() else { return };
        if let Some(line) = self.line.take() {
            line.write(&said);
        }
        if waiting.send(said).is_err() {
            tracing::debug!("the client has gone; the effect goes on");
        }
    }
}
