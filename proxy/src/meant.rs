//! Which of the actions that a URL can mean is meant, once the body is there. Both listeners ask here, so that a request
//! is the same action whichever way it came.

use http::Method;
use oncegate_config::model::{Action, ActionKind};
use oncegate_policy::action::ActionName;
use oncegate_policy::body::{self, BodyKind};
use oncegate_policy::form;
use oncegate_policy::json::{self, BodyFault};
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::router::Candidate;
use oncegate_policy::url_template::ends_in_a_format;
use serde_json::{Map, Value};

use crate::meaning;
use crate::state::Snapshot;

/// A body and what was read of it.
pub struct Content<'a> {
    /// What it came with.
    pub method: &'a Method,
    /// Its declared type.
    pub content_type: Option<&'a str>,
    /// Whether its fields say that it is packed.
    pub packed: bool,
    /// As it came.
    pub bytes: &'a [u8],
    /// How it is written.
    pub kind: BodyKind,
    /// Its members.
    pub members: &'a Value,
    /// The parameters of the query by which the actions at its URL are told apart ([`Router::told_by`]).
    ///
    /// [`Router::told_by`]: oncegate_policy::router::Router::told_by
    pub told_by: Vec<&'a str>,
}

/// A body's members, as the provider behind these candidates reads them.
///
/// # Errors
/// A body that readers understand differently.
pub fn read(
    snapshot: &Snapshot,
    candidates: &[Candidate<'_>],
    content_type: Option<&str>,
    bytes: &[u8],
) -> Result<(BodyKind, Value), BodyFault> {
    let json = form::begins_as_json(bytes);
    let all = |holds: fn(&Action) -> bool| {
        let mut actions = candidates.iter().map(|one| action(snapshot, one));
        !candidates.is_empty() && actions.all(|action| action.is_some_and(holds))
    };
    // GitHub's documentation sends JSON with curl's own type, which is the form's. What is not governed at all is judged by
    // nothing in there.
    let content_type = match content_type {
        Some(_) if json && all(reads_json_anyway) => Some("application/json"),
        Some(form) if json && all(|action| !action.kind.is_governed()) && body::is_form(form) => {
            Some("application/octet-stream")
        }
        declared => declared,
    };
    body::read(content_type, bytes)
}

/// Whether its provider reads JSON whatever the type says.
fn reads_json_anyway(action: &Action) -> bool {
    match &action.kind {
        ActionKind::GithubWrite(_) | ActionKind::GithubFile(_) => true,
        ActionKind::Declared(declared) => declared.url.authority().host == "api.github.com",
        ActionKind::StripeRefund(_) | ActionKind::StripeWrite(_) | ActionKind::ResendEmail(_) => false,
    }
}

fn action<'a>(snapshot: &'a Snapshot, candidate: &Candidate<'_>) -> Option<&'a Action> {
    snapshot.config.actions.get(&ActionName::parse(candidate.action)?)
}

/// The first action whose `when` holds, enabled or not, with the input as it reads there; `None` if there is none.
///
/// No action is passed over for what is not known: a body whose members are not read could hold what a `when` asks for,
/// and so could a value that stands in two places. Nor is one judged by a member that its provider may not read
/// (`in_the_query`).
///
/// # Errors
/// `ambiguous`: a body that asks for another method, or says what tells the actions in the query, and where the first action
/// that applies cannot be told.
pub fn meant<'a>(
    snapshot: &'a Snapshot,
    candidates: &[Candidate<'_>],
    content: &Content<'_>,
) -> Result<Option<(&'a Action, Value)>, Refusal> {
    if body::asks_for_another_method(content.content_type, content.bytes, content.members) {
        let sentence = "The body asks for another method than the request line. Nothing was sent.";
        return Err(Refusal::new(Code::Ambiguous, sentence));
    }
    let said = |name: &&&str| body::says(content.content_type, content.bytes, content.members, name);
    // Neither is seen through: what is packed, and what has no type, which Rack takes for a form.
    let untyped =
        content.kind == BodyKind::Opaque && content.content_type.is_none_or(|kind| kind.trim().is_empty());
    let unseen = !content.bytes.is_empty() && (content.packed || untyped);
    if let Some(name) = content.told_by.iter().find(|name| unseen || said(name)) {
        return Err(told_twice(name));
    }
    let shown = is_shown(content);
    let nothing = Value::Object(Map::new());
    // What a packed body says, read as it is, is not what its provider reads.
    let known = if content.packed { &nothing } else { content.members };
    for candidate in candidates {
        let Some(action) = action(snapshot, candidate) else { continue };
        let captured = &candidate.captured;
        let input = match body::merge(&captured.input, &captured.rest, content.members.clone()) {
            Ok(input) => input,
            Err(_) if by_url(candidate, &nothing) == Some(false) => continue,
            Err(fault) => return Err(two_places(&fault)),
        };
        if let Some(name) = candidate.lookalike(&input) {
            return Err(meaning::lookalike(&name));
        }
        if let Some(path) = candidate.unclear(&input) {
            return Err(unclear(path));
        }
        if let Some(name) = in_the_query(candidate, action, content, shown) {
            return Err(misplaced(&name));
        }
        if let Some(name) = in_a_body_that_nobody_reads(action, content) {
            return Err(unread_body(name));
        }
        if let Some(name) = with_a_format(candidate, action, content.method, &input) {
            return Err(meaning::with_a_format(name));
        }
        let applies = if shown { Some(candidate.applies_to(&input)) } else { by_url(candidate, known) };
        match applies {
            Some(true) => return Ok(Some((action, input))),
            Some(false) => {}
            None => return Err(unread(action)),
        }
    }
    Ok(None)
}

/// The input of an action that comes behind the one that is `meant` by its name alone: a request cannot say which of the
/// two it is, and who asks by name says it.
pub fn named_as_well(
    name: &ActionName,
    meant: &Action,
    candidates: &[Candidate<'_>],
    members: &Value,
) -> Option<Value> {
    let of = |name: &ActionName| candidates.iter().find(|candidate| candidate.action == name.as_str());
    let (first, named) = (of(&meant.name)?, of(name)?);
    let input = body::merge(&named.captured.input, &named.captured.rest, members.clone()).ok()?;
    (named.ranks_with(first) && named.applies_to(&input)).then_some(input)
}

/// The refusal of a member by which actions are told apart, with a value that servers read in two ways.
fn unclear(path: &str) -> Refusal {
    let sentence = format!(
        "Some servers take what {path} says for nothing or for `false`, others do not, and it decides which action this is. Nothing was sent."
    );
    Refusal::new(Code::Ambiguous, sentence)
}

/// Whether an action applies by what its own URL takes and by `members`, whatever else the body holds. Parameters that
/// the URL does not name do not count: a server may prefer what the body says.
fn by_url(candidate: &Candidate<'_>, members: &Value) -> Option<bool> {
    let part = body::merge(&candidate.captured.input, &[], members.clone()).ok()?;
    candidate.applies_to_part(&part)
}

/// A judged member that the query says and a body could say otherwise: where the URL names it and the body is not read,
/// and where the URL does not name it and a body is what the method's parameters come in. Which of the two its provider
/// reads is the provider's to choose, and an agent would put there what it wants to be judged by.
fn in_the_query(
    candidate: &Candidate<'_>,
    action: &Action,
    content: &Content<'_>,
    shown: bool,
) -> Option<String> {
    let has_body = !content.bytes.is_empty();
    let takes_body = has_body || [Method::POST, Method::PUT, Method::PATCH].contains(content.method);
    let named = |path: &str| !shown && candidate.url.query_inputs().any(|own| own == path);
    let beside = |path: &str| {
        let member = path.split('.').next().unwrap_or_default();
        let rest = &candidate.captured.rest;
        takes_body && rest.iter().any(|(name, _)| name.split('[').next() == Some(member))
    };
    let required = action.required_members().filter(|_| action.kind.is_governed());
    let mut judged = action.judged_paths().into_iter().chain(required);
    judged.find(|path| named(path) || beside(path)).map(str::to_owned)
}

/// A governed action's schema says nothing of a body whose members are not read: it would pass with whatever is in it.
///
/// # Errors
/// `invalid_input`: such a body, where the schema is about more than what the URL takes.
pub fn is_read_for_its_schema(action: &Action, content: &Content<'_>) -> Result<(), Refusal> {
    let stand_in = match content.kind {
        BodyKind::Json => "body",
        BodyKind::Empty | BodyKind::Form | BodyKind::Opaque => "body_sha256",
    };
    let needed = |url| action.schema_needs_the_body(url, stand_in);
    let unread = !is_shown(content) && action.kind.route().is_some_and(|route| needed(&route.url));
    if unread { Err(unread_schema(action)) } else { Ok(()) }
}

/// Whether every member of the body stands in the input.
fn is_shown(content: &Content<'_>) -> bool {
    body::shows_members(content.kind, content.bytes) && (!content.packed || content.bytes.is_empty())
}

/// A judged member in the body of a method that has none: "content received in a GET request has no generally defined
/// semantics" (RFC 9110 section 9.3.1), and a server looks for its parameters in the URL.
fn in_a_body_that_nobody_reads<'a>(action: &'a Action, content: &Content<'_>) -> Option<&'a str> {
    let bodiless = [Method::GET, Method::HEAD, Method::OPTIONS].contains(content.method);
    let there = |path: &&str| {
        let member = path.split('.').next().unwrap_or_default();
        content.members.get(member).is_some()
    };
    action.judged_paths().into_iter().filter(|_| bodiless).find(there)
}

/// The judged member at the end of the path whose value ends as the name of a format does, or in what servers cut off:
/// `/orders/7.json` is order 7 to Rails, Grape and Django REST framework. What is put and deleted may be a file.
fn with_a_format<'a>(
    candidate: &Candidate<'a>,
    action: &Action,
    method: &Method,
    input: &Value,
) -> Option<&'a str> {
    let last = candidate.url.last_input().filter(|_| [Method::POST, Method::PATCH].contains(method))?;
    let ends = ends_in_a_format(json::get(input, last)?.as_str()?);
    (ends && action.judged_paths().contains(&last)).then_some(last)
}

/// The refusal of what the query says and another part of the request too: PHP, Rack and CGI put the body, or a cookie, over it.
#[must_use]
pub fn told_twice(name: &str) -> Refusal {
    let sentence = format!(
        "The request is ambiguous: the parameter {name} of the query tells what it is, and stands elsewhere too, where some \
         servers read it. Nothing was sent."
    );
    Refusal::new(Code::Ambiguous, sentence)
}

fn misplaced(name: &str) -> Refusal {
    let sentence = format!(
        "The request is ambiguous: {name} is judged and stands in the query, where the body may say something else. Send \
         it in the body, as JSON or a form. Nothing was sent."
    );
    Refusal::new(Code::Ambiguous, sentence)
}

fn unread_schema(action: &Action) -> Refusal {
    let sentence = format!(
        "The body is neither a JSON object nor a form, so that it cannot be told whether it fits action {}. Nothing was sent.",
        action.name
    );
    Refusal::new(Code::InvalidInput, sentence)
}

fn unread_body(name: &str) -> Refusal {
    let sentence = format!(
        "The request is ambiguous: {name} is judged and stands in the body of a method whose parameters are in the URL. Nothing was sent."
    );
    Refusal::new(Code::Ambiguous, sentence)
}

fn two_places(fault: &BodyFault) -> Refusal {
    Refusal::new(Code::Ambiguous, format!("The request is ambiguous: {fault}. Nothing was sent."))
}

fn unread(action: &Action) -> Refusal {
    let sentence = format!(
        "The request is ambiguous: it could be action {}, and what would tell is in a body that is packed, or neither a \
         JSON object nor a form. Nothing was sent.",
        action.name
    );
    Refusal::new(Code::Ambiguous, sentence)
}
