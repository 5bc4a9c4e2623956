//! Minting: one certificate for one server name.

use crate::authority::{Authority, BACKDATE, serial, utc};
use crate::der::{Misshapen, Unsigned};
use crate::name::{LeafName, NameFault};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SignatureAlgorithm, SigningKey as _,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls::crypto::ring::sign::any_ecdsa_type;
use rustls::sign::SigningKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// From a leaf's first second to its last: 90 days, counting both.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600 - 1);
/// How long before its end a leaf is no longer handed out: a connection made with it may live on.
const RENEW_BEFORE: Duration = Duration::from_hours(24);
/// Bytes of a point of P-256: its kind and two coordinates.
const POINT_BYTES: usize = 65;
/// The longest common name X.509 allows.
const LONGEST_COMMON_NAME: usize = 64;

/// Why there is no certificate for a name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The name cannot stand in a certificate.
    #[error("cannot mint for this server name")]
    Name {
        /// What is wrong with it.
        source: NameFault,
    },
    /// The time handed in is beyond what a certificate can say.
    #[error("the clock is outside the range of certificate dates")]
    Clock,
    /// The CA's time is over, so nobody would believe a leaf of it.
    #[error("the CA has expired: restart with a new one")]
    AuthorityExpired,
    /// The system gave no randomness.
    #[error("cannot get random bytes for a serial number")]
    Random {
        /// What the provider said.
        source: rustls::Error,
    },
    /// The leaf's key could not be made.
    #[error("cannot generate the leaf's key")]
    Key {
        /// What the TLS library said.
        source: rustls::Error,
    },
    /// The certificate could not be put together.
    #[error("cannot draft the leaf")]
    Draft {
        /// What the generator said.
        source: rcgen::Error,
    },
    /// The draft could not be given its issuer.
    #[error("cannot name the leaf's issuer")]
    Issuer {
        /// What is wrong with the draft.
        source: Misshapen,
    },
    /// The CA's key did not sign.
    #[error("cannot sign the leaf")]
    Sign {
        /// What the signer said.
        source: rcgen::Error,
    },
    /// TLS does not take the leaf.
    #[error("cannot serve TLS with the leaf")]
    Serve {
        /// What the TLS library said.
        source: rustls::Error,
    },
}

/// A minted certificate with its key and when it may be used.
pub(crate) struct Leaf {
    /// The leaf, then what leads from it to the root.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: Arc<dyn SigningKey>,
    pub(crate) usable_from: SystemTime,
    /// From here on another is minted.
    pub(crate) usable_until: SystemTime,
}

impl Authority {
    /// Mints a certificate with a key of its own.
    pub(crate) fn mint(&self, name: &LeafName, now: SystemTime) -> Result<Leaf, MintError> {
        if now > self.not_after {
            return Err(MintError::AuthorityExpired);
        }
        let usable_from = now.checked_sub(BACKDATE).ok_or(MintError::Clock)?;
        let own_end = usable_from.checked_add(LIFETIME).ok_or(MintError::Clock)?;
        // No leaf outlives its CA. In the CA's last days there is no fresher one to be had, so it serves to the end.
        let (not_after, usable_until) = if own_end > self.not_after {
            (self.not_after, self.not_after)
        } else {
            (own_end, own_end.checked_sub(RENEW_BEFORE).ok_or(MintError::Clock)?)
        };

        let mut params = profile(name)?;
        params.not_before = utc(usable_from).ok_or(MintError::Clock)?;
        params.not_after = utc(not_after).ok_or(MintError::Clock)?;

        let (key, public) = fresh_key().map_err(|source| MintError::Key { source })?;
        let draft = params.signed_by(&public, &self.drafter).map_err(|source| MintError::Draft { source })?;
        let unsigned = Unsigned::from_draft(draft.der(), &self.subject)
            .map_err(|source| MintError::Issuer { source })?;
        let signature = self.key.sign(&unsigned.body).map_err(|source| MintError::Sign { source })?;

        let mut chain = vec![CertificateDer::from(unsigned.signed(&signature))];
        chain.extend_from_slice(&self.intermediates);
        Ok(Leaf { chain, key, usable_from, usable_until })
    }
}

/// The public half of a leaf's key: a point of P-256, uncompressed (SEC 1 section 2.3.3).
struct PublicPoint([u8; POINT_BYTES]);

impl PublicKeyData for PublicPoint {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// A key that nobody had before. Generated and read once: whoever reads one computes its point anew, which costs as much
/// as a signature.
fn fresh_key() -> Result<(Arc<dyn SigningKey>, PublicPoint), rustls::Error> {
    let generated = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
        .map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    let key = any_ecdsa_type(&PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(generated.as_ref())))?;
    // What stands before it says which curve it is on.
    let point = key.public_key().and_then(|info| info.last_chunk().copied());
    let point = point.ok_or_else(|| rustls::Error::General("a key without a point".to_owned()))?;
    Ok((key, PublicPoint(point)))
}

/// All that a leaf says apart from when.
fn profile(name: &LeafName) -> Result<CertificateParams, MintError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let spelling = name.spelling();
    // For people only; clients go by the SAN, which is marked critical where there is no subject.
    if spelling.len() <= LONGEST_COMMON_NAME {
        params.distinguished_name.push(DnType::CommonName, spelling);
    }
    params.subject_alt_names = vec![match name {
        LeafName::Dns(name) => {
            SanType::DnsName(name.as_str().try_into().map_err(|source| MintError::Draft { source })?)
        }
        LeafName::Ip(address) => SanType::IpAddress(*address),
    }];
    params.serial_number = Some(serial().map_err(|source| MintError::Random { source })?);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}
