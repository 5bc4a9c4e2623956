//! What can go wrong with the CA's two files.

use std::io;
use std::path::PathBuf;
use time::OffsetDateTime;

/// Why there is no CA to mint with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The directory could not be made.
    #[error("cannot create the CA directory {}", path.display())]
    CreateDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not known whether a file is there.
    #[error("cannot tell whether {} is there", path.display())]
    Inspect {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Only one of the two files is there; making a new pair would throw the other away.
    #[error("{} is there but {} is not: put the missing file back, or remove both to have a new CA made",
        present.display(), missing.display())]
    Half {
        /// The file that is there.
        present: PathBuf,
        /// The file that is not.
        missing: PathBuf,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others than the owner may read or write the key.
    #[error("{} is open to group or others (mode {mode:04o}): make it 0600", path.display())]
    KeyExposed {
        /// The key's file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The certificate file is not PEM, or holds no certificate.
    #[error("cannot find a PEM certificate in {}", path.display())]
    CertificatePem {
        /// The certificate's file.
        path: PathBuf,
        /// What the PEM reader said.
        source: rustls_pki_types::pem::Error,
    },
    /// The certificate's contents make no sense.
    #[error("cannot parse the certificate in {}", path.display())]
    CertificateDer {
        /// The certificate's file.
        path: PathBuf,
        /// What the parser said.
        source: x509_parser::error::X509Error,
    },
    /// The certificate may not sign others.
    #[error("the certificate in {} is not a CA: {reason}", path.display())]
    NotCa {
        /// The certificate's file.
        path: PathBuf,
        /// What it lacks.
        reason: &'static str,
    },
    /// The CA's time has not come.
    #[error("the certificate in {} is not valid before {from}", path.display())]
    NotYetValid {
        /// The certificate's file.
        path: PathBuf,
        /// When it becomes valid.
        from: OffsetDateTime,
    },
    /// The CA's time is over.
    #[error("the certificate in {} expired at {until}: replace it, or remove both files to have a new CA made",
        path.display())]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// When it expired.
        until: OffsetDateTime,
    },
    /// The key file is not PEM, or holds no PKCS#8 key.
    #[error("cannot find an unencrypted PKCS#8 key (BEGIN PRIVATE KEY) in {}", path.display())]
    KeyPem {
        /// The key's file.
        path: PathBuf,
        /// What the PEM reader said.
        source: rustls_pki_types::pem::Error,
    },
    /// The key is of a kind that cannot sign here, or garbled.
    #[error("cannot use the key in {}", path.display())]
    Key {
        /// The key's file.
        path: PathBuf,
        /// What the key's parser said.
        source: rcgen::Error,
    },
    /// The two files do not belong together.
    #[error("the key in {} is not that of the first certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// The time handed in is beyond what a certificate can say.
    #[error("the clock is outside the range of certificate dates")]
    Clock,
    /// The system gave no randomness.
    #[error("cannot get random bytes for a new CA")]
    Random {
        /// What the provider said.
        source: rustls::Error,
    },
    /// A new CA could not be made.
    #[error("cannot generate a new CA")]
    Generate {
        /// What the generator said.
        source: rcgen::Error,
    },
    /// A new file could not be written out.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A new file could not be given its name, for instance because another process was first.
    #[error("cannot put the new {} in place", path.display())]
    Publish {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
