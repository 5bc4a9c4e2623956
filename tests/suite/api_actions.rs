//! Definitions through the API: judged like files, in force at once, there after a restart.

use std::{fs, net::SocketAddr};

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    conf::Conf,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
};
use serde_json::{Value, json};

use crate::{
    law::{call, call_under, data, ops, says_no},
    shop::{DESK, TICKETS_PER_DAY, ticket, ticket_action},
};

/// The desk with nothing declared but its host.
pub(crate) fn bare(at: SocketAddr) -> Conf {
    Conf::default().host(DESK, at)
}

pub(crate) fn desk(conf: impl FnOnce(SocketAddr) -> Conf) -> (Provider, Home) {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&conf(provider.addr()));
    (provider, home)
}

pub(crate) fn open_ticket() -> Value {
    json!({
        "name": "open-ticket",
        "description": "Opens a ticket",
        "method": "POST",
        "urlTemplate": format!("https://{DESK}/v1/tickets"),
        "inputSchema": {
            "type": "object",
            "required": ["title"],
            "properties": { "title": { "type": "string", "default": null } },
        },
        "subject": "{{input.title}}",
        "impact": { "dimension": "resource_mutations", "amount": "1", "bound": "exact" },
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut definition = open_ticket();
    definition[name] = value;
    definition
}

#[track_caller]
pub(crate) fn create(sidecar: &Sidecar, definition: &Value) -> Answer {
    call(sidecar, "ops", "POST", "/actions", &definition.to_string())
}

#[track_caller]
pub(crate) fn patch(sidecar: &Sidecar, change: Value) -> Answer {
    call(sidecar, "ops", "PATCH", "/actions/open-ticket", &change.to_string())
}

pub(crate) fn ask(sidecar: &Sidecar, title: &str) -> Answer {
    sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket(title)))
}

#[test]
fn a_definition_is_in_force_at_once_and_after_a_restart() {
    let (provider, home) = desk(bare);
    let sidecar = home.serve();
    ask(&sidecar, "a").assert_refused(403, "oncegate_undeclared");
    let made = create(&sidecar, &open_ticket());
    assert_eq!(made.status, 201, "{made:?}");
    let shown = data(&made);
    assert_eq!(
        json!([shown["id"], shown["governed"], shown["enabled"]]),
        json!(["act_open-ticket", true, true])
    );
    assert_eq!(shown["impact"]["unit"], "resource_mutations");
    assert_eq!(shown["inputSchema"], open_ticket()["inputSchema"], "null is kept");

    let first = ask(&sidecar, "a");
    assert_eq!(first.status, 200, "{first:?}");
    sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", "{}")).assert_own(400, "oncegate_invalid_input");
    sidecar.kill9();
    let sidecar = home.serve();
    assert_eq!(ask(&sidecar, "a").effect(), first.effect(), "the same ticket, answered from the record");
    assert_eq!(ask(&sidecar, "b").status, 200);
    assert_eq!(provider.record().writes().len(), 2);
    let read = data(&call(&sidecar, "ops", "GET", "/actions/act_open-ticket", ""));
    let listed = data(&call(&sidecar, "billing-agent", "GET", "/actions", ""));
    assert_eq!(listed, json!([read]));
    let text = fs::read_to_string(home.path("managed/actions.toml")).unwrap();
    assert!(text.contains("[actions.open-ticket]\n"), "{text}");
    assert_eq!(home.run(&["check"]).code, 0);
}

#[test]
fn what_is_declared_can_be_added_and_taken_back() {
    let (provider, home) = desk(bare);
    let sidecar = home.serve();
    let plain = json!({ "name": "open-ticket", "urlTemplate": format!("https://{DESK}/v1/tickets") });
    assert_eq!(data(&create(&sidecar, &plain))["governed"], false);
    assert_eq!((ask(&sidecar, "a").header("oncegate-effect"), home.effects().len()), (None, 0));

    let verify = json!({ "url": format!("https://{DESK}/v1/tickets?ref={{{{effect.id}}}}"), "status": 200 });
    let declared = data(&patch(&sidecar, json!({ "verify": verify })));
    assert_eq!(json!([declared["governed"], declared["verify"]["status"]]), json!([true, 200]));
    provider.on_write(Reply::lost());
    let unknown = ask(&sidecar, "b").assert_unknown().effect();
    let kept = data(&patch(&sidecar, json!({ "description": "more" })));
    assert_eq!(kept["verify"], declared["verify"], "what is left out is kept");
    let bare = data(&patch(&sidecar, json!({ "verify": null })));
    assert_eq!(json!([bare["governed"], bare["verify"]]), json!([true, null]));
    says_no(&patch(&sidecar, json!({ "governed": false })), 409, "CONFLICT", "open_effects");
    let word = ["effect", "resolve", &unknown, "--outcome", "failed", "--reason", "not in their books"];
    assert_eq!(ops(&home, &sidecar, &word).code, 1, "1 is a failed effect");
    let let_go = data(&patch(&sidecar, json!({ "governed": false })));
    assert_eq!(let_go["governed"], false);
    assert_eq!((ask(&sidecar, "c").header("oncegate-effect"), home.effects().len()), (None, 1));
    says_no(&patch(&sidecar, json!({ "name": "other" })), 400, "VALIDATION_ERROR", "");
}

#[test]
fn every_version_is_kept() {
    let (_provider, home) = desk(|at| bare(at).with(&ticket_action("by-hand", DESK)));
    let sidecar = home.serve();
    create(&sidecar, &with("urlTemplate", json!(format!("https://{DESK}/v2/tickets"))));
    for _ in 0..2 {
        assert_eq!(patch(&sidecar, json!({ "description": "second" })).status, 200);
    }
    let versions = || data(&call(&sidecar, "ops", "GET", "/actions/open-ticket/versions", ""));
    let before = versions();
    let said: Vec<_> = before
        .as_array()
        .unwrap()
        .iter()
        .map(|each| json!([each["version"], each["author"], each["definition"]["description"]]))
        .collect();
    assert_eq!(said, [json!([1, "ops", "Opens a ticket"]), json!([2, "ops", "second"])]);
    assert!(
        before[0]["createdAt"].is_string() && before[0]["definition"]["name"] == "open-ticket",
        "{before}"
    );
    let file = home.path("managed/versions/open-ticket/000001.json");
    let first = fs::read(&file).unwrap();

    assert_eq!(call(&sidecar, "ops", "DELETE", "/actions/open-ticket", "").status, 200);
    says_no(&call(&sidecar, "ops", "GET", "/actions/open-ticket/versions", ""), 404, "NOT_FOUND", "");
    create(&sidecar, &with("urlTemplate", json!(format!("https://{DESK}/v3/tickets"))));
    let after = versions();
    assert_eq!((after[0].clone(), after[1].clone()), (before[0].clone(), before[1].clone()));
    assert_eq!((after[2]["version"].clone(), fs::read(&file).unwrap()), (json!(3), first));

    let by_hand = data(&call(&sidecar, "ops", "GET", "/actions/by-hand/versions", ""));
    assert_eq!(by_hand.as_array().map(Vec::len), Some(1), "{by_hand}");
    assert_eq!(
        json!([by_hand[0]["version"], by_hand[0]["author"], by_hand[0]["definition"]["name"]]),
        json!([1, null, "by-hand"])
    );
}

#[test]
fn what_an_operator_wrote_is_changed_where_it_was_written() {
    let (_provider, home) = desk(|at| bare(at).with(&ticket_action("open-ticket", DESK)));
    let sidecar = home.serve();
    let before = fs::read(home.config()).unwrap();
    says_no(&create(&sidecar, &open_ticket()), 409, "CONFLICT", "declared_in_file");
    says_no(&patch(&sidecar, json!({ "enabled": false })), 409, "CONFLICT", "declared_in_file");
    says_no(
        &call(&sidecar, "ops", "DELETE", "/actions/open-ticket", ""),
        409,
        "CONFLICT",
        "declared_in_file",
    );
    assert_eq!(fs::read(home.config()).unwrap(), before);
    assert!(!home.path("managed/actions.toml").exists());
    assert_eq!(ask(&sidecar, "a").status, 200);
}

#[test]
fn the_same_definition_again_is_no_conflict() {
    let (_provider, home) = desk(bare);
    let sidecar = home.serve();
    let definition = open_ticket().to_string();
    let post = |key: Option<&str>, body: &str| call_under(&sidecar, "ops", key, ("POST", "/actions", body));
    let made = post(Some("one-call"), &definition);
    assert_eq!(made.status, 201, "{made:?}");
    let again = post(Some("one-call"), &definition);
    assert_eq!((again.status, again.header("x-idempotent-replay")), (201, Some("recorded")), "{again:?}");
    assert_eq!(again.json(), made.json());
    let other = with("description", json!("another")).to_string();
    assert_eq!(post(Some("one-call"), &other).json()["error"]["code"], "idempotency_key_reuse");
    says_no(&post(None, &other), 409, "CONFLICT", "exists");
    let same = post(None, &definition);
    assert_eq!((same.status, data(&same)["description"].clone()), (200, json!("Opens a ticket")));
    let versions = data(&call(&sidecar, "ops", "GET", "/actions/open-ticket/versions", ""));
    assert_eq!(versions.as_array().map(Vec::len), Some(1));
}

#[test]
fn only_who_governs_defines() {
    let (_provider, home) = desk(bare);
    let sidecar = home.serve();
    create(&sidecar, &open_ticket());
    let other = with("name", json!("other")).to_string();
    for (method, path, body) in [
        ("POST", "/actions", other.as_str()),
        ("PATCH", "/actions/open-ticket", "{\"enabled\":false}"),
        ("DELETE", "/actions/open-ticket", ""),
        ("POST", "/actions/import", "{\"spec\":{}}"),
    ] {
        let refused = call(&sidecar, "billing-agent", method, path, body);
        says_no(&refused, 403, "AUTHORIZATION_ERROR", "");
        assert_eq!(refused.json()["error"]["details"]["requiredScope"], "actions:govern");
    }
    let listed = data(&call(&sidecar, "billing-agent", "GET", "/actions", ""));
    assert_eq!(json!([listed.as_array().map(Vec::len), listed[0]["enabled"]]), json!([1, true]));
}

#[test]
fn a_faulty_definition_is_refused_with_the_members_that_are() {
    let (_provider, home) = desk(bare);
    let sidecar = home.serve();
    let adapter = json!({ "type": "stripe.refund", "config": { "mode": "test", "currency": "usd" }, "credentialSecret": "NONE" });
    for (definition, fields) in [
        (json!({}), &["name"][..]),
        (with("name", json!("import")), &["name"]),
        (with("name", json!("a b/c?d")), &["name"]),
        (json!({ "name": "x" }), &["urlTemplate"]),
        (with("urlTemplat", json!("x")), &["urlTemplat"]),
        (with("urlTemplate", json!("https://{{input.host}}/x")), &["urlTemplate"]),
        (with("urlTemplate", json!(format!("http://{DESK}:81/v1/tickets"))), &["urlTemplate"]),
        (
            with("verify", json!({ "url": "https://other.example/x", "status": 99 })),
            &["verify.url", "verify.status"],
        ),
        (
            with("impact", json!({ "dimension": "money", "amount": "input.a + 1", "bound": "most" })),
            &["impact.unit", "impact.amount", "impact.bound"],
        ),
        (with("headers", json!({ "X": "{{secret:NONE}}" })), &["headers.X"]),
        (with("inputSchema", json!({ "type": "thing" })), &["inputSchema"]),
        (with("governed", json!(false)), &["impact", "subject"]),
        (with("adapter", adapter.clone()), &["method", "urlTemplate", "impact", "subject", "adapter"]),
        (json!({ "name": "x", "adapter": adapter }), &["adapter.credentialSecret"]),
        (json!({ "name": "x", "adapter": { "type": "no.such" } }), &["adapter"]),
    ] {
        let refused = create(&sidecar, &definition);
        says_no(&refused, 400, "VALIDATION_ERROR", "");
        let details = refused.json()["error"]["details"].clone();
        let named: Vec<&str> =
            details.as_array().unwrap().iter().filter_map(|each| each["field"].as_str()).collect();
        for field in fields {
            assert!(named.iter().any(|name| name.starts_with(field)), "{definition}: {field} in {details}");
        }
        assert!(!details.to_string().contains(home.dir().to_str().unwrap()), "{details}");
    }
    says_no(&call(&sidecar, "ops", "POST", "/actions", "[]"), 400, "VALIDATION_ERROR", "");
    says_no(
        &call(&sidecar, "ops", "POST", "/actions", "{\"name\":\"a\",\"name\":\"b\"}"),
        400,
        "VALIDATION_ERROR",
        "",
    );
    assert!(!home.path("managed/actions.toml").exists(), "nothing was written");
    assert_eq!(data(&call(&sidecar, "ops", "GET", "/actions", "")), json!([]));
}

#[test]
fn a_plain_host_is_for_an_operator_to_declare() {
    let provider = Provider::plain();
    let host = format!("[hosts.\"plain.test\"]\nplain = true\nconnect_to = \"{}\"\n", provider.addr());
    let home = Home::new(&Conf::default().with(&host));
    let sidecar = home.serve();
    let definition = with("urlTemplate", json!("http://plain.test/v1/tickets"));
    assert_eq!(create(&sidecar, &definition).status, 201);
    let asked = sidecar
        .billing()
        .absolute("plain.test", &Ask::json("http://plain.test/v1/tickets", &ticket("a")))
        .unwrap();
    assert_eq!((asked.status, home.effects().len()), (200, 1), "{asked:?}");
}

#[test]
fn an_action_stays_while_something_depends_on_it() {
    let (provider, home) = desk(|at| bare(at).with(TICKETS_PER_DAY));
    let sidecar = home.serve();
    create(&sidecar, &open_ticket());
    provider.on_write(Reply::lost());
    let unknown = ask(&sidecar, "a").assert_unknown().effect();
    let delete = || call(&sidecar, "ops", "DELETE", "/actions/act_open-ticket", "");
    says_no(&delete(), 409, "CONFLICT", "open_effects");
    let elsewhere = json!({ "urlTemplate": format!("https://{DESK}/v2/tickets") });
    says_no(&patch(&sidecar, elsewhere), 409, "CONFLICT", "open_effects");
    assert_eq!(patch(&sidecar, json!({ "description": "still there" })).status, 200);
    let settled = ops(
        &home,
        &sidecar,
        &["effect", "resolve", &unknown, "--outcome", "failed", "--reason", "not in their books"],
    );
    assert_eq!(settled.code, 1, "1 is a failed effect: {settled:?}");

    let limit = r#"{"name":"few","dimension":"resource_mutations","period":"day","amount":3,"actionName":"open-ticket"}"#;
    let limit = data(&call(&sidecar, "ops", "POST", "/impact-limits", limit));
    says_no(&delete(), 409, "CONFLICT", "named_elsewhere");
    let path = format!("/impact-limits/{}", limit["id"].as_str().unwrap());
    assert_eq!(call(&sidecar, "ops", "DELETE", &path, "").status, 200);
    assert_eq!(data(&delete()), json!({ "deleted": true, "id": "act_open-ticket", "name": "open-ticket" }));
    says_no(&delete(), 404, "NOT_FOUND", "");
    ask(&sidecar, "b").assert_refused(403, "oncegate_undeclared");
    assert_eq!(home.effect(&unknown)["outcome"], "failed", "what happened stays in the record");
}

#[test]
fn what_holds_an_open_effect_is_not_changed_under_it() {
    let secret = |name: &str| {
        format!("[secrets.{name}]\nfrom = {{ env = \"STRIPE_SECRET_KEY\" }}\nallowed_hosts = [\"{DESK}\"]\n")
    };
    let (provider, home) = desk(|at| bare(at).with(&secret("ONE")).with(&secret("OTHER")));
    let sidecar = home.serve();
    let mut definition = with("credentialSecret", json!("ONE"));
    definition["operationKey"] = json!("ticket:{{input.title}}");
    definition["headers"] = json!({ "x-desk": "{{secret:ONE}}", "x-lang": "en" });
    assert_eq!(create(&sidecar, &definition).status, 201);
    provider.on_write(Reply::lost());
    let unknown = ask(&sidecar, "a").assert_unknown().effect();
    for change in [
        // Passed on without a look at the record: the repeat would be sent.
        json!({ "governed": false }),
        // Another subject or key is another identity: the varied retry would be sent.
        json!({ "subject": "{{input.title}}/{{input.note}}" }),
        json!({ "subject": null }),
        json!({ "operationKey": "other:{{input.title}}" }),
        json!({ "when": [{ "path": "input.kind", "equals": "x" }] }),
        json!({ "scopeHeaders": ["x-tenant"] }),
        // Another account: it does not know the provider key, a replay would be a second write.
        json!({ "credentialSecret": "OTHER" }),
        json!({ "headers": { "x-desk": "{{secret:OTHER}}", "x-lang": "en" } }),
        json!({ "headers": { "x-lang": "en" } }),
    ] {
        let said = patch(&sidecar, change.clone());
        assert_eq!(said.status, 409, "{change}: {said:?}");
        says_no(&said, 409, "CONFLICT", "open_effects");
    }
    let harmless =
        json!({ "headers": { "x-desk": "{{secret:ONE}}", "x-lang": "fr" }, "identicalWithin": "1h" });
    assert_eq!(patch(&sidecar, harmless).status, 200);
    assert_eq!(ask(&sidecar, "a").assert_unknown().effect(), unknown);
    assert_eq!(provider.record().writes().len(), 1);
    let word = ["effect", "resolve", &unknown, "--outcome", "failed", "--reason", "not in their books"];
    assert_eq!(ops(&home, &sidecar, &word).code, 1);
    assert_eq!(patch(&sidecar, json!({ "credentialSecret": "OTHER" })).status, 200);
}

#[test]
fn p8_who_asked_does_not_say_how_its_effect_is_read_back() {
    let (provider, home) = desk(bare);
    let sidecar = home.serve();
    assert_eq!(create(&sidecar, &open_ticket()).status, 201);
    let any = json!({ "verify": { "url": format!("https://{DESK}/v1/health"), "status": 200 } });
    provider.on_write(Reply::lost());
    let input = json!({ "input": { "title": "own" } }).to_string();
    let own = data(&call(&sidecar, "ops", "POST", "/actions/open-ticket/invoke", &input));
    assert_eq!(own["status"], "unknown");
    says_no(&patch(&sidecar, any.clone()), 409, "CONFLICT", "own_open_effects");
    let path = format!("/actions/effects/{}/reconcile", own["effectId"].as_str().unwrap());
    assert_eq!(data(&call(&sidecar, "ops", "POST", &path, ""))["outcome"], "unknown");

    // Another's effect: a rule that was missing may be added.
    assert_eq!(
        create(
            &sidecar,
            &json!({ "name": "other", "urlTemplate": format!("https://{DESK}/v1/others"), "governed": true })
        )
        .status,
        201
    );
    provider.on_write(Reply::lost());
    let theirs = data(&call(&sidecar, "billing-agent", "POST", "/actions/other/invoke", &input));
    assert_eq!(theirs["status"], "unknown");
    assert_eq!(call(&sidecar, "ops", "PATCH", "/actions/other", &any.to_string()).status, 200);
}
