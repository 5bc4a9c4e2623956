//! The public roots: the system's, or Mozilla's where the system has none.

use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use std::sync::{Arc, OnceLock};

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
        SYSTEM.get_or_init(|| Roots::or_mozilla(rustls_native_certs::load_native_certs().certs))
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
