//! What a person lets through: the dispatch of an approved effect, and a replay under the provider's key.
//!
//! Both send exactly the bytes that were prepared and kept; only the credential is fetched anew. The order is the
//! pipeline's: inject, then claim, then send, and from the claim on there is no early return.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, Request, Uri};
use oncegate_policy::action::ActionName;
use oncegate_policy::authority::Authority;
use oncegate_policy::caller::CallerName;
use oncegate_policy::classify::{self, Verdict};
use oncegate_policy::effect::Stage;
use oncegate_policy::exchange::{Exchange, NotSent};
use oncegate_policy::id::EffectId;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::template::Scope;
use oncegate_policy::url_template::Scheme;
use oncegate_store::ready::{PreparedRequest, ReadyClaim};
use oncegate_store::replay::{ReplayRefusal, Replaying};
use oncegate_store::view::{EffectView, StoredRequest};
use oncegate_store::{ReplayClaim, Seen, StoreError, Unrecorded};
use serde_json::Value;
use tokio::sync::{OwnedRwLockReadGuard, oneshot, watch};
use tokio::time::Instant;

use crate::logged::Line;
use crate::pipeline::{self, CONNECT_TIMEOUT, Way};
use crate::said::{Answering, Said};
use crate::secrets::Placed;
use crate::state::{Sidecar, Snapshot};
use crate::task;
use crate::upstream::dial::Destination;
use crate::upstream::{self, Bounds, Prepared};
use crate::{adapting, as_prepared, inject, reconciler, relied_on, unrecorded};

/// What became of an approved effect.
pub enum LetThrough {
    /// It was sent; what is said of it comes through the channel.
    Sending(oneshot::Receiver<Said>),
    /// No; nothing was sent. It has ended, unless it is still ready: then it is put off.
    Refused(Refusal, Box<EffectView>),
    /// Somebody has claimed it, or nobody has approved it, or there is no such effect.
    NotReady,
}

/// Sends an approved effect, once.
///
/// # Errors
/// The record could not be read or written: nothing was sent, and it is still ready.
pub async fn dispatch_ready(sidecar: &Arc<Sidecar>, id: &EffectId) -> Result<LetThrough, StoreError> {
    let Some(kept) = sidecar.store.prepared(id).await? else { return Ok(LetThrough::NotReady) };
    let edition = sidecar.editions.latest();
    let snapshot = sidecar.snapshot();
    let armed = match relied_on::is_still_its_own(&snapshot, &kept) {
        Ok(()) => rebuilt(sidecar, &snapshot, &kept).await,
        Err(refusal) => Err(Unmade::Never(refusal)),
    };
    let (request, rules) = match armed {
        Ok(rebuilt) => rebuilt,
        // What a person has said stands: a secret that cannot be had at this moment may be there at the next.
        Err(Unmade::NotNow(refusal)) => return Ok(LetThrough::Refused(refusal, Box::new(kept.view))),
        Err(Unmade::Never(refusal)) => {
            // It can no longer be sent as it was approved: that ends it, provably unsent.
            let ended = sidecar.store.reject_ready(id, refusal.clone(), sidecar.clock.now()).await?;
            return Ok(
                ended.map_or(LetThrough::NotReady, |view| LetThrough::Refused(refusal, Box::new(view)))
            );
        }
    };
    // The API and the reconciler may both come for it: the announcement of the one that claims must stand.
    let one_at_a_time = sidecar.letting_through.lock().await;
    // A secret may have taken its time. What was made ready before a reload would be held by no limit of after it: it stays
    // ready, and is made anew at once.
    let Ok(held) = sidecar.editions.admitting(&kept.view.action, edition).await else {
        sidecar.look_soon.notify_waiters();
        return Ok(LetThrough::NotReady);
    };
    let announced = sidecar.in_flight.enter(id);
    // Counted before the claim is committed: a stop that comes between the two waits for it.
    let on_the_wire = sidecar.on_the_wire.enter();
    let claimed = sidecar.store.claim_ready(id, sidecar.clock.now()).await;
    if announced && !matches!(&claimed, Ok(ReadyClaim::Granted { .. })) {
        sidecar.in_flight.leave(id, None);
    }
    drop((held, one_at_a_time));
    match claimed? {
        ReadyClaim::Granted { permit, effect } => {
            let within = snapshot.config.proxy.respond_within;
            let connecting = upstream::connect(&sidecar.pool, &request, CONNECT_TIMEOUT.min(within * 3 / 4));
            let (mut answering, waiting) = Answering::channel();
            answering.about(Line::approved(sidecar, &effect));
            let until = Instant::now() + within;
            let way = Way { rules, until, request, connecting, on_the_wire };
            task::start(pipeline::carry(Arc::clone(sidecar), permit, effect, way, answering));
            Ok(LetThrough::Sending(waiting))
        }
        ReadyClaim::Rejected(refusal, view) | ReadyClaim::Halted(refusal, view) => {
            Ok(LetThrough::Refused(refusal, Box::new(view)))
        }
        ReadyClaim::NotReady(_) | ReadyClaim::Missing => Ok(LetThrough::NotReady),
    }
}

/// What became of the wish to replay.
pub enum Replayed {
    /// It was sent again; this is the effect now.
    Done(Box<EffectView>),
    /// No, and nothing was sent.
    Refused(ReplayRefusal),
    /// Its credential, action or host cannot be had any more; nothing was sent.
    Unavailable(Refusal),
    /// There is no such effect.
    Missing,
}

/// Sends an unknown effect's bytes again under the provider's key. Runs to its end once the replay is recorded,
/// whether or not the caller still waits.
///
/// # Errors
/// The record could not be read or written.
pub async fn replay(sidecar: &Arc<Sidecar>, id: &EffectId, by: &CallerName) -> Result<Replayed, StoreError> {
    let edition = sidecar.editions.latest();
    let snapshot = sidecar.snapshot();
    let kept = sidecar.store.prepared(id).await?;
    let action = kept.as_ref().map(|kept| kept.view.action.clone());
    // Before its credential is fetched, which takes its time: the claim judges the effect as it is then.
    let unknown = kept.as_ref().filter(|kept| matches!(kept.view.stage, Stage::Reconciling { .. }));
    if let Some(Err(refusal)) =
        unknown.map(|kept| relied_on::is_relied_on(&snapshot, kept, sidecar.clock.now()))
    {
        return Ok(Replayed::Refused(refusal));
    }
    // Armed before it is recorded, so that a missing secret costs nothing. An effect whose request is erased is
    // refused by `begin_replay`, which knows why.
    let ready = match kept {
        None => None,
        Some(kept) => match rebuilt(sidecar, &snapshot, &kept).await {
            Ok((Prepared { head: Err(proof), .. }, _)) => return Ok(Replayed::Unavailable(unminted(&proof))),
            Ok(ready) => Some(ready),
            Err(Unmade::Never(refusal) | Unmade::NotNow(refusal)) => {
                return Ok(Replayed::Unavailable(refusal));
            }
        },
    };
    let now = sidecar.clock.now();
    let (declared, is_armed) = (Arc::clone(&snapshot), ready.is_some());
    let judge = move |prepared: &PreparedRequest| match is_armed {
        true => relied_on::is_relied_on(&declared, prepared, now),
        // It was not there when it was read.
        false => Err(ReplayRefusal::Unsupported),
    };
    // A secret may have taken its time: what was relied on before a reload may not be after it.
    let held = match not_edited(sidecar, action.as_ref(), edition).await {
        Ok(held) => held,
        Err(refusal) => return Ok(Replayed::Unavailable(refusal)),
    };
    // Counted before it is committed, as a dispatch is.
    let on_the_wire = sidecar.on_the_wire.enter();
    let begun = sidecar.store.begin_replay(id, by, judge, now).await?;
    drop(held);
    let (permit, view, ready) = match (begun, ready) {
        (Replaying::Missing, _) => return Ok(Replayed::Missing),
        (Replaying::Refused(refusal, _), _) => return Ok(Replayed::Refused(refusal)),
        (Replaying::Granted { permit, prepared }, Some(ready)) => (permit, prepared.view, ready),
        // The judge has said no. The permit is dropped, and the sweep closes the replay as never sent.
        (Replaying::Granted { .. }, None) => return Ok(Replayed::Refused(ReplayRefusal::Unsupported)),
    };
    let (mut request, rules) = ready;
    let closes =
        snapshot.action(view.action.as_str()).and_then(|(_, adapter)| relied_on::closes_at(adapter, &view));
    let left = closes.map(|closes| closes.since(sidecar.clock.now()));
    request.bounds.begin_before = left.map(|left| Instant::now() + left);
    let sidecar = Arc::clone(sidecar);
    let id = id.clone();
    let (tell, told) = oneshot::channel();
    task::start(async move {
        let _on_the_wire = on_the_wire;
        let connecting = upstream::connect(&sidecar.pool, &request, CONNECT_TIMEOUT);
        let (claim, exchange) = upstream::resend(permit, &sidecar.pool, request, connecting);
        let exchange = exchange.await;
        let kept = snapshot.action(view.action.as_str()).is_some_and(|(action, adapter)| match &exchange {
            Exchange::Answered(answer) => {
                adapting::failures_kept(action) == Some(true) && adapter.repeats_a_kept_failure(answer)
            }
            Exchange::NotSent(_) | Exchange::Lost(_) => false,
        });
        let verdict = of_the_first_try(classify::verdict(&exchange, &rules), kept);
        tracing::info!(effect.id = %id, outcome = verdict.word(), "replayed");
        record_replay(&sidecar, &id, claim, Seen::of(verdict, &exchange), tell).await;
    });
    match told.await {
        Ok(recorded) => recorded.map(|view| Replayed::Done(Box::new(view))),
        Err(_) => Err(StoreError::Closed),
    }
}

/// The end of a replay. Whoever asked may have gone. A failure is told at once; what was seen is kept until it is recorded.
async fn record_replay(
    sidecar: &Sidecar,
    id: &EffectId,
    claim: ReplayClaim,
    seen: Seen,
    tell: oneshot::Sender<Result<EffectView, StoreError>>,
) {
    let seen = Arc::new(seen);
    let record = |claim, seen| sidecar.store.record_replay(claim, seen, sidecar.clock.now());
    match record(claim, Arc::clone(&seen)).await.map_err(|failed| *failed) {
        Ok(view) => drop(tell.send(Ok(view))),
        Err(Unrecorded { claim, error }) => {
            drop(tell.send(Err(error)));
            unrecorded::keep(&sidecar.unrecorded, id.as_str(), claim, &seen, record).await;
        }
    }
}

/// Holds the gate of admissions while the action is what it was at this edition; nothing for an effect that is not there.
async fn not_edited(
    sidecar: &Arc<Sidecar>,
    action: Option<&ActionName>,
    edition: u64,
) -> Result<Option<OwnedRwLockReadGuard<()>>, Refusal> {
    let Some(action) = action else { return Ok(None) };
    sidecar.editions.admitting(action, edition).await.map(Some)
}

/// A failure says what became of the first try only where it is the one that the provider kept of it. Else it is one of
/// this try: the key is used already, say, because the first one was done.
fn of_the_first_try(verdict: Verdict, is_kept: bool) -> Verdict {
    match verdict {
        Verdict::Failed if !is_kept => Verdict::Unknown,
        Verdict::Failed | Verdict::Succeeded | Verdict::Unknown => verdict,
    }
}

/// A replay is not tried without its token: nothing is recorded, and it can be asked for again.
fn unminted(proof: &NotSent) -> Refusal {
    let sentence = format!("The credential cannot be had ({}). Nothing was sent.", proof.cause());
    Refusal::new(Code::CredentialUnavailable, sentence)
}

/// Why a kept request cannot be sent.
enum Unmade {
    /// It can never be sent as it was prepared.
    Never(Refusal),
    /// What it carries cannot be had now.
    NotNow(Refusal),
}

/// The kept request with a fresh credential.
async fn rebuilt(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    kept: &PreparedRequest,
) -> Result<(Prepared, classify::ResponseRules), Unmade> {
    let undeclared = |what: &str| {
        Unmade::Never(Refusal::new(
            Code::Undeclared,
            format!("The request cannot be sent as it was prepared: {what}. Nothing was sent."),
        ))
    };
    let gone = || undeclared("the action or its host is no longer declared");
    let name = kept.view.action.as_str();
    let off = || match snapshot.declared(name) {
        Some(_) => undeclared("its action is not enabled"),
        None => gone(),
    };
    let (action, adapter) = snapshot.action(name).ok_or_else(off)?;
    let authority = adapting::authority(action);
    let host = snapshot.host(&authority).ok_or_else(gone)?;
    let memory: Value = serde_json::from_str(&kept.memory).unwrap_or_default();
    as_prepared::still_there(action, adapter, &kept.view, &memory)
        .map_err(|elsewhere| undeclared(elsewhere.what()))?;
    // And under the secrets that were named then. Effects that are older than this record are taken as they are.
    let names = adapting::secret_names(Some(host), action);
    if kept.view.credential.as_ref().is_some_and(|then| *then != names) {
        let sentence = "The secrets that this was prepared with are not those that are declared for it now. Nothing was sent.";
        return Err(Unmade::Never(Refusal::new(Code::CredentialUnavailable, sentence)));
    }
    let scope = Scope {
        input: &memory["input"],
        effect_id: Some(kept.view.id.as_str()),
        effect_key: Some(&kept.view.provider_key),
        response: None,
    };
    let placed = inject::placed(sidecar, snapshot, host, Some(action), &authority, Some(scope)).await;
    let placed = placed.map_err(Unmade::NotNow)?;
    let to = (&authority, adapting::scheme(action));
    let over = (snapshot.destination(&authority, host), snapshot.bounds());
    let request = armed(&kept.request, to, placed, over, sidecar.clock.system()).map_err(Unmade::Never)?;
    Ok((request, adapter.response_rules().clone()))
}

/// A kept request with a credential in it, as the first try has it: what is not kept, the pipeline sets. A
/// signature is of this moment.
fn armed(
    kept: &StoredRequest,
    to: (&Authority, Scheme),
    mut placed: Placed,
    (destination, bounds): (Arc<Destination>, Bounds),
    now: SystemTime,
) -> Result<Prepared, Refusal> {
    let unsendable =
        || Refusal::new(Code::InvalidRequest, "The kept request cannot be sent. Nothing was sent.");
    let mut scrubber = std::mem::take(&mut placed.scrubber);
    let lent = std::mem::take(&mut placed.lent);
    let (signer, unminted) = (placed.signer.take(), placed.unminted.take());
    let uri: Uri = kept.url.parse().map_err(|_| unsendable())?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let method = Method::from_bytes(kept.method.as_bytes()).map_err(|_| unsendable())?;
    let request = Request::builder().method(method).uri(target).body(()).map_err(|_| unsendable())?;
    let mut head = inject::outgoing(request, &HeaderMap::new(), &kept.headers, &[], to, placed)?;
    inject::finish(&mut head, &kept.body, to, (signer.as_ref(), &mut scrubber), now)?;
    let head = unminted.map_or(Ok(head), Err);
    Ok(Prepared { destination, head, body: kept.body.clone().into(), scrubber, lent, bounds })
}

/// What is approved and not yet sent: so a restart loses no approval. Whether more may be ready. It begins no other dispatch once `stop` says so.
///
/// # Errors
/// The record could not be read or written at all.
pub async fn pass(sidecar: &Arc<Sidecar>, stop: &watch::Receiver<bool>) -> Result<bool, StoreError> {
    if sidecar.store.halted().await?.is_some() {
        return Ok(false);
    }
    let listed_max = READY_PER_PASS_MAX.saturating_add(sidecar.put_off.resting());
    let listed = sidecar.store.ready(u32::try_from(listed_max).unwrap_or(u32::MAX)).await?;
    let turns = sidecar.put_off.awake(listed, |id| id, READY_PER_PASS_MAX);
    let mut done = 0;
    for id in &turns {
        if *stop.borrow() {
            return Ok(false);
        }
        match dispatch_ready(sidecar, id).await {
            Ok(LetThrough::Sending(_)) => {
                done += 1;
                tracing::info!(effect.id = %id, "approved; on its way");
            }
            Ok(LetThrough::Refused(refusal, view)) if matches!(view.stage, Stage::Ready) => {
                // Where its secret cannot be had, others have their turn before it is tried again.
                if refusal.code != Code::Halted && !reconciler::rest(sidecar, id) {
                    return Ok(false);
                }
                tracing::warn!(effect.id = %id, code = refusal.code.word(), "approved, and cannot be sent now");
            }
            Ok(LetThrough::Refused(refusal, _)) => {
                done += 1;
                tracing::warn!(effect.id = %id, code = refusal.code.word(), "approved, and refused when it was to be sent");
            }
            Ok(LetThrough::NotReady) => {}
            Err(error) => reconciler::put_off(sidecar, id, error)?,
        }
    }
    Ok(done > 0 && turns.len() >= READY_PER_PASS_MAX)
}

/// Approved effects that one pass sends.
const READY_PER_PASS_MAX: usize = 32;
/// How long an answer of the API waits for what a person let through.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(20);
