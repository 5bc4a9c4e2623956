//! `oncegate serve`: the sidecar in the foreground, until a signal ends it.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;

use crate::descriptors;
use crate::load::Loaded;
use crate::reload::watch::{Ears, Watching};
use crate::serve::{self, Options, Running, StartError};
use crate::sockets::OwnPorts;
use clap::Args;
use oncegate_certs::AuthorityError;
use oncegate_store::OpenError;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::beside::{OwnFile, control_file, proxy_file};
use super::desk::{self, Desk};
use super::exit::{Exit, Stop, chain};
use super::{Common, print, shims};

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Write {"proxy": …, "control": …, "pid": …, "callers": …} here as soon as requests are served
    #[arg(long, value_name = "R")]
    ready_file: Option<PathBuf>,
}

/// Serves until SIGTERM or SIGINT; a second one ends it at once. SIGHUP reloads.
pub(crate) async fn run(common: &Common, args: &ServeArgs) -> Result<Exit, Stop> {
    let mut signals = Signals::new()?;
    if let Some(path) = &args.ready_file {
        // What an earlier run left must not pass for this one.
        remove(path);
    }
    let (running, files) = start(super::load(common)?, args.ready_file.as_deref()).await?;
    if common.json {
        print::json(&addresses(&running));
    } else {
        tracing::info!(
            proxy = %running.proxy_addr(),
            control = %running.control_addr(),
            bundle = %running.bundle().display(),
            "serving"
        );
    }
    signals.next().await;
    tracing::info!("stopping: open requests are finished first; a second signal ends at once");
    tokio::select! {
        () = running.stop() => {}
        () = signals.next() => return Err(Stop::failed("stopped before open requests were finished")),
    }
    drop(files);
    Ok(Exit::Done)
}

/// Why no sidecar was started.
pub(crate) enum NotStarted {
    /// Another one has, or is about to have, what can be had once: the database, a port, the CA's files.
    Another(Stop),
    /// Anything else.
    Failed(Stop),
}

/// Starts the sidecar that the configuration describes, and writes the files that tell others where it is.
pub(crate) async fn start(loaded: Loaded, ready_file: Option<&Path>) -> Result<(Running, Files), Stop> {
    let started = try_start(loaded, ready_file).await;
    started.map_err(|error| match error {
        NotStarted::Another(stop) | NotStarted::Failed(stop) => stop,
    })
}

/// The same, for whoever would rather have the other one.
pub(crate) async fn try_start(
    loaded: Loaded,
    ready_file: Option<&Path>,
) -> Result<(Running, Files), NotStarted> {
    descriptors::raise();
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let deaf = |error| NotStarted::Failed(Stop::failed(format!("cannot listen for signals: {error}")));
    let ears = Ears::open().map_err(deaf)?;
    let database = loaded.database();
    let trust_dir = loaded.trust_dir();
    let running = serve::start(loaded, Options::default()).await.map_err(not_started)?;
    // From here on a failure must not leave the sidecar behind.
    match announce(&running, ears, &database, &trust_dir, ready_file) {
        Ok(files) => Ok((running, files)),
        Err(stop) => {
            running.stop().await;
            Err(NotStarted::Failed(stop))
        }
    }
}

fn not_started(error: StartError) -> NotStarted {
    let stop = Stop::usage(chain(&error));
    let another = match error {
        StartError::Listen { source, .. } => source.kind() == ErrorKind::AddrInUse,
        // Made at this instant, or half of it.
        StartError::Authority(AuthorityError::Publish { .. } | AuthorityError::Half { .. })
        | StartError::Open(OpenError::Locked { .. }) => true,
        StartError::Authority(_)
        | StartError::Bundle(_)
        | StartError::Open(_)
        | StartError::Store { .. }
        | StartError::Vault(_)
        | StartError::Snapshot(_) => false,
    };
    if another { NotStarted::Another(stop) } else { NotStarted::Failed(stop) }
}

fn announce(
    running: &Running,
    ears: Ears,
    database: &Path,
    trust_dir: &Path,
    ready_file: Option<&Path>,
) -> Result<Files, Stop> {
    shims::write(trust_dir)?;
    let mut files = Files { own: Vec::new(), _desk: None, _watching: Some(ears.attend(running.sidecar())) };
    files.own.push(publish(&control_file(database), &format!("{}\n", running.control_addr()))?);
    files.own.push(publish(&proxy_file(database), &format!("{}\n", addresses(running)))?);
    match desk::open(database, running) {
        Ok(desk) => files._desk = Some(desk),
        // A path that is too long for a socket, most often. Everything but attaching works without it.
        Err(error) => tracing::warn!(%error, "`oncegate run` cannot attach to this sidecar"),
    }
    if let Some(path) = ready_file {
        files.own.push(publish(path, &format!("{}\n", addresses(running)))?);
    }
    Ok(files)
}

fn addresses(running: &Running) -> Value {
    json!({
        "proxy": running.proxy_addr().to_string(),
        "control": running.control_addr().to_string(),
        "pid": process::id(),
        "callers": running.own_ports().iter().map(|(name, own)| (name.to_string(), ports(own))).collect::<Map<_, _>>(),
    })
}

/// Those of one caller; a socket that is a file has no address.
fn ports(own: &OwnPorts) -> Value {
    let named = [("listen", own.listen), ("transparent_listen", own.transparent)];
    named.into_iter().filter_map(|(name, at)| Some((name.to_owned(), json!(at?.to_string())))).collect()
}

/// Files that are true only while the sidecar runs. Each goes by itself when this is dropped.
pub(crate) struct Files {
    own: Vec<OwnFile>,
    /// Closes by itself.
    _desk: Option<Desk>,
    /// Ends by itself.
    _watching: Option<Watching>,
}

fn remove(path: &Path) {
    // Usually it is not there; if it cannot be removed, writing the new one will say why.
    drop(std::fs::remove_file(path));
}

/// Puts a file in place whole, mode 0600: a reader sees the old one, none, or this one.
fn publish(path: &Path, text: &str) -> Result<OwnFile, Stop> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        Some(_) | None => Path::new("."),
    };
    let write = || {
        let mut file = tempfile::Builder::new().prefix(".oncegate-").tempfile_in(directory)?;
        file.write_all(text.as_bytes())?;
        let own = OwnFile::of(path, &file.as_file().metadata()?);
        file.persist(path).map_err(|error| error.error)?;
        Ok(own)
    };
    write().map_err(|error: std::io::Error| Stop::usage(format!("cannot write {}: {error}", path.display())))
}

/// The signals that ask a process to end.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn new() -> Result<Self, Stop> {
        let listen =
            |kind| signal(kind).map_err(|error| Stop::failed(format!("cannot listen for signals: {error}")));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for either.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_published_file_is_whole_private_and_gone_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ready.json");
        let own = publish(&path, "{}\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(Files { own: vec![own], _desk: None, _watching: None });
        assert!(!path.exists());
    }
}
