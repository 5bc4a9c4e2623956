//! Who asks: a bearer key, and what it may do.

use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use oncegate_config::model::MetricsAccess;
use oncegate_policy::caller::{CallerName, Scope};
use oncegate_policy::time::Timestamp;

use super::answer::{ApiError, ErrorCode};
use super::routes::{self, Access};
use crate::asking::Listener;
use crate::proof;
use crate::state::Sidecar;

/// The caller whose key the request carries.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// Its name.
    pub(crate) name: CallerName,
    /// What its key allows.
    pub(crate) scopes: Vec<Scope>,
    /// From when on nobody has the key.
    pub(crate) expires: Option<Timestamp>,
}

impl Asker {
    /// Goes on only if the key has `scope`.
    pub(crate) fn needs(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.contains(&scope) {
            return Ok(());
        }
        let word = scope.word();
        Err(ApiError::new(ErrorCode::Authorization, format!("this key does not have the scope {word}"))
            .with_details(serde_json::json!({ "requiredScope": word })))
    }
}

impl FromRequestParts<Arc<Sidecar>> for Asker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, sidecar: &Arc<Sidecar>) -> Result<Self, ApiError> {
        let asker = Self::of(parts, sidecar);
        if asker.is_err() && parts.headers.contains_key(header::AUTHORIZATION) {
            sidecar.unknown_keys.shown(&sidecar.metrics, Listener::Api);
        }
        asker
    }
}

impl Asker {
    fn of(parts: &Parts, sidecar: &Sidecar) -> Result<Self, ApiError> {
        let refused = |message: &str| ApiError::new(ErrorCode::AuthenticationFailed, message);
        let mut headers = parts.headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (headers.next(), headers.next()) else {
            return Err(refused("send the key as `Authorization: Bearer …`"));
        };
        let key = value
            .to_str()
            .ok()
            .and_then(bearer)
            .ok_or_else(|| refused("send the key as `Authorization: Bearer …`"))?;
        // Configured keys only: the token of a run speaks to the proxy, and never decides anything here (P8).
        let snapshot = sidecar.snapshot();
        let (name, caller, expires) = snapshot
            .caller_for_key(&proof::digest(key), sidecar.clock.now())
            .ok_or_else(|| refused("no caller has this key"))?;
        Ok(Self { name: name.clone(), scopes: caller.scopes.clone(), expires })
    }
}

/// Asks for the key and the scope that the table of routes names, before a byte of the body is read. Handlers that
/// know more ask again.
pub(crate) async fn by_table(State(sidecar): State<Arc<Sidecar>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match allowed(&mut parts, &sidecar).await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(error) => error.into_response(),
    }
}

async fn allowed(parts: &mut Parts, sidecar: &Arc<Sidecar>) -> Result<(), ApiError> {
    let matched = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let access = matched.and_then(|path| routes::access(parts.method.as_str(), &path));
    match access {
        Some(Access::Open) => Ok(()),
        Some(Access::Metrics) if sidecar.snapshot().config.control.metrics == MetricsAccess::Open => Ok(()),
        // Not in the table: a path that is served under another method. Whoever has a key is told so.
        Some(Access::Key | Access::Metrics) | None => {
            Asker::from_request_parts(parts, sidecar).await.map(drop)
        }
        Some(Access::Scoped(scope)) => Asker::from_request_parts(parts, sidecar).await?.needs(scope),
    }
}

/// The token of a bearer header; the scheme's case does not matter (RFC 9110 section 11.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_read() {
        assert_eq!(bearer("Bearer ogk_x"), Some("ogk_x"));
        assert_eq!(bearer("bearer  ogk_x"), Some("ogk_x"));
        for value in ["Bearer", "Bearer ", "Basic ogk_x", "ogk_x", ""] {
            assert_eq!(bearer(value), None, "{value}");
        }
    }
}
