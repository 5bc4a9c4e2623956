//! What is said to a token endpoint, and what is read of its answer (RFC 6749). Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request};
use oncegate_config::model::{ClientAuth, Grant, OAuth2};
use oncegate_policy::exchange::Answer;
use oncegate_policy::url_template::percent_encode;
use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroizing;

use super::usable;

/// Error codes that are told in logs and records. Any other text of an answer may be an echo.
/// RFC 6749 section 5.2, RFC 8707 section 2, and two of section 4.1.2.1 that endpoints send here as well.
const KNOWN_ERRORS: [&str; 9] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "invalid_target",
    "server_error",
    "temporarily_unavailable",
];
/// A token is trusted for at most this long, whatever is said of it.
const LIFE_MAX_S: u64 = 24 * 3600;

/// The values that it takes, each fetched for this one request.
pub(super) struct Client {
    pub(super) id: Zeroizing<String>,
    pub(super) secret: Option<Zeroizing<String>>,
    pub(super) refresh_token: Option<Zeroizing<String>>,
}

/// What came of it.
pub(super) struct Granted {
    pub(super) access_token: Zeroizing<String>,
    /// Seconds; `None` where the endpoint does not say.
    pub(super) expires_in: Option<u64>,
    /// In place of the one that was used (section 6).
    pub(super) refresh_token: Option<Zeroizing<String>>,
}

/// The request: its head without `Host`, and its form.
pub(super) fn request(spec: &OAuth2, client: &Client) -> Option<(Request<()>, Zeroizing<String>)> {
    let mut form = Zeroizing::new(String::new());
    let mut add = |name: &str, value: &str| {
        if !form.is_empty() {
            form.push('&');
        }
        form.push_str(name);
        form.push('=');
        form.push_str(&encoded(value));
    };
    match (&spec.grant, &client.refresh_token) {
        (Grant::ClientCredentials, _) => add("grant_type", "client_credentials"),
        (Grant::RefreshToken(_), Some(token)) => {
            add("grant_type", "refresh_token");
            add("refresh_token", token);
        }
        (Grant::RefreshToken(_), None) => return None,
    }
    if let Some(scope) = &spec.scope {
        add("scope", scope);
    }
    if let Some(audience) = &spec.audience {
        add("audience", audience);
    }
    let mut head = Request::post(&spec.token_url.path_and_query)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json")
        .body(())
        .ok()?;
    match (spec.auth, &client.secret) {
        (ClientAuth::Basic, Some(secret)) => {
            // Section 2.3.1: both are encoded as in a form before they are joined.
            let pair =
                Zeroizing::new(format!("{}:{}", encoded(&client.id).as_str(), encoded(secret).as_str()));
            let basic = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
            let mut value = HeaderValue::from_str(&basic).ok()?;
            value.set_sensitive(true);
            head.headers_mut().insert(AUTHORIZATION, value);
        }
        (ClientAuth::Basic | ClientAuth::Body, secret) => {
            add("client_id", &client.id);
            if let Some(secret) = secret {
                add("client_secret", secret);
            }
        }
    }
    Some((head, form))
}

/// `application/x-www-form-urlencoded` of one value (RFC 6749 appendix B).
fn encoded(value: &str) -> Zeroizing<String> {
    Zeroizing::new(percent_encode(value).replace("%20", "+"))
}

#[derive(Deserialize)]
struct Said {
    access_token: Option<String>,
    token_type: Option<String>,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

/// Reads the answer.
///
/// # Errors
/// What is wrong, in words of ours: an answer may echo what it was sent.
pub(super) fn read(answer: &Answer) -> Result<Granted, String> {
    let status = answer.status;
    if !(200..300).contains(&status) {
        return Err(match error_code(&answer.body) {
            Some(code) => format!("the token endpoint answered {status} {code}"),
            None => format!("the token endpoint answered {status}"),
        });
    }
    let unreadable = || format!("the token endpoint answered {status}, and not with a token of RFC 6749");
    let said: Said = serde_json::from_slice(&answer.body).map_err(|_| unreadable())?;
    let fits = |token: String| Some(Zeroizing::new(token)).filter(|token| usable(token).is_some());
    let access_token = said.access_token.and_then(fits).ok_or_else(unreadable)?;
    let refresh_token = said.refresh_token.and_then(fits);
    // Some leave the type out; any other than this one would be used in another way (section 7.1).
    if said.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err("the token endpoint gives tokens that are not bearer tokens".to_owned());
    }
    Ok(Granted { access_token, expires_in: said.expires_in.as_ref().and_then(seconds), refresh_token })
}

/// A whole number of seconds; some write it as text, some with a fraction.
fn seconds(value: &Value) -> Option<u64> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    if text.starts_with('-') {
        return Some(0);
    }
    let whole = text.split('.').next().unwrap_or_default();
    whole.parse().ok().map(|seconds: u64| seconds.min(LIFE_MAX_S))
}

fn error_code(body: &[u8]) -> Option<&'static str> {
    let said: Value = serde_json::from_slice(body).ok()?;
    let code = said.get("error")?.as_str()?;
    KNOWN_ERRORS.into_iter().find(|known| *known == code)
}

#[cfg(test)]
mod tests;
