//! Whether what was prepared may still be sent, as its action says it now: before a person's yes is acted on, and before a
//! replay.

use std::time::Duration;

use oncegate_adapters::Adapter;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::time::Timestamp;
use oncegate_store::ready::PreparedRequest;
use oncegate_store::replay::{self, ReplayRefusal};
use oncegate_store::view::EffectView;
use serde_json::Value;

use crate::state::Snapshot;
use crate::{adapting, taken_over};

/// What a person approves is held by the limits of the action that it is when it is sent: it may have become another
/// action's, with a limit of its own, while it waited.
///
/// Only what leaves as it was asked for can be read so. Where a provider's own adapter or a key's member has added to the
/// body, the addition would be read as the agent's: a refund that is told apart by having no metadata leaves with some.
///
/// # Errors
/// Whose it is.
pub fn is_still_its_own(snapshot: &Snapshot, kept: &PreparedRequest) -> Result<(), Refusal> {
    let own = snapshot.action(kept.view.action.as_str());
    if own.is_some_and(|(_, adapter)| adapting::is_provider(adapter) || adapter.key_member().is_some()) {
        return Ok(());
    }
    match taken_over::anothers(snapshot, &kept.request, &kept.view.action) {
        None => Ok(()),
        Some(by) => Err(Refusal::new(
            Code::Undeclared,
            format!(
                "The request cannot be sent as it was prepared: it is action {by}'s now. Nothing was sent."
            ),
        )),
    }
}

/// Whether the provider is still known to deduplicate on the key of an unknown effect, as the action says it now. Of one that
/// is not declared any more nothing is known, and nothing can be sent.
///
/// # Errors
/// Why not.
pub fn is_relied_on(
    snapshot: &Snapshot,
    kept: &PreparedRequest,
    now: Timestamp,
) -> Result<(), ReplayRefusal> {
    let Some((action, adapter)) = snapshot.action(kept.view.action.as_str()) else { return Ok(()) };
    if is_forgotten(&kept.view, adapting::failures_kept(action)) {
        return Err(ReplayRefusal::KeyNotKept);
    }
    if !reads_its_key(adapter, kept) {
        return Err(ReplayRefusal::Unsupported);
    }
    if closes_at(adapter, &kept.view).is_some_and(|closes| closes <= now) {
        return Err(ReplayRefusal::WindowClosed);
    }
    Ok(())
}

/// Whether the provider deduplicates on the key that was sent, as the action says it now: it reads one there. What was
/// declared when the effect was admitted may have turned out to be wrong.
fn reads_its_key(adapter: &Adapter, kept: &PreparedRequest) -> bool {
    let (key, request) = (&kept.view.provider_key, &kept.request);
    match (adapter.key_header(), adapter.key_member()) {
        (Some(place), _) => request.headers.iter().any(|(name, value)| name == place && value == key),
        (None, Some(member)) => {
            let body = serde_json::from_slice::<Value>(&request.body);
            body.is_ok_and(|body| body.get(member).and_then(Value::as_str) == Some(key.as_str()))
        }
        (None, None) => false,
    }
}

/// When an unknown effect's key is not relied on any more, by what was declared when it was sent and by what is declared
/// now: a window may have turned out to be shorter.
#[must_use]
pub fn closes_at(adapter: &Adapter, effect: &EffectView) -> Option<Timestamp> {
    let sent_at = effect.claimed_at?;
    let by_now = sent_at.plus(Duration::from_millis(adapter.key_window_ms()?));
    Some(replay::closes_at(sent_at, effect.replay_until?.min(by_now)))
}

/// Whether the provider keeps no key of the answer that it gave: then the same bytes are a second write.
fn is_forgotten(effect: &EffectView, failures_kept: Option<bool>) -> bool {
    let answered = effect.response.as_ref().map(|answer| answer.status);
    failures_kept == Some(false) && answered.is_some_and(|status| !(200..=299).contains(&status))
}
