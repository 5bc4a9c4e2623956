//! The request for a mail that was asked for through the API.

use oncegate_policy::refusal::Refusal;
use serde_json::{Value, json};

use super::invalid;
use crate::built::{Built, plain_header};

/// Where a mail is sent (<https://resend.com/docs/api-reference/emails/send-email>).
const URL: &str = "https://api.resend.com/emails";

pub(super) fn build(input: &Value) -> Result<Built, Refusal> {
    if !input.is_object() {
        return Err(invalid("The input must be an object"));
    }
    let headers = vec![plain_header("content-type", "application/json")];
    let body = Some(input.to_string().into_bytes());
    Ok(Built { method: "POST".to_owned(), url: URL.to_owned(), headers, body })
}

/// What tools that are built from the listing need to know of a mail's input.
pub(crate) fn input_schema() -> Value {
    let addresses = |what: &str| {
        json!({
            "description": what,
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "maxItems": 50 },
            ],
        })
    };
    json!({
        "type": "object",
        "required": ["from", "to"],
        "properties": {
            "from": { "type": "string", "description": "the sender, `Name <name@domain>`" },
            "to": addresses("the recipients"),
            "cc": addresses("further recipients"),
            "bcc": addresses("hidden recipients"),
            "reply_to": addresses("where answers go"),
            "subject": { "type": "string", "description": "the subject line" },
            "html": { "type": "string", "description": "the text as HTML" },
            "text": { "type": "string", "description": "the text as plain text" },
            "scheduled_at": { "type": "string", "description": "when to send it, ISO 8601" },
        },
    })
}
