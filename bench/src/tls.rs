//! Certificates of the rig's own: the origin's, and what each side trusts.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::{During, Failure};

/// The origin's name.
pub const HOST: &str = "api.bench.test";
/// What the names end in that stand for hosts never seen before.
pub const FRESH_HOSTS: &str = "fresh.bench.test";

/// What the origin shows, and the authority that vouches for it.
pub struct Origin {
    /// Serves TLS for [`HOST`] and everything below [`FRESH_HOSTS`].
    pub server: Arc<ServerConfig>,
    /// The authority, as PEM.
    pub ca_pem: String,
}

/// Makes the origin's authority and certificate.
///
/// # Errors
/// A key or certificate could not be made.
pub fn origin() -> Result<Origin, Failure> {
    let (issuer, ca_pem) = authority().during("make the origin's authority")?;
    let (chain, key) = leaf(&issuer).during("make the origin's certificate")?;
    let mut server = ServerConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        .during("serve TLS")?
        .with_no_client_auth()
        .with_single_cert(vec![chain], key.into())
        .during("serve TLS")?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Origin { server: Arc::new(server), ca_pem })
}

fn authority() -> Result<(Issuer<'static, KeyPair>, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "the bench's origin");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let pem = params.self_signed(&key)?.pem();
    Ok((Issuer::new(params, key), pem))
}

fn leaf(
    issuer: &Issuer<'static, KeyPair>,
) -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec![HOST.to_owned(), format!("*.{FRESH_HOSTS}")])?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate.der().clone(), key.serialize_der().into()))
}

/// A client that trusts these certificates alone. One that never resumes pays for a full handshake each time.
///
/// # Errors
/// The text is no PEM, or holds no certificate that can be trusted.
pub fn client(ca_pem: &[u8], resumes: bool) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem) {
        roots.add(certificate.during("read a CA")?).during("trust a CA")?;
    }
    let mut config = ClientConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        .during("speak TLS")?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if !resumes {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
