//! What is admitted goes by a definition, and the API may change definitions: never both at once. Otherwise an effect
//! could be admitted under a definition that was just found to hold nothing open, and then be read back, sent again or
//! told from its repeats by another one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use oncegate_policy::action::ActionName;
use oncegate_policy::refusal::{Code, Refusal};
use tokio::sync::{OwnedRwLockReadGuard, RwLock, RwLockWriteGuard};

/// Which edit came when.
#[derive(Default)]
pub struct Editions {
    gate: Arc<RwLock<()>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    latest: u64,
    /// Of each action that was changed or removed, or may have lost requests to one that was: at most as many as there
    /// have been definitions.
    edited: BTreeMap<ActionName, u64>,
}

/// Nothing is admitted while this is held.
pub struct Editing<'a> {
    editions: &'a Editions,
    _alone: RwLockWriteGuard<'a, ()>,
}

impl Editions {
    /// Taken before the configuration that a request will go by.
    #[must_use]
    pub fn latest(&self) -> u64 {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).latest
    }

    /// Held from the plan to the end of the admission: no edit comes between.
    ///
    /// # Errors
    /// The action was changed since `seen`: what the request would go by is not so any more.
    pub async fn admitting(
        &self,
        action: &ActionName,
        seen: u64,
    ) -> Result<OwnedRwLockReadGuard<()>, Refusal> {
        let held = Arc::clone(&self.gate).read_owned().await;
        let edited = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.edited.get(action).copied()
        };
        match edited.is_some_and(|edited| edited > seen) {
            false => Ok(held),
            true => Err(Refusal::new(
                Code::Undeclared,
                "The action was changed while this request came in. Nothing was sent; send it once more.",
            )),
        }
    }

    /// Waits until whatever is being admitted is recorded, and holds up what comes after.
    pub async fn editing(&self) -> Editing<'_> {
        Editing { editions: self, _alone: self.gate.write().await }
    }
}

impl Editing<'_> {
    /// The edit is in force: what was read before goes by something else.
    pub fn edited(self, actions: impl IntoIterator<Item = ActionName>) {
        let mut known = self.editions.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.latest += 1;
        let latest = known.latest;
        known.edited.extend(actions.into_iter().map(|action| (action, latest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_read_before_an_edit_is_not_admitted_after_it() {
        let editions = Editions::default();
        let (pay, other) = (ActionName::parse("pay").unwrap(), ActionName::parse("other").unwrap());
        let before = editions.latest();
        let held = editions.admitting(&pay, before).await.unwrap();
        let mut editing = std::pin::pin!(editions.editing());
        let waits =
            std::future::poll_fn(|cx| std::task::Poll::Ready(editing.as_mut().poll(cx).is_pending())).await;
        assert!(waits, "an edit waits for what is being admitted");
        drop(held);
        editing.await.edited([pay.clone()]);
        assert_eq!(editions.admitting(&pay, before).await.err().unwrap().code, Code::Undeclared);
        assert!(editions.admitting(&other, before).await.is_ok(), "another action was not touched");
        assert!(editions.admitting(&pay, editions.latest()).await.is_ok());
    }
}
