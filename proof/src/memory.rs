//! Where the databases of a proof are that asks what the law says, and not what the disk keeps.

use std::path::Path;

use tempfile::TempDir;

use crate::failure::{During, Failure};

/// Files here never wait for a disk.
const MEMORY: &str = "/dev/shm";

/// A folder in memory where the system has one, else among the temporary files; gone with the value.
pub(crate) fn folder() -> Result<TempDir, Failure> {
    let in_memory = tempfile::tempdir_in(Path::new(MEMORY));
    in_memory.or_else(|_| tempfile::tempdir()).during("make a folder for a database")
}
