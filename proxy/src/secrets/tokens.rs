//! Access tokens: minted when one is needed, kept in memory and nowhere else, and lent to requests.
//!
//! One mint at a time for each secret; whoever comes meanwhile waits for its end and shares it, be it a token or a
//! failure. A mint runs to its end whether or not its asker still waits: a provider may have replaced the refresh
//! token by then, and the new one must be kept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use oncegate_config::model::{Grant, OAuth2, SecretSource, SecretSpec};
use oncegate_policy::exchange::Exchange;
use oncegate_policy::template::Piece;
use oncegate_policy::time::Timestamp;
use oncegate_policy::url_template::Scheme;
use zeroize::Zeroizing;

use super::grant::{self, Client, Granted};
use super::{SecretError, read};
use crate::receive::host_value;
use crate::state::{Sidecar, Snapshot};
use crate::task;
use crate::upstream::dial::Destination;
use crate::upstream::{self, Bounds};
use crate::vault::Vault;

/// A token is renewed this long before it expires, or after half its life if that is later: it has to be good when it
/// arrives.
pub const RENEW_BEFORE: Duration = Duration::from_secs(60);
/// A token of which the endpoint does not say when it expires is renewed after this long.
pub const LIFE_UNSAID: Duration = Duration::from_secs(300);
/// A mint has this long, from the name to the last byte of the answer. It is added to what an agent waits.
pub const MINT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a token endpoint's answer: two tokens of the greatest size, and words around them.
const ANSWER_BYTES_MAX: usize = 192 * 1024;

/// The tokens of this process, by the names of their secrets: as many as the configuration has ever declared.
#[derive(Default)]
pub struct Tokens(Mutex<BTreeMap<String, Arc<Slot>>>);

#[derive(Default)]
struct Slot {
    current: Mutex<Option<Arc<Minted>>>,
    /// How many mints have ended.
    ended: AtomicU64,
    minting: tokio::sync::Mutex<Last>,
}

/// What the last mint has left behind. Held from the beginning of a mint to its end.
#[derive(Default)]
struct Last {
    failure: Option<(OAuth2, String)>,
    renewed: Option<Renewed>,
}

/// A refresh token that the provider gave in place of the one that its source holds.
struct Renewed {
    /// What the source held: another value there is newer than ours.
    from: Zeroizing<String>,
    token: Zeroizing<String>,
}

/// A token, good for what it was minted for.
struct Minted {
    spec: OAuth2,
    value: Zeroizing<String>,
    renew_at: Timestamp,
}

/// The tokens that one request carries.
#[derive(Default)]
pub struct Lent(Vec<Loan>);

/// One token, and where it is kept.
pub(super) struct Loan {
    slot: Arc<Slot>,
    minted: Arc<Minted>,
}

impl Lent {
    pub(super) fn take(&mut self, loan: Loan) {
        self.0.push(loan);
    }

    /// The provider has turned the request away (401): the next request is not to carry the same token. This one is
    /// not sent again.
    pub fn turned_away(&self) {
        for Loan { slot, minted } in &self.0 {
            let mut current = slot.current();
            if current.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, minted)) {
                *current = None;
            }
        }
    }
}

impl Loan {
    pub(super) fn value(&self) -> Zeroizing<String> {
        self.minted.value.clone()
    }
}

impl Last {
    /// Why the last mint failed, if it was tried for the same. For those who waited for its end: to ask once more for each
    /// of them would only take longer.
    fn failure_of(&self, spec: &OAuth2) -> Option<String> {
        self.failure.as_ref().filter(|(failed, _)| failed == spec).map(|(_, cause)| cause.clone())
    }
}

impl Slot {
    fn current(&self) -> std::sync::MutexGuard<'_, Option<Arc<Minted>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self, spec: &OAuth2, now: Timestamp) -> Option<Arc<Minted>> {
        self.current().as_ref().filter(|kept| kept.spec == *spec && now < kept.renew_at).cloned()
    }
}

impl Tokens {
    /// Forgets what was minted with a secret: somebody has put another value.
    pub fn forget(&self, part: &str) {
        for slot in self.slots().values() {
            let mut current = slot.current();
            if current.as_ref().is_some_and(|kept| kept.spec.parts().iter().any(|(name, _)| *name == part)) {
                *current = None;
            }
        }
    }

    fn slot(&self, name: &str) -> Arc<Slot> {
        Arc::clone(self.slots().entry(name.to_owned()).or_default())
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token for one request: the one that is kept, or a new one.
///
/// # Errors
/// A part that cannot be had or may not go there, or [`SecretError::Mint`].
pub(super) async fn lend(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    name: &str,
    spec: &OAuth2,
) -> Result<Loan, SecretError> {
    let slot = sidecar.tokens.slot(name);
    if let Some(minted) = slot.fresh(spec, sidecar.clock.now()) {
        return Ok(Loan { slot, minted });
    }
    let seen = slot.ended.load(Ordering::SeqCst);
    let errand = Errand::new(snapshot, name, spec)?;
    let (sidecar, kept_in) = (Arc::clone(sidecar), Arc::clone(&slot));
    let task = task::start(async move { errand.run(&sidecar, &kept_in, seen).await });
    let minted = task.await.map_err(|_| mint_failed(name, "the mint was broken off".to_owned()))??;
    Ok(Loan { slot, minted })
}

/// From when on a token is not lent any more: `expires_in` seconds count from before it was asked for.
fn renew_at(began: Timestamp, expires_in: Option<u64>) -> Timestamp {
    let life = expires_in.map_or(LIFE_UNSAID, Duration::from_secs);
    began.plus(life.saturating_sub(RENEW_BEFORE.min(life / 2)))
}

fn mint_failed(name: &str, cause: String) -> SecretError {
    SecretError::Mint { name: name.to_owned(), cause }
}

/// All that a mint takes, of one configuration.
struct Errand {
    name: String,
    spec: OAuth2,
    parts: BTreeMap<String, SecretSpec>,
    directory: PathBuf,
    vault: Arc<Vault>,
    destination: Arc<Destination>,
}

impl Errand {
    fn new(snapshot: &Snapshot, name: &str, spec: &OAuth2) -> Result<Self, SecretError> {
        let authority = &spec.token_url.authority;
        let mut parts = BTreeMap::new();
        for (part, place) in spec.parts() {
            let declared = super::allowed(&snapshot.config, part, place, &authority.host)?;
            parts.insert(part.to_owned(), declared.clone());
        }
        Ok(Self {
            name: name.to_owned(),
            spec: spec.clone(),
            parts,
            directory: snapshot.directory.clone(),
            vault: Arc::clone(&snapshot.vault),
            destination: snapshot.token_destination(authority),
        })
    }

    async fn run(&self, sidecar: &Arc<Sidecar>, slot: &Slot, seen: u64) -> Result<Arc<Minted>, SecretError> {
        let mut last = slot.minting.lock().await;
        if let Some(minted) = slot.fresh(&self.spec, sidecar.clock.now()) {
            return Ok(minted);
        }
        let since = slot.ended.load(Ordering::SeqCst) != seen;
        // One that is due for renewal as soon as it is minted is good for those who waited for it.
        let shared = || slot.current().as_ref().filter(|kept| kept.spec == self.spec).cloned();
        if let Some(minted) = since.then(shared).flatten() {
            return Ok(minted);
        }
        if let Some(cause) = last.failure_of(&self.spec).filter(|_| since) {
            return Err(mint_failed(&self.name, cause));
        }
        let minted = self.mint(sidecar, &mut last).await;
        slot.ended.fetch_add(1, Ordering::SeqCst);
        let host = &self.destination.authority.host;
        match minted {
            Ok(minted) => {
                tracing::info!(secret = self.name, %host, "an access token was minted");
                last.failure = None;
                let minted = Arc::new(minted);
                *slot.current() = Some(Arc::clone(&minted));
                Ok(minted)
            }
            Err(error) => {
                tracing::warn!(secret = self.name, %host, error = upstream::chain(&error), "no access token could be minted");
                if let SecretError::Mint { cause, .. } = &error {
                    last.failure = Some((self.spec.clone(), cause.clone()));
                }
                Err(error)
            }
        }
    }

    async fn mint(&self, sidecar: &Arc<Sidecar>, last: &mut Last) -> Result<Minted, SecretError> {
        let failed = |cause: String| mint_failed(&self.name, cause);
        let client = self.client(last).await?;
        let began = sidecar.clock.now();
        let granted = self.ask(sidecar, &client).await.map_err(failed)?;
        let Granted { access_token, expires_in, refresh_token } = granted;
        if let (Some(new), Some(used)) = (refresh_token, client.refresh_token)
            && new != used
        {
            self.keep(new, used, last, sidecar.clock.now()).await;
        }
        Ok(Minted { spec: self.spec.clone(), value: access_token, renew_at: renew_at(began, expires_in) })
    }

    async fn ask(&self, sidecar: &Arc<Sidecar>, client: &Client) -> Result<Granted, String> {
        let unsayable = || "the request for a token cannot be written".to_owned();
        let (mut head, form) = grant::request(&self.spec, client).ok_or_else(unsayable)?;
        let host = host_value(&self.destination.authority, Scheme::Https).ok_or_else(unsayable)?;
        head.headers_mut().insert(HOST, host);
        crate::inject::set_length(&mut head, form.len());
        let form = Bytes::copy_from_slice(form.as_bytes());
        let bounds = Bounds {
            begin_before: None,
            upstream_timeout: MINT_TIMEOUT,
            max_response_body: ANSWER_BYTES_MAX,
            reuse_idle_within: Duration::ZERO,
        };
        let asked = upstream::ask_for_token(&sidecar.pool, &self.destination, head, form, bounds);
        match tokio::time::timeout(MINT_TIMEOUT, asked).await {
            Err(_) => Err("the token endpoint did not answer in time".to_owned()),
            Ok(Exchange::NotSent(proof)) => {
                Err(format!("the token endpoint cannot be reached ({}: {})", proof.step(), proof.cause()))
            }
            Ok(Exchange::Lost(loss)) => {
                Err(format!("the answer of the token endpoint was lost: {}", loss.cause))
            }
            Ok(Exchange::Answered(answer)) => grant::read(&answer),
        }
    }

    async fn client(&self, last: &mut Last) -> Result<Client, SecretError> {
        let mut id = Zeroizing::new(String::new());
        for piece in self.spec.client_id.pieces() {
            match piece {
                Piece::Text(text) => id.push_str(text),
                Piece::Secret(part) => id.push_str(&self.part(part).await?),
                Piece::Input(_) | Piece::EffectId | Piece::EffectKey | Piece::Response(_) => {
                    return Err(SecretError::Template);
                }
            }
        }
        let secret = match &self.spec.client_secret {
            Some(part) => Some(self.part(part).await?),
            None => None,
        };
        let refresh_token = match &self.spec.grant {
            Grant::ClientCredentials => None,
            Grant::RefreshToken(part) => {
                let kept = self.part(part).await?;
                drop(last.renewed.take_if(|renewed| renewed.from != kept));
                Some(last.renewed.as_ref().map_or(kept, |renewed| renewed.token.clone()))
            }
        };
        Ok(Client { id, secret, refresh_token })
    }

    async fn part(&self, name: &str) -> Result<Zeroizing<String>, SecretError> {
        let spec = self.parts.get(name).ok_or_else(|| SecretError::Undeclared(name.to_owned()))?;
        read(name, spec, &self.directory, &self.vault).await.map(|secret| secret.0)
    }

    /// Keeps a new refresh token: in the vault if the old one lies there, else in memory. The old one may be worth
    /// nothing from now on.
    async fn keep(&self, new: Zeroizing<String>, used: Zeroizing<String>, last: &mut Last, now: Timestamp) {
        let Grant::RefreshToken(part) = &self.spec.grant else { return };
        let from = last.renewed.as_ref().map_or_else(|| used.clone(), |renewed| renewed.from.clone());
        let in_vault = self.parts.get(part).is_some_and(|spec| spec.from == SecretSource::Vault);
        if in_vault {
            let (vault, name) = (Arc::clone(&self.vault), part.clone());
            let (held, value) = (from.clone(), new.clone());
            let kept = tokio::task::spawn_blocking(move || vault.renew(&name, &held, &value, now)).await;
            match kept {
                Ok(Ok(true)) => {
                    tracing::info!(
                        secret = part,
                        "the provider has given a new refresh token; it is in the vault"
                    );
                    last.renewed = None;
                    return;
                }
                // Somebody has put another one meanwhile: that one is used from now on.
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    tracing::error!(
                        secret = part,
                        error = upstream::chain(&error),
                        "a new refresh token could not be kept in the vault"
                    );
                }
                Err(error) => tracing::error!(secret = part, %error, "a new refresh token could not be kept"),
            }
        }
        tracing::warn!(
            secret = part,
            "the provider has given a new refresh token; it is known until the sidecar ends"
        );
        last.renewed = Some(Renewed { from, token: new });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        let after = |expires_in| renew_at(Timestamp(0), expires_in).0 / 1000;
        for (expires_in, seconds) in [(3600, 3540), (120, 60), (60, 30), (1, 0), (0, 0)] {
            assert_eq!(after(Some(expires_in)), seconds, "{expires_in}");
        }
        assert_eq!(after(None), 240);
    }
}
