//! Whether the database is still where it was opened. A file that is moved or removed goes on taking what is written, and
//! so does its log: all looks well until a restart makes a new one, in which nothing is known of what was sent.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::found::log_of;

/// The database and its log, as they were opened.
#[derive(Debug)]
pub(crate) struct Place {
    files: [(PathBuf, FileId); 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl Place {
    /// Of a database that is open and was written to: its log is there.
    pub(crate) fn of(database: &Path) -> io::Result<Self> {
        let known = |path: PathBuf| id_of(&path).map(|id| (path, id));
        Ok(Self { files: [known(database.to_owned())?, known(log_of(database))?] })
    }

    /// Whether another file, or none, is where one of the two was. A place that cannot be looked at counts as it was.
    pub(crate) fn is_left(&self) -> bool {
        self.files.iter().any(|(path, opened)| match id_of(path) {
            Ok(found) => found != *opened,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        })
    }
}

fn id_of(path: &Path) -> io::Result<FileId> {
    let found = std::fs::metadata(path)?;
    Ok(FileId { device: found.dev(), inode: found.ino() })
}
