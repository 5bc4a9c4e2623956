//! A proxy port for one run of one command, for clients that cannot send proxy credentials (Java's, from properties).
//! Whoever connects there is the run's caller, if the socket is of the user who started the run; another user has to
//! show a key, as everywhere. It is open on loopback only, and for as long as the run lives.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use oncegate_policy::caller::CallerName;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::listener::{self, Door, Socket, stopped};
use crate::own::Own;
use crate::proof::{self, Proof};
use crate::state::Sidecar;
use crate::task;

/// Opens such ports. Holds the sidecar weakly: what hands out places must not keep the database open.
#[derive(Clone)]
pub struct RunPorts {
    /// Whose ports they are.
    pub sidecar: Weak<Sidecar>,
    /// Where they are listed among our own addresses.
    pub own: Weak<Own>,
    /// The sidecar is told to stop.
    pub stop: watch::Receiver<bool>,
    /// How long open connections may take to end.
    pub grace: Duration,
}

/// An open port; closed when dropped.
pub struct RunPort {
    address: SocketAddr,
    _open: watch::Sender<bool>,
}

impl RunPort {
    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl RunPorts {
    /// Opens a port that stands for a run's token. `user` is who started the run; `None` lets every user of the
    /// machine in.
    ///
    /// # Errors
    /// No port can be had, or the sidecar is stopping.
    pub async fn open(&self, caller: &CallerName, token: &str, user: Option<u32>) -> io::Result<RunPort> {
        let (Some(sidecar), Some(own)) = (self.sidecar.upgrade(), self.own.upgrade()) else {
            return Err(io::Error::other("the sidecar is stopping"));
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        // Asked anew for each request, as a key is: with the token's end the port stands for nobody.
        let proof = Proof::Key { named: Some(caller.clone()), digest: proof::digest(token) };
        let (open, closed) = watch::channel(false);
        let door = Door::Run { proof, user };
        let socket = Socket::Tcp(listener);
        task::start(serve(sidecar, own, (socket, address), door, [closed, self.stop.clone()], self.grace));
        Ok(RunPort { address, _open: open })
    }
}

/// Serves until either says stop.
async fn serve(
    sidecar: Arc<Sidecar>,
    own: Arc<Own>,
    (socket, address): (Socket, SocketAddr),
    door: Door,
    [mut closed, mut stop]: [watch::Receiver<bool>; 2],
    grace: Duration,
) {
    own.proxies.add(address);
    let (end, ended) = watch::channel(false);
    let mut serving = Box::pin(listener::serve(sidecar, Arc::clone(&own), socket, door, ended, grace));
    tokio::select! {
        () = serving.as_mut() => {}
        () = stopped(&mut closed) => {}
        () = stopped(&mut stop) => {}
    }
    end.send_replace(true);
    serving.await;
    own.proxies.remove(address);
}
