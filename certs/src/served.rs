//! What a listener of ours proves itself with: a certificate and a key that the operator made.

use crate::provider;
use rustls::ServerConfig;
use rustls::version::{TLS12, TLS13};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// Why a certificate and its key cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServedError {
    /// The certificate's file is not PEM.
    #[error("cannot read the certificate as PEM")]
    Certificate {
        /// What the PEM reader said.
        source: rustls_pki_types::pem::Error,
    },
    /// The file holds no certificate.
    #[error("the certificate's file holds no PEM certificate")]
    NoCertificate,
    /// The key's file holds no key. The reader's own words are left out: they may hold a piece of it.
    #[error("the key's file holds no PEM private key")]
    Key,
    /// They do not belong together, or the TLS library cannot use them.
    #[error("the certificate and the key cannot be used together")]
    Unfit {
        /// What the TLS library said.
        source: rustls::Error,
    },
}

/// For serving HTTP/1.1 over TLS 1.2 and 1.3 with the operator's own certificate; asks for none of the client's.
///
/// # Errors
/// Either text is not what it should be, or they do not belong together.
pub fn served_config(certificate_pem: &[u8], key_pem: &[u8]) -> Result<Arc<ServerConfig>, ServedError> {
    let chain = CertificateDer::pem_slice_iter(certificate_pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| ServedError::Certificate { source })?;
    if chain.is_empty() {
        return Err(ServedError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| ServedError::Key)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|source| ServedError::Unfit { source })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_certificate_and_its_own_key() {
        let made = |name: &str| {
            let key = rcgen::KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
            (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
        };
        let ((certificate, key), (_, other)) = (made("control.test"), made("control.test"));
        assert!(served_config(certificate.as_bytes(), key.as_bytes()).is_ok());
        for (certificate, key, why) in [
            (certificate.as_str(), other.as_str(), "cannot be used together"),
            (&certificate, &certificate, "no PEM private key"),
            (&key, &key, "no PEM certificate"),
            ("", &key, "no PEM certificate"),
        ] {
            let error = served_config(certificate.as_bytes(), key.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
