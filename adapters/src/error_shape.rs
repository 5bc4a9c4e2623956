//! Our own answers, in the shape that the provider's own clients read.

use serde_json::{Value, json};

/// An answer of our own.
#[derive(Clone, Copy, Debug)]
pub struct OwnError<'a> {
    /// The status it goes out with.
    pub status: u16,
    /// The code as agents read it: `oncegate_outcome_unknown`.
    pub code: &'a str,
    /// One or two sentences for the model.
    pub sentence: &'a str,
    /// The effect that it speaks of.
    pub effect: Option<&'a str>,
    /// One key named two different requests.
    pub idempotency_error: bool,
    /// The page that explains the code.
    pub doc_url: &'a str,
}

/// The answer for whoever is no known provider: the members of RFC 9457 problem details, and the two places where
/// clients that were made for one API look for its words: `message` (Twilio, GitHub and many more), and an object `error`
/// (OpenAI, Anthropic, Google). Their libraries say "no body" of an answer that has neither. It is served as
/// `application/json`, because some clients read no other type.
#[must_use]
pub fn no_adapter_error_body(error: &OwnError<'_>) -> Vec<u8> {
    let title = error.code.strip_prefix("oncegate_").unwrap_or(error.code).replace('_', " ");
    let mut problem = json!({
        "type": error.doc_url,
        "title": title,
        "status": error.status,
        "detail": error.sentence,
        "code": error.code,
        "message": error.sentence,
        "error": { "type": "api_error", "code": error.code, "message": error.sentence },
    });
    if let (Some(effect), Value::Object(members)) = (error.effect, &mut problem) {
        members.insert("effect".to_owned(), effect.into());
    }
    problem.to_string().into_bytes()
}

/// Stripe's error object (<https://docs.stripe.com/api/errors>). `idempotency_error` is the type that its clients
/// turn into their own exception for a key that was used for another request.
#[must_use]
pub(crate) fn stripe(error: &OwnError<'_>) -> Vec<u8> {
    let kind = if error.idempotency_error { "idempotency_error" } else { "api_error" };
    let body = json!({"error": {
        "type": kind,
        "code": error.code,
        "message": error.sentence,
        "doc_url": error.doc_url,
    }});
    body.to_string().into_bytes()
}

/// Resend's error object (<https://resend.com/docs/api-reference/errors>): its clients tell errors apart by `name`, and
/// show `message`. `code` stands there besides, as in every other shape.
#[must_use]
pub(crate) fn resend(error: &OwnError<'_>) -> Vec<u8> {
    json!({ "statusCode": error.status, "name": error.code, "message": error.sentence, "code": error.code })
        .to_string()
        .into_bytes()
}

/// GitHub's error object
/// (<https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api>), of which its clients show
/// `message` and `documentation_url`. It has no place for a code of its own: that is one member more.
#[must_use]
pub(crate) fn github(error: &OwnError<'_>) -> Vec<u8> {
    let body = json!({
        "message": error.sentence,
        "documentation_url": error.doc_url,
        "status": error.status.to_string(),
        "code": error.code,
    });
    body.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: OwnError<'_> = OwnError {
        status: 422,
        code: "oncegate_outcome_unknown",
        sentence: "It may be \"done\".",
        effect: Some("eff_1"),
        idempotency_error: false,
        doc_url: "https://docs.example/outcome_unknown",
    };

    fn read(body: &[u8]) -> Value {
        serde_json::from_slice(body).unwrap()
    }

    #[test]
    fn problem_members_and_the_effect_where_there_is_one() {
        let with = json!({
            "type": "https://docs.example/outcome_unknown", "title": "outcome unknown", "status": 422,
            "detail": "It may be \"done\".", "code": "oncegate_outcome_unknown", "effect": "eff_1",
            "message": "It may be \"done\".",
            "error": {
                "type": "api_error", "code": "oncegate_outcome_unknown",
                "message": "It may be \"done\".",
            },
        });
        assert_eq!(read(&no_adapter_error_body(&UNKNOWN)), with);
        let without = read(&no_adapter_error_body(&OwnError { effect: None, ..UNKNOWN }));
        assert_eq!(without.get("effect"), None);
    }

    #[test]
    fn the_shape_that_stripe_clients_read() {
        let plain = json!({"error": {
            "type": "api_error", "code": "oncegate_outcome_unknown", "message": "It may be \"done\".",
            "doc_url": "https://docs.example/outcome_unknown",
        }});
        assert_eq!(read(&stripe(&UNKNOWN)), plain);
        let reuse = read(&stripe(&OwnError { idempotency_error: true, status: 400, ..UNKNOWN }));
        assert_eq!(reuse.pointer("/error/type"), Some(&json!("idempotency_error")));
    }

    #[test]
    fn the_shape_that_resend_clients_read() {
        let expected = json!({
            "statusCode": 422, "name": "oncegate_outcome_unknown", "message": "It may be \"done\".",
            "code": "oncegate_outcome_unknown",
        });
        assert_eq!(read(&resend(&UNKNOWN)), expected);
    }

    #[test]
    fn the_shape_that_github_clients_read() {
        let expected = json!({
            "message": "It may be \"done\".", "documentation_url": "https://docs.example/outcome_unknown",
            "status": "422", "code": "oncegate_outcome_unknown",
        });
        assert_eq!(read(&github(&UNKNOWN)), expected);
    }
}
