//! Passthrough: reads, and what the operator declared as not governed. Streams both ways, with the credential
//! added and, if the provider echoes it, taken out again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use oncegate_config::model::{Action, Host};
use oncegate_policy::refusal::{Code, Refusal};

use crate::inject;
use crate::receive::{self, Head};
use crate::respond;
use crate::scrub::ScrubStream;
use crate::secrets::Placed;
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
        inject::placed(snapshot, host, action, &head.via.authority, None).await?
    };
    let scrubber = std::mem::take(&mut placed.scrubber);
    let identity_only = !placed.headers.is_empty() || !placed.query.is_empty();
    let request = Request::builder().method(head.method.clone()).uri(&head.raw_path_and_query).body(());
    let request = request.map_err(|_| {
        Refusal::new(Code::InvalidRequest, "The request target cannot be sent. Nothing was sent.")
    })?;
    let to = (&head.via.authority, head.via.scheme);
    let mut outgoing = inject::outgoing(request, &head.headers, &[], &[], to, placed)?;
    if identity_only {
        outgoing.headers_mut().insert(header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
    }
    let body = sized(&mut outgoing, body);

    let destination = snapshot.destination(&head.via.authority, host);
    let write = ![Method::GET, Method::HEAD, Method::OPTIONS].contains(outgoing.method());
    let (response, link) = match send(sidecar, &destination, outgoing.map(|()| body)).await {
        Ok(sent) => sent,
        Err(Broken::NotSent(refusal)) => return Err(refusal),
        // Not governed, so nothing is recorded; still nobody may take it for not sent.
        Err(Broken::Lost) if write => {
            let sentence = "The provider may have applied this; it is not governed, so there is no record. Do not retry; check at the provider.";
            return Ok(respond::unknown(sentence, snapshot.shape(&head.via.authority)));
        }
        Err(Broken::Lost) => {
            return Err(Refusal::new(
                Code::NotSent,
                "The provider did not answer. A read changes nothing there.",
            ));
        }
    };
    let (mut parts, incoming) = response.into_parts();
    let length = parts.headers.get(header::CONTENT_LENGTH).cloned();
    let mut kept = receive::end_to_end(&parts.headers);
    let foreign: Vec<_> =
        kept.keys().filter(|name| name.as_str().starts_with("oncegate-")).cloned().collect();
    for name in foreign {
        kept.remove(name);
    }
    for value in kept.values_mut() {
        if let Ok(text) = value.to_str()
            && let Ok(clean) = http::HeaderValue::from_str(&scrubber.clean_text(text))
        {
            *value = clean;
        }
    }
    let keep_length = length.is_some();
    if let Some(length) = length {
        kept.insert(header::CONTENT_LENGTH, length);
    }
    parts.headers = kept;
    let streaming = Streaming {
        inner: incoming,
        scrub: scrubber.stream(keep_length),
        flushed: false,
        home: Some((Arc::clone(&sidecar.pool), destination, link)),
    };
    Ok(Response::from_parts(parts, streaming.boxed_unsync()))
}

/// The body, and the one header field that says where it ends.
fn sized(request: &mut Request<()>, body: Passing) -> Body {
    match body {
        Passing::Whole(bytes) => {
            inject::set_length(request, bytes.len());
            whole(bytes)
        }
        Passing::Stream(incoming) => {
            if let Some(exact) = incoming.size_hint().exact() {
                if exact > 0 || *request.method() != Method::GET && *request.method() != Method::HEAD {
                    request.headers_mut().insert(header::CONTENT_LENGTH, http::HeaderValue::from(exact));
                }
            } else {
                request
                    .headers_mut()
                    .insert(header::TRANSFER_ENCODING, http::HeaderValue::from_static("chunked"));
            }
            incoming.map_err(|error| -> BodyError { error.into() }).boxed_unsync()
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
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        let clean = self.scrub.push(data);
                        if !clean.is_empty() {
                            return Poll::Ready(Some(Ok(Frame::data(clean))));
                        }
                    }
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                None => {
                    if let Some((pool, destination, link)) = self.home.take() {
                        pool.put(&destination, link);
                    }
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
