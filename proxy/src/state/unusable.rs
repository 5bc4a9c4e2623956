//! Why a configuration could not be made ready.

use std::path::PathBuf;

use oncegate_policy::action::ActionName;
use thiserror::Error;

use crate::control::tls::ControlTlsError;

/// Why a configuration could not be made ready.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// A host's CA file cannot be read.
    #[error("ca_file {path} cannot be read")]
    CaFile {
        /// As configured.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It holds no usable certificate.
    #[error("ca_file {path} cannot be used")]
    CaFileContent {
        /// As configured.
        path: PathBuf,
        /// What is wrong with it.
        source: oncegate_certs::TrustError,
    },
    /// An action's schema is none.
    #[error("input_schema of action {action} is not a JSON Schema")]
    Schema {
        /// Whose.
        action: ActionName,
        /// What is wrong with it.
        #[source]
        fault: Box<jsonschema::ValidationError<'static>>,
    },
    /// The control listener's certificate.
    #[error("`tls` of [control]: the control API cannot be served")]
    ControlTls(#[from] ControlTlsError),
    /// The system has no roots.
    #[error("the certificates to trust could not be loaded")]
    Trust(#[from] oncegate_certs::TrustError),
}
