//! An action asked for by name is the action that its request means: what one rule is declared for is not done under the
//! name of another.

use oncegate_tests::{agent::Ask, conf::Conf, provider::Provider, script::Reply, sidecar::Home};
use serde_json::{Value, json};

use crate::{
    api_invoke::invoke,
    law::{approval_in, call, data, ops, says_no},
    shop::{DESK, Shop},
};

/// Narrow actions with rules, and wider ones that are under fewer or none.
const DECLARED: &str = r#"
[actions.pay]
method = "POST"
url = "https://tickets.test/v1/payouts"
impact = { dimension = "money", currency = "usd", amount = "input.amount" }
requires_approval = true

[actions.search]
method = "POST"
url = "https://tickets.test/v1/{{input.kind}}"
governed = false

[actions.gqlwrite]
method = "POST"
url = "https://tickets.test/graphql"
when = [{ path = "input.operationName", equals = "pay" }]
requires_approval = true
subject = "{{input.operationName}}"

[actions.gqlread]
method = "POST"
url = "https://tickets.test/graphql"
when = [{ path = "input.operationName", equals = "find" }]
governed = false

[actions.capture]
method = "POST"
url = "https://tickets.test/orders/{{input.order}}/capture"
subject = "{{input.order}}"

[actions.on-order]
method = "POST"
url = "https://tickets.test/orders/{{input.order}}/{{input.verb}}"
subject = "{{input.order}}/{{input.verb}}"

[actions.closed]
method = "POST"
url = "https://tickets.test/v1/refunds"
enabled = false
subject = "x"

[actions.marked]
method = "POST"
url = "https://tickets.test/marks/{{effect.id}}"
subject = "{{input.note}}"

[actions.lettered]
method = "POST"
url = "https://tickets.test/v1/letters"
headers = { "X-Desk" = "{{secret:DESK_KEY}}", "X-Trace" = "{{input.trace}}" }
body = { text = "{{input.text}}", kind = "letter" }
when = [{ path = "input.kind", equals = "letter" }]
subject = "{{input.text}}"

[secrets.DESK_KEY]
from = { env = "STRIPE_SECRET_KEY" }
allowed_hosts = ["tickets.test"]

[limits.day]
dimension = "money"
currency = "usd"
period = "day"
amount = 1000
"#;

fn desk() -> (Provider, Home) {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&Conf::default().host(DESK, provider.addr()).with(DECLARED));
    (provider, home)
}

/// Wider actions, with an input that makes a narrower one's request, and that one's name.
fn disguised() -> [(&'static str, Value, &'static str); 4] {
    [
        ("search", json!({ "kind": "payouts", "amount": 5_000_000 }), "pay"),
        ("search", json!({ "kind": "refunds" }), "closed"),
        ("gqlread", json!({ "operationName": "pay" }), "gqlwrite"),
        ("on-order", json!({ "order": "O1", "verb": "capture" }), "capture"),
    ]
}

fn message(answer: &oncegate_tests::answer::Answer) -> String {
    answer.json()["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn p10_a_narrower_actions_request_is_refused_under_a_wider_name() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    for (named, input, meant) in disguised() {
        let body = json!({ "input": input });
        for key in [None, Some("chosen")] {
            let no = invoke(&sidecar, "billing-agent", key, named, &body);
            says_no(&no, 400, "VALIDATION_ERROR", "invalid_input");
            assert!(message(&no).contains(&format!("This request is action {meant},")), "{no:?}");
        }
        let text = input.to_string();
        let by_command = sidecar.cli(&home, "billing-agent", &["invoke", named, "--input", &text]);
        assert_ne!(by_command.code, 0, "{by_command:?}");
        assert!(by_command.err.contains(&format!("is action {meant},")), "{by_command:?}");
    }
    let preview = json!({ "input": { "order": "O1", "verb": "capture" } }).to_string();
    let no = call(&sidecar, "billing-agent", "POST", "/actions/on-order/previews", &preview);
    says_no(&no, 400, "VALIDATION_ERROR", "invalid_input");
    // None of the actions: a `when` of its own that does not hold, and a parameter without a value.
    for input in [json!({ "operationName": "drop" }), json!({})] {
        let no = invoke(&sidecar, "billing-agent", None, "gqlread", &json!({ "input": input }));
        says_no(&no, 400, "VALIDATION_ERROR", "invalid_input");
    }
    assert_eq!((provider.record().requests().len(), home.effects().len()), (0, 0));
    let listed = data(&call(&sidecar, "ops", "GET", "/actions/invocations", ""));
    assert_eq!(listed, json!([]), "no invocation was recorded either");
}

#[test]
fn p6_an_open_effect_is_not_done_again_under_a_wider_name() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    provider.on_write(Reply::lost());
    let order = json!({ "input": { "order": "O1" } });
    let lost = data(&invoke(&sidecar, "billing-agent", Some("first"), "capture", &order));
    assert_eq!(lost["status"], "unknown");
    let wide = json!({ "input": { "order": "O1", "verb": "capture" } });
    let no = invoke(&sidecar, "billing-agent", Some("second"), "on-order", &wide);
    says_no(&no, 400, "VALIDATION_ERROR", "invalid_input");
    assert_eq!(provider.record().writes().len(), 1);
}

#[test]
fn what_means_the_named_action_goes_on_as_before() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let ask = |named: &str, input: Value| {
        invoke(&sidecar, "billing-agent", None, named, &json!({ "input": input }))
    };
    for (named, input, line) in [
        ("search", json!({ "kind": "orders", "q": "a" }), "POST /v1/orders HTTP/1.1"),
        ("gqlread", json!({ "operationName": "find" }), "POST /graphql HTTP/1.1"),
        ("on-order", json!({ "order": "O1", "verb": "ship" }), "POST /orders/O1/ship HTTP/1.1"),
        ("capture", json!({ "order": "O1" }), "POST /orders/O1/capture HTTP/1.1"),
        ("lettered", json!({ "text": "hello", "trace": "t1" }), "POST /v1/letters HTTP/1.1"),
    ] {
        let done = data(&ask(named, input));
        assert_eq!(done["status"], "succeeded", "{named}: {done}");
        let sent = provider.record().writes().pop().unwrap();
        assert_eq!(sent.head.line, line, "{named}");
    }
    // Its URL only builds: no proxied request is it.
    assert_eq!(data(&ask("marked", json!({ "note": "n" })))["status"], "succeeded");
    for (named, input) in [("pay", json!({ "amount": 5 })), ("gqlwrite", json!({ "operationName": "pay" }))] {
        let parked = ask(named, input);
        assert_eq!((parked.status, &data(&parked)["status"]), (202, &json!("pending_approval")), "{named}");
    }
    assert_eq!(provider.record().writes().len(), 6);
    let proxied = sidecar.billing().ask(DESK, &Ask::json("/graphql", r#"{"operationName":"pay"}"#));
    let approval = approval_in(&proxied);
    assert_eq!(ops(&home, &sidecar, &["approve", &approval]).code, 0);
    assert_eq!(provider.record().writes().len(), 7, "asked for by name or through the proxy: one operation");
}

/// Two that no request can tell apart, and one that is not enabled: their names do.
#[test]
fn of_actions_that_nothing_puts_in_order_each_is_asked_for_by_its_name() {
    let action = |name: &str, more: &str| {
        format!(
            "[actions.{name}]\nmethod = \"POST\"\nurl = \"https://{DESK}/v1/notes\"\nimpact = {{ dimension = \"resource_mutations\", amount = \"1\" }}\n{more}\n"
        )
    };
    let provider = Provider::tls(&[DESK]);
    let conf = Conf::default().host(DESK, provider.addr()).with(&action("a-note", "enabled = false"));
    let conf = conf
        .with(&action("b-note", "body = { of = \"b\" }"))
        .with(&action("c-note", "body = { of = \"c\" }"));
    let home = Home::new(&conf);
    let sidecar = home.serve();
    for of in ["b", "c"] {
        let done =
            data(&invoke(&sidecar, "billing-agent", None, &format!("{of}-note"), &json!({ "input": {} })));
        assert_eq!(
            (&done["status"], &done["actionName"]),
            (&json!("succeeded"), &json!(format!("{of}-note"))),
            "{done}"
        );
        assert_eq!(provider.record().writes().pop().unwrap().text(), format!(r#"{{"of":"{of}"}}"#));
    }
}

#[test]
fn p5_a_refund_is_not_made_under_the_name_of_another_stripe_write() {
    let shop = Shop::open_with(|at| {
        Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(50_000).with(
            "[actions.other]\nadapter = { type = \"stripe.write\", mode = \"test\", path = \"/v1/{{input.kind}}\" }\ncredential_secret = \"STRIPE_KEY\"\n",
        )
    });
    let sidecar = shop.home.serve();
    let input = json!({ "kind": "refunds", "payment_intent": "pi_3Pabc", "amount": 12_000 });
    let no = invoke(&sidecar, "billing-agent", None, "other", &json!({ "input": input }));
    says_no(&no, 400, "VALIDATION_ERROR", "invalid_input");
    assert!(message(&no).contains("This request is action refund,"), "{no:?}");
    assert_eq!((shop.writes(), shop.home.effects().len(), shop.home.money()), (0, 0, (0, 0, 0)));
    let other = json!({ "input": { "kind": "customers", "name": "A" } });
    let sent = invoke(&sidecar, "billing-agent", None, "other", &other);
    assert_eq!((sent.status, shop.writes()), (200, 1), "{sent:?}");
}
