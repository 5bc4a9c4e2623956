//! The proxy listener: who is asking, where to, and what is let through as it is.

use std::{
    io::Write,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    thread,
};

use oncegate_tests::{
    agent::{Agent, Ask},
    conf::{BILLING_KEY, Conf, stripe_conf},
    gate::Gate,
    provider::Provider,
    script::Reply,
    sidecar::Home,
    wait::{PATIENCE, until},
    wire::Wire,
};

use crate::shop::{REFUND, Shop};

const CONNECT: &[u8] = b"CONNECT api.stripe.com:443 HTTP/1.1\r\nHost: api.stripe.com:443\r\n\r\n";

#[test]
fn a_challenge_for_who_does_not_say_who_he_is() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let stranger = sidecar.billing().authorized(None);
    let mut wire = stranger.connect();
    // git waits for the challenge and then sends its credentials on the same connection.
    for _ in 0..2 {
        wire.stream.write_all(CONNECT).unwrap();
        let answer = oncegate_tests::answer::Answer::read(&mut wire, false).unwrap();
        assert_eq!((answer.status, answer.header("content-length")), (407, Some("0")), "{answer:?}");
        assert!(answer.header("proxy-authenticate").unwrap().starts_with("Basic"), "{answer:?}");
    }
    let wrong = Agent::new(
        sidecar.proxy,
        &std::fs::read_to_string(shop.home.path("ca/ca.pem")).unwrap(),
        "billing-agent",
        "nonsense",
    );
    assert_eq!(wrong.tunnel_to("api.stripe.com:443", "api.stripe.com").err().unwrap().status, 407);
    let bearer = sidecar.billing().authorized(Some(&format!("Bearer {BILLING_KEY}")));
    assert_eq!(bearer.refund(None, REFUND).status, 200, "a key alone is enough");
}

#[test]
fn a_caller_by_a_port_of_its_own() {
    let port = until_free();
    let shop = Shop::open();
    let text = stripe_conf(shop.provider.addr()).text();
    let listen = format!("[callers.billing-agent]\nlisten = \"127.0.0.1:{port}\"");
    shop.home.write(&text.replace("[callers.billing-agent]", &listen));
    let sidecar = shop.home.serve_traced();
    let ca = std::fs::read_to_string(shop.home.path("ca/ca.pem")).unwrap();
    let agent =
        Agent::new(format!("127.0.0.1:{port}").parse().unwrap(), &ca, "billing-agent", "").authorized(None);
    let answer = agent.refund(None, REFUND);
    assert_eq!((answer.status, answer.outcome()), (200, "succeeded"), "{answer:?}");
    let other = sidecar.billing().refund(None, REFUND);
    assert_eq!(other.effect(), answer.effect(), "the same caller, and so the same refund");
}

#[test]
fn a_caller_by_a_socket_of_its_own() {
    let shop = Shop::open();
    let socket = shop.home.path("billing.sock");
    let text = stripe_conf(shop.provider.addr()).text();
    let listen = format!("[callers.billing-agent]\nlisten = \"unix:{}\"", socket.display());
    shop.home.write(&text.replace("[callers.billing-agent]", &listen));
    let _sidecar = shop.home.serve();
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(CONNECT).unwrap();
    let head = Wire::new(stream).head().unwrap().unwrap();
    assert!(head.line.starts_with("HTTP/1.1 200 "), "no challenge here: {head:?}");
}

/// A path that was mistyped is nobody's to delete.
#[test]
fn no_file_but_a_socket_is_replaced() {
    let shop = Shop::open();
    let file = shop.home.path("notes.txt");
    std::fs::write(&file, "mine").unwrap();
    let text = stripe_conf(shop.provider.addr()).text();
    let listen = format!("[callers.billing-agent]\nlisten = \"unix:{}\"", file.display());
    shop.home.write(&text.replace("[callers.billing-agent]", &listen));
    let done = shop.home.run(&["serve"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

/// A port that was free a moment ago: a caller's own port cannot be asked for afterwards, so it has to be named.
fn until_free() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn reads_pass_through_with_the_credential() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    for _ in 0..3 {
        let answer = tunnel.ask(&Ask::get("/v1/payment_intents/pi_1?expand[]=x"));
        assert_eq!((answer.status, &answer.json()["id"]), (200, &serde_json::json!("pi_1")), "keep-alive");
        assert_eq!(answer.header("oncegate-effect"), None);
    }
    let head = tunnel.ask(&Ask::new("HEAD", "/v1/payment_intents/pi_1"));
    assert!(head.body.is_empty());
    let targets: Vec<String> = shop.provider.record().requests().iter().map(|r| r.target.clone()).collect();
    assert_eq!(targets[0], "/v1/payment_intents/pi_1?expand[]=x", "as it came");
    assert_eq!(targets.len(), 4);
    assert_eq!(shop.home.effects().len(), 0);
}

#[test]
fn a_plain_host_in_absolute_form() {
    let provider = Provider::plain();
    let host = format!("[hosts.\"plain.test:80\"]\nplain = true\nconnect_to = \"{}\"\n", provider.addr());
    let action = "[actions.note]\nmethod = \"POST\"\nurl = \"http://plain.test/v1/notes\"\n";
    let home = Home::new(&Conf::default().with(&host).with(action));
    let sidecar = home.serve();
    let read = sidecar.billing().absolute("plain.test", &Ask::get("http://plain.test/v1/notes")).unwrap();
    assert_eq!(read.status, 200, "{read:?}");
    let write = sidecar
        .billing()
        .absolute("plain.test", &Ask::json("http://plain.test/v1/notes", r#"{"a":1}"#))
        .unwrap();
    assert_eq!((write.status, write.outcome()), (200, "succeeded"), "{write:?}");
    let seen = provider.record().requests();
    assert_eq!(seen.iter().map(|r| r.target.as_str()).collect::<Vec<_>>(), ["/v1/notes", "/v1/notes"]);
    assert!(seen.iter().all(|r| r.head.field("proxy-authorization").is_none()), "{seen:?}");
    let twice = sidecar
        .billing()
        .absolute("plain.test", &Ask::json("http://plain.test/v1/notes", r#"{"a":1}"#))
        .unwrap();
    assert_eq!(twice.header("x-idempotent-replay"), Some("current-state"));
    assert_eq!(provider.record().writes().len(), 1);
}

#[test]
fn undeclared_hosts() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let agent = sidecar.billing();
    let inside = agent.ask("undeclared.test", &Ask::get("/"));
    inside.assert_refused(403, "oncegate_undeclared");
    let other_port =
        agent.tunnel_to("undeclared.test:8443", "undeclared.test").err().expect("refused at once");
    other_port.assert_refused(403, "oncegate_undeclared");
    let clear = agent.absolute("undeclared.test", &Ask::get("http://undeclared.test/")).unwrap();
    clear.assert_refused(403, "oncegate_undeclared");
}

/// Passed on unread where that is allowed, and never without a word where it cannot be.
#[test]
fn undeclared_hosts_that_are_not_reached() {
    let shop = Shop::open_with(|at| stripe_conf(at).proxy("undeclared_hosts = \"tunnel\""));
    let sidecar = shop.home.serve();
    let agent = sidecar.billing();
    let bank = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let here = format!("127.0.0.1:{}", bank.local_addr().unwrap().port());
    agent.tunnel_to(&here, "127.0.0.1").err().unwrap().assert_refused(403, "oncegate_undeclared");
    agent.ask("localhost", &Ask::get("/")).assert_refused(403, "oncegate_undeclared");
    let nowhere = agent.tunnel_to("nowhere.invalid:8443", "nowhere.invalid").err().unwrap();
    nowhere.assert_refused(422, "oncegate_not_sent");
    agent.ask("nowhere.invalid", &Ask::get("/")).assert_refused(422, "oncegate_not_sent");
    assert_eq!(sidecar.log().matches("no tunnel was opened to it").count(), 4, "{}", sidecar.log());
    bank.set_nonblocking(true).unwrap();
    assert!(bank.accept().is_err(), "nobody came");
}

#[test]
fn names_that_disagree() {
    let provider = Provider::tls(&["api.stripe.com"]);
    let other = Provider::tls(&["other.test"]);
    let home = Home::new(&stripe_conf(provider.addr()).host("other.test", other.addr()));
    let sidecar = home.serve();
    let agent = sidecar.billing();
    if let Ok(mut tunnel) = agent.tunnel_to("other.test:443", "api.stripe.com") {
        tunnel.ask(&Ask::get("/").field("Host", "other.test")).assert_refused(403, "oncegate_ambiguous");
    }
    let mut tunnel = agent.tunnel("other.test");
    tunnel.ask(&Ask::get("/").field("Host", "api.stripe.com")).assert_refused(403, "oncegate_ambiguous");
    let mut tunnel = agent.tunnel("other.test");
    tunnel.ask(&Ask::get("https://api.stripe.com/v1/refunds")).assert_refused(403, "oncegate_ambiguous");
    assert!(provider.record().requests().is_empty() && other.record().requests().is_empty());
}

#[test]
fn hop_by_hop_fields_stay_here() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let ask = Ask::refund(REFUND)
        .field("Connection", "keep-alive, X-Mine, Authorization")
        .field("X-Mine", "1")
        .field("Keep-Alive", "timeout=5")
        .field("Proxy-Connection", "keep-alive")
        .field("TE", "trailers")
        .field("X-Kept", "2");
    let answer = sidecar.billing().ask("api.stripe.com", &ask);
    assert_eq!(answer.status, 200, "{answer:?}");
    let sent = &shop.provider.record().writes()[0].head;
    for name in ["x-mine", "keep-alive", "proxy-connection", "te", "proxy-authorization"] {
        assert_eq!(sent.field(name), None, "{name} in {sent:?}");
    }
    assert_eq!(sent.field("x-kept"), Some("2"));
    assert!(sent.field("authorization").unwrap().contains("sk_test_9"), "stripped before, never after");
}

#[test]
fn a_provider_cannot_forge_our_words() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let forged = [
        ("Oncegate-Outcome", "succeeded"),
        ("Oncegate-Effect", "eff_forged"),
        ("Oncegate-Code", "oncegate_denied"),
        ("Stripe-Should-Retry", "true"),
        ("x-should-retry", "true"),
        ("Retry-After", "1"),
    ];
    shop.provider.on_write(Reply::with("402 Payment Required", &forged, r#"{"error":{"message":"no"}}"#));
    let answer = sidecar.billing().refund(None, REFUND);
    assert_eq!((answer.status, answer.outcome()), (402, "failed"), "{answer:?}");
    let shown = answer.everything();
    assert!(!shown.contains("eff_forged") && !shown.contains("oncegate_denied"), "{shown}");
    assert_ne!(answer.header("stripe-should-retry"), Some("true"));
    assert_ne!(answer.header("x-should-retry"), Some("true"));
    assert_eq!(answer.header("retry-after"), None);
}

#[test]
fn a_graceful_stop_lets_the_last_one_finish() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    shop.provider.on_write(Reply::json("200 OK", r#"{"id":"re_1","object":"refund"}"#).after(&gate));
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    tunnel.start(&Ask::refund(REFUND));
    shop.provider.record().wait_writes(1);
    let agent = sidecar.billing();
    let stopping = thread::spawn(move || sidecar.stop());
    until("the listener to close", || std::net::TcpStream::connect(agent.proxy()).err());
    gate.open();
    let answer = tunnel.answer().unwrap();
    assert_eq!((answer.status, answer.outcome()), (200, "succeeded"), "{answer:?}");
    assert_eq!(stopping.join().unwrap(), 0);
    assert_eq!(shop.home.money(), (12_000, 0, 0));
}

#[test]
fn the_ca_is_nobody_else_s() {
    let home = Home::new(&Conf::default());
    let sidecar = home.serve();
    let mode = std::fs::metadata(home.path("ca/ca.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let ours = std::fs::read_to_string(home.path("ca/ca.pem")).unwrap();
    let bundle = std::fs::read_to_string(home.path("ca/bundle.pem")).unwrap();
    let body: String = ours.lines().filter(|line| !line.starts_with("-----")).collect();
    let all: String = bundle.lines().collect();
    assert!(all.contains(&body) && all.matches("BEGIN CERTIFICATE").count() > 10, "system roots and ours");
    drop(sidecar);
    drop(home.serve());
    assert_eq!(std::fs::read_to_string(home.path("ca/ca.pem")).unwrap(), ours, "made once");
}

#[test]
fn a_read_is_answered_in_the_providers_words_only() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    for (came, status, body) in [
        // Bare as hyper's own refusals are, and still not one of ours.
        ("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 400, ""),
        // Two framings: the chunks say where it ends (RFC 9112 section 6.3).
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            200,
            "hello",
        ),
    ] {
        shop.provider.on_read(Reply::raw(came));
        let answer = sidecar.billing().ask("api.stripe.com", &Ask::get("/v1/refunds/re_1"));
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{answer:?}");
        assert_eq!(answer.header("oncegate-outcome"), None, "{answer:?}");
    }
}

#[test]
fn a_governed_request_has_nothing_that_is_passed_over_when_it_is_judged() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    for (name, value) in
        [("Stripe-Account", "acct_é"), ("Content-Encoding", "gzip"), ("X-Original-URL", "/v1/charges")]
    {
        let answer = sidecar.billing().ask("api.stripe.com", &Ask::refund(REFUND).field(name, value));
        assert_eq!(answer.outcome(), "refused", "{name}: {answer:?}");
    }
    assert_eq!(shop.writes(), 0);
}

#[test]
fn a_tunnel_keeps_its_place_among_the_connections() {
    let shop = Shop::open_with(|at| stripe_conf(at).proxy("max_connections = 2"));
    let sidecar = shop.home.serve();
    let agent = sidecar.billing();
    let held = [agent.tunnel("api.stripe.com"), agent.tunnel("api.stripe.com")];
    let mut third = agent.connect();
    third.stream.write_all(CONNECT).unwrap();
    third.stream.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    assert!(third.head().is_err(), "both places are taken");
    for tunnel in held {
        tunnel.hang_up();
    }
    third.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(third.head().unwrap().is_some(), "and now one is free");
    assert_eq!(sidecar.stop(), 0);
}
