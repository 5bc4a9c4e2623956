//! Passthrough: reads, and what the operator declared as not governed. Streams both ways, with the credential
//! added and, if the provider echoes it, taken out again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use oncegate_config::model::{Action, Host, Proxy};
use oncegate_policy::exchange::NotSent;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::url_template::Scheme;

use crate::inject;
use crate::receive::{self, Head};
use crate::respond;
use crate::scrub::{ScrubStream, Scrubber};
use crate::secrets::Placed;
use crate::sigv4::{Payload, Signer};
use crate::state::{Sidecar, Snapshot};
use crate::upstream::dial::{self, Destination, Link};
use crate::upstream::pool::Pool;
use crate::upstream::{Body, BodyError, chain, whole};

/// Idle connections of any age within the pool's own bound will do for a read: a re-sent read does no harm.
const IDLE_FOR_READS: Duration = Duration::from_secs(30);
/// Resolve, connect and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of a request that is passed on.
pub enum Passing {
    /// Not read yet: it streams.
    Stream(Incoming),
    /// Read already, to tell what it means.
    Whole(Bytes),
}

/// Passes a request on and streams its answer.
///
/// # Errors
/// A refusal when nothing was sent. What breaks later breaks the answer's body, as it would without us.
pub async fn forward(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    host: &Host,
    action: Option<&Action>,
    head: Head,
    body: Passing,
) -> Result<Response<Body>, Refusal> {
    // TRACE never comes here; OPTIONS asks about the server and needs no key.
    let mut placed = if head.method == Method::OPTIONS {
        Placed::nothing()
    } else {
        inject::placed(sidecar, snapshot, host, action, &head.via.authority, None).await?
    };
    if let Some(proof) = &placed.unminted {
        return Err(unminted(proof, &head));
    }
    let mut scrubber = std::mem::take(&mut placed.scrubber);
    let (lent, signer) = (std::mem::take(&mut placed.lent), placed.signer.take());
    let identity_only = !placed.headers.is_empty() || !placed.query.is_empty();
    let request = Request::builder().method(head.method.clone()).uri(&head.raw_path_and_query).body(());
    let request = request.map_err(|_| {
        Refusal::new(Code::InvalidRequest, "The request target cannot be sent. Nothing was sent.")
    })?;
    let to = (&head.via.authority, head.via.scheme);
    let mut outgoing = inject::outgoing(request, &head.headers, &[], &[], to, placed)?;
    if identity_only {
        outgoing.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    let body = known(&snapshot.config.proxy, signer.as_ref(), to.1, &head, body).await?;
    let body = sized(&mut outgoing, body, |whole, outgoing| match &signer {
        None => Ok(()),
        Some(signer) => {
            let payload = whole.map_or(Payload::Streaming, Payload::Whole);
            scrubber.also("signature", &signer.sign(outgoing, to, payload, sidecar.clock.system())?);
            Ok(())
        }
    })?;

    let destination = snapshot.destination(&head.via.authority, host);
    let method = outgoing.method().clone();
    let write = ![Method::GET, Method::HEAD, Method::OPTIONS].contains(&method);
    let sent = send(sidecar, &destination, outgoing.map(|()| body)).await;
    let (response, link) = match sent {
        // Nobody asked for another protocol: `Upgrade` is not passed on.
        Ok((response, _)) if response.status().is_informational() => return lost(write, snapshot, &head),
        Ok(sent) => sent,
        Err(Broken::NotSent(refusal)) => return Err(refusal),
        Err(Broken::Lost) => return lost(write, snapshot, &head),
    };
    if response.status() == StatusCode::UNAUTHORIZED {
        lent.turned_away();
    }
    sidecar.metrics.passed_on();
    let (mut parts, incoming) = response.into_parts();
    // Where the length speaks of no body of its own it is passed on as it came; else the body's own framing says
    // it: an answer in chunks that names a length besides would be cut there.
    let bodiless = method == Method::HEAD || parts.status == StatusCode::NOT_MODIFIED;
    let length = match (bodiless, parts.headers.get(header::CONTENT_LENGTH)) {
        (true, Some(named)) => Some(named.clone()),
        (false, Some(_)) => incoming.size_hint().exact().map(HeaderValue::from),
        (_, None) => None,
    };
    parts.headers = passed_on(&parts.headers, &scrubber);
    if let Some(phrase) = parts.extensions.remove::<ReasonPhrase>()
        && let Ok(phrase) = ReasonPhrase::try_from(scrubber.clean(phrase.as_bytes()))
    {
        parts.extensions.insert(phrase);
    }
    // Towards the agent it is our own message: in HTTP/1.0 an answer without a length could not be told from a
    // part of one.
    parts.version = Version::HTTP_11;
    let keep_length = length.is_some();
    if let Some(length) = length {
        parts.headers.insert(header::CONTENT_LENGTH, length);
    }
    let streaming = Streaming {
        inner: incoming,
        scrub: scrubber.stream(keep_length),
        flushed: false,
        home: Some((Arc::clone(&sidecar.pool), destination, link)),
    };
    Ok(Response::from_parts(parts, streaming.boxed_unsync()))
}

/// It was sent and there is no answer to pass on.
fn lost(write: bool, snapshot: &Snapshot, head: &Head) -> Result<Response<Body>, Refusal> {
    if write {
        // Not governed, so nothing is recorded; still nobody may take it for not sent.
        let sentence = "The provider may have applied this; it is not governed, so there is no record. Do not retry; check at the provider.";
        return Ok(respond::unknown(sentence, snapshot.shape(&head.via.authority)));
    }
    Err(Refusal::new(Code::NotSent, "The provider did not answer. A read changes nothing there."))
}

/// A provider's fields as an agent may see them, and `Via`, which tells an answer that was passed on from ours.
fn passed_on(headers: &HeaderMap, scrubber: &Scrubber) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(headers.len() + 1);
    for (name, value) in &receive::end_to_end(headers) {
        if name == respond::REPLAY_HEADER {
            continue;
        }
        if let Ok(clean) = HeaderValue::from_bytes(&scrubber.clean(value.as_bytes())) {
            kept.append(name.clone(), clean);
        }
    }
    kept.append(header::VIA, HeaderValue::from_static("1.1 oncegate"));
    kept
}

/// No access token for it: whatever was asked, it did not leave.
fn unminted(proof: &NotSent, head: &Head) -> Refusal {
    tracing::info!(cause = proof.cause(), host = %head.via.authority, "a request was not passed on: no access token");
    Refusal::new(Code::NotSent, "No access token could be had for this host. Nothing was sent.")
}

/// A signature needs the body, but where it says so itself: one that would stream is read whole first, as large as a
/// governed one may be.
async fn known(
    bounds: &Proxy,
    signer: Option<&Signer>,
    scheme: Scheme,
    head: &Head,
    body: Passing,
) -> Result<Passing, Refusal> {
    match (signer, body) {
        (Some(signer), Passing::Stream(incoming))
            if incoming.size_hint().exact() == Some(0) || !signer.may_stream(scheme, &head.headers) =>
        {
            let whole = receive::body(incoming, bounds.max_request_body, bounds.request_timeout).await?;
            Ok(Passing::Whole(whole))
        }
        (_, body) => Ok(body),
    }
}

/// The body, and the one header field that says where it ends; `seal` sees the request when it is complete, with the
/// body if that is known.
fn sized(
    request: &mut Request<()>,
    body: Passing,
    seal: impl FnOnce(Option<&[u8]>, &mut Request<()>) -> Result<(), Refusal>,
) -> Result<Body, Refusal> {
    match body {
        Passing::Whole(bytes) => {
            inject::set_length(request, bytes.len());
            seal(Some(&bytes), request)?;
            Ok(whole(bytes))
        }
        Passing::Stream(incoming) => {
            if let Some(exact) = incoming.size_hint().exact() {
                if exact > 0 || *request.method() != Method::GET && *request.method() != Method::HEAD {
                    request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(exact));
                }
            } else {
                request.headers_mut().insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
            seal(None, request)?;
            Ok(incoming.map_err(|error| -> BodyError { error.into() }).boxed_unsync())
        }
    }
}

/// How passing on ended without an answer.
enum Broken {
    /// Nothing left.
    NotSent(Refusal),
    /// Something may have left.
    Lost,
}

/// Sends on an idle connection if there is one; if it hands the request back unsent, on a fresh one.
async fn send(
    sidecar: &Arc<Sidecar>,
    destination: &Arc<Destination>,
    request: Request<Body>,
) -> Result<(Response<Incoming>, Link), Broken> {
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
    let mut request = request;
    if let Some(mut link) = sidecar.pool.take(destination, IDLE_FOR_READS) {
        match link.sender.try_send_request(request).await {
            Ok(response) => return Ok((response, link)),
            Err(mut error) => match error.take_message() {
                Some(unsent) => request = unsent,
                None => return Err(lost(chain(error.error()))),
            },
        }
    }
    let mut link = dial::dial(destination, CONNECT_TIMEOUT)
        .await
        .map_err(|proof| unreachable(format!("{}: {}", proof.step(), proof.cause())))?;
    match link.sender.try_send_request(request).await {
        Ok(response) => Ok((response, link)),
        Err(mut error) => match error.take_message() {
            Some(_) => Err(unreachable(chain(error.error()))),
            None => Err(lost(chain(error.error()))),
        },
    }
}

/// An answer on its way. Its connection goes back to the pool when it has ended.
struct Streaming {
    inner: Incoming,
    scrub: ScrubStream,
    flushed: bool,
    home: Option<(Arc<Pool>, Arc<Destination>, Link)>,
}

impl Streaming {
    fn go_home(&mut self) {
        if let Some((pool, destination, link)) = self.home.take() {
            pool.put(&destination, link);
        }
    }
}

impl Drop for Streaming {
    /// An answer of known length is not polled again after its last byte: its end is seen here.
    fn drop(&mut self) {
        if self.inner.is_end_stream() {
            self.go_home();
        }
    }
}

impl http_body::Body for Streaming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Err(error)) => {
                    self.home = None;
                    return Poll::Ready(Some(Err(error.into())));
                }
                // Trailers are for the next hop that asked for them; the agent's `TE` was not passed on.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        let clean = self.scrub.push(data);
                        if !clean.is_empty() {
                            return Poll::Ready(Some(Ok(Frame::data(clean))));
                        }
                    }
                }
                None => {
                    self.go_home();
                    if !std::mem::replace(&mut self.flushed, true) {
                        let rest = self.scrub.finish();
                        if !rest.is_empty() {
                            return Poll::Ready(Some(Ok(Frame::data(rest))));
                        }
                    }
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream() && (self.flushed || self.scrub.is_idle())
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The refusal of a read, as an answer.
#[must_use]
pub fn refused(
    refusal: &Refusal,
    snapshot: &Snapshot,
    authority: &oncegate_policy::authority::Authority,
) -> Response<Body> {
    respond::refused(refusal, snapshot.shape(authority))
}
