//! One file of everything an agent should trust, and the same once more for Java.
//!
//! Most clients that take a CA file take it *instead* of the system's roots, so ours alone would cut them
//! off from every host whose TLS is not opened here.

use crate::authority::Authority;
use crate::pem::push_certificate;
use crate::roots::Roots;
use crate::truststore;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why the bundle is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The new bundle could not be written out.
    #[error("cannot write the CA bundle in {}", dir.display())]
    Write {
        /// The directory it should be in.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The new bundle could not take the old one's place.
    #[error("cannot put the new CA bundle in place at {}", path.display())]
    Replace {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The name of what Java trusts, beside the bundle: the same certificates as PKCS#12, without a password.
pub const TRUSTSTORE: &str = "truststore.p12";

/// By everybody; written by the owner alone.
const READABLE: u32 = 0o644;

/// Writes our CA and the system's roots (Mozilla's where it has none) to `bundle.pem` in `dir`, and says where
/// that is; the same certificates to [`TRUSTSTORE`] beside it. Agents see an old file or a new one, never a part.
///
/// # Errors
///
/// When a file cannot be written or put in place.
pub fn write_bundle(dir: &Path, authority: &Authority) -> Result<PathBuf, BundleError> {
    // Ours first: a client that reads only the first certificate is of use here, if nowhere else.
    let mut all: Vec<_> = authority.certificates.iter().collect();
    let roots = &Roots::system().certificates;
    // Ours is among the roots where the process itself was started with an earlier bundle.
    all.extend(roots.iter().filter(|root| !authority.certificates.contains(root)));
    put(dir, TRUSTSTORE, &truststore::contents(&all))?;
    let mut text = String::new();
    for certificate in all {
        push_certificate(&mut text, certificate);
    }
    put(dir, "bundle.pem", text.as_bytes())
}

/// Writes `ca.pem`, `bundle.pem` and [`TRUSTSTORE`] to a directory that holds no secret and that every user may read;
/// makes it if it is not there. Says where the bundle is.
///
/// # Errors
///
/// When the directory cannot be made, or a file cannot be written or put in place.
pub fn write_trust(dir: &Path, authority: &Authority) -> Result<PathBuf, BundleError> {
    let made = std::fs::create_dir_all(dir)
        // As with the files: outright, since the umask would have its say.
        .and_then(|()| std::fs::set_permissions(dir, Permissions::from_mode(0o755)));
    made.map_err(|source| BundleError::Write { dir: dir.to_owned(), source })?;
    put(dir, "ca.pem", authority.certificate_pem().as_bytes())?;
    write_bundle(dir, authority)
}

/// Puts a file in place whole, for everybody to read. One that is there already, and says the same, is left alone.
fn put(dir: &Path, name: &str, content: &[u8]) -> Result<PathBuf, BundleError> {
    let path = dir.join(name);
    if is_there(&path, content) {
        return Ok(path);
    }
    let write = || {
        let mut file = tempfile::Builder::new().prefix(".oncegate-bundle-").tempfile_in(dir)?;
        file.write_all(content)?;
        // Set outright, since the umask would have its say at creation, and agents run as others.
        file.as_file().set_permissions(Permissions::from_mode(READABLE))?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    let file = write().map_err(|source| BundleError::Write { dir: dir.to_owned(), source })?;
    file.persist(&path).map_err(|error| BundleError::Replace { path: path.clone(), source: error.error })?;
    Ok(path)
}

/// Whether a file says this, and may be read by everybody.
fn is_there(path: &Path, content: &[u8]) -> bool {
    let open = std::fs::symlink_metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o7777 == READABLE);
    open && std::fs::read(path).is_ok_and(|there| there == content)
}
