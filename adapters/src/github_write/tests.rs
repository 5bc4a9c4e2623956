use oncegate_policy::body::BodyKind;
use oncegate_policy::exchange::Answer;
use oncegate_policy::reconcile::Finding;
use oncegate_policy::refusal::Code;
use oncegate_policy::url_template::UrlTemplate;
use serde_json::json;

use super::*;
use crate::Adapter;
use crate::read_back::ReadBack;

/// 2026-03-30T13:43:54Z
const SENT_AT_MS: i64 = 1_774_878_234_000;
const ISSUES: &str = "issues";
const COMMENTS: &str = "issues/{{input.number}}/comments";
const PULLS: &str = "pulls";
const MERGE: &str = "pulls/{{input.number}}/merge";
const DISPATCH: &str = "actions/workflows/{{input.id}}/dispatches";

fn write(method: &str, below: &str, mark_body: bool) -> GithubWrite {
    let route = Declared {
        method: method.into(),
        url: UrlTemplate::parse(&format!("https://api.github.com/repos/{{{{input.owner}}}}/acme/{below}"))
            .unwrap(),
        headers: vec![],
        scope_headers: vec![],
        body: None,
        subject: None,
        impact: None,
        idempotency: None,
        verify: None,
        response: ResponseRules::default(),
    };
    GithubWrite::new(route, mark_body)
}

fn request<'a>(body: &'a str, input: &'a Value) -> Request<'a> {
    Request {
        method: "POST",
        headers: &[],
        query: &[],
        body_kind: BodyKind::Json,
        body: body.as_bytes(),
        input,
    }
}

#[test]
fn a_plan_names_what_the_path_names() {
    for (below, input, subject) in [
        (ISSUES, json!({"owner": "Corp", "title": "x"}), "corp/acme/issues"),
        (COMMENTS, json!({"owner": "corp", "number": "7", "body": "x"}), "corp/acme/issues/7/comments"),
        (COMMENTS, json!({"owner": "corp", "number": "007", "body": "x"}), "corp/acme/issues/7/comments"),
        (PULLS, json!({"owner": "corp", "head": "fix", "base": "main"}), "corp/acme/pulls/main...fix"),
        (
            PULLS,
            json!({"owner": "corp", "head": "Corp:fix", "base": "refs/heads/main"}),
            "corp/acme/pulls/main...fix",
        ),
        (PULLS, json!({"owner": "corp", "head": "me:fix", "base": "main"}), "corp/acme/pulls/main...me:fix"),
        (MERGE, json!({"owner": "corp", "number": "7"}), "corp/acme/pulls/7/merge"),
        (DISPATCH, json!({"owner": "corp", "id": "deploy.yml"}), "corp/acme/actions/workflows/*/dispatches"),
        (DISPATCH, json!({"owner": "corp", "id": "161335"}), "corp/acme/actions/workflows/*/dispatches"),
    ] {
        let plan = write("POST", below, true).try_plan(&request("", &input)).unwrap();
        assert_eq!(plan.subject.as_deref(), Some(subject));
        let counted = plan.impact.unwrap();
        assert_eq!((counted.dimension, counted.amount), (Dimension::ResourceMutations, Some(1)));
        assert_eq!((plan.provider_key, plan.replay_window_ms), (false, None));
    }
}

#[test]
fn the_mark_goes_where_it_is_allowed_and_read() {
    let marks = Marks { effect_id: "eff_1", provider_key: "" };
    for (below, mark_body, body, sent) in [
        (
            ISSUES,
            true,
            r#"{"title":"x","body":"y\n"}"#,
            r#"{"body":"y\n\n<!-- oncegate-effect: eff_1 -->","title":"x"}"#,
        ),
        (ISSUES, true, r#"{"title":"x"}"#, r#"{"body":"<!-- oncegate-effect: eff_1 -->","title":"x"}"#),
        (
            ISSUES,
            true,
            r#"{"title":"x","body":null}"#,
            r#"{"body":"<!-- oncegate-effect: eff_1 -->","title":"x"}"#,
        ),
        (COMMENTS, true, r#"{"body":"y"}"#, r#"{"body":"y\n\n<!-- oncegate-effect: eff_1 -->"}"#),
        (ISSUES, false, r#"{ "title": "x" }"#, r#"{ "title": "x" }"#),
        (MERGE, true, r#"{ "sha": "x" }"#, r#"{ "sha": "x" }"#),
    ] {
        let input = serde_json::from_str(body).unwrap();
        let prepared = write("POST", below, mark_body).prepare(&request(body, &input), &marks).unwrap();
        let members = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap();
        assert_eq!(members(&prepared.body), members(sent.as_bytes()), "{below} {body}");
        let as_it_came = !mark_body || below == MERGE;
        assert_eq!(prepared.body == body.as_bytes(), as_it_came, "{below} {body}");
    }
}

#[test]
fn marks_of_others_and_texts_that_are_none_are_refused() {
    for (body, code) in [
        (r#"{"body":"<!-- Oncegate-Effect: eff_2 -->"}"#, Some(Code::InvalidInput)),
        (r#"{"body":7}"#, Some(Code::InvalidInput)),
        (r#"{"commit_message":"x\n\nOncegate-Effect: eff_2"}"#, Some(Code::InvalidInput)),
        (r#"{"body":"seen eff_2"}"#, None),
    ] {
        let mut input: Value = serde_json::from_str(body).unwrap();
        input["owner"] = "corp".into();
        let refused = write("POST", ISSUES, true).try_plan(&request(body, &input)).err();
        assert_eq!(refused.map(|refusal| refusal.code), code, "{body}");
    }
    let body = r#"{"body":"<!-- oncegate-effect: eff_2 -->"}"#;
    let input = json!({"owner": "corp", "number": "7", "body": "<!-- oncegate-effect: eff_2 -->"});
    let edit = write("PATCH", "issues/{{input.number}}", false);
    assert_eq!(edit.try_plan(&request(body, &input)).unwrap_err().code, Code::InvalidInput);
    for number in ["7.0", "+7", "7 ", "7.json"] {
        let input = json!({"owner": "corp", "number": number, "body": "x"});
        let refused = write("POST", COMMENTS, true).try_plan(&request("", &input));
        assert_eq!(refused.unwrap_err().code, Code::InvalidInput, "{number}");
    }
}

/// GitHub reads JSON, and the text of another type could hold what a mark says.
#[test]
fn what_github_does_not_read_is_refused() {
    let input = json!({"owner": "corp", "number": "7"});
    let pin = |name: &str| vec![(name.to_owned(), "x".to_owned())];
    let query = [pin("base"), Vec::new()];
    for (body_kind, query, code) in [
        (BodyKind::Form, &query[1], Some(Code::InvalidInput)),
        (BodyKind::Opaque, &query[1], Some(Code::InvalidInput)),
        (BodyKind::Json, &query[0], Some(Code::Ambiguous)),
        (BodyKind::Json, &query[1], None),
        (BodyKind::Empty, &query[1], None),
    ] {
        let asked = Request { body_kind, query, ..request("", &input) };
        let refused = write("PUT", MERGE, false).try_plan(&asked).err();
        assert_eq!(refused.map(|refusal| refusal.code), code, "{body_kind:?} {query:?}");
    }
}

#[test]
fn a_moved_head_is_the_only_conflict_that_proves_something() {
    for (below, failed) in [(MERGE, &[409][..]), (ISSUES, &[]), (COMMENTS, &[]), (PULLS, &[])] {
        assert_eq!(write("PUT", below, true).response_rules().failed_statuses, failed);
    }
}

fn memory<'a>(input: &'a Value, response: Option<&'a Value>) -> Memory<'a> {
    Memory { effect_id: "eff_1", provider_key: "", input, headers: &[], response, sent_at_ms: SENT_AT_MS }
}

fn asked(look: Look) -> ReadBack {
    match look {
        Look::Ask(read_back) => read_back,
        Look::Found(_) | Look::Impossible(_) => panic!("{look:?}"),
    }
}

fn answered(status: u16, body: &Value) -> Answer {
    Answer { status, reason: None, headers: vec![], body: body.to_string().into_bytes() }
}

#[test]
fn what_was_lost_is_found_by_its_mark() {
    let since = "since=2026-03-30T13%3A38%3A54Z";
    for (below, list) in [
        (
            ISSUES,
            format!(
                "/repos/corp/acme/issues?state=all&per_page=100&sort=created&direction=desc&{since}&page=1"
            ),
        ),
        (COMMENTS, format!("/repos/corp/acme/issues/7/comments?per_page=100&{since}&page=1")),
        (
            PULLS,
            "/repos/corp/acme/pulls?state=all&per_page=100&sort=created&direction=desc&base=main&page=1"
                .to_owned(),
        ),
    ] {
        let input = json!({"owner": "corp", "number": "7", "base": "main", "head": "x", "body": "y"});
        let adapter = Adapter::GithubWrite(Box::new(write("POST", below, true)));
        let memory = memory(&input, None);
        let request = asked(adapter.look(&memory, LookStep::First));
        assert_eq!(request.path_and_query(), list);
        assert!(request.headers().contains(&("user-agent".to_owned(), "oncegate".to_owned())));
        let made = |at: &str, body: &str| json!({"number": 9, "id": 90, "created_at": at, "body": body});
        let marked = "y\n\n<!-- oncegate-effect: eff_1 -->";
        let other = made("2026-03-30T13:44:00Z", "<!-- oncegate-effect: eff_10 -->");
        let ours = made("2026-03-30T13:44:00Z", marked);
        let step = |rows: &Value, page| {
            adapter.look(&memory, LookStep::Next { request: &request, answer: &answered(200, rows), page })
        };
        let wanted = if below == COMMENTS { "90" } else { "9" };
        match step(&json!([other, ours]), 1) {
            Look::Found(Finding::Matched { reference, record, .. }) => {
                assert_eq!(reference.as_ref().map(|told| told.as_str()), Some(wanted));
                assert_eq!(record.unwrap(), ours.to_string().into_bytes());
            }
            look @ (Look::Ask(_) | Look::Found(_) | Look::Impossible(_)) => panic!("{look:?}"),
        }
        assert!(matches!(step(&json!([other]), 1), Look::Found(Finding::NoMatch { .. })));
        // Somebody's old text with the mark written into it, or a quotation, is not what was sent.
        let old = made("2020-03-30T13:44:00Z", marked);
        let quoted = made("2026-03-30T13:44:00Z", &format!("> {marked}\n\nis what I found"));
        assert!(matches!(step(&json!([old, quoted]), 1), Look::Found(Finding::NoMatch { .. })));
        let mut pull = ours.clone();
        pull["pull_request"] = json!({"url": "x"});
        let found = step(&json!([pull]), 1);
        assert_eq!(matches!(found, Look::Found(Finding::Matched { .. })), below != ISSUES, "{found:?}");
        assert!(matches!(step(&json!({"message": "x"}), 1), Look::Found(Finding::Unreadable { .. })));
        let full: Vec<Value> = std::iter::repeat_n(other.clone(), 100).collect();
        assert!(asked(step(&full.clone().into(), 1)).path_and_query().ends_with("&page=2"));
        let last = ReadBack::get(list.replace("&page=1", "&page=10"), vec![]).unwrap();
        let answer = answered(200, &full.into());
        let look = adapter.look(&memory, LookStep::Next { request: &last, answer: &answer, page: 10 });
        assert!(matches!(look, Look::Found(Finding::Unreadable { .. })));
    }
}

#[test]
fn a_number_in_the_answer_is_enough() {
    let input = json!({"owner": "corp", "title": "x"});
    let response = json!({"number": 9});
    let memory = memory(&input, Some(&response));
    for mark_body in [true, false] {
        let adapter = Adapter::GithubWrite(Box::new(write("POST", ISSUES, mark_body)));
        let request = asked(adapter.look(&memory, LookStep::First));
        assert_eq!(request.path_and_query(), "/repos/corp/acme/issues/9");
        let step = |status, body: &Value| {
            adapter
                .look(&memory, LookStep::Next { request: &request, answer: &answered(status, body), page: 1 })
        };
        let found = step(200, &json!({"number": 9, "body": "edited"}));
        assert!(matches!(found, Look::Found(Finding::Matched { .. })), "{found:?}");
        let other = step(200, &json!({"number": 10}));
        assert!(matches!(other, Look::Found(Finding::Unreadable { .. })), "{other:?}");
        let gone = step(410, &json!({}));
        assert_eq!(matches!(gone, Look::Ask(_)), mark_body, "{gone:?}");
    }
}

#[test]
fn without_a_mark_nothing_is_taken_for_ours() {
    let input = json!({"owner": "corp", "number": "7"});
    for (below, mark_body) in [(ISSUES, false), (MERGE, true), ("labels", true)] {
        let adapter = Adapter::GithubWrite(Box::new(write("POST", below, mark_body)));
        assert!(!adapter.can_read_back());
        assert!(matches!(adapter.look(&memory(&input, None), LookStep::First), Look::Impossible(_)));
    }
}

#[test]
fn the_api_builds_what_a_client_would_send() {
    let input = json!({"owner": "corp", "number": 7, "body": "y"});
    let built = write("POST", COMMENTS, true).build(&input, &Scope::of_input(&input)).unwrap();
    assert_eq!(built.url, "https://api.github.com/repos/corp/acme/issues/7/comments");
    assert_eq!(built.body.as_deref(), Some(&br#"{"body":"y"}"#[..]));
    assert!(built.headers.iter().any(|(name, _)| name == "user-agent"));
}
