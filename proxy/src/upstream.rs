//! The provider's side of the wire: dial, send once, report what was seen.
//!
//! [`send`] takes a [`DispatchPermit`] by value and has no error: whatever happens is an [`Exchange`]. Nothing
//! here sends a governed request again. One thing looks like it and is not: a kept-alive connection that hands
//! the whole request back unsent (hyper's `try_send_request`; the peer had read 0 bytes in every probe) is
//! replaced by a fresh one, inside the same dispatch.

pub mod address;
mod answer;
pub mod apart;
pub mod dial;
pub mod first;
mod last;
pub mod link;
pub mod pool;
pub(crate) mod silence;
pub mod wire;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use oncegate_policy::exchange::{Exchange, Loss, NotSent, Phase};
use oncegate_store::{Claim, DispatchPermit, PlainClaim, PlainPermit, ReplayClaim, ReplayPermit};
use tokio::time::Instant;

use crate::scrub::Scrubber;
use crate::secrets::Lent;
use crate::task;
use dial::Destination;
use first::First;
use link::Link;
use pool::Pool;

/// A request's or an answer's body on its way.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, BodyError>;
/// What can go wrong with one.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A whole body that was judged: what was judged is what is sent.
#[must_use]
pub fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// No body at all.
#[must_use]
pub fn no_body() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A governed request, ready to leave.
pub struct Prepared {
    /// Where to.
    pub destination: Arc<Destination>,
    /// Method, path, every header; or the proof that nothing left, where no access token could be minted for it. That
    /// one is claimed and recorded like any other, and never comes near a connection.
    pub head: Result<Request<()>, NotSent>,
    /// The bytes that were judged.
    pub body: Bytes,
    /// Takes the credential out of what comes back.
    pub scrubber: Scrubber,
    /// The access tokens in it.
    pub lent: Lent,
    /// Bounds for the answer.
    pub bounds: Bounds,
}

/// Bounds for one exchange.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How long the provider is listened to.
    pub upstream_timeout: Duration,
    /// Bytes of the answer's body.
    pub max_response_body: usize,
    /// How long a kept-alive connection may have been idle.
    pub reuse_idle_within: Duration,
    /// The first byte leaves before then, or none does: what a replay relies on ends.
    pub begin_before: Option<Instant>,
}

/// A dispatch on its way: the permit is spent, the claim is what `record` needs.
pub struct Sending {
    /// The right to record what was seen.
    pub claim: Claim,
    /// What the wire shows, in the end. Polled by the pipeline alone; never dropped before its end.
    pub exchange: Pin<Box<dyn Future<Output = Exchange> + Send>>,
}

/// The connection of a request that is being admitted. No byte of the request is written to it yet.
pub enum Connecting {
    /// It was idle for a moment only: there is nothing to wait for.
    Kept(Box<Link>),
    /// It is being made while the admission commits.
    Dialled(tokio::task::JoinHandle<Result<Box<Link>, NotSent>>),
    /// There will be none.
    Never(NotSent),
}

impl Connecting {
    /// Nobody needs it: what is being made is given up.
    pub fn abort(self) {
        match self {
            Self::Dialled(task) => task.abort(),
            Self::Kept(_) | Self::Never(_) => {}
        }
    }

    async fn made(self) -> Result<Box<Link>, NotSent> {
        match self {
            Self::Kept(link) => Ok(link),
            Self::Dialled(task) => task
                .await
                .unwrap_or_else(|ended| Err(NotSent::Connect(format!("the dialling task ended: {ended}")))),
            Self::Never(proof) => Err(proof),
        }
    }
}

/// Takes a connection that was idle for a moment only, or begins to make one.
pub fn connect(pool: &Arc<Pool>, prepared: &Prepared, connect_timeout: Duration) -> Connecting {
    if let Err(proof) = &prepared.head {
        return Connecting::Never(proof.clone());
    }
    if let Some(link) = pool.take(&prepared.destination, prepared.bounds.reuse_idle_within) {
        return Connecting::Kept(link);
    }
    let (pool, destination) = (Arc::clone(pool), Arc::clone(&prepared.destination));
    Connecting::Dialled(task::start(async move { pool.dial(&destination, connect_timeout).await }))
}

/// Sends a governed request once.
pub fn send(permit: DispatchPermit, pool: &Arc<Pool>, prepared: Prepared, connecting: Connecting) -> Sending {
    let claim = permit.spend();
    Sending { claim, exchange: Box::pin(over(Arc::clone(pool), prepared, connecting)) }
}

/// Sends the bytes of an unknown effect again, under the provider's own key. The only other way to write, and it has a
/// permit of its own kind.
pub fn resend(
    permit: ReplayPermit,
    pool: &Arc<Pool>,
    prepared: Prepared,
    connecting: Connecting,
) -> (ReplayClaim, Pin<Box<dyn Future<Output = Exchange> + Send>>) {
    let claim = permit.spend();
    (claim, Box::pin(over(Arc::clone(pool), prepared, connecting)))
}

/// Sends a request that is not governed, once.
pub fn send_plain(
    permit: PlainPermit,
    pool: &Arc<Pool>,
    prepared: Prepared,
    connecting: Connecting,
) -> (PlainClaim, Pin<Box<dyn Future<Output = Exchange> + Send>>) {
    let claim = permit.spend();
    (claim, Box::pin(over(Arc::clone(pool), prepared, connecting)))
}

async fn over(pool: Arc<Pool>, mut prepared: Prepared, connecting: Connecting) -> Exchange {
    // A proof stays where it is; a head leaves, and is needed no more.
    let head = match &mut prepared.head {
        Ok(head) => std::mem::take(head),
        Err(proof) => {
            connecting.abort();
            return Exchange::NotSent(proof.clone());
        }
    };
    let link = match connecting.made().await {
        Ok(link) => link,
        Err(proof) => return Exchange::NotSent(proof),
    };
    let body = std::mem::take(&mut prepared.body);
    exchange(&pool, &prepared, Box::new(head.map(|()| whole(body))), link).await
}

async fn exchange(
    pool: &Arc<Pool>,
    prepared: &Prepared,
    mut request: Box<Request<Body>>,
    mut link: Box<Link>,
) -> Exchange {
    let deadline = Instant::now() + prepared.bounds.upstream_timeout;
    let response = loop {
        if prepared.bounds.begin_before.is_some_and(|end| Instant::now() >= end) {
            return Exchange::NotSent(NotSent::Connect("it took too long to begin in time".to_owned()));
        }
        let first = tokio::time::timeout_at(deadline, First::over(&mut link, request)).await;
        match first.unwrap_or_else(|_| First::Lost("no answer within upstream_timeout".to_owned())) {
            First::Head(response) => break response,
            First::Lost(cause) => {
                return Exchange::Lost(Loss { phase: Phase::AwaitingHead, cause, status: None });
            }
            First::HandedBack(unsent, cause) if link.reused => {
                // 0 bytes left on the idle connection; a fresh one serves the same, single dispatch.
                match Box::pin(pool.dial(&prepared.destination, CONNECT_AGAIN)).await {
                    Ok(fresh) => link = fresh,
                    Err(proof) => return Exchange::NotSent(proof),
                }
                request = unsent;
                tracing::debug!(cause, "an idle connection had closed; nothing was written to it");
            }
            First::HandedBack(_, cause) => return Exchange::NotSent(NotSent::HandedBack(cause)),
        }
    };
    if response.status() == http::StatusCode::UNAUTHORIZED {
        prepared.lent.turned_away();
    }
    let seen = answer::collect(response, &mut link, prepared, deadline).await;
    if let Exchange::Answered(_) = seen {
        pool.put(&prepared.destination, link);
    }
    seen
}

/// For the fresh connection after an idle one turned out closed.
const CONNECT_AGAIN: Duration = Duration::from_secs(5);

/// An error and everything behind it, in one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    // rustls ends some with the address of its manual, which helps nobody who reads a receipt.
    if let Some(manual) = text.find(": https://docs.rs/rustls/") {
        text.truncate(manual);
    }
    text
}

/// One read of the provider: by type it can only be a GET.
pub async fn read(
    pool: &Arc<Pool>,
    destination: &Arc<Destination>,
    mut head: Request<()>,
    (scrubber, lent): (Scrubber, Lent),
    bounds: Bounds,
) -> Exchange {
    *head.method_mut() = http::Method::GET;
    let destination = Arc::clone(destination);
    let prepared = Prepared { destination, head: Ok(head), body: Bytes::new(), scrubber, lent, bounds };
    let connecting = connect(pool, &prepared, bounds.upstream_timeout);
    over(Arc::clone(pool), prepared, connecting).await
}

/// A form for a token endpoint. It is ours and no agent's: it mints, and writes nothing that anybody asked for. Its
/// answer comes as it is, with the secrets in it.
pub(crate) async fn ask_for_token(
    pool: &Arc<Pool>,
    destination: &Arc<Destination>,
    mut head: Request<()>,
    form: Bytes,
    bounds: Bounds,
) -> Exchange {
    *head.method_mut() = http::Method::POST;
    let (destination, scrubber) = (Arc::clone(destination), Scrubber::default());
    let prepared =
        Prepared { destination, head: Ok(head), body: form, scrubber, lent: Lent::default(), bounds };
    let connecting = connect(pool, &prepared, bounds.upstream_timeout);
    over(Arc::clone(pool), prepared, connecting).await
}
