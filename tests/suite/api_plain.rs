//! Actions that are not governed, through the API: an invocation and no effect, sent at most once, settled by a person.

use oncegate_tests::{
    binary::Build, conf::Conf, gate::Gate, provider::Provider, script::Reply, sidecar::Home,
};
use serde_json::{Value, json};

use crate::{
    api_invoke::invoke,
    law::{call, data, says_no},
    shop::{DESK, desk_conf},
};

const SEARCH: &str = r#"
[actions.search]
method = "POST"
url = "https://tickets.test/v1/search"
governed = false
"#;

fn desk() -> (Provider, Home) {
    let provider = Provider::tls(&[DESK]);
    let conf: Conf = desk_conf(provider.addr()).with(SEARCH);
    let home = Home::new(&conf);
    (provider, home)
}

fn became(data: &Value) -> Value {
    json!([data["status"], data["grade"], data["effectId"], data["pendingApproval"], data["responseStatus"]])
}

#[test]
fn it_has_an_invocation_and_no_effect() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    provider.on_write(Reply::json("200 OK", r#"{"hits":1}"#));
    let body = json!({ "input": { "q": "a" } });
    let mut done = data(&invoke(&sidecar, "billing-agent", Some("s1"), "search", &body));
    // Of the answer to an invoke alone.
    assert_eq!(done["replayed"], false);
    done.as_object_mut().unwrap().remove("replayed");
    assert_eq!(became(&done), json!(["succeeded", null, null, false, 200]));
    assert_eq!(done["body"], json!({ "hits": 1 }));
    let again = invoke(&sidecar, "billing-agent", Some("s1"), "search", &body);
    assert_eq!(again.header("x-idempotent-replay"), Some("current-state"));
    let mut as_first = data(&again);
    assert_eq!(as_first.as_object_mut().unwrap().remove("replayed"), Some(true.into()));
    assert_eq!(as_first, done);
    let other = invoke(&sidecar, "billing-agent", Some("s1"), "search", &json!({ "input": { "q": "b" } }));
    says_no(&other, 409, "idempotency_key_reuse", "key_reuse");
    // A match on either of two keys is a match, and both name it from then on.
    let beside = json!({ "input": { "q": "a" }, "operationKey": "op" });
    for key in [Some("s1"), None] {
        let joined = data(&invoke(&sidecar, "billing-agent", key, "search", &beside));
        assert_eq!(joined["id"], done["id"], "{key:?}");
    }
    let other = json!({ "input": { "q": "b" }, "operationKey": "op" });
    let other = invoke(&sidecar, "billing-agent", Some("s2"), "search", &other);
    says_no(&other, 409, "idempotency_key_reuse", "key_reuse");
    assert_eq!((provider.record().writes().len(), home.effects().len()), (1, 0));

    let ticket = data(&invoke(
        &sidecar,
        "billing-agent",
        Some("t1"),
        "open-ticket",
        &json!({ "input": { "title": "x" } }),
    ));
    let listed = data(&call(&sidecar, "ops", "GET", "/actions/invocations", ""));
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, [ticket["id"].clone(), done["id"].clone()], "both kinds, newest first");
    let path = format!("/actions/invocations/{}", done["id"].as_str().unwrap());
    assert_eq!(data(&call(&sidecar, "billing-agent", "GET", &path, "")), done);
    assert_eq!(
        data(&call(&sidecar, "ops", "GET", "/actions/search/invocations", "")).as_array().unwrap().len(),
        1
    );
    let governed = format!("/actions/invocations/{}/resolve", ticket["id"].as_str().unwrap());
    let word = r#"{"outcome":"failed","evidence":"looked it up"}"#;
    says_no(&call(&sidecar, "ops", "POST", &governed, word), 409, "CONFLICT", "governed");
}

#[test]
fn its_unknown_is_settled_by_another_key_alone() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    provider.on_write(Reply::lost());
    let body = json!({ "input": { "q": "a" } });
    let lost = data(&invoke(&sidecar, "billing-agent", Some("s1"), "search", &body));
    assert_eq!(became(&lost), json!(["unknown", null, null, false, null]));
    assert!(lost["error"].as_str().unwrap().contains("Do not retry"), "{lost}");
    let path = format!("/actions/invocations/{}/resolve", lost["id"].as_str().unwrap());
    let word = r#"{"outcome":"succeeded","evidence":"seen in the desk","externalReference":"T-1"}"#;
    says_no(&call(&sidecar, "billing-agent", "POST", &path, word), 403, "AUTHORIZATION_ERROR", "");
    says_no(
        &call(&sidecar, "ops", "POST", &path, r#"{"outcome":"maybe","evidence":"x"}"#),
        400,
        "VALIDATION_ERROR",
        "",
    );
    let settled = data(&call(&sidecar, "ops", "POST", &path, word));
    assert_eq!(became(&settled), json!(["succeeded", null, null, false, null]));
    says_no(&call(&sidecar, "ops", "POST", &path, word), 409, "CONFLICT", "not_unknown");
    // An operator's own is no different: who asked does not decide.
    provider.on_write(Reply::lost());
    let own = data(&invoke(&sidecar, "ops", Some("s2"), "search", &body));
    let path = format!("/actions/invocations/{}/resolve", own["id"].as_str().unwrap());
    says_no(&call(&sidecar, "ops", "POST", &path, word), 403, "AUTHORIZATION_ERROR", "own_request");
    // The key stays with what it named.
    let again = data(&invoke(&sidecar, "billing-agent", Some("s1"), "search", &body));
    assert_eq!(again["status"], "succeeded");
    assert_eq!(provider.record().writes().len(), 2);
    assert_eq!(home.run_on_db(&["audit", "verify"]).code, 0);
}

#[test]
fn killed_on_its_way_it_is_unknown() {
    let (provider, home) = desk();
    let gate = Gate::default();
    provider.on_write(Reply::json("200 OK", "{}").after(&gate));
    let body = json!({ "input": { "q": "a" } }).to_string();
    let sidecar = home.serve_with(Build::Plain, &[]);
    let control = sidecar.control;
    let asking = std::thread::spawn(move || {
        use std::io::Write;
        let mut tcp = std::net::TcpStream::connect(control).unwrap();
        let key = oncegate_tests::conf::key_of("billing-agent");
        let head = format!(
            "POST /api/v2/actions/search/invoke HTTP/1.1\r\nHost: {control}\r\nAuthorization: Bearer {key}\r\nIdempotency-Key: s1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        tcp.write_all(head.as_bytes()).unwrap();
        tcp
    });
    provider.record().wait_writes(1);
    drop(asking.join().unwrap());
    sidecar.kill9();
    gate.open();
    let sidecar = home.serve();
    let body = json!({ "input": { "q": "a" } });
    let found = invoke(&sidecar, "billing-agent", Some("s1"), "search", &body);
    assert_eq!(data(&found)["status"], "unknown");
    assert_eq!(provider.record().writes().len(), 1);
}

#[test]
fn a_halt_stops_it_and_a_preview_is_not_for_it() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    says_no(
        &call(&sidecar, "ops", "POST", "/actions/search/previews", "{}"),
        409,
        "CONFLICT",
        "not_governed",
    );
    let bound = json!({ "input": {}, "previewId": "prv_01ARZ3NDEKTSV4RRFFQ69G5FAV" });
    says_no(&invoke(&sidecar, "ops", None, "search", &bound), 400, "VALIDATION_ERROR", "invalid_input");
    assert_eq!(call(&sidecar, "ops", "POST", "/environment/halt", r#"{"reason":"drill"}"#).status, 200);
    says_no(&invoke(&sidecar, "ops", None, "search", &json!({})), 409, "ENVIRONMENT_HALTED", "halted");
    assert_eq!(provider.record().requests().len(), 0);
}

#[test]
fn a_drill_is_not_for_it() {
    use std::io::{Read, Write};
    let (provider, home) = desk();
    let sidecar = home.serve();
    let (control, key) = (sidecar.control, oncegate_tests::conf::key_of("ops"));
    let mut tcp = std::net::TcpStream::connect(control).unwrap();
    let head = format!(
        "POST /api/v2/actions/search/invoke HTTP/1.1\r\nHost: {control}\r\nAuthorization: Bearer {key}\r\nOncegate-Fault-Drill: timeout\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    tcp.write_all(head.as_bytes()).unwrap();
    let mut said = String::new();
    tcp.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("nor a fault drill"), "{said}");
    assert_eq!(provider.record().writes().len(), 0);
}
