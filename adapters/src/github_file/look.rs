//! Finding a commit again: by its SHA where the provider's answer gave one, else among the commits of the file, newest
//! first (<https://docs.github.com/en/rest/commits/commits#list-commits>), by the trailer in the message.
//!
//! That the content is there says nothing of who wrote it, so it is not compared. A forced push takes the commit away:
//! finding nothing proves nothing.

use jiff::Timestamp;
use oncegate_policy::exchange::Answer;
use oncegate_policy::json;
use oncegate_policy::reconcile::Finding;
use oncegate_policy::url_template::percent_encode;
use serde_json::{Value, json};

use super::place::Place;
use super::trailer;
use crate::github::get;
use crate::look::{Look, LookStep, Memory, unreadable};

/// Pages of 100 commits that one look reads at most.
const MAX_PAGES: usize = 10;
const PER_PAGE: usize = 100;
/// Commits are listed from this long before the dispatch: two clocks never quite agree.
const CLOCK_SKEW_MS: i64 = 5 * 60 * 1000;

pub(super) fn look(place: &Place, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
    let (request, answer) = match step {
        LookStep::First => {
            return match memory.response.and_then(|answered| sha_of(answered.get("commit")?)) {
                Some(sha) => ask(format!("{}/{sha}", commits_path(place))),
                None => ask(page_path(place, memory, 1)),
            };
        }
        LookStep::Next { request, answer, page: _ } => (request.path_and_query(), answer),
    };
    if let Some(sha) = request.strip_prefix(&format!("{}/", commits_path(place))) {
        return by_sha(place, memory, sha, answer);
    }
    if let Some((_, sha)) = request.split_once("?ref=") {
        return with_content(place, memory, sha, answer);
    }
    in_list(place, memory, request, answer)
}

fn ask(path: String) -> Look {
    match get(path) {
        Ok(read_back) => Look::Ask(read_back),
        Err(_) => Look::Impossible("the file's name cannot stand in a URL"),
    }
}

fn commits_path(place: &Place) -> String {
    format!("{}/commits", place.repository_path())
}

fn page_path(place: &Place, memory: &Memory<'_>, page: usize) -> String {
    let mut query = format!("path={}&per_page={PER_PAGE}", percent_encode(&place.path));
    if let Some(branch) = &place.branch {
        query.push_str(&format!("&sha={}", percent_encode(branch)));
    }
    // `since` goes by the date of the commit, which a request may set itself.
    let dated =
        ["committer", "author"].iter().any(|who| memory.input.pointer(&format!("/{who}/date")).is_some());
    let since = Timestamp::from_millisecond(memory.sent_at_ms.saturating_sub(CLOCK_SKEW_MS)).ok();
    if let Some(since) = since.filter(|_| !dated) {
        query.push_str(&format!(
            "&since={}",
            percent_encode(&since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        ));
    }
    format!("{}?{query}&page={page}", commits_path(place))
}

/// A commit's id: 40 hexadecimal digits, or 64.
fn sha_of(object: &Value) -> Option<&str> {
    let sha = object.get("sha")?.as_str()?;
    ([40, 64].contains(&sha.len()) && sha.bytes().all(|b| b.is_ascii_hexdigit())).then_some(sha)
}

fn is_ours(memory: &Memory<'_>, listed: &Value) -> bool {
    let message = listed.pointer("/commit/message").and_then(Value::as_str).unwrap_or_default();
    let mark = trailer(memory.effect_id);
    message.lines().any(|line| line.trim_end() == mark)
}

fn body_of(answer: &Answer) -> Option<Value> {
    json::of_answer(&answer.body).ok().filter(|_| answer.status == 200)
}

fn by_sha(place: &Place, memory: &Memory<'_>, sha: &str, answer: &Answer) -> Look {
    match body_of(answer) {
        Some(commit) if sha_of(&commit) == Some(sha) && is_ours(memory, &commit) => found(place, memory, sha),
        // Rewritten since, or another's: the list says.
        Some(_) => ask(page_path(place, memory, 1)),
        None if [404, 422].contains(&answer.status) => ask(page_path(place, memory, 1)),
        None => unreadable(format!("commit {sha} was answered with {}", answer.status)),
    }
}

fn in_list(place: &Place, memory: &Memory<'_>, request: &str, answer: &Answer) -> Look {
    let rows = match body_of(answer) {
        Some(Value::Array(rows)) => rows,
        Some(_) => return unreadable("the list of commits cannot be read"),
        None => return unreadable(format!("the list of commits was answered with {}", answer.status)),
    };
    if let Some(ours) = rows.iter().find(|row| is_ours(memory, row)) {
        return match sha_of(ours) {
            Some(sha) => found(place, memory, sha),
            None => unreadable("a listed commit has no id"),
        };
    }
    let page = request.rsplit_once("&page=").and_then(|(_, page)| page.parse().ok()).unwrap_or(MAX_PAGES);
    if rows.len() < PER_PAGE {
        return Look::Found(Finding::NoMatch {
            what: format!("the commits of {}, {page} page(s)", place.path).into(),
        });
    }
    if page >= MAX_PAGES {
        return unreadable(format!("more than {MAX_PAGES} pages of commits of {}", place.path));
    }
    ask(page_path(place, memory, page + 1))
}

/// The commit is there. For a file that was written, what the answer would have said of it is read too.
fn found(place: &Place, memory: &Memory<'_>, sha: &str) -> Look {
    match memory.input.get("content") {
        Some(_) => ask(format!("{}?ref={sha}", place.contents_path())),
        None => matched(place, memory, sha, Some(&Value::Null)),
    }
}

fn with_content(place: &Place, memory: &Memory<'_>, sha: &str, answer: &Answer) -> Look {
    let content = body_of(answer).filter(Value::is_object);
    matched(place, memory, sha, content.as_ref())
}

/// With the members of the answer to a write, so that the provider's own clients can read the record; without the
/// file's, there is none.
fn matched(place: &Place, memory: &Memory<'_>, sha: &str, content: Option<&Value>) -> Look {
    let repository = place.repository_path();
    let record = content.map(|content| {
        let mut content = content.clone();
        if let Some(members) = content.as_object_mut() {
            // The answer to a write describes the file and does not repeat it.
            members.retain(|name, _| !["content", "encoding"].contains(&name.as_str()));
        }
        let commit = json!({
            "sha": sha,
            "url": format!("https://api.github.com{repository}/git/commits/{sha}"),
            "html_url": format!("https://github.com/{}/{}/commit/{sha}", place.owner, place.name),
            "message": super::with_trailer(text(memory, "message"), memory.effect_id),
        });
        json!({ "content": content, "commit": commit }).to_string().into_bytes()
    });
    let what = format!("commit {sha} of {}/{} carries the trailer", place.owner, place.name).into();
    Look::Found(Finding::Matched { what, reference: Some(sha.into()), record })
}

fn text<'a>(memory: &Memory<'a>, member: &str) -> &'a str {
    memory.input.get(member).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
