//! Files that are there whole or not at all, and still there after a power cut.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Puts a file in place whole, mode 0600, durable when this returns. The folder is made if it is not there.
///
/// # Errors
/// What the system said. The file is then the old one, or the new one that a power cut could still take back.
pub fn write(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    make(folder)?;
    // A file that is not renamed in the end is removed when it is dropped.
    let mut file = tempfile::Builder::new().prefix(".oncegate-").tempfile_in(folder)?;
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
    let mut file = tempfile::Builder::new().prefix(".oncegate-").tempfile_in(folder)?;
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
}
