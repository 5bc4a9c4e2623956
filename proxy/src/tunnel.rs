//! `CONNECT`: opened for declared hosts, refused inside for the others, or tunnelled blind.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use oncegate_config::model::Undeclared;
use oncegate_policy::authority::Authority;
use oncegate_policy::exchange::NotSent;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::url_template::Scheme;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::{StartHandshake, TlsStream};

use crate::arriving::Arriving;
use crate::asking::Listener;
use crate::awaited::{Awaited, Bell};
use crate::begun::Begun;
use crate::canned::{Canned, Turns};
use crate::connection::builder;
use crate::front::Standing;
use crate::listener::{Seat, stopped};
use crate::probe::{self, Stage};
use crate::proof::Proof;
use crate::receive::Via;
use crate::relay::Relay;
use crate::state::Sidecar;
use crate::task;
use crate::upstream::dial::{self, Destination};
use crate::upstream::wire::Stream;
use crate::upstream::{Body, whole};
use crate::{front, git, logged, respond};

/// For the agent's side of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// The type of a TLS record with a handshake message (RFC 8446 section 5.1); no method of HTTP begins with it.
const TLS_HANDSHAKE: u8 = 22;
/// At this port the client speaks first, in TLS: a refusal waits for it, and is heard inside.
const SPEAKS_FIRST: u16 = 443;
/// For a blind tunnel's connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a tunnel is for.
#[derive(Clone)]
pub(crate) enum Inside {
    /// A host that is declared for TLS: requests are read.
    Governed,
    /// One that is declared plain: they are read without TLS.
    Plain,
    /// One of the names that are answered here.
    Probe,
    /// Every request inside gets this refusal: clients hide the body of a refused `CONNECT`.
    Refused(Refusal),
}

impl Inside {
    /// The word in the metrics.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Governed | Self::Plain => "governed",
            Self::Probe => "probe",
            Self::Refused(_) => "refused",
        }
    }
}

/// What becomes of a connection to a host.
pub(crate) enum Way {
    /// Its TLS is ended here.
    Inside(Inside),
    /// Its bytes are passed on unread.
    Blind,
}

/// By the configuration of this moment.
pub(crate) fn way(sidecar: &Sidecar, authority: &Authority) -> Way {
    let snapshot = sidecar.snapshot();
    if authority.port == 443 && probe::is_probe(&authority.host) {
        sidecar.probes.note(&authority.host, Stage::Connected);
        return Way::Inside(Inside::Probe);
    }
    match (snapshot.host(authority), snapshot.config.proxy.undeclared_hosts) {
        (Some(host), _) if host.plain => Way::Inside(Inside::Plain),
        (Some(_), _) => Way::Inside(Inside::Governed),
        (None, Undeclared::Tunnel) => Way::Blind,
        (None, Undeclared::Deny) => Way::Inside(Inside::Refused(front::undeclared_host(&authority.host))),
    }
}

/// Answers a `CONNECT`. One that is passed on unread is answered when there is a connection to pass it on to.
pub async fn open(
    sidecar: &Arc<Sidecar>,
    mut request: Request<Arriving>,
    via: Via,
    proof: Proof,
    mut seat: Seat,
) -> Response<Body> {
    let upgrade = hyper::upgrade::on(&mut request);
    let sidecar = Arc::clone(sidecar);
    let inside = match way(&sidecar, &via.authority) {
        Way::Inside(inside) => inside,
        Way::Blind => match reach(&sidecar, &via.authority).await {
            Err(refusal) => Inside::Refused(refusal),
            Ok(upstream) => {
                let open = sidecar.metrics.tunnel("blind");
                task::start(async move {
                    let _open = open;
                    // Its bytes are not read, so there is no good moment to end it at.
                    tokio::select! {
                        () = blind(upstream, upgrade, via.authority) => {}
                        () = stopped(&mut seat.stop) => {}
                    }
                });
                return Response::new(whole(Bytes::new()));
            }
        },
    };
    if let (Inside::Refused(refusal), false) = (&inside, via.authority.port == SPEAKS_FIRST) {
        logged::refused(&sidecar, &via.caller, None, Listener::Proxy, refusal);
        return respond::refused(refusal, None);
    }
    let open = sidecar.metrics.tunnel(inside.word());
    task::start(async move {
        let _open = open;
        let host = via.authority.clone();
        if let Err(cause) = intercept(sidecar, upgrade, (via, proof), inside, seat).await {
            tracing::debug!(cause, host = %host, "a tunnel ended");
        }
    });
    Response::new(whole(Bytes::new()))
}

/// Serves what is inside, by what the agent begins with: TLS, which is ended with a leaf of ours, or HTTP in clear. That a
/// host is reached over TLS alone is said by its declaration; of one that is refused nobody knows it before.
async fn intercept(
    sidecar: Arc<Sidecar>,
    upgrade: OnUpgrade,
    (mut via, proof): (Via, Proof),
    inside: Inside,
    mut seat: Seat,
) -> Result<(), String> {
    let begun = async {
        let upgraded = upgrade.await.map_err(|error| crate::upstream::chain(&error))?;
        let begun = tokio::time::timeout(HANDSHAKE_TIMEOUT, Begun::by(TokioIo::new(upgraded))).await;
        begun.map_err(|_| "no first byte in time".to_owned())?.map_err(|error| error.to_string())
    };
    let begun = tokio::select! {
        begun = begun => begun?,
        () = stopped(&mut seat.stop) => return Ok(()),
    };
    let inside = match inside {
        Inside::Plain | Inside::Refused(_) if !begun.is(TLS_HANDSHAKE) => {
            via.scheme = Scheme::Http;
            return serve(sidecar, begun, (via, proof), inside, seat).await;
        }
        Inside::Plain => Inside::Refused(front::undeclared_host(&via.authority.host)),
        Inside::Governed | Inside::Probe | Inside::Refused(_) => inside,
    };
    let (tls, inside) = tokio::select! {
        accepted = accept(&sidecar, begun, &via, inside) => accepted?,
        () = stopped(&mut seat.stop) => return Ok(()),
    };
    serve(sidecar, tls, (via, proof), inside, seat).await
}

/// Serves what is inside a tunnel, behind a TLS of ours if there is one.
pub(crate) async fn serve(
    sidecar: Arc<Sidecar>,
    stream: impl Stream + 'static,
    (via, proof): (Via, Proof),
    inside: Inside,
    mut seat: Seat,
) -> Result<(), String> {
    let standing = Arc::new(Standing { proof, seat: seat.clone() });
    let (via, inside) = (Arc::new(via), Arc::new(inside));
    let turns = Turns::default();
    let stream = TokioIo::new(Canned::new(Box::new(Awaited::new(stream)), turns.clone()));
    let service = service_fn(move |request: Request<Incoming>| {
        let request = Arriving::of(request);
        let turn = turns.begin(&request);
        let (sidecar, via, inside) = (Arc::clone(&sidecar), Arc::clone(&via), Arc::clone(&inside));
        let standing = Arc::clone(&standing);
        async move {
            let response = match &*inside {
                Inside::Governed | Inside::Plain => still_known(&sidecar, request, via, standing).await,
                Inside::Probe => {
                    sidecar.probes.note(&via.authority.host, Stage::Asked);
                    probe::answer()
                }
                Inside::Refused(refusal) => {
                    logged::refused(&sidecar, &via.caller, None, Listener::Proxy, refusal);
                    let refused = respond::refused(refusal, sidecar.snapshot().shape(&via.authority));
                    git::worded(git::Asked::of(&request), refused)
                }
            };
            Ok::<_, Infallible>(turn.answer(response))
        }
    });
    let connection = builder().serve_connection(stream, service).with_upgrades();
    let (mut connection, relay) = (std::pin::pin!(connection), Relay::default());
    // Each look at it takes a lock that all connections share.
    let (mut stop, mut bell) = (std::pin::pin!(stopped(&mut seat.stop)), Bell::default());
    // As outside the tunnel: what is being answered is answered to its end, and nothing more is taken.
    tokio::select! {
        ended = poll_fn(|cx| relay.poll(connection.as_mut(), cx)) => ended,
        () = poll_fn(|cx| bell.poll(cx, |cx| stop.as_mut().poll(cx))) => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    }
    .map_err(|error| crate::upstream::chain(&error))
}

/// The agent's side of the TLS, and what is to be said inside it.
async fn accept(
    sidecar: &Sidecar,
    begun: Begun<TokioIo<Upgraded>>,
    via: &Via,
    inside: Inside,
) -> Result<(TlsStream<Begun<TokioIo<Upgraded>>>, Inside), String> {
    let start = hello(begun).await?;
    let sni = start.client_hello().server_name().map(str::to_owned);
    // SNI absent: an IP literal, or a very old client. Then the CONNECT target speaks alone.
    let name = sni.as_deref().map_or_else(|| via.authority.host.clone(), canonical);
    let inside = if name == via.authority.host { inside } else { Inside::Refused(two_hosts(&via.authority)) };
    Ok((handshake(sidecar, start, &name).await?, inside))
}

/// Reads what an agent's TLS asks for.
pub(crate) async fn hello<S: Stream>(stream: S) -> Result<StartHandshake<S>, String> {
    let accepting = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream);
    tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting)
        .await
        .map_err(|_| "no TLS client hello in time".to_owned())?
        .map_err(|error| crate::upstream::chain(&error))
}

/// Answers it with a leaf of ours for a name.
pub(crate) async fn handshake<S: Stream>(
    sidecar: &Sidecar,
    start: StartHandshake<S>,
    name: &str,
) -> Result<TlsStream<S>, String> {
    let config = sidecar
        .leaves
        .server_config(name, sidecar.clock.system())
        .map_err(|error| crate::upstream::chain(&error))?;
    tokio::time::timeout(HANDSHAKE_TIMEOUT, start.into_stream(config))
        .await
        .map_err(|_| "no TLS handshake in time".to_owned())?
        .map_err(|error| crate::upstream::chain(&error))
}

/// A caller that was taken out of the configuration while the tunnel was open, or whose key was, is refused at its
/// next request.
async fn still_known(
    sidecar: &Arc<Sidecar>,
    request: Request<Arriving>,
    via: Arc<Via>,
    standing: Arc<Standing>,
) -> Response<Body> {
    if !standing.proof.shows(sidecar, &via.caller) {
        let sentence =
            "The key that opened this connection is not valid any more. Nothing was sent. Ask the operator.";
        let snapshot = sidecar.snapshot();
        return respond::refused(&Refusal::new(Code::Denied, sentence), snapshot.shape(&via.authority));
    }
    front::answer(sidecar, request, via, standing).await
}

fn canonical(name: &str) -> String {
    Authority::parse(name, Some(443)).map_or_else(|_| name.to_owned(), |authority| authority.host)
}

fn two_hosts(authority: &Authority) -> Refusal {
    let sentence =
        format!("The CONNECT went to {authority} and the TLS inside names another host. Nothing was sent.");
    Refusal::new(Code::Ambiguous, sentence)
}

/// A blind tunnel, once the `CONNECT` is answered.
async fn blind(upstream: TcpStream, upgrade: OnUpgrade, authority: Authority) {
    let ended = match upgrade.await {
        Ok(upgraded) => splice(upstream, (Vec::new(), TokioIo::new(upgraded))).await,
        Err(error) => Err(error.to_string()),
    };
    if let Err(cause) = ended {
        tracing::debug!(cause, host = %authority, "a blind tunnel ended");
    }
}

/// The other end of a tunnel whose bytes are not read: at a public address only.
///
/// # Errors
/// `undeclared`, where it leads to none; `not_sent`, where nobody answers.
pub(crate) async fn reach(sidecar: &Sidecar, authority: &Authority) -> Result<TcpStream, Refusal> {
    let ours = Arc::clone(&sidecar.snapshot().ours);
    let authority = authority.clone();
    let destination = Destination { authority, tls: None, connect_to: None, allow_private: false, ours };
    let connected = dial::connect(&destination, Instant::now() + CONNECT_TIMEOUT).await;
    connected.map_err(|proof| unreached(&destination.authority, &proof))
}

/// Said to the operator too: where hosts are passed on unread, nothing else tells that one was not.
fn unreached(authority: &Authority, proof: &NotSent) -> Refusal {
    let (step, cause) = (proof.step(), proof.cause());
    tracing::warn!(step, cause, host = %authority, "an undeclared host was not reached: no tunnel was opened to it");
    match proof {
        NotSent::AddressRefused(_) => front::undeclared_host(&authority.host),
        NotSent::Resolve(_)
        | NotSent::Connect(_)
        | NotSent::Tls(_)
        | NotSent::Credential(_)
        | NotSent::HandedBack(_)
        | NotSent::GivenUp(_) => {
            let sentence = format!("The host {} was not reached ({step}). Nothing was sent.", authority.host);
            Refusal::new(Code::NotSent, sentence)
        }
    }
}

/// Bytes both ways, never with a credential; first those that were read already.
pub(crate) async fn splice(
    mut upstream: TcpStream,
    (read, mut stream): (Vec<u8>, impl Stream),
) -> Result<(), String> {
    upstream.write_all(&read).await.map_err(|error| error.to_string())?;
    drop(read);
    let passed = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
    passed.map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::own::Ports;

    #[tokio::test]
    async fn what_was_read_goes_first_and_the_rest_follows() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut agent, stream) = tokio::io::duplex(64);
        let spliced = tokio::spawn(async move { splice(upstream, (b"hello, ".to_vec(), stream)).await });
        agent.write_all(b"world").await.unwrap();
        let (mut provider, _) = listener.accept().await.unwrap();
        let mut read = [0; 12];
        provider.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"hello, world");
        provider.write_all(b"and back").await.unwrap();
        drop(provider);
        let mut back = String::new();
        agent.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "and back");
        drop(agent);
        spliced.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_leads_back_to_us_is_not_passed_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let destination = Destination {
            authority: Authority::parse("127.0.0.1", Some(here.port())).unwrap(),
            tls: None,
            connect_to: None,
            // As an operator alone could declare.
            allow_private: true,
            ours: Arc::new(Ports::from(vec![here])),
        };
        let refused = dial::connect(&destination, Instant::now() + CONNECT_TIMEOUT).await;
        let proof = refused.unwrap_err();
        assert!(proof.cause().contains("leads back to this proxy"), "{}", proof.cause());
        assert_eq!(unreached(&destination.authority, &proof).code, Code::Undeclared);
        let (mut reached, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        reached.read_to_end(&mut seen).await.unwrap();
        assert!(seen.is_empty(), "not a byte");
    }
}
