//! An action that takes requests from another one: not while a repeat of them would be sent, and never unsaid.

use std::fs;

use oncegate_tests::{
    agent::Ask,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
    wait::until,
};
use serde_json::{Value, json};

use crate::{
    api_actions::{ask, bare, desk},
    law::{call, data, ops, says_no},
    shop::{DESK, ticket},
};

/// Everything that is posted below `/v1`.
fn wide() -> String {
    format!(
        r#"
[actions.any]
method = "POST"
url = "https://{DESK}/v1/{{{{input.kind}}}}"
subject = "{{{{input.title}}}}"
requires_approval = false
"#
    )
}

fn narrow(more: &Value) -> Value {
    let mut definition = json!({
        "name": "narrow",
        "urlTemplate": format!("https://{DESK}/v1/tickets"),
        "subject": "{{input.title}}",
        "impact": { "dimension": "resource_mutations", "amount": "1", "bound": "exact" },
    });
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    definition
}

fn create(sidecar: &Sidecar, more: &Value) -> oncegate_tests::answer::Answer {
    call(sidecar, "ops", "POST", "/actions", &narrow(more).to_string())
}

/// A ticket of the wide action whose answer is lost.
fn lost() -> (Provider, Home, Sidecar, String) {
    let (provider, home) = desk(|at| bare(at).with(&wide()));
    let sidecar = home.serve();
    provider.on_write(Reply::lost());
    let unknown = ask(&sidecar, "a").assert_unknown().effect();
    (provider, home, sidecar, unknown)
}

#[test]
fn p6_no_new_action_takes_the_requests_of_open_effects() {
    let (provider, home, sidecar, unknown) = lost();
    says_no(&create(&sidecar, &json!({})), 409, "CONFLICT", "open_effects");
    let told_apart = json!({ "when": [{ "path": "input.title", "equals": "a" }],
                             "urlTemplate": format!("https://{DESK}/v1/{{{{input.kind}}}}") });
    says_no(&create(&sidecar, &told_apart), 409, "CONFLICT", "open_effects");
    says_no(
        &create(&sidecar, &json!({ "governed": false, "subject": null, "impact": null })),
        409,
        "CONFLICT",
        "open_effects",
    );
    let document = json!({
        "openapi": "3.0.3",
        "servers": [{ "url": format!("https://{DESK}") }],
        "paths": {
            "/v1/tickets": { "post": { "operationId": "createTicket", "responses": { "200": { "description": "it" } } } },
            "/v2/tickets": { "post": { "operationId": "createOther", "responses": { "200": { "description": "it" } } } },
        },
    });
    let imported =
        data(&call(&sidecar, "ops", "POST", "/actions/import", &json!({ "spec": document }).to_string()));
    let created: Vec<_> = imported["created"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(created, ["createOther"], "{imported}");
    let reason = imported["skipped"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("1 effects of any are not settled"), "{imported}");

    // One that takes nothing of it may come; one that is not enabled refuses, and may not be enabled.
    let other = json!({ "name": "other", "when": [{ "path": "input.title", "equals": "b" }] });
    assert_eq!(create(&sidecar, &other).status, 201);
    assert_eq!(create(&sidecar, &json!({ "enabled": false })).status, 201);
    ask(&sidecar, "a").assert_refused(403, "oncegate_undeclared");
    let on = json!({ "enabled": true }).to_string();
    says_no(&call(&sidecar, "ops", "PATCH", "/actions/narrow", &on), 409, "CONFLICT", "open_effects");
    assert_eq!(call(&sidecar, "ops", "DELETE", "/actions/narrow", "").status, 200);
    assert_eq!(ask(&sidecar, "a").assert_unknown().effect(), unknown);
    assert_eq!(provider.record().writes().len(), 1);

    let word = ["effect", "resolve", &unknown, "--outcome", "failed", "--reason", "not in their books"];
    assert_eq!(ops(&home, &sidecar, &word).code, 1, "1 is a failed effect");
    let made = data(&create(&sidecar, &json!({})));
    let takes = format!(
        "action `narrow` takes POST https://{DESK}/v1/tickets from `any`: what is declared of `any` does not hold there"
    );
    assert!(made["warnings"].as_array().unwrap().contains(&takes.as_str().into()), "{made}");
    let check = home.run(&["check"]);
    assert!(check.code == 0 && check.out.contains(&takes), "{check:?}");
}

#[test]
fn an_edit_of_the_file_that_takes_requests_of_open_effects_is_said() {
    let (provider, home, sidecar, _) = lost();
    let text = fs::read_to_string(home.config()).unwrap();
    let narrow = format!(
        "[actions.narrow]\nmethod = \"POST\"\nurl = \"https://{DESK}/v1/tickets\"\nsubject = \"x\"\n"
    );
    home.write(&format!("{text}\n{narrow}"));
    until("the reload", || Some(()).filter(|()| sidecar.log().contains("the configuration was reloaded")));
    let log = sidecar.log();
    let said = "1 effects of any are not settled, and a repeat of their requests would be narrow's";
    let line = log.lines().find(|line| line.contains(said)).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("WARN") || line.contains("warn"), "{line}");
    // It is taken: who edits the files decides.
    let again = sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a")));
    assert_eq!((again.status, provider.record().writes().len()), (200, 2));
}

/// The same action under another name, which has no subject: what is open is known by its key and by what it says.
#[test]
fn p6_what_is_open_is_known_under_another_name_of_its_action() {
    let pay = |name: &str| {
        format!(
            "[actions.{name}]\nmethod = \"POST\"\nurl = \"https://{DESK}/pay\"\noperation_key = \"pay:{{{{input.order}}}}\"\n\
             impact = {{ dimension = \"resource_mutations\", amount = \"input.amount\" }}\n"
        )
    };
    let (provider, home) = desk(|at| bare(at).with(&pay("pay")));
    let sidecar = home.serve();
    let ask = |sidecar: &Sidecar, body: &str| sidecar.billing().ask(DESK, &Ask::json("/pay", body));
    let (same, varied) = (r#"{"order":7,"amount":12}"#, r#"{"order":7,"amount":13}"#);
    provider.on_write(Reply::lost());
    let open = ask(&sidecar, same).assert_unknown().effect();

    let text = fs::read_to_string(home.config()).unwrap();
    home.write(&text.replace("[actions.pay]", "[actions.pay-order]"));
    until("the reload", || Some(()).filter(|()| sidecar.log().contains("the configuration was reloaded")));
    let said = "1 effects of pay are not settled, and a repeat of their requests would be pay-order's: it is refused";
    assert!(sidecar.log().contains(said), "{}", sidecar.log());
    let not_again = |sidecar: &Sidecar| {
        for body in [same, varied] {
            let answer = ask(sidecar, body);
            answer.assert_own(422, "oncegate_unresolved_effect");
            assert_eq!(answer.effect(), open, "{body}");
        }
        assert_eq!(provider.record().writes().len(), 1);
    };
    not_again(&sidecar);
    // Under a third name it is what it was admitted as, and not what its action was called last.
    home.write(&text.replace("[actions.pay]", "[actions.pay-late]"));
    let said =
        "1 effects of pay are not settled, and a repeat of their requests would be pay-late's: it is refused";
    until("the second reload", || Some(()).filter(|()| sidecar.log().contains("would be pay-late's")));
    assert!(sidecar.log().contains(said), "{}", sidecar.log());
    not_again(&sidecar);
    // Nor is it forgotten at a start.
    drop(sidecar);
    let sidecar = home.serve();
    not_again(&sidecar);
    let word = ["effect", "resolve", &open, "--outcome", "failed", "--reason", "not in their books"];
    assert_eq!(ops(&home, &sidecar, &word).code, 1, "1 is a failed effect");
    assert_eq!((ask(&sidecar, same).status, provider.record().writes().len()), (200, 2));
}
