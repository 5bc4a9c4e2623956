//! Declared actions in full: bodies that are known by their digest, presets, and read-backs that need the answer.

use oncegate_tests::{
    agent::Ask, answer::Answer, conf::Conf, provider::Provider, script::Reply, sidecar::Home,
};
use serde_json::json;

const HOST: &str = "slack.com";

fn open(action: &str) -> (Provider, Home) {
    let provider = Provider::tls(&[HOST]);
    let home = Home::new(&Conf::default().host(HOST, provider.addr()).with(action));
    (provider, home)
}

const UPLOAD: &str = r#"
[actions.upload]
method = "POST"
url = "https://slack.com/upload/{{input.folder}}"
subject = "{{input.folder}}"
impact = { dimension = "resource_mutations", amount = "1" }
"#;

fn parts(boundary: &str, text: &str) -> Ask {
    let body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n{text}\0\r\n--{boundary}--\r\n"
    );
    Ask::new("POST", "/upload/docs")
        .field("Content-Type", &format!("multipart/form-data; boundary={boundary}"))
        .body(body)
}

#[test]
fn a_multipart_body_is_known_by_its_digest() {
    let (provider, home) = open(UPLOAD);
    let sidecar = home.serve();
    let agent = sidecar.billing();
    let send = |ask: &Ask| -> Answer { agent.ask(HOST, ask) };
    provider.on_write(Reply::lost());
    let lost = send(&parts("4f1c9a", "hello"));
    lost.assert_unknown();
    assert_eq!(provider.record().writes()[0].body, parts("4f1c9a", "hello").body, "byte by byte");
    let again = send(&parts("b07d22", "hello"));
    assert_eq!(again.assert_unknown().effect(), lost.effect(), "a library makes another boundary each time");
    send(&parts("b07d22", "other")).assert_own(422, "oncegate_unresolved_effect");
    assert_eq!(provider.record().writes().len(), 1);

    let binary =
        Ask::new("POST", "/upload/img").field("Content-Type", "application/octet-stream").body([0, 159, 146]);
    assert_eq!(send(&binary).status, 200);
    assert_eq!(send(&binary).header("x-idempotent-replay"), Some("current-state"));
    assert_eq!(provider.record().writes().len(), 2);
}

const POST: &str = r#"
[actions.say]
method = "POST"
url = "https://slack.com/api/chat.postMessage"
preset = "slack"
subject = "{{input.channel}}"
verify = { url = "https://slack.com/api/conversations.history?channel={{input.channel}}&latest={{response.ts}}", match = [
    { path = "messages.*.ts", equals = "{{response.ts}}" },
    { path = "messages.*.subtype", equals = "tombstone", absent = true },
] }
"#;

#[test]
fn a_preset_reads_answers_as_the_provider_means_them() {
    let (provider, home) = open(POST);
    let sidecar = home.serve();
    let say = |channel: &str| {
        let body = json!({"channel": channel, "text": "hello"}).to_string();
        sidecar.billing().ask(HOST, &Ask::json("/api/chat.postMessage", &body))
    };
    provider.on_write(Reply::json("200 OK", r#"{"ok":false,"error":"channel_not_found"}"#));
    assert_eq!(say("C1").outcome(), "failed");
    provider.on_write(Reply::json("200 OK", r#"{"ok":false,"error":"internal_error"}"#));
    say("C2").assert_unknown();
    provider.on_write(Reply::json("200 OK", r#"{"ok":true,"ts":"1700.1"}"#));
    let done = say("C3");
    assert_eq!((done.status, done.outcome()), (200, "succeeded"));
    assert_eq!(home.effect(&done.effect())["grade"], "acknowledged");
    assert_eq!(provider.record().writes().len(), 3);
}

#[test]
fn a_success_is_confirmed_by_what_the_answer_named() {
    let provider = Provider::tls(&[HOST]);
    let mut conf = Conf::default().host(HOST, provider.addr()).with(POST);
    conf.first_after = "1s".into();
    let home = Home::new(&conf);
    let sidecar = home.serve();
    provider.on_write(Reply::json("200 OK", r#"{"ok":true,"ts":"1700.1"}"#));
    provider.on_read(Reply::json("200 OK", r#"{"ok":true,"messages":[{"ts":"1700.1"}]}"#));
    let body = json!({"channel": "C1", "text": "hello"}).to_string();
    let done = sidecar.billing().ask(HOST, &Ask::json("/api/chat.postMessage", &body));
    let effect = done.effect();
    oncegate_tests::wait::until("the look", || {
        Some(()).filter(|()| home.effect(&effect)["grade"] == "confirmed")
    });
    let reads: Vec<_> = provider.record().requests().into_iter().filter(|r| !r.is_write()).collect();
    assert_eq!(reads[0].target, "/api/conversations.history?channel=C1&latest=1700.1");
}

#[test]
fn the_catalogue_is_listed() {
    let home = Home::new(&Conf::default());
    let all = home.run(&["catalog", "--json"]);
    assert_eq!(all.code, 0, "{all:?}");
    let all = all.json();
    let stripe = all.as_array().unwrap().iter().find(|entry| entry["name"] == "stripe").unwrap();
    assert_eq!(stripe["window"]["minutes"], 1440);
    assert!(home.run(&["catalog"]).out.contains("header Cko-Idempotency-Key"));
    let one = home.run(&["catalog", "adyen"]);
    assert!(one.out.contains("not confirmed: https://docs.adyen.com/"), "{one:?}");
    let none = home.run(&["catalog", "strip"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("did you mean stripe?"), "{none:?}");
}
