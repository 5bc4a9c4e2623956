//! A command whose answer is lost after a write may have left: 13, and never 1, which says that nothing was applied.

use std::{
    io::Write,
    net::{SocketAddr, TcpListener},
    thread,
};

use oncegate_tests::{
    binary::Build,
    conf::{OPS_KEY, key_of},
    gate::Gate,
    script::Reply,
    sidecar::{Done, Home, finish},
    wire::Wire,
};
use serde_json::json;

use crate::shop::Shop;

const EFFECT: &str = "eff_01ARZ3NDEKTSV4RRFFQ69G5FAV";
const APPROVAL: &str = "apr_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// A command at an API that stands somewhere.
fn at(home: &Home, api: SocketAddr, key: &str, args: &[&str]) -> Done {
    let mut command = home.command(Build::Plain, args);
    command.env("ONCEGATE_URL", format!("http://{api}")).env("ONCEGATE_KEY", key);
    finish(command)
}

/// Something that takes one request whole and answers with these bytes.
fn answering(answer: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let answer = answer.to_owned();
    thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        let mut wire = Wire::shown_secrets(stream, "it stands for the sidecar");
        let head = wire.head().unwrap().expect("a request");
        let length = head.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        wire.take(length);
        wire.stream.write_all(answer.as_bytes()).unwrap();
    });
    at
}

fn error(status: &str, code: &str) -> String {
    let body = json!({ "success": false, "error": { "code": code, "message": "no", "details": { "effectId": "eff_x" } } });
    reply(status, &body.to_string())
}

fn reply(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

#[test]
fn a_sidecar_that_dies_under_an_invocation_leaves_it_unknown() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    shop.provider.on_write(Reply::json("200 OK", "{}").after(&gate));
    let api = sidecar.control;
    let input = json!({ "payment_intent": "pi_1", "amount": 100 }).to_string();
    let told = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let args = ["invoke", "refund", "--input", &input, "--key", "order:7", "--json"];
            at(&shop.home, api, key_of("billing-agent"), &args)
        });
        shop.provider.record().wait_writes(1);
        sidecar.kill9();
        asking.join().unwrap()
    });
    gate.open();
    assert_eq!((told.code, &told.json()["status"]), (13, &json!("unknown")), "{told:?}");
    assert!(told.err.contains("oncegate effects --key order:7"), "{told:?}");
    let again = shop.home.serve();
    let found = again.cli(&shop.home, "ops", &["effects", "--key", "order:7", "--json"]).json();
    assert_eq!(found[0]["outcome"], "unknown", "{found}");
}

#[test]
fn only_what_proves_it_is_told_as_failed_or_refused() {
    let home = Shop::open().home;
    let commands: [&[&str]; 5] = [
        &["invoke", "refund"],
        &["effect", "replay", EFFECT],
        &["effect", "reconcile", EFFECT],
        &["effect", "resolve", EFFECT, "--outcome", "failed", "--reason", "seen at the provider"],
        &["approve", APPROVAL],
    ];
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"success\":true,";
    let other = reply("200 OK", r#"{"success":true,"data":[42]}"#);
    let gateway = reply("502 Bad Gateway", "<html>");
    let internal = error("500 Internal Server Error", "INTERNAL_ERROR");
    let unavailable = error("503 Service Unavailable", "SERVICE_UNAVAILABLE");
    let conflict = error("409 Conflict", "unresolved_effect");
    let missing = error("404 Not Found", "NOT_FOUND");
    for args in commands {
        for lost in ["", "nonsense\r\n\r\n", cut, &other, &gateway, &internal] {
            let told = at(&home, answering(lost), OPS_KEY, &[args, &["--json"]].concat());
            assert_eq!(
                (told.code, &told.json()["status"]),
                (13, &json!("unknown")),
                "{args:?} {lost}: {told:?}"
            );
            assert!(told.err.contains("may have been done"), "{told:?}");
        }
        for (answer, exit, code) in [
            (&unavailable, 15, "SERVICE_UNAVAILABLE"),
            (&conflict, 15, "unresolved_effect"),
            (&missing, 2, "NOT_FOUND"),
        ] {
            let told = at(&home, answering(answer), OPS_KEY, &[args, &["--json"]].concat());
            assert_eq!(told.code, exit, "{args:?}: {told:?}");
            let error = &told.json()["error"];
            assert_eq!(
                (&error["code"], &error["details"]["effectId"]),
                (&json!(code), &json!("eff_x")),
                "{told:?}"
            );
            let text = at(&home, answering(answer), OPS_KEY, args);
            assert_eq!((text.code, text.out.as_str()), (exit, ""), "{text:?}");
        }
    }
    // What writes nothing anywhere may fail.
    assert_eq!(at(&home, answering(""), OPS_KEY, &["limits"]).code, 1);
    let missing = answering(&missing);
    assert_eq!(at(&home, missing, OPS_KEY, &["effect", "show", EFFECT]).code, 2);
}
