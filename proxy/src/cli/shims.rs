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
    /// A file for WGETRC.
    pub(crate) wget: PathBuf,
}

/// Where the files are or will be.
pub(crate) fn places(trust_dir: &Path) -> Shims {
    let shims = trust_dir.join("shims");
    Shims {
        python: shims.join("python"),
        node: shims.join("node").join("preload.cjs"),
        wget: shims.join("wget").join("wgetrc"),
    }
}

/// Writes the files of this version, each whole or not at all.
pub(crate) fn write(trust_dir: &Path) -> Result<Shims, Stop> {
    let shims = places(trust_dir);
    // wget reads no variable for roots, but one that names such a file.
    let wget = format!("ca_certificate = {}\n", trust_dir.join("bundle.pem").display());
    let files = [
        (shims.python.join("sitecustomize.py"), PYTHON),
        (shims.node.clone(), NODE),
        (shims.wget.clone(), &wget),
    ];
    for (path, text) in files {
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
    fn all_are_written_and_written_again() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let shims = write(dir.path()).unwrap();
            assert_eq!(fs::read_to_string(shims.node).unwrap(), NODE);
            let bundle = dir.path().join("bundle.pem");
            let wget = fs::read_to_string(shims.wget).unwrap();
            assert_eq!(wget, format!("ca_certificate = {}\n", bundle.display()));
            assert_eq!(fs::read_to_string(shims.python.join("sitecustomize.py")).unwrap(), PYTHON);
        }
    }
}
