//! What the tests of the law share: the API by hand, and the words of an answer.

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
};

use oncegate_tests::{
    answer::Answer,
    conf::key_of,
    sidecar::{Done, Home, Sidecar},
    wait::PATIENCE,
    wire::Wire,
};
use serde_json::Value;

use crate::shop::{REFUND, Shop};

/// One call of the API, with a body unless it is empty.
#[track_caller]
pub(crate) fn call(sidecar: &Sidecar, caller: &str, method: &str, path: &str, body: &str) -> Answer {
    call_under(sidecar, caller, None, (method, path, body))
}

/// The same under an `Idempotency-Key`.
#[track_caller]
pub(crate) fn call_under(
    sidecar: &Sidecar,
    caller: &str,
    key: Option<&str>,
    (method, path, body): (&str, &str, &str),
) -> Answer {
    call_at(sidecar.control, caller, key, (method, path, body))
}

/// The same at an address, for another thread.
#[track_caller]
pub(crate) fn call_at(
    control: SocketAddr,
    caller: &str,
    key: Option<&str>,
    (method, path, body): (&str, &str, &str),
) -> Answer {
    let under = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let mut tcp = TcpStream::connect(control).unwrap();
    // A long poll may take as long as anything may.
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let (host, key, length) = (control, key_of(caller), body.len());
    let head = format!(
        "{method} /api/v2{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{under}Connection: close\r\n\r\n"
    );
    tcp.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    Answer::read(&mut Wire::new(tcp), false).unwrap()
}

/// The `data` of a call that succeeds.
#[track_caller]
pub(crate) fn data(answer: &Answer) -> Value {
    let document = answer.json();
    assert!(answer.status < 300 && document["success"] == true, "{} {document}", answer.status);
    document["data"].clone()
}

/// A refusal of the API: its status, code and `details.reason`.
#[track_caller]
pub(crate) fn says_no(answer: &Answer, status: u16, code: &str, reason: &str) {
    let document = answer.json();
    let error = &document["error"];
    assert_eq!((answer.status, error["code"].as_str()), (status, Some(code)), "{document}");
    assert_eq!(error["details"]["reason"].as_str().unwrap_or_default(), reason, "{document}");
}

/// The approval that an answer names.
#[track_caller]
pub(crate) fn approval_in(answer: &Answer) -> String {
    answer.assert_own(403, "oncegate_approval_required");
    assert_eq!(answer.outcome(), "pending_approval");
    let at = answer.reason.find("apr_").unwrap_or_else(|| panic!("no approval in {answer:?}"));
    answer.reason[at..at + 30].to_owned()
}

/// A command of the operator.
pub(crate) fn ops(home: &Home, sidecar: &Sidecar, args: &[&str]) -> Done {
    sidecar.cli(home, "ops", args)
}

/// The usual refund, made and its answer lost: the effect.
#[track_caller]
pub(crate) fn lost(shop: &Shop, sidecar: &Sidecar) -> String {
    shop.books.lose(1);
    sidecar.billing().refund(None, REFUND).assert_unknown().effect()
}

/// One effect with everything that is known of it.
#[track_caller]
pub(crate) fn detail(sidecar: &Sidecar, effect: &str) -> Value {
    data(&call(sidecar, "ops", "GET", &format!("/actions/effects/{effect}"), ""))
}

/// The kinds of an effect's evidence, oldest first.
pub(crate) fn kinds(detail: &Value) -> Vec<&str> {
    detail["evidence"].as_array().unwrap().iter().map(|fact| fact["kind"].as_str().unwrap()).collect()
}
