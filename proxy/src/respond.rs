//! What the agent reads at the proxy listener (DESIGN section 11). Pure: from what is said to an answer.
//!
//! Only 400, 403 and 422 in answers of our own, never `Retry-After`, and the sentence in the reason phrase as
//! well, since it is the only text that some clients print.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper::ext::ReasonPhrase;
use oncegate_adapters::{Adapter, OwnError, no_adapter_error_body};
use oncegate_policy::effect::{Rejection, SettledResult, Stage, Verification};
use oncegate_policy::exchange::Answer;
use oncegate_policy::id::EffectId;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_store::view::{EffectView, ResponseSource, StoredResponse};

use crate::receive::{is_hop_by_hop, is_ours};
use crate::said::Said;
use crate::upstream::{Body, whole};

/// Names the page of a code under `docs/refusals/`. Not an address: the project owns no web site that an agent could be
/// sent to.
const DOCS: &str = "urn:oncegate:refusal";
/// Says that an answer comes from the record.
pub const REPLAY_HEADER: &str = "x-idempotent-replay";
/// Longest reason phrase; 170 characters survived in every client tested.
const REASON_BYTES_MAX: usize = 170;
/// Fields of a provider that are not passed on: retry hints make clients send again, and ours are ours alone.
const NOT_PASSED_ON: [&str; 3] = ["retry-after", "stripe-should-retry", "x-should-retry"];

/// The sentence of an answer of ours, whole: kept beside the response for a shape that is given it later.
#[derive(Clone, Debug)]
pub struct Sentence(pub String);

/// Gives what was said a shape. `shape` is the adapter in whose error format answers of ours are given.
#[must_use]
pub fn proxied(said: &Said, shape: Option<&Adapter>) -> Response<Body> {
    match said {
        Said::Refused(refusal) => refused(refusal, shape),
        Said::Provider { view, answer } => {
            let mut response =
                from_provider(answer.status, answer.reason.as_deref(), &answer.headers, &answer.body);
            name_effect(&mut response, view);
            outcome(&mut response, outcome_word(&view.stage));
            response
        }
        Said::Record { view, repeat } => recorded(view, *repeat, shape),
        Said::Unrecorded(effect) => {
            let mut response = own(Code::OutcomeUnknown, &unknown_sentence(effect), Some(effect), shape);
            outcome(&mut response, "unknown");
            response
        }
    }
}

/// A refusal: nothing was sent. Behind broken HTTP the connection ends: nobody knows where the next request begins.
#[must_use]
pub fn refused(refusal: &Refusal, shape: Option<&Adapter>) -> Response<Body> {
    let mut response = own(refusal.code, &refusal.sentence, refusal.effect.as_ref(), shape);
    if refusal.code == Code::InvalidRequest {
        set(&mut response, "connection", "close");
    }
    outcome(&mut response, "refused");
    response
}

/// It may have been applied, and there is no effect to name.
#[must_use]
pub fn unknown(sentence: &str, shape: Option<&Adapter>) -> Response<Body> {
    let mut response = own(Code::OutcomeUnknown, sentence, None, shape);
    outcome(&mut response, "unknown");
    response
}

/// The provider answered, and its answer may not be shown: what it says is not known here either.
#[must_use]
pub fn withheld(sentence: &str, shape: Option<&Adapter>) -> Response<Body> {
    let mut response = own(Code::AnswerWithheld, sentence, None, shape);
    outcome(&mut response, "unknown");
    response
}

/// A failure of which no answer is left to show. Not everything that failed was applied to nothing: a person may know of a
/// part.
#[must_use]
pub fn settled_as_failed(view: &EffectView) -> String {
    let id = &view.id;
    match view.stage.verification() {
        Verification::Manual => format!(
            "A person has settled effect {id} as failed, and may have noted that a part of it was applied: ask the operator \
             before you repeat it"
        ),
        Verification::Unverified | Verification::Provider => {
            format!("By the provider's own word effect {id} has failed: nothing was applied")
        }
    }
}

/// The sentence on unknown, the same everywhere.
#[must_use]
pub fn unknown_sentence(effect: &EffectId) -> String {
    format!(
        "The provider may have applied effect {effect}; Oncegate is reconciling it. Do not retry; inspect the effect."
    )
}

fn recorded(view: &EffectView, repeat: bool, shape: Option<&Adapter>) -> Response<Body> {
    let effect = Some(&view.id);
    let mut response = match &view.stage {
        Stage::Ready => {
            let sentence = "This is approved and has not been sent yet. Nothing was sent for this call. Do not retry; inspect the effect.";
            own(Code::InFlight, sentence, effect, shape)
        }
        Stage::Dispatching { .. } | Stage::Reconciling { .. } => {
            own(Code::OutcomeUnknown, &unknown_sentence(&view.id), effect, shape)
        }
        Stage::AwaitingApproval { approval, .. } => {
            let sentence = format!(
                "A person has to approve this first ({approval}). Nothing was sent. After approval repeat the identical request once."
            );
            own(Code::ApprovalRequired, &sentence, effect, shape)
        }
        Stage::Rejected(Rejection::Denied) => {
            own(Code::Denied, "A person has denied this. Nothing was sent. Do not retry.", effect, shape)
        }
        Stage::Rejected(Rejection::Expired) => {
            own(Code::Denied, "Nobody approved this in time. Nothing was sent.", effect, shape)
        }
        Stage::Rejected(Rejection::Refused(code)) => {
            own(*code, "This was refused when it was to be sent. Nothing was sent.", effect, shape)
        }
        Stage::Settled(settlement) => settled(view, settlement.result, repeat, shape),
    };
    name_effect(&mut response, view);
    outcome(&mut response, outcome_word(&view.stage));
    if repeat {
        set(&mut response, REPLAY_HEADER, "current-state");
    }
    response
}

fn settled(
    view: &EffectView,
    result: SettledResult,
    repeat: bool,
    shape: Option<&Adapter>,
) -> Response<Body> {
    // A record of a failure that was read back is no answer to a write: given as it came (a GET's 200), a client
    // would take it for success.
    let read_back = |kept: &StoredResponse| kept.source == ResponseSource::ReadBack;
    if let Some(kept) =
        view.response.as_ref().filter(|kept| result != SettledResult::Failed || !read_back(kept))
    {
        let mut response = from_provider(kept.status, kept.reason.as_deref(), &kept.headers, &kept.body);
        if repeat {
            let phrase = response.status().canonical_reason().unwrap_or("Answer");
            let phrase = format!("{phrase} (recorded; not sent again)");
            set_reason(&mut response, &phrase);
        }
        return response;
    }
    match result {
        SettledResult::Failed => {
            // A proof that came after somebody's word does not stand for what that word says.
            let proof = view.never_sent.as_ref();
            let (code, sentence) = match proof
                .filter(|_| view.stage.verification() == Verification::Unverified)
            {
                Some(proof) => {
                    let sentence =
                        format!("Effect {} was never sent ({}): nothing was applied.", view.id, proof.step);
                    (Code::NotSent, sentence)
                }
                None => (Code::Failed, format!("{}.", settled_as_failed(view))),
            };
            own(code, &sentence, Some(&view.id), shape)
        }
        // Settled by a person or by a record without a body, or the answer is no longer kept: the receipt.
        SettledResult::Confirmed | SettledResult::Acknowledged => {
            let receipt = serde_json::json!({
                "effect": view.id.as_str(),
                "invocation": view.invocation.as_str(),
                "action": view.action.as_str(),
                "outcome": "succeeded",
                "grade": view.stage.grade().word(),
                "verification": view.stage.verification().word(),
            });
            let mut response = Response::new(whole(Bytes::from(receipt.to_string())));
            set(&mut response, "content-type", "application/json");
            set_reason(&mut response, "OK (recorded; not sent again)");
            response
        }
    }
}

/// An answer of our own, in the provider's format where an adapter knows it.
fn own(code: Code, sentence: &str, effect: Option<&EffectId>, shape: Option<&Adapter>) -> Response<Body> {
    let word = format!("oncegate_{}", code.word());
    let key_reuse = code == Code::KeyReuse;
    let status = match shape {
        Some(adapter) if key_reuse => adapter.key_reuse_status(),
        Some(_) | None => code.proxy_status(),
    };
    let doc_url = format!("{DOCS}:{}", code.word());
    let error = OwnError {
        status,
        code: &word,
        sentence,
        effect: effect.map(EffectId::as_str),
        idempotency_error: key_reuse,
        doc_url: &doc_url,
    };
    let body = match shape {
        Some(adapter) => adapter.error_body(&error),
        None => no_adapter_error_body(&error),
    };
    let mut response = Response::new(whole(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set(&mut response, "stripe-should-retry", "false");
    set(&mut response, "x-should-retry", "false");
    set(&mut response, "oncegate-code", &word);
    if let Some(effect) = effect {
        set(&mut response, "oncegate-effect", effect.as_str());
    }
    set_reason(&mut response, sentence);
    response.extensions_mut().insert(Sentence(sentence.to_owned()));
    response
}

/// The provider's own answer, without what must not reach a client.
fn from_provider(
    status: u16,
    reason: Option<&str>,
    headers: &[(String, String)],
    body: &[u8],
) -> Response<Body> {
    let mut response = Response::new(whole(Bytes::copy_from_slice(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    for (name, value) in headers {
        let passed = !is_hop_by_hop(name) && !is_ours_or_hint(name);
        if let (true, Ok(name), Ok(value)) =
            (passed, HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            response.headers_mut().append(name, value);
        }
    }
    if !response.status().is_success() {
        set(&mut response, "stripe-should-retry", "false");
        set(&mut response, "x-should-retry", "false");
    }
    if let Some(reason) = reason {
        set_reason(&mut response, reason);
    }
    response
}

/// Whether a field from a provider stops here: it forges one of ours, or it makes clients send again.
#[must_use]
pub fn is_ours_or_hint(name: &str) -> bool {
    is_ours(name) || name == REPLAY_HEADER || NOT_PASSED_ON.contains(&name)
}

/// The public word of how a request stands, in `Oncegate-Outcome`, the log and the metrics.
#[must_use]
pub fn outcome_word(stage: &Stage) -> &'static str {
    match stage {
        // Approved and not sent: nothing can have been applied.
        Stage::AwaitingApproval { .. } | Stage::Ready => "pending_approval",
        Stage::Dispatching { .. } | Stage::Reconciling { .. } => "unknown",
        Stage::Settled(settlement) => match settlement.result {
            SettledResult::Confirmed | SettledResult::Acknowledged => "succeeded",
            SettledResult::Failed => "failed",
        },
        Stage::Rejected(Rejection::Denied | Rejection::Expired) => "denied",
        Stage::Rejected(Rejection::Refused(_)) => "refused",
    }
}

fn outcome(response: &mut Response<Body>, word: &str) {
    set(response, "oncegate-outcome", word);
}

fn name_effect(response: &mut Response<Body>, view: &EffectView) {
    set(response, "oncegate-effect", view.id.as_str());
    set(response, "oncegate-invocation", view.invocation.as_str());
}

fn set(response: &mut Response<Body>, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
}

fn set_reason(response: &mut Response<Body>, sentence: &str) {
    let ascii: String = sentence
        .chars()
        .map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' })
        .take(REASON_BYTES_MAX)
        .collect();
    if let Ok(phrase) = ReasonPhrase::try_from(ascii.into_bytes()) {
        response.extensions_mut().insert(phrase);
    }
}

/// The answer that was kept, as an [`Answer`], for callers that want no shape.
#[must_use]
pub fn kept(view: &EffectView) -> Option<Answer> {
    view.response.as_ref().map(|kept| Answer {
        status: kept.status,
        reason: kept.reason.clone(),
        headers: kept.headers.clone(),
        body: kept.body.clone(),
    })
}
