//! Another configuration while requests run: files that changed, and what the API edits in `managed/`.
//!
//! Both go one way: the whole configuration is read and judged, made ready, its limits are brought into the record,
//! and then it takes the place of the old one in one step. On any fault the old one stays. A request keeps the
//! configuration it began with.

mod bound;
pub mod differences;
mod edits;
mod eyes;
mod renamed;
pub mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oncegate_config::Fault;
use oncegate_store::StoreError;
use thiserror::Error;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinError;

use crate::editions::Editing;
use crate::load::{self, LoadError, Loaded, Text};
use crate::state::{Sidecar, Snapshot, SnapshotError};
use crate::strays::{self, Stray, Why};
use crate::taken_over::{self, TakenOver};
use crate::{reconciler, secrets, task};
use differences::{Difference, Kind};
pub use edits::{ManagedEdit, Prepared};
use edits::{before, edit, put_back};

/// What a sidecar knows of the files that it was configured from.
pub struct Files {
    file: PathBuf,
    faults: AtomicU64,
    last: Mutex<Last>,
}

/// What was taken last, or refused last.
struct Last {
    /// Of the texts, faulty ones too: a file that was only touched says nothing new.
    digest: [u8; 32],
    /// So that a doubt is said once, not at each edit.
    warnings: Vec<Fault>,
}

impl Files {
    /// Those of a configuration at its start.
    #[must_use]
    pub fn of(loaded: &Loaded) -> Self {
        let last = Last { digest: loaded.digest, warnings: loaded.warnings.clone() };
        Self { file: loaded.file.clone(), faults: AtomicU64::new(0), last: Mutex::new(last) }
    }

    /// The file or directory that the sidecar was started with. Absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// How many reloads were refused since the start.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }
}

/// What a reload has brought. Holds names only, never a secret's value or a key's hash.
#[derive(Clone, Debug, Default)]
pub struct Reloaded {
    /// What is there now and was not, is not there any more, or is another.
    pub differences: Vec<Difference>,
    /// Settings that were changed and count only after the next start.
    pub next_start: Vec<&'static str>,
    /// What became of limits, as the record says it.
    pub limits: Vec<String>,
    /// Requests with open effects that are another action's from now on.
    pub taken_over: Vec<TakenOver>,
    /// Open effects that it has lost hold of.
    pub strays: Vec<Stray>,
    /// What keys that have another name may do.
    pub renamed: Vec<String>,
    /// Doubts that were not there before.
    pub warnings: Vec<Fault>,
}

/// Why the old configuration stays.
#[derive(Debug, Error)]
pub enum ReloadError {
    /// It cannot be read, or has faults: all of them.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It names something that cannot be had.
    #[error("the configuration cannot be used")]
    Unusable(#[from] SnapshotError),
    /// It has no caller, where there were some: a file that was cut off, most often.
    #[error("it takes every caller away: nobody could ask for anything, or halt, deny or resolve")]
    NoCallers,
    /// Its limits could not be recorded.
    #[error("the limits could not be brought into the record")]
    Limits(#[from] StoreError),
    /// Which open effects it concerns could not be read.
    #[error("what is not settled could not be read")]
    Unsettled(#[source] StoreError),
    /// The thread that read it has ended early.
    #[error("the configuration could not be read to its end")]
    Ended(#[from] JoinError),
}

/// Why an edit was not made.
#[derive(Debug, Error)]
pub enum ReplaceError {
    /// With the edit the configuration has these faults; without it, it had none.
    #[error("the edit is faulty")]
    Faults(Vec<Fault>),
    /// The files on disk have faults of their own: nothing can be judged on top of them.
    #[error("the configuration on disk has faults of its own")]
    Standing(Vec<Fault>),
    /// A file could not be written. What was written before it was put back, as far as the log says nothing else.
    #[error("managed/{file} could not be written")]
    Write {
        /// Which.
        file: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// It was not taken for another reason.
    #[error("the edited configuration was not taken")]
    Reload(#[from] ReloadError),
}

/// Reads the configuration again and takes it.
///
/// # Errors
/// Why the old one stays.
pub async fn reload(sidecar: &Arc<Sidecar>) -> Result<Reloaded, ReloadError> {
    Turn::take(sidecar).await.reload().await
}

/// Takes a configuration that somebody else has read and judged.
///
/// # Errors
/// Why the old one stays.
pub async fn take(sidecar: &Arc<Sidecar>, loaded: Loaded) -> Result<Reloaded, ReloadError> {
    Turn::take(sidecar).await.swap_alone(Ready::of(&sidecar.snapshot(), loaded)?).await.inspect(log)
}

/// Whoever holds it is the only one that changes the configuration. An edit that depends on what stands holds it from
/// its first read on.
pub struct Turn<'a> {
    sidecar: &'a Arc<Sidecar>,
    last: MutexGuard<'a, Last>,
}

/// A configuration that can be taken.
struct Ready {
    loaded: Loaded,
    snapshot: Snapshot,
    next_start: Vec<&'static str>,
}

impl Ready {
    fn of(running: &Snapshot, mut loaded: Loaded) -> Result<Self, ReloadError> {
        if loaded.config.callers.is_empty() && !running.config.callers.is_empty() {
            return Err(ReloadError::NoCallers);
        }
        let next_start = bound::keep(&running.config, &mut loaded.config);
        let (config, directory) = (loaded.config.clone(), loaded.directory.clone());
        let snapshot =
            Snapshot::new(config, directory, Arc::clone(&running.vault), Arc::clone(&running.ours))?;
        Ok(Self { loaded, snapshot, next_start })
    }
}

impl<'a> Turn<'a> {
    /// Waits for those who came before.
    pub async fn take(sidecar: &'a Arc<Sidecar>) -> Self {
        Self { sidecar, last: sidecar.files.last.lock().await }
    }

    /// As [`reload`].
    ///
    /// # Errors
    /// As [`reload`].
    pub async fn reload(&mut self) -> Result<Reloaded, ReloadError> {
        let result = self.read_and_take(false).await;
        self.say(result.as_ref().map(Option::as_ref));
        result.map(Option::unwrap_or_default)
    }

    /// The same, and, unless it was asked for, only if the texts are not those that were judged last. `false`: they are good,
    /// and could not be taken yet.
    async fn look(&mut self, asked: bool) -> bool {
        let result = self.read_and_take(!asked).await;
        self.say(result.as_ref().map(Option::as_ref));
        !matches!(result, Err(ReloadError::Limits(_) | ReloadError::Unsettled(_)))
    }

    async fn read_and_take(&mut self, only_if_changed: bool) -> Result<Option<Reloaded>, ReloadError> {
        let file = self.sidecar.files.file.clone();
        let texts = tokio::task::spawn_blocking(move || load::read(&file)).await??;
        let digest = load::digest(&texts);
        if only_if_changed && digest == self.last.digest {
            return Ok(None);
        }
        let before = std::mem::replace(&mut self.last.digest, digest);
        let ready = self.ready(texts).await?;
        let taken = self.swap_alone(ready).await;
        if taken.is_err() {
            // They were judged, and are good: they are news until they are taken.
            self.last.digest = before;
        }
        taken.map(Some)
    }

    /// Judges the whole configuration with some edits in `managed/`, writes them, and takes it.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub async fn replace_managed(&mut self, edits: Vec<ManagedEdit>) -> Result<Reloaded, ReplaceError> {
        let prepared = self.prepare(edits).await?;
        let editing = self.sidecar.editions.editing().await;
        self.write_and_finish(prepared, editing).await
    }

    /// Writes what was prepared, and takes it. If it cannot be taken, the files are put back.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub async fn write_and_finish(
        &mut self,
        prepared: Prepared,
        editing: Editing<'_>,
    ) -> Result<Reloaded, ReplaceError> {
        prepared.write().await?;
        let Prepared { ready, folder, before, .. } = prepared;
        match self.swap(ready, editing).await {
            Ok(reloaded) => {
                log(&reloaded);
                Ok(reloaded)
            }
            Err(error) => {
                put_back(folder, before).await;
                Err(error.into())
            }
        }
    }

    /// Judges edits. Writes nothing: what has to be recorded before the files can be recorded now.
    ///
    /// # Errors
    /// The faults.
    pub async fn prepare(&self, edits: Vec<ManagedEdit>) -> Result<Prepared, ReplaceError> {
        let file = self.sidecar.files.file.clone();
        let folder = load::managed_folder(&file);
        let read = tokio::task::spawn_blocking(move || load::read(&file));
        let standing = read.await.map_err(ReloadError::from)?.map_err(ReloadError::from)?;
        let edited = edit(&standing, &folder, &edits);
        match self.ready(edited).await {
            Ok(ready) => {
                let before = before(&standing, &folder, &edits);
                Ok(Prepared { ready, folder, edits, before })
            }
            Err(ReloadError::Load(LoadError::Faults(faults))) => {
                match load::judge(&self.sidecar.files.file, &standing) {
                    Err(LoadError::Faults(own)) => Err(ReplaceError::Standing(own)),
                    Ok(_)
                    | Err(LoadError::Read { .. } | LoadError::Empty { .. } | LoadError::Catalogue(_)) => {
                        Err(ReplaceError::Faults(faults))
                    }
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what was prepared, written and recorded. What is in the way of the rest of the configuration is logged: the
    /// files count, and are read again until they are taken.
    pub async fn finish(&mut self, prepared: Prepared) {
        match self.swap_alone(prepared.ready).await {
            Ok(reloaded) => log(&reloaded),
            Err(error) => self.say(Err(&error)),
        }
    }

    async fn ready(&self, texts: Vec<Text>) -> Result<Ready, ReloadError> {
        let file = self.sidecar.files.file.clone();
        let running = self.sidecar.snapshot();
        // Reads certificates, which takes its time.
        let ready = move || Ready::of(&running, load::judge(&file, &texts)?);
        tokio::task::spawn_blocking(ready).await?
    }

    async fn swap_alone(&mut self, ready: Ready) -> Result<Reloaded, ReloadError> {
        let editing = self.sidecar.editions.editing().await;
        self.swap(ready, editing).await
    }

    /// With nothing being admitted, whoever brings it: an edit through the API takes what else stands in the files with it. The
    /// limits are the record's at once, and a request that came in before goes by the definitions of before: under limits that
    /// were renamed or retired with its action it would be held by none. So what was planned by an action that is another now,
    /// or gone, is not admitted.
    async fn swap(&mut self, ready: Ready, editing: Editing<'_>) -> Result<Reloaded, ReloadError> {
        let Ready { loaded, snapshot, next_start } = ready;
        let running = self.sidecar.snapshot();
        let now = self.sidecar.clock.now();
        let differences = differences::between(&running.config, &loaded.config);
        let taken_over = match differences.iter().any(|difference| difference.kind == Kind::Action) {
            true => taken_over::between(&self.sidecar.store, &running, &snapshot).await,
            false => Ok(Vec::new()),
        };
        let taken_over = taken_over.map_err(ReloadError::Unsettled)?;
        let strays = match differences.iter().any(|difference| difference.kind == Kind::Action) {
            true => self.strays(&running, &snapshot).await.map_err(ReloadError::Unsettled)?,
            false => Vec::new(),
        };
        let renamed = renamed::doubts(&self.sidecar.store, &running.config, &loaded.config).await;
        let renamed = renamed.map_err(ReloadError::Unsettled)?;
        // First the record: a limit that is declared counts before anything is let through under it.
        let limits = self.sidecar.store.sync_limits(loaded.config.limits.clone(), now).await?;
        self.sidecar.replace_snapshot(snapshot);
        editing.edited(differences::beside(&differences, &running.config, &loaded.config));
        reconciler::look_for_more(self.sidecar).await;
        let known = std::mem::replace(&mut self.last.warnings, loaded.warnings.clone());
        let news = |warning: &Fault| !known.iter().any(|known| known.message == warning.message);
        let warnings = loaded.warnings.into_iter().filter(news).collect();
        self.last.digest = loaded.digest;
        let secrets = differences.iter().filter(|one| one.kind == Kind::Secret).map(|one| one.name.clone());
        // A file may keep it waiting, and nothing is admitted meanwhile.
        drop(task::start(secrets::warn_of_missing(self.sidecar.snapshot(), secrets.collect())));
        Ok(Reloaded { differences, next_start, limits, taken_over, strays, renamed, warnings })
    }

    /// What is lost hold of by it, and was not before. Requests that another action takes over are told by themselves.
    async fn strays(&self, now: &Snapshot, next: &Snapshot) -> Result<Vec<Stray>, StoreError> {
        let known = strays::of(&self.sidecar.store, now).await?;
        let mut lost = strays::of(&self.sidecar.store, next).await?;
        let is_known =
            |one: &Stray| known.iter().any(|known| known.action == one.action && known.why == one.why);
        lost.retain(|one| !matches!(one.why, Why::ServedBy(_)) && !is_known(one));
        Ok(lost)
    }

    /// Each reload is heard of once, whatever became of it.
    fn say(&self, result: Result<Option<&Reloaded>, &ReloadError>) {
        match result {
            Ok(None) => {}
            Ok(Some(reloaded)) => log(reloaded),
            Err(error) => {
                self.sidecar.files.faults.fetch_add(1, Ordering::Relaxed);
                if let ReloadError::Load(LoadError::Faults(faults)) = error {
                    faults.iter().for_each(|fault| tracing::error!("{fault}"));
                    tracing::error!(
                        faults = faults.len(),
                        "the configuration was not reloaded: the one before stays in force"
                    );
                } else {
                    let cause = crate::upstream::chain(error);
                    tracing::error!(
                        cause,
                        "the configuration was not reloaded: the one before stays in force"
                    );
                }
            }
        }
    }
}

fn log(reloaded: &Reloaded) {
    let Reloaded { differences, next_start, limits, taken_over, strays, renamed, warnings } = reloaded;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    for difference in differences {
        if difference.takes_away() {
            tracing::warn!("the configuration was changed: {difference}");
        } else {
            tracing::info!("the configuration was changed: {difference}");
        }
    }
    limits.iter().for_each(|difference| tracing::info!(difference, "a limit differs from what was recorded"));
    renamed.iter().for_each(|doubt| tracing::warn!("{doubt}"));
    for one in taken_over {
        tracing::warn!(from = %one.from, by = %one.by, open = one.open, "requests are another action's now: {}", one.sentence());
    }
    strays.iter().for_each(Stray::warn);
    for setting in next_start {
        tracing::warn!("{setting} was changed: that takes effect at the next start");
    }
    tracing::info!(differences = differences.len(), "the configuration was reloaded");
}
