//! The CA's two files on disk.

use super::error::AuthorityError;
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Where the two files are.
pub(super) struct Files {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Files {
    pub(super) fn in_dir(dir: &Path) -> Files {
        Files { certificate: dir.join("ca.pem"), key: dir.join("ca.key") }
    }

    /// Whether both are there; one alone is an error.
    pub(super) fn present(&self) -> Result<bool, AuthorityError> {
        let half = |present: &PathBuf, missing: &PathBuf| {
            Err(AuthorityError::Half { present: present.clone(), missing: missing.clone() })
        };
        match (is_there(&self.certificate)?, is_there(&self.key)?) {
            (true, true) => Ok(true),
            (false, false) => Ok(false),
            (true, false) => half(&self.certificate, &self.key),
            (false, true) => half(&self.key, &self.certificate),
        }
    }

    pub(super) fn read_certificate(&self) -> Result<Vec<u8>, AuthorityError> {
        std::fs::read(&self.certificate)
            .map_err(|source| AuthorityError::Read { path: self.certificate.clone(), source })
    }

    /// Reads the key, unless others may too.
    pub(super) fn read_key(&self) -> Result<Vec<u8>, AuthorityError> {
        let unreadable = |source| AuthorityError::Read { path: self.key.clone(), source };
        let mut file = File::open(&self.key).map_err(unreadable)?;
        // Asked of the open file, not of the name: what is checked is what is read.
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(AuthorityError::KeyExposed { path: self.key.clone(), mode });
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(unreadable)?;
        Ok(text)
    }

    /// Writes a new pair. Neither name is ever seen with half a file behind it, and nothing that is there
    /// already is overwritten.
    pub(super) fn publish(&self, dir: &Path, certificate: &str, key: &str) -> Result<(), AuthorityError> {
        let new_key = write_aside(dir, &self.key, key, 0o600)?;
        let new_certificate = write_aside(dir, &self.certificate, certificate, 0o644)?;
        put_in_place(new_key, &self.key)?;
        if let Err(error) = put_in_place(new_certificate, &self.certificate) {
            // The key is ours, just made and of no use alone; left behind it would stop every later start.
            let _ = std::fs::remove_file(&self.key);
            return Err(error);
        }
        // Without it a power cut may forget the names, and agents would meet another CA than they trust.
        sync_dir(dir).map_err(|source| AuthorityError::Write { path: dir.to_owned(), source })
    }
}

/// Makes the directory and those above it, for the owner alone, unless it is there.
pub(super) fn create_dir(dir: &Path) -> Result<(), AuthorityError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|source| AuthorityError::CreateDirectory { path: dir.to_owned(), source })
}

fn is_there(path: &Path) -> Result<bool, AuthorityError> {
    path.try_exists().map_err(|source| AuthorityError::Inspect { path: path.to_owned(), source })
}

/// Writes `text` to a file of another name in `dir`, which vanishes if it never gets its own.
fn write_aside(dir: &Path, path: &Path, text: &str, mode: u32) -> Result<NamedTempFile, AuthorityError> {
    let write = || -> io::Result<NamedTempFile> {
        // The mode is given at creation, with O_EXCL: there is no moment at which others could open a key.
        let mut file = tempfile::Builder::new()
            .prefix(".oncegate-ca-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(dir)?;
        // And outright, since the umask had its say: agents that run as others read the certificate.
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(|source| AuthorityError::Write { path: path.to_owned(), source })
}

fn put_in_place(file: NamedTempFile, path: &Path) -> Result<(), AuthorityError> {
    file.persist_noclobber(path)
        .map(drop)
        .map_err(|error| AuthorityError::Publish { path: path.to_owned(), source: error.error })
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    // An empty path is a relative directory's way to say "here".
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir)?.sync_all()
}
