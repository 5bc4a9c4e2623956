//! Making, changing and removing definitions, and what they were before. Clients send these again under one key; a
//! definition that is there already, word for word, is no conflict either.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use oncegate_policy::action::ActionName;
use oncegate_policy::template::Template;
use oncegate_policy::url_template::{Scheme, UrlTemplate};
use serde_json::{Map, Value, json};
use toml::Table;

use super::answer::{ApiError, ErrorCode, created, one, page};
use super::auth::Asker;
use super::definitions::{Edit, Standing, by_hand, faulty};
use super::open_effects::{none, none_of};
use super::page::Pagination;
use super::params::Id;
use super::{BODY_BYTES_MAX, actions, body};
use crate::definition::{Problem, entry};
use crate::state::{Sidecar, Snapshot};

/// What holds the effects of an action that are not settled: where and as whom they are read back and sent again, and
/// what recognises a repeat of them. Headers that name a secret are among them, and the place of the provider's key.
const HOLDS_OPEN: [&str; 9] = [
    "method",
    "url",
    "scope_headers",
    "adapter",
    "credential_secret",
    "governed",
    "subject",
    "operation_key",
    "when",
];
/// What settles an effect: how it is read back, and what its provider's answers mean, that to a replay among them.
const SETTLES: [&str; 2] = ["verify", "response"];

/// `POST /actions`
pub(crate) async fn create(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    body: Body,
) -> Result<Response, ApiError> {
    let members = members(body).await?;
    let name = name(&members)?;
    // It would be named by the id of another action.
    if name.as_str().starts_with(actions::ID_PREFIX) {
        return Err(ApiError::parameter("name", "none that begins with `act_`: so do ids"));
    }
    let entry = entry::created(&members).map_err(faulty)?;
    secure(&sidecar.snapshot(), &entry).map_err(|problem| faulty(vec![problem]))?;
    let mut edit = Edit::begin(&sidecar).await?;
    match edit.standing(&name) {
        Standing::Nothing => {}
        Standing::Managed(known) if *known == entry => {
            edit.record(&asker, &[&name]).await?;
            return Ok(one(edit.shown(&name)?));
        }
        Standing::Managed(_) => return Err(exists(&name)),
        Standing::ByHand => return Err(by_hand(&name)),
    }
    let editing = sidecar.editions.editing().await;
    edit.defined.set(name.as_str(), entry);
    let warnings = edit.take(&asker, &[&name], editing).await?;
    tracing::info!(caller.name = %asker.name, action = %name, "an action was defined");
    Ok(created(with_warnings(edit.shown(&name)?, warnings)))
}

/// `PATCH /actions/{ref}`: what is left out is kept.
pub(crate) async fn change(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(text): Id,
    body: Body,
) -> Result<Response, ApiError> {
    let members = members(body).await?;
    let mut edit = Edit::begin(&sidecar).await?;
    let name = actions::name(&sidecar.snapshot(), &text)?;
    if members.get("name").is_some_and(|new| !new.is_null() && new.as_str() != Some(name.as_str())) {
        return Err(ApiError::parameter("name", "what it is: effects, limits and versions go by it"));
    }
    let known = edit.managed(&name)?.clone();
    let entry = entry::changed(&known, &members).map_err(faulty)?;
    if entry == known {
        return Ok(one(edit.shown(&name)?));
    }
    secure(&sidecar.snapshot(), &entry).map_err(|problem| faulty(vec![problem]))?;
    let editing = sidecar.editions.editing().await;
    if HOLDS_OPEN.iter().any(|key| entry.get(*key) != known.get(*key))
        || secret_headers(&entry) != secret_headers(&known)
        || key_place(&entry) != key_place(&known)
    {
        none(&sidecar, &name, "changed in what holds them").await?;
    }
    if SETTLES.iter().any(|key| entry.get(*key) != known.get(*key)) {
        none_of(&sidecar, &name, &asker, "how they are judged").await?;
    }
    edit.defined.set(name.as_str(), entry);
    let warnings = edit.take(&asker, &[&name], editing).await?;
    tracing::info!(caller.name = %asker.name, action = %name, "an action was changed");
    Ok(one(with_warnings(edit.shown(&name)?, warnings)))
}

/// `DELETE /actions/{ref}`: its versions and its effects stay in the record.
pub(crate) async fn remove(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(text): Id,
) -> Result<Response, ApiError> {
    let mut edit = Edit::begin(&sidecar).await?;
    let name = actions::name(&sidecar.snapshot(), &text)?;
    edit.managed(&name)?;
    let editing = sidecar.editions.editing().await;
    none(&sidecar, &name, "removed").await?;
    edit.defined.remove(name.as_str());
    edit.take(&asker, &[], editing).await?;
    tracing::info!(caller.name = %asker.name, action = %name, "an action was removed");
    Ok(one(json!({ "deleted": true, "id": actions::id(&name), "name": name.as_str() })))
}

/// `GET /actions/{ref}/versions`, oldest first.
pub(crate) async fn versions(
    State(sidecar): State<Arc<Sidecar>>,
    _asker: Asker,
    Id(text): Id,
) -> Result<Response, ApiError> {
    let edit = Edit::begin(&sidecar).await?;
    let name = actions::name(&sidecar.snapshot(), &text)?;
    let versions = edit.versions(&name).await?;
    let pagination = Pagination::whole(versions.len());
    Ok(page(versions, pagination))
}

/// The members of a definition, or of a change.
async fn members(body: Body) -> Result<Map<String, Value>, ApiError> {
    let Value::Object(members) = body::strict_object(body, BODY_BYTES_MAX).await? else {
        return Err(ApiError::new(ErrorCode::Validation, "the body must be a JSON object"));
    };
    Ok(members)
}

fn name(members: &Map<String, Value>) -> Result<ActionName, ApiError> {
    let expected = "1 to 64 letters, digits, `_`, `.` and `-`, not beginning with `.`, and not import, invocations, \
                    effects or previews";
    let name = members.get("name").and_then(Value::as_str).and_then(ActionName::parse);
    name.ok_or_else(|| ApiError::parameter("name", expected))
}

/// A governed write goes over TLS, unless an operator has declared its host to be plain.
pub(super) fn secure(snapshot: &Snapshot, entry: &Table) -> Result<(), Problem> {
    let governed = entry.get("governed").and_then(toml::Value::as_bool) == Some(true);
    let url = entry.get("url").and_then(toml::Value::as_str).and_then(|url| UrlTemplate::parse(url).ok());
    let Some(url) = url.filter(|url| governed && url.scheme() == Scheme::Http) else { return Ok(()) };
    if snapshot.host(url.authority()).is_some_and(|host| !host.implied && host.plain) {
        return Ok(());
    }
    let message = "a governed action's `urlTemplate` must begin with `https://`; an operator may declare a plain host \
                   in the configuration";
    Err(Problem::new("urlTemplate", message))
}

/// The headers whose templates name a secret. A replay has the others from the record; these are placed anew.
fn secret_headers(entry: &Table) -> Vec<(&String, &toml::Value)> {
    let names_secret = |value: &toml::Value| {
        let template = value.as_str().and_then(|text| Template::parse(text).ok());
        template.is_some_and(|template| !template.secrets().is_empty())
    };
    let headers = entry.get("headers").and_then(toml::Value::as_table);
    headers.into_iter().flatten().filter(|(_, value)| names_secret(value)).collect()
}

/// Where the provider reads its key. An agent's key may stand there too, and names its repeats; in the body, it is no part
/// of what is compared. How long the provider remembers it is kept with each effect.
fn key_place(entry: &Table) -> Vec<(&String, &toml::Value)> {
    let idempotency = entry.get("idempotency").and_then(toml::Value::as_table);
    idempotency.into_iter().flatten().filter(|(name, _)| *name != "window").collect()
}

fn exists(name: &ActionName) -> ApiError {
    ApiError::new(ErrorCode::Conflict, format!("an action {name} exists already, and says something else"))
        .with_details(json!({ "reason": "exists" }))
}

fn with_warnings(mut shown: Value, warnings: Vec<(String, String)>) -> Value {
    if let Some(members) = shown.as_object_mut() {
        let said: Vec<_> = warnings.into_iter().map(|(_, warning)| warning).collect();
        members.insert("warnings".to_owned(), said.into());
    }
    shown
}
