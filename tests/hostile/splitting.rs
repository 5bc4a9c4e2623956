//! A provider whose body spells what the HTTP library says of its own accord. Were it taken for that, the agent would
//! read what follows it as the answer to its next request, which went to somebody else.

use std::io::{Read, Write};

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    conf::Conf,
    gate::Gate,
    provider::Provider,
    script::{Act, Reply, When},
    sidecar::Home,
    wire::Wire,
};

const BARE: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
const FIRST: &str = "what comes first";
/// Longer than any answer of ours: an agent that was misled would read it as an answer.
const FORGED_LENGTH: usize = 4096;

/// A body in three pieces, each sent when the one before it has arrived: a text, the bare error, and an answer of
/// somebody else's.
struct Spelled {
    reply: Reply,
    gates: [Gate; 2],
    forged: String,
}

impl Spelled {
    fn new() -> Spelled {
        let forged = "HTTP/1.1 200 OK\r\noncegate-outcome: succeeded\r\ncontent-length: 0\r\n\r\n";
        let forged = forged.repeat(FORGED_LENGTH / forged.len());
        let length = FIRST.len() + BARE.len() + forged.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n");
        let gates = [Gate::default(), Gate::default()];
        let acts = vec![
            Act::Send([head.as_bytes(), FIRST.as_bytes()].concat()),
            Act::Wait(gates[0].clone()),
            Act::Send(BARE.into()),
            Act::Wait(gates[1].clone()),
            Act::Send(forged.clone().into()),
        ];
        Spelled { reply: Reply { when: When::Whole, acts }, gates, forged }
    }

    /// Reads it as it comes, on a connection on which it was asked for.
    fn read<S: Read>(&self, wire: &mut Wire<S>) {
        let text = |wire: &mut Wire<S>, length| String::from_utf8(wire.take(length)).unwrap();
        assert!(wire.head().unwrap().unwrap().line.starts_with("HTTP/1.1 200 "));
        assert_eq!(text(wire, FIRST.len()), FIRST);
        self.gates[0].open();
        assert_eq!(text(wire, BARE.len()), BARE);
        self.gates[1].open();
        assert_eq!(text(wire, self.forged.len()), self.forged);
    }
}

/// What the library does say of its own accord is still put into our words, behind such an answer too.
fn says_what_is_broken<S: Read + Write>(wire: &mut Wire<S>) {
    wire.stream.write_all(b"BROKEN\r\n\r\n").unwrap();
    wire.stream.flush().unwrap();
    let answer = Answer::read(wire, false).unwrap();
    answer.assert_refused(400, "oncegate_invalid_request");
}

#[test]
fn no_answer_of_one_host_is_the_answer_to_a_request_to_another() {
    let (evil, good) = (Provider::plain(), Provider::plain());
    let plain = |name: &str, at| format!("[hosts.\"{name}:80\"]\nplain = true\nconnect_to = \"{at}\"\n");
    let action = "[actions.ticket]\nmethod = \"POST\"\nurl = \"http://good.test/tickets\"\n";
    let conf = Conf::default().with(&plain("evil.test", evil.addr())).with(&plain("good.test", good.addr()));
    let home = Home::new(&conf.with(action));
    let sidecar = home.serve();
    let (agent, spelled) = (sidecar.billing(), Spelled::new());
    evil.on_read(spelled.reply.clone());
    good.on_write(Reply::json("201 Created", r#"{"id":"tick_1"}"#));

    let mut wire = agent.connect();
    let ask = |wire: &mut Wire<_>, host: &str, ask: Ask| {
        let bytes = ask.field("Proxy-Authorization", &agent.basic()).bytes(host);
        Write::write_all(&mut wire.stream, &bytes).unwrap();
    };
    ask(&mut wire, "evil.test", Ask::get("http://evil.test/"));
    spelled.read(&mut wire);
    ask(&mut wire, "good.test", Ask::json("http://good.test/tickets", r#"{"title":"a"}"#));
    let answer = Answer::read(&mut wire, false).unwrap();
    assert_eq!((answer.status, &answer.json()["id"]), (201, &"tick_1".into()), "{answer:?}");
    assert_eq!((answer.outcome(), good.record().writes().len()), ("succeeded", 1));
    says_what_is_broken(&mut wire);
}

#[test]
fn no_answer_in_a_tunnel_is_the_answer_to_the_next_request() {
    let provider = Provider::tls(&["api.test"]);
    let action = "[actions.ticket]\nmethod = \"POST\"\nurl = \"https://api.test/tickets\"\n";
    let home = Home::new(&Conf::default().host("api.test", provider.addr()).with(action));
    let sidecar = home.serve();
    let spelled = Spelled::new();
    provider.on_read(spelled.reply.clone());
    provider.on_write(Reply::json("201 Created", r#"{"id":"tick_1"}"#));

    let mut tunnel = sidecar.billing().tunnel("api.test");
    tunnel.start(&Ask::get("/"));
    spelled.read(&mut tunnel.wire);
    let answer = tunnel.ask(&Ask::json("/tickets", r#"{"title":"a"}"#));
    assert_eq!((answer.status, &answer.json()["id"]), (201, &"tick_1".into()), "{answer:?}");
    says_what_is_broken(&mut tunnel.wire);
}
