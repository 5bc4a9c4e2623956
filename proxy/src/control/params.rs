//! Query parameters and ids in paths. Each parameter may be given once; names that nobody knows are left alone, as
//! newer clients may send more than this version reads.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use oncegate_policy::query;

use super::answer::{ApiError, ErrorCode};

/// The query, decoded.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// A parameter; the empty text counts as not given.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
            .filter(|text| !text.is_empty())
    }

    /// A parameter that is one of ours, read by `parse`.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| ApiError::parameter(name, expected))
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.read(name, "true or false", |text| text.parse().ok())
    }
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let broken = |message: String| ApiError::new(ErrorCode::Validation, message);
        let pairs = query::parse(parts.uri.query())
            .map_err(|fault| broken(format!("the query is broken: {fault}")))?;
        for (at, (name, _)) in pairs.iter().enumerate() {
            if pairs.iter().take(at).any(|(earlier, _)| earlier == name) {
                return Err(ApiError::parameter(name, "given once"));
            }
        }
        Ok(Self(pairs))
    }
}

/// The id in a path, as text; one that is no text names nothing.
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(id)) => Ok(Self(id)),
            Err(_) => Err(ApiError::not_found("id")),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    async fn params(target: &str) -> Result<Params, ApiError> {
        let (mut parts, ()) = Request::builder().uri(target).body(()).unwrap().into_parts();
        Params::from_request_parts(&mut parts, &()).await
    }

    #[tokio::test]
    async fn parameters_are_read_once() {
        let read = params("/x?action=refund&unresolved=true&key=refund%3A42&outcome=").await.unwrap();
        assert_eq!(read.get("action"), Some("refund"));
        assert_eq!(read.get("key"), Some("refund:42"));
        assert_eq!(read.get("outcome"), None);
        assert!(read.boolean("unresolved").unwrap().unwrap());
        assert!(params("/x?action=a&action=b").await.is_err());
        assert!(params("/x?unresolved=maybe").await.unwrap().boolean("unresolved").is_err());
        assert!(params("/x?a=%zz").await.is_err());
    }
}
