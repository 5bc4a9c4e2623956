//! Which of the actions that a URL can mean is meant, once the body is there. Both listeners ask here, so that a request
//! is the same action whichever way it came.

use http::Method;
use oncegate_config::model::Action;
use oncegate_policy::action::ActionName;
use oncegate_policy::body::{self, BodyKind};
use oncegate_policy::json::BodyFault;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::router::Candidate;
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
}

/// The first action whose `when` holds, enabled or not, with the input as it reads there; `None` if there is none.
///
/// No action is passed over for what is not known: a body whose members are not read could hold what a `when` asks for,
/// and so could a value that stands in two places. Nor is one judged by a member that its provider may not read
/// ([`in_the_query`]).
///
/// # Errors
/// `ambiguous`: a body that asks for another method, and where the first action that applies cannot be told.
pub fn meant<'a>(
    snapshot: &'a Snapshot,
    candidates: &[Candidate<'_>],
    content: &Content<'_>,
) -> Result<Option<(&'a Action, Value)>, Refusal> {
    if body::asks_for_another_method(content.content_type, content.bytes, content.members) {
        let sentence = "The body asks for another method than the request line. Nothing was sent.";
        return Err(Refusal::new(Code::Ambiguous, sentence));
    }
    let shown =
        body::shows_members(content.kind, content.bytes) && (!content.packed || content.bytes.is_empty());
    let nothing = Value::Object(Map::new());
    // What a packed body says, read as it is, is not what its provider reads.
    let known = if content.packed { &nothing } else { content.members };
    for candidate in candidates {
        let named = ActionName::parse(candidate.action);
        let Some(action) = named.and_then(|name| snapshot.config.actions.get(&name)) else { continue };
        let captured = &candidate.captured;
        let input = match body::merge(&captured.input, &captured.rest, content.members.clone()) {
            Ok(input) => input,
            Err(_) if by_url(candidate, &nothing) == Some(false) => continue,
            Err(fault) => return Err(two_places(&fault)),
        };
        if let Some(name) = candidate.lookalike(&input) {
            return Err(meaning::lookalike(&name));
        }
        if let Some(name) = in_the_query(candidate, action, content, shown) {
            return Err(misplaced(&name));
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

fn misplaced(name: &str) -> Refusal {
    let sentence = format!(
        "The request is ambiguous: {name} is judged and stands in the query, where the body may say something else. Send \
         it in the body, as JSON or a form. Nothing was sent."
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
