//! Our own addresses. Clients send even calls to this machine through `HTTP_PROXY`: what is meant for the control
//! listener is answered here, with its own key check, and what is meant for the proxy itself would come back for ever
//! and is refused. Neither is ever dialled.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use oncegate_policy::authority::Authority;
use oncegate_policy::refusal::{Code, Refusal};

use crate::arriving::Arriving;
use crate::control::serving::Api;
use crate::listener::{Seat, stopped};
use crate::places::Places;
use crate::respond;
use crate::state::Sidecar;
use crate::task;
use crate::upstream::{Body, whole};

/// Where we listen ourselves.
pub struct Own {
    /// Every port at which agents connect.
    pub proxies: Arc<Ports>,
    /// The control listener.
    pub control: SocketAddr,
    /// What it serves.
    pub api: Api,
    /// Places for agents' connections, at all ports together: as many as the descriptors allow.
    pub places: Arc<Places>,
}

/// Ports that are open now; those of runs come and go.
#[derive(Default)]
pub struct Ports(RwLock<Vec<SocketAddr>>);

impl Ports {
    /// One more.
    pub fn add(&self, port: SocketAddr) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(port);
    }

    /// It is closed.
    pub fn remove(&self, port: SocketAddr) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|open| *open != port);
    }

    /// Whether somebody who connected from `local` to `peer` has reached one of them, by whatever name.
    #[must_use]
    pub fn reached(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let (here, there) = (local.ip().to_canonical(), peer.ip().to_canonical());
        let this_machine = there.is_loopback() || here == there;
        let leads = |port: &SocketAddr| {
            let at = port.ip().to_canonical();
            port.port() == peer.port() && (at == there || at.is_unspecified() && this_machine)
        };
        self.0.read().unwrap_or_else(PoisonError::into_inner).iter().any(leads)
    }

    /// Whether a target names one of them.
    fn named(&self, target: &Authority) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).iter().any(|port| names(*port, target))
    }
}

impl From<Vec<SocketAddr>> for Ports {
    fn from(ports: Vec<SocketAddr>) -> Self {
        Self(RwLock::new(ports))
    }
}

/// Which of our listeners a target names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    /// The control listener.
    Control,
    /// The proxy itself.
    Proxy,
}

impl Own {
    /// Whether a target is one of ours.
    #[must_use]
    pub fn which(&self, target: &Authority) -> Option<Ours> {
        if names(self.control, target) {
            return Some(Ours::Control);
        }
        self.proxies.named(target).then_some(Ours::Proxy)
    }

    /// Answers a request that is meant for the control listener. The caller at the proxy has no rights there: the
    /// request's own key counts, and nothing of the proxy's is passed on.
    pub async fn answer(&self, mut request: Request<Arriving>) -> Response<Body> {
        request.headers_mut().remove(header::PROXY_AUTHORIZATION);
        request.headers_mut().remove("proxy-connection");
        let routes = TowerToHyperService::new(self.api.routes.clone());
        match routes.call(request).await {
            Ok(response) => response.map(|body| body.map_err(Into::into).boxed_unsync()),
            Err(never) => match never {},
        }
    }

    /// Answers a `CONNECT` to the control listener: what comes through it is served as if it had come directly, over
    /// TLS if the control listener speaks it.
    pub fn open(
        self: &Arc<Self>,
        sidecar: &Sidecar,
        mut request: Request<Arriving>,
        mut seat: Seat,
    ) -> Response<Body> {
        let upgrade = hyper::upgrade::on(&mut request);
        let (own, tls) = (Arc::clone(self), sidecar.snapshot().control_tls.clone());
        task::start(async move {
            let upgraded = tokio::select! {
                upgraded = upgrade => upgraded,
                () = stopped(&mut seat.stop) => return,
            };
            match upgraded {
                Ok(upgraded) => own.api.connection(TokioIo::new(upgraded), tls).await,
                Err(error) => tracing::debug!(%error, "a tunnel to the API ended"),
            }
        });
        Response::new(whole(Bytes::new()))
    }
}

/// The answer to a request that would come back to the proxy.
#[must_use]
pub fn looping() -> Response<Body> {
    let sentence =
        "This is the proxy's own address: the request would come back to it for ever. Nothing was sent.";
    respond::refused(&Refusal::new(Code::InvalidRequest, sentence), None)
}

/// Whether a target names a listener, in any spelling that reaches it from this machine.
fn names(listen: SocketAddr, target: &Authority) -> bool {
    if target.port != listen.port() {
        return false;
    }
    let here = listen.ip().is_loopback() || listen.ip().is_unspecified();
    match target.host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        // Connecting to the unspecified address connects to this machine.
        Ok(address) => address == listen.ip() || here && (address.is_loopback() || address.is_unspecified()),
        Err(_) => here && (target.host == "localhost" || target.host.ends_with(".localhost")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_to_ourselves_is_known() {
        let reached = |listen: &str, local: &str, peer: &str| {
            let at = |text: &str| text.parse::<SocketAddr>().unwrap();
            Ports::from(vec![at(listen)]).reached(at(local), at(peer))
        };
        assert!(reached("127.0.0.1:8443", "127.0.0.1:5000", "127.0.0.1:8443"));
        assert!(reached("127.0.0.1:8443", "[::ffff:127.0.0.1]:5000", "[::ffff:127.0.0.1]:8443"));
        assert!(reached("0.0.0.0:443", "10.0.0.7:5000", "10.0.0.7:443"), "by an address of this machine");
        assert!(reached("[::]:443", "127.0.0.1:5000", "127.0.0.2:443"));
        assert!(!reached("0.0.0.0:443", "10.0.0.7:5000", "10.0.0.8:443"), "another machine");
        assert!(!reached("127.0.0.1:8443", "127.0.0.1:5000", "127.0.0.1:8444"), "another port");
        assert!(!reached("127.0.0.1:8443", "127.0.0.1:5000", "127.0.0.2:8443"), "another address");
    }

    #[test]
    fn every_spelling_of_ours_is_known() {
        let named = |listen: &str, target: &str| {
            names(listen.parse().unwrap(), &Authority::parse(target, Some(80)).unwrap())
        };
        for target in ["127.0.0.1:8081", "localhost:8081", "LOCALHOST:8081", "[::1]:8081", "127.0.0.2:8081"] {
            assert!(named("127.0.0.1:8081", target) && named("0.0.0.0:8081", target), "{target}");
        }
        for target in ["[::ffff:127.0.0.1]:8081", "0.0.0.0:8081", "[::]:8081"] {
            assert!(named("127.0.0.1:8081", target), "{target}");
        }
        for target in ["127.0.0.1:8082", "127.0.0.1", "10.0.0.7:8081", "localhost.example:8081"] {
            assert!(!named("127.0.0.1:8081", target), "{target}");
        }
        assert!(named("10.0.0.7:8081", "10.0.0.7:8081") && !named("10.0.0.7:8081", "localhost:8081"));
    }
}
