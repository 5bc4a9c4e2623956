//! What this process has under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use oncegate_policy::id::EffectId;
use oncegate_store::EffectView;
use tokio::sync::watch;

/// Effects of this process that are on their way, so that a duplicate can wait for the first one's answer.
#[derive(Default)]
pub struct InFlight(Mutex<HashMap<EffectId, watch::Sender<Option<EffectView>>>>);

impl InFlight {
    /// Announces an effect before its claim is committed, so that whoever finds the row has somebody to wait for.
    /// `false` when it is announced already.
    pub fn enter(&self, effect: &EffectId) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = !known.contains_key(effect);
        if fresh {
            known.insert(effect.clone(), watch::Sender::new(None));
        }
        fresh
    }

    /// Tells whoever waits what became of it, and forgets it.
    pub fn leave(&self, effect: &EffectId, view: Option<&EffectView>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(effect);
        // Nobody can begin to wait any more, and mostly nobody does.
        if let Some(sender) = sender.filter(|sender| sender.receiver_count() > 0) {
            sender.send_replace(view.cloned());
        }
    }

    /// Waits until something is told of the effect; `None` at once when nobody is on it.
    pub async fn join(&self, effect: &EffectId) -> Option<EffectView> {
        let mut told = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(effect)?.subscribe()
        };
        // An error means that the sender went without a word: the record knows better.
        told.wait_for(Option::is_some).await.ok()?.clone()
    }
}

/// How many of something there are: a graceful stop waits until there is none.
#[derive(Debug, Default)]
pub struct Counted(Arc<AtomicUsize>);

impl Counted {
    /// One more, until what is returned goes, however it goes.
    #[must_use]
    pub fn enter(&self) -> Entered {
        self.0.fetch_add(1, Ordering::SeqCst);
        Entered(Arc::clone(&self.0))
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Is counted while it lives.
#[derive(Debug)]
pub struct Entered(Arc<AtomicUsize>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
