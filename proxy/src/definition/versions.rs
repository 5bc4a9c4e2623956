//! What a definition was before: one file for each version, written once.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use oncegate_policy::action::ActionName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::durable;

/// The folder in the managed one. Its files do not end in `.toml`: the configuration does not read them.
const FOLDER: &str = "versions";
/// Most versions of one action.
const VERSIONS_MAX: usize = 1_000;

/// One version of a definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    /// From 1.
    pub(crate) version: usize,
    /// When it was made; `None` if that was not through the API.
    pub(crate) created_at: Option<String>,
    /// The caller that made it; `None` if that was not through the API.
    pub(crate) author: Option<String>,
    /// As the API shows it.
    pub(crate) definition: Value,
}

/// A version as its file has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    #[serde(flatten)]
    version: Version,
    /// The entry of the configuration, as TOML: what is compared.
    entry: String,
}

/// The versions of one action.
pub(crate) struct Versions {
    folder: PathBuf,
    kept: Vec<Kept>,
}

/// What is to be recorded.
pub(crate) struct Said<'a> {
    /// The entry of the configuration, as TOML.
    pub(crate) entry: &'a str,
    /// As the API shows it.
    pub(crate) definition: &'a Value,
    /// Who has made it, and when.
    pub(crate) by: Option<(&'a str, &'a str)>,
}

impl Versions {
    /// Reads those of an action, of the managed folder.
    ///
    /// # Errors
    /// What the system said, or that a file is not one of ours.
    pub(crate) fn of(managed: &Path, action: &ActionName) -> io::Result<Self> {
        let folder = managed.join(FOLDER).join(action.as_str());
        let mut kept = Vec::new();
        for number in 1..=VERSIONS_MAX {
            match fs::read(folder.join(file(number))) {
                Ok(text) => kept.push(serde_json::from_slice(&text)?),
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Self { folder, kept })
    }

    /// Records what is said now, unless it is what was said last. `false` when as many are kept as may be.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn record(&mut self, said: &Said<'_>) -> io::Result<bool> {
        if self.kept.last().is_some_and(|last| last.entry == said.entry) {
            return Ok(true);
        }
        // The last place is for what a caller changes, and never for what stood before it: that comes first, and a
        // change is refused before anything is written.
        let max = if said.by.is_some() { VERSIONS_MAX } else { VERSIONS_MAX - 1 };
        if self.kept.len() >= max {
            return Ok(false);
        }
        let kept = Kept { version: self.next(said), entry: said.entry.to_owned() };
        let text = serde_json::to_vec_pretty(&kept)?;
        durable::write_new(&self.folder, &file(kept.version.version), &text)?;
        self.kept.push(kept);
        Ok(true)
    }

    /// Whether what a caller makes of it can be recorded: for it to be asked before anything is changed.
    pub(crate) fn has_room_for(&self, entry: &str) -> bool {
        self.kept.len() < VERSIONS_MAX || self.kept.last().is_some_and(|last| last.entry == entry)
    }

    /// All of them, oldest first; what is said now is the last one, also where somebody has written it past the API.
    pub(crate) fn shown(self, said: &Said<'_>) -> Vec<Version> {
        let recorded = self.kept.last().is_some_and(|last| last.entry == said.entry);
        let unrecorded = (!recorded).then(|| self.next(said));
        self.kept.into_iter().map(|kept| kept.version).chain(unrecorded).collect()
    }

    fn next(&self, said: &Said<'_>) -> Version {
        let last = self.kept.last().map_or(0, |last| last.version.version);
        Version {
            version: last + 1,
            created_at: said.by.map(|(_, at)| at.to_owned()),
            author: said.by.map(|(author, _)| author.to_owned()),
            definition: said.definition.clone(),
        }
    }
}

fn file(number: usize) -> String {
    format!("{number:06}.json")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_version_is_written_once_and_what_was_written_by_hand_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let name = ActionName::parse("open.ticket").unwrap();
        let definition = json!({ "name": "open.ticket" });
        let by = |author| Some((author, "2026-01-01T00:00:00Z"));
        let said = |entry, by| Said { entry, definition: &definition, by };
        let mut versions = Versions::of(dir.path(), &name).unwrap();
        for entry in ["a = 1", "a = 1", "a = 2"] {
            versions.record(&said(entry, by("ops"))).unwrap();
        }
        let read = || Versions::of(dir.path(), &name).unwrap();
        let numbers = |entry| {
            let shown = read().shown(&said(entry, None));
            shown.into_iter().map(|version| (version.version, version.author.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(numbers("a = 2"), [(1, true), (2, true)]);
        assert_eq!(numbers("a = 3"), [(1, true), (2, true), (3, false)]);
        assert_eq!(fs::read_dir(dir.path().join("versions/open.ticket")).unwrap().count(), 2);
        // Two that have read the same: the second one does not overwrite.
        let (mut one, mut other) = (read(), read());
        one.record(&said("a = 4", by("ops"))).unwrap();
        assert_eq!(other.record(&said("a = 5", by("ops"))).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
}
