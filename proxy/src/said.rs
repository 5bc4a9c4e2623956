//! What the pipeline has to say in the end, before a listener gives it a shape.

use oncegate_policy::exchange::Answer;
use oncegate_policy::id::EffectId;
use oncegate_policy::refusal::Refusal;
use oncegate_store::view::EffectView;
use tokio::sync::oneshot;

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

/// Gives the waiting connection its answer, once. The connection may be gone: that changes nothing (P9).
pub struct Answering(Option<oneshot::Sender<Said>>);

impl Answering {
    /// The two ends.
    #[must_use]
    pub fn channel() -> (Self, oneshot::Receiver<Said>) {
        let (give, take) = oneshot::channel();
        (Self(Some(give)), take)
    }

    /// Answers; later answers go nowhere.
    pub fn give(&mut self, said: Said) {
        if let Some(waiting) = self.0.take()
            && waiting.send(said).is_err()
        {
            tracing::debug!("the client has gone; the effect goes on");
        }
    }
}
