//! Whether an answer can be believed to hold the whole list: only then is something absent from it.
//!
//! There is no end of names by which APIs say that there is more. So it is the other way round: a list is whole if all that
//! is said beside it is known to say nothing of the kind. To be mistaken leaves an effect unknown, and settles none.

use oncegate_policy::check::{Presence, presence};
use oncegate_policy::exchange::Answer;
use oncegate_policy::json::get;
use serde_json::Value;

/// Names are compared without `_`, `-`, `@`, `$`, `.` and an `x-` before them, in lower case.
///
/// By `true` these say that this is the end, and by `false` that it is not.
const ENDS: [&str; 8] =
    ["last", "islast", "lastpage", "islastpage", "done", "complete", "iscomplete", "finished"];
/// What is `true` of any page.
const TRUE: [&str; 4] = ["ok", "success", "successful", "livemode"];
/// How many items a page can have: one that is full may not be the last.
const SIZES: [&str; 8] =
    ["limit", "perpage", "pagesize", "size", "maxresults", "itemsperpage", "resultsperpage", "top"];
/// Texts that are about this page, or about the answer.
const TEXTS: [&str; 20] = [
    "apiversion",
    "etag",
    "first",
    "firstpageurl",
    "href",
    "id",
    "kind",
    "message",
    "object",
    "odatacontext",
    "path",
    "requestid",
    "schema",
    "self",
    "status",
    "timestamp",
    "traceid",
    "type",
    "url",
    "version",
];
/// Objects that say the same things one level below.
const HOLD_MORE: [&str; 9] =
    ["cursors", "links", "meta", "metadata", "page", "pageinfo", "pagination", "paging", "responsemetadata"];
/// A word in a field's name that makes it one about pages.
const FIELD_WORDS: [&str; 8] =
    ["next", "cursor", "continuation", "more", "page", "pages", "total", "totalpages"];
/// How deep what is beside the list, or holds it, may lie: `{"meta": {"page": {"next": …}}}`.
const DEPTH_MAX: usize = 6;

/// Whether `answer`, whose list is at the dotted path `list` of `body`, may go on elsewhere.
pub(super) fn may_go_on(answer: &Answer, body: &Value, list: &str) -> bool {
    let items = if list.is_empty() { Some(body) } else { get(body, list) };
    let length = items.and_then(Value::as_array).map_or(0, Vec::len);
    let beside = || match body {
        Value::Object(members) => {
            members.iter().any(|(name, member)| doubt(name, member, list, length, DEPTH_MAX))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    };
    answer.status == 206
        || answer.headers.iter().any(|(name, value)| field_in_doubt(name, value, length))
        || beside()
}

fn field_in_doubt(name: &str, value: &str, length: usize) -> bool {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "link" => names_next(value),
        // Some APIs say so of items with a 200 as well: `items 0-9/57`.
        "content-range" => text_in_doubt("total", value.rsplit('/').next().unwrap_or_default(), length),
        _ => {
            let of_pages = name.split('-').any(|word| FIELD_WORDS.contains(&word));
            of_pages && !value.trim().is_empty() && text_in_doubt(&plain(&name), value, length)
        }
    }
}

/// RFC 8288: `<…>; rel="next"`, among other parameters and relations.
fn names_next(link: &str) -> bool {
    let link = link.to_ascii_lowercase();
    let parameters = link.split([';', ',']).filter_map(|part| part.trim().strip_prefix("rel"));
    let values = parameters.filter_map(|rest| rest.trim_start().strip_prefix('='));
    values.flat_map(|value| value.trim().trim_matches('"').split_ascii_whitespace()).any(|rel| rel == "next")
}

/// Whether a member makes it doubtful that the list is whole. `list` is the path to it from the object that the member is
/// in, if it is below it. What the list's own items say of themselves says nothing of the list.
fn doubt(name: &str, member: &Value, list: &str, length: usize, depth: usize) -> bool {
    let (first, below) = list.split_once('.').unwrap_or((list, ""));
    let leads_there = !list.is_empty() && name == first;
    if leads_there && below.is_empty() {
        return false;
    }
    let name = plain(name);
    match member {
        Value::Null => false,
        Value::Bool(true) => !ENDS.contains(&name.as_str()) && !TRUE.contains(&name.as_str()),
        Value::Bool(false) => ENDS.contains(&name.as_str()),
        Value::Number(number) => number_in_doubt(&name, number.as_f64(), length),
        Value::String(text) => text_in_doubt(&name, text, length),
        Value::Array(links) if name == "links" => links.iter().any(is_next),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) if depth > 0 && (leads_there || HOLD_MORE.contains(&name.as_str())) => {
            let list = if leads_there { below } else { "" };
            members.iter().any(|(name, member)| doubt(name, member, list, length, depth - 1))
        }
        // A link to this page, or to the first, or something that is not known.
        Value::Object(_) => !["self", "first"].contains(&name.as_str()) && is_set(member),
    }
}

/// `name` is plain.
fn text_in_doubt(name: &str, text: &str, length: usize) -> bool {
    let text = text.trim();
    match text.to_ascii_lowercase().as_str() {
        "" => false,
        "true" => !ENDS.contains(&name),
        "false" => ENDS.contains(&name),
        _ => match text.parse() {
            Ok(number) => number_in_doubt(name, Some(number), length),
            Err(_) => !TEXTS.contains(&name),
        },
    }
}

/// `name` is plain. Of nothing there is no more.
fn number_in_doubt(name: &str, number: Option<f64>, length: usize) -> bool {
    let Some(number) = number else { return true };
    let length = f64::from(u32::try_from(length).unwrap_or(u32::MAX));
    if SIZES.contains(&name) {
        number <= length
    } else if name.contains("page") {
        number > 1.0
    } else if name.contains("total") || name.contains("count") {
        number > length
    } else {
        number != 0.0
    }
}

fn is_next(link: &Value) -> bool {
    link.get("rel").and_then(Value::as_str).is_some_and(|rel| rel.eq_ignore_ascii_case("next"))
}

/// Whether there is something, in an object below its names: `{"next": null}` is no next page.
fn is_set(value: &Value) -> bool {
    match value.as_object() {
        Some(members) => members.values().any(is_set),
        None => presence(value) == Presence::Something,
    }
}

fn plain(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_prefix("x-").unwrap_or(&name).replace(['_', '-', '@', '$', '.'], "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_that_goes_on_says_so() {
        let none = "";
        for (body, link, list, more) in [
            (json!({"data": [], "has_more": true}), none, "data", true),
            (json!({"data": [], "has_more": false}), none, "data", false),
            (json!({"data": [{"next": "x"}], "next_page": null, "next_cursor": ""}), none, "data", false),
            (json!({"items": [], "nextPageToken": "t"}), none, "items", true),
            (json!({"value": [], "@odata.nextLink": "https://a.example/?p=2"}), none, "value", true),
            (json!({"r": {"edges": [], "pageInfo": {"hasNextPage": true}}}), none, "r.edges", true),
            (json!({"r": {"edges": [], "pageInfo": {"hasNextPage": false}}}), none, "r.edges", false),
            (json!({"m": [], "response_metadata": {"next_cursor": "d"}}), none, "m", true),
            (json!({"data": [], "links": {"next": {"href": "x"}, "self": "y"}}), none, "data", true),
            (json!({"data": [], "links": {"next": null}}), none, "data", false),
            (json!({"data": [1, 2], "meta": {"total": 3}}), none, "data", true),
            (json!({"data": [1, 2], "meta": {"total": 2}}), none, "data", false),
            (json!({"data": [1], "cursor": "c"}), none, "data", true),
            (
                json!({"data": [1], "links": [{"rel": "self", "href": "x"}, {"rel": "next", "href": "y"}]}),
                none,
                "data",
                true,
            ),
            (json!({"data": [1], "links": [{"rel": "self", "href": "x"}]}), none, "data", false),
            (json!({"data": [1], "page": 1, "total_pages": 4}), none, "data", true),
            (
                json!({"data": [1], "page": 1, "total_pages": 1, "total": "1", "count": 1}),
                none,
                "data",
                false,
            ),
            (json!({"data": [1], "meta": {"current_page": 1, "last_page": "4"}}), none, "data", true),
            (json!({"data": [1], "total": "250"}), none, "data", true),
            (json!({"data": [1], "count": 250}), none, "data", true),
            (json!({"data": [1], "remaining": 24}), none, "data", true),
            (json!({"data": [1], "more_results": true}), none, "data", true),
            (json!({"data": [1], "next_page_params": {"after": 1}}), none, "data", true),
            (json!({"data": [{"next_action": {"a": 1}, "count": 9}]}), none, "data", false),
            (json!([1]), none, "", false),
            (
                json!([1]),
                r#"<https://a.example/?page=2>; rel="next", <https://a.example/?page=9>; rel="last""#,
                "",
                true,
            ),
            (json!([1]), "<https://a.example/?page=2>; title=x; REL = next", "", true),
            (json!([1]), r#"<https://a.example/next>; rel="prev last""#, "", false),
            (json!([1]), r#"<https://a.example/>; rel="last next""#, "", true),
        ] {
            let headers = if link.is_empty() { vec![] } else { vec![("link".to_owned(), link.to_owned())] };
            let answer = Answer { status: 200, reason: None, headers, body: vec![] };
            assert_eq!(may_go_on(&answer, &body, list), more, "{body} {link}");
        }
    }

    /// As GoCardless, Airtable, Atlassian, Spring, Salesforce, Elasticsearch, Kubernetes and others say it.
    #[test]
    fn whatever_is_not_known_may_say_so() {
        let answer = Answer { status: 200, reason: None, headers: vec![], body: vec![] };
        for (body, list, more) in [
            (json!({"data": [1], "meta": {"cursors": {"after": "PO1"}, "limit": 50}}), "data", true),
            (json!({"data": [1], "meta": {"cursors": {"after": null}, "limit": 50}}), "data", false),
            (json!({"data": [1], "offset": "itr1/rec2"}), "data", true),
            (json!({"data": [1], "startAt": 0, "maxResults": 50, "isLast": false}), "data", true),
            (json!({"data": [1], "startAt": 0, "maxResults": 50, "isLast": true}), "data", false),
            (json!({"data": [1], "startAt": 0, "maxResults": 1}), "data", true),
            (json!({"content": [1], "last": false, "number": 0, "size": 20}), "content", true),
            (json!({"content": [1], "last": true, "number": 0, "size": 20}), "content", false),
            (json!({"data": [1], "done": false}), "data", true),
            (json!({"hits": {"total": {"value": 250}, "hits": [1]}}), "hits.hits", true),
            (json!({"data": [1], "after": {"id": 3}}), "data", true),
            (json!({"data": [1], "after": {"id": null}}), "data", false),
            (json!({"hits": {"total": 1, "hits": [1]}}), "hits.hits", false),
            (json!({"data": [1], "truncated": true}), "data", true),
            (json!({"data": [1], "Marker": "x"}), "data", true),
            (json!({"items": [1], "metadata": {"continue": "x"}}), "items", true),
            (json!({"data": [1], "total_payouts": 250}), "data", true),
            (json!({"data": [1], "timed_out": true}), "data", true),
            (json!({"data": [], "errors": [{"message": "backend down"}]}), "data", true),
            (json!({"data": [], "what_nobody_knows": "x"}), "data", true),
            (json!({"ok": true, "object": "list", "url": "/v1/x", "data": [], "errors": []}), "data", false),
        ] {
            assert_eq!(may_go_on(&answer, &body, list), more, "{body}");
        }
    }

    #[test]
    fn fields_of_the_head_say_so_too() {
        for (name, value, more) in [
            ("X-Next-Page", "2", true),
            ("x-next-page", "", false),
            ("X-Total-Count", "2", true),
            ("X-Total-Count", "1", false),
            ("X-WP-TotalPages", "2", true),
            ("X-WP-TotalPages", "1", false),
            ("Content-Range", "0-0/57", true),
            ("Content-Range", "items 0-0/1", false),
            ("Content-Range", "0-0/*", true),
            ("X-After-Cursor", "abc", true),
            ("X-Has-More", "true", true),
            ("X-Has-More", "false", false),
            ("X-Per-Page", "20", false),
            ("X-Page", "1", false),
            ("X-Request-Id", "abc", false),
            ("X-RateLimit-Remaining", "99", false),
        ] {
            let headers = vec![(name.to_owned(), value.to_owned())];
            let answer = Answer { status: 200, reason: None, headers, body: vec![] };
            assert_eq!(may_go_on(&answer, &json!([1]), ""), more, "{name}: {value}");
        }
    }
}
