//! The ports and sockets that a start opens.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use oncegate_config::model::{Caller, CallerListen};
use oncegate_policy::caller::CallerName;
use tokio::net::{TcpListener, UnixListener};

use crate::listener::{Door, Socket};
use crate::serve::StartError;

/// Where one caller has ports of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnPorts {
    /// A proxy port (`listen`).
    pub listen: Option<SocketAddr>,
    /// For connections that were redirected (`transparent_listen`).
    pub transparent: Option<SocketAddr>,
}

/// Opens a port.
///
/// # Errors
/// It cannot be had.
pub async fn bind(what: &'static str, at: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(at).await.map_err(|source| StartError::Listen { what, at: at.to_string(), source })
}

/// Where a port is, once it is open.
///
/// # Errors
/// The system does not say.
pub fn address(what: &'static str, listener: &TcpListener) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(|source| unsaid(what, source))
}

fn unsaid(what: &'static str, source: std::io::Error) -> StartError {
    StartError::Listen { what, at: "its own address".to_owned(), source }
}

/// Listeners of one caller each.
///
/// # Errors
/// One cannot be had.
pub async fn of_callers(
    callers: &BTreeMap<CallerName, Caller>,
    directory: &Path,
) -> Result<Vec<(Socket, Door)>, StartError> {
    let mut sockets = Vec::new();
    for (name, caller) in callers {
        let own = match &caller.listen {
            None => None,
            Some(CallerListen::Tcp(at)) => Some(Socket::Tcp(bind("a caller's own port", *at).await?)),
            Some(CallerListen::Unix(path)) => Some(unix(&directory.join(path))?),
        };
        sockets.extend(own.map(|socket| (socket, Door::Caller(name.clone()))));
        if let Some(at) = caller.transparent_listen {
            let socket = Socket::Tcp(bind("a caller's transparent port", at).await?);
            sockets.push((socket, Door::Transparent(name.clone())));
        }
    }
    Ok(sockets)
}

/// A socket that only this user may connect to. One left by a process that was killed is replaced, a living listener's is
/// not, and no other file.
fn unix(path: &Path) -> Result<Socket, StartError> {
    let failed =
        |source| StartError::Listen { what: "a caller's own socket", at: path.display().to_string(), source };
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path).map_err(failed)?;
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    Ok(Socket::Unix(bound.map_err(failed)?, path.to_owned()))
}

/// Every port at which agents connect, and which of them are whose.
///
/// # Errors
/// The system does not say.
pub fn ports(
    sockets: &[(Socket, Door)],
) -> Result<(Vec<SocketAddr>, BTreeMap<CallerName, OwnPorts>), StartError> {
    let (mut all, mut own) = (Vec::new(), BTreeMap::<_, OwnPorts>::new());
    for (socket, door) in sockets {
        let Some(at) = socket.address().map_err(|source| unsaid("a proxy port", source))? else { continue };
        all.push(at);
        match door {
            Door::Anyone | Door::Run { .. } => {}
            Door::Caller(name) => own.entry(name.clone()).or_default().listen = Some(at),
            Door::Transparent(name) => own.entry(name.clone()).or_default().transparent = Some(at),
        }
    }
    Ok((all, own))
}
