//! Reads the configuration from disk: one file, or a directory whose `*.toml` are read in the order of their
//! names; and after that what the API has written to `managed/` beside them. The text becomes a [`Config`] in
//! `oncegate-config`, which opens no file itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use oncegate_config::model::Config;
use oncegate_config::{Fault, Source};

use crate::adapting;
use sha2::{Digest, Sha256};

/// Most bytes of one configuration file.
pub(crate) const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A configuration that was read, and where it came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// What relative paths in it are relative to. Absolute.
    pub directory: PathBuf,
    /// The file or directory that was named. Absolute.
    pub file: PathBuf,
    /// What is allowed but doubtful.
    pub warnings: Vec<Fault>,
    /// Of the texts that it was read from.
    pub digest: [u8; 32],
}

impl Loaded {
    /// A path from the configuration, as the process can open it.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    /// Where the database is.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.resolve(&self.config.store.path)
    }

    /// Where the CA's files are.
    #[must_use]
    pub fn ca_dir(&self) -> PathBuf {
        self.resolve(&self.config.ca_dir)
    }

    /// Where agents find what they trust: the CA's own directory, unless another one is named.
    #[must_use]
    pub fn trust_dir(&self) -> PathBuf {
        self.resolve(self.config.trust_dir.as_ref().unwrap_or(&self.config.ca_dir))
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or directory cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory without a single `*.toml`.
    #[error("{} holds no *.toml file", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// The catalogue that presets are taken from is broken: a defect of this build.
    #[error(transparent)]
    Catalogue(#[from] oncegate_adapters::catalog::CatalogFault),
    /// What was read is wrong: every fault, one a line.
    #[error("{}", listed(.0))]
    Faults(Vec<Fault>),
}

/// One file's name, as it is shown in faults, and its text.
#[derive(Clone, Debug)]
pub struct Text {
    /// As the operator wrote the path.
    pub name: String,
    /// All of it.
    pub text: String,
}

/// Reads and judges the configuration at `path`.
///
/// # Errors
///
/// When it cannot be read, and when it has faults.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    judge(path, &read(path)?)
}

/// Judges texts that [`read`] has read from `path`.
///
/// # Errors
///
/// When they have faults.
pub fn judge(path: &Path, texts: &[Text]) -> Result<Loaded, LoadError> {
    let sources: Vec<Source<'_>> =
        texts.iter().map(|text| Source { name: &text.name, text: &text.text }).collect();
    let parsed = oncegate_config::parse_with(&sources, &adapting::presets()?).map_err(LoadError::Faults)?;
    let unread = |source| LoadError::Read { path: path.to_owned(), source };
    let file = std::path::absolute(path).map_err(unread)?;
    let directory = if file.is_dir() {
        file.clone()
    } else {
        file.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned)
    };
    Ok(Loaded { config: parsed.config, directory, file, warnings: parsed.warnings, digest: digest(texts) })
}

/// Where the API keeps what it defines, beside the configuration at `path`.
#[must_use]
pub fn managed_folder(path: &Path) -> PathBuf {
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    directory.join("managed")
}

/// Tells other texts from the same ones, in whatever way the path to them is written.
#[must_use]
pub fn digest(texts: &[Text]) -> [u8; 32] {
    let mut digest = Sha256::new();
    let name = |text: &'_ Text| Path::new(&text.name).file_name().unwrap_or_default().to_owned();
    for text in texts {
        for part in [name(text).as_encoded_bytes(), text.text.as_bytes()] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
    }
    digest.finalize().into()
}

/// The texts at `path`.
///
/// # Errors
///
/// When one of them cannot be read or is too large, and when a directory has none.
pub fn read(path: &Path) -> Result<Vec<Text>, LoadError> {
    let unread = |source| LoadError::Read { path: path.to_owned(), source };
    if !fs::metadata(path).map_err(unread)?.is_dir() {
        return std::iter::once(path.to_owned()).chain(managed(path)?).map(|file| read_file(&file)).collect();
    }
    let mut files = listed_in(path)?;
    if files.is_empty() {
        return Err(LoadError::Empty { path: path.to_owned() });
    }
    files.extend(managed(path)?);
    files.iter().map(|file| read_file(file)).collect()
}

/// What the API has written beside a configuration.
fn managed(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let folder = managed_folder(path);
    if folder.is_dir() { listed_in(&folder) } else { Ok(Vec::new()) }
}

/// The `*.toml` of a directory, in the order of their names.
fn listed_in(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let unread = |source| LoadError::Read { path: path.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unread)? {
        let file = entry.map_err(unread)?.path();
        // Editors leave `.#x.toml` and `x.toml~`; only what a person sees as a file of this kind counts.
        let hidden = file.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && file.extension().is_some_and(|extension| extension == "toml") && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> Result<Text, LoadError> {
    let unread = |source| LoadError::Read { path: path.to_owned(), source };
    if fs::metadata(path).map_err(unread)?.len() > FILE_BYTES_MAX {
        return Err(unread(io::Error::other("the file is larger than 4 MiB")));
    }
    let text = fs::read_to_string(path).map_err(unread)?;
    Ok(Text { name: path.display().to_string(), text })
}

fn listed(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_in_the_order_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["20-b.toml", "10-a.toml", ".hidden.toml", "notes.txt"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let texts = read(dir.path()).unwrap();
        let names: Vec<_> = texts.iter().map(|text| text.name.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["10-a.toml", "20-b.toml"]);
    }

    #[test]
    fn what_the_api_has_written_is_read_last() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("oncegate.toml"), "").unwrap();
        fs::create_dir(dir.path().join("managed")).unwrap();
        fs::write(dir.path().join("managed/limits.toml"), "").unwrap();
        for path in [dir.path().to_owned(), dir.path().join("oncegate.toml")] {
            let texts = read(&path).unwrap();
            let names: Vec<_> = texts.iter().map(|text| text.name.rsplit('/').next().unwrap()).collect();
            assert_eq!(names, ["oncegate.toml", "limits.toml"]);
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(read(dir.path()), Err(LoadError::Empty { .. })));
        let error = load(&dir.path().join("no.toml")).unwrap_err();
        assert!(error.to_string().contains("no.toml"), "{error}");
    }
}
