//! One governed request, from top to bottom.
//!
//! ```text
//! plan      input, identity, subject, impact            may refuse; may read the provider, never write
//! inject    the secret, host-bound; a signature last    may refuse; nothing is spent yet
//! admit     ONE transaction -> DispatchPermit           may refuse, park, or show what exists
//! --- from here on there is no early return ---
//! send      the permit is consumed                      an Exchange, never an error
//! classify  Exchange -> Verdict                         a table in `policy`
//! record    ONE transaction: verdict, holds, evidence
//! say       what the agent hears
//! ```
//!
//! Before it, `receive` and `meaning` have read the request and named its action ([`crate::front`]); after it,
//! `respond` gives what is said a shape. Both listeners come through here.

use std::sync::Arc;
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::classify::{self, Verdict};
use oncegate_policy::effect::Stage;
use oncegate_policy::exchange::Exchange;
use oncegate_policy::id::EffectId;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_store::admit::Admitted;
use oncegate_store::view::EffectView;
use oncegate_store::{Claim, DispatchPermit, Seen, StoreError};
use tokio::time::Instant;

use crate::asking::{Asking, Listener};
use crate::in_flight::Entered;
use crate::logged::{Line, Step};
use crate::said::{Answering, Said};
use crate::state::{Sidecar, Snapshot};
use crate::upstream::{self, Connecting, Prepared, Sending};
use crate::{drill, logged, prepare, unrecorded};

/// Resolve, connect and TLS have this long, and never longer than three quarters of what the agent waits.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The provider has this long to answer before the agent is told `unknown`, however long everything before it took.
pub const ANSWER_WITHIN_MIN: Duration = Duration::from_secs(1);

/// Takes one request through the pipeline and answers through `answering`, exactly once. It always runs to its end, whether
/// or not the agent still listens (P9). Each step is boxed by itself: inlined, their futures are many KiB, copied with every
/// task.
pub async fn govern(
    sidecar: Arc<Sidecar>,
    snapshot: Arc<Snapshot>,
    asking: Asking,
    mut answering: Answering,
) {
    // A stop waits for what is not claimed yet, too.
    let _in_pipeline = sidecar.in_pipeline.enter();
    let caller = asking.caller.clone();
    let action = asking.action.clone();
    // What the agent waits counts from here: planning and secrets may take their time as well.
    let within = asking.listener.respond_within(&snapshot.config);
    let until = Instant::now() + within;
    answering.about(Line::new(&sidecar, &asking));
    let edition = asking.edition;
    let prepared = Box::pin(prepare::governed(&sidecar, &snapshot, asking)).await;
    answering.lap(Step::Plan);
    // Holds the edition gate: the action's definition cannot change until the admission has committed.
    let prepared = match prepared {
        Ok(ready) => sidecar.editions.admitting(&action, edition).await.map(|held| (ready, held)),
        Err(refusal) => Err(refusal),
    };
    let (prepared, held) = match prepared {
        Ok(prepared) => prepared,
        Err(refusal) => {
            Box::pin(keep(&sidecar, &caller, Some(&action), &refusal)).await;
            return answering.give(Said::Refused(refusal));
        }
    };
    // The connection is made while the admission commits. Nothing is written to it before the permit exists.
    let connecting = upstream::connect(
        &sidecar.pool,
        &prepared.request,
        CONNECT_TIMEOUT.min(within * 3 / 4).min(snapshot.config.proxy.upstream_timeout),
    );
    // Announced before the commit, so that a duplicate which finds the row right after it can wait for this one.
    let effect_id = prepared.effect.effect.clone();
    sidecar.in_flight.enter(&effect_id);
    let admitted = Box::pin(sidecar.store.admit(prepared.effect, sidecar.clock.now())).await;
    drop(held);
    answering.lap(Step::Admit);
    if !matches!(&admitted, Ok(Admitted::Granted { .. })) {
        sidecar.in_flight.leave(&effect_id, None);
    }
    match admitted {
        Ok(Admitted::Granted { permit, effect }) => {
            let on_the_wire = sidecar.on_the_wire.enter();
            let way =
                Way { rules: prepared.rules, until, request: prepared.request, connecting, on_the_wire };
            Box::pin(carry(sidecar, permit, effect, way, answering)).await;
        }
        Ok(Admitted::Repeat(view)) => {
            connecting.abort();
            answering.give(Box::pin(repeat(&sidecar, view, until)).await);
        }
        Ok(Admitted::Parked(view)) => {
            connecting.abort();
            sidecar.asked.notify_one();
            answering.give(Said::Record { view: Box::new(view), repeat: false });
        }
        Ok(Admitted::Refused(refusal)) => {
            connecting.abort();
            answering.give(Said::Refused(refusal));
        }
        Err(error) => {
            connecting.abort();
            answering.give(Said::Refused(unrecordable(&error)));
        }
    }
}

/// Everything a dispatch needs besides its permit.
pub struct Way {
    /// How its answer is to be read.
    pub rules: classify::ResponseRules,
    /// Until when the agent waits; the provider has [`ANSWER_WITHIN_MIN`] in any case.
    pub until: Instant,
    /// What is sent.
    pub request: Prepared,
    /// The connection that is being made.
    pub connecting: Connecting,
    /// Counts it until it has ended. Whoever is in no pipeline takes it before the claim.
    pub on_the_wire: Entered,
}

/// Carries a claimed dispatch to its end. The caller has announced the effect in
/// `in_flight`.
pub async fn carry(
    sidecar: Arc<Sidecar>,
    permit: DispatchPermit,
    effect: EffectView,
    way: Way,
    answering: Answering,
) {
    dispatch(&sidecar, permit, effect, way, answering).await;
}

/// The dispatch is claimed. Every path from here reaches `record`: there is no `?` and no `return`.
async fn dispatch(
    sidecar: &Arc<Sidecar>,
    permit: DispatchPermit,
    view: EffectView,
    way: Way,
    mut answering: Answering,
) {
    let id = view.id.clone();
    let upstream_timeout = way.request.bounds.upstream_timeout;
    let Sending { claim, exchange } = upstream::send(permit, &sidecar.pool, way.request, way.connecting);
    let exchange = drill::under(&view, upstream_timeout, exchange);
    let mut exchange = std::pin::pin!(exchange);
    let until = way.until.max(Instant::now() + ANSWER_WITHIN_MIN);
    let exchange = match tokio::time::timeout_at(until, &mut exchange).await {
        Ok(exchange) => exchange,
        Err(_) => {
            // The agent has waited long enough; the socket has not. A later answer still settles it.
            answering.lap(Step::Upstream);
            let told = meanwhile_unknown(sidecar, &claim, &id).await;
            answering.lap(Step::Record);
            answering.give(told);
            exchange.await
        }
    };
    answering.saw(&exchange);
    let verdict = classify::verdict(&exchange, &way.rules);
    oncegate_store::failpoint::hit("before_record");
    let seen = Arc::new(Seen::of(verdict, &exchange));
    let record = |claim, seen| sidecar.store.record(claim, seen, sidecar.clock.now());
    let recorded = record(claim, Arc::clone(&seen)).await;
    answering.lap(Step::Record);
    if answering.is_given() {
        logged::late(&view, verdict, &exchange);
    }
    let recorded = match recorded {
        Ok(view) => Some(view),
        Err(failed) => {
            // The row still says `dispatching`. The agent is told so at once; what was seen is kept until it is recorded.
            tracing::error!(effect.id = %id, error = upstream::chain(&failed.error), "an outcome could not be recorded");
            sidecar.in_flight.leave(&id, None);
            answering.give(Said::Unrecorded(id.clone()));
            Box::pin(unrecorded::keep(&sidecar.unrecorded, id.as_str(), failed.claim, &seen, record)).await
        }
    };
    // Only an unsettled effect wakes the reconciler.
    if !recorded.as_ref().is_some_and(|view| matches!(view.stage, Stage::Settled(_))) {
        sidecar.look_soon.notify_waiters();
    }
    // Without it the claim is gone, and the sweep makes the effect unknown.
    if let Some(view) = recorded {
        sidecar.in_flight.leave(&id, Some(&view));
        answering.give(fresh(view, verdict, exchange));
    }
}

async fn meanwhile_unknown(sidecar: &Arc<Sidecar>, claim: &Claim, id: &EffectId) -> Said {
    match sidecar.store.mark_unknown(claim, "no answer within respond_within", sidecar.clock.now()).await {
        Ok(view) => {
            sidecar.in_flight.leave(id, Some(&view));
            Said::Record { view: Box::new(view), repeat: false }
        }
        Err(error) => {
            tracing::error!(effect.id = %id, error = upstream::chain(&error), "an unknown could not be recorded");
            sidecar.in_flight.leave(id, None);
            Said::Unrecorded(id.clone())
        }
    }
}

/// The first answer to the one who asked.
fn fresh(view: EffectView, verdict: Verdict, exchange: Exchange) -> Said {
    let view = Box::new(view);
    match (verdict, exchange) {
        (Verdict::Succeeded | Verdict::Failed, Exchange::Answered(answer)) => Said::Provider { view, answer },
        (
            Verdict::Succeeded | Verdict::Failed | Verdict::Unknown,
            Exchange::Answered(_) | Exchange::NotSent(_) | Exchange::Lost(_),
        ) => Said::Record { view, repeat: false },
    }
}

/// A repeat gets what the record says now. If the first is still in flight, it waits for that one's outcome.
async fn repeat(sidecar: &Arc<Sidecar>, view: EffectView, until: Instant) -> Said {
    let id = view.id.clone();
    let on_its_way = matches!(view.stage, Stage::Dispatching { .. });
    let view = match tokio::time::timeout_at(until, sidecar.in_flight.join(&id)).await {
        Ok(Some(view)) if on_its_way => view,
        Ok(_) | Err(_) => match sidecar.store.effect(&id).await {
            Ok(Some(detail)) => detail.view,
            Ok(None) | Err(_) => view,
        },
    };
    Said::Record { view: Box::new(view), repeat: true }
}

pub(crate) fn unrecordable(error: &StoreError) -> Refusal {
    tracing::error!(error = upstream::chain(error), "an admission could not be recorded; nothing was sent");
    match error {
        StoreError::Overloaded => Refusal::new(
            Code::Overloaded,
            "Too much is waiting to be recorded. Nothing was sent. Try again later, once.",
        ),
        StoreError::Failed { .. } | StoreError::Commit { .. } | StoreError::Closed => Refusal::new(
            Code::StoreUnavailable,
            "The record cannot be written, so nothing was sent. Ask the operator; do not retry.",
        ),
    }
}

/// A request that was refused before it came to the pipeline: a line of the log, and a row for the auditor.
pub async fn audit(
    sidecar: &Arc<Sidecar>,
    listener: Listener,
    caller: &CallerName,
    action: Option<&ActionName>,
    refusal: &Refusal,
) {
    logged::refused(sidecar, caller, action, listener, refusal);
    keep(sidecar, caller, action, refusal).await;
}

/// A refusal leaves a row for the auditor and does not occupy the key.
async fn keep(sidecar: &Arc<Sidecar>, caller: &CallerName, action: Option<&ActionName>, refusal: &Refusal) {
    let refused = oncegate_store::admit::RefusedRequest {
        caller: caller.clone(),
        action: action.cloned(),
        refusal: refusal.clone(),
    };
    if let Err(error) = sidecar.store.audit_refusal(refused, sidecar.clock.now()).await {
        tracing::error!(error = upstream::chain(&error), "a refusal could not be recorded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_bytes<A, B, C, D, F: Future>(_: impl FnOnce(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// It is moved a few times before it runs, and so are its steps: each is small, or what is large in it lies elsewhere.
    #[test]
    fn what_is_moved_about_is_small() {
        assert!(future_bytes(govern) <= 8192, "{} bytes", future_bytes(govern));
    }
}
