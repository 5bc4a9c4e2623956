//! Where `oncegate run` asks a sidecar that already holds the database for a place behind it: a Unix socket
//! beside the database, mode 0600. Whoever may connect there could read the database and the CA's key as well; what
//! they get is a token that speaks to the proxy only, never to the API, and only as a caller that may invoke.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use oncegate_policy::caller::{CallerName, Scope};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::beside::{OwnFile, run_socket};
use super::exit::Stop;
use crate::peer;
use crate::run_port::{RunPort, RunPorts};
use crate::serve::Running;
use crate::state::Sidecar;
use crate::task;

/// Most bytes of one line.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// For one line to arrive.
const LINE_TIMEOUT: Duration = Duration::from_secs(5);

/// What `run` asks for.
#[derive(Serialize, Deserialize)]
struct Ask {
    caller: String,
    /// A port of the run's own as well.
    #[serde(default)]
    own_port: bool,
}

/// What it is given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Gate {
    /// Where agents connect.
    pub(crate) proxy: SocketAddr,
    /// System roots and our CA.
    pub(crate) bundle: PathBuf,
    /// Our CA alone.
    pub(crate) ca: PathBuf,
    /// A key for one run.
    pub(crate) token: String,
    /// Where this run needs no key.
    #[serde(default)]
    pub(crate) own_port: Option<SocketAddr>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Gate(Gate),
    Refused(String),
}

/// The open desk; closed, and its socket removed, when dropped.
pub(crate) struct Desk {
    _socket: OwnFile,
    task: JoinHandle<()>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A place behind a sidecar of this process. The port, if one was asked for, is open for as long as it is kept.
pub(crate) async fn gate(
    running: &Running,
    caller: &CallerName,
    own_port: bool,
) -> Option<(Gate, Option<RunPort>)> {
    let place = Place::of(running);
    let mut gate = issue(running.sidecar(), &place, caller)?;
    let user = rustix::process::geteuid().as_raw();
    let port = if own_port { place.open(caller, &mut gate, user).await } else { None };
    Some((gate, port))
}

#[derive(Clone)]
struct Place {
    proxy: SocketAddr,
    bundle: PathBuf,
    ca: PathBuf,
    run_ports: RunPorts,
}

impl Place {
    fn of(running: &Running) -> Self {
        Self {
            proxy: running.proxy_addr(),
            bundle: running.bundle().to_owned(),
            ca: running.ca_pem().to_owned(),
            run_ports: running.run_ports().clone(),
        }
    }

    /// Opens a port for a run that `user` has started. The rest works without it.
    async fn open(&self, caller: &CallerName, gate: &mut Gate, user: u32) -> Option<RunPort> {
        match self.run_ports.open(caller, &gate.token, peer::TOLD.then_some(user)).await {
            Ok(port) => {
                gate.own_port = Some(port.address());
                Some(port)
            }
            Err(error) => {
                tracing::warn!(%error, "a run gets no port of its own: its Java clients will not work");
                None
            }
        }
    }
}

fn issue(sidecar: &Sidecar, place: &Place, caller: &CallerName) -> Option<Gate> {
    let snapshot = sidecar.snapshot();
    if !snapshot.config.callers.get(caller)?.scopes.contains(&Scope::ActionsInvoke) {
        return None;
    }
    let token = sidecar.issue_run_token(caller)?;
    let Place { proxy, bundle, ca, .. } = place.clone();
    Some(Gate { proxy, bundle, ca, token, own_port: None })
}

/// Opens the desk of a running sidecar. The database's lock is held, so a socket that is there is a dead one.
pub(crate) fn open(database: &Path, running: &Running) -> io::Result<Desk> {
    let path = run_socket(database);
    let (listener, socket) = bind_private(&path).inspect_err(|_| {
        // One that is left there says that nobody holds the database.
        drop(std::fs::remove_file(&path));
    })?;
    let task = task::start(serve(listener, Arc::downgrade(running.sidecar()), Place::of(running)));
    Ok(Desk { _socket: socket, task })
}

/// Binds in a directory that nobody else may enter, and moves the socket out once its mode is right: it is never
/// open to others, even for an instant.
fn bind_private(path: &Path) -> io::Result<(UnixListener, OwnFile)> {
    // Nobody could connect to a name that is too long.
    std::os::unix::net::SocketAddr::from_pathname(path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let private = tempfile::Builder::new()
        .prefix(".og-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(directory)?;
    let hidden = private.path().join("s");
    let listener = UnixListener::bind(&hidden)?;
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
    let socket = OwnFile::of(path, &std::fs::symlink_metadata(&hidden)?);
    std::fs::rename(&hidden, path)?;
    Ok((listener, socket))
}

/// Holds the sidecar weakly: a desk that is still being closed must not keep the database open.
async fn serve(listener: UnixListener, sidecar: Weak<Sidecar>, place: Place) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                task::start(attend(stream, Weak::clone(&sidecar), place.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a run could not attach");
                // Out of descriptors: trying again at once would only fill the log.
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn attend(mut stream: UnixStream, weak: Weak<Sidecar>, place: Place) {
    let Ok(ask) = read_line::<Ask>(&mut stream).await else { return };
    let Some(sidecar) = weak.upgrade() else { return };
    let caller = CallerName::parse(&ask.caller);
    let mut gate = caller.as_ref().and_then(|caller| issue(&sidecar, &place, caller));
    drop(sidecar);
    let port = match (&caller, &mut gate, stream.peer_cred()) {
        (Some(caller), Some(gate), Ok(who)) if ask.own_port => place.open(caller, gate, who.uid()).await,
        _ => None,
    };
    let reply = match gate {
        Some(gate) => Reply::Gate(gate),
        None => Reply::Refused(format!(
            "the running sidecar knows no caller `{}` that may invoke actions",
            ask.caller
        )),
    };
    tracing::info!(
        caller.name = ask.caller,
        granted = matches!(reply, Reply::Gate(_)),
        "a run asks to attach"
    );
    // Whoever asked may have gone; then there is nobody to tell, and the token ends at once.
    let told = write_line(&mut stream, &reply).await;
    let Reply::Gate(gate) = reply else { return };
    if told.is_ok() {
        closed(&mut stream).await;
    }
    drop(port);
    if let Some(sidecar) = weak.upgrade() {
        sidecar.revoke_run_token(&gate.token);
        tracing::info!(caller.name = ask.caller, "a run has ended; its token is revoked");
    }
}

/// Waits for the other end to close, which it does when the run ends, however it ends.
async fn closed(stream: &mut UnixStream) {
    let mut ignored = [0; 64];
    while stream.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
}

/// A place behind a sidecar of another process. The token is good for as long as this is kept.
pub(crate) struct Attached {
    pub(crate) gate: Gate,
    _held: UnixStream,
}

/// Asks the sidecar that holds the database for a place. `None` when there is none.
pub(crate) async fn ask(
    database: &Path,
    caller: &CallerName,
    own_port: bool,
) -> Result<Option<Attached>, Stop> {
    let Ok(mut stream) = UnixStream::connect(run_socket(database)).await else { return Ok(None) };
    let failed = |error: io::Error| Stop::failed(format!("the running sidecar did not answer: {error}"));
    write_line(&mut stream, &Ask { caller: caller.to_string(), own_port }).await.map_err(failed)?;
    match read_line::<Reply>(&mut stream).await.map_err(failed)? {
        Reply::Gate(gate) => Ok(Some(Attached { gate, _held: stream })),
        Reply::Refused(why) => Err(Stop::usage(why)),
    }
}

async fn read_line<T: serde::de::DeserializeOwned>(stream: &mut UnixStream) -> io::Result<T> {
    let mut line = String::new();
    let mut reader = BufReader::new(stream.take(LINE_BYTES_MAX));
    timeout(LINE_TIMEOUT, reader.read_line(&mut line)).await.map_err(io::Error::from)??;
    serde_json::from_str(&line).map_err(io::Error::from)
}

async fn write_line<T: Serialize>(stream: &mut UnixStream, value: &T) -> io::Result<()> {
    let line = format!("{}\n", serde_json::to_string(value)?);
    stream.write_all(line.as_bytes()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_is_private_and_replaces_a_dead_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("once.db-run");
        let (dead, left) = bind_private(&path).unwrap();
        drop(dead);
        let (listener, _socket) = bind_private(&path).unwrap();
        // The end of the one before takes nothing away from this one.
        drop(left);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let (asking, answering) = tokio::join!(UnixStream::connect(&path), listener.accept());
        let (mut asking, (mut answering, _)) = (asking.unwrap(), answering.unwrap());
        write_line(&mut asking, &Ask { caller: "agent".into(), own_port: false }).await.unwrap();
        assert_eq!(read_line::<Ask>(&mut answering).await.unwrap().caller, "agent");
    }

    #[tokio::test]
    async fn without_a_sidecar_there_is_no_place() {
        let dir = tempfile::tempdir().unwrap();
        let caller = CallerName::parse("agent").unwrap();
        assert!(ask(&dir.path().join("oncegate.db"), &caller, false).await.unwrap().is_none());
    }
}
