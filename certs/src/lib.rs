//! Trust: our CA, the leaves it mints, and the roots that providers are judged by.
//!
//! What is deliberately absent: no clock (time is handed in), no sockets, no process-wide default crypto
//! provider, and no way to get the CA's key out again.

mod authority;
mod bundle;
mod der;
mod leaf;
mod leaves;
mod name;
mod pem;
mod roots;
mod served;
mod truststore;
mod upstream;

pub use authority::{Authority, AuthorityError, last_second};
pub use bundle::{BundleError, TRUSTSTORE, write_bundle, write_trust};
pub use der::Misshapen;
pub use leaf::MintError;
pub use leaves::Leaves;
pub use name::NameFault;
pub use served::{ServedError, served_config};
pub use upstream::{TrustError, upstream_config};

use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;
use std::sync::{Arc, OnceLock};

/// The one crypto provider of this crate, always named explicitly: what a process has as its default
/// depends on which crate got there first.
///
/// The suites of AES-128 and SHA-256 come first, as in browsers: processors hash with SHA-256 themselves, and not with the
/// SHA-384 that AES-256 comes with here. A handshake hashes a lot.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let made = || {
        let mut provider = rustls::crypto::ring::default_provider();
        provider.cipher_suites.sort_by_key(|suite| !FIRST.contains(&suite.suite()));
        Arc::new(provider)
    };
    Arc::clone(PROVIDER.get_or_init(made))
}

/// Cipher suites that are asked for, and chosen, before all others.
const FIRST: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

/// Bytes that nobody can guess.
fn random<const N: usize>() -> Result<[u8; N], rustls::Error> {
    let mut bytes = [0; N];
    provider().secure_random.fill(&mut bytes)?;
    Ok(bytes)
}
