//! Calls that clients send again under one `Idempotency-Key` when an answer is lost: one call is one note, one replay,
//! one question, and the second time its answer is read from here. Kept in memory, for a day: after a restart the
//! record itself says what was done already (`409`), but for notes and for questions of an agent's own.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex as BlockingMutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use oncegate_policy::time::Timestamp;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::answer::{ApiError, ErrorCode};
use super::{body, routes};
use crate::state::Sidecar;

/// How long an answer is kept.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Answers that are kept; the oldest goes first.
const KEPT_MAX: usize = 1_024;
/// Largest answer that is kept.
const KEPT_BYTES_MAX: usize = 256 * 1024;
/// Longest key; that of the agents' keys.
const KEY_BYTES_MAX: usize = 255;

type Digest32 = [u8; 32];
type Slot = Arc<Mutex<Option<Kept>>>;

/// The answers of a day.
#[derive(Clone, Default)]
pub(crate) struct Once(Arc<BlockingMutex<Known>>);

#[derive(Default)]
struct Known {
    slots: HashMap<Digest32, Slot>,
    order: VecDeque<(Digest32, Timestamp)>,
}

struct Kept {
    /// Of the body that it answers.
    asked: Digest32,
    status: StatusCode,
    body: Bytes,
}

impl Once {
    /// The place of one call, whoever makes it first.
    fn slot(&self, call: Digest32, now: Timestamp) -> Slot {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((oldest, at)) = known.order.front().copied() {
            if known.order.len() < KEPT_MAX && now.since(at) < KEPT_FOR {
                break;
            }
            known.order.pop_front();
            known.slots.remove(&oldest);
        }
        if let Some(slot) = known.slots.get(&call) {
            return Arc::clone(slot);
        }
        let slot = Slot::default();
        known.slots.insert(call, Arc::clone(&slot));
        known.order.push_back((call, now));
        slot
    }
}

/// Runs a keyed call once; the same call again waits for the first and gets its answer.
pub(crate) async fn once(
    State((sidecar, once)): State<(Arc<Sidecar>, Once)>,
    request: Request,
    next: Next,
) -> Response {
    match keyed(&sidecar, &once, request, next).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn keyed(
    sidecar: &Arc<Sidecar>,
    once: &Once,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Some(call) = call(&request)? else { return Ok(next.run(request).await) };
    let (parts, body) = request.into_parts();
    let matched = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let body = body::whole_within(body, routes::body_bytes_max(matched, &sidecar.snapshot().config)).await?;
    let asked: Digest32 = Sha256::digest(&body).into();
    let slot = once.slot(call, sidecar.clock.now());
    // Held while the first one runs: the second waits here.
    let mut kept = slot.lock().await;
    if let Some(kept) = kept.as_ref() {
        if kept.asked != asked {
            let message = "this Idempotency-Key was used for another request; nothing was done";
            return Err(ApiError::new(ErrorCode::KeyReuse, message));
        }
        let mut response = (kept.status, kept.body.clone()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("x-idempotent-replay", HeaderValue::from_static("recorded"));
        return Ok(response);
    }
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.map_err(|error| ApiError::internal("answer", &error))?;
    // What was refused did nothing: corrected, or at another moment, the call may be made under the same key.
    if parts.status.is_success() && body.len() <= KEPT_BYTES_MAX {
        *kept = Some(Kept { asked, status: parts.status, body: body.clone() });
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

/// Who calls what under which key; `None` without a key.
fn call(request: &Request) -> Result<Option<Digest32>, ApiError> {
    let Some(key) = request.headers().get("idempotency-key").filter(|key| !key.is_empty()) else {
        return Ok(None);
    };
    if key.len() > KEY_BYTES_MAX {
        return Err(ApiError::new(ErrorCode::Validation, "the Idempotency-Key is longer than 255 bytes"));
    }
    let who = request.headers().get(header::AUTHORIZATION).map_or(b"".as_slice(), HeaderValue::as_bytes);
    let mut digest = Sha256::new();
    for part in [who, request.method().as_str().as_bytes(), request.uri().path().as_bytes(), key.as_bytes()] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    Ok(Some(digest.finalize().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_nothing_is_kept_for_ever() {
        let once = Once::default();
        let number = |n: usize| -> Digest32 { Sha256::digest(n.to_be_bytes()).into() };
        let first = once.slot(number(0), Timestamp(0));
        assert!(Arc::ptr_eq(&first, &once.slot(number(0), Timestamp(1))));
        for n in 1..=KEPT_MAX {
            once.slot(number(n), Timestamp(2));
        }
        assert!(!Arc::ptr_eq(&first, &once.slot(number(0), Timestamp(3))));
        assert_eq!(once.0.lock().unwrap().order.len(), KEPT_MAX);
        once.slot(number(1), Timestamp(3).plus(KEPT_FOR));
        assert_eq!(once.0.lock().unwrap().order.len(), 1, "a day later");
    }
}
