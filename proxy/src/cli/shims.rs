//! Small files that help clients which ignore the environment. They carry no secret; everybody may read them.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::exit::Stop;

/// Runs when Python starts.
const PYTHON: &str = include_str!("../../shims/python/sitecustomize.py");
/// Runs when Node starts.
const NODE: &str = include_str!("../../shims/node/preload.cjs");

/// Where the files are, below the directory of what agents trust.
pub(crate) struct Shims {
    /// A directory for PYTHONPATH.
    pub(crate) python: PathBuf,
    /// A file for `--require`.
    pub(crate) node: PathBuf,
}

/// Where the files are or will be.
pub(crate) fn places(trust_dir: &Path) -> Shims {
    let shims = trust_dir.join("shims");
    Shims { python: shims.join("python"), node: shims.join("node").join("preload.cjs") }
}

/// Writes the files of this version, each whole or not at all.
pub(crate) fn write(trust_dir: &Path) -> Result<Shims, Stop> {
    let shims = places(trust_dir);
    for (path, text) in [(shims.python.join("sitecustomize.py"), PYTHON), (shims.node.clone(), NODE)] {
        write_one(&path, text)
            .map_err(|error| Stop::usage(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(shims)
}

fn write_one(path: &Path, text: &str) -> io::Result<()> {
    // Left alone when it is right: a Python or Node that is starting may be reading it.
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    // Outright, since the umask would have its say, and agents may run as others.
    for made in [Some(directory), directory.parent()].into_iter().flatten() {
        fs::set_permissions(made, fs::Permissions::from_mode(0o755))?;
    }
    let mut file = tempfile::Builder::new().prefix(".oncegate-").tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_written_and_written_again() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let shims = write(dir.path()).unwrap();
            assert_eq!(fs::read_to_string(shims.node).unwrap(), NODE);
            assert_eq!(fs::read_to_string(shims.python.join("sitecustomize.py")).unwrap(), PYTHON);
        }
    }
}
