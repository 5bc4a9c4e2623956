//! Edits of `managed/`: judged, written whole, and put back where what was to follow has failed.

use std::path::{Path, PathBuf};

use super::{Ready, ReloadError, ReplaceError};
use crate::durable;
use crate::load::Text;
use crate::state::Snapshot;

/// One file of `managed/` as it is to be.
#[derive(Clone, Debug)]
pub struct ManagedEdit {
    /// Its name, `actions.toml` for example.
    pub file: &'static str,
    /// All of its text; `None` removes it.
    pub text: Option<String>,
}

/// An edit that was judged and is good.
pub struct Prepared {
    pub(super) ready: Ready,
    pub(super) folder: PathBuf,
    pub(super) edits: Vec<ManagedEdit>,
    /// The same files as they are.
    pub(super) before: Vec<ManagedEdit>,
}

impl Prepared {
    /// What will be in force.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.ready.snapshot
    }

    /// Writes the files, each whole and durable, in the order of the edits.
    ///
    /// # Errors
    /// The first that could not be written.
    pub async fn write(&self) -> Result<(), ReplaceError> {
        let (folder, edits) = (self.folder.clone(), self.edits.clone());
        let written = tokio::task::spawn_blocking(move || write(&folder, edits)).await;
        let written = written.map_err(ReloadError::from)?;
        if written.is_err() {
            self.put_back().await;
        }
        written
    }

    /// Undoes [`Self::write`]: what was to follow it has failed. `false` where that has failed too, which the log says:
    /// then the files say what the record does not, until they are read the next time.
    pub async fn put_back(&self) -> bool {
        put_back(self.folder.clone(), self.before.clone()).await
    }
}

pub(super) async fn put_back(folder: PathBuf, before: Vec<ManagedEdit>) -> bool {
    match tokio::task::spawn_blocking(move || write(&folder, before)).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            let cause = crate::upstream::chain(&error);
            tracing::error!(cause, "an edit that was not made stays in its file");
            false
        }
        Err(error) => {
            tracing::error!(%error, "an edit that was not made may stay in its file");
            false
        }
    }
}

/// In their order, up to the first that cannot be written.
fn write(folder: &Path, edits: Vec<ManagedEdit>) -> Result<(), ReplaceError> {
    for ManagedEdit { file, text } in edits {
        let written = match text {
            Some(text) => durable::write(folder, file, text.as_bytes()),
            None => durable::remove(folder, file),
        };
        written.map_err(|source| ReplaceError::Write { file, source })?;
    }
    Ok(())
}

/// The files that are edited, as they stand.
pub(super) fn before(standing: &[Text], folder: &Path, edits: &[ManagedEdit]) -> Vec<ManagedEdit> {
    let as_it_is = |edit: &ManagedEdit| {
        let name = folder.join(edit.file).display().to_string();
        let text = standing.iter().find(|text| text.name == name).map(|text| text.text.clone());
        ManagedEdit { file: edit.file, text }
    };
    edits.iter().map(as_it_is).collect()
}

/// The texts as they will be: `managed/` is read last, so what is new there comes last.
pub(super) fn edit(standing: &[Text], folder: &Path, edits: &[ManagedEdit]) -> Vec<Text> {
    let named = |edit: &ManagedEdit| folder.join(edit.file).display().to_string();
    let untouched = |text: &&Text| !edits.iter().any(|edit| named(edit) == text.name);
    let kept = standing.iter().filter(untouched).cloned();
    let edited = edits.iter().filter_map(|edit| Some(Text { name: named(edit), text: edit.text.clone()? }));
    let mut texts: Vec<Text> = kept.chain(edited).collect();
    let managed = texts.iter().position(|text| Path::new(&text.name).parent() == Some(folder));
    // As `load::read` sorts them: the same texts must have the same digest.
    if let Some(managed) = texts.get_mut(managed.unwrap_or(usize::MAX)..) {
        managed.sort_by(|one, other| Path::new(&one.name).cmp(Path::new(&other.name)));
    }
    texts
}
