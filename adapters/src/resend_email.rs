//! `resend.email_send`: POST /emails (<https://resend.com/docs/api-reference/emails/send-email>).
//!
//! Resend deduplicates on `Idempotency-Key` for 24 hours and answers a repeat as it answered the first, without sending
//! again (<https://resend.com/docs/dashboard/emails/idempotency-keys>). So a 2xx to a replay says that the mail went out
//! once, now or then. A 409 says that another request had the key, in progress or with another body
//! (<https://resend.com/docs/api-reference/errors>): it may have been this effect's own first try, so it proves nothing,
//! as the usual table has it. That failures are kept is documented nowhere; a 4xx to a replay is what the same mail gets
//! today.
//!
//! Every mail carries the effect's id twice: in `User-Agent`, which the logs show for each call, and in a tag.

mod build;
mod look;
mod message;

use oncegate_policy::body::BodyKind;
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::json;
use oncegate_policy::refusal::{Code, Refusal};
use serde_json::{Value, json};

pub(crate) use build::input_schema;

use crate::built::Built;
use crate::look::{Look, LookStep, Memory};
use crate::own_marks;
use crate::plan::{Marks, Plan, Planned, Prepared, Request};
use message::{Message, plain_names};

/// The tag that carries the effect's id: letters, digits, underscores and dashes may stand in one
/// (<https://resend.com/docs/dashboard/emails/tags>).
const TAG: &str = own_marks::MARK;
/// Resend's idempotency header, lower case.
pub(crate) const KEY_HEADER: &str = "idempotency-key";
/// Before the effect's id in `User-Agent`: a product token (RFC 9110 section 10.1.5).
const AGENT_TOKEN: &str = "oncegate/";
const AGENT_HEADER: &str = "user-agent";
/// <https://resend.com/docs/dashboard/emails/idempotency-keys>
pub(crate) const REPLAY_WINDOW_MS: u64 = 24 * 60 * 60 * 1000;
/// <https://resend.com/docs/dashboard/emails/tags>; one of them is ours.
const MAX_TAGS: usize = 75;

/// What makes two mails the same when one of them is unresolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// The recipients and the words of the subject line. A model that tries again writes the text anew and keeps both.
    RecipientsAndSubject,
    /// The recipients alone: also stops a retry with another subject line, and with it every other mail to them.
    Recipients,
}

/// Mails of one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResendEmail {
    /// What a varied retry is recognised by.
    pub fence: Fence,
}

impl ResendEmail {
    pub(crate) fn build(&self, input: &Value) -> Result<Built, Refusal> {
        build::build(input)
    }

    pub(crate) fn plan(&self, request: &Request<'_>) -> Planned {
        match self.try_plan(request) {
            Ok(plan) => Planned::Ready(plan),
            Err(refusal) => Planned::Refused(refusal),
        }
    }

    fn try_plan(&self, request: &Request<'_>) -> Result<Plan, Refusal> {
        if !request.query.is_empty() {
            let sentence =
                "A mail's parameters belong in its body; the query must be empty. Nothing was sent.";
            return Err(Refusal::new(Code::Ambiguous, sentence));
        }
        own_marks::no_agent(request, None)?;
        own_tags(request.input)?;
        plain_names(request.input)?;
        let message = Message::of(request.input)?;
        Ok(Plan {
            subject: Some(message.fence(self.fence)),
            near: Vec::new(),
            resource: Some(message.resource()),
            impact: Some(Impact {
                dimension: Dimension::ResourceMutations,
                amount: Some(message.recipients_counted()),
                bound: Bound::Exact,
            }),
            fingerprint_scope: Vec::new(),
            read_scope: Vec::new(),
            provider_key: true,
            replay_window_ms: Some(REPLAY_WINDOW_MS),
            drop_headers: vec![KEY_HEADER.to_owned()],
        })
    }

    /// What the agent sent, with the effect's id as a tag and behind the agent's own `User-Agent`.
    pub(crate) fn prepare(&self, request: &Request<'_>, marks: &Marks<'_>) -> Result<Prepared, Refusal> {
        let object = match request.body_kind {
            BodyKind::Json => json::strict(request.body).ok(),
            BodyKind::Empty | BodyKind::Form | BodyKind::Opaque => None,
        };
        let Some(Value::Object(mut members)) = object else {
            return Err(invalid("A mail must be asked for with a JSON object"));
        };
        let mut tags = own_tags(request.input)?;
        tags.push(json!({ "name": TAG, "value": marks.effect_id }));
        members.insert("tags".to_owned(), Value::Array(tags));
        let mark = agent_mark(marks.effect_id);
        let agent = match request.header_values(AGENT_HEADER).next() {
            Some(own) => format!("{own} {mark}"),
            None => mark,
        };
        let headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            (AGENT_HEADER.to_owned(), agent),
            (KEY_HEADER.to_owned(), marks.provider_key.to_owned()),
        ];
        Ok(Prepared { headers, body: Value::Object(members).to_string().into_bytes() })
    }

    pub(crate) fn look(&self, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
        look::look(memory, step)
    }
}

pub(crate) fn agent_mark(effect_id: &str) -> String {
    format!("{AGENT_TOKEN}{effect_id}")
}

/// The agent's tags, among which there is room for ours.
fn own_tags(input: &Value) -> Result<Vec<Value>, Refusal> {
    let tags = match input.get("tags") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(tags)) => tags,
        Some(_) => return Err(invalid("tags must be a list; Oncegate marks the mail in it")),
    };
    if tags.iter().any(|tag| tag.get("name").and_then(Value::as_str) == Some(TAG)) {
        return Err(invalid(format!("The tag {TAG} is set by Oncegate and may not be sent")));
    }
    if tags.len() >= MAX_TAGS {
        return Err(invalid(format!("A mail has at most {MAX_TAGS} tags, and one of them is Oncegate's")));
    }
    Ok(tags.clone())
}

fn invalid(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::InvalidInput, format!("{what}. Nothing was sent."))
}

#[cfg(test)]
mod tests;
