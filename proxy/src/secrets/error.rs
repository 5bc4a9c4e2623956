//! Why a secret could not be had or placed.

use oncegate_policy::refusal::{Code, Refusal};
use thiserror::Error;

/// Why a secret could not be had or placed. Never holds any part of its value.
#[derive(Debug, Error)]
pub enum SecretError {
    /// No such entry.
    #[error("secret {0} is not declared")]
    Undeclared(String),
    /// The environment does not have it.
    #[error("secret {name}: the environment variable {variable} is not set")]
    Environment {
        /// The secret.
        name: String,
        /// The variable.
        variable: String,
    },
    /// The file could not be read.
    #[error("secret {name}: its file cannot be read")]
    File {
        /// The secret.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The command failed.
    #[error("secret {name}: its command failed: {why}")]
    Command {
        /// The secret.
        name: String,
        /// How.
        why: String,
    },
    /// The vault has none.
    #[error("secret {0}: the vault holds no value for it")]
    VaultEmpty(String),
    /// Its value in the vault cannot be opened.
    #[error("secret {0}: its value in the vault cannot be opened with the vault's key")]
    VaultSealed(String),
    /// The token endpoint gave none.
    #[error("secret {name}: no access token could be minted: {cause}")]
    Mint {
        /// The secret.
        name: String,
        /// Why, in words of ours.
        cause: String,
    },
    /// Empty, too long, or with characters that cannot stand in a request.
    #[error("secret {0}: its value is empty, too long or has characters that no header can carry")]
    Unusable(String),
    /// Not for this host.
    #[error("secret {name} is not allowed for {host}")]
    Host {
        /// The secret.
        name: String,
        /// The host it was wanted for.
        host: String,
    },
    /// Not for this place.
    #[error("secret {name} is not allowed in this place")]
    Place {
        /// The secret.
        name: String,
    },
    /// Not of the mode that the action is declared for.
    #[error("secret {0} is a key of the other mode (test or live) than the action's")]
    Mode(String),
    /// No search for them could be built.
    #[error("the secrets are too long to be found in answers")]
    Unsearchable,
    /// The credential's template names something else.
    #[error("the credential's template cannot be filled")]
    Template,
}

impl From<&SecretError> for Refusal {
    /// What the agent may know of it: not where the operator keeps it.
    fn from(_: &SecretError) -> Self {
        Self::new(
            Code::CredentialUnavailable,
            "The credential for this host could not be had. Nothing was sent. Ask the operator; do not retry.",
        )
    }
}
