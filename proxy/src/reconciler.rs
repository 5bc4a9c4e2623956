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
use oncegate_policy::time::Timestamp;
use oncegate_store::StoreError;
use oncegate_store::look::{Found, LookDue};
use serde_json::Value;
use thiserror::Error;
use tokio::sync::watch;

use crate::listener::stopped;
use crate::state::{Sidecar, Snapshot};
use crate::task::{self, Work};
use crate::{adapting, as_prepared, durable, lapsing, let_through, load, read, upstream};

/// The reconciler wakes at least this often: interrupted dispatches are swept then.
const WAKE_EVERY: Duration = Duration::from_secs(15);
/// And no more often than this by itself, whatever `first_after` says.
const WAKE_EVERY_MIN: Duration = Duration::from_millis(20);
/// Nor more often than this after a pass, or on an effect, that failed.
const WAKE_AFTER_FAILURE_MIN: Duration = Duration::from_secs(1);
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
pub fn run(sidecar: Arc<Sidecar>, stop: watch::Receiver<bool>) -> Work<()> {
    let lapses = lapsing::run(Arc::clone(&sidecar), stop.clone());
    task::apart(async { _ = tokio::join!(passes(sidecar, stop), lapses) })
}

async fn passes(sidecar: Arc<Sidecar>, mut stop: watch::Receiver<bool>) {
    let mut pruned_at = None;
    loop {
        // Registered before the pass: what happens during it is not missed.
        let soon = sidecar.look_soon.notified();
        tokio::pin!(soon);
        soon.as_mut().enable();
        let passed = pass(&sidecar).await;
        if let Err(error) = &passed {
            tracing::error!(error = upstream::chain(error), "a reconciling pass could not be finished");
        }
        let now = sidecar.clock.now();
        if pruned_at.is_none_or(|at| now.since(at) >= PRUNE_EVERY) {
            pruned_at = Some(now);
            if let Err(error) = sidecar.store.prune(None, now).await {
                tracing::error!(error = upstream::chain(&error), "old answers could not be erased");
            }
            remove_unfinished(&sidecar).await;
            look_for_more(&sidecar).await;
        }
        let wait = next_wake(&sidecar, passed.ok()).await;
        tokio::select! {
            // Whoever asks for a look is heard even if it is time for one: otherwise it would be made twice.
            biased;
            () = soon => {}
            () = tokio::time::sleep(wait) => {}
            () = stopped(&mut stop) => return,
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
            sidecar.look_soon.notify_one();
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

/// A success wakes nobody: where the look that may confirm it is due sooner than the usual wake, that is waited for.
/// What a full pass has left over waits for nothing, and what a pass has failed on waits the longest.
async fn next_wake(sidecar: &Arc<Sidecar>, passed: Option<Passed>) -> Duration {
    let longest = longest_wait(sidecar);
    match passed {
        None => longest.max(WAKE_AFTER_FAILURE_MIN),
        Some(Passed { more: true, .. }) => WAKE_EVERY_MIN,
        Some(Passed { began, more: false }) => match sidecar.store.next_look(began).await {
            Ok(Some(at)) => at.since(sidecar.clock.now()).clamp(WAKE_EVERY_MIN, longest),
            Ok(None) | Err(_) => longest,
        },
    }
}

fn longest_wait(sidecar: &Arc<Sidecar>) -> Duration {
    sidecar.snapshot().config.reconcile.schedule.first_after.clamp(WAKE_EVERY_MIN, WAKE_EVERY)
}

/// What a pass has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Looks that were due by then had their turn.
    pub began: Timestamp,
    /// More may be due already: a list was as long as one pass takes, and something of it was done.
    pub more: bool,
}

/// One pass: sweep, list, look, record. At most `max_per_pass` looks. What cannot be recorded on one effect is logged, and
/// it is left alone for a while; the others have their turn.
///
/// # Errors
/// The record could not be read or written at all.
pub async fn pass(sidecar: &Arc<Sidecar>) -> Result<Passed, StoreError> {
    let began = sidecar.clock.now();
    let snapshot = sidecar.snapshot();
    let swept = sweep(sidecar, began).await;
    let looked = look_at_due(sidecar, &snapshot, began).await;
    let confirmed = confirm(sidecar, &snapshot).await;
    let sent = let_through::pass(sidecar).await;
    swept?;
    Ok(Passed { began, more: [looked?, confirmed?, sent?].contains(&true) })
}

async fn sweep(sidecar: &Arc<Sidecar>, now: Timestamp) -> Result<(), StoreError> {
    for effect in sidecar.store.sweep(now).await? {
        tracing::warn!(effect.id = %effect, "a dispatch was interrupted; its outcome is unknown");
    }
    Ok(())
}

/// Whether more may be due.
async fn look_at_due(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let looks_max = snapshot.config.reconcile.max_per_pass;
    let listed = sidecar.store.due(now, looks_max.saturating_add(sidecar.put_off.resting())).await?;
    let turns = sidecar.put_off.awake(listed, |due| &due.view.id, looks_max);
    let mut done = 0;
    for due in &turns {
        let finding = look(sidecar, snapshot, due).await;
        match apply(sidecar, &due.view.id, finding, Looker::Schedule).await {
            Ok(_) => done += 1,
            Err(error) => put_off(sidecar, &due.view.id, error)?,
        }
    }
    Ok(done > 0 && turns.len() >= looks_max)
}

/// One look after a success, as late as a first look after an unknown: a match makes `acknowledged` into
/// `confirmed`. Whether more may be due.
async fn confirm(sidecar: &Arc<Sidecar>, snapshot: &Snapshot) -> Result<bool, StoreError> {
    let looks_max = snapshot.config.reconcile.max_per_pass;
    let before = sidecar.clock.now().minus(snapshot.config.reconcile.schedule.first_after);
    let listed =
        sidecar.store.unconfirmed(before, looks_max.saturating_add(sidecar.put_off.resting())).await?;
    let turns = sidecar.put_off.awake(listed, |due| &due.view.id, looks_max);
    let mut done = 0;
    for due in &turns {
        let finding = look(sidecar, snapshot, due).await;
        match sidecar.store.confirm(&due.view.id, finding, sidecar.clock.now()).await {
            Ok(_) => done += 1,
            Err(error) => put_off(sidecar, &due.view.id, error)?,
        }
    }
    Ok(done > 0 && turns.len() >= looks_max)
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
    let unreadable = |what: &str| Finding::Unreadable { what: what.into() };
    // One that is not enabled sends nothing more, and what it has sent is looked for all the same.
    let Some((action, adapter)) = snapshot.declared(due.view.action.as_str()) else {
        return unreadable("the action is no longer declared");
    };
    let authority = adapting::authority(action);
    let Some(host) = snapshot.host(&authority) else { return unreadable("its host is no longer declared") };
    let Ok(memory) = serde_json::from_str::<Value>(&due.memory) else {
        return unreadable("what was remembered of it cannot be read");
    };
    if let Err(elsewhere) = as_prepared::still_there(action, adapter, &due.view, &memory) {
        return unreadable(elsewhere.what());
    }
    let headers: Vec<(String, String)> =
        serde_json::from_value(memory["headers"].clone()).unwrap_or_default();
    // What a refusal names is somebody else's, such as the object that was there already.
    let answer = due.view.response.as_ref().filter(|kept| (200..=299).contains(&kept.status));
    let response = answer.and_then(|kept| serde_json::from_slice(&kept.body).ok());
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
            Look::Impossible(why) => return Finding::Unreadable { what: why.into() },
            Look::Ask(request) => request,
        };
        let answer = match ask(sidecar, snapshot, host, action, &request).await {
            Ok(answer) => answer,
            Err(what) => return Finding::Unreadable { what: what.into() },
        };
        next = adapter.look(memory, LookStep::Next { request: &request, answer: &answer, page });
    }
    Finding::Unreadable { what: "the look asked too many questions".into() }
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
