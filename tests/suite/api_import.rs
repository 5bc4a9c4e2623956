//! OpenAPI documents as actions: what can be said becomes one, what cannot is skipped with a reason.

use oncegate_tests::{agent::Ask, sidecar::Sidecar};
use serde_json::{Value, json};

use crate::{
    api_actions::{ask, bare, desk},
    law::{call, data, says_no},
    shop::DESK,
};

/// A small document: two operations that can be said, and two that cannot.
const DOCUMENT: &str = r##"
openapi: 3.0.3
servers: [{url: "https://tickets.test/v1"}]
paths:
  /tickets:
    post:
      operationId: createTicket
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: "#/components/schemas/Ticket"}}}
      responses:
        201: {description: made, content: {application/json: {schema: {$ref: "#/components/schemas/Ticket"}}}}
  /tickets/{id}:
    get:
      operationId: getTicket
      responses:
        200: {description: it, content: {application/json: {schema: {$ref: "#/components/schemas/Ticket"}}}}
  /tickets/{id}/files:
    post: {operationId: attach, requestBody: {content: {multipart/form-data: {}}}}
  /elsewhere:
    post: {operationId: elsewhere, servers: [{url: "http://plain.example"}]}
components:
  schemas:
    Ticket:
      type: object
      required: [title]
      properties: {id: {type: string, readOnly: true}, title: {type: string, nullable: true}}
"##;

#[test]
fn a_document_is_imported_dry_and_for_real() {
    let (provider, home) = desk(bare);
    let sidecar = home.serve();
    let import = |more: Value| {
        let mut body = json!({ "spec": DOCUMENT });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(&sidecar, "ops", "POST", "/actions/import", &body.to_string())
    };
    let dry = import(json!({ "dryRun": true }));
    assert_eq!(dry.status, 200, "{dry:?}");
    assert!(!home.path("managed/actions.toml").exists());
    let real = import(json!({}));
    assert_eq!(real.status, 201, "{real:?}");
    let (dry, real) = (data(&dry), data(&real));
    assert_eq!(json!([dry["dryRun"], real["dryRun"]]), json!([true, false]));
    assert_eq!(dry["skipped"], real["skipped"]);
    let created = &real["created"];
    assert_eq!(json!([created[0]["name"], created[1]["name"]]), json!(["createTicket", "getTicket"]));
    assert_eq!(json!([created[0]["governed"], created[1]["governed"]]), json!([true, false]));
    assert_eq!(created[0]["impact"]["amount"], "1");
    assert_eq!(created[0]["proposedVerify"]["url"], "https://tickets.test/v1/tickets/{{response.id}}");
    let skipped: Vec<_> =
        real["skipped"].as_array().unwrap().iter().map(|each| each["path"].as_str().unwrap()).collect();
    assert_eq!(skipped, ["/tickets/{id}/files", "/elsewhere"], "{real}");

    let made = ask(&sidecar, "a");
    assert_eq!((made.status, home.effects().len()), (200, 1), "{made:?}");
    sidecar
        .billing()
        .ask(DESK, &Ask::json("/v1/tickets", r#"{"title":7}"#))
        .assert_own(400, "oncegate_invalid_input");
    assert_eq!(provider.record().writes().len(), 1);
    // Again: everything is there, and nothing is made twice.
    let again = data(&import(json!({})));
    assert_eq!(
        (again["created"].clone(), again["skipped"].as_array().map(Vec::len)),
        (json!([]), Some(4)),
        "{again}"
    );
    let declared = patch_verify(&sidecar, &created[0]["proposedVerify"]);
    assert_eq!(declared["verify"]["match"], json!([]), "{declared}");
}

fn patch_verify(sidecar: &Sidecar, verify: &Value) -> Value {
    let body = json!({ "verify": verify }).to_string();
    data(&call(sidecar, "ops", "PATCH", "/actions/createTicket", &body))
}

#[test]
fn an_import_is_bounded_and_judged() {
    let (_provider, home) = desk(bare);
    let sidecar = home.serve();
    let import = |body: &Value| call(&sidecar, "ops", "POST", "/actions/import", &body.to_string());
    let long = "x".repeat(200 * 1024);
    let commented = format!("# {long}\n{DOCUMENT}");
    assert_eq!(
        import(&json!({ "spec": commented, "only": ["getTicket"] })).status,
        201,
        "more than other bodies may have"
    );
    for body in [
        json!({}),
        json!({ "spec": "swagger: '2.0'" }),
        json!({ "spec": DOCUMENT, "only": ["none"] }),
        json!({ "spec": DOCUMENT, "auth": { "headerName": "X" } }),
    ] {
        says_no(&import(&body), 400, "VALIDATION_ERROR", "");
    }
    let huge = import(&json!({ "spec": "x".repeat(1024 * 1024) }));
    says_no(&huge, 413, "PAYLOAD_TOO_LARGE", "");
    let secret = json!({ "spec": DOCUMENT, "only": ["createTicket"], "auth": { "headerName": "X-Key", "secretName": "NONE" } });
    let refused = data(&import(&secret));
    let reason = refused["skipped"][0]["reason"].as_str().unwrap();
    assert!(refused["created"] == json!([]) && reason.contains("there is no secret `NONE`"), "{refused}");
}
