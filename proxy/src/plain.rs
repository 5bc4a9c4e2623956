//! An invocation of an action that is not governed: recorded, sent at most once, and no effect. It takes no room, nobody
//! looks for it, and when its answer is lost only a person settles it.

use std::sync::Arc;

use oncegate_policy::classify;
use oncegate_policy::exchange::Exchange;
use oncegate_policy::plain::PlainStatus;
use oncegate_policy::refusal::Refusal;
use oncegate_store::plain::{Begun, NewPlain, PlainView};
use oncegate_store::{PlainClaim, Seen};
use tokio::sync::{OwnedRwLockReadGuard, oneshot};
use tokio::time::Instant;

use crate::asking::Asking;
use crate::pipeline::{self, ANSWER_WITHIN_MIN, CONNECT_TIMEOUT};
use crate::prepare::{self, Draft};
use crate::state::{Sidecar, Snapshot};
use crate::{logged, unrecorded, upstream};

/// What is said of it in the end.
pub enum SaidPlain {
    /// No, and nothing was sent.
    Refused(Refusal),
    /// As the record says.
    Record {
        /// The invocation.
        view: Box<PlainView>,
        /// It was there before this request.
        repeat: bool,
    },
}

/// Takes one invocation to its end, and answers once through `give`. Runs in a task of its own: whether anybody still
/// listens changes nothing (P9).
pub async fn invoke(
    sidecar: Arc<Sidecar>,
    snapshot: Arc<Snapshot>,
    asking: Asking,
    give: oneshot::Sender<SaidPlain>,
) {
    let _in_pipeline = sidecar.in_pipeline.enter();
    let (caller, action, listener) = (asking.caller.clone(), asking.action.clone(), asking.listener);
    // What the client waits counts from here.
    let within = asking.listener.respond_within(&snapshot.config);
    let until = Instant::now() + within;
    // Nobody waits any more when sending fails: the record has it all the same.
    let (draft, held) = match drafted(&sidecar, &snapshot, &asking).await {
        Ok(drafted) => drafted,
        Err(refusal) => {
            drop(give.send(SaidPlain::Refused(refusal)));
            return;
        }
    };
    let Draft { adapter, planning, stored, request, action: _ } = draft;
    let new = NewPlain {
        invocation: asking.fresh.invocation,
        caller: caller.clone(),
        action: action.clone(),
        listener: listener.word(),
        caller_key: planning.asked.caller_key.map(|key| key.text),
        second_key: planning.asked.second_key.map(|key| key.text),
        fingerprint: planning.asked.fingerprint,
        retry_of: asking.links.retry_of,
        method: stored.method,
        url: stored.url,
    };
    let connecting = upstream::connect(&sidecar.pool, &request, CONNECT_TIMEOUT.min(within * 3 / 4));
    let begun = sidecar.store.begin_plain(new, sidecar.clock.now()).await;
    drop(held);
    let (permit, view) = match begun {
        Ok(Begun::Fresh { permit, invocation }) => (permit, invocation),
        Ok(Begun::Repeat(view)) => {
            connecting.abort();
            logged::invoked(&view, true);
            drop(give.send(SaidPlain::Record { view: Box::new(view), repeat: true }));
            return;
        }
        Ok(Begun::Refused(refusal)) => {
            connecting.abort();
            logged::refused(&sidecar, &caller, Some(&action), listener, &refusal);
            drop(give.send(SaidPlain::Refused(refusal)));
            return;
        }
        Err(error) => {
            connecting.abort();
            let refusal = pipeline::unrecordable(&error);
            logged::refused(&sidecar, &caller, Some(&action), listener, &refusal);
            drop(give.send(SaidPlain::Refused(refusal)));
            return;
        }
    };
    // The claim is committed: from here on every path reaches `end_plain`.
    let on_the_wire = sidecar.on_the_wire.enter();
    let (claim, exchange) = upstream::send_plain(permit, &sidecar.pool, request, connecting);
    let mut give = Some(give);
    let mut exchange = std::pin::pin!(exchange);
    let until = until.max(Instant::now() + ANSWER_WITHIN_MIN);
    let exchange = match tokio::time::timeout_at(until, &mut exchange).await {
        Ok(exchange) => exchange,
        Err(_) => {
            // The client has waited long enough; the socket has not.
            tell(&mut give, PlainView { status: PlainStatus::Unknown, ..view.clone() });
            exchange.await
        }
    };
    if let Exchange::Answered(_) = &exchange {
        sidecar.metrics.passed_on();
    }
    let verdict = classify::verdict(&exchange, adapter.response_rules());
    record(&sidecar, claim, Seen::of(verdict, &exchange), view, give).await;
    drop(on_the_wire);
}

/// The end of it. What cannot be recorded is told as unknown at once, and kept until it can be.
async fn record(
    sidecar: &Sidecar,
    claim: PlainClaim,
    seen: Seen,
    view: PlainView,
    mut give: Option<oneshot::Sender<SaidPlain>>,
) {
    let seen = Arc::new(seen);
    let end = |claim, seen| sidecar.store.end_plain(claim, seen, sidecar.clock.now());
    let ended = match end(claim, Arc::clone(&seen)).await {
        Ok(ended) => Some(ended),
        Err(failed) => {
            tracing::error!(invocation.id = %view.id, error = upstream::chain(&failed.error), "an outcome could not be recorded");
            let id = view.id.clone();
            tell(&mut give, PlainView { status: PlainStatus::Unknown, ..view });
            unrecorded::keep(&sidecar.unrecorded, id.as_str(), failed.claim, &seen, end).await
        }
    };
    // Without it the row still says `running`, and its claim is gone: the sweep makes it unknown.
    if let Some(ended) = ended {
        logged::invoked(&ended, false);
        tell(&mut give, ended);
    }
}

/// The request, ready to be recorded. While the guard is held, what it goes by is not changed.
async fn drafted<'a>(
    sidecar: &Arc<Sidecar>,
    snapshot: &'a Snapshot,
    asking: &Asking,
) -> Result<(Draft<'a>, OwnedRwLockReadGuard<()>), Refusal> {
    let ready = match prepare::draft(sidecar, snapshot, asking).await {
        Ok(draft) => {
            sidecar.editions.admitting(&asking.action, asking.edition).await.map(|held| (draft, held))
        }
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = &ready {
        pipeline::audit(sidecar, asking.listener, &asking.caller, Some(&asking.action), refusal).await;
    }
    ready
}

fn tell(give: &mut Option<oneshot::Sender<SaidPlain>>, view: PlainView) {
    if let Some(give) = give.take()
        && give.send(SaidPlain::Record { view: Box::new(view), repeat: false }).is_err()
    {
        tracing::debug!("the client has gone; the invocation goes on");
    }
}
