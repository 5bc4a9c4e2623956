//! Secrets: where they come from, where they may go, and how they stand in a request.

use std::path::PathBuf;

use oncegate_policy::authority::Authority;
use oncegate_policy::template::Template;

use super::{Credential, HostPattern};

/// `[secrets.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct SecretSpec {
    /// Where the value comes from.
    pub from: SecretSource,
    /// `description`, for the API's listing.
    pub description: Option<String>,
    /// Hosts it may go to: exact, or all below a leading dot. Never empty. `None`, which only a secret of the vault may
    /// have: where a host or an action names it, and nowhere else.
    pub allowed_hosts: Option<Vec<String>>,
    /// Places it may stand in. `None`: a header only; for a secret of the vault, any.
    pub allowed_placements: Option<Vec<Placement>>,
}

/// One place that names a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretUse {
    /// Its name.
    pub secret: String,
    /// Where requests go from there.
    pub to: HostPattern,
}

/// Where a secret's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable of the sidecar.
    Env(String),
    /// A file (relative to the configuration file); one trailing line end is cut off.
    File(PathBuf),
    /// A command's standard output; one trailing line end is cut off.
    Command(Vec<String>),
    /// Put through the API.
    Vault,
    /// An access token, minted when it is needed.
    OAuth2(Box<OAuth2>),
}

/// `{ oauth2 = { … } }`: how an access token is had (RFC 6749).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuth2 {
    /// Where.
    pub token_url: TokenUrl,
    /// For what.
    pub grant: Grant,
    /// Who asks.
    pub client_id: Template,
    /// The name of the secret that proves it; none for a public client.
    pub client_secret: Option<String>,
    /// Where both stand.
    pub auth: ClientAuth,
    /// `scope`, as the provider writes it.
    pub scope: Option<String>,
    /// `audience`, which some providers ask for.
    pub audience: Option<String>,
}

impl OAuth2 {
    /// The names of the secrets that it takes to mint one, and where each of them stands.
    #[must_use]
    pub fn parts(&self) -> Vec<(&str, Placement)> {
        let client = match self.auth {
            ClientAuth::Basic => Placement::Header,
            ClientAuth::Body => Placement::Body,
        };
        let refresh = match &self.grant {
            Grant::ClientCredentials => None,
            Grant::RefreshToken(name) => Some((name.as_str(), Placement::Body)),
        };
        let secret = self.client_secret.as_deref().map(|name| (name, client));
        self.client_id.secrets().into_iter().map(|name| (name, client)).chain(secret).chain(refresh).collect()
    }
}

/// A token endpoint. Always `https`, and fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUrl {
    /// The server.
    pub authority: Authority,
    /// What is asked there; begins with `/`.
    pub path_and_query: String,
}

/// What an access token is minted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// `client_credentials` (RFC 6749 section 4.4).
    ClientCredentials,
    /// `refresh_token` (RFC 6749 section 6), with the name of the secret that holds it.
    RefreshToken(String),
}

/// Where a client says who it is (RFC 6749 section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// In `Authorization: Basic`.
    Basic,
    /// In the form.
    Body,
}

/// How requests are signed with AWS Signature Version 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sigv4 {
    /// Such as `eu-central-1`.
    pub region: String,
    /// The service's name in signatures, such as `s3`.
    pub service: String,
    /// The name of the secret that holds the access key's id.
    pub access_key: String,
    /// The name of the secret that holds the secret access key.
    pub secret_key: String,
    /// The name of the secret that holds the session's token, for keys that expire.
    pub session_token: Option<String>,
}

impl Sigv4 {
    /// The names of its secrets.
    #[must_use]
    pub fn secrets(&self) -> Vec<&str> {
        let fixed = [self.access_key.as_str(), self.secret_key.as_str()];
        fixed.into_iter().chain(self.session_token.as_deref()).collect()
    }
}

impl Credential {
    /// The header fields that it sets, in lower case: nothing else may be declared there.
    #[must_use]
    pub fn headers(&self) -> Vec<&str> {
        match self {
            Self::Header { name, .. } => vec![name],
            Self::Query { .. } => Vec::new(),
            Self::Basic { .. } => vec!["authorization"],
            Self::Sigv4(_) => {
                vec!["authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"]
            }
        }
    }

    /// Where it stands, for people: `header authorization`, `query key`, `signature`.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Header { name, .. } => format!("header {name}"),
            Self::Query { name, .. } => format!("query {name}"),
            Self::Basic { .. } => "header authorization".to_owned(),
            Self::Sigv4(_) => "signature".to_owned(),
        }
    }

    /// The names of the secrets in it.
    #[must_use]
    pub fn secrets(&self) -> Vec<&str> {
        match self {
            Self::Header { value, .. } | Self::Query { value, .. } => value.secrets(),
            Self::Basic { user, password } => [user.secrets(), password.secrets()].concat(),
            Self::Sigv4(keys) => keys.secrets(),
        }
    }
}

/// A place in a request where a secret may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A header's value.
    Header,
    /// The URL (public word `url`; `query` is accepted).
    Url,
    /// The body.
    Body,
}
