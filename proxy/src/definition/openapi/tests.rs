//! Documents as APIs publish them.

use serde_json::{Value, json};

use super::{Found, Import, read};

fn spec() -> Value {
    json!({
        "openapi": "3.0.3",
        "servers": [{ "url": "https://{region}.tickets.example/v1/", "variables": { "region": { "default": "eu" } } }],
        "security": [{ "key": [] }],
        "paths": {
            "/tickets": {
                "parameters": [{ "$ref": "#/components/parameters/Trace" }],
                "get": { "operationId": "listTickets", "parameters": [{ "name": "page", "in": "query" }] },
                "post": {
                    "operationId": "tickets/create",
                    "summary": "Opens a ticket",
                    "requestBody": { "required": true, "content": { "application/json; charset=utf-8": {
                        "schema": { "$ref": "#/components/schemas/Ticket" } } } },
                    "responses": { "201": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Ticket" } } } } },
                },
            },
            "/tickets/{id}": {
                "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
                "get": { "responses": { "200": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Ticket" } } } } } },
                "put": {
                    "operationId": "replaceTicket",
                    "parameters": [{ "name": "mode", "in": "query", "required": true, "schema": { "type": "string" } }],
                    "requestBody": { "required": true, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Ticket" } } } },
                },
                "delete": { "security": [] },
            },
            "/tickets/{id}.pdf": { "post": {} },
            "/upload": { "post": { "operationId": "upload", "requestBody": { "content": { "multipart/form-data": {} } } } },
            "/import": { "post": { "operationId": "import" } },
            "/other": { "post": { "operationId": "tickets.create" }, "put": { "operationId": "tickets create" } },
        },
        "components": {
            "parameters": { "Trace": { "name": "X-Trace", "in": "header" } },
            "schemas": { "Ticket": {
                "type": "object",
                "required": ["id", "title", "tags"],
                "properties": {
                    "id": { "type": "string", "readOnly": true },
                    "title": { "type": "string", "minLength": 1, "example": "x" },
                    "note": { "type": "string", "nullable": true },
                    "tags": { "type": "array", "items": { "type": "string" } },
                },
            } },
        },
    })
}

fn import(more: Value) -> Result<Found, super::Problem> {
    let mut whole = json!({ "spec": spec() });
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    read(&serde_json::from_value::<Import>(whole).unwrap())
}

fn one(more: Value, name: &str) -> super::Candidate {
    let mut more = more;
    more["only"] = json!([name]);
    let mut found = import(more).unwrap();
    assert_eq!((found.candidates.len(), found.skipped.len()), (1, 0), "{found:?}");
    found.candidates.remove(0)
}

#[test]
fn operations_get_names_and_what_cannot_be_said_is_skipped() {
    let found = import(json!({})).unwrap();
    let names: Vec<_> = found.candidates.iter().map(|candidate| candidate.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "post-import",
            "tickets-create",
            "tickets.create",
            "listTickets",
            "tickets-create-2",
            "get-tickets-id",
            "replaceTicket",
            "delete-tickets-id",
        ]
    );
    let skipped: Vec<_> =
        found.skipped.iter().map(|skipped| (skipped.path.as_str(), skipped.reason.as_str())).collect();
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    assert!(skipped[0].0 == "/tickets/{id}.pdf" && skipped[0].1.contains("`{id}.pdf`"), "{skipped:?}");
    assert!(skipped[1].1.contains("not JSON: multipart/form-data"), "{skipped:?}");
}

#[test]
fn a_write_is_governed_and_counted() {
    let made = one(json!({}), "tickets/create");
    let wanted = json!({
        "description": "Opens a ticket",
        "method": "POST",
        "urlTemplate": "https://eu.tickets.example/v1/tickets",
        "inputSchema": {
            "type": "object",
            "properties": {
                "title": { "type": "string", "minLength": 1 },
                "note": { "type": ["string", "null"] },
                "tags": { "type": "array", "items": { "type": "string" } },
            },
            "required": ["title", "tags"],
        },
        "governed": true,
        "impact": { "dimension": "resource_mutations", "unit": "resource_mutations", "amount": "1", "bound": "exact" },
    });
    assert_eq!(Value::Object(made.members), wanted);
    assert!(made.warnings.iter().any(|warning| warning.contains("`X-Trace`")), "{:?}", made.warnings);
    assert!(made.warnings.iter().any(|warning| warning.contains("credentials")), "{:?}", made.warnings);
    let listed = one(json!({}), "listTickets");
    assert!(
        !listed.members.contains_key("governed")
            && listed.proposed_verify.is_none()
            && listed.verify_note.is_none()
    );
    let plain = one(json!({ "governed": false }), "tickets/create");
    assert!(!plain.members.contains_key("governed") && !plain.members.contains_key("impact"));
    let asks = one(json!({ "requiresApproval": true, "baseUrl": "http://127.0.0.1:9/x/" }), "replaceTicket");
    assert_eq!(asks.members["requiresApproval"], true);
    assert_eq!(asks.members["urlTemplate"], "http://127.0.0.1:9/x/tickets/{{input.id}}?mode={{input.mode}}");
    assert_eq!(asks.members["inputSchema"]["required"], json!(["mode", "id", "title", "tags"]));
}

#[test]
fn a_read_back_is_proposed_where_there_is_one() {
    let made = one(json!({}), "tickets/create");
    let conditions = json!([{ "path": "title", "equals": "{{input.title}}" }]);
    let url = "https://eu.tickets.example/v1/tickets/{{response.id}}";
    assert_eq!(made.proposed_verify, Some(json!({ "url": url, "status": 200, "match": conditions })));
    assert!(made.verify_note.unwrap().contains("cannot look for a lost answer"));
    let url = "https://eu.tickets.example/v1/tickets/{{input.id}}";
    let replaced = one(json!({}), "replaceTicket");
    assert_eq!(replaced.proposed_verify, Some(json!({ "url": url, "status": 200, "match": conditions })));
    let gone = one(json!({}), "DELETE /tickets/{id}");
    assert_eq!(gone.proposed_verify, Some(json!({ "url": url, "status": 404, "match": [] })));
    assert!(gone.warnings.is_empty(), "it needs no credential: {:?}", gone.warnings);
    let none = one(json!({}), "import");
    assert_eq!(none.proposed_verify, None);
    assert!(none.verify_note.unwrap().contains("no GET that reads what it makes"));
}

#[test]
fn a_secret_is_placed_in_a_header() {
    let with = |auth: Value| one(json!({ "auth": auth }), "tickets/create");
    let made = with(json!({ "headerName": "X-Key", "secretName": "DESK" }));
    assert_eq!(made.members["headers"], json!({ "X-Key": "{{secret:DESK}}" }));
    assert!(!made.warnings.iter().any(|warning| warning.contains("credentials")));
    let made = with(json!({ "headerName": "Authorization", "secretName": "DESK" }));
    assert_eq!(made.members["headers"], json!({ "Authorization": "Bearer {{secret:DESK}}" }));
    for template in ["Token {{secret}}", "Token {{secret:DESK}}"] {
        let made =
            with(json!({ "headerName": "Authorization", "secretName": "DESK", "valueTemplate": template }));
        assert_eq!(made.members["headers"], json!({ "Authorization": "Token {{secret:DESK}}" }));
    }
}

#[test]
fn what_is_sent_with_a_document_is_judged() {
    let auth = json!({ "headerName": "X", "secretName": "S", "valueTemplate": "fixed" });
    for (more, field) in [
        (json!({ "only": ["listTickets", "none"] }), "only[1]"),
        (json!({ "baseUrl": "tickets.example" }), "baseUrl"),
        (json!({ "baseUrl": "https://tickets.example/?a=b" }), "baseUrl"),
        (json!({ "governed": false, "requiresApproval": true }), "governed"),
        (json!({ "auth": auth }), "auth.valueTemplate"),
        (
            json!({ "auth": { "headerName": "X", "secretName": "S", "valueTemplate": "{{secret:T}}" } }),
            "auth.valueTemplate",
        ),
        (json!({ "spec": "swagger: '2.0'" }), "spec"),
        (json!({ "spec": { "openapi": "3.1.0" } }), "spec"),
    ] {
        assert_eq!(import(more.clone()).unwrap_err().field, field, "{more}");
    }
    let paths: serde_json::Map<String, Value> =
        (0..501).map(|n| (format!("/p{n}"), json!({ "get": {} }))).collect();
    let many = import(json!({ "spec": { "openapi": "3.1.0", "paths": paths } })).unwrap_err();
    assert!(many.message.contains("501 operations"), "{}", many.message);
    let nowhere =
        import(json!({ "spec": { "openapi": "3.1.0", "paths": { "/a": { "get": {} } } } })).unwrap();
    assert!(nowhere.skipped[0].reason.contains("send `baseUrl`"), "{nowhere:?}");
}
