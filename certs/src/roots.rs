//! The public roots: the system's, or Mozilla's where the system has none.

use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Where distributions keep all roots in one file: Debian and Alpine, Fedora and RHEL (new and old), SUSE, the BSDs. The
/// first that holds any is taken. Not on macOS: what is trusted there is a setting of the system and of its user, which
/// no file follows.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Roots in both forms: to write out, and to judge by.
pub(crate) struct Roots {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) store: Arc<RootCertStore>,
}

impl Roots {
    /// The roots of this system, read once: it takes milliseconds, and a running proxy should not change its
    /// mind about them from one host to the next.
    pub(crate) fn system() -> &'static Roots {
        static SYSTEM: OnceLock<Roots> = OnceLock::new();
        // A file that cannot be read is no reason to stop: the others, or Mozilla's, are trusted then.
        SYSTEM.get_or_init(|| Roots::or_mozilla(of_the_system()))
    }

    fn or_mozilla(found: Vec<CertificateDer<'static>>) -> Roots {
        let roots = Roots::usable(found);
        if roots.certificates.is_empty() {
            return Roots::usable(webpki_root_certs::TLS_SERVER_ROOT_CERTS.to_vec());
        }
        roots
    }

    /// Those that can be a root at all; systems carry a few that no current library parses.
    fn usable(found: Vec<CertificateDer<'static>>) -> Roots {
        let mut store = RootCertStore::empty();
        let mut certificates = Vec::with_capacity(found.len());
        for certificate in found {
            if store.add(certificate.clone()).is_ok() {
                certificates.push(certificate);
            }
        }
        Roots { certificates, store: Arc::new(store) }
    }
}

/// From the one file that holds them all, else from wherever the system keeps them, or `SSL_CERT_FILE` and `SSL_CERT_DIR`
/// say.
fn of_the_system() -> Vec<CertificateDer<'static>> {
    let told = |name| std::env::var_os(name).map(PathBuf::from);
    let whole = whole(told("SSL_CERT_FILE"), told("SSL_CERT_DIR"));
    whole.unwrap_or_else(|| rustls_native_certs::load_native_certs().certs)
}

/// All roots, where one file has them. A directory that holds the file itself, under a name that distributions give it, is
/// what it was made of: hundreds of files, and the same certificates once more. A file of any other name may hold roots
/// of its own beside them.
fn whole(file: Option<PathBuf>, dir: Option<PathBuf>) -> Option<Vec<CertificateDer<'static>>> {
    let found = match (file, dir) {
        (None, None) if cfg!(target_os = "macos") => None,
        (None, None) => BUNDLES.iter().map(Path::new).map(in_file).find(|found| !found.is_empty()),
        (Some(file), Some(dir)) if file.parent() == Some(&dir) && named_as_a_bundle(&file) => {
            Some(in_file(&file))
        }
        (Some(_), _) | (None, Some(_)) => None,
    };
    found.filter(|found| !found.is_empty())
}

fn named_as_a_bundle(file: &Path) -> bool {
    BUNDLES.iter().any(|bundle| Path::new(bundle).file_name() == file.file_name())
}

fn in_file(path: &Path) -> Vec<CertificateDer<'static>> {
    // Most of them are not there.
    rustls_native_certs::load_certs_from_paths(Some(path), None).certs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pem::push_certificate;

    #[test]
    fn a_system_without_roots_gets_mozillas() {
        let garbage = CertificateDer::from(vec![1, 2, 3]);
        for found in [vec![], vec![garbage]] {
            let roots = Roots::or_mozilla(found);
            assert!(roots.certificates.len() > 50);
            assert_eq!(roots.certificates.len(), roots.store.len());
        }
    }

    #[test]
    fn a_system_with_one_root_is_left_with_it() {
        let own = webpki_root_certs::TLS_SERVER_ROOT_CERTS[0].clone();
        let roots = Roots::or_mozilla(vec![CertificateDer::from(vec![0]), own.clone()]);
        assert_eq!(roots.certificates, [own]);
        assert_eq!(roots.store.len(), 1);
    }

    #[test]
    fn a_file_of_ones_own_does_not_stand_for_the_directory_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = String::new();
        push_certificate(&mut text, &webpki_root_certs::TLS_SERVER_ROOT_CERTS[0]);
        for (name, stands) in [("ca-certificates.crt", true), ("corporate.pem", false)] {
            let file = folder.path().join(name);
            std::fs::write(&file, &text).unwrap();
            let found = whole(Some(file), Some(folder.path().to_owned()));
            assert_eq!(found.map(|found| found.len()), stands.then_some(1), "{name}");
        }
    }

    #[test]
    fn where_a_variable_says_where_roots_are_no_other_file_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let here = || Some(folder.path().to_owned());
        let file = || Some(folder.path().join("ca-certificates.crt"));
        for (file, dir) in [(file(), None), (None, here()), (file(), here())] {
            assert_eq!(whole(file, dir), None);
        }
    }
}
