//! What tells us that a file of the configuration was changed.
//!
//! Directories are watched, not files: editors and `kubectl` put a new file in the old one's place.

use std::ffi::OsStr;

#[cfg(target_os = "linux")]
pub(super) use linux::Eyes;
#[cfg(not(target_os = "linux"))]
pub(super) use others::Eyes;

/// Whether a change of this name, in the folder of the configuration or in `managed/`, may be one of the configuration.
/// The database and its journal lie in the same folder.
fn concerns(name: &OsStr, main: &OsStr, managed: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    let toml = bytes.ends_with(b".toml") && !bytes.starts_with(b".");
    // Kubernetes swaps a link called `..data` and leaves the names beside it alone.
    toml || bytes.starts_with(b"..") || name == main || name == managed
}

/// The kernel is asked for what ends a change, and not for each write: the journal of the database is written with every
/// request, the log perhaps too, and each write would wake us for nothing.
#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::io;
    use std::path::{Path, PathBuf};

    use futures_util::StreamExt as _;
    use inotify::{EventStream, Inotify, WatchMask};

    use super::concerns;
    use crate::load;

    /// Bytes of events that are taken at once: dozens. More wait in the kernel.
    const TAKEN: usize = 4096;

    /// Watches the folder of the configuration, and `managed/` in it while there is one.
    pub(crate) struct Eyes {
        events: EventStream<[u8; TAKEN]>,
        main: OsString,
        managed: PathBuf,
        on_managed: bool,
    }

    impl Eyes {
        /// # Errors
        /// What the system said: there is a limit of watches to each user.
        pub(crate) fn open(file: &Path) -> io::Result<Self> {
            let managed = load::managed_folder(file);
            let inotify = Inotify::init()?;
            inotify.watches().add(managed.parent().unwrap_or(Path::new("/")), changes())?;
            let main = file.file_name().unwrap_or_default().to_owned();
            let mut eyes =
                Self { events: inotify.into_event_stream([0; TAKEN])?, main, managed, on_managed: false };
            eyes.look_at_managed();
            Ok(eyes)
        }

        /// `managed/` appears with the first edit through the API, and may go and come back.
        pub(crate) fn look_at_managed(&mut self) {
            let there = self.managed.is_dir();
            if there && !self.on_managed {
                match self.events.watches().add(&self.managed, changes()) {
                    Ok(_) => self.on_managed = true,
                    Err(error) => tracing::warn!(%error, "changes in managed/ will not be noticed"),
                }
            }
            self.on_managed &= there;
        }

        /// Waits until something of the configuration was changed. Nothing is lost when it is given up half-way.
        ///
        /// # Errors
        /// What the system said. Then nothing more will be seen.
        pub(crate) async fn saw(&mut self) -> io::Result<()> {
            let managed = self.managed.file_name().unwrap_or_default();
            while let Some(event) = self.events.next().await {
                // One without a name is of a folder itself, or says that others were lost: then looking is better than not.
                if event?.name.is_none_or(|name| concerns(&name, &self.main, managed)) {
                    return Ok(());
                }
            }
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn changes() -> WatchMask {
        WatchMask::ATTRIB
            | WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::CLOSE_WRITE
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
    }

    #[cfg(test)]
    mod tests {
        use std::fs::{self, File};
        use std::io::Write as _;

        use super::*;

        #[tokio::test]
        async fn what_is_written_beside_the_configuration_wakes_nobody() {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("oncegate.toml");
            fs::write(&file, "").unwrap();
            let mut journal = File::create(folder.path().join("oncegate.db-wal")).unwrap();
            let mut eyes = Eyes::open(&file).unwrap();
            journal.write_all(b"a page").unwrap();
            fs::write(&file, "# changed").unwrap();
            let first = eyes.events.next().await.unwrap().unwrap();
            assert_eq!(first.name.as_deref(), file.file_name(), "woken by the journal");

            let managed = folder.path().join("managed");
            fs::create_dir(&managed).unwrap();
            eyes.saw().await.unwrap();
            eyes.look_at_managed();
            fs::write(managed.join("limits.toml"), "").unwrap();
            eyes.saw().await.unwrap();
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod others {
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
    use tokio::sync::Notify;

    use super::concerns;
    use crate::load;

    /// Watches the folder of the configuration, and `managed/` in it while there is one.
    pub(crate) struct Eyes {
        watcher: RecommendedWatcher,
        changed: Arc<Notify>,
        managed: PathBuf,
        on_managed: bool,
    }

    impl Eyes {
        /// # Errors
        /// What the system said.
        pub(crate) fn open(file: &Path) -> io::Result<Self> {
            let managed = load::managed_folder(file);
            let folder = managed.parent().unwrap_or(Path::new("/")).to_owned();
            let main = file.file_name().unwrap_or_default().to_owned();
            let ours = managed.file_name().unwrap_or_default().to_owned();
            let changed = Arc::new(Notify::new());
            let tell = Arc::clone(&changed);
            let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
                let concerned = event.map_or(true, |event| {
                    let mut names = event.paths.iter().filter_map(|path| path.file_name());
                    let of_ours = event.paths.is_empty() || names.any(|name| concerns(name, &main, &ours));
                    of_ours && !matches!(event.kind, EventKind::Access(_))
                });
                // An error is lost events: then looking is better than not.
                if concerned {
                    tell.notify_one();
                }
            });
            let mut watcher = watcher.map_err(io::Error::other)?;
            watcher.watch(&folder, RecursiveMode::NonRecursive).map_err(io::Error::other)?;
            let mut eyes = Self { watcher, changed, managed, on_managed: false };
            eyes.look_at_managed();
            Ok(eyes)
        }

        /// `managed/` appears with the first edit through the API, and may go and come back.
        pub(crate) fn look_at_managed(&mut self) {
            let there = self.managed.is_dir();
            if there && !self.on_managed {
                match self.watcher.watch(&self.managed, RecursiveMode::NonRecursive) {
                    Ok(()) => self.on_managed = true,
                    Err(error) => tracing::warn!(%error, "changes in managed/ will not be noticed"),
                }
            }
            self.on_managed &= there;
        }

        /// Waits until something of the configuration was changed.
        ///
        /// # Errors
        /// None: the library keeps what goes wrong to itself.
        pub(crate) async fn saw(&mut self) -> io::Result<()> {
            self.changed.notified().await;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_configuration_counts() {
        let seen = |name: &str| concerns(OsStr::new(name), OsStr::new("main.conf"), OsStr::new("managed"));
        for name in ["main.conf", "managed", "limits.toml", "..data"] {
            assert!(seen(name), "{name}");
        }
        for name in ["oncegate.db-wal", ".x.toml", ".oncegate-a1b2c3"] {
            assert!(!seen(name), "{name}");
        }
    }
}
