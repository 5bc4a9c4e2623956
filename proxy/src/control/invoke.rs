//! `POST /actions/{ref}/invoke`: an action asked for by name. The same pipeline as a proxied request; only the shape of
//! the answer is another.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use oncegate_adapters::Adapter;
use oncegate_config::model::Action;
use oncegate_policy::action::ActionName;
use oncegate_policy::caller::{CallerName, Scope};
use oncegate_policy::effect::Stage;
use oncegate_policy::id::PreviewId;
use oncegate_policy::plain::PlainStatus;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_store::view::EffectView;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::answer::{ApiError, ErrorCode, one};
use super::auth::Asker;
use super::params::Id;
use super::view::InvocationJson;
use super::{actions, body, show};
use crate::asking::{Asking, Fresh, KeysBeside, Listener};
use crate::drill;
use crate::invoking::{self, Invoked};
use crate::links::{self, Links};
use crate::meaning;
use crate::pipeline;
use crate::plain::{self, SaidPlain};
use crate::respond::REPLAY_HEADER;
use crate::said::{Answering, Said};
use crate::state::{Sidecar, Snapshot};
use crate::task;

/// Beside the input itself, which is bounded as a proxied body is: key, links, preview.
const AROUND_BYTES_MAX: usize = 16 * 1024;
/// The members of an invocation. Those about runs and spans are taken, and no part of what is asked.
const MEMBERS: [&str; 8] =
    ["input", "runId", "parentSpanId", "retryOf", "operationKey", "previewId", "dependsOn", "compensates"];
const KEY_HEADER: &str = "idempotency-key";

/// `POST /actions/{ref}/invoke`. Answers `200` whatever became of it, `202` while a person has to decide: a client that
/// resends on an error must not be told of one after something was sent.
pub(crate) async fn invoke(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(named): Id,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ActionsInvoke)?;
    let edition = sidecar.editions.latest();
    let snapshot = sidecar.snapshot();
    let name = actions::name(&snapshot, &named)?;
    let (action, adapter) = enabled(&snapshot, &name)?;
    let asked = body::strict_object(body, snapshot.config.proxy.max_request_body + AROUND_BYTES_MAX).await?;
    body::only(&asked, &MEMBERS)?;
    let asking = match read(&snapshot, action, adapter, &asker, &headers, asked) {
        Ok(asking) => Asking { edition, ..asking },
        Err(refusal) => {
            pipeline::audit(&sidecar, Listener::Api, &asker.name, Some(&name), &refusal).await;
            return refused(&asker.name, &name, &refusal);
        }
    };
    if !meaning::is_governed(action) {
        return plain(&sidecar, &snapshot, &asker, &name, asking).await;
    }
    let ids = asking.fresh.clone();
    let (answering, waiting) = Answering::channel();
    task::start(pipeline::govern(Arc::clone(&sidecar), Arc::clone(&snapshot), asking, answering));
    match waiting.await {
        Ok(said) => shaped(&asker.name, &name, &said, &ids),
        // The task ended without a word, which only a defect can bring about. It may have sent.
        Err(_) => Ok(one(show::unrecorded(&asker.name, &name, &ids))),
    }
}

/// The same for an action that is not governed: an invocation, and no effect.
async fn plain(
    sidecar: &Arc<Sidecar>,
    snapshot: &Arc<Snapshot>,
    asker: &Asker,
    name: &ActionName,
    asking: Asking,
) -> Result<Response, ApiError> {
    let (links, ids) = (&asking.links, asking.fresh.clone());
    if asking.preview.is_some()
        || !links.depends_on.is_empty()
        || links.compensates.is_some()
        || asking.drill.is_some()
    {
        let sentence = "The action is not governed: it takes neither previewId, dependsOn, compensates nor a fault drill. Nothing was sent.";
        let refusal = Refusal::new(Code::InvalidInput, sentence);
        pipeline::audit(sidecar, Listener::Api, &asker.name, Some(name), &refusal).await;
        return refused(&asker.name, name, &refusal);
    }
    let (give, waiting) = oneshot::channel();
    task::start(plain::invoke(Arc::clone(sidecar), Arc::clone(snapshot), asking, give));
    match waiting.await {
        Ok(SaidPlain::Refused(refusal)) => refused(&asker.name, name, &refusal),
        Ok(SaidPlain::Record { view, repeat: true }) if view.status == PlainStatus::Running => {
            let message = format!("invocation {} is still on its way; nothing more was sent", view.id);
            let details = json!({ "reason": Code::InFlight.word(), "invocationId": view.id.as_str() });
            Err(ApiError::new(ErrorCode::InProgress, message).with_details(details))
        }
        Ok(SaidPlain::Record { view, repeat }) => {
            let mut response = one(InvocationJson { replayed: Some(repeat), ..show::plain(&view, true) });
            if repeat {
                response.headers_mut().insert(REPLAY_HEADER, HeaderValue::from_static("current-state"));
            }
            Ok(response)
        }
        Err(_) => Ok(one(show::unrecorded_plain(&asker.name, name, &ids))),
    }
}

/// A declared action that may be asked for.
pub(crate) fn enabled<'a>(
    snapshot: &'a Snapshot,
    name: &ActionName,
) -> Result<(&'a Action, &'a Adapter), ApiError> {
    snapshot.action(name.as_str()).ok_or_else(|| {
        ApiError::new(ErrorCode::Conflict, format!("the action {name} is not enabled; nothing was sent"))
            .with_details(json!({ "reason": "disabled" }))
    })
}

fn read(
    snapshot: &Snapshot,
    action: &Action,
    adapter: &Adapter,
    asker: &Asker,
    headers: &HeaderMap,
    asked: Value,
) -> Result<Asking, Refusal> {
    let links = Links::of_body(&asked)?;
    let keys = keys(headers, &asked)?;
    let preview = preview(&asked)?;
    let input = input(asked)?;
    let invoked = Invoked { caller: asker.name.clone(), keys, input, links, preview };
    let drill = drill::of_request(snapshot, &asker.name, action, headers)?;
    Ok(Asking { drill, ..invoking::asking(snapshot, action, adapter, invoked)? })
}

/// The preview that the call is bound to.
fn preview(asked: &Value) -> Result<Option<PreviewId>, Refusal> {
    let Some(text) = links::text(asked, "previewId")? else { return Ok(None) };
    PreviewId::parse(text).map(Some).ok_or_else(|| {
        Refusal::new(Code::InvalidInput, "previewId has to name a preview (prv_…). Nothing was sent.")
    })
}

/// The input of an invocation or a preview: an object, empty where none was sent.
pub(crate) fn input(mut asked: Value) -> Result<Value, Refusal> {
    match asked.get_mut("input").map(Value::take) {
        None | Some(Value::Null) => Ok(Value::Object(Map::new())),
        Some(input @ Value::Object(_)) => Ok(input),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(Refusal::new(Code::InvalidInput, "input has to be an object. Nothing was sent."))
        }
    }
}

/// The caller's own keys: `operationKey`, which somebody chose, and the field that client libraries fill by themselves.
fn keys(headers: &HeaderMap, asked: &Value) -> Result<KeysBeside, Refusal> {
    let mut fields = headers.get_all(KEY_HEADER).iter();
    let field = match (fields.next(), fields.next()) {
        (field, None) => field.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
        (_, Some(_)) => {
            let sentence = "The request carries two idempotency keys. Nothing was sent.";
            return Err(Refusal::new(Code::Ambiguous, sentence));
        }
    };
    let operation = links::text(asked, "operationKey")?.map(str::to_owned);
    let sent = |key: Option<String>| key.filter(|text| !text.is_empty());
    Ok(KeysBeside { field: sent(field), operation: sent(operation) })
}

/// What the pipeline said, as the published client reads it.
fn shaped(caller: &CallerName, action: &ActionName, said: &Said, ids: &Fresh) -> Result<Response, ApiError> {
    match said {
        Said::Refused(refusal) => refused(caller, action, refusal),
        Said::Provider { view, .. } => Ok(invocation(view, false)),
        Said::Record { view, repeat } => match (&view.stage, repeat) {
            (Stage::Dispatching { .. }, true) => Err(in_progress(view)),
            (
                Stage::Ready
                | Stage::Dispatching { .. }
                | Stage::AwaitingApproval { .. }
                | Stage::Reconciling { .. }
                | Stage::Settled(_)
                | Stage::Rejected(_),
                repeat,
            ) => Ok(invocation(view, *repeat)),
        },
        Said::Unrecorded(_) => Ok(one(show::unrecorded(caller, action, ids))),
    }
}

fn invocation(view: &EffectView, repeat: bool) -> Response {
    let mut response = one(InvocationJson { replayed: Some(repeat), ..show::invocation(view, true) });
    if let Stage::AwaitingApproval { .. } = view.stage {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    if repeat {
        response.headers_mut().insert(REPLAY_HEADER, HeaderValue::from_static("current-state"));
    }
    response
}

fn in_progress(view: &EffectView) -> ApiError {
    ApiError::new(
        ErrorCode::InProgress,
        format!("effect {} is still on its way; nothing more was sent", view.id),
    )
    .with_details(json!({ "reason": Code::InFlight.word(), "effectId": view.id.as_str() }))
}

/// A refusal. What a rule decided about a request that is as it should be is an answer with a grade; what is wrong with
/// the request, or in its way, is an error.
pub(crate) fn refused(
    caller: &CallerName,
    action: &ActionName,
    refusal: &Refusal,
) -> Result<Response, ApiError> {
    let code = match refusal.code {
        Code::LimitExceeded
        | Code::AmountUnbounded
        | Code::DependencyUnmet
        | Code::CredentialUnavailable
        | Code::Denied
        | Code::ApprovalRequired
        | Code::NotSent
        | Code::Failed => return Ok(one(show::refused(caller, action, refusal)).into_response()),
        Code::KeyReuse => ErrorCode::KeyReuse,
        Code::InFlight => ErrorCode::InProgress,
        Code::StalePreview => ErrorCode::StalePlan,
        Code::UnresolvedEffect => ErrorCode::UnresolvedEffect,
        Code::RetryRefused => ErrorCode::RetryRefused,
        Code::Halted => ErrorCode::Halted,
        Code::Ambiguous | Code::InvalidInput | Code::InvalidRequest | Code::IncompleteRequest => {
            ErrorCode::Validation
        }
        Code::BodyTooLarge => ErrorCode::BodyTooLarge,
        Code::StoreUnavailable | Code::Overloaded => ErrorCode::Unavailable,
        Code::Undeclared | Code::OutcomeUnknown | Code::AnswerWithheld => ErrorCode::Conflict,
    };
    let mut details = json!({ "reason": refusal.code.word() });
    if let (Some(members), Some(effect)) = (details.as_object_mut(), &refusal.effect) {
        members.insert("effectId".to_owned(), effect.as_str().into());
    }
    Err(ApiError::new(code, refusal.sentence.clone()).with_details(details))
}
