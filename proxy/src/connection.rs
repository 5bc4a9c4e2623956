//! One agent's connection: `CONNECT`, or requests in absolute form.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use oncegate_policy::authority::Authority;
use oncegate_policy::caller::CallerName;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::url_template::Scheme;

use crate::arriving::Arriving;
use crate::asking::Listener;
use crate::canned::{Canned, Turns};
use crate::front::Standing;
use crate::head_timer::HeadTimer;
use crate::listener::{Seat, stopped};
use crate::own::{self, Ours, Own};
use crate::probe::{self, Stage};
use crate::proof::{self, Proof};
use crate::receive::Via;
use crate::relay::Relay;
use crate::state::Sidecar;
use crate::task::{self, Work};
use crate::upstream::wire::Stream;
use crate::upstream::{Body, whole};
use crate::{front, logged, respond, tunnel};

/// Bytes of an agent's request head, at least hyper's own minimum.
pub const REQUEST_HEAD_BYTES_MAX: usize = 64 * 1024;
/// For a request's head to arrive; also how long an idle connection is kept.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a connection may take to show a key where one is needed: nobody keeps a place for longer without.
pub const STRANGER_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves a connection to its end.
pub fn serve(
    sidecar: Arc<Sidecar>,
    own: Arc<Own>,
    stream: Box<dyn Stream>,
    bound: Option<Proof>,
    seat: Seat,
) -> Work<()> {
    task::apart(to_its_end(sidecar, own, stream, bound, seat))
}

async fn to_its_end(
    sidecar: Arc<Sidecar>,
    own: Arc<Own>,
    stream: Box<dyn Stream>,
    bound: Option<Proof>,
    seat: Seat,
) {
    let (mut stop, lost) = (seat.stop.clone(), seat.clone());
    let turns = Turns::default();
    let canned = Canned::new(stream, turns.clone());
    let service = service_fn(move |request| {
        let request = Arriving::of(request);
        let turn = turns.begin(&request);
        let (sidecar, own) = (Arc::clone(&sidecar), Arc::clone(&own));
        let (bound, seat) = (bound.clone(), seat.clone());
        async move { Ok::<_, Infallible>(turn.answer(first_hop(&sidecar, &own, request, bound, seat).await)) }
    });
    let connection = builder().serve_connection(TokioIo::new(canned), service).with_upgrades();
    let (mut connection, relay) = (std::pin::pin!(connection), Relay::default());
    let mut lost = std::pin::pin!(lost.is_lost());
    let ended = tokio::select! {
        ended = poll_fn(|cx| relay.poll(connection.as_mut(), cx)) => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
        () = lost.as_mut() => return tracing::debug!("a connection was closed on which no key was shown"),
    };
    if let Err(error) = ended {
        tracing::debug!(error = crate::upstream::chain(&error), "an agent's connection ended");
    }
}

/// The HTTP/1.1 server, alike inside and outside tunnels. It takes 100 header fields, which is its own bound: told so, it
/// would make room for them anew with every request.
#[must_use]
pub fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(HeadTimer::default())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(REQUEST_HEAD_BYTES_MAX)
        .half_close(true);
    builder
}

async fn first_hop(
    sidecar: &Arc<Sidecar>,
    own: &Arc<Own>,
    request: Request<Arriving>,
    bound: Option<Proof>,
    seat: Seat,
) -> Response<Body> {
    // A target that cannot be read is broken whoever sends it; asking for a key first would not mend it.
    let target = match target(&request) {
        Ok(target) => target,
        Err(refusal) => return respond::refused(&refusal, None),
    };
    let proof = bound.or_else(|| presented_key(request.headers()));
    let known = proof.and_then(|proof| Some((proof.caller(sidecar)?, proof)));
    let Some((caller, proof)) = known else {
        // Some clients show theirs only when asked: that is no fault.
        if request.headers().contains_key(header::PROXY_AUTHORIZATION) {
            sidecar.unknown_keys.shown(&sidecar.metrics, Listener::Proxy);
        }
        sidecar.probes.note(&target.host, Stage::Challenged);
        return challenge();
    };
    seat.key_shown();
    match own.which(&target) {
        Some(Ours::Control) if request.method() == Method::CONNECT => {
            return own.open(sidecar, request, seat);
        }
        Some(Ours::Control) => return own.answer(request).await,
        Some(Ours::Proxy) => return own::looping(),
        None => {}
    }
    if request.method() == Method::CONNECT {
        let via = Via { caller, scheme: Scheme::Https, authority: target };
        return Box::pin(tunnel::open(sidecar, request, via, proof, seat)).await;
    }
    absolute(sidecar, request, (caller, target), Arc::new(Standing { proof, seat })).await
}

/// Where a request to the proxy itself wants to go.
fn target(request: &Request<Arriving>) -> Result<Authority, Refusal> {
    let invalid =
        |sentence: String| Refusal::new(Code::InvalidRequest, format!("{sentence} Nothing was sent."));
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    if request.method() == Method::CONNECT {
        // Authority form and nothing else, with the port (RFC 9110 section 9.3.6, RFC 9112 section 3.2.3).
        if request.uri().scheme().is_some() || request.uri().path_and_query().is_some() {
            return Err(invalid("The CONNECT target has to be host:port.".to_owned()));
        }
        return Authority::parse(authority.unwrap_or_default(), None)
            .map_err(|fault| invalid(format!("The CONNECT target has to be host:port: {fault}.")));
    }
    let (Some(scheme), Some(authority)) = (request.uri().scheme_str(), authority) else {
        return Err(invalid(
            "This is a forward proxy: send CONNECT, or the absolute form of the URL.".to_owned(),
        ));
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(invalid(
            "Only http:// URLs are taken in absolute form; use CONNECT for https.".to_owned(),
        ));
    }
    Authority::parse(authority, Some(80))
        .map_err(|fault| invalid(format!("The URL's host cannot be read in one way: {fault}.")))
}

async fn absolute(
    sidecar: &Arc<Sidecar>,
    request: Request<Arriving>,
    (caller, authority): (CallerName, Authority),
    standing: Arc<Standing>,
) -> Response<Body> {
    if authority.host == probe::HOST {
        return probe::tell(&sidecar.probes, request.uri().path());
    }
    let snapshot = sidecar.snapshot();
    // A host that is declared for TLS is never reached in clear, and never gets its credential there.
    let plain = snapshot.host(&authority).is_some_and(|host| host.plain);
    if !plain {
        let refusal = front::undeclared_host(&authority.host);
        logged::refused(sidecar, &caller, None, Listener::Proxy, &refusal);
        return respond::refused(&refusal, None);
    }
    let via = Arc::new(Via { caller, scheme: Scheme::Http, authority });
    front::answer(sidecar, request, via, standing).await
}

/// The key of `Proxy-Authorization: Basic name:key` or `Bearer key`. A name, if given, has to be the key's.
fn presented_key(headers: &HeaderMap) -> Option<Proof> {
    let mut values = headers.get_all(header::PROXY_AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Proof::Key { named: None, digest: proof::digest(rest.trim()) });
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(rest.trim()).ok()?;
    let pair = String::from_utf8(decoded).ok()?;
    let (name, key) = pair.split_once(':')?;
    Some(Proof::Key { named: Some(CallerName::parse(name)?), digest: proof::digest(key) })
}

/// Some clients (git) send their credentials only when asked; the connection stays open for that.
fn challenge() -> Response<Body> {
    let mut response = Response::new(whole(Bytes::new()));
    *response.status_mut() = StatusCode::PROXY_AUTHENTICATION_REQUIRED;
    response
        .headers_mut()
        .insert(header::PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"oncegate\""));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    response
}
