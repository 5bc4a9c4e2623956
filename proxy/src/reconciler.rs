//! Reconcile: sweep what was interrupted, list what is due, look, record what was found.
//!
//! A look can only read: [`oncegate_adapters::ReadBack`] has no method and no body to set. It runs while
//! halted, for ever while unknown, and never turns "found nothing" into an outcome.

use std::sync::Arc;
use std::time::Duration;

use oncegate_adapters::{Adapter, Look, LookStep, Memory, ReadBack};
use oncegate_config::model::{Action, Host};
use oncegate_policy::effect::Stage;
use oncegate_policy::exchange::{Answer, Exchange};
use oncegate_policy::id::EffectId;
use oncegate_policy::reconcile::{Finding, Looker};
use oncegate_store::StoreError;
use oncegate_store::look::{Found, LookDue};
use serde_json::Value;
use thiserror::Error;
use tokio::sync::watch;

use crate::listener::stopped;
use crate::state::{Sidecar, Snapshot};
use crate::{adapting, let_through, read, upstream};

/// The reconciler wakes at least this often: interrupted dispatches are swept then.
const WAKE_EVERY: Duration = Duration::from_secs(15);
/// And no more often than this by itself, whatever `first_after` says.
const WAKE_EVERY_MIN: Duration = Duration::from_millis(20);
/// Recorded answers that are older than `[store] keep_responses` are erased this often.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);
/// Questions in one look; the adapters have bounds of their own below it.
const QUESTIONS_MAX: usize = 128;

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

/// Runs until `stop` says so.
pub async fn run(sidecar: Arc<Sidecar>, mut stop: watch::Receiver<bool>) {
    let mut pruned_at = None;
    loop {
        // Registered before the pass: what happens during it is not missed.
        let soon = sidecar.look_soon.notified();
        tokio::pin!(soon);
        soon.as_mut().enable();
        if let Err(error) = pass(&sidecar).await {
            tracing::error!(error = upstream::chain(&error), "a reconciling pass could not be finished");
        }
        let now = sidecar.clock.now();
        if pruned_at.is_none_or(|at| now.since(at) >= PRUNE_EVERY) {
            pruned_at = Some(now);
            if let Err(error) = sidecar.store.prune(None, now).await {
                tracing::error!(error = upstream::chain(&error), "old answers could not be erased");
            }
        }
        let wait = next_wake(&sidecar).await;
        tokio::select! {
            () = soon => {}
            () = tokio::time::sleep(wait) => {}
            () = stopped(&mut stop) => return,
        }
    }
}

/// A success wakes nobody: where the look that may confirm it is due sooner than the usual wake, that is waited for.
async fn next_wake(sidecar: &Arc<Sidecar>) -> Duration {
    let first_after = sidecar.snapshot().config.reconcile.schedule.first_after;
    let longest = first_after.clamp(WAKE_EVERY_MIN, WAKE_EVERY);
    match sidecar.store.next_look().await {
        Ok(Some(at)) => at.since(sidecar.clock.now()).clamp(WAKE_EVERY_MIN, longest),
        Ok(None) | Err(_) => longest,
    }
}

/// One pass: sweep, list, look, record. At most `max_per_pass` looks.
///
/// # Errors
/// The record could not be read or written.
pub async fn pass(sidecar: &Arc<Sidecar>) -> Result<(), StoreError> {
    let now = sidecar.clock.now();
    for effect in sidecar.store.sweep(now).await? {
        tracing::warn!(effect.id = %effect, "a dispatch was interrupted; its outcome is unknown");
    }
    let snapshot = sidecar.snapshot();
    for due in sidecar.store.due(now, snapshot.config.reconcile.max_per_pass).await? {
        let id = due.view.id.clone();
        let finding = look(sidecar, &snapshot, &due).await;
        apply(sidecar, &id, finding, Looker::Schedule).await?;
    }
    confirm(sidecar, &snapshot).await?;
    let_through::pass(sidecar).await
}

/// One look after a success, as late as a first look after an unknown: a match makes `acknowledged` into
/// `confirmed`.
async fn confirm(sidecar: &Arc<Sidecar>, snapshot: &Snapshot) -> Result<(), StoreError> {
    let reconcile = &snapshot.config.reconcile;
    let before = sidecar.clock.now().minus(reconcile.schedule.first_after);
    for due in sidecar.store.unconfirmed(before, reconcile.max_per_pass).await? {
        let finding = look(sidecar, snapshot, &due).await;
        sidecar.store.confirm(&due.view.id, finding, sidecar.clock.now()).await?;
    }
    Ok(())
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
    let finding = look(sidecar, &snapshot, &due).await;
    Ok(apply(sidecar, id, finding, looker).await?)
}

async fn apply(
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

/// One look, as many questions as it takes. Always ends in a finding.
pub async fn look(sidecar: &Arc<Sidecar>, snapshot: &Snapshot, due: &LookDue) -> Finding {
    let unreadable = |what: &str| Finding::Unreadable { what: what.to_owned() };
    let Some((action, adapter)) = snapshot.action(due.view.action.as_str()) else {
        return unreadable("the action is no longer declared");
    };
    let authority = adapting::authority(action);
    let Some(host) = snapshot.host(&authority) else { return unreadable("its host is no longer declared") };
    let Ok(memory) = serde_json::from_str::<Value>(&due.memory) else {
        return unreadable("what was remembered of it cannot be read");
    };
    let headers: Vec<(String, String)> =
        serde_json::from_value(memory["headers"].clone()).unwrap_or_default();
    let response = due.view.response.as_ref().and_then(|kept| serde_json::from_slice(&kept.body).ok());
    let remembered = Memory {
        effect_id: due.view.id.as_str(),
        provider_key: &due.view.provider_key,
        input: &memory["input"],
        headers: &headers,
        response: response.as_ref(),
        sent_at_ms: due.view.claimed_at.unwrap_or(due.view.created_at).0,
    };
    let timed = tokio::time::timeout(
        snapshot.config.reconcile.timeout,
        questions(sidecar, snapshot, (host, action, adapter), &remembered),
    );
    let finding = timed.await.unwrap_or_else(|_| unreadable("the look took too long"));
    sidecar.metrics.looked(&finding);
    finding
}

async fn questions(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    (host, action, adapter): (&Host, &Action, &Adapter),
    memory: &Memory<'_>,
) -> Finding {
    let mut next = adapter.look(memory, LookStep::First);
    for page in 1..=QUESTIONS_MAX {
        let request = match next {
            Look::Found(finding) => return finding,
            Look::Impossible(why) => return Finding::Unreadable { what: why.to_owned() },
            Look::Ask(request) => request,
        };
        let answer = match ask(sidecar, snapshot, host, action, &request).await {
            Ok(answer) => answer,
            Err(what) => return Finding::Unreadable { what },
        };
        next = adapter.look(memory, LookStep::Next { request: &request, answer: &answer, page });
    }
    Finding::Unreadable { what: "the look asked too many questions".to_owned() }
}

/// One question, with the credential of the action.
async fn ask(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    host: &Host,
    action: &Action,
    read_back: &ReadBack,
) -> Result<Answer, String> {
    let authority = adapting::authority(action);
    let to = (&authority, adapting::scheme(action));
    let within = snapshot.config.reconcile.timeout;
    match read::ask(sidecar, snapshot, (host, action), to, read_back, within).await? {
        Exchange::Answered(answer) => Ok(answer),
        Exchange::NotSent(proof) => Err(format!("{}: {}", proof.step(), proof.cause())),
        Exchange::Lost(loss) => Err(loss.cause),
    }
}
