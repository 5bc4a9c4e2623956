//! Changing a definition while its effects are open: who asked for one does not say how it is judged.

use oncegate_tests::{script::Reply, sidecar::Sidecar};
use serde_json::{Value, json};

use crate::{
    api_actions::{bare, desk},
    api_invoke::invoke,
    law::{call, data, says_no},
    shop::DESK,
};

fn patch(sidecar: &Sidecar, action: &str, change: &Value) -> oncegate_tests::answer::Answer {
    call(sidecar, "ops", "PATCH", &format!("/actions/{action}"), &change.to_string())
}

/// An action at `/v1/NAME` whose provider knows keys, and an effect of it that `caller` asked for and that is unknown.
fn unknown(sidecar: &Sidecar, name: &str, caller: &str) -> String {
    let definition = json!({
        "name": name,
        "urlTemplate": format!("https://{DESK}/v1/{name}"),
        "subject": "{{input.title}}",
        "idempotency": { "header": "Idempotency-Key", "window": "1h" },
    });
    assert_eq!(call(sidecar, "ops", "POST", "/actions", &definition.to_string()).status, 201);
    let lost = data(&invoke(sidecar, caller, Some("k"), name, &json!({ "input": { "title": "t" } })));
    assert_eq!(lost["status"], "unknown");
    lost["effectId"].as_str().unwrap().to_owned()
}

#[test]
fn p8_who_asked_does_not_say_what_the_answer_to_a_replay_means() {
    let (provider, home) = desk(bare);
    let sidecar = home.serve();
    // What is a success by the usual table is none by this.
    let turned = json!({ "response": { "failedWhen": [{ "path": "ok", "equals": true }] } });
    provider.on_write(Reply::lost());
    unknown(&sidecar, "tickets", "ops");
    says_no(&patch(&sidecar, "tickets", &turned), 409, "CONFLICT", "own_open_effects");
    assert_eq!(data(&call(&sidecar, "ops", "GET", "/actions/tickets", ""))["response"], Value::Null);

    // Another's effect is judged by it at once: that is why the one who asked does not say it.
    provider.on_write(Reply::lost());
    let theirs = unknown(&sidecar, "notes", "billing-agent");
    assert_eq!(patch(&sidecar, "notes", &turned).status, 200);
    provider.on_write(Reply::json("200 OK", r#"{"ok":true}"#));
    let replayed = data(&call(&sidecar, "ops", "POST", &format!("/actions/effects/{theirs}/replay"), ""));
    assert_eq!(replayed["outcome"], "unknown", "a 200 that settles nothing: {replayed}");
}

#[test]
fn an_open_effects_key_stays_where_it_is() {
    let (provider, home) = desk(bare);
    let sidecar = home.serve();
    provider.on_write(Reply::lost());
    let open = unknown(&sidecar, "tickets", "billing-agent");
    for change in [
        json!({ "idempotency": { "body": "request_id", "window": "1h" } }),
        json!({ "idempotency": { "header": "X-Key", "window": "1h" } }),
        json!({ "idempotency": null }),
    ] {
        says_no(&patch(&sidecar, "tickets", &change), 409, "CONFLICT", "open_effects");
    }
    // What was said when it was asked for goes on for it.
    let until = |sidecar: &Sidecar| {
        data(&call(sidecar, "ops", "GET", &format!("/actions/effects/{open}"), ""))["replayUntil"].clone()
    };
    let before = until(&sidecar);
    assert!(before.is_string(), "{before}");
    let longer = json!({ "idempotency": { "header": "Idempotency-Key", "window": "48h" } });
    assert_eq!(patch(&sidecar, "tickets", &longer).status, 200);
    assert_eq!(until(&sidecar), before);
}
