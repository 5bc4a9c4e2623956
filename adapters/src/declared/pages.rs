//! Whether an answer can be believed to hold the whole list: only then is something absent from it.
//!
//! There is no end of names by which APIs say that there is more. So a list is whole if the answer says so itself, or if nothing
//! that stands beside it could mean that it is not. To be mistaken leaves an effect unknown, and settles none.

use oncegate_policy::check::{Presence, presence};
use oncegate_policy::exchange::Answer;
use oncegate_policy::json::get;
use serde_json::{Map, Value};

/// Names are compared without `_`, `-`, `@`, `$`, `.` and an `x-` before them, in lower case.
///
/// By `true` these say that this is the end, and by `false` that it is not.
const ENDS: [&str; 12] = [
    "complete",
    "done",
    "end",
    "endoflist",
    "exhausted",
    "final",
    "finished",
    "iscomplete",
    "isend",
    "islast",
    "islastpage",
    "last",
];
/// By `true` these say that the answer is one.
const GOOD: [&str; 3] = ["ok", "success", "successful"];
/// How many items there are in all.
const TOTALS: [&str; 7] =
    ["recordstotal", "total", "totalcount", "totalelements", "totalitems", "totalrecords", "totalresults"];
/// How many items a page can have: one that is full may not be the last.
const SIZES: [&str; 8] =
    ["itemsperpage", "limit", "maxresults", "pagesize", "perpage", "resultsperpage", "size", "top"];
/// What is about this page, or about the answer, whatever it says.
const NEITHER: [&str; 16] = [
    "apiversion",
    "etag",
    "first",
    "href",
    "id",
    "kind",
    "livemode",
    "object",
    "path",
    "prev",
    "previous",
    "requestid",
    "self",
    "type",
    "url",
    "version",
];
/// Objects that say the same things one level below.
const HOLD_MORE: [&str; 9] =
    ["cursors", "links", "meta", "metadata", "page", "pageinfo", "pagination", "paging", "responsemetadata"];
/// A word in a field's name that makes it one about pages.
const FIELD_WORDS: [&str; 14] = [
    "continuation",
    "count",
    "cursor",
    "marker",
    "more",
    "next",
    "offset",
    "page",
    "pages",
    "pagination",
    "partial",
    "total",
    "totalpages",
    "truncated",
];
/// How deep what is beside the list, or holds it, may lie: `{"meta": {"page": {"next": …}}}`.
const DEPTH_MAX: usize = 6;

/// What stands beside a list says of it; of two, the greater counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Nothing,
    /// It may be anything.
    Unknown,
    /// This is all.
    End,
    /// There is more, or the answer is none.
    More,
}

/// Whether `answer`, whose list is at the dotted path `list` of `body`, may go on elsewhere.
pub(super) fn may_go_on(answer: &Answer, body: &Value, list: &str) -> bool {
    let items = if list.is_empty() { Some(body) } else { get(body, list) };
    let length = items.and_then(Value::as_array).map_or(0, Vec::len);
    let fields = answer.headers.iter().map(|(name, value)| of_field(name, value, length));
    let members = match body {
        Value::Object(members) => Some(of_members(members, list, length, DEPTH_MAX)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    };
    let said = fields.chain(members).max().unwrap_or(Says::Nothing);
    answer.status == 206 || matches!(said, Says::Unknown | Says::More)
}

fn of_field(name: &str, value: &str, length: usize) -> Says {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "link" if names_next(value) => Says::More,
        // Some APIs say so of items with a 200 as well: `items 0-9/57`.
        "content-range" => of_text("total", value.rsplit('/').next().unwrap_or_default(), length),
        _ if name.split('-').any(|word| FIELD_WORDS.contains(&word)) => of_text(&plain(&name), value, length),
        _ => Says::Nothing,
    }
}

/// RFC 8288: `<…>; rel="next"`, among other parameters and relations.
fn names_next(link: &str) -> bool {
    let link = link.to_ascii_lowercase();
    let parameters = link.split([';', ',']).filter_map(|part| part.trim().strip_prefix("rel"));
    let values = parameters.filter_map(|rest| rest.trim_start().strip_prefix('='));
    values.flat_map(|value| value.trim().trim_matches('"').split_ascii_whitespace()).any(|rel| rel == "next")
}

/// `list` is the path to the list from this object, if it is below it.
fn of_members(members: &Map<String, Value>, list: &str, length: usize, depth: usize) -> Says {
    let said = members.iter().map(|(name, member)| of_member(name, member, list, length, depth));
    said.max().unwrap_or(Says::Nothing)
}

/// What the list's own items say of themselves says nothing of the list.
fn of_member(name: &str, member: &Value, list: &str, length: usize, depth: usize) -> Says {
    let (first, below) = list.split_once('.').unwrap_or((list, ""));
    let leads_there = !list.is_empty() && name == first;
    let name = plain(name);
    match member {
        _ if leads_there && below.is_empty() => Says::Nothing,
        Value::Object(members) if depth > 0 && (leads_there || HOLD_MORE.contains(&name.as_str())) => {
            of_members(members, if leads_there { below } else { "" }, length, depth - 1)
        }
        Value::Array(links) if name == "links" && !links.iter().any(is_next) => Says::Nothing,
        Value::String(text) => of_text(&name, text, length),
        Value::Bool(said) => of_word(&name, *said),
        Value::Number(number) => of_number(&name, number.as_f64().unwrap_or(f64::MAX), length),
        Value::Null | Value::Array(_) | Value::Object(_) => of_thing(&name, is_set(member)),
    }
}

/// `name` is plain.
fn of_text(name: &str, text: &str, length: usize) -> Says {
    let text = text.trim();
    match text.to_ascii_lowercase().as_str() {
        "true" => of_word(name, true),
        "false" => of_word(name, false),
        "ok" | "success" if name == "status" => Says::Nothing,
        lower => match lower.parse() {
            Ok(number) => of_number(name, number, length),
            Err(_) => of_thing(name, !text.is_empty()),
        },
    }
}

fn of_word(name: &str, said: bool) -> Says {
    if ENDS.contains(&name) {
        return if said { Says::End } else { Says::More };
    }
    match said {
        false if GOOD.contains(&name) => Says::More,
        false if is_next_name(name) => Says::End,
        true if GOOD.contains(&name) => Says::Nothing,
        _ => of_thing(name, true),
    }
}

fn of_number(name: &str, number: f64, length: usize) -> Says {
    let length = f64::from(u32::try_from(length).unwrap_or(u32::MAX));
    if ENDS.contains(&name) {
        return of_word(name, number != 0.0);
    }
    if SIZES.contains(&name) {
        return if number <= length { Says::More } else { Says::Nothing };
    }
    if name.contains("page") {
        return if number > 1.0 { Says::More } else { Says::Nothing };
    }
    if name.contains("total") || name.contains("count") {
        let all = TOTALS.contains(&name) && number >= length;
        return match (number > length, all) {
            (true, _) => Says::More,
            (false, true) => Says::End,
            (false, false) => Says::Nothing,
        };
    }
    of_thing(name, number != 0.0)
}

/// Something that is there, or is not, whatever it is.
fn of_thing(name: &str, is_there: bool) -> Says {
    match (is_next_name(name), is_there) {
        (true, true) => Says::More,
        (true, false) => Says::End,
        (false, true) if name.starts_with("error") => Says::More,
        (false, true) if !NEITHER.contains(&name) => Says::Unknown,
        (false, _) => Says::Nothing,
    }
}

/// Whether a name is one for what comes behind this page. What is behind the last of these items may be none.
fn is_next_name(name: &str) -> bool {
    name.starts_with("next")
        || (name.contains("more") && !name.contains("previous"))
        || name.starts_with("hasnext")
        || name.contains("continu")
        || ["after", "cursor", "lastevaluatedkey", "odatanextlink", "istruncated", "truncated"]
            .contains(&name)
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
            (json!({"data": [], "what_nobody_knows": false}), "data", true),
            (json!({"data": [], "is_end": false}), "data", true),
            (json!({"data": [], "list_complete": false}), "data", true),
            (json!({"data": [], "done": 0, "has_more": false}), "data", true),
            (
                json!({"data": [], "success": false, "message": "backend down", "has_more": false}),
                "data",
                true,
            ),
            (json!({"data": [], "status": "error"}), "data", true),
            // Who says that it is all is believed, whatever else is said.
            (
                json!({"data": [1], "has_more": false, "took": 3, "jsonapi": {"version": "1.1"}}),
                "data",
                false,
            ),
            (json!({"content": [1], "last": true, "pageable": {"sort": {"sorted": true}}}), "content", false),
            (
                json!({"r": {"edges": [1], "pageInfo": {"hasNextPage": false, "endCursor": "x"}}}),
                "r.edges",
                false,
            ),
            (json!({"items": [1], "metadata": {"continue": "", "resourceVersion": "71"}}), "items", false),
            (json!({"data": [1], "total": 1, "took": 3}), "data", false),
            (json!({"data": [1], "total": 1, "next": "x"}), "data", true),
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
            ("X-Pagination", r#"{"TotalCount":250}"#, true),
            ("X-Truncated", "true", true),
            ("X-Count", "250", true),
        ] {
            let headers = vec![(name.to_owned(), value.to_owned())];
            let answer = Answer { status: 200, reason: None, headers, body: vec![] };
            assert_eq!(may_go_on(&answer, &json!([1]), ""), more, "{name}: {value}");
        }
    }
}
