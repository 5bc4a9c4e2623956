//! Match: which declared action a request means. Reads the body only when an action could claim it.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use oncegate_adapters::{holds_a_key, no_other_effect};
use oncegate_config::model::{Action, Host};
use oncegate_policy::action::ActionName;
use oncegate_policy::body::{self, BodyKind};
use oncegate_policy::path::{Ambiguity, CanonicalPath};
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::router::Candidate;
use serde_json::Value;

use crate::asking::PROVIDER_KEY_BEGIN;
use crate::meant::{self, Content};
use crate::plan;
use crate::receive::{self, Head, Via};
use crate::state::Snapshot;

/// What a request on a declared host is.
pub enum Meaning {
    /// A declared action's write: it goes through the pipeline.
    Governed(Named),
    /// A read, or something that the operator has declared not to be governed: passed on as it is.
    Passthrough {
        /// The body, when it had to be read to tell.
        body: Option<Bytes>,
        /// The action that claimed it, if one did.
        action: Option<ActionName>,
    },
}

/// An action that is named, with what is asked of it.
pub struct Named {
    /// Which.
    pub action: ActionName,
    /// The body, whole.
    pub body: Bytes,
    /// How the body is written.
    pub body_kind: BodyKind,
    /// Captured values, query parameters and the body's members.
    pub input: Value,
}

/// What the URL alone says.
pub enum ByUrl<'a> {
    /// No action: pass it on.
    Read,
    /// One of these, told apart by the input; or none of them, where the body is read to know that.
    Actions(Vec<Candidate<'a>>),
}

/// The first half: what can be said before the body is read.
///
/// # Errors
/// `undeclared`, when no action and no rule of the host lets it through.
pub fn by_url<'a>(snapshot: &'a Snapshot, host: &Host, head: &Head) -> Result<ByUrl<'a>, Refusal> {
    let candidates = snapshot.router.candidates(
        head.method.as_str(),
        head.via.scheme,
        &head.via.authority,
        &head.path,
        &head.query,
    );
    let Via { scheme, authority, .. } = &*head.via;
    let url = (&head.path, head.query.as_slice());
    let respelled = snapshot.router.respells(head.method.as_str(), *scheme, authority, url, &candidates);
    if !candidates.is_empty() && !respelled {
        return Ok(ByUrl::Actions(candidates));
    }
    if head.path.opened_at().is_some() && !snapshot.router.knows_path(*scheme, authority, &head.path) {
        let fault = Ambiguity::EncodedSeparator;
        let sentence = format!("The path is ambiguous: {fault}. Nothing was sent.");
        return Err(Refusal::new(Code::Ambiguous, sentence));
    }
    if respelled {
        return Err(not_exactly(head));
    }
    undeclared(snapshot, host, head)?;
    // The body could say what the query does not.
    match told_by(snapshot, head).is_empty() {
        true => Ok(ByUrl::Read),
        false => Ok(ByUrl::Actions(candidates)),
    }
}

fn told_by<'a>(snapshot: &'a Snapshot, head: &Head) -> Vec<&'a str> {
    let Via { scheme, authority, .. } = &*head.via;
    snapshot.router.told_by(head.method.as_str(), *scheme, authority, &head.path)
}

/// Whether the host's own rules let an unclaimed request through. HEAD follows GET; OPTIONS is a read; TRACE,
/// which echoes what it is sent, is let through by no rule. Where a governed action has the method of a read, nothing is
/// a read that is not exactly an action's.
fn undeclared(snapshot: &Snapshot, host: &Host, head: &Head) -> Result<(), Refusal> {
    let read = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&head.method);
    if !read {
        no_key_of_ours(head)?;
    }
    let Via { scheme, authority, .. } = &*head.via;
    if read && snapshot.router.governs_reads(*scheme, authority, &head.path) {
        return Err(not_exactly(head));
    }
    let write = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(&head.method);
    if (read && host.reads) || (write && host.writes) {
        return Ok(());
    }
    let sentence = format!(
        "No declared action covers {} {} on {}. Nothing was sent. Ask the operator to declare it.",
        head.method,
        shown(&head.path),
        head.via.authority.host
    );
    Err(Refusal::new(Code::Undeclared, sentence))
}

/// Most characters of a path that a sentence repeats: each refusal is kept, and an agent may write 64 KiB there.
const SHOWN_CHARS_MAX: usize = 64;

fn shown(path: &CanonicalPath) -> Cow<'_, str> {
    match path.as_str().char_indices().nth(SHOWN_CHARS_MAX) {
        None => Cow::Borrowed(path.as_str()),
        Some((end, _)) => Cow::Owned(format!("{}...", path.as_str().get(..end).unwrap_or_default())),
    }
}

/// Many servers make no difference between this and what a governed action does: it is neither that action nor anything
/// that the rules of the host or a wider action are about.
fn not_exactly(head: &Head) -> Refusal {
    let sentence = format!(
        "{} {} on {} is governed and fits no declared action exactly: the method, the path, and each parameter once. Nothing was sent.",
        head.method,
        shown(&head.path),
        head.via.authority.host
    );
    Refusal::new(Code::Undeclared, sentence)
}

/// The action whose body need not be read to tell: it is not governed, no `when` asks what is in the body, no parameter of the
/// query tells it from a governed one, and the body is of a kind that is not read anyway. It may be of any length, and streams.
#[must_use]
pub fn streamed<'a>(snapshot: &'a Snapshot, head: &Head, candidates: &[Candidate<'_>]) -> Option<&'a Action> {
    let opaque = content_type(head).is_ok_and(|declared| declared.is_some_and(body::is_opaque));
    let told = opaque && told_by(snapshot, head).is_empty();
    let first = candidates.first().filter(|first| told && first.when.is_empty())?;
    // What the URL says twice is refused as it is with a body that was read.
    body::merge(&first.captured.input, &first.captured.rest, Value::Object(serde_json::Map::new())).ok()?;
    let action = snapshot.config.actions.get(&ActionName::parse(first.action)?)?;
    (action.enabled && !is_governed(action)).then_some(action)
}

/// The second half, with the body.
///
/// # Errors
/// `invalid_input` for a body that cannot be read in one way, `ambiguous` where it cannot be told which action's `when`
/// holds, `undeclared` when none does.
pub fn with_body(
    snapshot: &Snapshot,
    host: &Host,
    head: &Head,
    candidates: &[Candidate<'_>],
    body: Bytes,
) -> Result<Meaning, Refusal> {
    let unreadable = |fault: &dyn std::fmt::Display| {
        Refusal::new(
            Code::InvalidInput,
            format!("The request cannot be read in one way: {fault}. Nothing was sent."),
        )
    };
    no_key_of_ours(head)?;
    let content_type = content_type(head)?;
    let (body_kind, members) =
        meant::read(snapshot, candidates, content_type, &body).map_err(|fault| unreadable(&fault))?;
    let packed = receive::is_packed(&head.headers);
    let content = Content {
        method: &head.method,
        content_type,
        packed,
        bytes: &body,
        kind: body_kind,
        members: &members,
        told_by: told_by(snapshot, head),
    };
    if !content.told_by.is_empty() {
        let headers: Vec<_> = texts_of(&head.headers).collect();
        let said = |cookie: String| content.told_by.iter().find(|name| body::binds(&cookie, name)).copied();
        if let Some(name) = plan::cookie_names(&headers).find_map(said) {
            return Err(meant::told_twice(name));
        }
    }
    let Some((action, input)) = meant::meant(snapshot, candidates, &content)? else {
        no_key_of_ours_in(snapshot, head, &content)?;
        return undeclared(snapshot, host, head)
            .map(|()| Meaning::Passthrough { body: Some(body), action: None });
    };
    if !action.enabled {
        let sentence = format!("The action {} is not enabled. Nothing was sent.", action.name);
        return Err(Refusal::new(Code::Undeclared, sentence));
    }
    if !is_governed(action) {
        no_key_of_ours_in(snapshot, head, &content)?;
        return Ok(Meaning::Passthrough { body: Some(body), action: Some(action.name.clone()) });
    }
    meant::is_read_for_its_schema(action, &content)?;
    Ok(Meaning::Governed(Named { action: action.name.clone(), body, body_kind, input }))
}

/// The refusal of a member that a provider may take for one that is judged, or for a list whose items are.
#[must_use]
pub fn lookalike(name: &str) -> Refusal {
    let sentence = format!(
        "The member {name} is spelled otherwise than one that is judged, or is no list where items are judged: some servers take it for that. Nothing was sent."
    );
    Refusal::new(Code::Ambiguous, sentence)
}

/// The refusal of a judged value with what many servers take off the end of a path.
#[must_use]
pub fn with_a_format(name: &str) -> Refusal {
    let sentence = format!(
        "The request is ambiguous: {name} ends in a format, a dot or a space, which some servers take off the end of a path. Nothing was sent."
    );
    Refusal::new(Code::Ambiguous, sentence)
}

/// The one content type of a request.
fn content_type(head: &Head) -> Result<Option<&str>, Refusal> {
    let mut values = head.headers.get_all(http::header::CONTENT_TYPE).iter();
    let refuse = |sentence: &str| Err(Refusal::new(Code::Ambiguous, sentence));
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text)),
            Err(_) => refuse("The content type is not text. Nothing was sent."),
        },
        (Some(_), Some(_)) => refuse("The request has two content types. Nothing was sent."),
    }
}

/// The same in the query and in the body, as far as it is read: some providers take their key there. A governed body is judged
/// with its effect's own key.
fn no_key_of_ours_in(snapshot: &Snapshot, head: &Head, content: &Content<'_>) -> Result<(), Refusal> {
    if snapshot.is_read_by_effect(&head.via.authority) {
        let headers: Vec<_> = texts_of(&head.headers).collect();
        no_other_effect(
            "",
            &oncegate_adapters::Request {
                method: head.method.as_str(),
                headers: &headers,
                query: &head.query,
                body_kind: content.kind,
                body: content.bytes,
                input: content.members,
            },
        )?;
    }
    let in_the_query = head.query.iter().any(|(_, value)| holds_a_key(&Value::String(value.clone())));
    let begin = PROVIDER_KEY_BEGIN.as_bytes();
    let unread = content.kind == BodyKind::Opaque && memchr::memmem::find(content.bytes, begin).is_some();
    match in_the_query || unread || holds_a_key(content.members) {
        true => Err(given_to_an_effect()),
        false => Ok(()),
    }
}

/// Each field as a text.
pub fn texts_of(headers: &HeaderMap) -> impl Iterator<Item = (String, String)> + '_ {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(move |(name, value)| (name.as_str().to_owned(), text(value)))
}

fn given_to_an_effect() -> Refusal {
    let sentence = "A key that Oncegate has given to an effect is not for another request. Nothing was sent.";
    Refusal::new(Code::InvalidInput, sentence)
}

/// A key that Oncegate gave to an effect: what is sent under it is in the place of that effect at the provider, and its replay
/// would be answered with this one's answer (P8).
fn no_key_of_ours(head: &Head) -> Result<(), Refusal> {
    let sent = head.headers.iter().filter(|(name, _)| !receive::is_ours(name.as_str()));
    // Alone, or in the quotes of a structured field.
    let is_one = |value: &[u8]| {
        let value = value.trim_ascii();
        let value = value.strip_prefix(b"\"").unwrap_or(value).trim_ascii();
        let begin = value.get(..PROVIDER_KEY_BEGIN.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(PROVIDER_KEY_BEGIN.as_bytes()))
    };
    match sent.map(|(_, value)| value.as_bytes()).any(is_one) {
        true => Err(given_to_an_effect()),
        false => Ok(()),
    }
}

/// Whether an action's requests go through the pipeline.
#[must_use]
pub fn is_governed(action: &Action) -> bool {
    action.kind.is_governed()
}
