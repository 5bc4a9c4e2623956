use serde_json::json;

use super::*;

const HEADERS: [(&str, &str); 2] = [("stripe-account", "acct_2"), ("stripe-version", "v1")];
/// 2026-03-30T13:43:54Z, and the same in seconds.
const SENT_AT_MS: i64 = 1_774_878_234_000;
const SENT_AT: i64 = SENT_AT_MS / 1000;
const LIST: &str = "/v1/refunds?payment_intent=pi_1&limit=100";

/// One look at `payment_intent=pi_1` for `eff_1`.
fn step(response: Option<&Value>, step: LookStep<'_>) -> Look {
    step_of(&json!({"payment_intent": "pi_1"}), response, step)
}

fn step_of(input: &Value, response: Option<&Value>, step: LookStep<'_>) -> Look {
    let headers = HEADERS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let memory = Memory {
        effect_id: "eff_1",
        provider_key: "key-1",
        input,
        headers: &headers,
        response,
        sent_at_ms: SENT_AT_MS,
    };
    look(&memory, step)
}

fn after(path: &str, status: u16, body: &Value, page: usize) -> Look {
    let request = ReadBack::get(path.to_owned(), vec![]).unwrap();
    let answer = Answer { status, reason: None, headers: vec![], body: body.to_string().into_bytes() };
    step(None, LookStep::Next { request: &request, answer: &answer, page })
}

/// What follows, in short.
fn short(look: &Look) -> String {
    match look {
        Look::Ask(read) => format!("ask {}", read.path_and_query()),
        Look::Impossible(_) => "impossible".into(),
        Look::Found(Finding::Matched { reference, .. }) => {
            format!("matched {}", reference.as_ref().unwrap())
        }
        Look::Found(Finding::ProviderSaysFailed { reference, .. }) => {
            format!("failed {}", reference.as_ref().unwrap())
        }
        Look::Found(Finding::NoMatch { .. }) => "no match".into(),
        Look::Found(Finding::Unreadable { .. }) => "unreadable".into(),
    }
}

fn refund(id: &str, mark: Option<&str>, status: &str) -> Value {
    let metadata = mark.map_or(json!({}), |mark| json!({"oncegate_effect": mark}));
    json!({"id": id, "object": "refund", "status": status, "payment_intent": "pi_1", "metadata": metadata,
        "created": SENT_AT, "amount": 12000})
}

fn list(refunds: &[Value], has_more: bool) -> Value {
    json!({"object": "list", "data": refunds, "has_more": has_more})
}

#[test]
fn by_id_where_the_answer_gave_one_else_by_list() {
    for (response, path) in [
        (None, LIST),
        (Some(json!({"id": "re_1"})), "/v1/refunds/re_1"),
        (Some(json!({"id": "pyr_1"})), "/v1/refunds/pyr_1"),
        (Some(json!({"id": "re_1/../x"})), LIST),
        (Some(json!({"id": "ch_1"})), LIST),
        (Some(json!({"id": 7})), LIST),
        (Some(json!({"error": {"type": "api_error"}})), LIST),
        (Some(Value::Null), LIST),
    ] {
        let Look::Ask(read) = step(response.as_ref(), LookStep::First) else { panic!("{response:?}") };
        assert_eq!(read.path_and_query(), path, "{response:?}");
        let headers: Vec<_> = read.headers().iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(headers, HEADERS, "every read repeats the scope");
    }
}

#[test]
fn one_refund() {
    let other_payment = json!({"id": "re_1", "status": "succeeded", "payment_intent": "pi_2",
        "metadata": {"oncegate_effect": "eff_1"}});
    let nameless = json!({"id": "re_1", "status": "succeeded", "payment_intent": null, "metadata": {}});
    let marked = json!({"id": "re_1", "status": "succeeded", "payment_intent": null,
        "metadata": {"oncegate_effect": "eff_1"}});
    let expanded = json!({"id": "re_1", "status": "succeeded", "payment_intent": {"id": "pi_1"},
        "metadata": {"oncegate_effect": "eff_1"}});
    let to_list = format!("ask {LIST}");
    for (status, body, found) in [
        (200, refund("re_1", Some("eff_1"), "succeeded"), "matched re_1"),
        (200, refund("re_1", Some("eff_1"), "pending"), "matched re_1"),
        (200, refund("re_1", Some("eff_1"), "requires_action"), "matched re_1"),
        (200, refund("re_1", Some("eff_1"), "failed"), "failed re_1"),
        (200, refund("re_1", Some("eff_1"), "canceled"), "failed re_1"),
        (200, refund("re_1", Some("eff_1"), "a new word"), "unreadable"),
        // The mark was removed since, and the payment still is the one.
        (200, refund("re_1", None, "succeeded"), "matched re_1"),
        (200, marked, "matched re_1"),
        (200, expanded, "matched re_1"),
        (200, nameless, to_list.as_str()),
        (200, other_payment, to_list.as_str()),
        (200, refund("re_1", Some("eff_2"), "succeeded"), to_list.as_str()),
        (200, refund("re_2", Some("eff_1"), "succeeded"), "unreadable"),
        (200, json!("garbled"), "unreadable"),
        (404, json!({"error": {}}), to_list.as_str()),
        (401, json!({"error": {}}), "unreadable"),
        (429, json!({"error": {}}), "unreadable"),
        (500, refund("re_1", Some("eff_1"), "succeeded"), "unreadable"),
    ] {
        assert_eq!(short(&after("/v1/refunds/re_1", status, &body, 1)), found, "{status} {body}");
    }
}

#[test]
fn the_list_of_refunds() {
    let ours = refund("re_3", Some("eff_1"), "succeeded");
    let theirs = refund("re_2", Some("eff_2"), "succeeded");
    let bare = refund("re_9", None, "succeeded");
    let next = format!("ask {LIST}&starting_after=re_9");
    let odd = format!("ask {LIST}&starting_after=re_1%26x%3Dy");
    let mut elsewhere = ours.clone();
    elsewhere["payment_intent"] = json!("pi_2");
    for (status, body, found) in [
        (200, list(&[], false), "no match"),
        (200, list(&[theirs.clone(), bare.clone()], false), "no match"),
        (200, list(&[theirs.clone(), ours.clone()], false), "matched re_3"),
        (200, list(&[ours.clone(), bare.clone()], true), "matched re_3"),
        (200, list(&[refund("re_3", Some("eff_1"), "failed")], false), "failed re_3"),
        // Of two with our mark the one that was applied decides, wherever it stands.
        (200, list(&[refund("re_4", Some("eff_1"), "failed"), ours.clone()], false), "matched re_3"),
        (200, list(&[ours.clone(), refund("re_4", Some("eff_1"), "failed")], false), "matched re_3"),
        (200, list(&[refund("re_9", Some("eff_1"), "failed")], true), next.as_str()),
        (200, list(&[elsewhere], false), "no match"),
        (200, list(&[theirs, bare], true), next.as_str()),
        (200, list(&[], true), "unreadable"),
        (200, list(&[json!({"id": "re_1&x=y"})], true), odd.as_str()),
        (200, list(&[json!({"id": ""})], true), "unreadable"),
        (200, list(&[json!({"metadata": {}})], false), "unreadable"),
        (200, json!({"object": "list", "data": []}), "unreadable"),
        (200, json!({"object": "list", "has_more": false}), "unreadable"),
        (200, json!({"error": {}}), "unreadable"),
        (200, json!([]), "unreadable"),
        (206, list(&[], false), "unreadable"),
        (404, json!({"error": {}}), "unreadable"),
        (500, list(&[ours], false), "unreadable"),
    ] {
        assert_eq!(short(&after(LIST, status, &body, 1)), found, "{status} {body}");
    }
}

/// An agent that can write the mark into a refund of its own must not settle another with it.
#[test]
fn a_mark_that_was_moved_settles_nothing() {
    let moved = |member: &str, value: Value, status: &str| {
        let mut refund = refund("re_1", Some("eff_1"), status);
        refund[member] = value;
        list(&[refund], false)
    };
    let request = ReadBack::get(LIST.to_owned(), vec![]).unwrap();
    let seen = |asked: &Value, body: &Value| {
        let answer =
            Answer { status: 200, reason: None, headers: vec![], body: body.to_string().into_bytes() };
        short(&step_of(asked, None, LookStep::Next { request: &request, answer: &answer, page: 1 }))
    };
    let whole = json!({"payment_intent": "pi_1"});
    let asked = json!({"payment_intent": "pi_1", "amount": "12000"});
    for (input, member, value, ours) in [
        (&asked, "amount", json!(12000), true),
        (&asked, "amount", json!(1), false),
        // It does not say: then it must not be older.
        (&asked, "amount", Value::Null, true),
        (&whole, "amount", json!(1), true),
        (&asked, "created", json!(SENT_AT - 300), true),
        (&asked, "created", json!(SENT_AT - 301), true),
        (&whole, "created", json!(SENT_AT - 301), false),
        (&whole, "created", Value::Null, true),
        (&whole, "created", json!("2999"), true),
    ] {
        for (status, word) in [("succeeded", "matched re_1"), ("failed", "failed re_1")] {
            let found = seen(input, &moved(member, value.clone(), status));
            assert_eq!(found, if ours { word } else { "no match" }, "{input} {member} {value} {status}");
        }
    }
}

#[test]
fn a_list_is_read_to_its_end_or_not_at_all() {
    let more = list(&[refund("re_5", None, "succeeded")], true);
    assert_eq!(short(&after(LIST, 200, &more, 99)), format!("ask {LIST}&starting_after=re_5"));
    assert_eq!(short(&after(LIST, 200, &more, 100)), "unreadable");
    let stuck = format!("{LIST}&starting_after=re_5");
    assert_eq!(short(&after(&stuck, 200, &more, 2)), "unreadable");
    assert_eq!(short(&after(&stuck, 200, &list(&[], false), 100)), "no match");
}

#[test]
fn a_match_keeps_the_providers_own_object() {
    let object = refund("re_3", Some("eff_1"), "pending");
    let Look::Found(Finding::Matched { what, record, .. }) =
        after(LIST, 200, &list(std::slice::from_ref(&object), false), 1)
    else {
        panic!()
    };
    assert_eq!(what.as_str(), "refund re_3 with status pending");
    assert_eq!(serde_json::from_slice::<Value>(&record.unwrap()).unwrap(), object);
}

/// Each look leaves a row that is never changed.
#[test]
fn the_provider_does_not_choose_how_much_is_written() {
    let said = refund("re_3", Some("eff_1"), &"Z".repeat(3_000_000));
    let Look::Found(Finding::Unreadable { what }) = after(LIST, 200, &list(&[said], false), 1) else {
        panic!()
    };
    assert_eq!(what.as_str().chars().count(), oncegate_policy::told::CHARS_MAX);
    assert!(what.as_str().starts_with("refund re_3 with status ZZZ"), "{what}");
}
