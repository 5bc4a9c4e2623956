//! Whether an answer says of itself that it is not the whole list: then nothing is absent from it yet.

use oncegate_policy::exchange::Answer;
use oncegate_policy::json::get;
use serde_json::Value;

/// Members by which APIs say that there is more, without `_`, `-`, `@`, `$` and `.`, in lower case.
const MORE: [&str; 24] = [
    "hasmore",
    "hasmoreitems",
    "hasnext",
    "hasnextpage",
    "more",
    "moreavailable",
    "next",
    "nextcontinuationtoken",
    "nextcursor",
    "nexthref",
    "nextlink",
    "nextmarker",
    "nextoffset",
    "nextpage",
    "nextpagetoken",
    "nextpageurl",
    "nextstart",
    "nexttoken",
    "nexturi",
    "nexturl",
    "odatanextlink",
    "istruncated",
    "incompleteresults",
    "lastevaluatedkey",
];
/// Members by which they say how many there are in all.
const TOTALS: [&str; 6] =
    ["total", "totalcount", "totalitems", "totalresults", "totalelements", "totalrecords"];
/// How deep such members lie below what holds the list: `{"meta": {"page": {"next": …}}}`.
const DEPTH_MAX: usize = 3;

/// Whether `answer`, whose list is at the dotted path `list` of `body`, says that the list goes on elsewhere. It is asked
/// about absence alone, so that to be mistaken leaves an effect unknown, and settles none.
pub(super) fn goes_on(answer: &Answer, body: &Value, list: &str) -> bool {
    let items = if list.is_empty() { Some(body) } else { get(body, list) };
    let length = items.and_then(Value::as_array).map_or(0, Vec::len);
    let links = answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("link"));
    links.map(|(_, value)| value).any(|value| names_next(value)) || says_more(body, length, DEPTH_MAX)
}

/// RFC 8288: `<…>; rel="next"`, among other parameters and relations.
fn names_next(link: &str) -> bool {
    let link = link.to_ascii_lowercase();
    let parameters = link.split([';', ',']).filter_map(|part| part.trim().strip_prefix("rel"));
    let values = parameters.filter_map(|rest| rest.trim_start().strip_prefix('='));
    values.flat_map(|value| value.trim().trim_matches('"').split_ascii_whitespace()).any(|rel| rel == "next")
}

/// Items of lists are not looked into: what an object says of itself is nothing about the list.
fn says_more(value: &Value, length: usize, depth: usize) -> bool {
    let Value::Object(members) = value else { return false };
    members.iter().any(|(name, member)| {
        let name: String = name.to_ascii_lowercase().replace(['_', '-', '@', '$', '.'], "");
        let more = MORE.contains(&name.as_str()) && is_set(member);
        let longer =
            TOTALS.contains(&name.as_str()) && member.as_u64().is_some_and(|total| total > length as u64);
        more || longer || (depth > 0 && says_more(member, length, depth - 1))
    })
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(said) => *said,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => members.values().any(is_set),
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
    }
}
