//! WebSockets: only where the operator says so, only after the provider's 101, and never a way around the rules.

use std::{net::SocketAddr, sync::mpsc};

use oncegate_tests::{
    agent::{Ask, Tunnel},
    conf::{CREDENTIAL, Conf},
    gate::Gate,
    script::{Act, Reply},
    wait::PATIENCE,
};

use crate::{
    law::ops,
    shop::{REFUND, Shop},
};

/// The handshake of RFC 6455 section 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

fn with_websockets(at: SocketAddr) -> Conf {
    Conf::default().stripe_host_with_websockets(at).refund("").daily_limit(50_000)
}

fn handshake() -> Ask {
    Ask::get("/v1/socket")
        .field("Upgrade", "websocket")
        .field("Connection", "keep-alive, Upgrade")
        .field("Sec-WebSocket-Version", "13")
        .field("Sec-WebSocket-Key", KEY)
        .field("Sec-WebSocket-Protocol", "chat")
        .field("Sec-WebSocket-Extensions", "permessage-deflate")
}

fn switching(more: &str) -> Reply {
    Reply::raw(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {ACCEPT}\r\n{more}\r\n"
    ))
}

/// A frame from a server: not masked.
fn frame(text: &str) -> Vec<u8> {
    [&[0x81, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

/// A frame from a client, under a mask that the provider gets as it is.
const MASKED: [u8; 8] = [0x81, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2];

fn open(tunnel: &mut Tunnel) {
    tunnel.start(&handshake());
    let head = tunnel.wire.head().unwrap().unwrap();
    assert!(head.line.contains(" 101 "), "{head:?}");
    assert_eq!(head.field("sec-websocket-accept"), Some(ACCEPT));
}

#[test]
fn both_sides_talk_and_the_credential_is_not_heard() {
    let shop = Shop::open_with(with_websockets);
    let sidecar = shop.home.serve_traced();
    let (heard, hears) = mpsc::channel();
    let gate = Gate::default();
    shop.provider.on_read(
        switching("Sec-WebSocket-Protocol: chat\r\n")
            .then(Act::Send(frame("yes")))
            .then(Act::Hear(MASKED.len(), heard))
            .then(Act::Send(frame(&format!("your key is {CREDENTIAL}"))))
            .then(Act::Wait(gate.clone()))
            .then(Act::Close),
    );
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    tunnel.start(&handshake());
    let head = tunnel.wire.head().unwrap().unwrap();
    assert!(head.line.contains(" 101 "), "{head:?}");
    assert_eq!(head.field("sec-websocket-protocol"), Some("chat"));
    assert_eq!(head.field("upgrade"), Some("websocket"));
    // Its last letter begins the credential, and nothing follows it: it is not held back.
    assert_eq!(tunnel.wire.take(5), frame("yes"));
    tunnel.send(&MASKED).unwrap();
    assert_eq!(hears.recv_timeout(PATIENCE).unwrap(), MASKED);
    let said = tunnel.wire.take(2 + 12 + CREDENTIAL.len());
    let said = String::from_utf8_lossy(&said[2..]).into_owned();
    assert!(said.starts_with("your key is {{secret:STRIPE_KEY}}") && !said.contains(CREDENTIAL), "{said}");
    gate.open();
    assert_eq!(tunnel.wire.rest().0, b"", "the provider has closed");

    let asked = shop.provider.record().requests().pop().unwrap();
    assert_eq!(asked.head.field("authorization"), Some(format!("Bearer {CREDENTIAL}").as_str()));
    assert_eq!(asked.head.field("upgrade"), Some("websocket"));
    assert_eq!(asked.head.field("sec-websocket-key"), Some(KEY));
    assert_eq!(asked.head.field("sec-websocket-extensions"), None, "packed messages cannot be searched");
}

#[test]
fn a_host_takes_none_unless_the_operator_says_so() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    let refused = tunnel.ask(&handshake());
    refused.assert_refused(403, "oncegate_undeclared");
    assert!(refused.reason.contains("WebSockets"), "{refused:?}");
    assert_eq!(shop.provider.record().requests().len(), 0);
    // An offer of another protocol is passed over, as a server may.
    let offer =
        Ask::get("/v1/refunds").field("Upgrade", "h2c").field("Connection", "Upgrade, HTTP2-Settings");
    assert_eq!(tunnel.ask(&offer.field("HTTP2-Settings", "AAMAAABk")).status, 200);
    let asked = shop.provider.record().requests().pop().unwrap();
    assert_eq!((asked.head.field("upgrade"), asked.head.field("http2-settings")), (None, None));
    // With another method it is no handshake, and means what it means without the offer.
    let write = Ask::refund(REFUND).field("Upgrade", "websocket").field("Connection", "Upgrade");
    assert_eq!(tunnel.ask(&write).outcome(), "succeeded");
    assert_eq!(shop.provider.record().writes()[0].head.field("upgrade"), None);
}

/// What an agent writes behind its handshake is a request for as long as the provider has not switched.
#[test]
fn nothing_is_switched_before_the_provider_has() {
    let shop = Shop::open_with(with_websockets);
    let sidecar = shop.home.serve();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    for refusal in [
        "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
    ] {
        shop.provider.on_read(Reply::raw(refusal));
        let smuggled = Ask::form("/v1/customers", "name=smuggled").bytes("api.stripe.com");
        tunnel.send(&[handshake().bytes("api.stripe.com"), smuggled].concat()).unwrap();
        let answer = tunnel.answer().unwrap();
        assert_eq!(answer.text(), "no", "the provider's own answer: {answer:?}");
        assert_eq!(answer.header("upgrade"), None);
        tunnel.answer().unwrap().assert_refused(403, "oncegate_undeclared");
    }
    assert_eq!(tunnel.ask(&Ask::refund(REFUND)).outcome(), "succeeded", "both connections are in step");
    let all = String::from_utf8_lossy(&shop.provider.record().all_bytes()).into_owned();
    assert!(!all.contains("smuggled"), "{all}");
    assert_eq!(shop.writes(), 1);
}

#[test]
fn what_is_no_handshake_and_what_is_no_answer_to_it_is_refused() {
    let shop = Shop::open_with(with_websockets);
    let sidecar = shop.home.serve();
    let without = |name: &str| {
        let mut ask = handshake();
        ask.fields.retain(|(each, _)| each != name);
        ask
    };
    for ask in [
        without("Sec-WebSocket-Key"),
        without("Sec-WebSocket-Version").field("Sec-WebSocket-Version", "8"),
        without("Sec-WebSocket-Key").field("Sec-WebSocket-Key", "c2hvcnQ="),
        handshake().field("Sec-WebSocket-Key", KEY),
        handshake().body("x"),
    ] {
        let refused = sidecar.billing().ask("api.stripe.com", &ask);
        refused.assert_refused(400, "oncegate_invalid_request");
    }
    assert_eq!(shop.provider.record().requests().len(), 0);
    for reply in [
        switching("Sec-WebSocket-Extensions: permessage-deflate\r\n"),
        Reply::raw(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n",
        ),
        Reply::raw(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {ACCEPT}\r\n\r\n"
        )),
        Reply::lost(),
    ] {
        shop.provider.on_read(reply);
        sidecar.billing().ask("api.stripe.com", &handshake()).assert_own(422, "oncegate_not_sent");
    }
    let plain = sidecar.billing().ask("api.stripe.com", &Ask::get("/v1/refunds"));
    assert_eq!(plain.status, 200, "{plain:?}");
}

#[test]
fn a_halt_ends_an_open_one_and_opens_none() {
    let shop = Shop::open_with(with_websockets);
    let sidecar = shop.home.serve();
    let ended = Gate::default();
    shop.provider.on_read(switching("").then(Act::UntilEnd(ended.clone())));
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    open(&mut tunnel);
    let halted = ops(&shop.home, &sidecar, &["halt", "--reason", "duplicate refunds reported"]);
    assert_eq!(halted.code, 0, "{halted:?}");
    tunnel.wire.rest();
    assert!(ended.pass(), "the provider is told too");
    sidecar.billing().ask("api.stripe.com", &handshake()).assert_refused(403, "oncegate_halted");
    let read = sidecar.billing().ask("api.stripe.com", &Ask::get("/v1/refunds"));
    assert_eq!(read.status, 200, "other reads go on: {read:?}");
}

#[test]
fn a_frame_that_cannot_be_searched_ends_it() {
    let shop = Shop::open_with(with_websockets);
    let sidecar = shop.home.serve();
    let ended = Gate::default();
    let packed = [&[0xc1, 3][..], b"abc"].concat();
    shop.provider.on_read(switching("").then(Act::Send(packed)).then(Act::UntilEnd(ended.clone())));
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    open(&mut tunnel);
    assert_eq!(tunnel.wire.rest().0, b"", "nothing of it is shown");
    assert!(ended.pass());
    // A stop does not wait for sockets that nobody closes.
    shop.provider.on_read(switching("").then(Act::UntilEnd(Gate::default())));
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    open(&mut tunnel);
    assert_eq!(sidecar.stop(), 0);
}
