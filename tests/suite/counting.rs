//! A provider that counts: one TCP write of one request per effect, whatever happens on the wire.

use oncegate_tests::{
    agent::Ask,
    gate::Gate,
    provider::Provider,
    script::{Act, Reply, When},
    sidecar::Home,
    wait::until,
};

use crate::shop::{DESK, desk_conf, ticket};

/// The provider saw exactly these many requests, each whole, each in one piece, and no byte besides.
#[track_caller]
fn each_once(provider: &Provider, home: &Home, count: usize) {
    let all = provider.record().requests();
    assert_eq!(all.len(), count, "{all:?}");
    for request in &all {
        assert!(request.complete && request.is_write(), "{request:?}");
        assert!(request.chunks <= 1, "written in {} pieces: {request:?}", request.chunks);
        let effect = all.iter().filter(|other| other.body == request.body).count();
        assert_eq!(effect, 1, "the same body twice: {request:?}");
    }
    assert_eq!(home.effects().len(), count, "one effect per request");
    let bytes = String::from_utf8_lossy(&provider.record().all_bytes()).into_owned();
    assert_eq!(bytes.matches("POST /v1/tickets HTTP/1.1\r\n").count(), count, "in the raw bytes: {bytes}");
}

fn desk() -> (Provider, Home) {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()));
    (provider, home)
}

fn open_ticket(title: &str) -> Ask {
    Ask::json("/v1/tickets", &ticket(title))
}

/// One request that comes to an unknown end, and three repeats of it.
#[track_caller]
fn lost_once(reply: Reply) {
    let (provider, home) = desk();
    let sidecar = home.serve();
    provider.on_write(reply);
    for _ in 0..4 {
        sidecar.billing().ask(DESK, &open_ticket("lost")).assert_unknown();
    }
    drop(sidecar);
    let sidecar = home.serve();
    sidecar.billing().ask(DESK, &open_ticket("lost")).assert_unknown();
    each_once(&provider, &home, 1);
}

#[test]
fn reset_after_the_request() {
    lost_once(Reply::reset());
}

#[test]
fn a_5xx() {
    lost_once(Reply::with("503 Service Unavailable", &[("Retry-After", "0")], "{}"));
}

#[test]
fn a_garbled_answer() {
    lost_once(
        Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a length\r\n").then(Act::Close),
    );
}

#[test]
fn closed_without_a_word() {
    lost_once(Reply::lost());
}

#[test]
fn keep_alive_closed_under_us() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let mut tunnel = sidecar.billing().tunnel(DESK);
    // Each answer is followed by a close. Whichever way the race goes, each ticket is written at most once.
    for number in 0..20 {
        provider.on_write(Reply::json("200 OK", "{}").then(Act::Close));
        let answer = tunnel.ask(&open_ticket(&format!("number {number}")));
        assert!([200, 422].contains(&answer.status), "{answer:?}");
    }
    let writes = provider.record().writes();
    let mut bodies: Vec<String> = writes.iter().map(oncegate_tests::record::Request::text).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), writes.len(), "a ticket was written twice");
    assert!(writes.iter().all(|w| w.complete && w.chunks <= 1), "{writes:?}");
    assert_eq!(home.effects().len(), 20);
}

#[test]
fn slow_answer_with_the_client_gone() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let gate = Gate::default();
    provider.on_write(Reply::json("200 OK", "{}").after(&gate));
    let mut first = sidecar.billing().tunnel(DESK);
    first.start(&open_ticket("slow"));
    provider.record().wait_writes(1);
    first.hang_up();
    // The client comes back, as clients do, while the first is still on its way: it joins.
    let mut second = sidecar.billing().tunnel(DESK);
    second.start(&open_ticket("slow"));
    gate.open();
    let answer = second.answer().unwrap();
    assert_eq!((answer.status, answer.outcome()), (200, "succeeded"), "{answer:?}");
    until("the effect to settle", || Some(()).filter(|()| home.effects()[0]["outcome"] == "succeeded"));
    each_once(&provider, &home, 1);
}

#[test]
fn many_on_one_connection() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let mut tunnel = sidecar.billing().tunnel(DESK);
    for number in 0..10 {
        assert_eq!(tunnel.ask(&open_ticket(&format!("number {number}"))).status, 200);
    }
    each_once(&provider, &home, 10);
}

/// Reads share a connection to the provider: an answer of known length gives it back.
#[test]
fn reads_share_a_connection() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    for number in 0..10 {
        let answer = sidecar.billing().ask(DESK, &Ask::get(&format!("/v1/tickets/{number}")));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let connections = provider.record().connections();
    assert!(connections <= 3, "{connections} connections for 10 reads, one after the other");
}

/// The next request would wait behind a body that its provider does not read: it gets a connection of its own.
#[test]
fn nothing_is_sent_behind_a_body_that_is_still_on_its_way() {
    let provider = Provider::tls(&[DESK]);
    let conf = desk_conf(provider.addr()).timing("5s", "10s").proxy("max_request_body = \"16MiB\"");
    let home = Home::new(&conf);
    let sidecar = home.serve();
    let gate = Gate::default();
    let early = Reply::json("413 Content Too Large", "{}").at(When::Head).then(Act::Wait(gate.clone()));
    provider.on_write(early);
    let large = format!(r#"{{"title":"large","note":"{}"}}"#, "x".repeat(12_000_000));
    let first = sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &large));
    let second = sidecar.billing().ask(DESK, &open_ticket("small"));
    gate.open();
    assert_eq!((first.status, second.status), (413, 200), "{second:?}");
}
