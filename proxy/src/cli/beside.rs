//! What a running sidecar keeps beside its database, so that commands on the same configuration find it. Each file carries
//! the database's own name, as its lock does: another database in the same folder has its own, and a link to this one
//! leads here.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use oncegate_store::lock::own_name;

/// Where the API listens, as text: port 0 is allowed.
pub(crate) fn control_file(database: &Path) -> PathBuf {
    named(database, "-control")
}

/// Where agents connect, as JSON: at port 0, which is allowed, nobody else knows.
pub(crate) fn proxy_file(database: &Path) -> PathBuf {
    named(database, "-proxy")
}

/// Where `oncegate run` asks for a place.
pub(crate) fn run_socket(database: &Path) -> PathBuf {
    named(database, "-run")
}

fn named(database: &Path, suffix: &str) -> PathBuf {
    let mut name = own_name(database).into_os_string();
    name.push(suffix);
    name.into()
}

/// Whether nobody holds the database any more, although somebody has left the file that says where: what the address in
/// it leads to now is another program, or another sidecar. `false` also where it cannot be told.
pub(crate) fn is_abandoned(database: &Path) -> bool {
    let tried = UnixStream::connect(run_socket(database));
    tried.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A file that is true only while this process lives, and is removed when this is dropped: unless another one has put its
/// own in the place.
pub(crate) struct OwnFile {
    path: PathBuf,
    /// Device and number.
    identity: (u64, u64),
}

impl OwnFile {
    /// One that this process has just put there, with what was known of it before it got its name.
    pub(crate) fn of(path: &Path, before: &Metadata) -> Self {
        Self { path: path.to_owned(), identity: (before.dev(), before.ino()) }
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path).ok().map(|there| (there.dev(), there.ino()));
        if there == Some(self.identity) {
            // If it is gone already, so much the better.
            drop(fs::remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_has_files_of_its_own_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let [a, b, link] = ["a.db", "b.db", "link.db"].map(|name| folder.join(name));
        fs::write(&a, "").unwrap();
        std::os::unix::fs::symlink(&a, &link).unwrap();
        assert_eq!(control_file(&a), folder.join("a.db-control"));
        assert_eq!(control_file(&b), folder.join("b.db-control"));
        assert_eq!((run_socket(&link), control_file(&link)), (run_socket(&a), control_file(&a)));
    }

    #[test]
    fn a_file_of_another_one_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let own = |text: &str| {
            let made = folder.path().join("made");
            fs::write(&made, text).unwrap();
            let before = fs::symlink_metadata(&made).unwrap();
            fs::rename(&made, &path).unwrap();
            OwnFile::of(&path, &before)
        };
        let (first, second) = (own("first"), own("second"));
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn only_a_socket_without_a_listener_is_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("once.db");
        assert!(!is_abandoned(&database));
        let listener = std::os::unix::net::UnixListener::bind(run_socket(&database)).unwrap();
        assert!(!is_abandoned(&database));
        drop(listener);
        assert!(is_abandoned(&database));
    }
}
