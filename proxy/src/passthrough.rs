//! Passthrough: reads, and what the operator declared as not governed. Streams both ways, with the credential
//! added and, if the provider echoes it, taken out again.

mod frames;
mod sending;
mod splice;
mod streaming;
pub mod trailers;
pub mod websocket;
mod withdrawn;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use oncegate_config::model::{Action, Host, Proxy};
use oncegate_policy::exchange::NotSent;
use oncegate_policy::refusal::{Code, Refusal};

use crate::arriving::Arriving;
use crate::front::Standing;
use crate::inject;
use crate::logged;
use crate::receive::{self, Head};
use crate::respond;
use crate::scrub::Scrubber;
use crate::secrets::{Lent, Placed};
use crate::sigv4::{Payload, Signer};
use crate::state::{Sidecar, Snapshot};
use crate::task::{self, Work};
use crate::unpack::{self, Packing, Unpacker};
use crate::upstream::dial::Destination;
use crate::upstream::{Body, no_body, whole};
use sending::Broken;
use streaming::{MovedBy, Sending, Streaming, WithoutTrailers};
use withdrawn::withdrawn;

/// The body of a request that is passed on.
pub enum Passing {
    /// Not read yet: it streams, for as long as whoever sends it may.
    Stream(Arriving, Arc<Standing>),
    /// Read already, to tell what it means.
    Whole(Bytes),
}

/// A request about to leave, complete but for its body.
struct Leaving {
    request: Request<()>,
    /// What its answer is searched for.
    scrubber: Scrubber,
    /// Signs it when it is complete.
    signer: Option<Signer>,
    /// Where it goes, and the access tokens that it carries.
    way: Way,
}

/// Where a request goes, and what of it is said no to there.
struct Way {
    destination: Arc<Destination>,
    lent: Lent,
}

impl Leaving {
    /// Signs it; the signature is looked for in the answer.
    fn sign(&mut self, sidecar: &Sidecar, head: &Head, payload: Payload<'_>) -> Result<(), Refusal> {
        let Some(signer) = &self.signer else { return Ok(()) };
        let to = (&head.via.authority, head.via.scheme);
        let signature = signer.sign(&mut self.request, to, payload, sidecar.clock.system())?;
        inject::hide(&mut self.scrubber, &signature)
    }

    /// What is sent, and what is needed besides. In a box, as it is handed on from here.
    fn with_body(self, body: Body) -> (Box<Request<Body>>, Scrubber, Way) {
        (Box::new(self.request.map(|()| body)), self.scrubber, self.way)
    }
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
    mut head: Box<Head>,
    body: Passing,
) -> Result<Response<Body>, Refusal> {
    let mut leaving = leaving(sidecar, snapshot, (host, action), &mut head).await?;
    let body = known(&snapshot.config.proxy, &leaving, &head, body).await?;
    set_framing(&mut leaving.request, &body);
    let (body, sending) = match body {
        Passing::Whole(bytes) => {
            leaving.sign(sidecar, &head, Payload::Whole(&bytes))?;
            (whole(bytes), Sending::whole())
        }
        Passing::Stream(arriving, standing) => {
            leaving.sign(sidecar, &head, Payload::Streaming)?;
            if arriving.is_end_stream() {
                (no_body(), Sending::whole())
            } else {
                let (sidecar, via) = (Arc::clone(sidecar), Arc::clone(&head.via));
                let watched: Option<Work<&'static str>> = is_write(&head).then(|| {
                    task::apart(async move { withdrawn(&sidecar, &via, &standing, |_| true).await })
                });
                let (body, sending) = WithoutTrailers::new(arriving, watched);
                (body.boxed_unsync(), sending)
            }
        }
    };
    let (mut request, scrubber, way) = leaving.with_body(body);
    // For the next hop only, so no signature is over it.
    if head.wants_trailers {
        request.headers_mut().insert(header::TE, HeaderValue::from_static("trailers"));
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
    let reuse = snapshot.config.proxy.reuse_idle_within;
    not_changed(sidecar, snapshot, &head)?;
    match sending::send(sidecar, &way, request, reuse).await {
        // Nobody asked for another protocol: `Upgrade` is not passed on.
        Ok((response, _)) if response.status().is_informational() => lost(action, snapshot, &head),
        Ok((response, link)) => {
            logged::passed_on(sidecar, &head.via.caller, action, response.status());
            let moved_by = MovedBy::new(&sidecar.pool, way.destination, link, &sending);
            Ok(answered(snapshot, &head, response, (scrubber, moved_by)))
        }
        Err(Broken::NotSent(refusal)) => Err(refusal),
        Err(Broken::Lost) => lost(action, snapshot, &head),
    }
}

/// A write that goes by a configuration of before could be governed by now, or denied: nothing of it has left yet.
fn not_changed(sidecar: &Sidecar, snapshot: &Snapshot, head: &Head) -> Result<(), Refusal> {
    match is_write(head) && !std::ptr::eq(snapshot, &raw const *sidecar.snapshot()) {
        true => Err(Refusal::new(
            Code::Undeclared,
            "The configuration was changed while this request came in. Nothing was sent; send it once more.",
        )),
        false => Ok(()),
    }
}

fn is_write(head: &Head) -> bool {
    !sending::only_reads(&head.method)
}

/// The head of a request as it leaves, with the credential. The agent's fields are moved into it.
async fn leaving(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    (host, action): (&Host, Option<&Action>),
    head: &mut Head,
) -> Result<Leaving, Refusal> {
    let mut placed = inject::placed(sidecar, snapshot, host, action, &head.via.authority, None).await?;
    // TRACE never comes here. OPTIONS asks about the server and needs no key; its answer is searched for it all the same.
    if head.method == Method::OPTIONS {
        placed = Placed { scrubber: placed.scrubber, ..Placed::nothing() };
    }
    if let Some(proof) = &placed.unminted {
        return Err(unminted(proof, head));
    }
    let scrubber = std::mem::take(&mut placed.scrubber);
    let (lent, signer) = (std::mem::take(&mut placed.lent), placed.signer.take());
    let identity_only = !scrubber.is_empty() || signer.is_some();
    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = Uri::from(head.raw_path_and_query.clone());
    let to = (&head.via.authority, head.via.scheme);
    let agents = std::mem::take(&mut head.headers);
    let mut request = inject::with_credential(request, agents, to, placed)?;
    if identity_only || signer.is_some() {
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    let destination = snapshot.destination(&head.via.authority, host);
    Ok(Leaving { request, scrubber, signer, way: Way { destination, lent } })
}

/// An answer as the agent may see it: unpacked where a credential could be in it, without secrets, its body on its way.
fn answered(
    snapshot: &Snapshot,
    head: &Head,
    response: Response<Incoming>,
    (scrubber, moved_by): (Scrubber, MovedBy),
) -> Response<Body> {
    let (mut parts, incoming) = response.into_parts();
    // Where the length speaks of no body of its own it is passed on as it came; else the body's own framing says
    // it: an answer in chunks that names a length besides would be cut there.
    let bodiless = head.method == Method::HEAD || parts.status == StatusCode::NOT_MODIFIED;
    let packing = match unpack::is_transfer_coded(&parts.headers) {
        // It could not be told to the agent either: it goes off with the framing.
        true => Packing::Unknown,
        false if scrubber.is_empty() => Packing::Plain,
        false => unpack::packing(&parts.headers),
    };
    let part = parts.status == StatusCode::PARTIAL_CONTENT;
    let unpacker = match packing {
        Packing::Plain => None,
        Packing::Known(coding) if !part => {
            unpack::unpacked_head(&mut parts.headers);
            Some(Unpacker::new(coding))
        }
        // A part of a packed body cannot be unpacked.
        Packing::Known(_) | Packing::Unknown if !bodiless && !incoming.is_end_stream() => {
            tracing::warn!(host = %head.via.authority, "an answer is packed in a way that cannot be read; it is withheld");
            return withheld(parts.status, is_write(head), snapshot, head);
        }
        Packing::Known(_) | Packing::Unknown => None,
    };
    let length = match (bodiless, parts.headers.get(header::CONTENT_LENGTH)) {
        (true, Some(named)) => Some(named.clone()),
        (false, Some(_)) => incoming.size_hint().exact().map(HeaderValue::from),
        (_, None) => None,
    };
    let announced =
        trailers::announced(&parts.headers, &scrubber).filter(|_| head.wants_trailers && length.is_none());
    parts.headers = passed_on(parts.headers, &scrubber);
    if let Some(phrase) = parts.extensions.remove::<ReasonPhrase>()
        && let Ok(phrase) = ReasonPhrase::try_from(scrubber.clean(phrase.as_bytes()).into_owned())
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
    let trailers_by = announced.is_some().then(|| scrubber.clone());
    if let Some(announced) = announced {
        parts.headers.insert(header::TRAILER, announced);
    }
    let streaming = Streaming::new(incoming, unpacker, scrubber.stream(keep_length), trailers_by, moved_by);
    Response::from_parts(parts, streaming.boxed_unsync())
}

/// An answer came, and the agent may not see it.
fn withheld(status: StatusCode, write: bool, snapshot: &Snapshot, head: &Head) -> Response<Body> {
    let mut sentence = format!(
        "The provider answered {}; its body is packed in a way that cannot be searched for the credential, and is withheld.",
        status.as_u16()
    );
    sentence.push_str(if write {
        " It was sent: do not retry; check at the provider."
    } else {
        " Do not retry."
    });
    respond::withheld(&sentence, snapshot.shape(&head.via.authority))
}

/// It was sent and there is no answer to pass on.
fn lost(action: Option<&Action>, snapshot: &Snapshot, head: &Head) -> Result<Response<Body>, Refusal> {
    if is_write(head) {
        logged::lost(&head.via.caller, action);
        // Not governed, so nothing is recorded; still nobody may take it for not sent.
        let sentence = "The provider may have applied this; it is not governed, so there is no record. Do not retry; check at the provider.";
        return Ok(respond::unknown(sentence, snapshot.shape(&head.via.authority)));
    }
    Err(Refusal::new(Code::NotSent, "The provider did not answer. A read changes nothing there."))
}

/// A provider's fields as an agent may see them, and `Via`, which tells an answer that was passed on from ours.
fn passed_on(headers: HeaderMap, scrubber: &Scrubber) -> HeaderMap {
    let (mut kept, _ours) = receive::end_to_end(headers);
    kept.remove(REPLAY);
    let shows = |(name, value): (&HeaderName, &HeaderValue)| {
        scrubber.is_in_name(name.as_str()) || matches!(scrubber.clean(value.as_bytes()), Cow::Owned(_))
    };
    if kept.iter().any(shows) {
        kept = cleaned(&kept, scrubber);
    }
    kept.append(header::VIA, HeaderValue::from_static("1.1 oncegate"));
    kept
}

/// The same fields without secrets. One that is none any more without them is left out, and one that is named so.
fn cleaned(headers: &HeaderMap, scrubber: &Scrubber) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(headers.len().saturating_add(1));
    for (name, value) in headers.iter().filter(|(name, _)| !scrubber.is_in_name(name.as_str())) {
        let clean = scrubber.clean(value.as_bytes()).into_owned();
        if let Ok(clean) = HeaderValue::from_maybe_shared(Bytes::from(clean)) {
            kept.append(name, clean);
        }
    }
    kept
}

/// No access token for it: whatever was asked, it did not leave.
fn unminted(proof: &NotSent, head: &Head) -> Refusal {
    tracing::info!(cause = proof.cause(), host = %head.via.authority, "a request was not passed on: no access token");
    Refusal::new(Code::NotSent, "No access token could be had for this host. Nothing was sent.")
}

/// A signature needs the body, but where it says so itself: one that would stream is read whole first, as large as a
/// governed one may be.
async fn known(bounds: &Proxy, leaving: &Leaving, head: &Head, body: Passing) -> Result<Passing, Refusal> {
    match (&leaving.signer, body) {
        (Some(signer), Passing::Stream(arriving, _))
            if arriving.size_hint().exact() == Some(0)
                || !signer.may_stream(head.via.scheme, leaving.request.headers()) =>
        {
            let whole = receive::body(arriving, bounds.max_request_body, bounds.request_timeout);
            let whole = Box::pin(whole).await?;
            Ok(Passing::Whole(whole))
        }
        (_, body) => Ok(body),
    }
}

/// The one header field that says where the body ends.
fn set_framing(request: &mut Request<()>, body: &Passing) {
    let arriving = match body {
        Passing::Whole(bytes) => return inject::set_length(request, bytes.len()),
        Passing::Stream(arriving, _) => arriving,
    };
    let bodiless = [Method::GET, Method::HEAD].contains(request.method());
    match arriving.size_hint().exact() {
        Some(0) if bodiless => {}
        Some(exact) => {
            request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(exact));
        }
        None => {
            request.headers_mut().insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
}

/// Says of an answer of ours that it comes from the record.
const REPLAY: HeaderName = HeaderName::from_static(respond::REPLAY_HEADER);
