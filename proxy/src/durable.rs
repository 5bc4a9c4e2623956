//! Files that are there whole or not at all, and still there after a power cut.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What a file is called until it is whole.
const UNFINISHED: &str = ".oncegate-";
/// A file that is older than this and not whole is nobody's any more. Another sidecar may write to the same folder.
const UNFINISHED_AFTER: Duration = Duration::from_secs(10);

/// Puts a file in place whole, mode 0600, durable when this returns. The folder is made if it is not there.
///
/// # Errors
/// What the system said. The file is then the old one, or the new one that a power cut could still take back.
pub fn write(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    make(folder)?;
    // A file that is not renamed in the end is removed when it is dropped.
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name)).map_err(|error| error.error)?;
    sync(folder)
}

/// The same for a file that is not there yet.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`], and what else the system said. Nothing is overwritten.
pub fn write_new(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    make(folder)?;
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(folder.join(name)).map_err(|error| error.error)?;
    sync(folder)
}

/// Removes a file; one that is not there is removed already.
///
/// # Errors
/// What the system said.
pub fn remove(folder: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(folder.join(name)) {
        Ok(()) => sync(folder),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes what a process that was killed has left half written: it may hold a secret. A folder that is not there holds
/// nothing.
///
/// # Errors
/// What the system said.
pub fn remove_unfinished(folder: &Path, now: SystemTime) -> io::Result<()> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    for file in listed {
        let file = file?;
        if !file.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            continue;
        }
        // One that is gone meanwhile was somebody's after all.
        let Ok(written) = file.metadata().and_then(|there| there.modified()) else { continue };
        if now.duration_since(written).is_ok_and(|age| age >= UNFINISHED_AFTER) {
            fs::remove_file(file.path())?;
        }
    }
    Ok(())
}

fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    folder.parent().map_or(Ok(()), sync)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_whole_private_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("managed");
        for content in ["one", "two"] {
            write(&folder, "limits.toml", content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(folder.join("limits.toml")).unwrap(), content);
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("limits.toml"))), (0o700, 0o600));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        let again = write_new(&folder, "limits.toml", b"three").unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(folder.join("limits.toml")).unwrap(), "two");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        for _ in 0..2 {
            remove(&folder, "limits.toml").unwrap();
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn only_what_is_nobodys_any_more_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        remove_unfinished(&dir.path().join("managed"), SystemTime::UNIX_EPOCH).unwrap();
        for name in [".oncegate-a1b2c3", "vault.json"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        let left = || fs::read_dir(dir.path()).unwrap().count();
        let written = fs::metadata(dir.path().join("vault.json")).unwrap().modified().unwrap();
        remove_unfinished(dir.path(), written + UNFINISHED_AFTER / 2).unwrap();
        assert_eq!(left(), 2, "somebody may be about to name it");
        remove_unfinished(dir.path(), written + 2 * UNFINISHED_AFTER).unwrap();
        assert_eq!(left(), 1);
        assert!(dir.path().join("vault.json").exists());
    }
}
