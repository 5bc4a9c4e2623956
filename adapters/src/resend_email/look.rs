//! Finding a mail again.
//!
//! By its id where the provider's answer gave one (<https://resend.com/docs/api-reference/emails/retrieve-email>), else
//! in the list of logs, which shows the `User-Agent` of each call, newest first
//! (<https://resend.com/docs/api-reference/logs/list-logs>); the log of the one call has the answer that was lost
//! (<https://resend.com/docs/api-reference/logs/retrieve-log>). Where the logs cannot be read, the mails to the same
//! people under the same subject line are looked through for the effect's tag
//! (<https://resend.com/docs/api-reference/emails/list-emails>); that tags are shown there is not documented, and a
//! mail without them is no match.
//!
//! A key that may only send reads none of these (401 `restricted_api_key`,
//! <https://resend.com/docs/api-reference/errors>). How soon a call is in the logs and for how long is documented
//! nowhere: finding nothing proves nothing.

use jiff::Timestamp;
use oncegate_policy::exchange::Answer;
use oncegate_policy::json;
use oncegate_policy::reconcile::Finding;
use oncegate_policy::told::Told;
use serde_json::{Value, json};

use super::message::Message;
use super::{TAG, agent_mark};
use crate::look::{Look, LookStep, Memory, unreadable};
use crate::read_back::ReadBack;

/// Questions that one look asks at most.
const MAX_QUESTIONS: usize = 30;
/// Lists go back to this long before the dispatch: two clocks never quite agree.
const CLOCK_SKEW_MS: i64 = 5 * 60 * 1000;
/// Longest id that is put into a URL.
const MAX_ID: usize = 64;

const LOGS: &str = "/logs?limit=100";
const ONE_LOG: &str = "/logs/";
const EMAILS: &str = "/emails?limit=100";
const ONE_EMAIL: &str = "/emails/";

pub(super) fn look(memory: &Memory<'_>, step: LookStep<'_>) -> Look {
    let (request, answer) = match step {
        LookStep::First => {
            return match answered_id(memory) {
                Some(id) => ask(format!("{ONE_EMAIL}{id}")),
                None => ask(LOGS.to_owned()),
            };
        }
        LookStep::Next { page, .. } if page >= MAX_QUESTIONS => {
            return unreadable(format!("{MAX_QUESTIONS} questions did not reach the time of the dispatch"));
        }
        LookStep::Next { request, answer, page: _ } => (request.path_and_query(), answer),
    };
    if let Some(id) = request.strip_prefix(ONE_EMAIL) {
        return match answered_id(memory) {
            Some(answered) if answered == id => by_id(id, answer),
            Some(_) | None => by_tag(memory, id, answer),
        };
    }
    if let Some(id) = request.strip_prefix(ONE_LOG) {
        return by_log(memory, id, answer);
    }
    if request.starts_with(LOGS) { in_logs(memory, answer) } else { in_emails(memory, answer) }
}

/// Resend refuses requests without a `User-Agent` (<https://resend.com/docs/api-reference/introduction>).
fn ask(path: String) -> Look {
    match ReadBack::get(path, vec![("user-agent".to_owned(), "oncegate".to_owned())]) {
        Ok(read_back) => Look::Ask(read_back),
        Err(_) => Look::Impossible("an id of Resend's cannot stand in a URL"),
    }
}

/// The id in the provider's answer to the write.
fn answered_id<'a>(memory: &Memory<'a>) -> Option<&'a str> {
    id_of(memory.response?)
}

/// An id that can stand in a path.
fn id_of(object: &Value) -> Option<&str> {
    let id = object.get("id")?.as_str()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (!id.is_empty() && id.len() <= MAX_ID && id.bytes().all(plain)).then_some(id)
}

/// The object in a complete 200.
fn object(answer: &Answer) -> Option<Value> {
    json::of_answer(&answer.body).ok().filter(|_| answer.status == 200)
}

fn refused(what: &str, answer: &Answer) -> Look {
    let hint = match answer.status {
        200 => return unreadable(format!("{what} cannot be read")),
        401 | 403 => ": the key may not read; `read_secret` names one that may",
        _ => "",
    };
    unreadable(format!("{what} was answered with {}{hint}", answer.status))
}

fn by_id(id: &str, answer: &Answer) -> Look {
    match object(answer) {
        Some(email) if id_of(&email) == Some(id) => matched(id, &email),
        Some(_) => unreadable(format!("the answer to GET {ONE_EMAIL}{id} is another object")),
        None if answer.status == 404 => ask(LOGS.to_owned()),
        None => refused(&format!("GET {ONE_EMAIL}{id}"), answer),
    }
}

/// A mail that may be ours is ours if it says so, and was made after the dispatch. Otherwise the list goes on after it.
fn by_tag(memory: &Memory<'_>, id: &str, answer: &Answer) -> Look {
    let Some(email) = object(answer) else { return refused(&format!("GET {ONE_EMAIL}{id}"), answer) };
    let tags = email.get("tags").and_then(Value::as_array);
    let ours = |tag: &Value| {
        let text = |name: &str| tag.get(name).and_then(Value::as_str);
        text("name") == Some(TAG) && text("value") == Some(memory.effect_id)
    };
    let made = made_since(memory, &email) != Some(false);
    match made && id_of(&email) == Some(id) && tags.is_some_and(|tags| tags.iter().any(ours)) {
        true => matched(id, &email),
        false => ask(format!("{EMAILS}&after={id}")),
    }
}

/// A mail was taken over for delivery; what became of it at the recipients' is another matter.
fn matched(id: &str, email: &Value) -> Look {
    let event = email.get("last_event").and_then(Value::as_str).unwrap_or("unknown");
    found(format!("email {id}, last event {event}"), id)
}

fn found(what: impl Into<Told>, id: &str) -> Look {
    // What the write itself answers (<https://resend.com/docs/api-reference/emails/send-email>).
    let record = Some(json!({ "id": id }).to_string().into_bytes());
    Look::Found(Finding::Matched { what: what.into(), reference: Some(id.into()), record })
}

fn in_logs(memory: &Memory<'_>, answer: &Answer) -> Look {
    if [401, 403, 404, 405].contains(&answer.status) {
        return ask(EMAILS.to_owned());
    }
    let Some(page) = Page::of(answer) else { return refused("the list of logs", answer) };
    // A call that was refused may be a replay's: only what Resend says to the same key settles that.
    let ours = |row: &&Value| is_of(memory, row) && row_succeeded(row);
    match page.rows.iter().find(ours).map(id_of) {
        Some(Some(id)) => ask(format!("{ONE_LOG}{id}")),
        Some(None) => unreadable("the log of the call has no id"),
        None => page.after(memory, LOGS, "the logs"),
    }
}

/// A call that sent this effect's mail: after the dispatch, by its `User-Agent`.
fn is_of(memory: &Memory<'_>, row: &Value) -> bool {
    let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
    made_since(memory, row) != Some(false)
        && text("method") == "POST"
        && text("endpoint") == "/emails"
        && text("user_agent").split(' ').any(|token| token == agent_mark(memory.effect_id))
}

fn row_succeeded(row: &Value) -> bool {
    row.get("response_status").and_then(Value::as_u64).is_some_and(|status| (200..300).contains(&status))
}

fn by_log(memory: &Memory<'_>, id: &str, answer: &Answer) -> Look {
    let Some(log) = object(answer) else { return refused(&format!("GET {ONE_LOG}{id}"), answer) };
    if id_of(&log) != Some(id) || !is_of(memory, &log) || !row_succeeded(&log) {
        return unreadable(format!("the answer to GET {ONE_LOG}{id} is another object"));
    }
    match log.get("response_body").and_then(id_of) {
        Some(email) => found(format!("email {email}, by the log {id} of the call"), email),
        None => unreadable(format!("the log {id} of the call does not show its answer")),
    }
}

fn in_emails(memory: &Memory<'_>, answer: &Answer) -> Look {
    let Ok(message) = Message::of(memory.input) else {
        return Look::Impossible("what was asked names no recipients whose mails could be listed");
    };
    let Some(page) = Page::of(answer) else { return refused("the list of emails", answer) };
    match page.rows.iter().find(|row| recent(memory, row) && message.may_be(row)).map(id_of) {
        Some(Some(id)) => ask(format!("{ONE_EMAIL}{id}")),
        Some(None) => unreadable("a listed email has no id"),
        None => page.after(memory, EMAILS, "the emails"),
    }
}

/// One page of a list, newest first (<https://resend.com/docs/api-reference/pagination>).
struct Page {
    rows: Vec<Value>,
    /// `None`: the list does not say. What it shows is there all the same.
    more: Option<bool>,
}

impl Page {
    fn of(answer: &Answer) -> Option<Self> {
        let mut list = object(answer)?;
        let more = match list.get("has_more") {
            None | Some(Value::Null) => None,
            Some(said) => Some(said.as_bool()?),
        };
        let Value::Array(rows) = list.get_mut("data")?.take() else { return None };
        Some(Self { rows, more })
    }

    /// The next page, as long as the time of the dispatch is not reached.
    fn after(&self, memory: &Memory<'_>, list: &str, what: &str) -> Look {
        let Some(more) = self.more else {
            return unreadable(format!("the list of {what} does not say whether it goes on"));
        };
        let last = self.rows.last().filter(|last| more && recent(memory, last));
        match last.map(id_of) {
            None => {
                let what = format!("{what} back to the time of the dispatch").into();
                Look::Found(Finding::NoMatch { what })
            }
            Some(Some(id)) => ask(format!("{list}&after={id}")),
            Some(None) => unreadable(format!("the list of {what} goes on, and not after what")),
        }
    }
}

/// Whether a row may be as young as the dispatch. One that does not say is.
fn recent(memory: &Memory<'_>, row: &Value) -> bool {
    made_since(memory, row) != Some(false)
}

/// Whether a row was made after the dispatch; `None` when it does not say.
fn made_since(memory: &Memory<'_>, row: &Value) -> Option<bool> {
    let made = row.get("created_at")?.as_str()?.parse::<Timestamp>().ok()?;
    Some(made.as_millisecond() >= memory.sent_at_ms.saturating_sub(CLOCK_SKEW_MS))
}

#[cfg(test)]
mod tests;
