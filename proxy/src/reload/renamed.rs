//! Keys that have another name from now on. Who asked for an effect is known by name, and so is who may not decide over it.

use oncegate_config::model::Config;
use oncegate_policy::caller::CallerName;
use oncegate_store::{EffectFilter, Store, StoreError};

/// What an operator should know of each key that was another caller's, open effects first of all.
pub(super) async fn doubts(store: &Store, old: &Config, new: &Config) -> Result<Vec<String>, StoreError> {
    let mut doubts = Vec::new();
    for (was, is) in renamed(old, new) {
        let filter = EffectFilter {
            caller: Some(was.clone()),
            unresolved: Some(true),
            limit: 1,
            ..EffectFilter::default()
        };
        let open = store.list(filter).await?.total;
        doubts.push(format!(
            "caller {is} has a key that was {was}'s: it may approve, resolve and replay what it has asked for as {was}, \
             of which {open} effects are not settled"
        ));
    }
    Ok(doubts)
}

/// The old name and the new one.
fn renamed<'a>(old: &'a Config, new: &'a Config) -> Vec<(&'a CallerName, &'a CallerName)> {
    let mut renamed = Vec::new();
    for (is, caller) in &new.callers {
        let had = |known: &oncegate_config::model::Caller| {
            known.keys.iter().any(|one| caller.keys.iter().any(|key| key.sha256 == one.sha256))
        };
        let before = old.callers.iter().filter(|(was, known)| *was != is && had(known));
        renamed.extend(before.map(|(was, _)| (was, is)));
    }
    renamed
}
