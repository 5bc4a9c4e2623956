//! The envelope: every answer of the API, also for errors that no handler made, has one of two shapes.

use std::error::Error;
use std::io::{self, ErrorKind};

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use oncegate_store::StoreError;
use serde::Serialize;
use serde_json::{Value, json};

use super::page::Pagination;

/// Why the API says no. The code, not the status, is what clients go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    /// No key, or one that nobody has.
    AuthenticationFailed,
    /// The key may not do this, or the request comes from where none may.
    Authorization,
    /// No such thing.
    NotFound,
    /// The published API has it, and Oncegate does not.
    NotBuilt,
    /// Not a method of this path.
    MethodNotAllowed,
    /// The request does not say what it should.
    Validation,
    /// More bytes than any request of the API has.
    BodyTooLarge,
    /// What stands there does not allow it now.
    Conflict,
    /// The key of a call that is not this one.
    KeyReuse,
    /// The first call under this key is still running.
    InProgress,
    /// The effect cannot be sent again under its provider key.
    ReplayRefused,
    /// The invocation cannot be retried.
    RetryRefused,
    /// What the preview showed is not so any more.
    StalePlan,
    /// Another effect on the same subject is not settled.
    UnresolvedEffect,
    /// Everything is stopped by the operator.
    Halted,
    /// The record cannot take it now; nothing was sent.
    Unavailable,
    /// A fault of ours.
    Internal,
}

impl ErrorCode {
    fn word(self) -> &'static str {
        match self {
            Self::AuthenticationFailed => "AUTHENTICATION_FAILED",
            Self::Authorization => "AUTHORIZATION_ERROR",
            Self::NotFound => "NOT_FOUND",
            Self::NotBuilt => "FEATURE_NOT_AVAILABLE",
            Self::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Self::Validation => "VALIDATION_ERROR",
            Self::BodyTooLarge => "PAYLOAD_TOO_LARGE",
            Self::Conflict => "CONFLICT",
            Self::KeyReuse => "idempotency_key_reuse",
            Self::InProgress => "idempotency_request_in_progress",
            Self::ReplayRefused => "REPLAY_REFUSED",
            Self::RetryRefused => "RETRY_REFUSED",
            Self::StalePlan => "STALE_PLAN",
            Self::UnresolvedEffect => "unresolved_effect",
            Self::Halted => "ENVIRONMENT_HALTED",
            Self::Unavailable => "SERVICE_UNAVAILABLE",
            Self::Internal => "INTERNAL_ERROR",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::AuthenticationFailed => StatusCode::UNAUTHORIZED,
            Self::Authorization => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::NotBuilt => StatusCode::PAYMENT_REQUIRED,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Validation => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Conflict
            | Self::KeyReuse
            | Self::InProgress
            | Self::ReplayRefused
            | Self::RetryRefused
            | Self::StalePlan
            | Self::UnresolvedEffect
            | Self::Halted => StatusCode::CONFLICT,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// An error as the API says it.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    code: ErrorCode,
    message: String,
    details: Option<Value>,
}

impl ApiError {
    /// An error without details.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None }
    }

    /// The same with details, which are all that some clients keep.
    pub(crate) fn with_details(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }

    /// One parameter is wrong.
    pub(crate) fn parameter(name: &str, expected: &str) -> Self {
        Self::new(ErrorCode::Validation, format!("`{name}` must be {expected}"))
            .with_details(json!([{ "field": name, "message": format!("must be {expected}") }]))
    }

    /// Something that is not there.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("there is no such {what}"))
    }

    /// The key that asked for something never decides it (P8).
    pub(crate) fn own(what: &str) -> Self {
        Self::new(
            ErrorCode::Authorization,
            format!("the key that asked for {what}; another key has to decide"),
        )
        .with_details(json!({ "reason": "own_request" }))
    }

    /// A fault of ours: the cause goes to the log, not to the client. What is wrong with the record, or with a disk, is for
    /// whoever has to mend it.
    pub(crate) fn internal(step: &'static str, cause: &(dyn Error + 'static)) -> Self {
        tracing::error!(error = %chain(cause), "the API could not {step}");
        let message = match causes(cause).find_map(mendable) {
            Some(why) => format!("could not {step}: {why}"),
            None => format!("could not {step}; the sidecar's log says why"),
        };
        Self::new(ErrorCode::Internal, message)
    }

    /// The only thing that was to be done is not recorded. Where that is certain, the call may be made again.
    pub(crate) fn unrecorded(step: &'static str, error: &StoreError) -> Self {
        let said = Self::internal(step, error);
        if error.is_undone() {
            return Self { code: ErrorCode::Unavailable, ..said }.but("Nothing was recorded.");
        }
        said
    }

    /// The same, and what stands after it.
    pub(crate) fn but(mut self, stands: &str) -> Self {
        self.message = format!("{}. {stands}", self.message);
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut error = json!({ "code": self.code.word(), "message": self.message });
        if let (Some(members), Some(details)) = (error.as_object_mut(), self.details) {
            members.insert("details".to_owned(), details);
        }
        let body = Json(json!({ "success": false, "error": error }));
        let mut response = (self.code.status(), body).into_response();
        let headers = response.headers_mut();
        if self.code == ErrorCode::AuthenticationFailed {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(self.code, ErrorCode::InProgress | ErrorCode::Unavailable) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// A success as the API says it.
#[derive(Serialize)]
pub(crate) struct Success<T> {
    success: bool,
    data: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    pagination: Option<Pagination>,
}

/// One thing.
pub(crate) fn one<T: Serialize>(data: T) -> Response {
    Json(Success { success: true, data, pagination: None }).into_response()
}

/// One thing that was made just now.
pub(crate) fn created<T: Serialize>(data: T) -> Response {
    (StatusCode::CREATED, one(data)).into_response()
}

/// A list, or a page of it.
pub(crate) fn page<T: Serialize>(data: Vec<T>, pagination: Pagination) -> Response {
    Json(Success { success: true, data, pagination: Some(pagination) }).into_response()
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let words: Vec<_> = causes(error).map(ToString::to_string).collect();
    words.join(": ")
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |cause: &&'a (dyn Error + 'static)| (*cause).source())
}

/// What an operator can mend, in words.
fn mendable(cause: &(dyn Error + 'static)) -> Option<String> {
    if let Some(trouble) = cause.downcast_ref::<StoreError>().and_then(StoreError::trouble) {
        return Some(format!("the record cannot be used: {}", trouble.sentence()));
    }
    let kind = cause.downcast_ref::<io::Error>()?.kind();
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem)
        .then(|| format!("{kind}"))
}
