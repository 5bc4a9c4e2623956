//! A certificate authority of the tests' own, for the providers.

use std::sync::{Arc, OnceLock};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "Oncegate tests' provider CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    })
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The authority's certificate, for a host's `ca_file`.
pub fn pem() -> &'static str {
    &authority().pem
}

fn leaf(names: &[&str]) -> (Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let leaf = params.signed_by(&key, &authority().issuer).unwrap();
    (leaf, key)
}

/// A certificate of the authority for the given names, and its key, both as PEM.
pub fn server_pem(names: &[&str]) -> (String, String) {
    let (leaf, key) = leaf(names);
    (leaf.pem(), key.serialize_pem())
}

/// What a provider serves TLS with, for the given names.
pub fn server_config(names: &[&str]) -> Arc<ServerConfig> {
    let (leaf, key) = leaf(names);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// What an agent trusts: the certificates in one PEM text and nothing else.
pub fn client_config(pem: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(cert.unwrap()).unwrap();
    }
    assert!(!roots.is_empty(), "no certificate in {pem:?}");
    let mut config = ClientConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}
