//! One governed request, from top to bottom.
//!
//! ```text
//! plan      input, identity, subject, impact            may refuse; may read the provider, never write
//! inject    the secret, host-bound                      may refuse; nothing is spent yet
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
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Request;
use oncegate_adapters::{Adapter, Marks};
use oncegate_config::model::{Action, Host};
use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::classify::{self, Verdict};
use oncegate_policy::exchange::Exchange;
use oncegate_policy::id::EffectId;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::template::Scope;
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::view::{EffectView, StoredRequest};
use oncegate_store::{Claim, DispatchPermit, Seen, StoreError};
use serde_json::json;

use crate::asking::Asking;
use crate::plan::{self, Planning};
use crate::said::{Answering, Said};
use crate::state::{Sidecar, Snapshot};
use crate::upstream::{self, Connecting, Prepared, Sending};
use crate::{inject, logged, receive};

/// Resolve, connect and TLS have this long, and never longer than three quarters of what the agent waits.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes one request through the pipeline and answers through `answering`, exactly once. Runs in a task of its
/// own: whether the agent still listens changes nothing (P9).
pub async fn govern(
    sidecar: Arc<Sidecar>,
    snapshot: Arc<Snapshot>,
    asking: Asking,
    mut answering: Answering,
) {
    let caller = asking.caller.clone();
    let action = asking.action.clone();
    let within = asking.listener.respond_within(&snapshot.config);
    let prepared = match prepare(&sidecar, &snapshot, asking).await {
        Ok(prepared) => prepared,
        Err(refusal) => {
            audit(&sidecar, &caller, Some(&action), &refusal).await;
            return answering.give(Said::Refused(refusal));
        }
    };
    // The connection is made while the admission commits. Not a byte of the request is written to it before.
    let connecting = upstream::connect(
        &sidecar.pool,
        &prepared.request,
        CONNECT_TIMEOUT.min(within * 3 / 4).min(snapshot.config.proxy.upstream_timeout),
    );
    // Announced before the commit: a duplicate that finds the row an instant later has somebody to wait for.
    let effect_id = prepared.effect.effect.clone();
    sidecar.in_flight.enter(&effect_id);
    let admitted = sidecar.store.admit(prepared.effect, sidecar.clock.now()).await;
    if !matches!(&admitted, Ok(Admitted::Granted { .. })) {
        sidecar.in_flight.leave(&effect_id, None);
    }
    match admitted {
        Ok(Admitted::Granted { permit, effect }) => {
            let way = Way { rules: prepared.rules, within, request: prepared.request, connecting };
            carry(sidecar, permit, effect, way, answering).await;
        }
        Ok(Admitted::Repeat(view)) => {
            connecting.abort();
            let said = repeat(&sidecar, view, within, &caller).await;
            answering.give(said);
        }
        Ok(Admitted::Parked(view)) => {
            connecting.abort();
            answering.give(Said::Record { view: Box::new(view), repeat: false });
        }
        Ok(Admitted::Refused(refusal)) => {
            connecting.abort();
            tracing::info!(caller = %caller, action.name = %action, code = refusal.code.word(), "refused; nothing was sent");
            answering.give(Said::Refused(refusal));
        }
        Err(error) => {
            connecting.abort();
            answering.give(Said::Refused(unrecordable(&error)));
        }
    }
}

/// A request that only its admission is missing to.
struct Ready {
    effect: NewEffect,
    request: Prepared,
    rules: classify::ResponseRules,
}

/// Everything that may still say no. Nothing but reads has left when this returns.
async fn prepare(sidecar: &Arc<Sidecar>, snapshot: &Snapshot, asking: Asking) -> Result<Ready, Refusal> {
    let undeclared =
        || Refusal::new(Code::Undeclared, "The action is not declared or not enabled. Nothing was sent.");
    let (action, adapter) = snapshot.action(asking.action.as_str()).ok_or_else(undeclared)?;
    let host = snapshot.host(&asking.authority).ok_or_else(undeclared)?;
    let planning = plan::plan(sidecar, snapshot, host, action, adapter, &asking).await?;

    let provider_key = asking.fresh.provider_key();
    let effect_id = &asking.fresh.effect;
    let marks = Marks { effect_id: effect_id.as_str(), provider_key: &provider_key };
    let marked = adapter.prepare(&asking.for_adapter(), &marks)?;

    let scope = Scope {
        input: &asking.input,
        effect_id: Some(effect_id.as_str()),
        effect_key: Some(&provider_key),
        response: None,
    };
    let placed = inject::placed(snapshot, host, Some(action), &asking.authority, Some(scope)).await?;
    let stored = stored_request(&asking, &planning, &marked);
    let request = outgoing(snapshot, host, &asking, &planning, marked, placed)?;
    let now = sidecar.clock.now();
    let effect = new_effect(asking, action, adapter, planning, provider_key, stored, now);
    Ok(Ready { effect, request, rules: adapter.response_rules().clone() })
}

/// The request as it leaves: the agent's fields, the effect's marks, the credential, in this order.
fn outgoing(
    snapshot: &Snapshot,
    host: &Host,
    asking: &Asking,
    planning: &Planning,
    marked: oncegate_adapters::Prepared,
    mut placed: crate::secrets::Placed,
) -> Result<Prepared, Refusal> {
    let scrubber = std::mem::take(&mut placed.scrubber);
    let request = Request::builder().method(asking.method.clone()).uri(&asking.path_and_query).body(());
    let request = request.map_err(|_| {
        Refusal::new(Code::InvalidRequest, "The request target cannot be sent. Nothing was sent.")
    })?;
    let to = (&asking.authority, asking.scheme);
    let drop = &planning.plan.drop_headers;
    let mut head = inject::outgoing(request, &asking.header_map, &marked.headers, drop, to, placed)?;
    // A governed answer is read by us first; we unpack nothing.
    head.headers_mut().insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
    inject::set_length(&mut head, marked.body.len());
    Ok(Prepared {
        destination: snapshot.destination(&asking.authority, host),
        head,
        body: marked.body.into(),
        scrubber,
        bounds: snapshot.bounds(),
    })
}

/// What is kept of a request: everything but the credential.
fn stored_request(
    asking: &Asking,
    planning: &Planning,
    marked: &oncegate_adapters::Prepared,
) -> StoredRequest {
    let replaced = |name: &str| {
        planning.plan.drop_headers.iter().any(|dropped| dropped == name)
            || marked.headers.iter().any(|(set, _)| set == name)
            || ["authorization", "cookie", "proxy-authorization"].contains(&name)
            || receive::is_hop_by_hop(name)
    };
    let kept = asking.headers.iter().filter(|(name, _)| !replaced(name)).cloned();
    StoredRequest {
        method: asking.method.as_str().to_owned(),
        url: format!("{}://{}{}", asking.scheme.as_str(), asking.authority, asking.path_and_query),
        headers: kept.chain(marked.headers.iter().cloned()).collect(),
        body: marked.body.clone(),
    }
}

fn new_effect(
    asking: Asking,
    action: &Action,
    adapter: &Adapter,
    planning: Planning,
    provider_key: String,
    request: StoredRequest,
    now: Timestamp,
) -> NewEffect {
    let Planning { plan, asked } = planning;
    let links = asking.links;
    let approval_needed = action.requires_approval
        || action.approval_when.is_some_and(|when| {
            plan.impact
                .as_ref()
                .and_then(|impact| impact.amount)
                .is_none_or(|amount| amount > when.amount_above)
        });
    NewEffect {
        invocation: asking.fresh.invocation,
        effect: asking.fresh.effect,
        caller: asking.caller,
        action: asking.action,
        asked,
        subject: plan.subject,
        resource: plan.resource,
        impact: plan.impact,
        provider_key,
        replay_until: plan.replay_window_ms.map(|window| now.plus(Duration::from_millis(window))),
        can_read_back: adapter.can_read_back(),
        memory: json!({ "input": asking.input, "headers": plan.fingerprint_scope }).to_string(),
        request,
        approval: approval_needed.then_some(action.approval_expires),
        depends_on: links.depends_on,
        compensates: links.compensates,
        preview: None,
        drill: action.fault_drill.map(|drill| drill.word().to_owned()),
        listener: asking.listener.word(),
    }
}

/// What a dispatch needs beside its permit.
pub struct Way {
    /// How its answer is to be read.
    pub rules: classify::ResponseRules,
    /// What the agent waits.
    pub within: Duration,
    /// What is sent.
    pub request: Prepared,
    /// The connection that is being made.
    pub connecting: Connecting,
}

/// Carries a claimed dispatch to its end, whoever let it through, and counts it while its socket is read. Whoever calls
/// this has announced the effect in `in_flight`.
pub async fn carry(
    sidecar: Arc<Sidecar>,
    permit: DispatchPermit,
    effect: EffectView,
    way: Way,
    answering: Answering,
) {
    sidecar.on_the_wire.fetch_add(1, Ordering::SeqCst);
    dispatch(&sidecar, permit, effect, way, answering).await;
    sidecar.on_the_wire.fetch_sub(1, Ordering::SeqCst);
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
    let Sending { claim, exchange } = upstream::send(permit, &sidecar.pool, way.request, way.connecting);
    let exchange = drill(&view, exchange);
    let mut exchange = std::pin::pin!(exchange);
    let exchange = match tokio::time::timeout(way.within, &mut exchange).await {
        Ok(exchange) => exchange,
        Err(_) => {
            // The agent has waited long enough; the socket has not. A later answer still settles it.
            let told = meanwhile_unknown(sidecar, &claim, &id).await;
            answering.give(told);
            exchange.await
        }
    };
    let verdict = classify::verdict(&exchange, &way.rules);
    oncegate_store::failpoint::hit("before_record");
    let recorded = sidecar.store.record(claim, Seen::of(verdict, &exchange), sidecar.clock.now()).await;
    logged::dispatched(&view, verdict, &exchange);
    let said = match recorded {
        Ok(view) => {
            sidecar.in_flight.leave(&id, Some(view.clone()));
            fresh(view, verdict, exchange)
        }
        Err(error) => {
            // The row still says `dispatching`, and its claim is gone: the sweep makes it unknown.
            tracing::error!(effect.id = %id, error = upstream::chain(&error), "an outcome could not be recorded");
            sidecar.in_flight.leave(&id, None);
            Said::Unrecorded(id)
        }
    };
    sidecar.look_soon.notify_one();
    answering.give(said);
}

/// A drill throws the answer away after it was read, exactly as a lost connection would.
async fn drill(view: &EffectView, exchange: impl Future<Output = Exchange>) -> Exchange {
    let exchange = exchange.await;
    match (&view.drill, exchange) {
        (Some(drill), Exchange::Answered(_)) => {
            tracing::warn!(effect.id = %view.id, drill, "a fault drill threw the provider's answer away");
            Exchange::Lost(oncegate_policy::exchange::Loss {
                phase: oncegate_policy::exchange::Phase::AwaitingHead,
                cause: format!("fault drill {drill}"),
                status: None,
            })
        }
        (_, exchange) => exchange,
    }
}

async fn meanwhile_unknown(sidecar: &Arc<Sidecar>, claim: &Claim, id: &EffectId) -> Said {
    match sidecar.store.mark_unknown(claim, "no answer within respond_within", sidecar.clock.now()).await {
        Ok(view) => {
            sidecar.in_flight.leave(id, Some(view.clone()));
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

/// A repeat is answered from the record as it is now; while the first is on its way, it waits with it.
async fn repeat(sidecar: &Arc<Sidecar>, view: EffectView, within: Duration, caller: &CallerName) -> Said {
    let id = view.id.clone();
    let on_its_way = view.stage.word() == "dispatching";
    let view = match tokio::time::timeout(within, sidecar.in_flight.join(&id)).await {
        Ok(Some(view)) if on_its_way => view,
        Ok(_) | Err(_) => match sidecar.store.effect(&id).await {
            Ok(Some(detail)) => detail.view,
            Ok(None) | Err(_) => view,
        },
    };
    logged::repeat(&view, caller);
    Said::Record { view: Box::new(view), repeat: true }
}

fn unrecordable(error: &StoreError) -> Refusal {
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

/// A refusal leaves a row for the auditor and does not occupy the key.
pub async fn audit(
    sidecar: &Arc<Sidecar>,
    caller: &CallerName,
    action: Option<&ActionName>,
    refusal: &Refusal,
) {
    let name = action.map(ActionName::as_str);
    tracing::info!(caller = %caller, action.name = name, code = refusal.code.word(), "refused; nothing was sent");
    let refused = oncegate_store::admit::RefusedRequest {
        caller: caller.clone(),
        action: action.cloned(),
        refusal: refusal.clone(),
    };
    if let Err(error) = sidecar.store.audit_refusal(refused, sidecar.clock.now()).await {
        tracing::error!(error = upstream::chain(&error), "a refusal could not be recorded");
    }
}
