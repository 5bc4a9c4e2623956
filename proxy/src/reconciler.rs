//! Reconcile: sweep what was interrupted, list what is due, look, record what was found.
//!
//! A look can only read: [`oncegate_adapters::ReadBack`] has no method and no body to set. It runs while
//! halted, for ever while unknown, and never turns "found nothing" into an outcome.

use std::sync::Arc;
use std::time::Duration;

use oncegate_policy::effect::Stage;
use oncegate_policy::id::EffectId;
use oncegate_policy::reconcile::{Finding, Looker};
use oncegate_policy::time::Timestamp;
use oncegate_store::StoreError;
use oncegate_store::look::Found;
use thiserror::Error;
use tokio::sync::watch;

use crate::listener::stopped;
use crate::rounds::{self, Rounds};
use crate::state::Sidecar;
use crate::task::{self, Work};
use crate::{durable, lapsing, let_through, load, looking, upstream};

/// The reconciler wakes at least this often: interrupted dispatches are swept then.
const WAKE_EVERY: Duration = Duration::from_secs(15);
/// And no more often than this by itself, whatever `first_after` says.
const WAKE_EVERY_MIN: Duration = Duration::from_millis(20);
/// Nor more often than this after a pass, or on an effect, that failed.
const WAKE_AFTER_FAILURE_MIN: Duration = Duration::from_secs(1);
/// Recorded answers that are older than `[store] keep_responses` are erased this often.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);

/// Why a look could not be made at all.
#[derive(Debug, Error)]
pub enum LookError {
    /// No such effect.
    #[error("there is no such effect")]
    Missing,
    /// It is settled, or nothing was ever sent: there is nothing to look for.
    #[error("the effect is settled")]
    Settled,
    /// The record could not be read or written.
    #[error("the store could not be used for a look")]
    Store(#[from] StoreError),
}

/// Runs until `stop` says so: looks, which may take long, and beside them what waits for no provider.
pub fn run(sidecar: Arc<Sidecar>, stop: watch::Receiver<bool>) -> Work<()> {
    let lapses = lapsing::run(Arc::clone(&sidecar), stop.clone());
    let sends = sends(Arc::clone(&sidecar), stop.clone());
    task::apart(async { _ = tokio::join!(looks(sidecar, stop), sends, lapses) })
}

async fn looks(sidecar: Arc<Sidecar>, mut stop: watch::Receiver<bool>) {
    let mut rounds = Rounds::new(&sidecar);
    loop {
        // Registered before the round: what happens during it is not missed.
        let soon = sidecar.look_soon.notified();
        tokio::pin!(soon);
        soon.as_mut().enable();
        let began = sidecar.clock.now();
        let begun = rounds.begin().await;
        if let Err(error) = &begun {
            tracing::error!(error = upstream::chain(error), "what is to be looked for could not be listed");
        }
        let sleep = tokio::time::sleep(next_wake(&sidecar, begun.ok().map(|()| began)).await);
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                biased;
                // To drop looks is safe: they are reads, and due again.
                () = stopped(&mut stop) => return,
                Some(ended) = rounds.ended() => match ended {
                    // More may be due there already.
                    Ok(1..) => break,
                    Ok(0) => {}
                    Err(error) => {
                        tracing::error!(error = upstream::chain(&error), "looks at a provider could not be recorded");
                    }
                },
                () = &mut soon => break,
                () = &mut sleep => break,
            }
        }
    }
}

/// What was interrupted becomes unknown, what was approved is sent, and now and then old answers are erased. It is never
/// dropped on its way: a claim that was just made is not lost.
async fn sends(sidecar: Arc<Sidecar>, mut stop: watch::Receiver<bool>) {
    let mut pruned_at = None;
    loop {
        let soon = sidecar.look_soon.notified();
        tokio::pin!(soon);
        soon.as_mut().enable();
        let swept = sweep(&sidecar, sidecar.clock.now()).await;
        let sent = let_through::pass(&sidecar, &stop).await;
        for error in [swept.as_ref().err(), sent.as_ref().err()].into_iter().flatten() {
            tracing::error!(error = upstream::chain(error), "a reconciling pass could not be finished");
        }
        let now = sidecar.clock.now();
        if pruned_at.is_none_or(|at| now.since(at) >= PRUNE_EVERY) && !*stop.borrow() {
            pruned_at = Some(now);
            if let Err(error) = sidecar.store.prune(None, now).await {
                tracing::error!(error = upstream::chain(&error), "old answers could not be erased");
            }
            remove_unfinished(&sidecar).await;
            look_for_more(&sidecar).await;
        }
        let wait = match (swept, sent) {
            (Ok(()), Ok(true)) => WAKE_EVERY_MIN,
            (Ok(()), Ok(false)) => longest_wait(&sidecar),
            (Err(_), _) | (_, Err(_)) => longest_wait(&sidecar).max(WAKE_AFTER_FAILURE_MIN),
        };
        tokio::select! {
            // Whoever asks for a look is heard even if it is time for one: otherwise it would be made twice.
            biased;
            () = stopped(&mut stop) => return,
            () = soon => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// What is unknown of actions that can be read back by now, and could not when it was admitted, is looked for as well.
pub(crate) async fn look_for_more(sidecar: &Arc<Sidecar>) {
    let snapshot = sidecar.snapshot();
    let can = snapshot.adapters.iter().filter(|(_, adapter)| adapter.can_read_back());
    let actions = can.map(|(name, _)| name.clone()).collect();
    match sidecar.store.can_be_looked_for(actions, sidecar.clock.now()).await {
        Ok(0) => {}
        Ok(effects) => {
            tracing::info!(effects, "what could not be looked for can be now");
            sidecar.look_soon.notify_waiters();
        }
        Err(error) => {
            tracing::error!(
                error = upstream::chain(&error),
                "what can be looked for now could not be listed"
            );
        }
    }
}

async fn remove_unfinished(sidecar: &Sidecar) {
    let (folder, now) = (load::managed_folder(sidecar.files.path()), sidecar.clock.system());
    let removed = task::blocking(move || durable::remove_unfinished(&folder, now)).await;
    if let Ok(Err(error)) = removed {
        tracing::error!(%error, "what was left half written in managed/ could not be removed");
    }
}

/// A success wakes nobody: where the look that may confirm it is due sooner than the usual wake, that is waited for. Without
/// a list of what is due, the longest.
async fn next_wake(sidecar: &Arc<Sidecar>, listed: Option<Timestamp>) -> Duration {
    let longest = longest_wait(sidecar);
    let Some(listed) = listed else { return longest.max(WAKE_AFTER_FAILURE_MIN) };
    match sidecar.store.next_look(listed).await {
        Ok(Some(at)) => at.since(sidecar.clock.now()).clamp(WAKE_EVERY_MIN, longest),
        Ok(None) => longest,
        Err(error) => {
            tracing::error!(error = upstream::chain(&error), "when the next look is due could not be read");
            longest
        }
    }
}

/// Between wakes, and the pause of what is put off.
pub(crate) fn longest_wait(sidecar: &Arc<Sidecar>) -> Duration {
    sidecar.snapshot().config.reconcile.schedule.first_after.clamp(WAKE_EVERY_MIN, WAKE_EVERY)
}

/// One pass of everything, for whoever drives a sidecar by hand: sweep, a round of looks, what lapses, what is approved. What cannot be
/// recorded on one effect is logged, and it is left alone for a while; the others have their turn.
///
/// # Errors
/// The record could not be read or written at all.
pub async fn pass(sidecar: &Arc<Sidecar>) -> Result<(), StoreError> {
    let (_never, stop) = watch::channel(false);
    let swept = sweep(sidecar, sidecar.clock.now()).await;
    let looked = rounds::round(sidecar).await;
    let lapsed = lapsing::lapse(sidecar).await;
    let sent = let_through::pass(sidecar, &stop).await;
    swept?;
    looked?;
    lapsed?;
    sent.map(drop)
}

async fn sweep(sidecar: &Arc<Sidecar>, now: Timestamp) -> Result<(), StoreError> {
    for effect in sidecar.store.sweep(now).await? {
        tracing::warn!(effect.id = %effect, "a dispatch was interrupted; its outcome is unknown");
    }
    Ok(())
}

/// Leaves an effect alone that could not be recorded on.
///
/// # Errors
/// The error itself, where it is not known to concern this effect alone.
pub(crate) fn put_off(sidecar: &Arc<Sidecar>, id: &EffectId, error: StoreError) -> Result<(), StoreError> {
    if !rest(sidecar, id) || !error.concerns_one() {
        return Err(error);
    }
    tracing::error!(effect.id = %id, error = upstream::chain(&error), "the reconciler leaves an effect alone for a while");
    Ok(())
}

/// Leaves an effect alone for a while. `false` when that is done with too many already.
pub(crate) fn rest(sidecar: &Arc<Sidecar>, id: &EffectId) -> bool {
    sidecar.put_off.rest(id.clone(), longest_wait(sidecar).max(WAKE_AFTER_FAILURE_MIN))
}

/// Looks at once, because somebody asked.
///
/// # Errors
/// No such effect, nothing to look for, or the record could not be used.
pub async fn look_now(sidecar: &Arc<Sidecar>, id: &EffectId, looker: Looker) -> Result<Found, LookError> {
    let due = sidecar.store.memory(id).await?.ok_or(LookError::Missing)?;
    match &due.view.stage {
        Stage::Reconciling { .. } | Stage::Dispatching { .. } => {}
        Stage::AwaitingApproval { .. } | Stage::Ready | Stage::Settled(_) | Stage::Rejected(_) => {
            return Err(LookError::Settled);
        }
    }
    let snapshot = sidecar.snapshot();
    let finding = looking::look(sidecar, &snapshot, &due, &looker).await;
    Ok(apply(sidecar, id, finding, looker).await?)
}

pub(crate) async fn apply(
    sidecar: &Arc<Sidecar>,
    id: &EffectId,
    finding: Finding,
    looker: Looker,
) -> Result<Found, StoreError> {
    let found = sidecar.store.apply_finding(id, finding, looker, sidecar.clock.now()).await?;
    match &found {
        Found::Settled(view) => {
            tracing::info!(effect.id = %id, outcome = view.stage.outcome().word(), "settled by a look at the provider");
        }
        Found::StillUnknown(_) => tracing::info!(effect.id = %id, "looked at the provider; still unknown"),
        Found::AlreadySettled(_) | Found::Missing => {}
    }
    Ok(found)
}
