//! Finding a write again by the effect's id in the metadata: in the object that was changed, in the object that the
//! answer named, or in the list of its kind.
//!
//! Search is not used: it lags behind (<https://docs.stripe.com/search#data-freshness>), and every kind here can be
//! listed. A later write sets another id in the metadata, and anybody with a key can change it: finding nothing proves
//! nothing.

use oncegate_policy::exchange::Answer;
use oncegate_policy::json;
use oncegate_policy::reconcile::Finding;
use oncegate_policy::told::Told;
use oncegate_policy::url_template::percent_encode;
use serde_json::Value;

use super::shape::{Kind, Shape};
use crate::look::{Look, LookStep, Memory, unreadable};
use crate::read_back::ReadBack;
use crate::stripe::{MAX_ID, Page, is_made_by, listed_between, mark, read_page, together};

/// Pages of 100 that one look reads at most.
const MAX_PAGES: usize = 100;

pub(super) fn look(shape: &Shape, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
    match shape {
        Shape::Create(kind) => created(*kind, memory, step),
        // An update says nothing of the object's state: with the mark in it, it was applied, whatever the state.
        Shape::Update(kind, id) => changed(Kind { failed: &[], ..*kind }, id, &[], memory, step),
        Shape::MarkedVerb(kind, id) => changed(*kind, id, &UNCAPTURED, memory, step),
        Shape::Other => {
            Look::Impossible("this endpoint carries no mark; a `verify` rule can be declared for it")
        }
    }
}

fn ask(memory: &Memory<'_>, path: String) -> Look {
    match ReadBack::get(path, memory.headers.to_vec()) {
        Ok(read_back) => Look::Ask(read_back),
        Err(_) => Look::Impossible("a header or a parameter of the request cannot be repeated"),
    }
}

fn one(kind: Kind, id: &str) -> String {
    format!("/v1/{}/{id}", kind.name)
}

/// An id that can stand in a path.
fn id_of(object: &Value) -> Option<&str> {
    let id = object.get("id")?.as_str()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (!id.is_empty() && id.len() <= MAX_ID && id.bytes().all(plain)).then_some(id)
}

/// The object of the answer to the write. An error has no id, and a kept 500 proves nothing.
fn answered<'a>(kind: Kind, memory: &Memory<'a>) -> Option<&'a str> {
    let object = memory.response?;
    let word = kind.name.strip_suffix('s').unwrap_or(kind.name);
    id_of(object).filter(|_| object.get("object").and_then(Value::as_str) == Some(word))
}

fn created(kind: Kind, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
    let (request, answer, page) = match step {
        LookStep::First => {
            return match answered(kind, memory) {
                Some(id) => ask(memory, one(kind, id)),
                None => ask(memory, first_page(kind, memory)),
            };
        }
        LookStep::Next { request, answer, page } => (request.path_and_query(), answer, page),
    };
    match answered(kind, memory).filter(|id| request == one(kind, id)) {
        // The id came in the answer to this very write; a mark that was removed since does not undo that.
        Some(id) => match object(answer) {
            Some(found)
                if id_of(&found) == Some(id) && mark(&found).is_none_or(|m| m == memory.effect_id) =>
            {
                Look::Found(finding(kind, not_yet(memory), &found))
            }
            Some(_) => ask(memory, first_page(kind, memory)),
            None if answer.status == 404 => ask(memory, first_page(kind, memory)),
            None => unreadable(format!("GET {request} was answered with {}", answer.status)),
        },
        None => in_list(kind, memory, request, answer, page),
    }
}

fn first_page(kind: Kind, memory: &Memory<'_>) -> String {
    let mut path = format!("/v1/{}?limit=100", kind.name);
    for name in kind.filters {
        if let Some(text) = memory.input.get(*name).and_then(Value::as_str).filter(|text| !text.is_empty()) {
            path.push_str(&format!("&{name}={}", percent_encode(text)));
        }
    }
    if kind.by_time {
        let (from, to) = listed_between(memory);
        path.push_str(&format!("&created[gte]={from}&created[lte]={to}"));
    }
    path
}

fn in_list(kind: Kind, memory: &Memory<'_>, request: &str, answer: &Answer, page: usize) -> Look {
    let Page { objects, next } = match read_page(answer, kind.name) {
        Ok(page) => page,
        Err(why) => return unreadable(why),
    };
    let ours = objects.iter().filter(|object| is_made_by(memory, object));
    if let Some(finding) = together(ours.map(|ours| finding(kind, not_yet(memory), ours)), next.is_none()) {
        return Look::Found(finding);
    }
    let Some(last) = next else {
        return Look::Found(Finding::NoMatch { what: format!("the {}, {page} page(s)", kind.name).into() });
    };
    if page >= MAX_PAGES {
        return unreadable(format!("more than {MAX_PAGES} pages of {}", kind.name));
    }
    let next = format!("{}&starting_after={last}", first_page(kind, memory));
    if next == request {
        return unreadable(format!("the list of {} does not go on after its last entry", kind.name));
    }
    ask(memory, next)
}

/// `not_yet`: states in which the mark is there and the deed is not.
fn changed(kind: Kind, id: &str, not_yet: &[&str], memory: &Memory<'_>, step: LookStep<'_>) -> Look {
    let answer = match step {
        LookStep::First => return ask(memory, one(kind, id)),
        LookStep::Next { answer, .. } => answer,
    };
    match object(answer) {
        Some(found) if mark(&found) == Some(memory.effect_id) => Look::Found(finding(kind, not_yet, &found)),
        Some(_) => {
            Look::Found(Finding::NoMatch { what: format!("{} carries another mark", one(kind, id)).into() })
        }
        None => unreadable(format!("GET {} was answered with {}", one(kind, id), answer.status)),
    }
}

fn object(answer: &Answer) -> Option<Value> {
    json::of_answer(&answer.body).ok().filter(|_| answer.status == 200)
}

/// The states of a payment intent before it was confirmed, in which one that was to be confirmed at once did not go through,
/// and before it was captured (<https://docs.stripe.com/payments/paymentintents/lifecycle>).
const UNCONFIRMED: [&str; 2] = ["requires_payment_method", "requires_confirmation"];
const UNCAPTURED: [&str; 4] =
    ["requires_payment_method", "requires_confirmation", "requires_action", "requires_capture"];

/// In which states what was asked for is there, and was not done.
fn not_yet(memory: &Memory<'_>) -> &'static [&'static str] {
    let confirm = memory.input.get("confirm");
    let at_once = confirm.is_some_and(|confirm| confirm.as_bool() == Some(true) || confirm == "true");
    if at_once { &UNCONFIRMED } else { &[] }
}

/// What the object's own state says. Whether one that is there and did not go through is what was asked is for a person to
/// say.
fn finding(kind: Kind, not_yet: &[&str], found: &Value) -> Finding {
    let text = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default();
    let what: Told = format!("{} {} with status {:?}", kind.name, text("id"), text("status")).into();
    let reference = Some(text("id").into());
    let record = serde_json::to_vec(found).ok();
    if kind.failed.contains(&text("status")) {
        return Finding::ProviderSaysFailed { what, reference, record };
    }
    if not_yet.contains(&text("status")) {
        return Finding::Unreadable { what };
    }
    Finding::Matched { what, reference, record }
}
