//! `/secrets`: put, listed, deleted, and never read back. Values lie in the vault; what is declared of them stands in
//! `managed/secrets.toml`. Clients send these calls again without a key: each is safe to repeat.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use oncegate_config::model::{Placement, SecretSource, SecretSpec};
use oncegate_policy::caller::Scope;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::answer::{ApiError, ErrorCode, created, one, page};
use super::auth::Asker;
use super::managed_secrets::{self, Declared};
use super::page::Pagination;
use super::params::Id;
use super::show::moment;
use super::{body, open_effects};
use crate::adapting;
use crate::reload::{Prepared, Turn};
use crate::secrets::usable;
use crate::state::{Sidecar, Snapshot};
use crate::vault::VaultError;

/// `sec_` and the name: a secret has no other id here.
const ID_PREFIX: &str = "sec_";
const NAME_BYTES_MAX: usize = 128;
const DESCRIPTION_CHARS_MAX: usize = 500;
const HOSTS_MAX: usize = 100;
const HOST_BYTES_MAX: usize = 255;
const PLACEMENTS: [(&str, Placement); 3] =
    [("url", Placement::Url), ("header", Placement::Header), ("body", Placement::Body)];

/// What a `PUT` says. Has no `Debug`.
struct Put {
    value: Zeroizing<String>,
    /// `None` where nothing is said: as it was.
    description: Option<Option<String>>,
    allowed_hosts: Option<Option<Vec<String>>>,
    allowed_placements: Option<Option<Vec<Placement>>>,
}

/// `PUT /secrets/{name}`: creates it, or rotates its value.
pub(crate) async fn put(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(name): Id,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::SecretsWrite)?;
    if !is_name(&name) {
        return Err(ApiError::parameter("name", "1 to 128 characters out of A-Z, 0-9 and _"));
    }
    let put = read(body::object(body).await?)?;
    let mut turn = Turn::take(&sidecar).await;
    let snapshot = sidecar.snapshot();
    let declared = declared(&sidecar).await?;
    // Nothing is admitted between the question and the new value.
    let editing = sidecar.editions.editing().await;
    settles_nothing_of(&sidecar, &snapshot, &name, &asker).await?;
    let known = snapshot.config.secrets.get(&name);
    let prepared = match known.filter(|_| !declared.contains_key(&name)) {
        Some(theirs) => {
            may_take_a_value(&name, theirs, &put)?;
            None
        }
        None => prepare(&turn, declared, &name, &put).await?,
    };
    let fresh = snapshot.vault.times(&name).is_none();
    // First the value: what is declared and has none would refuse requests that the old one served.
    keep(&snapshot, &name, put.value, sidecar.clock.now()).await?;
    // What was minted with the one before ends here.
    sidecar.tokens.forget(&name);
    if let Some(prepared) = prepared {
        turn.write_and_finish(prepared, editing).await?;
    }
    tracing::info!(caller.name = %asker.name, secret = name, "a secret was put");
    let snapshot = sidecar.snapshot();
    let spec = snapshot.config.secrets.get(&name).ok_or_else(|| ApiError::not_found("secret"))?;
    let shown = shown(&snapshot, &name, spec);
    Ok(if fresh { created(shown) } else { one(shown) })
}

/// `GET /secrets`
pub(crate) async fn list(State(sidecar): State<Arc<Sidecar>>, asker: Asker) -> Result<Response, ApiError> {
    may_look(&asker)?;
    let snapshot = sidecar.snapshot();
    let all = snapshot.config.secrets.iter();
    let all: Vec<_> = all.map(|(name, spec)| shown(&snapshot, name, spec)).collect();
    let pagination = Pagination::whole(all.len());
    Ok(page(all, pagination))
}

/// `GET /secrets/{name}`, by name or by id
pub(crate) async fn get(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(text): Id,
) -> Result<Response, ApiError> {
    may_look(&asker)?;
    let snapshot = sidecar.snapshot();
    let named = |name: &str| snapshot.config.secrets.get_key_value(name);
    let found = named(&text).or_else(|| named(text.strip_prefix(ID_PREFIX)?));
    let (name, spec) = found.ok_or_else(|| ApiError::not_found("secret"))?;
    Ok(one(shown(&snapshot, name, spec)))
}

/// `DELETE /secrets/{name}`. The second of two finds nothing to delete, and says so without an error.
pub(crate) async fn delete(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(name): Id,
) -> Result<Response, ApiError> {
    asker.needs(Scope::SecretsWrite)?;
    let mut turn = Turn::take(&sidecar).await;
    let snapshot = sidecar.snapshot();
    let mut declared = declared(&sidecar).await?;
    let managed = declared.remove(&name).is_some();
    if !managed && snapshot.config.secrets.contains_key(&name) {
        return Err(declared_in_file(&name, "delete it there"));
    }
    if snapshot.config.secret_uses.iter().any(|one| one.secret == name) {
        let message = format!("a host or an action names {name}: change that first. Nothing was deleted.");
        return Err(ApiError::new(ErrorCode::Conflict, message).with_details(json!({ "reason": "in_use" })));
    }
    if managed {
        turn.replace_managed(vec![managed_secrets::edit(&declared)]).await?;
    }
    // Last: a value that nobody names any more can be deleted again, one that is named must be there.
    let (vault, forgotten) = (Arc::clone(&snapshot.vault), name.clone());
    let removed = blocking(move || vault.remove(&forgotten)).await?;
    if managed || removed {
        tracing::info!(caller.name = %asker.name, secret = name, "a secret was deleted");
    }
    Ok(one(json!({ "deleted": managed || removed, "name": name })))
}

/// What an effect is read back with settles it: with the key of another account, a provider shows another record. Who
/// asked for the effect does not put that (P8). A secret that is named cannot be deleted at all.
async fn settles_nothing_of(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    name: &str,
    asker: &Asker,
) -> Result<(), ApiError> {
    let (config, what) = (&snapshot.config, format!("the secret {name}"));
    for action in config.actions.values().filter(|action| adapting::takes_secret(config, action, name)) {
        open_effects::none_of(sidecar, &action.name, asker, &what).await?;
    }
    Ok(())
}

/// The names are of use to whoever puts secrets, and to whoever declares what uses them.
fn may_look(asker: &Asker) -> Result<(), ApiError> {
    asker.needs(Scope::ActionsGovern).or_else(|_| asker.needs(Scope::SecretsWrite))
}

fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(good)
}

async fn declared(sidecar: &Sidecar) -> Result<Declared, ApiError> {
    let path = sidecar.files.path().to_owned();
    let read = tokio::task::spawn_blocking(move || managed_secrets::read(&path)).await;
    read.map_err(|error| ApiError::internal("read the managed secrets", &error))?
        .map_err(|error| ApiError::internal("read the managed secrets", &error))
}

/// The edit that declares it; `None` when it is declared so already.
async fn prepare(
    turn: &Turn<'_>,
    mut declared: Declared,
    name: &str,
    put: &Put,
) -> Result<Option<Prepared>, ApiError> {
    let before = declared.get(name);
    let mut spec = before.cloned().unwrap_or(SecretSpec {
        from: SecretSource::Vault,
        description: None,
        allowed_hosts: None,
        allowed_placements: None,
    });
    if let Some(description) = &put.description {
        spec.description.clone_from(description);
    }
    if let Some(hosts) = &put.allowed_hosts {
        spec.allowed_hosts.clone_from(hosts);
    }
    if let Some(placements) = &put.allowed_placements {
        spec.allowed_placements.clone_from(placements);
    }
    if before == Some(&spec) {
        return Ok(None);
    }
    declared.insert(name.to_owned(), spec);
    Ok(Some(turn.prepare(vec![managed_secrets::edit(&declared)]).await?))
}

/// What a person declared keeps what they say of it, and takes a value only if they have left that to the API.
fn may_take_a_value(name: &str, theirs: &SecretSpec, put: &Put) -> Result<(), ApiError> {
    if theirs.from != SecretSource::Vault {
        return Err(declared_in_file(
            name,
            "its value does not come from the vault: change it where it is kept",
        ));
    }
    let other = put.description.as_ref().is_some_and(|said| *said != theirs.description)
        || put.allowed_hosts.as_ref().is_some_and(|said| *said != theirs.allowed_hosts)
        || put.allowed_placements.as_ref().is_some_and(|said| *said != theirs.allowed_placements);
    if other {
        return Err(declared_in_file(name, "change what it is allowed there, or put the value alone"));
    }
    Ok(())
}

fn declared_in_file(name: &str, instead: &str) -> ApiError {
    let message = format!(
        "secret {name} is declared in the configuration, [secrets.{name}]: {instead}. Nothing was changed."
    );
    ApiError::new(ErrorCode::Conflict, message).with_details(json!({ "reason": "declared_in_file" }))
}

async fn keep(
    snapshot: &Snapshot,
    name: &str,
    value: Zeroizing<String>,
    now: oncegate_policy::time::Timestamp,
) -> Result<(), ApiError> {
    let (vault, name) = (Arc::clone(&snapshot.vault), name.to_owned());
    blocking(move || vault.put(&name, &value, now)).await.map(drop)
}

async fn blocking<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, VaultError> + Send + 'static,
) -> Result<T, ApiError> {
    let ended = tokio::task::spawn_blocking(step).await;
    ended
        .map_err(|error| ApiError::internal("write the vault", &error))?
        .map_err(|error| ApiError::internal("write the vault", &error))
}

/// Reads the members by hand: a library's own messages may quote a value that was put in the wrong place.
fn read(mut members: Map<String, Value>) -> Result<Put, ApiError> {
    let Some(Value::String(raw)) = members.remove("value") else {
        return Err(ApiError::parameter("value", "a string"));
    };
    let raw = Zeroizing::new(raw);
    let value = usable(&raw).map(|value| Zeroizing::new(value.to_owned()));
    let value =
        value.ok_or_else(|| ApiError::parameter("value", "1 byte to 64 KiB of printable ASCII and tabs"))?;
    let description = match members.remove("description") {
        None => None,
        Some(Value::Null) => Some(None),
        Some(Value::String(text)) => Some(Some(body::text("description", &text, DESCRIPTION_CHARS_MAX)?)),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(ApiError::parameter("description", "a string or null"));
        }
    };
    let host = |text: String| (text.len() <= HOST_BYTES_MAX).then_some(text);
    let place = |text: String| PLACEMENTS.iter().find(|(word, _)| *word == text).map(|(_, place)| *place);
    let allowed_hosts = listed(&mut members, "allowedHosts", "a list of 1 to 100 hosts, or null", host)?;
    let allowed_placements =
        listed(&mut members, "allowedPlacements", "a list of url, header or body, or null", place)?;
    // A misspelt `allowedHosts` would leave the secret without the bound that somebody meant. The name is not said again:
    // a value may have been put in its place.
    if !members.is_empty() {
        let message =
            "known members are value, description, allowedHosts and allowedPlacements; there is another one";
        return Err(ApiError::new(ErrorCode::Validation, message));
    }
    Ok(Put { value, description, allowed_hosts, allowed_placements })
}

fn listed<T>(
    members: &mut Map<String, Value>,
    name: &str,
    expected: &str,
    read: impl Fn(String) -> Option<T>,
) -> Result<Option<Option<Vec<T>>>, ApiError> {
    let wrong = || ApiError::parameter(name, expected);
    match members.remove(name) {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(Value::Array(items)) if (1..=HOSTS_MAX).contains(&items.len()) => {
            let text = |item| if let Value::String(text) = item { read(text) } else { None };
            items
                .into_iter()
                .map(text)
                .collect::<Option<Vec<T>>>()
                .map(|list| Some(Some(list)))
                .ok_or_else(wrong)
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
            Err(wrong())
        }
    }
}

fn shown(snapshot: &Snapshot, name: &str, spec: &SecretSpec) -> Value {
    let source = match spec.from {
        SecretSource::Env(_) => "env",
        SecretSource::File(_) => "file",
        SecretSource::Command(_) => "command",
        SecretSource::Vault => "vault",
        SecretSource::OAuth2(_) => "oauth2",
    };
    let word = |place: &Placement| PLACEMENTS.iter().find(|(_, known)| known == place).map(|(word, _)| *word);
    let placements = spec.allowed_placements.as_ref();
    let placements = placements.map(|places| places.iter().filter_map(word).collect::<Vec<_>>());
    let times = (spec.from == SecretSource::Vault).then(|| snapshot.vault.times(name)).flatten();
    json!({
        "id": format!("{ID_PREFIX}{name}"),
        "name": name,
        "description": spec.description,
        "allowedHosts": spec.allowed_hosts,
        "allowedPlacements": placements,
        "source": source,
        "createdAt": times.map(|times| moment(times.created_at)),
        "updatedAt": times.map(|times| moment(times.updated_at)),
    })
}
