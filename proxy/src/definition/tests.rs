//! From the API to the file to the configuration, and back to what the API shows.

use oncegate_config::{Fault, Source};
use oncegate_policy::action::ActionName;
use serde_json::{Map, Value, json};
use toml::Table;

use super::faults::Places;
use super::file::Defined;
use super::{Problem, entry};
use crate::control::shown_action;

const BESIDE: &str = r#"
[secrets.STRIPE_KEY]
from = { env = "STRIPE_SECRET_KEY" }
allowed_hosts = ["api.stripe.com"]
[secrets.DESK_KEY]
from = { env = "DESK_KEY" }
allowed_hosts = ["tickets.example"]
[hosts."api.stripe.com"]
[hosts."tickets.example"]
"#;

fn members(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("an object: {value}") };
    members
}

/// The file with one entry, judged.
fn judged(name: &str, entry: Table) -> Result<Value, Vec<Problem>> {
    let mut defined = Defined::default();
    defined.set(name, entry);
    let text = defined.text().unwrap();
    let sources = [
        Source { name: "oncegate.toml", text: BESIDE },
        Source { name: "managed/actions.toml", text: &text },
    ];
    match oncegate_config::parse(&sources) {
        Ok(parsed) => Ok(shown_action(&parsed.config.actions[&ActionName::parse(name).unwrap()])),
        Err(faults) => {
            let places = Places::of(&text);
            Err(faults.iter().map(|fault| there(&places, fault, name)).collect())
        }
    }
}

fn there(places: &Places, fault: &Fault, name: &str) -> Problem {
    assert_eq!(fault.file, "managed/actions.toml");
    let (action, problem) = places.problem(fault).unwrap_or_else(|| panic!("no place for {fault}"));
    assert_eq!(action, name);
    problem
}

fn create(definition: Value) -> Result<Value, Vec<Problem>> {
    judged("open-ticket", entry::created(&members(definition))?)
}

#[track_caller]
fn problem(definition: Value, field: &str, says: &str) {
    let problems = create(definition.clone()).expect_err(&definition.to_string());
    let found = problems.iter().any(|problem| problem.field == field && problem.message.contains(says));
    assert!(found, "{field}: {says}: {problems:?}");
}

fn ticket() -> Value {
    json!({
        "description": "Opens a ticket",
        "method": "post",
        "urlTemplate": "https://tickets.example/v1/projects/{{input.project}}/tickets",
        "headers": { "Authorization": "Bearer {{secret:DESK_KEY}}", "X-Mark": "{{effect.id}}" },
        "scopeHeaders": ["x-tenant"],
        "bodyTemplate": { "title": "{{input.title}}", "tags": ["a", 1, 0.5, true], "deep": { "x": [] } },
        "inputSchema": {
            "type": "object",
            "required": ["title"],
            "properties": { "title": { "type": "string" }, "note": { "type": ["string", "null"], "default": null } },
        },
        "requiresApproval": true,
        "approvalWhen": "amount > 5",
        "approvalExpires": "2h",
        "operationKey": "{{input.title}}",
        "subject": "{{input.project}}/{{input.title}}",
        "identicalWithin": "30min",
        "when": [{ "path": "input.kind", "equals": "new" }],
        "impact": { "dimension": "money", "amount": "count(input.items) * 3", "bound": "upper_bound", "unit": "eur" },
        "verify": {
            "url": "https://tickets.example/v1/tickets?ref={{effect.id}}",
            "status": 200,
            "match": [{ "path": "data.*.title", "equals": "{{input.title}}", "absent": false }],
        },
        "idempotency": { "header": "Idempotency-Key", "window": "24h" },
        "response": { "succeededWhen": [{ "path": "ok", "equals": true }], "failedWhen": null },
    })
}

#[test]
fn everything_that_is_said_is_shown() {
    let sent = ticket();
    let shown = create(sent.clone()).unwrap();
    for member in [
        "description",
        "urlTemplate",
        "scopeHeaders",
        "bodyTemplate",
        "inputSchema",
        "requiresApproval",
        "approvalWhen",
    ] {
        assert_eq!(shown[member], sent[member], "{member}");
    }
    assert_eq!(shown["id"], "act_open-ticket");
    assert_eq!(shown["method"], "POST");
    assert_eq!(
        shown["headers"],
        json!({ "authorization": "Bearer {{secret:DESK_KEY}}", "x-mark": "{{effect.id}}" })
    );
    assert_eq!(json!([shown["approvalExpires"], shown["identicalWithin"]]), json!(["2h", "30min"]));
    assert_eq!(shown["impact"]["unit"], "eur");
    assert_eq!(shown["impact"]["amount"], "count(input.items) * 3");
    assert_eq!(shown["verify"], sent["verify"]);
    assert_eq!(shown["governed"], true);
    assert_eq!(shown["when"], json!([{ "path": "input.kind", "equals": "new", "absent": false }]));
    assert_eq!(shown["idempotency"], json!({ "header": "idempotency-key", "window": "1d" }));
    assert_eq!(
        shown["response"]["succeededWhen"],
        json!([{ "path": "ok", "equals": true, "absent": false }])
    );
    // And what is shown can be sent.
    assert_eq!(create(shown.clone()).unwrap(), shown);
}

#[test]
fn an_adapter_of_any_type_passes_through() {
    let refund = json!({
        "adapter": {
            "type": "stripe.refund",
            "config": { "account": "acct_1", "mode": "test", "currency": "usd", "faultDrill": "drop_response_after_send" },
            "credentialSecret": "STRIPE_KEY",
        },
        "operationKey": "refund:{{input.metadata.order_id}}",
    });
    let shown = create(refund.clone()).unwrap();
    assert_eq!(shown["adapter"], refund["adapter"]);
    assert_eq!(json!([shown["governed"], shown["verify"]]), json!([true, null]));
    assert_eq!(shown["inputSchema"]["type"], "object");
    let other =
        json!({ "adapter": { "type": "x.y", "config": { "readSecret": "R" }, "credentialSecret": "C" } });
    let entry = entry::created(&members(other)).unwrap();
    let wanted: Table =
        "credential_secret = \"C\"\n[adapter]\ntype = \"x.y\"\nread_secret = \"R\"".parse().unwrap();
    assert_eq!(entry, wanted);
}

#[test]
fn what_is_governed_is_written_out() {
    let plain = json!({ "urlTemplate": "https://tickets.example/v1/search" });
    let with = |name: &str, value: Value| {
        let mut more = members(plain.clone());
        more.insert(name.to_owned(), value);
        entry::created(&more).unwrap()["governed"].as_bool()
    };
    assert_eq!(entry::created(&members(plain.clone())).unwrap()["method"].as_str(), Some("POST"));
    assert_eq!(with("method", json!("POST")), Some(false));
    assert_eq!(with("method", json!("GET")), Some(false));
    assert_eq!(with("impact", Value::Null), Some(false));
    assert_eq!(with("requiresApproval", json!(false)), Some(false));
    for (name, value) in [
        ("governed", json!(true)),
        ("requiresApproval", json!(true)),
        ("impact", json!({})),
        ("verify", json!({})),
        ("operationKey", json!("x")),
    ] {
        assert_eq!(with(name, value), Some(true), "{name}");
    }
}

#[test]
fn a_change_keeps_what_it_does_not_name() {
    let there = entry::created(&members(ticket())).unwrap();
    let change = |change: Value| entry::changed(&there, &members(change));
    assert_eq!(change(json!({})).unwrap(), there);
    let without = change(json!({ "verify": null, "description": null, "enabled": false })).unwrap();
    assert!(!without.contains_key("verify") && !without.contains_key("description"));
    assert_eq!((without["governed"].as_bool(), without["enabled"].as_bool()), (Some(true), Some(false)));
    let bare = change(json!({ "impact": null, "verify": null, "requiresApproval": false })).unwrap();
    assert_eq!(bare["governed"].as_bool(), Some(true), "what was governed stays so until it says otherwise");

    let let_go = change(json!({ "governed": false, "requiresApproval": false, "headers": {} })).unwrap();
    for key in ["impact", "verify", "idempotency", "subject", "operation_key", "response", "approval_when"] {
        assert!(!let_go.contains_key(key), "{key}");
    }
    assert_eq!(judged("open-ticket", let_go).unwrap()["governed"], false);
    let fields = |value: Value| {
        change(value).unwrap_err().into_iter().map(|problem| problem.field).collect::<Vec<_>>()
    };
    assert_eq!(fields(json!({ "governed": false })), ["requiresApproval"]);
    assert_eq!(
        fields(json!({ "governed": false, "requiresApproval": false, "impact": { "dimension": "money" } })),
        ["impact"]
    );
}

fn with(name: &str, value: Value) -> Value {
    let mut more = members(ticket());
    more.insert(name.to_owned(), value);
    Value::Object(more)
}

#[test]
fn faults_name_the_member_as_it_was_sent() {
    for (definition, field, says) in [
        (json!({}), "urlTemplate", "`urlTemplate` or `adapter`"),
        (with("verfy", json!({})), "verfy", "did you mean `verify`?"),
        (with("enabled", json!("yes")), "enabled", "`enabled` must be a boolean, not a string"),
        (with("method", json!("FETCH")), "method", "`method`: unknown word `FETCH`"),
        (
            with("urlTemplate", json!("tickets.example/x")),
            "urlTemplate",
            "`urlTemplate`: the URL must begin with",
        ),
        (
            with("urlTemplate", json!("https://{{input.host}}/x")),
            "urlTemplate",
            "the host of a URL must be fixed",
        ),
        (with("urlTemplate", json!(7)), "urlTemplate", "`urlTemplate` must be a string, not an integer"),
        (with("headers", json!({ "Host": "x" })), "headers.Host", "`headers`"),
        (with("headers", json!({ "X": "{{secret:NONE}}" })), "headers.X", "there is no secret `NONE`"),
        (with("headers", json!({ "X": "{{secret:STRIPE_KEY}}" })), "headers.X", "see its `allowedHosts`"),
        (with("bodyTemplate", json!({ "a": "{{secret:DESK_KEY}}" })), "bodyTemplate.a", "cannot hold"),
        (with("bodyTemplate", json!({ "a": [null] })), "bodyTemplate.a[0]", "`null`"),
        (
            with("inputSchema", json!({ "type": "thing" })),
            "inputSchema",
            "`inputSchema` is not a JSON Schema",
        ),
        (with("inputSchema", json!("{}")), "inputSchema", "`inputSchema` must be a table"),
    ] {
        problem(definition, field, says);
    }
}

#[test]
fn faults_within_a_member_name_the_way_to_them() {
    let impact = |amount: Value| json!({ "dimension": "money", "amount": amount, "bound": "exact" });
    for (definition, field, says) in [
        (with("impact", impact(json!("1"))), "impact.unit", "missing key `unit` in `impact`"),
        (
            with("impact", json!({ "dimension": "seats", "amount": "input.a + 1" })),
            "impact.amount",
            "`amount`: `input.a + 1`",
        ),
        (
            with("verify", json!({ "url": "https://other.example/x" })),
            "verify.url",
            "only the action's own host",
        ),
        (with("verify", json!({ "status": 200 })), "verify.url", "missing key `url` in `verify`"),
        (
            with(
                "verify",
                json!({ "url": "https://tickets.example/x", "match": [{ "path": "a" }, { "path": "" }] }),
            ),
            "verify.match[1].path",
            "`path`",
        ),
        (
            with(
                "verify",
                json!({ "url": "https://tickets.example/x", "match": [{ "path": "a", "equals": null }] }),
            ),
            "verify.match[0].equals",
            "`null`",
        ),
        (with("response", json!({ "failedWhen": [] })), "response.failedWhen", "`failedWhen` is empty"),
        (
            with("idempotency", json!({ "header": "A", "body": "b", "window": "1h" })),
            "idempotency",
            "exactly one",
        ),
        (
            with("adapter", json!({ "type": "stripe.refund" })),
            "urlTemplate",
            "`urlTemplate` does not go with `adapter`",
        ),
        (
            json!({ "adapter": { "type": "stripe.refund", "config": { "mode": "maybe" } } }),
            "adapter.config.mode",
            "`mode`",
        ),
        (json!({ "adapter": { "type": "stripe.refund", "key": 1 } }), "adapter.key", "`credentialSecret`"),
        (
            json!({ "adapter": { "type": "stripe.refund" }, "governed": true, "impact": {} }),
            "impact",
            "does not go with `adapter`",
        ),
    ] {
        problem(definition, field, says);
    }
}
