//! The harness does what the other tests rely on: a provider that counted wrongly would prove nothing.

use std::{
    io::{ErrorKind, Write},
    net::{SocketAddr, TcpStream},
};

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    dead::Refusing,
    gate::Gate,
    provider::Provider,
    script::{Act, Reply, When},
    stripe::{Stripe, form},
    wait::PATIENCE,
    wire::Wire,
};
use serde_json::json;

fn connect(at: SocketAddr) -> Wire<TcpStream> {
    let tcp = TcpStream::connect(at).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    Wire::new(tcp)
}

fn write(at: SocketAddr, ask: &Ask) -> Wire<TcpStream> {
    let mut wire = connect(at);
    wire.stream.write_all(&ask.bytes("x")).unwrap();
    wire
}

#[test]
fn it_counts_what_arrives() {
    let provider = Provider::plain();
    let mut wire = write(provider.addr(), &Ask::json("/a", "{}"));
    assert_eq!(Answer::read(&mut wire, false).unwrap().status, 200);
    wire.stream.write_all(&Ask::get("/b").bytes("x")).unwrap();
    assert!(Answer::read(&mut wire, false).unwrap().complete);
    let half = Ask::json("/c", "{\"title\":1}").bytes("x");
    let mut other = connect(provider.addr());
    other.stream.write_all(&half[..half.len() - 4]).unwrap();
    drop(other);
    let all = provider.record().wait_for("three requests", |all| all.len() == 3);
    let seen: Vec<_> = all.iter().map(|r| (r.connection, r.target.as_str(), r.complete)).collect();
    assert_eq!(seen, [(0, "/a", true), (0, "/b", true), (1, "/c", false)]);
    assert_eq!((all[0].chunks, provider.record().writes().len(), provider.record().connections()), (1, 2, 2));
}

#[test]
fn two_writes_are_two_chunks() {
    let provider = Provider::plain();
    let bytes = Ask::json("/a", "{\"title\":1}").bytes("x");
    let mut wire = connect(provider.addr());
    wire.stream.write_all(&bytes[..bytes.len() - 4]).unwrap();
    provider.record().wait_for("the head", |all| !all.is_empty());
    wire.stream.write_all(&bytes[bytes.len() - 4..]).unwrap();
    let all = provider.record().wait_writes(1);
    assert_eq!((all[0].chunks, all[0].complete), (2, true));
}

#[test]
fn it_breaks_as_it_is_told() {
    let provider = Provider::plain();
    let ask = Ask::json("/a", "{}");
    provider.on_write(Reply::reset());
    let reset = Answer::read(&mut write(provider.addr(), &ask), false).unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    provider.on_write(Reply::lost());
    let lost = Answer::read(&mut write(provider.addr(), &ask), false).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::UnexpectedEof);
    provider.on_write(Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").then(Act::Close));
    let cut = Answer::read(&mut write(provider.addr(), &ask), false).unwrap();
    assert_eq!((cut.text().as_str(), cut.complete), ("abc", false));
    provider.on_write(
        Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\nzz").then(Act::Fin),
    );
    assert!(!Answer::read(&mut write(provider.addr(), &ask), false).unwrap().complete);
}

#[test]
fn it_waits_for_a_gate_and_answers_early() {
    let provider = Provider::plain();
    let gate = Gate::default();
    provider.on_write(Reply::json("200 OK", "{}").after(&gate));
    let mut wire = write(provider.addr(), &Ask::json("/a", "{}"));
    provider.record().wait_writes(1);
    wire.stream.set_nonblocking(true).unwrap();
    assert_eq!(Answer::read(&mut wire, false).unwrap_err().kind(), ErrorKind::WouldBlock);
    wire.stream.set_nonblocking(false).unwrap();
    gate.open();
    assert_eq!(Answer::read(&mut wire, false).unwrap().status, 200);
    provider.on_write(Reply::json("413 Content Too Large", "{}").at(When::Head).then(Act::Close));
    let bytes = Ask::json("/b", "{\"title\":1}").bytes("x");
    let mut early = connect(provider.addr());
    early.stream.write_all(&bytes[..bytes.len() - 4]).unwrap();
    assert_eq!(Answer::read(&mut early, false).unwrap().status, 413);
}

#[test]
fn a_refusing_port_refuses() {
    let nobody = Refusing::default();
    assert_eq!(TcpStream::connect(nobody.addr()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn stripe_pages_and_loses() {
    let books = Stripe::default();
    for _ in 0..3 {
        books.made_elsewhere("pi_1", 100);
    }
    let parsed = form("metadata%5Ba%5D=b+c&amount=1");
    assert_eq!(parsed, json!({"metadata": {"a": "b c"}, "amount": "1"}));
    let brain: &dyn oncegate_tests::provider::Brain = &books;
    let get = |target: &str| {
        let request = oncegate_tests::record::Request {
            method: "GET".into(),
            target: target.into(),
            complete: true,
            ..Default::default()
        };
        let reply = brain.answer(&request);
        let [Act::Send(bytes)] = &reply.acts[..] else { panic!("one answer") };
        Answer::read(&mut Wire::new(bytes.as_slice()), false).unwrap().json()
    };
    let first = get("/v1/refunds?payment_intent=pi_1&limit=2");
    assert_eq!(
        json!([first["has_more"], first["data"][0]["id"], first["data"][1]["id"]]),
        json!([true, "re_3", "re_2"])
    );
    let second = get("/v1/refunds?payment_intent=pi_1&limit=2&starting_after=re_2");
    assert_eq!(json!([second["has_more"], second["data"][0]["id"]]), json!([false, "re_1"]));
    assert_eq!(get("/v1/refunds?payment_intent=pi_2")["data"], json!([]));
}
