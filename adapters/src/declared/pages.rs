//! Whether an answer says of itself that it is not the whole list: then nothing is absent from it yet.

use oncegate_policy::check::{Presence, presence};
use oncegate_policy::exchange::Answer;
use oncegate_policy::json::get;
use serde_json::Value;

/// Members by which APIs say that there is more, without `_`, `-`, `@`, `$` and `.`, in lower case. All that begin with `next`
/// and say something count as well. Square's `cursor` is there while there is more alone.
const MORE: [&str; 10] = [
    "cursor",
    "hasmore",
    "hasmoreitems",
    "hasnext",
    "hasnextpage",
    "more",
    "moreavailable",
    "moreresults",
    "istruncated",
    "incompleteresults",
];
/// And besides: the key that the next page begins behind.
const LAST_KEY: &str = "lastevaluatedkey";
const ODATA_NEXT: &str = "odatanextlink";
/// Members by which they say how many items there are in all, or are left.
const TOTALS: [&str; 8] = [
    "total",
    "totalcount",
    "totalitems",
    "totalresults",
    "totalelements",
    "totalrecords",
    "count",
    "recordstotal",
];
const LEFT: [&str; 2] = ["remaining", "itemsleft"];
/// Members by which they say how many pages there are.
const PAGES: [&str; 5] = ["pages", "totalpages", "pagecount", "lastpage", "numpages"];
/// Fields that say the same of an answer's head, in lower case.
const NEXT_FIELDS: [&str; 2] = ["x-next-page", "x-next-cursor"];
const TOTAL_FIELDS: [&str; 3] = ["x-total-count", "x-total", "x-wp-total"];
const PAGES_FIELDS: [&str; 2] = ["x-total-pages", "x-wp-totalpages"];
/// How deep such members lie below what holds the list: `{"meta": {"page": {"next": …}}}`.
const DEPTH_MAX: usize = 3;

/// Whether `answer`, whose list is at the dotted path `list` of `body`, says that the list goes on elsewhere. It is asked
/// about absence alone, so that to be mistaken leaves an effect unknown, and settles none: more than one page of any
/// kind is one too many.
pub(super) fn goes_on(answer: &Answer, body: &Value, list: &str) -> bool {
    let items = if list.is_empty() { Some(body) } else { get(body, list) };
    let length = items.and_then(Value::as_array).map_or(0, Vec::len);
    answer.status == 206
        || answer.headers.iter().any(|(name, value)| field_says_more(name, value, length))
        || says_more(body, length, DEPTH_MAX)
}

fn field_says_more(name: &str, value: &str, length: usize) -> bool {
    let name = name.to_ascii_lowercase();
    let more_than = |least: usize| value.trim().parse::<f64>().is_ok_and(|number| number > to_f64(least));
    name == "link" && names_next(value)
        || NEXT_FIELDS.contains(&name.as_str()) && !value.trim().is_empty()
        || TOTAL_FIELDS.contains(&name.as_str()) && more_than(length)
        || PAGES_FIELDS.contains(&name.as_str()) && more_than(1)
}

/// RFC 8288: `<…>; rel="next"`, among other parameters and relations.
fn names_next(link: &str) -> bool {
    let link = link.to_ascii_lowercase();
    let parameters = link.split([';', ',']).filter_map(|part| part.trim().strip_prefix("rel"));
    let values = parameters.filter_map(|rest| rest.trim_start().strip_prefix('='));
    values.flat_map(|value| value.trim().trim_matches('"').split_ascii_whitespace()).any(|rel| rel == "next")
}

/// What an object says of itself is nothing about the list that it is in; but one may be a link: `{"rel": "next", "href": …}`.
fn says_more(value: &Value, length: usize, depth: usize) -> bool {
    let Value::Object(members) = value else { return false };
    members.iter().any(|(name, member)| {
        let name: String = name.to_ascii_lowercase().replace(['_', '-', '@', '$', '.'], "");
        let named = |names: &[&str]| names.contains(&name.as_str());
        let more = named(&MORE) || named(&[LAST_KEY, ODATA_NEXT]) || name.starts_with("next");
        let links = name == "links" && member.as_array().is_some_and(|links| links.iter().any(is_next));
        (more && is_set(member))
            || (named(&TOTALS) && is_more_than(member, length))
            || (named(&LEFT) && is_more_than(member, 0))
            || (named(&PAGES) && is_more_than(member, 1))
            || links
            || (depth > 0 && says_more(member, length, depth - 1))
    })
}

fn is_next(link: &Value) -> bool {
    link.get("rel").and_then(Value::as_str).is_some_and(|rel| rel.eq_ignore_ascii_case("next"))
}

/// A number, or a text that is one.
fn is_more_than(value: &Value, least: usize) -> bool {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.is_some_and(|number: f64| number > to_f64(least))
}

/// Lengths of lists, which are small.
fn to_f64(length: usize) -> f64 {
    u32::try_from(length).map_or(f64::MAX, f64::from)
}

/// Whether there is something, in an object below its names: `{"next": null}` is no next page.
fn is_set(value: &Value) -> bool {
    match value.as_object() {
        Some(members) => members.values().any(is_set),
        None => presence(value) == Presence::Something,
    }
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
            assert_eq!(goes_on(&answer, &body, list), more, "{body} {link}");
        }
        for (name, value, more) in [
            ("X-Next-Page", "2", true),
            ("x-next-page", "", false),
            ("X-Total-Count", "2", true),
            ("X-Total-Count", "1", false),
            ("X-WP-TotalPages", "2", true),
            ("X-WP-TotalPages", "1", false),
        ] {
            let headers = vec![(name.to_owned(), value.to_owned())];
            let answer = Answer { status: 200, reason: None, headers, body: vec![] };
            assert_eq!(goes_on(&answer, &json!([1]), ""), more, "{name}: {value}");
        }
    }
}
