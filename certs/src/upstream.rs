//! How a provider is judged when it is dialled.

use crate::roots::Roots;
use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::sync::Arc;

/// Why providers cannot be dialled over TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The extra CA file is not PEM.
    #[error("cannot read the extra CA as PEM")]
    Pem {
        /// What the PEM reader said.
        source: rustls_pki_types::pem::Error,
    },
    /// The extra CA file holds no certificate.
    #[error("the extra CA file holds no PEM certificate")]
    NoCertificate,
    /// One of the extra certificates cannot be a root.
    #[error("cannot trust certificate {number} of the extra CA file")]
    Root {
        /// Which one, counted from 1.
        number: usize,
        /// What the TLS library said.
        source: rustls::Error,
    },
    /// The TLS library lacks what is asked of it.
    #[error("cannot set up TLS 1.2 and 1.3")]
    Versions {
        /// What the TLS library said.
        source: rustls::Error,
    },
}

/// For dialling providers: trusts the system's roots (Mozilla's where it has none) and those in
/// `extra_ca_pem`, shows no client certificate, and offers `alpn` in that order.
///
/// # Errors
///
/// When `extra_ca_pem` is given and anything in it cannot be trusted: half a CA file is a mistake to hear of.
pub fn upstream_config(extra_ca_pem: Option<&[u8]>, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = Arc::clone(&Roots::system().store);
    if let Some(pem) = extra_ca_pem {
        let store = Arc::make_mut(&mut roots);
        for (index, certificate) in extra(pem)?.into_iter().enumerate() {
            store.add(certificate).map_err(|source| TrustError::Root { number: index + 1, source })?;
        }
    }
    let mut config = ClientConfig::builder_with_provider(crate::provider())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|source| TrustError::Versions { source })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    // Early data can be played again by anyone on the path, and what we send is sent at most once.
    config.enable_early_data = false;
    Ok(Arc::new(config))
}

fn extra(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| TrustError::Pem { source })?;
    if certificates.is_empty() {
        return Err(TrustError::NoCertificate);
    }
    Ok(certificates)
}
