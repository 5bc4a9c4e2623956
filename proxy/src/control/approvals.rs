//! `/approvals`: questions to a person, and their answers. The key that asked never decides (P8).

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use oncegate_policy::caller::Scope;
use oncegate_policy::id::{ApprovalId, EffectId};
use oncegate_policy::refusal::Refusal;
use oncegate_store::approval::{ApprovalView, Decided, NewApproval, QUESTIONS_MAX};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::answer::{ApiError, ErrorCode, created, one, page};
use super::auth::Asker;
use super::page::{Pagination, Window};
use super::params::{Id, Params};
use super::view::{ApprovalJson, DecidedJson};
use super::waits::Waits;
use super::{Stopping, body, show};
use crate::let_through::{self, ANSWER_WITHIN, LetThrough};
use crate::preview;
use crate::state::Sidecar;

/// The longest that one call waits for a decision; less than what clients and proxies take for a dead connection.
const WAIT_MAX: Duration = Duration::from_secs(55);
/// How often a waiting call reads the record.
const WAIT_STEP: Duration = Duration::from_millis(200);
const STATUSES: [&str; 4] = ["pending", "approved", "denied", "expired"];
/// Who decides, in the published API's words, and with which statuses that ends here: nothing but a person or the time.
const ORIGINS: [(&str, &[&str]); 5] = [
    ("human", &["approved", "denied"]),
    ("system", &["expired"]),
    ("policy", &[]),
    ("assistant", &[]),
    ("automated", &[]),
];
const TITLE_CHARS_MAX: usize = 300;
const TEXT_CHARS_MAX: usize = 4_000;
/// For a person to read, and kept for good.
const PAYLOAD_BYTES_MAX: usize = 8 * 1024;
/// How long a question stands when the one who asks does not say.
const EXPIRES_DEFAULT: Duration = Duration::from_secs(24 * 3_600);
const EXPIRES_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Ask {
    title: String,
    description: Option<String>,
    payload: Option<Value>,
    expires_in_seconds: Option<u64>,
    /// The published client may say in which run it asks. Runs are not kept here.
    #[serde(default, rename = "runId")]
    _run_id: IgnoredAny,
    #[serde(default, rename = "parentSpanId")]
    _parent_span_id: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    note: Option<String>,
}

/// `GET /approvals`
pub(crate) async fn list(
    State(sidecar): State<Arc<Sidecar>>,
    _asker: Asker,
    params: Params,
) -> Result<Response, ApiError> {
    let window = Window::read(params.get("limit"), params.get("offset"))?;
    let known = |text: &str| STATUSES.into_iter().find(|word| *word == text);
    let status = params.read("status", "pending, approved, denied or expired", known)?;
    let known = |text: &str| ORIGINS.into_iter().find(|(word, _)| *word == text).map(|(_, ends)| ends);
    let origin = params.read("decisionOrigin", "human, policy, system, assistant or automated", known)?;
    let wanted = (status.is_some() || origin.is_some()).then(|| {
        let fits = |word: &&str| {
            status.is_none_or(|status| status == *word) && origin.is_none_or(|ends| ends.contains(word))
        };
        STATUSES.into_iter().filter(fits).collect()
    });
    let found = sidecar.store.approvals(wanted, window.limit, window.offset).await;
    let (found, total) = found.map_err(|error| ApiError::unrecorded("list approvals", &error))?;
    Ok(page(found.iter().map(show::approval).collect(), Pagination::of(window, total)))
}

/// `GET /approvals/{id}[?waitSeconds=n]`: still pending after the wait is an ordinary answer, and so it is at once where
/// as many wait already as may.
pub(crate) async fn get(
    State(sidecar): State<Arc<Sidecar>>,
    Extension(Stopping(mut stopping)): Extension<Stopping>,
    Extension(waits): Extension<Waits>,
    asker: Asker,
    Id(id): Id,
    params: Params,
) -> Result<Response, ApiError> {
    let seconds: Option<u64> =
        params.read("waitSeconds", "a whole number of seconds, 0 or more", |text| text.parse().ok())?;
    let wait = Duration::from_secs(seconds.unwrap_or(0)).min(WAIT_MAX);
    let until = Instant::now() + wait;
    let id = approval_id(&id)?;
    let waiting = if wait.is_zero() { None } else { waits.enter(&asker.name) };
    let turned_away = waiting.is_none() && !wait.is_zero();
    loop {
        let approval = find(&sidecar, &id).await?;
        if approval.status != "pending" || Instant::now() >= until || *stopping.borrow() || turned_away {
            let mut response = one(with_request(&sidecar, &asker, &approval).await?);
            if turned_away {
                // Its place at the listener is free for others between two questions.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            return Ok(response);
        }
        tokio::select! {
            () = sleep(WAIT_STEP) => {}
            // A sidecar that stops does not wait for a person.
            _ = stopping.changed() => {}
        }
    }
}

/// What a person decides over: the exact request as it will be sent, while it waits. For the key that asked and for
/// those that decide.
async fn with_request(
    sidecar: &Arc<Sidecar>,
    asker: &Asker,
    approval: &ApprovalView,
) -> Result<ApprovalJson, ApiError> {
    let shown = show::approval(approval);
    let may = approval.caller == asker.name || asker.needs(Scope::ApprovalsDecide).is_ok();
    // Afterwards the request is erased, and its digest stands with the effect.
    let may = may && approval.status == "pending";
    let (Some(effect), true) = (&approval.effect, may) else { return Ok(shown) };
    let kept = sidecar.store.prepared(effect).await;
    let kept = kept.map_err(|error| ApiError::internal("read what waits for a decision", &error))?;
    let Some(kept) = kept else { return Ok(shown) };
    let payload = json!({
        "action": kept.view.action.as_str(),
        "subject": kept.view.subject,
        "impact": kept.view.impact.as_ref().map(show::impact),
        "request": preview::change(&kept.request),
    });
    Ok(ApprovalJson { payload, ..shown })
}

/// `POST /approvals`: a question on the agent's own account; nothing here waits for it.
pub(crate) async fn ask(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ActionsInvoke)?;
    let asked: Ask = body::object(body).await?;
    let expires = asked.expires_in_seconds.map_or(EXPIRES_DEFAULT, Duration::from_secs);
    if expires.is_zero() || expires > EXPIRES_MAX {
        return Err(ApiError::parameter("expiresInSeconds", "from 1 to a year"));
    }
    if asked.payload.as_ref().is_some_and(|payload| payload.to_string().len() > PAYLOAD_BYTES_MAX) {
        return Err(ApiError::parameter("payload", &format!("at most {PAYLOAD_BYTES_MAX} bytes of JSON")));
    }
    let now = sidecar.clock.now();
    let new = NewApproval {
        caller: asker.name,
        title: body::text("title", &asked.title, TITLE_CHARS_MAX)?,
        description: body::maybe_text("description", asked.description.as_ref(), TEXT_CHARS_MAX)?,
        payload: asked.payload,
        expires_at: now.plus(expires),
    };
    let made = sidecar.store.request_approval(new, now).await;
    let made = made.map_err(|error| ApiError::unrecorded("ask for an approval", &error))?;
    let Some(made) = made else {
        let message = format!("{QUESTIONS_MAX} questions of this key are pending: nobody reads so many");
        return Err(ApiError::new(ErrorCode::Conflict, message).with_details(json!({ "reason": "full" })));
    };
    sidecar.asked.notify_one();
    Ok(created(show::approval(&made)))
}

/// `POST /approvals/{id}/approve`: what waited for it is sent, once, and what became of it is the answer.
pub(crate) async fn approve(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ApprovalsDecide)?;
    let (id, note) = (approval_id(&id)?, note(body).await?);
    let decided = sidecar.store.approve(&id, &asker.name, note, sidecar.clock.now()).await;
    let approval = counts(decided.map_err(|error| ApiError::unrecorded("record the approval", &error))?)?;
    tracing::info!(approval.id = %id, caller.name = %asker.name, "approved");
    let refusal = match &approval.effect {
        Some(effect) => send(&sidecar, effect).await?,
        None => None,
    };
    now(&sidecar, &id, refusal).await
}

/// `POST /approvals/{id}/deny`: what waited for it ends, unsent; so does what was approved and is not sent yet.
pub(crate) async fn deny(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ApprovalsDecide)?;
    let (id, note) = (approval_id(&id)?, note(body).await?);
    let decided = sidecar.store.deny(&id, &asker.name, note, sidecar.clock.now()).await;
    counts(decided.map_err(|error| ApiError::unrecorded("record the denial", &error))?)?;
    tracing::info!(approval.id = %id, caller.name = %asker.name, "denied");
    now(&sidecar, &id, None).await
}

/// Sends what was approved and waits for its answer, within bounds. From the approval on, whatever fails here is made
/// good by the reconciler's next pass.
async fn send(sidecar: &Arc<Sidecar>, effect: &EffectId) -> Result<Option<Refusal>, ApiError> {
    let let_through = let_through::dispatch_ready(sidecar, effect).await;
    match let_through.map_err(|error| ApiError::internal("send what was approved", &error))? {
        LetThrough::Sending(said) => drop(timeout(ANSWER_WITHIN, said).await),
        // The reconciler was faster: its dispatch is the one.
        LetThrough::NotReady => drop(timeout(ANSWER_WITHIN, sidecar.in_flight.join(effect)).await),
        LetThrough::Refused(refusal, _) => return Ok(Some(refusal)),
    }
    Ok(None)
}

async fn now(
    sidecar: &Arc<Sidecar>,
    id: &ApprovalId,
    refusal: Option<Refusal>,
) -> Result<Response, ApiError> {
    let approval = find(sidecar, id).await?;
    let invocation = match &approval.effect {
        Some(effect) => {
            Some(show::decided(&super::effects::find(sidecar, effect).await?.view, refusal.as_ref()))
        }
        None => None,
    };
    Ok(one(DecidedJson { approval: show::approval(&approval), invocation }))
}

fn counts(decided: Decided) -> Result<ApprovalView, ApiError> {
    match decided {
        Decided::Done(approval) => Ok(approval),
        Decided::OwnRequest(_) => Err(ApiError::own("an approval never decides it")),
        Decided::AlreadyDecided(approval) => {
            let status = &approval.status;
            Err(ApiError::new(ErrorCode::Conflict, format!("this approval is {status} already"))
                .with_details(json!({ "reason": "already_decided", "status": status })))
        }
        Decided::Missing => Err(ApiError::not_found("approval")),
    }
}

async fn note(body: Body) -> Result<Option<String>, ApiError> {
    let Note { note } = body::object(body).await?;
    body::maybe_text("note", note.as_ref(), TEXT_CHARS_MAX)
}

async fn find(sidecar: &Arc<Sidecar>, id: &ApprovalId) -> Result<ApprovalView, ApiError> {
    let found = sidecar.store.approval(id).await;
    found
        .map_err(|error| ApiError::internal("read the approval", &error))?
        .ok_or_else(|| ApiError::not_found("approval"))
}

fn approval_id(text: &str) -> Result<ApprovalId, ApiError> {
    ApprovalId::parse(text).ok_or_else(|| ApiError::not_found("approval"))
}
