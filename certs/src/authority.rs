//! Our certificate authority: made on first start, or the operator's own.

mod error;
mod files;

pub use error::AuthorityError;

use crate::pem::push_certificate;
use files::Files;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, PublicKeyData, SerialNumber, SignatureAlgorithm, SigningKey,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate, X509Error};

/// How long before now a new certificate begins, for clients whose clocks are behind.
pub(crate) const BACKDATE: Duration = Duration::from_hours(1);
/// How long a CA that we make lasts: about ten years.
const LIFETIME: Duration = Duration::from_hours(24 * 3650);

/// The CA that agents trust.
pub struct Authority {
    certificate_pem: String,
    /// The same, not as text.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// What a server sends after its leaf: the certificates that lead from it to a root, not the root.
    pub(crate) intermediates: Vec<CertificateDer<'static>>,
    /// The subject as the certificate spells it, DER.
    pub(crate) subject: Vec<u8>,
    /// The certificate's last second.
    pub(crate) not_after: SystemTime,
    pub(crate) key: KeyPair,
    /// Drafts leaves that `key` then signs.
    pub(crate) drafter: Issuer<'static, Drafter>,
}

/// Never shows the key.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Authority {
    /// Loads `ca.pem` and `ca.key` of `dir`, or makes them (and `dir`) when neither is there.
    ///
    /// # Errors
    ///
    /// When only one of the two is there, when others than the owner may read the key, when either cannot
    /// be read or written, and when they are not a CA that is valid at `now` with its own key.
    pub fn load_or_create(dir: &Path, now: SystemTime) -> Result<Authority, AuthorityError> {
        let files = Files::in_dir(dir);
        if !files.present()? {
            files::create_dir(dir)?;
            let (certificate, key) = generate(now)?;
            files.publish(dir, &certificate, &key)?;
        }
        // What was just made is read back like anything else, so that it cannot differ after a restart.
        load(&files, now)
    }

    /// The CA's certificate, and what else the operator put beside it in `ca.pem`, as PEM. Certificates only.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }
}

/// Stands in for the key while a leaf is drafted: says which algorithm will be used, and signs nothing.
pub(crate) struct Drafter {
    public_key: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
}

impl PublicKeyData for Drafter {
    fn der_bytes(&self) -> &[u8] {
        &self.public_key
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl SigningKey for Drafter {
    fn sign(&self, _message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(Vec::new())
    }
}

/// A new CA, as the text of its two files.
fn generate(now: SystemTime) -> Result<(String, String), AuthorityError> {
    let unmade = |source| AuthorityError::Generate { source };
    // Told apart by name, since an agent's machine may meet the CAs of several sidecars.
    let mark: [u8; 4] = crate::random().map_err(|source| AuthorityError::Random { source })?;
    let common_name = format!("Oncegate local CA {:08x}", u32::from_be_bytes(mark));

    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, common_name);
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    params.serial_number = Some(serial().map_err(|source| AuthorityError::Random { source })?);
    params.not_before = now.checked_sub(BACKDATE).and_then(utc).ok_or(AuthorityError::Clock)?;
    params.not_after = now.checked_add(LIFETIME).and_then(utc).ok_or(AuthorityError::Clock)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];

    let key = KeyPair::generate().map_err(unmade)?;
    let certificate = params.self_signed(&key).map_err(unmade)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn load(files: &Files, now: SystemTime) -> Result<Authority, AuthorityError> {
    // The key first: that it lies open is worth saying even when the certificate is broken too.
    let key = parse_key(files)?;
    let certificates = parse_certificates(files)?;
    let garbled = |source| AuthorityError::CertificateDer { path: files.certificate.clone(), source };
    let Some(first) = certificates.first() else {
        let source = rustls_pki_types::pem::Error::NoItemsFound;
        return Err(AuthorityError::CertificatePem { path: files.certificate.clone(), source });
    };
    let certificate = parse(first).map_err(garbled)?;
    let key_identifier = check(files, &certificate, &key, now)?;
    let subject = certificate.subject().as_raw().to_vec();
    let not_after = system_time(certificate.validity().not_after.timestamp()).ok_or(AuthorityError::Clock)?;

    let mut intermediates = Vec::new();
    let mut certificate_pem = String::new();
    for certificate in &certificates {
        let parsed = parse(certificate).map_err(garbled)?;
        if parsed.subject().as_raw() != parsed.issuer().as_raw() {
            intermediates.push(certificate.clone());
        }
        // Written anew from the certificates alone: were a key in `ca.pem` too, it must not reach a bundle.
        push_certificate(&mut certificate_pem, certificate);
    }

    let drafter = drafter(&key, key_identifier);
    Ok(Authority { certificate_pem, certificates, intermediates, subject, not_after, key, drafter })
}

fn parse_key(files: &Files) -> Result<KeyPair, AuthorityError> {
    let text = files.read_key()?;
    let der = PrivatePkcs8KeyDer::from_pem_slice(&text)
        .map_err(|source| AuthorityError::KeyPem { path: files.key.clone(), source })?;
    KeyPair::try_from(&der).map_err(|source| AuthorityError::Key { path: files.key.clone(), source })
}

fn parse_certificates(files: &Files) -> Result<Vec<CertificateDer<'static>>, AuthorityError> {
    let text = files.read_certificate()?;
    CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|source| AuthorityError::CertificatePem { path: files.certificate.clone(), source })
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, X509Error> {
    match X509Certificate::from_der(certificate) {
        Ok((_, certificate)) => Ok(certificate),
        Err(x509_parser::nom::Err::Error(error) | x509_parser::nom::Err::Failure(error)) => Err(error),
        Err(x509_parser::nom::Err::Incomplete(_)) => Err(X509Error::InvalidCertificate),
    }
}

/// The last second of the first certificate in a PEM text; `None` when there is none, or it cannot be read.
pub fn last_second(pem: &[u8]) -> Option<SystemTime> {
    let first = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    system_time(parse(&first).ok()?.validity().not_after.timestamp())
}

/// Checks that clients will take what this CA signs, now rather than at the first connection, and gives
/// the CA's key identifier if it has one.
fn check(
    files: &Files,
    certificate: &X509Certificate<'_>,
    key: &KeyPair,
    now: SystemTime,
) -> Result<Option<Vec<u8>>, AuthorityError> {
    let path = || files.certificate.clone();
    if *certificate.public_key().subject_public_key.data != *key.der_bytes() {
        return Err(AuthorityError::Mismatch { key: files.key.clone(), certificate: path() });
    }
    let (mut is_ca, mut may_sign, mut key_identifier) = (false, true, None);
    for extension in certificate.extensions() {
        if let ParsedExtension::BasicConstraints(constraints) = extension.parsed_extension() {
            is_ca = constraints.ca;
        } else if let ParsedExtension::KeyUsage(usage) = extension.parsed_extension() {
            may_sign = usage.key_cert_sign();
        } else if let ParsedExtension::SubjectKeyIdentifier(identifier) = extension.parsed_extension() {
            key_identifier = Some(identifier.0.to_vec());
        }
    }
    if !is_ca {
        return Err(AuthorityError::NotCa { path: path(), reason: "basicConstraints do not say CA:TRUE" });
    }
    if !may_sign {
        return Err(AuthorityError::NotCa { path: path(), reason: "keyUsage does not say keyCertSign" });
    }
    let validity = certificate.validity();
    let now = utc(now).ok_or(AuthorityError::Clock)?;
    if now < validity.not_before.to_datetime() {
        return Err(AuthorityError::NotYetValid { path: path(), from: validity.not_before.to_datetime() });
    }
    if now > validity.not_after.to_datetime() {
        return Err(AuthorityError::Expired { path: path(), until: validity.not_after.to_datetime() });
    }
    Ok(key_identifier)
}

fn drafter(key: &KeyPair, key_identifier: Option<Vec<u8>>) -> Issuer<'static, Drafter> {
    // The default name stands in until the CA's subject takes its place.
    let mut params = CertificateParams::default();
    if let Some(identifier) = key_identifier {
        params.key_identifier_method = KeyIdMethod::PreSpecified(identifier);
    }
    Issuer::new(params, Drafter { public_key: key.der_bytes().to_vec(), algorithm: key.algorithm() })
}

/// A serial number that no other certificate has: 126 random bits, positive and of one length.
pub(crate) fn serial() -> Result<SerialNumber, rustls::Error> {
    let number: [u8; 16] = crate::random()?;
    let positive = u128::from_be_bytes(number) & (u128::MAX >> 1) | (1 << 126);
    Ok(SerialNumber::from_slice(&positive.to_be_bytes()))
}

/// The second that `at` is in, if a certificate can say it.
pub(crate) fn utc(at: SystemTime) -> Option<OffsetDateTime> {
    let seconds = at.duration_since(UNIX_EPOCH).ok()?.as_secs();
    OffsetDateTime::from_unix_timestamp(i64::try_from(seconds).ok()?).ok()
}

fn system_time(timestamp: i64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(timestamp).ok()?))
}
