use super::*;
use crate::read_back::ReadBack;

const SHA: &str = "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d";
/// 2026-03-30T13:43:54Z
const SENT_AT_MS: i64 = 1_774_878_234_000;
const LIST: &str =
    "/repos/acme/site/commits?path=docs%2Fa.md&per_page=100&sha=main&since=2026-03-30T13%3A38%3A54Z";

fn step(input: &Value, response: Option<&Value>, step: LookStep<'_>) -> Look {
    let memory = Memory {
        effect_id: "eff_1",
        provider_key: "key-1",
        input,
        headers: &[],
        response,
        sent_at_ms: SENT_AT_MS,
    };
    look(&Place::of(None, input).unwrap(), &memory, step)
}

fn write() -> Value {
    json!({"owner": "acme", "repo": "site", "path": "docs/a.md", "branch": "main", "message": "m", "content": "aGk="})
}

fn after(input: &Value, path: &str, status: u16, body: &Value) -> Look {
    let request = ReadBack::get(path.to_owned(), vec![]).unwrap();
    let answer = Answer { status, reason: None, headers: vec![], body: body.to_string().into_bytes() };
    step(input, None, LookStep::Next { request: &request, answer: &answer, page: 1 })
}

fn short(look: &Look) -> String {
    match look {
        Look::Ask(read) => {
            assert!(read.headers().iter().any(|(name, _)| name == "user-agent"), "GitHub wants one");
            format!("ask {}", read.path_and_query())
        }
        Look::Impossible(_) => "impossible".into(),
        Look::Found(Finding::Matched { reference, .. }) => {
            format!("matched {}", reference.as_ref().unwrap())
        }
        Look::Found(Finding::ProviderSaysFailed { .. }) => "failed".into(),
        Look::Found(Finding::NoMatch { .. }) => "no match".into(),
        Look::Found(Finding::Unreadable { .. }) => "unreadable".into(),
    }
}

fn record(look: Look) -> Option<Value> {
    match look {
        Look::Found(Finding::Matched { record, .. }) => record.map(|r| serde_json::from_slice(&r).unwrap()),
        other @ (Look::Ask(_) | Look::Found(_) | Look::Impossible(_)) => panic!("{other:?}"),
    }
}

fn commit(sha: &str, message: &str) -> Value {
    json!({"sha": sha, "commit": {"message": message}})
}

#[test]
fn by_sha_where_the_answer_gave_one_else_by_list() {
    let answered = json!({"content": null, "commit": {"sha": SHA}});
    let by_sha = format!("ask /repos/acme/site/commits/{SHA}");
    let default = json!({"owner": "acme", "repo": "site", "path": "a.md", "message": "m", "content": ""});
    let mut dated = write();
    dated["committer"] = json!({"name": "a", "email": "b", "date": "2020-01-01T00:00:00Z"});
    for (input, response, path) in [
        (write(), None, format!("ask {LIST}&page=1")),
        (write(), Some(&answered), by_sha),
        (write(), Some(&json!({"commit": {"sha": "../x"}})), format!("ask {LIST}&page=1")),
        (
            dated,
            None,
            "ask /repos/acme/site/commits?path=docs%2Fa.md&per_page=100&sha=main&page=1".to_owned(),
        ),
        (
            default,
            None,
            "ask /repos/acme/site/commits?path=a.md&per_page=100&since=2026-03-30T13%3A38%3A54Z&page=1"
                .to_owned(),
        ),
    ] {
        assert_eq!(short(&step(&input, response, LookStep::First)), path, "{input}");
    }
    let contents = format!("ask /repos/acme/site/contents/docs/a.md?ref={SHA}");
    for (status, body, next) in [
        (200, commit(SHA, "m\n\nOncegate-Effect: eff_1"), contents.as_str()),
        (200, commit(SHA, "m"), "list"),
        (404, json!({}), "list"),
        (422, json!({}), "list"),
        (403, json!({}), "unreadable"),
        (502, json!({}), "unreadable"),
    ] {
        let next = if next == "list" { format!("ask {LIST}&page=1") } else { next.to_owned() };
        let path = format!("/repos/acme/site/commits/{SHA}");
        assert_eq!(short(&after(&write(), &path, status, &body)), next, "{status} {body}");
    }
}

#[test]
fn the_list_is_read_for_the_trailer() {
    let ours = commit(SHA, "m\n\nSigned-off-by: x\nOncegate-Effect: eff_1\n");
    let other = commit("0".repeat(40).as_str(), "m\n\nOncegate-Effect: eff_12");
    let full: Vec<Value> = vec![other.clone(); 100];
    let contents = format!("ask /repos/acme/site/contents/docs/a.md?ref={SHA}");
    for (page, status, body, next) in [
        (1, 200, json!([other, ours]), contents.clone()),
        (1, 200, json!([other]), "no match".to_owned()),
        (1, 200, json!([]), "no match".to_owned()),
        (1, 200, json!(full), format!("ask {LIST}&page=2")),
        (10, 200, json!(full), "unreadable".to_owned()),
        (1, 200, json!({"message": "odd"}), "unreadable".to_owned()),
        (1, 200, json!([commit("zz", "Oncegate-Effect: eff_1")]), "unreadable".to_owned()),
        (1, 404, json!({}), "unreadable".to_owned()),
        (1, 403, json!({}), "unreadable".to_owned()),
    ] {
        assert_eq!(short(&after(&write(), &format!("{LIST}&page={page}"), status, &body)), next, "{body}");
    }
    // A deleted file has no content that could be read.
    let delete =
        json!({"owner": "acme", "repo": "site", "path": "docs/a.md", "branch": "main", "message": "m"});
    let deleted = after(&delete, &format!("{LIST}&page=1"), 200, &json!([ours]));
    assert_eq!(short(&deleted), format!("matched {SHA}"));
    assert_eq!(record(deleted).unwrap()["content"], Value::Null);
}

#[test]
fn the_record_is_what_the_write_answers() {
    let path = format!("/repos/acme/site/contents/docs/a.md?ref={SHA}");
    let file =
        json!({"name": "a.md", "path": "docs/a.md", "sha": "45b9", "content": "aGk=", "encoding": "base64"});
    let read = record(after(&write(), &path, 200, &file)).unwrap();
    assert_eq!(read["content"], json!({"name": "a.md", "path": "docs/a.md", "sha": "45b9"}));
    assert_eq!(read["commit"]["sha"], SHA);
    assert_eq!(read["commit"]["message"], "m\n\nOncegate-Effect: eff_1");
    let gone = after(&write(), &path, 404, &json!({"message": "Not Found"}));
    assert_eq!((short(&gone), record(gone)), (format!("matched {SHA}"), None));
}
