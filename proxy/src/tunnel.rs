//! `CONNECT`: opened for declared hosts, refused inside for the others, or tunnelled blind.

use std::convert::Infallible;
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
use tokio::time::Instant;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::asking::Listener;
use crate::canned::Canned;
use crate::connection::builder;
use crate::listener::{Seat, stopped};
use crate::proof::Proof;
use crate::receive::Via;
use crate::state::Sidecar;
use crate::upstream::dial::{self, Destination};
use crate::upstream::{Body, whole};
use crate::{front, git, logged, respond};

/// For the agent's side of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// For a blind tunnel's connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a tunnel is for.
#[derive(Clone)]
enum Inside {
    /// A declared host: requests are read.
    Governed,
    /// Every request inside gets this refusal: clients hide the body of a refused `CONNECT`.
    Refused(Refusal),
}

impl Inside {
    /// The word in the metrics.
    fn word(&self) -> &'static str {
        match self {
            Self::Governed => "governed",
            Self::Refused(_) => "refused",
        }
    }
}

/// Answers a `CONNECT`.
pub fn open(
    sidecar: &Arc<Sidecar>,
    mut request: Request<Incoming>,
    via: Via,
    proof: Proof,
    mut seat: Seat,
) -> Response<Body> {
    let snapshot = sidecar.snapshot();
    let declared = snapshot.host(&via.authority).is_some_and(|host| !host.plain);
    let refusal = || front::undeclared_host(&via.authority.host);
    let upgrade = hyper::upgrade::on(&mut request);
    let inside = match (declared, snapshot.config.proxy.undeclared_hosts) {
        (true, _) => Inside::Governed,
        (false, Undeclared::Tunnel) => {
            let open = sidecar.metrics.tunnel("blind");
            tokio::spawn(async move {
                let _open = open;
                // Its bytes are not read, so there is no good moment to end it at.
                tokio::select! {
                    () = blind(upgrade, via.authority) => {}
                    () = stopped(&mut seat.stop) => {}
                }
            });
            return Response::new(whole(Bytes::new()));
        }
        (false, Undeclared::Deny) if via.authority.port == 443 => Inside::Refused(refusal()),
        (false, Undeclared::Deny) => {
            let refusal = refusal();
            logged::refused(sidecar, &via.caller, None, Listener::Proxy, &refusal);
            return respond::refused(&refusal, None);
        }
    };
    let open = sidecar.metrics.tunnel(inside.word());
    let sidecar = Arc::clone(sidecar);
    tokio::spawn(async move {
        let _open = open;
        let host = via.authority.clone();
        if let Err(cause) = intercept(sidecar, upgrade, (via, proof), inside, seat).await {
            tracing::debug!(cause, host = %host, "a tunnel ended");
        }
    });
    Response::new(whole(Bytes::new()))
}

/// Ends the agent's TLS with a leaf of ours and serves what is inside.
async fn intercept(
    sidecar: Arc<Sidecar>,
    upgrade: OnUpgrade,
    (via, proof): (Via, Proof),
    inside: Inside,
    mut seat: Seat,
) -> Result<(), String> {
    let (tls, inside) = tokio::select! {
        accepted = accept(&sidecar, upgrade, &via, inside) => accepted?,
        () = stopped(&mut seat.stop) => return Ok(()),
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (sidecar, via, inside) = (Arc::clone(&sidecar), via.clone(), inside.clone());
        let proof = proof.clone();
        async move {
            Ok::<_, Infallible>(match inside {
                Inside::Governed => still_known(&sidecar, request, via, &proof).await,
                Inside::Refused(refusal) => {
                    logged::refused(&sidecar, &via.caller, None, Listener::Proxy, &refusal);
                    let refused = respond::refused(&refusal, sidecar.snapshot().shape(&via.authority));
                    git::worded(git::Asked::of(&request), refused)
                }
            })
        }
    });
    let connection = builder().serve_connection(TokioIo::new(Canned::new(Box::new(tls))), service);
    let mut connection = std::pin::pin!(connection);
    // As outside the tunnel: what is being answered is answered to its end, and nothing more is taken.
    tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut seat.stop) => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    }
    .map_err(|error| crate::upstream::chain(&error))
}

/// The agent's side of the TLS, and what is to be said inside it.
async fn accept(
    sidecar: &Sidecar,
    upgrade: OnUpgrade,
    via: &Via,
    inside: Inside,
) -> Result<(TlsStream<TokioIo<Upgraded>>, Inside), String> {
    let text = |error: &dyn std::error::Error| crate::upstream::chain(error);
    let upgraded = upgrade.await.map_err(|error| text(&error))?;
    let accepting = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), TokioIo::new(upgraded));
    let start = tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting)
        .await
        .map_err(|_| "no TLS client hello in time".to_owned())?
        .map_err(|error| text(&error))?;
    let sni = start.client_hello().server_name().map(str::to_owned);
    // SNI absent: an IP literal, or a very old client. Then the CONNECT target speaks alone.
    let name = sni.as_deref().map_or_else(|| via.authority.host.clone(), canonical);
    let inside = if name == via.authority.host { inside } else { Inside::Refused(two_hosts(&via.authority)) };
    let config = sidecar.leaves.server_config(&name, sidecar.clock.system()).map_err(|error| text(&error))?;
    let tls = tokio::time::timeout(HANDSHAKE_TIMEOUT, start.into_stream(config))
        .await
        .map_err(|_| "no TLS handshake in time".to_owned())?
        .map_err(|error| text(&error))?;
    Ok((tls, inside))
}

/// A caller that was taken out of the configuration while the tunnel was open, or whose key was, is refused at its
/// next request.
async fn still_known(
    sidecar: &Arc<Sidecar>,
    request: Request<Incoming>,
    via: Via,
    proof: &Proof,
) -> Response<Body> {
    if proof.caller(sidecar).is_none_or(|caller| caller != via.caller) {
        let sentence =
            "The key that opened this connection is not valid any more. Nothing was sent. Ask the operator.";
        let snapshot = sidecar.snapshot();
        return respond::refused(&Refusal::new(Code::Denied, sentence), snapshot.shape(&via.authority));
    }
    front::answer(sidecar, request, via).await
}

fn canonical(name: &str) -> String {
    Authority::parse(name, Some(443)).map_or_else(|_| name.to_owned(), |authority| authority.host)
}

fn two_hosts(authority: &Authority) -> Refusal {
    let sentence =
        format!("The CONNECT went to {authority} and the TLS inside names another host. Nothing was sent.");
    Refusal::new(Code::Ambiguous, sentence)
}

/// Bytes both ways, unread, never with a credential, to a public address only.
async fn blind(upgrade: OnUpgrade, authority: Authority) {
    let destination = Destination { authority, tls: None, connect_to: None, allow_private: false };
    let ended = async {
        let mut upstream = dial::connect(&destination, Instant::now() + CONNECT_TIMEOUT)
            .await
            .map_err(|proof: NotSent| format!("{}: {}", proof.step(), proof.cause()))?;
        let upgraded: Upgraded = upgrade.await.map_err(|error| error.to_string())?;
        tokio::io::copy_bidirectional(&mut TokioIo::new(upgraded), &mut upstream)
            .await
            .map_err(|error| error.to_string())
    };
    if let Err::<(u64, u64), String>(cause) = ended.await {
        tracing::debug!(cause, host = %destination.authority, "a blind tunnel ended");
    }
}
