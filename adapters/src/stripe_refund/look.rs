//! Finding a refund again: by its id where the provider's answer gave one, else in the list of its payment's
//! refunds, by the effect's id in its metadata.
//!
//! Refunds can neither be searched nor be filtered by metadata (<https://docs.stripe.com/search>,
//! <https://docs.stripe.com/api/refunds/list>), so the whole list is read. Metadata can be changed by anyone with a
//! key: finding nothing proves nothing, and a mark on an older refund, or on one of another amount, is not ours.

use oncegate_policy::exchange::Answer;
use oncegate_policy::json;
use oncegate_policy::reconcile::Finding;
use serde_json::Value;

use super::target::{Target, is_id};
use crate::look::{Look, LookStep, Memory, unreadable};
use crate::read_back::ReadBack;
use crate::stripe::{Page, is_made_by, mark, read_page, together};

/// Pages of 100 that one look reads at most.
const MAX_PAGES: usize = 100;
/// `re_…` (<https://docs.stripe.com/api/refunds/object>); `pyr_…` is known for refunds of `py_…` charges. With any other
/// id the list is read.
const REFUND_PREFIXES: [&str; 2] = ["re_", "pyr_"];
const ONE_REFUND: &str = "/v1/refunds/";

pub(crate) fn look(memory: &Memory<'_>, step: LookStep<'_>) -> Look {
    let Ok(target) = Target::of(memory.input) else {
        return Look::Impossible("what was asked names no payment whose refunds could be listed");
    };
    match step {
        LookStep::First => match answered_id(memory) {
            Some(id) => ask(memory, format!("{ONE_REFUND}{id}")),
            None => ask(memory, target.list_path()),
        },
        LookStep::Next { request, answer, page } => match request.path_and_query().strip_prefix(ONE_REFUND) {
            Some(id) => by_id(memory, &target, id, answer),
            None => in_list(memory, &target, request, answer, page),
        },
    }
}

fn ask(memory: &Memory<'_>, path: String) -> Look {
    match ReadBack::get(path, memory.headers.to_vec()) {
        Ok(read_back) => Look::Ask(read_back),
        Err(_) => Look::Impossible("a header of the request cannot be repeated"),
    }
}

/// The id in the provider's answer to the write. A saved 500 has none, and proves nothing.
fn answered_id<'a>(memory: &Memory<'a>) -> Option<&'a str> {
    memory.response?.get("id")?.as_str().filter(|id| is_id(id, &REFUND_PREFIXES))
}

fn by_id(memory: &Memory<'_>, target: &Target, id: &str, answer: &Answer) -> Look {
    match answer.status {
        200 => {}
        404 => return ask(memory, target.list_path()),
        status => return unreadable(format!("GET {ONE_REFUND}{id} was answered with {status}")),
    }
    let Ok(refund) = json::of_answer(&answer.body) else {
        return unreadable(format!("the answer to GET {ONE_REFUND}{id} cannot be read"));
    };
    if refund.get("id").and_then(Value::as_str) != Some(id) {
        return unreadable(format!("the answer to GET {ONE_REFUND}{id} is another object"));
    }
    // The id came in the answer to this very write; a mark that somebody removed since does not undo that, if the
    // refund is of the payment that was asked.
    let ours = match mark(&refund) {
        Some(mark) => mark == memory.effect_id && target.is_of(&refund) != Some(false),
        None => target.is_of(&refund) == Some(true),
    };
    if ours { Look::Found(finding(&refund)) } else { ask(memory, target.list_path()) }
}

fn in_list(memory: &Memory<'_>, target: &Target, request: &ReadBack, answer: &Answer, page: usize) -> Look {
    let Page { objects: refunds, next } = match read_page(answer, "refunds") {
        Ok(page) => page,
        Err(why) => return unreadable(why),
    };
    let ours = |refund: &&Value| is_made_by(memory, refund) && target.is_of(refund) != Some(false);
    let findings = refunds.iter().filter(ours).map(finding);
    if let Some(finding) = together(findings, next.is_none()) {
        return Look::Found(finding);
    }
    let Some(last) = next else {
        let what = format!("the refunds of {}, {page} page(s)", target.named());
        return Look::Found(Finding::NoMatch { what: what.into() });
    };
    if page >= MAX_PAGES {
        return unreadable(format!("more than {MAX_PAGES} pages of refunds of {}", target.named()));
    }
    let next = format!("{}&starting_after={last}", target.list_path());
    if next == request.path_and_query() {
        return unreadable("the list of refunds does not go on after its last entry");
    }
    ask(memory, next)
}

/// What a refund's `status` says (<https://docs.stripe.com/api/refunds/object#refund_object-status>). `failed` is
/// definite; `succeeded` can still turn into it much later.
fn finding(refund: &Value) -> Finding {
    let text = |name: &str| refund.get(name).and_then(Value::as_str).unwrap_or("without one");
    let what = format!("refund {} with status {}", text("id"), text("status")).into();
    let reference = Some(text("id").into());
    let record = serde_json::to_vec(refund).ok();
    match text("status") {
        "succeeded" | "pending" | "requires_action" => Finding::Matched { what, reference, record },
        "failed" | "canceled" => Finding::ProviderSaysFailed { what, reference, record },
        _ => Finding::Unreadable { what },
    }
}

#[cfg(test)]
mod tests;
