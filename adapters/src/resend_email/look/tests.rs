use super::*;

const SENT_AT: &str = "2026-03-30 13:43:54.622865+00";
const OLD: &str = "2026-03-30 13:30:00.000000+00";

fn step(response: Option<&Value>, step: LookStep<'_>) -> Look {
    let input =
        json!({"from": "b@acme.example", "to": ["Alice <alice@example.com>"], "subject": "Your refund"});
    let sent_at: Timestamp = SENT_AT.parse().unwrap();
    let memory = Memory {
        effect_id: "eff_1",
        provider_key: "key-1",
        input: &input,
        headers: &[],
        response,
        sent_at_ms: sent_at.as_millisecond(),
    };
    look(&memory, step)
}

fn after(response: Option<&Value>, path: &str, status: u16, body: &Value) -> String {
    let request = ReadBack::get(path.to_owned(), vec![]).unwrap();
    let answer = Answer { status, reason: None, headers: vec![], body: body.to_string().into_bytes() };
    short(&step(response, LookStep::Next { request: &request, answer: &answer, page: 1 }))
}

fn short(look: &Look) -> String {
    match look {
        Look::Ask(read) => format!("ask {}", read.path_and_query()),
        Look::Impossible(_) => "impossible".into(),
        Look::Found(Finding::Matched { reference, record, .. }) => {
            let record: Value = serde_json::from_slice(record.as_ref().unwrap()).unwrap();
            assert_eq!(
                record["id"].as_str(),
                reference.as_ref().map(Told::as_str),
                "a repeat gets what the write answers"
            );
            format!("matched {}", reference.as_ref().unwrap())
        }
        Look::Found(Finding::ProviderSaysFailed { .. }) => "failed".into(),
        Look::Found(Finding::NoMatch { .. }) => "no match".into(),
        Look::Found(Finding::Unreadable { .. }) => "unreadable".into(),
    }
}

fn list(rows: &[Value], more: bool) -> Value {
    json!({"object": "list", "has_more": more, "data": rows})
}

fn log(id: &str, agent: &str, status: u16, at: &str) -> Value {
    json!({"id": id, "created_at": at, "endpoint": "/emails", "method": "POST", "response_status": status,
        "user_agent": agent})
}

fn email(id: &str, to: &str, at: &str) -> Value {
    json!({"id": id, "to": [to], "from": "b@acme.example", "created_at": at, "subject": "your refund",
        "last_event": "delivered"})
}

#[test]
fn by_id_where_the_answer_gave_one_else_by_the_logs() {
    for (response, path) in [
        (None, "ask /logs?limit=100"),
        (Some(json!({"id": "49a3999c-0ce1"})), "ask /emails/49a3999c-0ce1"),
        (Some(json!({"id": "../domains"})), "ask /logs?limit=100"),
        (Some(json!({"statusCode": 500, "name": "application_error"})), "ask /logs?limit=100"),
    ] {
        assert_eq!(short(&step(response.as_ref(), LookStep::First)), path, "{response:?}");
    }
    let answered = json!({"id": "e1"});
    for (status, body, next) in [
        (200, email("e1", "anyone@example.com", OLD), "matched e1"),
        (200, email("e2", "alice@example.com", SENT_AT), "unreadable"),
        (200, json!("garbled"), "unreadable"),
        (404, json!({}), "ask /logs?limit=100"),
        (401, json!({"name": "restricted_api_key"}), "unreadable"),
        (429, json!({}), "unreadable"),
    ] {
        assert_eq!(after(Some(&answered), "/emails/e1", status, &body), next, "{status} {body}");
    }
}

#[test]
fn the_log_of_the_call_is_found_by_its_user_agent() {
    let ours = log("l1", "resend-node:6.38.0 oncegate/eff_1", 200, SENT_AT);
    let other = log("l2", "resend-node:6.38.0 oncegate/eff_12", 200, SENT_AT);
    let refused = log("l3", "oncegate/eff_1", 422, SENT_AT);
    let old = log("l4", "curl/8", 200, OLD);
    let mut undated = ours.clone();
    undated["created_at"] = json!(null);
    let mut read = ours.clone();
    read["method"] = json!("GET");
    for (status, body, next) in [
        (200, list(&[other.clone(), ours.clone()], true), "ask /logs/l1"),
        (200, list(&[refused.clone(), ours.clone()], false), "ask /logs/l1"),
        (200, list(&[read], false), "no match"),
        (200, list(&[refused], false), "no match"),
        (200, list(&[log("l5", "oncegate/eff_1", 200, OLD)], false), "no match"),
        (200, list(&[undated], false), "ask /logs/l1"),
        (200, list(std::slice::from_ref(&other), true), "ask /logs?limit=100&after=l2"),
        (200, list(&[other.clone(), old], true), "no match"),
        (200, list(&[], false), "no match"),
        (200, json!({"data": []}), "unreadable"),
        (200, json!({"data": [ours]}), "ask /logs/l1"),
        (200, json!({"data": [other]}), "unreadable"),
        (200, json!({"data": [ours], "has_more": "no"}), "unreadable"),
        (401, json!({}), "ask /emails?limit=100"),
        (404, json!({}), "ask /emails?limit=100"),
        (429, json!({}), "unreadable"),
        (500, json!({}), "unreadable"),
    ] {
        assert_eq!(after(None, LOGS, status, &body), next, "{status} {body}");
    }
    let with_answer = |answer: Value| {
        let mut log = ours.clone();
        log["response_body"] = answer;
        log
    };
    for (status, body, next) in [
        (200, with_answer(json!({"id": "e1"})), "matched e1"),
        (200, with_answer(json!(null)), "unreadable"),
        (200, other, "unreadable"),
        (404, json!({}), "unreadable"),
    ] {
        assert_eq!(after(None, "/logs/l1", status, &body), next, "{status} {body}");
    }
}

#[test]
fn without_logs_only_a_mail_that_shows_the_tag_is_a_match() {
    let candidate = email("e1", "alice@example.com", SENT_AT);
    let stranger = email("e2", "bob@example.com", SENT_AT);
    for (body, next) in [
        (list(&[stranger.clone(), candidate.clone()], true), "ask /emails/e1"),
        (list(&[stranger], true), "ask /emails?limit=100&after=e2"),
        (list(&[email("e3", "alice@example.com", OLD)], true), "no match"),
        (list(&[], false), "no match"),
    ] {
        assert_eq!(after(None, EMAILS, 200, &body), next, "{body}");
    }
    assert_eq!(after(None, EMAILS, 401, &json!({})), "unreadable");
    for (tags, next) in [
        (json!([{"name": "oncegate_effect", "value": "eff_1"}]), "matched e1"),
        (json!([{"name": "oncegate_effect", "value": "eff_2"}]), "ask /emails?limit=100&after=e1"),
        (json!(null), "ask /emails?limit=100&after=e1"),
    ] {
        let mut email = candidate.clone();
        email["tags"] = tags;
        assert_eq!(after(None, "/emails/e1", 200, &email), next, "{email}");
        email["created_at"] = json!(OLD);
        assert_eq!(after(None, "/emails/e1", 200, &email), "ask /emails?limit=100&after=e1", "{email}");
    }
}

#[test]
fn a_look_is_bounded() {
    let request = ReadBack::get(LOGS.to_owned(), vec![]).unwrap();
    let body = list(&[log("l", "x", 200, SENT_AT)], true).to_string().into_bytes();
    let answer = Answer { status: 200, reason: None, headers: vec![], body };
    let at = |page| short(&step(None, LookStep::Next { request: &request, answer: &answer, page }));
    assert_eq!((at(29).as_str(), at(30).as_str()), ("ask /logs?limit=100&after=l", "unreadable"));
}
