//! When to reload: a file of the configuration was changed, or SIGHUP came.
//!
//! Directories are watched, not files: editors and `kubectl` put a new file in the old one's place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::Turn;
use crate::load;
use crate::state::Sidecar;
use crate::task;

/// Files are read when nothing more has happened for so long: a save is several events.
const QUIET: Duration = Duration::from_millis(200);
/// Whatever goes on, files are read after so long.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// What is good and could not be recorded is tried again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The ears, opened before anything is announced: a signal that comes early must not end the process.
pub struct Ears(Signal);

impl Ears {
    /// Listens for SIGHUP from now on.
    ///
    /// # Errors
    /// What the system said.
    pub fn open() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Reloads whenever there is a reason to, until what is returned is dropped. Holds the sidecar weakly.
    #[must_use]
    pub fn attend(self, sidecar: &Arc<Sidecar>) -> Watching {
        let changed = Arc::new(Notify::new());
        let file = sidecar.files.path().to_owned();
        let eyes = match Eyes::open(&file, Arc::clone(&changed)) {
            Ok(eyes) => Some(eyes),
            Err(error) => {
                tracing::warn!(%error, "changed files will not be noticed: send SIGHUP to reload them");
                None
            }
        };
        // What was changed between the first read and now would go unnoticed otherwise.
        changed.notify_one();
        Watching(task::start(attend(Arc::downgrade(sidecar), self.0, eyes, changed)))
    }
}

/// Ends with a drop.
pub struct Watching(JoinHandle<()>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn attend(sidecar: Weak<Sidecar>, mut hangup: Signal, mut eyes: Option<Eyes>, changed: Arc<Notify>) {
    // What could not be recorded, and whether it was asked for.
    let mut put_off: Option<bool> = None;
    loop {
        let asked = tokio::select! {
            signalled = hangup.recv() => {
                if signalled.is_none() {
                    return;
                }
                true
            }
            () = changed.notified() => {
                quiet(&changed).await;
                put_off.unwrap_or(false)
            }
            () = tokio::time::sleep(AGAIN_AFTER), if put_off.is_some() => put_off.unwrap_or(false),
        };
        if let Some(eyes) = &mut eyes {
            eyes.look_at_managed();
        }
        let Some(sidecar) = sidecar.upgrade() else { return };
        // Where it was asked for, also for what no text shows: a CA file that was replaced.
        let taken = Turn::take(&sidecar).await.look(asked).await;
        put_off = (!taken).then_some(asked);
    }
}

/// Waits until a change is complete.
async fn quiet(changed: &Notify) {
    let started = Instant::now();
    while started.elapsed() < QUIET_MAX {
        if timeout(QUIET, changed.notified()).await.is_err() {
            return;
        }
    }
}

/// What tells us of changed files.
struct Eyes {
    watcher: RecommendedWatcher,
    managed: PathBuf,
    on_managed: bool,
}

impl Eyes {
    fn open(file: &Path, changed: Arc<Notify>) -> notify::Result<Self> {
        let managed = load::managed_folder(file);
        let folder = managed.parent().unwrap_or(Path::new("/")).to_owned();
        let (main, ours) = (file.to_owned(), managed.clone());
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error is lost events: then looking is better than not.
            if event.map_or(true, |event| concerns(&event, &main, &ours)) {
                changed.notify_one();
            }
        })?;
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        let mut eyes = Self { watcher, managed, on_managed: false };
        eyes.look_at_managed();
        Ok(eyes)
    }

    /// `managed/` appears with the first edit through the API, and may go and come back.
    fn look_at_managed(&mut self) {
        let there = self.managed.is_dir();
        if there && !self.on_managed {
            match self.watcher.watch(&self.managed, RecursiveMode::NonRecursive) {
                Ok(()) => self.on_managed = true,
                Err(error) => tracing::warn!(%error, "changes in managed/ will not be noticed"),
            }
        }
        self.on_managed &= there;
    }
}

/// The database and its journal lie in the same folder, and change with every request.
fn concerns(event: &Event, main: &Path, managed: &Path) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let toml = name.ends_with(b".toml") && !name.starts_with(b".");
        // Kubernetes swaps a link called `..data` and leaves the names beside it alone.
        toml || name.starts_with(b"..") || path == main || path == managed
    };
    event.paths.is_empty() || event.paths.iter().any(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_configuration_counts() {
        let (main, managed) = (Path::new("/etc/og/main.conf"), Path::new("/etc/og/managed"));
        let seen = |path: &str| {
            let event = Event::new(EventKind::Any).add_path(PathBuf::from(path));
            concerns(&event, main, managed)
        };
        for path in ["/etc/og/main.conf", "/etc/og/managed", "/etc/og/managed/limits.toml", "/etc/og/..data"]
        {
            assert!(seen(path), "{path}");
        }
        for path in ["/etc/og/oncegate.db-wal", "/etc/og/.x.toml", "/etc/og/managed/.oncegate-a1b2c3"] {
            assert!(!seen(path), "{path}");
        }
    }
}
