//! `POST /actions/{ref}/invoke`: the same pipeline as the proxy listener, in the shape of the published API.

use oncegate_tests::{answer::Answer, script::Reply, sidecar::Home, sidecar::Sidecar};
use serde_json::{Value, json};

use crate::{
    law::{call, call_under, data, detail, says_no},
    shop::{DESK, KEYS, REFUND, Shop, VARIED, desk_conf},
};
use oncegate_tests::provider::Provider;

/// One invocation under a key.
#[track_caller]
pub(crate) fn invoke(
    sidecar: &Sidecar,
    caller: &str,
    key: Option<&str>,
    action: &str,
    body: &Value,
) -> Answer {
    let path = format!("/actions/{action}/invoke");
    call_under(sidecar, caller, key, ("POST", &path, &body.to_string()))
}

/// The input of the usual refund.
fn refund() -> Value {
    json!({ "input": { "payment_intent": "pi_3Pabc", "amount": 12_000 } })
}

/// The members that tell what became of an invocation.
fn became(data: &Value) -> Value {
    json!([data["status"], data["grade"], data["pendingApproval"], data["responseStatus"]])
}

#[test]
fn a_lost_answer_is_a_200_that_says_unknown_whichever_listener_asks_again() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let first = invoke(&sidecar, "billing-agent", Some(KEYS[0]), "refund", &refund());
    let lost = data(&first);
    assert_eq!(first.status, 200);
    assert_eq!(became(&lost), json!(["unknown", "unknown", false, null]));
    assert_eq!(lost["id"], lost["invocationId"]);
    let effect = lost["effectId"].as_str().unwrap().to_owned();
    let error = lost["error"].as_str().unwrap();
    assert!(error.contains(&effect) && error.contains("Do not retry"), "{error}");

    // The same key, another key of a library's own making, and an ordinary HTTP client: one operation.
    for key in [Some(KEYS[0]), Some(KEYS[1]), None] {
        let again = invoke(&sidecar, "billing-agent", key, "refund", &refund());
        assert_eq!(again.header("x-idempotent-replay"), Some("current-state"), "{again:?}");
        assert_eq!(data(&again)["effectId"], effect.as_str());
    }
    let proxied = sidecar.billing().refund(Some(KEYS[2]), REFUND);
    assert_eq!(proxied.assert_unknown().effect(), effect);

    let changed = json!({ "input": { "payment_intent": "pi_3Pabc", "amount": 12_100 } });
    let reuse = invoke(&sidecar, "billing-agent", Some(KEYS[0]), "refund", &changed);
    says_no(&reuse, 409, "idempotency_key_reuse", "key_reuse");
    let varied = invoke(&sidecar, "billing-agent", Some("another"), "refund", &changed);
    says_no(&varied, 409, "unresolved_effect", "unresolved_effect");
    assert_eq!(varied.json()["error"]["details"]["effectId"], effect.as_str());
    sidecar.billing().refund(None, VARIED).assert_refused(422, "oncegate_unresolved_effect");
    assert_eq!((shop.writes(), shop.home.money()), (1, (0, 12_000, 12_000)));

    let looked = data(&call(&sidecar, "ops", "POST", &format!("/actions/effects/{effect}/reconcile"), ""));
    assert_eq!(json!([looked["outcome"], looked["grade"]]), json!(["succeeded", "confirmed"]));
    let settled = data(&invoke(&sidecar, "billing-agent", Some(KEYS[0]), "refund", &refund()));
    assert_eq!(became(&settled), json!(["succeeded", "confirmed", false, 200]));
    assert_eq!(settled["body"]["id"], shop.books.refunds()[0]["id"]);
    assert_eq!((shop.writes(), shop.home.money()), (1, (12_000, 0, 0)));
    assert_eq!(detail(&sidecar, &effect)["listener"], "api");
}

#[test]
fn what_the_proxy_did_is_what_the_api_finds() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let proxied = sidecar.billing().refund(None, "amount=12000&payment_intent=pi_3Pabc");
    assert_eq!(proxied.status, 200);
    let invoked = invoke(&sidecar, "ops", None, "refund", &refund());
    assert_eq!(invoked.header("x-idempotent-replay"), Some("current-state"));
    assert_eq!(data(&invoked)["effectId"], proxied.effect().as_str());
    assert_eq!(data(&invoked)["body"], proxied.json());
    assert_eq!(shop.writes(), 1);
}

/// A desk whose actions show what is built from an input.
fn desk(more: &str) -> (Provider, Home) {
    let provider = Provider::tls(&[DESK]);
    let conf = desk_conf(provider.addr()).with(more);
    let home = Home::new(&conf);
    (provider, home)
}

const REPLY: &str = r#"
[actions.reply]
method = "PUT"
url = "https://tickets.test/v1/projects/{{input.project}}/tickets/{{input.id}}?notify={{input.notify}}"
headers = { "X-Trace" = "{{input.trace}}", "X-Effect" = "{{effect.id}}" }
body = { text = "re: {{input.text}}", tags = "{{input.tags}}", ref = "{{effect.id}}" }
subject = "{{input.project}}/{{input.id}}"
"#;

#[test]
fn a_template_becomes_the_request_that_it_describes() {
    let (provider, home) = desk(REPLY);
    let sidecar = home.serve();
    provider.on_write(Reply::json("201 Created", r#"{"ok":true}"#));
    let body =
        r#"{"input":{"project":"a b","id":7,"notify":"x&y","trace":"t1","text":"hello","tags":["p",1.50]}}"#;
    let answer =
        call_under(&sidecar, "billing-agent", Some("reply:7"), ("POST", "/actions/reply/invoke", body));
    let done = data(&answer);
    assert_eq!(became(&done), json!(["succeeded", "acknowledged", false, 201]));
    assert_eq!(done["body"], json!({ "ok": true }));
    let effect = done["effectId"].as_str().unwrap();
    let sent = provider.record().wait_writes(1).remove(0);
    assert_eq!(sent.head.line, "PUT /v1/projects/a%20b/tickets/7?notify=x%26y HTTP/1.1");
    for (name, value) in [("x-trace", "t1"), ("x-effect", effect), ("content-type", "application/json")] {
        assert_eq!(sent.head.field(name), Some(value), "{:?}", sent.head);
    }
    assert_eq!(sent.head.field("idempotency-key"), None, "the caller's key is ours alone");
    // A number keeps the spelling that it came with.
    let members: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(
        members.to_string(),
        json!({ "ref": effect, "tags": members["tags"], "text": "re: hello" }).to_string()
    );
    assert!(sent.text().contains(r#"["p",1.50]"#), "{}", sent.text());
}

/// An order's id is often a UUID. As `operationKey` somebody has named the operation by it; in the field that libraries
/// fill by themselves it names one try.
#[test]
fn a_uuid_that_names_the_operation_is_no_librarys() {
    let (provider, home) = desk(
        "[actions.pay]\nmethod = \"POST\"\nurl = \"https://tickets.test/v1/pay\"\ngoverned = true\nidentical_within = \"24h\"\n",
    );
    let sidecar = home.serve();
    let ask = |key: Option<&str>, body: Value| {
        let target = ("POST", "/actions/pay/invoke");
        data(&call_under(&sidecar, "billing-agent", key, (target.0, target.1, &body.to_string())))
    };
    let named = |key: &str| ask(None, json!({ "input": { "amount": 5 }, "operationKey": key }));
    let [first, again, second] = [KEYS[0], KEYS[0], KEYS[1]].map(named);
    assert_eq!((&first["effectId"], &first["status"]), (&again["effectId"], &json!("succeeded")), "{again}");
    assert_ne!(first["effectId"], second["effectId"], "{second}");
    assert_eq!(provider.record().writes().len(), 2);
    let tries = ["3f0a1b2c-0000-4000-8000-000000000001", "3f0a1b2c-0000-4000-8000-000000000002"];
    let [one, other] = tries.map(|key| ask(Some(key), json!({ "input": { "amount": 6 } })));
    assert_eq!((&one["effectId"], provider.record().writes().len()), (&other["effectId"], 3), "{other}");
}

#[test]
fn what_is_wrong_is_an_error_and_nothing_is_sent() {
    let (provider, home) = desk(
        "[actions.off]\nmethod = \"POST\"\nurl = \"https://tickets.test/v1/off\"\nenabled = false\nsubject = \"x\"\n",
    );
    let sidecar = home.serve();
    let ask = |action: &str, body: &str| {
        call_under(&sidecar, "billing-agent", None, ("POST", &format!("/actions/{action}/invoke"), body))
    };
    for (action, body, status, code, reason) in [
        ("no-such", "{}", 404, "NOT_FOUND", ""),
        ("off", "{}", 409, "CONFLICT", "disabled"),
        ("open-ticket", "", 400, "VALIDATION_ERROR", "invalid_input"),
        ("open-ticket", "[]", 400, "VALIDATION_ERROR", ""),
        ("open-ticket", "{", 400, "VALIDATION_ERROR", ""),
        ("open-ticket", r#"{"input":1}"#, 400, "VALIDATION_ERROR", "invalid_input"),
        ("open-ticket", r#"{"input":{"title":1}}"#, 400, "VALIDATION_ERROR", "invalid_input"),
        ("open-ticket", r#"{"input":{"title":"a","title":"b"}}"#, 400, "VALIDATION_ERROR", ""),
        ("open-ticket", r#"{"input":{"title":"\ud800"}}"#, 400, "VALIDATION_ERROR", ""),
        ("open-ticket", r#"{"input":{"title":"a"},"retryOf":"x"}"#, 400, "VALIDATION_ERROR", "invalid_input"),
        (
            "open-ticket",
            r#"{"input":{"title":"a"},"dependsOn":["x"]}"#,
            400,
            "VALIDATION_ERROR",
            "invalid_input",
        ),
        (
            "open-ticket",
            r#"{"input":{"title":"a"},"operationKey":"käse"}"#,
            400,
            "VALIDATION_ERROR",
            "invalid_input",
        ),
        (
            "open-ticket",
            r#"{"input":{"title":"a"},"retryOf":"inv_01ARZ3NDEKTSV4RRFFQ69G5FAV"}"#,
            409,
            "RETRY_REFUSED",
            "retry_refused",
        ),
    ] {
        says_no(&ask(action, body), status, code, reason);
    }
    let large = format!(r#"{{"input":{{"title":"{}"}}}}"#, "x".repeat(1_100_000));
    says_no(&ask("open-ticket", &large), 413, "PAYLOAD_TOO_LARGE", "");
    assert_eq!((provider.record().requests().len(), home.effects().len()), (0, 0));
    let refusals = home.query("SELECT count(*) AS n FROM event WHERE kind = 'refused'");
    assert!(refusals[0]["n"].as_i64().unwrap() >= 7, "refusals leave a row for the auditor: {refusals:?}");
}

#[test]
fn a_rule_that_says_no_is_an_answer_with_a_grade() {
    let (provider, home) =
        desk("[limits.few]\ndimension = \"resource_mutations\"\nperiod = \"day\"\namount = 0\n");
    let sidecar = home.serve();
    let ask = |more: Value| {
        let mut body = json!({ "input": { "title": "a" } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        invoke(&sidecar, "billing-agent", Some("k"), "open-ticket", &body)
    };
    let full = ask(json!({}));
    assert_eq!(full.status, 200, "never a status that clients send again on");
    let full = data(&full);
    assert_eq!(became(&full), json!(["failed", "refused", false, null]));
    assert_eq!(
        json!([full["id"], full["effectId"], full["decision"]["code"]]),
        json!([null, null, "limit_exceeded"])
    );
    let early = data(&ask(
        json!({ "dependsOn": [{ "effect": "eff_01ARZ3NDEKTSV4RRFFQ69G5FAV", "outcome": "succeeded" }] }),
    ));
    assert_eq!(early["decision"]["code"], "dependency_unmet");

    assert_eq!(call(&sidecar, "ops", "POST", "/environment/halt", r#"{"reason":"drill"}"#).status, 200);
    says_no(&ask(json!({})), 409, "ENVIRONMENT_HALTED", "halted");
    assert_eq!((provider.record().requests().len(), home.effects().len()), (0, 0));
}

#[test]
fn waiting_for_a_person_is_a_202_and_then_the_same_call_reads_the_result() {
    let shop = Shop::open_with(|at| {
        oncegate_tests::conf::Conf::default()
            .stripe_host(at)
            .refund("requires_approval = true")
            .daily_limit(50_000)
    });
    let sidecar = shop.home.serve();
    let parked = invoke(&sidecar, "billing-agent", Some(KEYS[0]), "refund", &refund());
    assert_eq!(parked.status, 202);
    let parked = data(&parked);
    assert_eq!(became(&parked), json!(["pending_approval", "pending", true, null]));
    let approval = parked["approvalId"].as_str().unwrap();
    let path = format!("/approvals/{approval}/approve");
    let decided = data(&call(&sidecar, "ops", "POST", &path, "{}"));
    assert_eq!(decided["invocation"]["status"], "succeeded");
    let read = invoke(&sidecar, "billing-agent", Some(KEYS[0]), "refund", &refund());
    assert_eq!((read.status, read.header("x-idempotent-replay")), (200, Some("current-state")));
    assert_eq!(became(&data(&read)), json!(["succeeded", "acknowledged", false, 200]));
    assert_eq!(shop.writes(), 1);
}

#[test]
fn a_failed_invocation_is_retried_on_purpose_once() {
    let (provider, home) = desk("");
    let sidecar = home.serve();
    provider.on_write(Reply::json("422 Unprocessable Entity", r#"{"error":"no such project"}"#));
    let body = json!({ "input": { "title": "a" } });
    let failed = data(&invoke(&sidecar, "billing-agent", Some("first"), "open-ticket", &body));
    assert_eq!(became(&failed), json!(["failed", "failed", false, 422]));
    let same = invoke(&sidecar, "billing-agent", Some("first"), "open-ticket", &body);
    assert_eq!(data(&same)["id"], failed["id"], "a caller's key stays with its invocation for life");

    let retry = json!({ "input": { "title": "a" }, "retryOf": failed["id"] });
    // Another caller has its own: it does not use up this one's.
    let others = invoke(&sidecar, "ops", Some("theirs"), "open-ticket", &retry);
    says_no(&others, 409, "RETRY_REFUSED", "retry_refused");
    provider.on_write(Reply::json("201 Created", r#"{"id":1}"#));
    let retried = data(&invoke(&sidecar, "billing-agent", Some("second"), "open-ticket", &retry));
    assert_eq!(json!([retried["status"], retried["retryOf"]]), json!(["succeeded", failed["id"]]));
    let path = format!("/actions/invocations/{}", failed["id"].as_str().unwrap());
    assert_eq!(data(&call(&sidecar, "ops", "GET", &path, ""))["retriedBy"], retried["id"]);
    let twice = invoke(&sidecar, "billing-agent", Some("third"), "open-ticket", &retry);
    says_no(&twice, 409, "RETRY_REFUSED", "retry_refused");
    assert_eq!(provider.record().writes().len(), 2);
}

#[test]
fn nobody_waits_longer_than_was_said_and_a_late_answer_still_counts() {
    let shop = Shop::open_with(|at| {
        let conf = oncegate_tests::conf::stripe_conf(at);
        let control = [conf.control.clone(), vec!["respond_within = \"4s\"".into()]].concat();
        oncegate_tests::conf::Conf { control, ..conf }
    });
    let sidecar = shop.home.serve();
    let gate = oncegate_tests::gate::Gate::default();
    shop.provider.on_write(
        Reply::json("200 OK", r#"{"id":"re_late","status":"succeeded","amount":12000}"#).after(&gate),
    );
    let told = data(&invoke(&sidecar, "billing-agent", Some("late"), "refund", &refund()));
    assert_eq!(became(&told), json!(["unknown", "unknown", false, null]));
    let effect = told["effectId"].as_str().unwrap();
    assert_eq!(shop.home.money(), (0, 12_000, 12_000), "held until it is known");
    gate.open();
    shop.home.wait_outcome(effect, "succeeded");
    let late = data(&invoke(&sidecar, "billing-agent", Some("late"), "refund", &refund()));
    assert_eq!(json!([late["status"], late["body"]["id"]]), json!(["succeeded", "re_late"]));
    assert_eq!((shop.writes(), shop.home.money()), (1, (12_000, 0, 0)));
}

#[test]
fn the_command_exits_by_what_became_of_it() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let run = |args: &[&str]| sidecar.cli(&shop.home, "billing-agent", args);
    shop.books.lose(1);
    let input = r#"{"payment_intent":"pi_3Pabc","amount":12000}"#;
    let lost = run(&["invoke", "refund", "--input", input, "--json"]);
    assert_eq!((lost.code, &lost.json()["status"]), (13, &json!("unknown")), "{lost:?}");
    let effect = lost.json()["effectId"].as_str().unwrap().to_owned();
    let varied = run(&["invoke", "refund", "--input", r#"{"payment_intent":"pi_3Pabc","amount":1}"#]);
    assert_eq!(varied.code, 15, "{varied:?}");
    let over = run(&["invoke", "refund", "--input", r#"{"payment_intent":"pi_9","amount":999999}"#]);
    assert_eq!(over.code, 15, "{over:?}");
    assert!(over.out.contains("refunds-per-day"), "{over:?}");
    assert_eq!(run(&["invoke", "refund", "--input", "{"]).code, 2);
    assert_eq!(sidecar.cli(&shop.home, "ops", &["effect", "reconcile", &effect]).code, 0);
    let again = run(&["invoke", "refund", "--input", input]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.contains(&effect) && again.out.contains("confirmed"), "{again:?}");
    assert_eq!(shop.writes(), 1);
}
