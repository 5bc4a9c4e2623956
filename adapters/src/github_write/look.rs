//! Finding an issue, a comment or a pull request again: by its number where the provider's answer gave one, else in
//! the list of its kind, newest first, by the mark in its text.
//!
//! Whoever may edit the text can take the mark away: finding nothing proves nothing.

use jiff::Timestamp;
use oncegate_policy::exchange::Answer;
use oncegate_policy::json;
use oncegate_policy::reconcile::Finding;
use oncegate_policy::told::Told;
use oncegate_policy::url_template::percent_encode;
use serde_json::Value;

use super::mark;
use super::shape::Shape;
use crate::github::get;
use crate::look::{Look, LookStep, Memory, unreadable};

/// Pages of 100 that one look reads at most.
const MAX_PAGES: usize = 10;
const PER_PAGE: usize = 100;
/// Lists go back to this long before the dispatch: two clocks never quite agree.
const CLOCK_SKEW_MS: i64 = 5 * 60 * 1000;

/// Where one kind is read.
struct Place {
    /// `/repos/o/r/issues/`, below which one of them is.
    one: String,
    /// The list of all that could be it, but for the page.
    list: String,
    /// The member that names one in its path.
    id: &'static str,
    /// Whether pull requests stand among them.
    no_pulls: bool,
}

pub(super) fn look(shape: &Shape, marked: bool, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
    let Some(place) = place(shape, memory) else {
        return Look::Impossible("this endpoint carries no mark; a `verify` rule can be declared for it");
    };
    let known = memory.response.and_then(|answered| number(answered, place.id));
    match (step, known) {
        (LookStep::First, Some(known)) => ask(format!("{}{known}", place.one)),
        (LookStep::First, None) if !marked => {
            Look::Impossible("the text carries no mark (`mark_body`), and the answer named no number")
        }
        (LookStep::First, None) => ask(page_path(&place, 1)),
        (LookStep::Next { request, answer, page: _ }, known) => {
            let asked = request.path_and_query();
            match known.filter(|known| asked == format!("{}{known}", place.one)) {
                Some(known) => by_number(&place, marked, known, answer),
                None => in_list(&place, memory, asked, answer),
            }
        }
    }
}

fn place(shape: &Shape, memory: &Memory<'_>) -> Option<Place> {
    let since = Timestamp::from_millisecond(memory.sent_at_ms.saturating_sub(CLOCK_SKEW_MS)).ok()?;
    let since = percent_encode(&since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let newest = format!("per_page={PER_PAGE}&sort=created&direction=desc");
    Some(match shape {
        Shape::Issue(repository) => Place {
            one: format!("{repository}/issues/"),
            list: format!("{repository}/issues?state=all&{newest}&since={since}"),
            id: "number",
            no_pulls: true,
        },
        // <https://docs.github.com/en/rest/issues/comments#list-issue-comments>: oldest first, and `since`.
        Shape::Comment(repository, number) => Place {
            one: format!("{repository}/issues/comments/"),
            list: format!("{repository}/issues/{number}/comments?per_page={PER_PAGE}&since={since}"),
            id: "id",
            no_pulls: false,
        },
        Shape::Pull(repository) => {
            let base = memory.input.get("base").and_then(Value::as_str).map(percent_encode);
            let base = base.map(|base| format!("&base={base}")).unwrap_or_default();
            Place {
                one: format!("{repository}/pulls/"),
                list: format!("{repository}/pulls?state=all&{newest}{base}"),
                id: "number",
                no_pulls: false,
            }
        }
        Shape::Merge | Shape::Other => return None,
    })
}

fn ask(path: String) -> Look {
    match get(path) {
        Ok(read_back) => Look::Ask(read_back),
        Err(_) => Look::Impossible("a name in the request cannot stand in a URL"),
    }
}

fn page_path(place: &Place, page: usize) -> String {
    format!("{}&page={page}", place.list)
}

fn number(object: &Value, member: &str) -> Option<u64> {
    object.get(member)?.as_u64()
}

/// The mark is its last line, it is of the kind that was asked for, and it was made after the dispatch: a mark that
/// somebody has written into something else, or quoted, is none. The list of issues holds pull requests, too.
fn is_ours(place: &Place, memory: &Memory<'_>, listed: &Value) -> bool {
    let text = listed.get("body").and_then(Value::as_str).unwrap_or_default();
    let made =
        listed.get("created_at").and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    let since = memory.sent_at_ms.saturating_sub(CLOCK_SKEW_MS);
    let other_kind = place.no_pulls && listed.get("pull_request").is_some_and(|pull| !pull.is_null());
    let marked =
        text.trim_end().lines().next_back().is_some_and(|last| last.trim() == mark(memory.effect_id));
    marked && !other_kind && made.is_some_and(|made| made.as_millisecond() >= since)
}

fn body_of(answer: &Answer) -> Option<Value> {
    json::of_answer(&answer.body).ok().filter(|_| answer.status == 200)
}

/// The number came in the answer to this very write: a mark that was edited away since does not undo that.
fn by_number(place: &Place, marked: bool, known: u64, answer: &Answer) -> Look {
    match body_of(answer) {
        Some(found) if number(&found, place.id) == Some(known) => matched(place, &found),
        Some(_) => unreadable(format!("{}{known} was answered with another", place.one)),
        None if marked && [404, 410].contains(&answer.status) => ask(page_path(place, 1)),
        None => unreadable(format!("{}{known} was answered with {}", place.one, answer.status)),
    }
}

fn in_list(place: &Place, memory: &Memory<'_>, asked: &str, answer: &Answer) -> Look {
    let rows = match body_of(answer) {
        Some(Value::Array(rows)) => rows,
        Some(_) => return unreadable("the list cannot be read"),
        None => return unreadable(format!("the list was answered with {}", answer.status)),
    };
    if let Some(ours) = rows.iter().find(|row| is_ours(place, memory, row)) {
        return matched(place, ours);
    }
    let page = asked.rsplit_once("&page=").and_then(|(_, page)| page.parse().ok()).unwrap_or(MAX_PAGES);
    if rows.len() < PER_PAGE {
        return Look::Found(Finding::NoMatch { what: format!("{page} page(s) of {}", place.list).into() });
    }
    if page >= MAX_PAGES {
        return unreadable(format!("more than {MAX_PAGES} pages of {}", place.list));
    }
    ask(page_path(place, page + 1))
}

/// What is listed has the members of the answer to the write that a client reads.
fn matched(place: &Place, found: &Value) -> Look {
    let reference = number(found, place.id).map(|id| id.to_string());
    let what = format!("{}{} is there", place.one, reference.as_deref().unwrap_or("?")).into();
    let reference = reference.map(Told::from);
    Look::Found(Finding::Matched { what, reference, record: serde_json::to_vec(found).ok() })
}
