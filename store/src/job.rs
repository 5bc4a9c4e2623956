//! What waits for the writer: a verb, how it is called, and who waits for its commit.

use tokio::sync::oneshot;

use crate::error::{Fault, StoreError};
use crate::writer::Tx;

/// A verb: how it is called in errors, and its failpoints around the commit.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) words: &'static str,
    pub(crate) before: Option<&'static str>,
    pub(crate) after: Option<&'static str>,
    /// Whether it works on the rows of limits themselves.
    pub(crate) on_limits: bool,
    /// Whether it may give a right to send.
    pub(crate) permits: bool,
}

impl Step {
    /// `words` follow "could not".
    pub(crate) const fn new(words: &'static str) -> Self {
        Self { words, before: None, after: None, on_limits: false, permits: false }
    }

    pub(crate) const fn failing_at(self, before: &'static str, after: &'static str) -> Self {
        Self { before: Some(before), after: Some(after), ..self }
    }

    /// It reads and writes the rows of limits, which say everything then, and not through the [`crate::tally::Tally`].
    pub(crate) const fn on_limits(self) -> Self {
        Self { on_limits: true, ..self }
    }

    /// It may give a right to send, for which a record that is damaged is no ground.
    pub(crate) const fn permitting(self) -> Self {
        Self { permits: true, ..self }
    }
}

/// A verb with the one who waits for it.
pub(crate) trait Job: Send {
    fn step(&self) -> Step;
    /// Whether what it wrote is to be kept. Run again when its transaction was rolled back on account of another one.
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;
    /// It is not run, for this reason.
    fn refuse(&mut self, fault: Fault);
    /// What SQLite said no with, if it did.
    fn fault(&self) -> Option<&rusqlite::Error>;
    /// Tells the one who waits, once the commit is decided.
    fn reply(self: Box<Self>, committed: Result<(), StoreError>);
}

/// One, on its way through the queue.
pub(crate) struct Verb<T, F> {
    step: Step,
    verb: Option<F>,
    done: Option<Result<T, StoreError>>,
    waiting: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Verb<T, F> {
    pub(crate) fn new(step: Step, verb: F, waiting: oneshot::Sender<Result<T, StoreError>>) -> Self {
        Self { step, verb: Some(verb), done: None, waiting }
    }
}

impl<T, F> Job for Verb<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> Result<T, Fault> + Send,
{
    fn step(&self) -> Step {
        self.step
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        let step = self.step.words;
        if let Some(verb) = &mut self.verb {
            // What an earlier run has come to was rolled back, and must not be told if this one panics.
            self.done = None;
            self.done = Some(verb(tx).map_err(|fault| StoreError::Failed { step, fault }));
        }
        matches!(self.done, Some(Ok(_)))
    }

    fn refuse(&mut self, fault: Fault) {
        self.verb = None;
        self.done = Some(Err(StoreError::Failed { step: self.step.words, fault }));
    }

    fn fault(&self) -> Option<&rusqlite::Error> {
        if let Some(Err(StoreError::Failed { fault: Fault::Database(error), .. })) = &self.done {
            Some(error)
        } else {
            None
        }
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { verb, done, waiting, step } = *self;
        // First: what the one who waits shares with the verb is its own again when it is told.
        drop(verb);
        let panicked = || Err(StoreError::Failed { step: step.words, fault: Fault::Panicked });
        let done = done.unwrap_or_else(panicked);
        // Nobody listens when the caller was cancelled: the value, and a claim in it, is dropped here, and the
        // sweep finds it.
        drop(waiting.send(committed.and(done)));
    }
}
