//! When to reload: a file of the configuration was changed, or SIGHUP came.

use std::future::pending;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::Turn;
use super::eyes::Eyes;
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
        let eyes = Eyes::open(sidecar.files.path()).map_err(|error| blind(&error)).ok();
        Watching(task::start(attend(Arc::downgrade(sidecar), self.0, Changes { eyes, unread: true })))
    }
}

/// Ends with a drop.
pub struct Watching(JoinHandle<()>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn blind(error: &io::Error) {
    tracing::warn!(%error, "changed files will not be noticed: send SIGHUP to reload them");
}

async fn attend(sidecar: Weak<Sidecar>, mut hangup: Signal, mut changes: Changes) {
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
            () = changes.next() => {
                changes.quiet().await;
                put_off.unwrap_or(false)
            }
            () = tokio::time::sleep(AGAIN_AFTER), if put_off.is_some() => put_off.unwrap_or(false),
        };
        if let Some(eyes) = &mut changes.eyes {
            eyes.look_at_managed();
        }
        let Some(sidecar) = sidecar.upgrade() else { return };
        // Where it was asked for, also for what no text shows: a CA file that was replaced.
        let taken = Turn::take(&sidecar).await.look(asked).await;
        put_off = (!taken).then_some(asked);
    }
}

/// Changes of the files of the configuration.
struct Changes {
    /// `None` where the system lets nobody watch.
    eyes: Option<Eyes>,
    /// What was changed between the first read and the first watch would go unnoticed otherwise.
    unread: bool,
}

impl Changes {
    /// Waits for one. Nothing is lost when that is given up half-way.
    async fn next(&mut self) {
        if std::mem::take(&mut self.unread) {
            return;
        }
        if let Some(eyes) = &mut self.eyes {
            match eyes.saw().await {
                Ok(()) => return,
                Err(error) => {
                    blind(&error);
                    self.eyes = None;
                }
            }
        }
        pending().await
    }

    /// Waits until a change is complete.
    async fn quiet(&mut self) {
        let started = Instant::now();
        while started.elapsed() < QUIET_MAX {
            if timeout(QUIET, self.next()).await.is_err() {
                return;
            }
        }
    }
}
