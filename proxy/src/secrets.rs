//! Secrets: fetched for one request, placed in it, and forgotten.
//!
//! A [`Secret`] has no `Debug`, no `Display`, no `Clone` and no serde. It leaves this module in four ways only:
//! inside a [`Placed`] header or query parameter of a request to a host that it is allowed for, as the key of a
//! [`Signer`] for such a host, in the request for an access token to the token's own host (`tokens`), and as a pattern
//! that [`crate::scrub`] takes out of answers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use http::{HeaderName, HeaderValue};
use oncegate_adapters::Adapter;
use oncegate_config::model::{Config, Credential, Placement, SecretSource, SecretSpec};
use oncegate_policy::exchange::NotSent;
use oncegate_policy::template::{Piece, Scope, Template};
use zeroize::Zeroizing;

use crate::scrub::Scrubber;
use crate::sigv4::Signer;
use crate::state::{Sidecar, Snapshot};
use crate::vault::Vault;

mod error;
mod grant;
mod kept;
mod outside;
mod tokens;

pub use error::SecretError;
pub use kept::Kept;
pub use outside::{COMMAND_TIMEOUT, FILE_TIMEOUT};
pub use tokens::{LIFE_UNSAID, Lent, MINT_TIMEOUT, RENEW_BEFORE, Tokens};

/// A secret's value is at most this many bytes.
pub const SECRET_BYTES_MAX: usize = 64 * 1024;

/// A secret's value.
pub struct Secret(Zeroizing<String>);

/// What is put into one request.
pub struct Placed {
    /// Headers that replace the agent's of the same name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Query parameters that replace the agent's of the same name.
    pub query: Vec<(String, Zeroizing<String>)>,
    /// What has to be taken out of the answer.
    pub scrubber: Scrubber,
    /// Signs the request when it is complete.
    pub signer: Option<Signer>,
    /// Access tokens among it.
    pub lent: Lent,
    /// Something has to be minted for this request, and could not be: it may not leave, and this is the proof that it
    /// did not.
    pub unminted: Option<NotSent>,
}

impl Placed {
    /// For a host without a credential.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            headers: Vec::new(),
            query: Vec::new(),
            scrubber: Scrubber::default(),
            signer: None,
            lent: Lent::default(),
            unminted: None,
        }
    }

    /// Nothing either, because a token could not be minted.
    #[must_use]
    pub fn unminted(proof: NotSent) -> Self {
        Self { unminted: Some(proof), ..Self::nothing() }
    }
}

/// What has to be placed: the credential of the host or the action, and the declared headers that name secrets.
pub struct Wanted<'a> {
    /// One credential, chosen by rule.
    pub credential: Option<Cow<'a, Credential>>,
    /// Headers of a declared action whose templates name a secret.
    pub headers: Vec<(&'a str, &'a Template)>,
    /// What the other places of those templates are filled with.
    pub scope: Option<Scope<'a>>,
    /// Says of a value whether it may stand in the credential: a live key under `mode = "test"` may not.
    pub fits: Option<&'a Adapter>,
}

/// Fetches the secrets that are wanted and places them for a request to `host`.
///
/// # Errors
/// A secret that cannot be had, or that is not allowed for this host or place.
pub async fn place(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    wanted: &Wanted<'_>,
    host: &str,
) -> Result<Placed, SecretError> {
    let mut filler = Filler {
        sidecar,
        snapshot,
        host,
        scope: wanted.scope,
        fits: wanted.fits,
        patterns: BTreeMap::new(),
        lent: Lent::default(),
    };
    let mut placed = Placed::nothing();
    for (name, value) in &wanted.headers {
        let value = filler.fill(value, Placement::Header).await?;
        placed.headers.push(header(name, &value)?);
    }
    match wanted.credential.as_deref() {
        None => {}
        Some(Credential::Header { name, value }) => {
            let value = filler.fill(value, Placement::Header).await?;
            placed.headers.push(header(name, &value)?);
        }
        Some(Credential::Basic { user, password }) => {
            let user = filler.fill(user, Placement::Header).await?;
            let password = filler.fill(password, Placement::Header).await?;
            let pair = Zeroizing::new(format!("{}:{}", user.as_str(), password.as_str()));
            let encoded = Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(pair.as_bytes()));
            filler.patterns.insert("basic credential".to_owned(), Zeroizing::new(encoded.to_string()));
            placed.headers.push(header("authorization", &format!("Basic {}", encoded.as_str()))?);
        }
        Some(Credential::Query { name, value }) => {
            let value = filler.fill(value, Placement::Url).await?;
            placed.query.push((name.clone(), value));
        }
        Some(Credential::Sigv4(keys)) => {
            let access = filler.keep(&keys.access_key).await?;
            let secret = filler.keep(&keys.secret_key).await?;
            let session = match &keys.session_token {
                Some(name) => Some(filler.keep(name).await?),
                None => None,
            };
            let session = session.as_ref().map(|token| token.as_str());
            let signer = Signer::new((&access, &secret), session, &keys.region, &keys.service);
            placed.signer = Some(signer);
        }
    }
    placed.lent = filler.lent;
    placed.scrubber = snapshot.scrubbers.of(&filler.patterns).map_err(|_| SecretError::Unsearchable)?;
    Ok(placed)
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), SecretError> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| SecretError::Template)?;
    let mut value = HeaderValue::from_str(value).map_err(|_| SecretError::Template)?;
    // Keeps it out of the `Debug` of a request and out of any header compression table.
    value.set_sensitive(true);
    Ok((name, value))
}

/// Fills templates for one host and remembers what it put in.
struct Filler<'a> {
    sidecar: &'a Arc<Sidecar>,
    snapshot: &'a Snapshot,
    host: &'a str,
    scope: Option<Scope<'a>>,
    fits: Option<&'a Adapter>,
    patterns: BTreeMap<String, Zeroizing<String>>,
    lent: Lent,
}

impl Filler<'_> {
    async fn fill(
        &mut self,
        template: &Template,
        place: Placement,
    ) -> Result<Zeroizing<String>, SecretError> {
        let mut out = Zeroizing::new(String::new());
        for piece in template.pieces() {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Secret(name) => {
                    let secret = self.fetch(name, place).await?;
                    out.push_str(&secret.0);
                    self.patterns.insert(name.clone(), secret.0);
                }
                Piece::Input(_) | Piece::EffectId | Piece::EffectKey | Piece::Response(_) => {
                    let scope = self.scope.as_ref().ok_or(SecretError::Template)?;
                    let piece = Template::of_piece(piece.clone());
                    out.push_str(&piece.render(scope).map_err(|_| SecretError::Template)?);
                }
            }
        }
        Ok(out)
    }

    /// A secret that does not stand in the request as it is: what a signature is made with.
    async fn keep(&mut self, name: &str) -> Result<Zeroizing<String>, SecretError> {
        let secret = self.fetch(name, Placement::Header).await?;
        self.patterns.insert(name.to_owned(), secret.0.clone());
        Ok(secret.0)
    }

    async fn fetch(&mut self, name: &str, place: Placement) -> Result<Secret, SecretError> {
        let Snapshot { config, directory, vault, .. } = self.snapshot;
        let spec = allowed(config, name, place, self.host)?;
        let secret = match &spec.from {
            SecretSource::OAuth2(minting) => {
                let loan = tokens::lend(self.sidecar, self.snapshot, name, minting).await?;
                let secret = Secret(loan.value());
                self.lent.take(loan);
                secret
            }
            SecretSource::Env(_) | SecretSource::File(_) | SecretSource::Command(_) | SecretSource::Vault => {
                read(name, spec, directory, vault).await?
            }
        };
        match self.fits {
            Some(adapter) if !adapter.credential_fits(&secret.0) => Err(SecretError::Mode(name.to_owned())),
            Some(_) | None => Ok(secret),
        }
    }
}

/// What is declared of a secret, if it may stand in this place of a request to this host. Checked here, where it acts,
/// although `check` has looked already: a secret goes nowhere else.
fn allowed<'a>(
    config: &'a Config,
    name: &str,
    place: Placement,
    host: &str,
) -> Result<&'a SecretSpec, SecretError> {
    let spec = config.secrets.get(name).ok_or_else(|| SecretError::Undeclared(name.to_owned()))?;
    if !config.may_go(name, spec, host) {
        return Err(SecretError::Host { name: name.to_owned(), host: host.to_owned() });
    }
    if !spec.may_stand(place) {
        return Err(SecretError::Place { name: name.to_owned() });
    }
    Ok(spec)
}

/// Reads a secret from where it is kept, without placing it anywhere: `check` asks whether it can be had.
///
/// # Errors
/// As [`SecretError`] says.
pub async fn read(
    name: &str,
    spec: &SecretSpec,
    directory: &Path,
    vault: &Vault,
) -> Result<Secret, SecretError> {
    let raw = match &spec.from {
        SecretSource::Vault => vault.get(name)?,
        outside @ (SecretSource::Env(_)
        | SecretSource::File(_)
        | SecretSource::Command(_)
        | SecretSource::OAuth2(_)) => fetch(name, outside, directory).await?,
    };
    let value = usable(&raw).ok_or_else(|| SecretError::Unusable(name.to_owned()))?;
    Ok(Secret(Zeroizing::new(value.to_owned())))
}

/// Reads what lies outside the vault, as it is.
pub(crate) async fn fetch(
    name: &str,
    source: &SecretSource,
    directory: &Path,
) -> Result<Zeroizing<String>, SecretError> {
    let raw = match source {
        SecretSource::Env(variable) => std::env::var(variable)
            .map_err(|_| SecretError::Environment { name: name.to_owned(), variable: variable.clone() })?,
        SecretSource::File(path) => outside::file(name, directory.join(path), FILE_TIMEOUT).await?,
        SecretSource::Command(command) => outside::command(name, command, directory, COMMAND_TIMEOUT).await?,
        SecretSource::Vault => return Err(SecretError::VaultEmpty(name.to_owned())),
        // It is kept nowhere.
        SecretSource::OAuth2(_) => {
            return Err(SecretError::Mint {
                name: name.to_owned(),
                cause: "it is minted, not read".to_owned(),
            });
        }
    };
    Ok(Zeroizing::new(raw))
}

/// Says which of these cannot be had now, of those that come from a variable or a file. It is a doubt and no fault: they are
/// fetched for each request, and may be there by then.
pub(crate) async fn warn_of_missing(snapshot: Arc<Snapshot>, names: Vec<String>) {
    for name in names {
        let Some(spec) = snapshot.config.secrets.get(&name) else { continue };
        if !matches!(spec.from, SecretSource::Env(_) | SecretSource::File(_)) {
            continue;
        }
        if let Err(error) = read(&name, spec, &snapshot.directory, &snapshot.vault).await {
            let why = crate::upstream::chain(&error);
            tracing::warn!("{why}: what needs it is refused until it can be had");
        }
    }
}

/// The value without one line end, if a request can carry it: 1 byte to [`SECRET_BYTES_MAX`] of printable ASCII and
/// tabs.
pub(crate) fn usable(raw: &str) -> Option<&str> {
    let value = raw.strip_suffix('\n').unwrap_or(raw);
    let value = value.strip_suffix('\r').unwrap_or(value);
    let fits = !value.is_empty()
        && value.len() <= SECRET_BYTES_MAX
        && value.bytes().all(|byte| byte == b'\t' || (0x20..0x7f).contains(&byte));
    fits.then_some(value)
}
