//! One request has one identity, whichever listener it comes through: what is sent is what is compared.

use oncegate_tests::{
    agent::Ask,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
};
use serde_json::{Value, json};

use crate::{
    api_invoke::invoke,
    law::{data, says_no},
    shop::{DESK, desk_conf},
};

const ACTIONS: &str = r#"
[actions.refund]
method = "POST"
url = "https://tickets.test/refunds"
body = { payment = "{{input.payment}}", amount = "{{input.amount}}", currency = "usd" }
impact = { dimension = "resource_mutations", amount = "input.amount", bound = "exact" }
idempotency = { header = "Idempotency-Key", window = "24h" }

[actions.nested]
method = "POST"
url = "https://tickets.test/nested/{{input.id}}?notify={{input.notify}}"
body = { order = { lines = [{ n = "{{input.n}}" }], ref = "{{effect.id}}" }, note = "{{input.note}} ({{effect.key}})", key = "{{effect.key}}" }
idempotency = { body = "key", window = "24h" }

[actions.formed]
method = "POST"
url = "https://tickets.test/formed"
headers = { "Content-Type" = "application/x-www-form-urlencoded" }
body = { order = { n = "{{input.n}}" }, currency = "usd" }

[actions.words]
method = "POST"
url = "https://tickets.test/words"
headers = { "Content-Type" = "text/plain" }
body = "order {{input.n}} for {{effect.id}}"

[actions.labelled]
method = "POST"
url = "https://tickets.test/labels?ref={{effect.id}}&order={{input.order}}"
body = { n = "{{input.n}}", ref = "{{effect.id}}" }

[actions.tenants]
method = "POST"
url = "https://tickets.test/tenants"
headers = { "X-Tenant" = "{{input.tenant}}", "X-Org" = "{{input.org}}" }
scope_headers = ["x-tenant"]
body = { n = "{{input.n}}" }

[actions.ordered]
method = "POST"
url = "https://tickets.test/ordered"
operation_key = "pay:{{input.invoice}}"
body = { n = "{{input.n}}" }
"#;

fn desk() -> (Provider, Home) {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()).with(ACTIONS));
    (provider, home)
}

fn by_name(sidecar: &Sidecar, action: &str, input: &Value) -> Value {
    data(&invoke(sidecar, "billing-agent", None, action, &json!({ "input": input })))
}

/// The bytes that an invocation has sent, sent by the agent's own client while nobody knows what became of them.
#[test]
fn p6_the_bytes_of_an_invocation_are_a_repeat_of_it_through_the_proxy() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let input = json!({ "payment": "p1", "amount": 12 });
    provider.on_write(Reply::lost());
    let lost = by_name(&sidecar, "refund", &input);
    assert_eq!(lost["status"], "unknown");
    let sent = provider.record().wait_writes(1).remove(0);
    for bytes in [sent.text(), r#"{ "currency": "usd", "amount": 12, "payment": "p1" }"#.to_owned()] {
        let again = sidecar.billing().ask(DESK, &Ask::json("/refunds", &bytes));
        assert_eq!(again.assert_unknown().effect(), lost["effectId"].as_str().unwrap());
    }
    // What is sent of an input decides: a note that goes nowhere makes no other refund of it.
    for more in [json!({ "note": "please" }), json!({ "currency": "eur" })] {
        let mut varied = input.clone();
        varied.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(by_name(&sidecar, "refund", &varied)["effectId"], lost["effectId"], "{varied}");
    }
    assert_eq!(provider.record().writes().len(), 1);
    let other = by_name(&sidecar, "refund", &json!({ "payment": "p1", "amount": 13 }));
    assert_eq!((other["status"].as_str(), provider.record().writes().len()), (Some("succeeded"), 2));
}

/// The other way round, and with the effect's own name and key in the body, which are another for each try.
#[test]
fn p6_what_the_proxy_has_sent_is_known_by_its_name() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let ask = |ask: &Ask| sidecar.billing().ask(DESK, ask);
    let form = |body: &str| {
        Ask::new("POST", "/formed")
            .field("Content-Type", "application/x-www-form-urlencoded")
            .body(body.to_owned())
    };
    let nested = json!({ "id": "a b", "notify": "x&y", "n": 5, "note": "hello" });
    let bytes = r#"{"order":{"lines":[{"n":5}]},"note":"hello ()"}"#;
    let first = ask(&Ask::json("/nested/a%20b?notify=x%26y", bytes));
    let formed = ask(&form("order[n]=5&currency=usd"));
    assert_eq!((first.status, formed.status), (200, 200), "{first:?} {formed:?}");
    assert_eq!(by_name(&sidecar, "nested", &nested)["effectId"], first.effect());
    assert_eq!(by_name(&sidecar, "formed", &json!({ "n": 5 }))["effectId"], formed.effect());
    assert_eq!(provider.record().writes().len(), 2);

    // A text of the input beside the effect's name is what is said, too.
    let mut varied = nested.clone();
    varied["note"] = "good bye".into();
    let second = by_name(&sidecar, "nested", &varied);
    assert_ne!(second["effectId"], first.effect());
    assert_eq!(by_name(&sidecar, "nested", &varied)["effectId"], second["effectId"]);
    assert_eq!(provider.record().writes().len(), 3);
}

/// Where no request through the proxy is the same, or the body is known by its digest alone.
#[test]
fn p6_a_repeat_by_name_is_one_whatever_names_the_effect_in_it() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    for (action, input, other) in [
        ("words", json!({ "n": 1 }), json!({ "n": 2 })),
        ("labelled", json!({ "n": 1, "order": "a" }), json!({ "n": 1, "order": "b" })),
        (
            "tenants",
            json!({ "n": 1, "tenant": "a", "org": "a" }),
            json!({ "n": 1, "tenant": "b", "org": "a" }),
        ),
        (
            "tenants",
            json!({ "n": 2, "tenant": "a", "org": "a" }),
            json!({ "n": 2, "tenant": "a", "org": "b" }),
        ),
        ("ordered", json!({ "n": 1, "invoice": 1 }), json!({ "n": 1, "invoice": 2 })),
    ] {
        let before = provider.record().writes().len();
        let first = by_name(&sidecar, action, &input);
        assert_eq!(by_name(&sidecar, action, &input)["effectId"], first["effectId"], "{action}");
        assert_ne!(by_name(&sidecar, action, &other)["effectId"], first["effectId"], "{action} {other}");
        assert_eq!(provider.record().writes().len(), before + 2, "{action}");
    }
    // The fields are said by the agent itself where the body does not say what they are made of.
    let tenant = |tenant: &str, org: &str| {
        let ask = Ask::json("/tenants", r#"{"n":1}"#).field("X-Tenant", tenant).field("X-Org", org);
        sidecar.billing().ask(DESK, &ask)
    };
    let before = provider.record().writes().len();
    let known = by_name(&sidecar, "tenants", &json!({ "n": 1, "tenant": "a", "org": "a" }));
    assert_eq!(tenant("a", "a").effect(), known["effectId"].as_str().unwrap());
    assert_eq!(provider.record().writes().len(), before);
    for (one, org) in [("c", "a"), ("a", "c")] {
        assert_ne!(tenant(one, org).effect(), known["effectId"].as_str().unwrap());
    }
}

/// What a key names is what is sent under it.
#[test]
fn p6_a_key_names_the_request_whichever_way_it_comes() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let named = |input: Value| {
        invoke(&sidecar, "billing-agent", Some("refund:7"), "refund", &json!({ "input": input }))
    };
    let first = data(&named(json!({ "payment": "p1", "amount": 5 })));
    let under_key = |body: &str| {
        sidecar.billing().ask(DESK, &Ask::json("/refunds", body).field("Idempotency-Key", "refund:7"))
    };
    let same = under_key(r#"{"payment":"p1","amount":5,"currency":"usd"}"#);
    assert_eq!((same.status, same.effect().as_str()), (200, first["effectId"].as_str().unwrap()));
    under_key(r#"{"payment":"p1","amount":6,"currency":"usd"}"#).assert_own(422, "oncegate_key_reuse");
    says_no(&named(json!({ "payment": "p1", "amount": 6 })), 409, "idempotency_key_reuse", "key_reuse");
    assert_eq!(provider.record().writes().len(), 1);
}
