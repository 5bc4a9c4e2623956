//! Name to connection: resolve, judge the address, connect, TLS. Everything that fails here is proof that no
//! byte of a request left.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use oncegate_policy::authority::Authority;
use oncegate_policy::exchange::NotSent;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::address::Judged;
use super::link::Link;
use super::wire::Stream;
use crate::own::Ports;

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
const NOT_IN_TIME: &str = "no connection in time";

/// Where a request goes.
pub struct Destination {
    /// The host that the agent named: SNI, certificate and `Host`.
    pub authority: Authority,
    /// TLS with this trust, or none for a plain host.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Dial this instead.
    pub connect_to: Option<Authority>,
    /// Whether addresses that are not public may be dialled.
    pub allow_private: bool,
    /// Where we listen ourselves: what leads there would come back for ever.
    pub ours: Arc<Ports>,
}

/// How a connection to a destination is made.
#[derive(Clone, Default)]
pub enum Dialler {
    /// Over the network: resolve, judge the address, connect, TLS.
    #[default]
    Network,
    /// Inside a simulator.
    Simulated(Arc<dyn Wires>),
}

/// What a simulator has instead of a network.
pub trait Wires: Send + Sync {
    /// A stream to the destination, as it is when TLS stands; or the step at which there is none.
    fn connect(&self, destination: &Destination) -> Connected;
}

/// A stream that is being made.
pub type Connected = Pin<Box<dyn Future<Output = Result<Box<dyn Stream>, NotSent>> + Send>>;

/// Connects, all within `within`.
///
/// # Errors
/// The step at which it ended. No byte of a request can have left.
pub async fn dial(
    dialler: &Dialler,
    destination: &Destination,
    within: Duration,
) -> Result<Box<Link>, NotSent> {
    let deadline = Instant::now() + within;
    let stream = match dialler {
        Dialler::Network => over_network(destination, deadline).await?,
        Dialler::Simulated(wires) => timeout_at(deadline, wires.connect(destination))
            .await
            .map_err(|_| NotSent::Connect(NOT_IN_TIME.to_owned()))??,
    };
    Link::over(stream).await
}

async fn over_network(destination: &Destination, deadline: Instant) -> Result<Box<dyn Stream>, NotSent> {
    let tcp = connect(destination, deadline).await?;
    Ok(match &destination.tls {
        None => Box::new(tcp),
        Some(config) => Box::new(handshake(destination, config, tcp, deadline).await?),
    })
}

/// A raw connection to the destination's judged address.
///
/// # Errors
/// As [`dial`].
pub async fn connect(destination: &Destination, deadline: Instant) -> Result<TcpStream, NotSent> {
    connect_by(resolve, destination, deadline).await
}

/// The same, with what answers for the names. It is asked once.
async fn connect_by(
    resolve: impl AsyncFnOnce(&Authority) -> Result<Vec<SocketAddr>, NotSent>,
    destination: &Destination,
    deadline: Instant,
) -> Result<TcpStream, NotSent> {
    let target = destination.connect_to.as_ref().unwrap_or(&destination.authority);
    let addresses = timeout_at(deadline, resolve(target))
        .await
        .map_err(|_| NotSent::Resolve("the name did not resolve in time".to_owned()))??;
    let private_allowed = destination.allow_private || destination.connect_to.is_some();
    let judged: Vec<Judged> = addresses
        .into_iter()
        .filter_map(|candidate| Judged::of(candidate, private_allowed))
        .take(ADDRESSES_MAX)
        .collect();
    if judged.is_empty() {
        return Err(NotSent::AddressRefused(
            "the name leads to no public address, and allow_private is not set for this host".to_owned(),
        ));
    }
    let mut last = String::new();
    for address in judged {
        match timeout_at(deadline, address.connect()).await {
            Ok(Ok(tcp)) if is_ours(&tcp, &destination.ours) => {
                return Err(NotSent::AddressRefused("the name leads back to this proxy".to_owned()));
            }
            Ok(Ok(tcp)) => {
                // Without it Nagle meets delayed acknowledgement: 40 ms stalls.
                if let Err(error) = tcp.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY could not be set");
                }
                return Ok(tcp);
            }
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => return Err(NotSent::Connect(NOT_IN_TIME.to_owned())),
        }
    }
    Err(NotSent::Connect(last))
}

/// Judged once it is connected: only then is it known through which of this machine's addresses it went. Nothing was
/// written yet.
fn is_ours(tcp: &TcpStream, ours: &Ports) -> bool {
    match (tcp.local_addr(), tcp.peer_addr()) {
        (Ok(local), Ok(peer)) => ours.reached(local, peer),
        // It is gone already; the first write will say so.
        (Err(_), _) | (_, Err(_)) => false,
    }
}

async fn resolve(target: &Authority) -> Result<Vec<SocketAddr>, NotSent> {
    if let Ok(literal) = target.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(literal, target.port)]);
    }
    let found = tokio::net::lookup_host((target.host.as_str(), target.port))
        .await
        .map_err(|error| NotSent::Resolve(error.to_string()))?;
    Ok(found.collect())
}

async fn handshake(
    destination: &Destination,
    config: &Arc<rustls::ClientConfig>,
    tcp: TcpStream,
    deadline: Instant,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, NotSent> {
    let name = ServerName::try_from(destination.authority.host.clone())
        .map_err(|error| NotSent::Tls(error.to_string()))?;
    timeout_at(deadline, TlsConnector::from(Arc::clone(config)).connect(name, tcp))
        .await
        .map_err(|_| NotSent::Tls("no TLS session in time".to_owned()))?
        .map_err(|error| NotSent::Tls(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    fn destination(allow_private: bool) -> Destination {
        let authority = Authority::parse("rebinding.test", Some(443)).unwrap();
        Destination { authority, tls: None, connect_to: None, allow_private, ours: Arc::default() }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn listening() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        (listener, at)
    }

    /// A name that leads elsewhere at every look-up: the address of the first one is judged, and is dialled.
    #[tokio::test]
    async fn what_is_judged_is_what_is_dialled() {
        let (first, second) = (listening(), listening());
        let asked = Cell::new(0);
        let rebinding = async |_: &Authority| {
            asked.set(asked.get() + 1);
            Ok(vec![if asked.get() == 1 { first.1 } else { second.1 }])
        };
        let tcp = connect_by(&rebinding, &destination(true), soon()).await.unwrap();
        assert_eq!((tcp.peer_addr().unwrap(), asked.get()), (first.1, 1));
        let (mut came, _) = first.0.accept().unwrap();
        drop(tcp);
        came.set_nonblocking(false).unwrap();
        assert_eq!(came.read(&mut [0; 1]).unwrap(), 0, "and not a byte was written");
        assert!(second.0.accept().is_err(), "nobody came to the second");
    }

    /// Of several addresses those that are not public are passed over; with none left nothing is dialled.
    #[tokio::test]
    async fn a_name_that_leads_inside_is_not_dialled() {
        let (listener, at) = listening();
        let mapped = SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), at.port());
        let inside = async |_: &Authority| Ok(vec![at, mapped]);
        let refused = connect_by(inside, &destination(false), soon()).await;
        assert!(matches!(refused, Err(NotSent::AddressRefused(_))), "{refused:?}");
        assert!(listener.accept().is_err(), "nobody came");
    }
}
