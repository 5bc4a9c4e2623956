use oncegate_policy::body;
use oncegate_policy::classify::{self, Verdict};
use oncegate_policy::exchange::Exchange;
use oncegate_policy::template::Scope;
use serde_json::json;

use super::*;
use crate::Adapter;

const MARKS: Marks<'_> = Marks { effect_id: "eff_1", provider_key: "key-1" };

fn any() -> GithubFile {
    GithubFile::new(None, None)
}

fn only(branch: Option<&str>) -> GithubFile {
    let repository = Repository { owner: "Acme".into(), name: "site".into() };
    GithubFile::new(Some(repository), branch.map(str::to_owned))
}

/// As PyGithub and octokit send it, with what the URL says.
fn write(more: &Value) -> Value {
    let mut input = json!({
        "owner": "acme", "repo": "site", "path": "docs/a.md", "message": "Update a.md", "content": "aGk=",
        "sha": "95b966ae1c166bd92f8ae7d1c313e738c731dfc3", "branch": "main",
    });
    for (name, value) in more.as_object().unwrap() {
        input[name] = value.clone();
    }
    input
}

fn request<'a>(body: &'a [u8], input: &'a Value) -> Request<'a> {
    let kind = if body.is_empty() { BodyKind::Empty } else { BodyKind::Json };
    Request { method: "PUT", headers: &[], query: &[], body_kind: kind, body, input }
}

fn subject(file: &GithubFile, input: &Value) -> Result<String, Code> {
    match file.plan(&request(b"", input)) {
        Planned::Ready(plan) => Ok(plan.subject.unwrap()),
        Planned::Refused(refusal) => Err(refusal.code),
        Planned::NeedsRead(read) => Ok(format!("GET {}", read.read_back.path_and_query())),
    }
}

#[test]
fn a_plan_names_the_file_on_its_branch() {
    let Planned::Ready(plan) = any().plan(&request(b"", &write(&json!({})))) else { panic!() };
    let expected = Plan {
        subject: Some("acme/site@main:docs/a.md".into()),
        near: Vec::new(),
        resource: Some("acme/site/docs/a.md".into()),
        impact: Some(Impact {
            dimension: Dimension::ResourceMutations,
            amount: Some(1),
            bound: Bound::Exact,
        }),
        fingerprint_scope: vec![],
        read_scope: vec![],
        provider_key: false,
        replay_window_ms: None,
        drop_headers: vec![],
    };
    assert_eq!(plan, expected);
    let long = "d/".repeat(200) + "a.md";
    for (file, more, expected) in [
        (any(), json!({"message": "Fix", "content": "aG8=", "sha": null}), Ok("acme/site@main:docs/a.md")),
        (any(), json!({"owner": "Acme", "repo": "Site"}), Ok("acme/site@main:docs/a.md")),
        (any(), json!({"branch": "refs/heads/main"}), Ok("acme/site@main:docs/a.md")),
        (any(), json!({"branch": null}), Ok("GET /repos/acme/site")),
        (only(None), json!({"owner": "evil", "repo": "x"}), Ok("acme/site@main:docs/a.md")),
        (only(Some("main")), json!({}), Ok("acme/site@main:docs/a.md")),
        (only(Some("main")), json!({"branch": "dev"}), Err(Code::InvalidInput)),
        (only(Some("main")), json!({"branch": null}), Err(Code::InvalidInput)),
        (any(), json!({"branch": 7}), Err(Code::InvalidInput)),
        (any(), json!({"path": "../a"}), Err(Code::InvalidInput)),
        (any(), json!({"path": ""}), Err(Code::InvalidInput)),
        (any(), json!({"message": ""}), Err(Code::InvalidInput)),
        (any(), json!({"message": null}), Err(Code::InvalidInput)),
        (any(), json!({"message": "x\n\noncegate-effect: eff_2"}), Err(Code::InvalidInput)),
    ] {
        assert_eq!(subject(&file, &write(&more)).as_deref(), expected.as_deref(), "{more}");
    }
    assert!(subject(&any(), &write(&json!({"path": long}))).unwrap().starts_with("sha256/"));
    let query = [("branch".to_owned(), "dev".to_owned())];
    let input = write(&json!({}));
    let planned = any().plan(&Request { query: &query, ..request(b"", &input) });
    assert!(matches!(planned, Planned::Refused(refusal) if refusal.code == Code::Ambiguous));
}

#[test]
fn without_a_branch_the_default_one_is_meant() {
    let input = write(&json!({"branch": null}));
    for (status, body, expected) in [
        (200, json!({"default_branch": "trunk"}), Some("acme/site@trunk:docs/a.md")),
        (200, json!({}), None),
        (404, json!({"default_branch": "trunk"}), None),
        (503, json!(null), None),
    ] {
        let read = Answer { status, reason: None, headers: vec![], body: body.to_string().into_bytes() };
        let planned = any().plan_with(&request(b"", &input), Some(&read));
        let subject = match planned {
            Planned::Ready(plan) => plan.subject,
            Planned::Refused(_) | Planned::NeedsRead(_) => None,
        };
        assert_eq!(subject.as_deref(), expected, "{status} {body}");
    }
}

#[test]
fn what_goes_out_is_what_came_with_the_trailer() {
    for (message, marked) in [
        ("Update a.md", "Update a.md\n\nOncegate-Effect: eff_1"),
        ("Update a.md\n", "Update a.md\n\nOncegate-Effect: eff_1"),
        ("Fix: typo", "Fix: typo\n\nOncegate-Effect: eff_1"),
        ("Update\n\nWhy: because\nof this", "Update\n\nWhy: because\nof this\n\nOncegate-Effect: eff_1"),
        (
            "Update\n\nSigned-off-by: A <a@b.example>",
            "Update\n\nSigned-off-by: A <a@b.example>\nOncegate-Effect: eff_1",
        ),
    ] {
        let sent = json!({"message": message, "content": "aGk=", "sha": "95b9"});
        let body = sent.to_string();
        let (_, input) = body::read(Some("application/json"), body.as_bytes()).unwrap();
        let prepared = any().prepare(&request(body.as_bytes(), &input), &MARKS).unwrap();
        let expected = json!({"message": marked, "content": "aGk=", "sha": "95b9"});
        assert_eq!(serde_json::from_slice::<Value>(&prepared.body).unwrap(), expected, "{message:?}");
    }
    assert!(any().prepare(&request(b"", &write(&json!({}))), &MARKS).is_err(), "no body, no trailer");
}

#[test]
fn a_stale_blob_is_a_failure_and_nothing_else_departs_from_the_table() {
    for (status, verdict) in [
        (200, Verdict::Succeeded),
        (201, Verdict::Succeeded),
        (404, Verdict::Failed),
        (408, Verdict::Unknown),
        (409, Verdict::Failed),
        (422, Verdict::Failed),
        (502, Verdict::Unknown),
    ] {
        let answer = Answer { status, reason: None, headers: vec![], body: b"{}".to_vec() };
        let adapter = Adapter::GithubFile(any());
        let seen = classify::verdict(&Exchange::Answered(answer), adapter.response_rules());
        assert_eq!(seen, verdict, "{status}");
    }
}

#[test]
fn an_input_without_a_request_becomes_the_one_that_a_client_sends() {
    let build = |file: &GithubFile, input: &Value| {
        let adapter = Adapter::GithubFile(file.clone());
        let built = adapter.build(input, &Scope::of_input(&Value::Null)).ok()?;
        let body: Value = serde_json::from_slice(&built.body.unwrap()).unwrap();
        Some((format!("{} {}", built.method, built.url), body))
    };
    let put = json!({"path": "docs/a b.md", "message": "m", "content": "aGk=", "sha": null});
    let named = |repository: &str| {
        let mut input = put.clone();
        input["repository"] = json!(repository);
        input
    };
    let url = "PUT https://api.github.com/repos/Acme/site/contents/docs/a%20b.md";
    let body = json!({"message": "m", "content": "aGk="});
    let on_main = json!({"message": "m", "content": "aGk=", "branch": "main"});
    assert_eq!(build(&any(), &named("Acme/site")), Some((url.to_owned(), body.clone())));
    assert_eq!(build(&only(None), &put), Some((url.to_owned(), body)));
    // As it is spelled in the configuration: so the route reads it.
    assert_eq!(build(&only(Some("main")), &named("acme/SITE")), Some((url.to_owned(), on_main)));
    let delete = json!({"path": "a.md", "message": "m", "sha": "95b9", "delete": true, "branch": "dev"});
    let expected = json!({"message": "m", "sha": "95b9", "branch": "dev"});
    let url = "DELETE https://api.github.com/repos/Acme/site/contents/a.md";
    assert_eq!(build(&only(None), &delete), Some((url.to_owned(), expected)));
    for refused in [
        json!([]),
        put.clone(),
        named("acme"),
        named("acme/site/x"),
        named(""),
        json!({"repository": "a/b", "path": "a.md", "message": "m"}),
        json!({"repository": "a/b", "path": "a.md", "message": "m", "content": "", "delete": true}),
        json!({"repository": "a/b", "path": "a.md", "message": "m", "delete": "yes"}),
        json!({"repository": "a/b", "path": "/a.md", "message": "m", "content": ""}),
    ] {
        assert_eq!(build(&any(), &refused), None, "{refused}");
    }
    assert_eq!(build(&only(None), &named("acme/other")), None);
}
