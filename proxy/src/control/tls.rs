//! The certificate of the control listener, from the files that the operator names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oncegate_certs::{ServedError, served_config};
use oncegate_config::model::ControlTls;
use rustls::ServerConfig;
use thiserror::Error;

/// Why the control listener cannot prove itself.
#[derive(Debug, Error)]
pub enum ControlTlsError {
    /// A file cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// As configured.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What they hold cannot be served.
    #[error("{cert} and its key cannot be used")]
    Content {
        /// As configured.
        cert: PathBuf,
        /// What is wrong.
        source: ServedError,
    },
}

/// Reads both files; relative paths begin at `directory`.
///
/// # Errors
/// A file cannot be read, or they hold no certificate and key that belong together.
pub fn load(tls: &ControlTls, directory: &Path) -> Result<Arc<ServerConfig>, ControlTlsError> {
    let read = |path: &PathBuf| {
        std::fs::read(directory.join(path))
            .map_err(|source| ControlTlsError::Read { path: path.clone(), source })
    };
    let (cert, key) = (read(&tls.cert)?, zeroize::Zeroizing::new(read(&tls.key)?));
    served_config(&cert, &key).map_err(|source| ControlTlsError::Content { cert: tls.cert.clone(), source })
}
