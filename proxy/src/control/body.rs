//! The body of a request: JSON, bounded, whole within its time.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use oncegate_policy::json::strict;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::BODY_BYTES_MAX;
use super::answer::{ApiError, ErrorCode};

/// For a request's body to arrive whole.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a JSON object; no body counts as an empty one. `T` refuses the members that it does not know: one that is misspelt
/// would be dropped in silence.
pub(crate) async fn object<T: DeserializeOwned>(body: Body) -> Result<T, ApiError> {
    let bytes = whole(body).await?;
    let text = if bytes.is_empty() { b"{}".as_slice() } else { &bytes };
    // Not straight into `T`: serde takes a list for a struct, and a duplicate member must be refused first.
    let value = serde_json::from_slice::<Value>(text)
        .map_err(|fault| invalid(&format!("the body is not JSON: {fault}")))?;
    if !value.is_object() {
        return Err(invalid("the body must be a JSON object"));
    }
    serde_json::from_slice(text).map_err(|fault| invalid(&format!("the body: {fault}")))
}

/// A JSON object of at most `bytes_max`, read in the one way in which the pipeline reads JSON: what two readers could
/// read differently is refused. No body counts as an empty object.
pub(crate) async fn strict_object(body: Body, bytes_max: usize) -> Result<Value, ApiError> {
    let bytes = whole_within(body, bytes_max).await?;
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match strict(&bytes) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => Err(invalid("the body must be a JSON object")),
        Err(fault) => Err(invalid(&format!("the body cannot be read in one way: {fault}"))),
    }
}

/// Refuses members that are none of `known`: one that is misspelt would silently not hold, and some of them (a preview, a
/// retry, a dependency) are what keeps a write from being made.
pub(crate) fn only(object: &Value, known: &[&str]) -> Result<(), ApiError> {
    let members = object.as_object().into_iter().flat_map(|members| members.keys());
    match members.into_iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let hint = match oncegate_config::nearest(unknown, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are {}", known.join(", ")),
            };
            Err(ApiError::new(ErrorCode::Validation, format!("there is no member `{unknown}` here; {hint}"))
                .with_details(json!([{ "field": unknown, "message": hint }])))
        }
    }
}

/// Clients send a JSON content type and no body; any JSON is accepted where nothing is expected.
pub(crate) async fn nothing(body: Body) -> Result<(), ApiError> {
    let bytes = whole(body).await?;
    if bytes.is_empty() || serde_json::from_slice::<Value>(&bytes).is_ok() {
        return Ok(());
    }
    Err(invalid("the body must be empty or JSON"))
}

/// A text member with at least one visible character and at most `max` in all.
pub(crate) fn text(name: &str, value: &str, max: usize) -> Result<String, ApiError> {
    let trimmed = value.trim();
    if trimmed.is_empty() || trimmed.chars().count() > max {
        return Err(ApiError::parameter(name, &format!("1 to {max} characters")));
    }
    Ok(trimmed.to_owned())
}

/// The same for a member that may be missing.
pub(crate) fn maybe_text(name: &str, value: Option<&String>, max: usize) -> Result<Option<String>, ApiError> {
    value.map(|value| text(name, value, max)).transpose()
}

/// All of a body, within bounds.
pub(crate) async fn whole(body: Body) -> Result<axum::body::Bytes, ApiError> {
    whole_within(body, BODY_BYTES_MAX).await
}

/// All of a body of at most `bytes_max`.
pub(crate) async fn whole_within(body: Body, bytes_max: usize) -> Result<axum::body::Bytes, ApiError> {
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, bytes_max)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => {
            let message = format!("the body is larger than {bytes_max} bytes, or broke off");
            Err(ApiError::new(ErrorCode::BodyTooLarge, message))
        }
        Err(_) => Err(invalid("the body did not arrive in time")),
    }
}

fn invalid(message: &str) -> ApiError {
    ApiError::new(ErrorCode::Validation, message)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    struct Note {
        note: Option<String>,
    }

    async fn read(text: &'static str) -> Result<Note, ApiError> {
        object(Body::from(text)).await
    }

    #[tokio::test]
    async fn objects_are_read_and_nothing_else() {
        assert_eq!(read("").await.unwrap().note, None);
        assert_eq!(read("{}").await.unwrap().note, None);
        assert_eq!(read(r#"{"note":"a","more":1}"#).await.unwrap().note.as_deref(), Some("a"));
        for bad in ["[\"a\"]", "1", "{", r#"{"note":1}"#, r#"{"note":"a","note":"b"}"#, "{} {}"] {
            assert!(read(bad).await.is_err(), "{bad}");
        }
        assert!(nothing(Body::from("null")).await.is_ok());
        assert!(nothing(Body::from("{")).await.is_err());
    }

    #[test]
    fn texts_are_bounded() {
        assert_eq!(text("note", " a ", 3).unwrap(), "a");
        for bad in ["", "  ", "abcd"] {
            assert!(text("note", bad, 3).is_err(), "{bad:?}");
        }
    }
}
