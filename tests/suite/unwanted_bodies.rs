//! Bodies that nobody wants any more: what is answered before its body is whole is heard also by who reads no answer before
//! all is written.

use std::io::{Read, Write};

use oncegate_tests::{
    agent::{Agent, Ask},
    answer::Answer,
    conf::Conf,
    provider::Provider,
    script::{Act, Reply, When, answer},
    sidecar::{Home, Sidecar},
    wire::Wire,
};

use crate::shop::{DESK, ticket_action};

const MIB: usize = 1024 * 1024;
const SIZE: usize = 24 * MIB;
const PLAIN: &str = "plain.test";

fn serving(desk: &Provider) -> (Home, Sidecar) {
    let plain = format!("[hosts.\"{PLAIN}:80\"]\nconnect_to = \"127.0.0.1:9\"\n");
    let files =
        format!("[actions.files]\nmethod = \"POST\"\nurl = \"https://{DESK}/v1/files\"\ngoverned = false\n");
    let conf = Conf::default().host(DESK, desk.addr()).with(&ticket_action("open-ticket", DESK));
    let home = Home::new(&conf.with(&files).with(&plain));
    let sidecar = home.serve();
    (home, sidecar)
}

/// Writes all of a request, and only then looks for an answer.
fn written<S: Read + Write>(wire: &mut Wire<S>, head: &str, chunked: bool) -> Answer {
    let framing = match chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {SIZE}"),
    };
    wire.stream.write_all(format!("{head}\r\n{framing}\r\n\r\n").as_bytes()).unwrap();
    let piece = vec![b'.'; MIB];
    for _ in 0..SIZE / MIB {
        if chunked {
            write!(wire.stream, "{MIB:x}\r\n").unwrap();
        }
        wire.stream.write_all(&piece).expect("the connection is still read");
        if chunked {
            wire.stream.write_all(b"\r\n").unwrap();
        }
    }
    if chunked {
        wire.stream.write_all(b"0\r\n\r\n").unwrap();
    }
    wire.stream.flush().unwrap();
    Answer::read(wire, false).unwrap()
}

fn post(host: &str, target: &str, media: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {media}")
}

#[test]
fn a_refusal_is_heard_by_who_writes_everything_first() {
    let desk = Provider::tls(&[DESK]);
    let (_home, sidecar) = serving(&desk);
    let agent = sidecar.billing();
    for (host, target, code) in [
        (DESK, "/v1/tickets", "oncegate_body_too_large"),
        (DESK, "/v1/nothing", "oncegate_undeclared"),
        ("nobody.test", "/", "oncegate_undeclared"),
    ] {
        for chunked in [false, true] {
            let mut tunnel = agent.tunnel(host);
            let told = written(&mut tunnel.wire, &post(host, target, "application/json"), chunked);
            assert_eq!(told.header("oncegate-code"), Some(code), "{host}{target} {chunked}: {told:?}");
            if told.header("connection") != Some("close") {
                let next = tunnel.ask(&Ask::new("POST", "/v1/nothing"));
                assert_eq!(next.header("oncegate-code"), Some("oncegate_undeclared"), "it goes on: {next:?}");
            }
        }
    }
    for (target, code) in [
        (format!("http://{PLAIN}/v1/nothing"), Some("oncegate_undeclared")),
        ("http://nobody.test/".to_owned(), Some("oncegate_undeclared")),
    ] {
        let mut wire = agent.connect();
        let host = target.split('/').nth(2).unwrap();
        let head = format!("{}\r\nProxy-Authorization: {}", post(host, &target, "text/plain"), agent.basic());
        let told = written(&mut wire, &head, false);
        assert_eq!(told.header("oncegate-code"), code, "{target}: {told:?}");
    }
    assert_eq!(challenged(&agent).status, 407);
    assert!(desk.record().requests().is_empty());
}

fn challenged(agent: &Agent) -> Answer {
    written(&mut agent.connect(), &post("nobody.test", "http://nobody.test/", "text/plain"), false)
}

/// Its provider says no after a little of it, and hangs up: that is what the agent hears.
#[test]
fn the_early_answer_of_a_provider_is_heard_too() {
    let desk = Provider::tls(&[DESK]);
    let (_home, sidecar) = serving(&desk);
    let mut early = Reply::raw("").at(When::Head);
    early.acts =
        vec![Act::Drain(64 * 1024), Act::Send(answer("413 Content Too Large", &[], "{}")), Act::Reset];
    desk.on_write(early);
    let mut tunnel = sidecar.billing().tunnel(DESK);
    let told = written(&mut tunnel.wire, &post(DESK, "/v1/files", "application/octet-stream"), false);
    // The reset may overtake its answer, which the agent hears of then.
    assert!([413, 422].contains(&told.status), "{told:?}");
}

/// Who waits for a word before it writes gets the answer in its place.
#[test]
fn what_waits_to_be_asked_for_is_never_asked_for() {
    let desk = Provider::tls(&[DESK]);
    let (_home, sidecar) = serving(&desk);
    for (target, code) in [("/v1/tickets", "oncegate_body_too_large"), ("/v1/nothing", "oncegate_undeclared")]
    {
        let mut tunnel = sidecar.billing().tunnel(DESK);
        let head = post(DESK, target, "application/json");
        tunnel
            .send(format!("{head}\r\nExpect: 100-continue\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes())
            .unwrap();
        let told = tunnel.answer().unwrap();
        assert_eq!(told.header("oncegate-code"), Some(code), "{target}: {told:?}");
    }
}
