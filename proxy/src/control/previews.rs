//! `/actions/…/previews`: what an invocation would send and take. An invocation may be bound to one, and is refused when
//! something that it showed has changed since.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use oncegate_policy::action::ActionName;
use oncegate_policy::id::PreviewId;
use oncegate_store::preview::{CreatedPreview, NewPreview, PreviewView};
use serde_json::{Map, Value, json};

use super::answer::{ApiError, ErrorCode, created, one};
use super::auth::Asker;
use super::params::Id;
use super::{actions, body, invoke, show};
use crate::asking::{KeysBeside, Listener};
use crate::invoking::{self, Invoked};
use crate::links::Links;
use crate::preview::{self, LIFE, LIFE_MAX, NoPreview};
use crate::state::Sidecar;
use crate::{meaning, pipeline};

/// `POST /actions/{ref}/previews`
pub(crate) async fn make(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(named): Id,
    body: Body,
) -> Result<Response, ApiError> {
    let snapshot = sidecar.snapshot();
    let name = actions::name(&snapshot, &named)?;
    let asked = body::strict_object(body, snapshot.config.proxy.max_request_body).await?;
    body::only(&asked, &["input", "ttlSeconds", "runId", "parentSpanId"])?;
    let life = life(&asked)?;
    let input = invoke::input(asked).map_err(|refusal| {
        ApiError::new(ErrorCode::Validation, refusal.sentence)
            .with_details(json!({ "reason": refusal.code.word() }))
    })?;
    shown(&sidecar, keep(&sidecar, &asker, &name, input, life, None).await?)
}

/// `GET /actions/previews/{id}`: for the key that made it, and for keys that decide.
pub(crate) async fn get(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
) -> Result<Response, ApiError> {
    let view = find(&sidecar, &asker, &id).await?;
    Ok(one(document(&sidecar, &view)))
}

/// `POST /actions/previews/{id}/refresh`: a new preview of the same call. What was decided over the old one does not
/// carry over.
pub(crate) async fn refresh(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
    body: Body,
) -> Result<Response, ApiError> {
    let asked = body::strict_object(body, super::BODY_BYTES_MAX).await?;
    body::only(&asked, &["ttlSeconds"])?;
    let life = life(&asked)?;
    let view = find(&sidecar, &asker, &id).await?;
    if view.caller != asker.name || view.input.is_null() {
        return Err(ApiError::not_found("preview that this key can refresh"));
    }
    shown(&sidecar, keep(&sidecar, &asker, &view.action, view.input, life, Some(view.id)).await?)
}

async fn keep(
    sidecar: &Arc<Sidecar>,
    asker: &Asker,
    name: &ActionName,
    input: Value,
    life: Duration,
    refreshed_from: Option<PreviewId>,
) -> Result<CreatedPreview, ApiError> {
    let snapshot = sidecar.snapshot();
    let (action, adapter) = invoke::enabled(&snapshot, name)?;
    if !meaning::is_governed(action) {
        let message =
            format!("the action {name} is not governed: there is nothing that a preview could hold it to");
        return Err(
            ApiError::new(ErrorCode::Conflict, message).with_details(json!({ "reason": "not_governed" }))
        );
    }
    let invoked = Invoked {
        caller: asker.name.clone(),
        keys: KeysBeside::default(),
        input,
        links: Links::default(),
        preview: None,
    };
    let made = match invoking::asking(&snapshot, action, adapter, invoked) {
        Ok(asking) => preview::make(sidecar, &snapshot, asking, life).await,
        Err(refusal) => Err(NoPreview::Refused(refusal)),
    };
    let new = match made {
        Ok(new) => NewPreview { refreshed_from, ..new },
        Err(NoPreview::Refused(refusal)) => {
            pipeline::audit(sidecar, Listener::Api, &asker.name, Some(name), &refusal).await;
            return Err(ApiError::new(ErrorCode::Validation, refusal.sentence)
                .with_details(json!({ "reason": refusal.code.word() })));
        }
        Err(NoPreview::Store(error)) => return Err(ApiError::internal("make a preview", &error)),
    };
    let kept = sidecar.store.create_preview(new, sidecar.clock.now()).await;
    kept.map_err(|error| ApiError::internal("keep a preview", &error))
}

fn shown(sidecar: &Arc<Sidecar>, kept: CreatedPreview) -> Result<Response, ApiError> {
    match kept {
        CreatedPreview::Created(view) => Ok(created(document(sidecar, &view))),
        CreatedPreview::TooLarge { what, bytes_max } => Err(ApiError::new(
            ErrorCode::BodyTooLarge,
            format!("the preview's {what} is larger than {bytes_max} bytes"),
        )),
        CreatedPreview::TooMany => Err(ApiError::new(
            ErrorCode::Conflict,
            "this key has too many previews that it has not used; they lapse by themselves",
        )
        .with_details(json!({ "reason": "too_many_previews" }))),
        CreatedPreview::NothingToRefresh => Err(ApiError::not_found("preview")),
    }
}

/// What was shown, and what has become of it.
fn document(sidecar: &Arc<Sidecar>, view: &PreviewView) -> Value {
    let status = if view.used_by.is_some() {
        "used"
    } else if view.superseded_at.is_some() {
        "superseded"
    } else if view.expires_at <= sidecar.clock.now() {
        "expired"
    } else {
        "valid"
    };
    let mut members = match &view.document {
        Value::Object(members) => members.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    let about = json!({
        "id": view.id.as_str(),
        "actionName": view.action.as_str(),
        "caller": view.caller.as_str(),
        "status": status,
        "input": view.input,
        "createdAt": show::moment(view.created_at),
        "expiresAt": show::moment(view.expires_at),
        "refreshedFrom": view.refreshed_from.as_ref().map(PreviewId::as_str),
        "effectId": view.used_by.as_ref().map(ToString::to_string),
    });
    if let Value::Object(about) = about {
        members.extend(about);
    }
    Value::Object(members)
}

async fn find(sidecar: &Arc<Sidecar>, asker: &Asker, id: &str) -> Result<PreviewView, ApiError> {
    let missing = || ApiError::not_found("preview");
    let id = PreviewId::parse(id).ok_or_else(missing)?;
    let found =
        sidecar.store.preview(&id).await.map_err(|error| ApiError::internal("read a preview", &error))?;
    let decides = asker.needs(oncegate_policy::caller::Scope::ActionsResolve).is_ok();
    found.filter(|view| view.caller == asker.name || decides).ok_or_else(missing)
}

/// `ttlSeconds`
fn life(asked: &Value) -> Result<Duration, ApiError> {
    let bounds = format!("a whole number from 1 to {}", LIFE_MAX.as_secs());
    match asked.get("ttlSeconds") {
        None | Some(Value::Null) => Ok(LIFE),
        Some(value) => match value.as_u64().map(Duration::from_secs) {
            Some(life) if !life.is_zero() && life <= LIFE_MAX => Ok(life),
            Some(_) | None => Err(ApiError::parameter("ttlSeconds", &bounds)),
        },
    }
}
