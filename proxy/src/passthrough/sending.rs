//! How a request that is passed on leaves: over an idle connection if there is one that will do, else over a fresh one.
//!
//! A provider may close an idle connection just when a request comes. A write takes one only that was idle for a moment,
//! as a governed one does, and is never sent again. A read takes any: where it ends before a byte of an answer came, the
//! read goes once more, over a fresh one, as most clients do themselves (RFC 9110 section 9.2.2, RFC 9112 section 9.3.1).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use oncegate_policy::refusal::{Code, Refusal};

use super::Way;
use crate::state::Sidecar;
use crate::upstream::dial::Destination;
use crate::upstream::first::First;
use crate::upstream::link::Link;
use crate::upstream::silence::TOO_LONG;
use crate::upstream::{Body, no_body};

/// Idle connections of any age within the pool's own bound will do for a read.
const IDLE_FOR_READS: Duration = Duration::from_secs(30);
/// Resolve, connect and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How passing on ended without an answer.
pub(super) enum Broken {
    /// Nothing left.
    NotSent(Refusal),
    /// Something may have left.
    Lost,
}

/// Methods that change nothing at a provider (RFC 9110 section 9.2.1), of those that are passed on.
pub(super) fn only_reads(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

/// Sends a request. `reuse` is how long a connection may have been idle that a write takes.
pub(super) async fn send(
    sidecar: &Arc<Sidecar>,
    way: &Way,
    request: Box<Request<Body>>,
    reuse: Duration,
) -> Result<(Response<Incoming>, Box<Link>), Broken> {
    let sent = send_to(sidecar, &way.destination, request, reuse).await;
    if sent.as_ref().is_ok_and(|(response, _)| response.status() == StatusCode::UNAUTHORIZED) {
        way.lent.turned_away();
    }
    sent
}

async fn send_to(
    sidecar: &Arc<Sidecar>,
    destination: &Arc<Destination>,
    mut request: Box<Request<Body>>,
    reuse: Duration,
) -> Result<(Response<Incoming>, Box<Link>), Broken> {
    let unreachable = |cause: String| {
        tracing::info!(cause, host = %destination.authority, "a request could not be passed on");
        Broken::NotSent(Refusal::new(
            Code::NotSent,
            "The provider could not be reached. Nothing was applied.",
        ))
    };
    let lost = |cause: String| {
        tracing::info!(cause, host = %destination.authority, "the answer to a request that was passed on is lost");
        Broken::Lost
    };
    let idle = if only_reads(request.method()) { IDLE_FOR_READS } else { reuse };
    if let Some(mut link) = sidecar.pool.take(destination, idle) {
        let (spare, heard) = (spare(&request), link.written.heard());
        request = match first(&mut link, request).await {
            First::Head(response) => return Ok((response, link)),
            First::HandedBack(unsent, _) => unsent,
            First::Lost(cause) => {
                spare.filter(|_| link.written.heard() == heard).ok_or_else(|| lost(cause))?
            }
        };
    }
    let mut link = Box::pin(sidecar.pool.dial(destination, CONNECT_TIMEOUT))
        .await
        .map_err(|proof| unreachable(format!("{}: {}", proof.step(), proof.cause())))?;
    match first(&mut link, request).await {
        First::Head(response) => Ok((response, link)),
        First::HandedBack(_, cause) => Err(unreachable(cause)),
        First::Lost(cause) => Err(lost(cause)),
    }
}

/// Sends a request and waits for the head of its answer, for as long as anything moves.
async fn first(link: &mut Link, request: Box<Request<Body>>) -> First {
    let moved = link.written.clone();
    // It counts from the moment at which the connection was taken.
    let mut silence = std::mem::take(&mut link.silence);
    let begun = {
        let mut first = pin!(First::over(link, request));
        let mut before = (moved.bytes(), moved.heard());
        poll_fn(|cx| {
            if let Poll::Ready(first) = first.as_mut().poll(cx) {
                return Poll::Ready(first);
            }
            loop {
                ready!(silence.poll(cx));
                let now = (moved.bytes(), moved.heard());
                if now == before {
                    return Poll::Ready(First::Lost(TOO_LONG.to_owned()));
                }
                before = now;
                silence.broken();
            }
        })
        .await
    };
    link.silence = silence;
    begun
}

/// The same read again; none of what writes, or brings a body.
fn spare(request: &Request<Body>) -> Option<Box<Request<Body>>> {
    if !only_reads(request.method()) || !request.body().is_end_stream() {
        return None;
    }
    let mut spare = Box::new(Request::new(no_body()));
    *spare.method_mut() = request.method().clone();
    *spare.uri_mut() = request.uri().clone();
    *spare.headers_mut() = request.headers().clone();
    Some(spare)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::upstream::silence::IDLE_MAX;

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_falls_silent_has_its_whole_time_whatever_came_before() {
        let (ours, mut theirs) = duplex(4096);
        let mut link = Link::over(Box::new(ours)).await.unwrap();
        let request = || Box::new(Request::get("/").body(no_body()).unwrap());
        let answering = async {
            assert!(theirs.read(&mut [0; 1024]).await.unwrap() > 0);
            sleep(IDLE_MAX / 3).await;
            theirs.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        };
        let (begun, ()) = tokio::join!(first(&mut link, request()), answering);
        assert!(matches!(begun, First::Head(_)));
        // As when it is taken from the pool once more.
        sleep(IDLE_MAX / 3).await;
        let taken = Instant::now();
        link.silence.broken_at(taken);
        assert!(matches!(first(&mut link, request()).await, First::Lost(_)));
        // That the request left was something that moved.
        assert_eq!(taken.elapsed().as_secs(), (IDLE_MAX * 2).as_secs());
    }
}
