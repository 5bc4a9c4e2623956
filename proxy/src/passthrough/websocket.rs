//! WebSockets (RFC 6455): a read that becomes a conversation.
//!
//! What an agent says inside cannot be judged, so a host takes them only where the operator says so. Nothing is
//! switched before the provider has said 101 to this very handshake: until then the agent's bytes are requests, and
//! are judged as such. A provider that does not switch answers as it would have answered any read.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use oncegate_config::model::Host;
use oncegate_policy::admission;
use oncegate_policy::refusal::{Code, Refusal};

use super::Leaving;
use super::frames::Frames;
use super::sending::{self, Broken};
use super::splice::splice;
use super::streaming::{MovedBy, Sending};
use super::withdrawn::withdrawn;
use crate::arriving::Arriving;
use crate::front::Standing;
use crate::listener::stopped;
use crate::pipeline;
use crate::receive::{Head, Via};
use crate::scrub::Scrubber;
use crate::sigv4::Payload;
use crate::state::{Sidecar, Snapshot};
use crate::task;
use crate::upstream::{Body, chain, whole};

/// What both sides prove with that they mean WebSockets (section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a request asks for a WebSocket. Offers of other protocols (`h2c`), and those with another method, are passed
/// over, as a server may.
#[must_use]
pub fn is_asked(request: &Request<Arriving>) -> bool {
    request.method() == Method::GET && is_named(request.headers())
}

fn is_named(headers: &HeaderMap) -> bool {
    lists(headers, &header::UPGRADE, "websocket") && lists(headers, &header::CONNECTION, "upgrade")
}

fn lists(headers: &HeaderMap, name: &header::HeaderName, word: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|each| each.trim().eq_ignore_ascii_case(word))
}

/// The refusal of a host that takes none.
///
/// # Errors
/// `undeclared`.
pub fn allowed(host: &Host, via: &Via) -> Result<(), Refusal> {
    if host.websockets {
        return Ok(());
    }
    let sentence = format!(
        "WebSockets to {} are not allowed: what is sent inside could not be governed. Nothing was sent. Ask the operator.",
        via.authority.host
    );
    Err(Refusal::new(Code::Undeclared, sentence))
}

/// Asks the provider, and switches if it does.
///
/// # Errors
/// A refusal when it is no handshake, writes are halted, or the provider's answer is none.
pub async fn open(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    host: &Host,
    mut head: Box<Head>,
    (agent, incoming): (OnUpgrade, Arriving),
    standing: Arc<Standing>,
) -> Result<Response<Body>, Refusal> {
    let accept = handshake(&head, &incoming)?;
    // Also where reads go on while writes are halted: this one could write.
    if let Some(halt) = sidecar.store.halted().await.map_err(|error| pipeline::unrecordable(&error))? {
        return Err(admission::halted(&halt.reason));
    }
    let mut leaving = super::leaving(sidecar, snapshot, (host, None), &mut head).await?;
    if !leaving.scrubber.is_empty() {
        // They pack messages, and what is packed cannot be searched.
        leaving.request.headers_mut().remove(header::SEC_WEBSOCKET_EXTENSIONS);
    }
    leaving.sign(sidecar, &head, Payload::Whole(b""))?;
    let Leaving { mut request, scrubber, way, .. } = leaving;
    request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    request.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    let request = Box::new(request.map(|()| whole(Bytes::new())));
    let reuse = snapshot.config.proxy.reuse_idle_within;
    let (response, link) = match sending::send(sidecar, &way, request, reuse).await {
        Ok(sent) => sent,
        Err(Broken::NotSent(refusal)) => return Err(refusal),
        Err(Broken::Lost) => return super::lost(None, snapshot, &head),
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        sidecar.metrics.passed_on();
        let moved_by = MovedBy::new(&sidecar.pool, way.destination, link, &Sending::whole());
        return Ok(super::answered(snapshot, &head, response, (scrubber, moved_by)));
    }
    agreed(response.headers(), &accept, &scrubber)?;
    sidecar.metrics.passed_on();
    let mut switched = Response::new(whole(Bytes::new()));
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *switched.headers_mut() = super::passed_on(response.headers().clone(), &scrubber);
    switched.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    switched.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    // It ends when it has handed over what it was made of.
    let provider = hyper::upgrade::on(response);
    link.let_go();
    let conversation = Conversation { sidecar: Arc::clone(sidecar), via: head.via, standing, scrubber };
    task::start(conversation.hold(agent, provider));
    Ok(switched)
}

/// What the provider has to accept with (section 4.2.2), if this is a handshake (section 4.2.1).
fn handshake(head: &Head, incoming: &Arriving) -> Result<String, Refusal> {
    let broken = |what: &str| {
        Refusal::new(Code::InvalidRequest, format!("The WebSocket handshake {what}. Nothing was sent."))
    };
    if !incoming.is_end_stream() {
        return Err(broken("has a body"));
    }
    let one = |name: header::HeaderName| {
        let mut values = head.headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    if one(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(broken("is not of version 13"));
    }
    let key = one(header::SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default();
    if !STANDARD.decode(key).is_ok_and(|nonce| nonce.len() == 16) {
        return Err(broken("has no key of 16 bytes"));
    }
    let proof =
        ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes());
    Ok(STANDARD.encode(proof))
}

/// Whether a 101 is one to this handshake (section 4.1).
fn agreed(headers: &HeaderMap, accept: &str, scrubber: &Scrubber) -> Result<(), Refusal> {
    let accepted = headers.get(header::SEC_WEBSOCKET_ACCEPT).is_some_and(|said| said == accept);
    let unasked = !scrubber.is_empty() && headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS);
    if is_named(headers) && accepted && !unasked {
        return Ok(());
    }
    let sentence =
        "The provider's answer to the WebSocket handshake does not fit it. Nothing was said inside.";
    Err(Refusal::new(Code::NotSent, sentence))
}

/// An open WebSocket.
struct Conversation {
    sidecar: Arc<Sidecar>,
    via: Arc<Via>,
    standing: Arc<Standing>,
    scrubber: Scrubber,
}

impl Conversation {
    async fn hold(self, agent: OnUpgrade, provider: OnUpgrade) {
        let _open = self.sidecar.metrics.tunnel("websocket");
        let ended = match tokio::try_join!(agent, provider) {
            Err(error) => Err(chain(&error)),
            Ok((agent, provider)) => {
                let frames = (!self.scrubber.is_empty()).then(|| Frames::new(self.scrubber.clone()));
                splice(TokioIo::new(agent), TokioIo::new(provider), frames, self.withdrawn()).await
            }
        };
        match ended {
            Ok(()) => tracing::debug!(host = %self.via.authority, "a WebSocket has ended"),
            Err(cause) => tracing::info!(cause, host = %self.via.authority, "a WebSocket was ended"),
        }
    }

    /// Ends when it may not go on, and says why.
    async fn withdrawn(&self) -> &'static str {
        let mut stop = self.standing.seat.stop.clone();
        tokio::select! {
            () = stopped(&mut stop) => "the sidecar stops",
            why = withdrawn(&self.sidecar, &self.via, &self.standing, |host| host.websockets) => why,
        }
    }
}
