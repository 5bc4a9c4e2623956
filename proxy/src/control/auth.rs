//! Who asks: a bearer key, and what it may do.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use oncegate_policy::caller::{CallerName, Scope};

use super::answer::{ApiError, ErrorCode};
use crate::state::Sidecar;

/// The caller whose key the request carries.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// Its name.
    pub(crate) name: CallerName,
    /// What its key allows.
    pub(crate) scopes: Vec<Scope>,
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
        let (name, caller) = snapshot.caller_for_key(key).ok_or_else(|| refused("no caller has this key"))?;
        Ok(Self { name: name.clone(), scopes: caller.scopes.clone() })
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
