//! Accepts agents: TCP or a Unix socket, bounded, with a graceful end.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oncegate_policy::caller::CallerName;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::STRANGER_TIMEOUT;
use crate::metrics::Open;
use crate::own::Own;
use crate::peer;
use crate::places::{Place, Places};
use crate::proof::Proof;
use crate::state::Sidecar;
use crate::upstream::wire::Stream;
use crate::{connection, task, transparent};

/// After a failed accept (descriptors exhausted, for example) the listener waits this long and goes on.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where agents come in.
pub enum Socket {
    /// A port.
    Tcp(TcpListener),
    /// A Unix socket; its file is removed in the end.
    Unix(UnixListener, PathBuf),
}

impl Socket {
    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let ends = Some(Ends { peer, here: stream.local_addr()? });
                Ok(Accepted { stream: Box::new(stream), ends })
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted { stream: Box::new(stream), ends: None })
            }
        }
    }

    /// The port, where it is one.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Some),
            Self::Unix(..) => Ok(None),
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(_, path) => Some(path),
        }
    }
}

struct Accepted {
    stream: Box<dyn Stream>,
    ends: Option<Ends>,
}

/// Both ends of a TCP connection.
#[derive(Clone, Copy)]
pub struct Ends {
    peer: SocketAddr,
    here: SocketAddr,
}

/// What somebody who comes in here is taken for, before they show anything.
#[derive(Clone)]
pub enum Door {
    /// For nobody: a key has to be shown.
    Anyone,
    /// For the caller whose own listener this is.
    Caller(CallerName),
    /// For the caller whose connections are redirected here: TLS from the first byte.
    Transparent(CallerName),
    /// For the caller of the run whose own port this is.
    Run {
        /// The run's token.
        proof: Proof,
        /// Nobody else of this machine may come in without a key; `None`: everybody may.
        user: Option<u32>,
    },
}

impl Door {
    /// What shows who has come in; `None` where a key has to be shown.
    pub async fn proof(self, ends: Option<Ends>) -> Option<Proof> {
        match self {
            Self::Anyone => None,
            Self::Caller(name) => Some(Proof::OwnListener(name)),
            Self::Transparent(name) => Some(Proof::OwnTransparent(name)),
            Self::Run { proof, user: None } => Some(proof),
            Self::Run { proof, user: Some(user) } => {
                let Ends { peer, here } = ends?;
                (peer::user(peer, here).await == Some(user)).then_some(proof)
            }
        }
    }
}

/// One agent's place among `max_connections`, and among those of all listeners, kept to the end of its connection and of
/// the tunnel inside it.
#[derive(Clone)]
pub struct Seat {
    /// The sidecar is told to stop.
    pub stop: watch::Receiver<bool>,
    _open: Arc<Open>,
    places: Arc<[Place; 2]>,
}

impl Seat {
    /// Takes a place, and counts it.
    #[must_use]
    pub fn take(sidecar: &Sidecar, stop: watch::Receiver<bool>, places: [Place; 2]) -> Self {
        Self { stop, _open: sidecar.metrics.connection(), places: Arc::new(places) }
    }

    /// A key was shown on the connection, or none is needed there: nobody else is given its place.
    pub fn key_shown(&self) {
        self.places.iter().filter(|place| !place.has_asked()).for_each(Place::asks);
    }

    /// Until its place is needed for somebody else, or the time to show a key is over. Never, once one was shown.
    pub async fn is_lost(&self) {
        let [own, all] = &*self.places;
        if !own.has_asked() {
            tokio::select! {
                () = own.is_needed() => {}
                () = all.is_needed() => {}
                () = tokio::time::sleep(STRANGER_TIMEOUT) => {}
            }
        }
        if own.has_asked() {
            std::future::pending::<()>().await;
        }
    }
}

/// Waits until the sidecar is told to stop; a sender that is gone is a stop as well.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

/// Serves until `stop` says so, then lets open requests end within `grace`.
pub async fn serve(
    sidecar: Arc<Sidecar>,
    own: Arc<Own>,
    socket: Socket,
    door: Door,
    mut stop: watch::Receiver<bool>,
    grace: Duration,
) {
    let places = Places::new(sidecar.snapshot().config.proxy.max_connections);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok(Accepted { stream, ends }) => {
                let taken = async { Some([places.take().await?, own.places.take().await?]) };
                let taken = tokio::select! {
                    Some(taken) = taken => taken,
                    () = stopped(&mut stop) => break,
                };
                let seat = Seat::take(&sidecar, stop.clone(), taken);
                let (sidecar, own) = (Arc::clone(&sidecar), Arc::clone(&own));
                connections.spawn(task::apart(attend(sidecar, own, stream, (door.clone(), ends), seat)));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    // Closed before the wait: who comes now is turned away, not left in the backlog.
    let file = socket.path().map(Path::to_owned);
    drop(socket);
    let ended = tokio::time::timeout(grace, async {
        while connections.join_next().await.is_some() {}
        // Tunnels have outlived their connections; with the last of them every seat is free.
        places.empty().await;
    })
    .await;
    if ended.is_err() {
        tracing::warn!("some agents' connections were still open at the end and were closed");
    }
    if let Some(path) = file
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::debug!(%error, "the socket's file could not be removed");
    }
}

async fn attend(
    sidecar: Arc<Sidecar>,
    own: Arc<Own>,
    stream: Box<dyn Stream>,
    (door, ends): (Door, Option<Ends>),
    seat: Seat,
) {
    let tls_at_once = matches!(door, Door::Transparent(_));
    let bound = door.proof(ends).await;
    if bound.is_some() {
        seat.key_shown();
    }
    match bound {
        Some(proof) if tls_at_once => transparent::serve(sidecar, stream, proof, seat).await,
        bound => connection::serve(sidecar, own, stream, bound, seat).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_s_port_is_for_the_user_who_started_the_run() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = Socket::Tcp(listener);
        let at = socket.address().unwrap().unwrap();
        let (client, accepted) = tokio::join!(tokio::net::TcpStream::connect(at), socket.accept());
        let (client, ends) = (client.unwrap(), accepted.unwrap().ends);
        let me = rustix::process::geteuid().as_raw();
        let proof = Proof::Key { named: None, digest: [0; 32] };
        let door = |user| Door::Run { proof: proof.clone(), user };
        assert_eq!(door(Some(me)).proof(ends).await.is_some(), peer::TOLD);
        assert!(door(Some(me + 1)).proof(ends).await.is_none());
        assert!(door(Some(me)).proof(None).await.is_none());
        assert!(door(None).proof(ends).await.is_some());
        assert!(Door::Anyone.proof(ends).await.is_none());
        drop(client);
    }
}
