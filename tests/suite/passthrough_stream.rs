//! What is passed on streams: event by event, of any length, both ways, and no more of it is held than has to be.

use std::{fs, io::Write, net::TcpListener, sync::mpsc, thread};

use oncegate_tests::{
    agent::Ask,
    conf::{CREDENTIAL, Conf},
    gate::Gate,
    provider::{Provider, flood},
    script::{Act, Reply, When},
    sidecar::{Home, Sidecar},
    wait::PATIENCE,
    wire::Wire,
};

use crate::shop::{DESK, Shop};

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const MIB: usize = 1024 * 1024;

fn chunk(text: &str) -> Act {
    Act::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

/// Kilobytes of memory that a process has had at most.
fn peak_kib(sidecar: &Sidecar) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", sidecar.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The provider writes an event only when the agent has read the one before. One of them is cut inside the secret; what
/// comes before it is not held back with it.
#[test]
fn events_reach_the_agent_one_by_one() {
    let shop = Shop::open();
    let gates = [Gate::default(), Gate::default(), Gate::default()];
    let (before, after) = CREDENTIAL.split_at(9);
    shop.provider.on_read(
        Reply::raw(CHUNKED)
            .then(chunk("data: 1\n\n"))
            .then(Act::Wait(gates[0].clone()))
            .then(chunk(&format!("data: 2\n\ndata: {before}")))
            .then(Act::Wait(gates[1].clone()))
            .then(chunk(&format!("{after}\n\n")))
            .then(Act::Wait(gates[2].clone()))
            .then(chunk("data: s"))
            .then(Act::Send(b"0\r\n\r\n".to_vec())),
    );
    let sidecar = shop.home.serve();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    tunnel.start(&Ask::get("/v1/events"));
    assert!(tunnel.wire.head().unwrap().unwrap().line.contains(" 200 "));
    for (sent, gate) in ["data: 1\n\n", "data: 2\n\ndata: ", "{{secret:STRIPE_KEY}}\n\n"].iter().zip(&gates) {
        assert_eq!(String::from_utf8(tunnel.wire.chunk().unwrap()).unwrap(), *sent);
        gate.open();
    }
    // "s" begins the secret: it goes when the end shows that it was none.
    let (rest, _) = tunnel.wire.chunked();
    assert_eq!(String::from_utf8(rest).unwrap(), "data: s");
}

/// 256 MiB, and the agent reads nothing until the provider is stuck: only so much was taken from it as buffers hold.
#[test]
fn a_large_download_waits_for_its_reader() {
    const PLAIN: &str = "files.test";
    const SIZE: usize = 256 * MIB;
    let provider = Provider::plain();
    let secret = format!(
        "[secrets.KEY]\nfrom = {{ env = \"STRIPE_SECRET_KEY\" }}\nallowed_hosts = [\"{PLAIN}\"]\n\n\
         [hosts.\"{PLAIN}:80\"]\nconnect_to = \"{}\"\ncredential = {{ header = \"Authorization\", value = \"{{{{secret:KEY}}}}\" }}\n",
        provider.addr()
    );
    let home = Home::new(&Conf::default().with(&secret));
    let sidecar = home.serve();
    let (stuck, until_stuck) = mpsc::channel();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n");
    let piece: Vec<u8> =
        (0..64 * 1024_usize).map(|at| b"0123456789 none of it is secret\n"[at % 32]).collect();
    let times = SIZE / piece.len();
    provider.on_read(Reply::raw(head).then(Act::FloodUntilStuck(piece.clone(), times, stuck)));
    let before = peak_kib(&sidecar);

    let mut wire = sidecar.billing().connect();
    let ask =
        Ask::get(&format!("http://{PLAIN}/large")).field("Proxy-Authorization", &sidecar.billing().basic());
    wire.stream.write_all(&ask.bytes(PLAIN)).unwrap();
    let head = wire.head().unwrap().unwrap();
    assert_eq!(head.field("content-length"), Some(SIZE.to_string().as_str()), "the length is kept: {head:?}");
    let gone = until_stuck.recv_timeout(PATIENCE).expect("nobody reads, so it is stuck");
    assert!(gone < 64 * MIB, "{gone} bytes went to nobody");

    let mut at = 0;
    let same = |bytes: &[u8]| {
        // The piece is made of lines of 32 bytes: it fits to itself at each of them.
        for part in bytes.chunks(piece.len() - 32) {
            assert!(*part == piece[at % 32..][..part.len()], "after {at} bytes");
            at += part.len();
        }
    };
    assert_eq!(wire.skim(SIZE as u64, same), SIZE as u64);
    let grew = peak_kib(&sidecar) - before;
    assert!(grew < 24 * 1024, "it took {grew} KiB more than at rest");
}

/// An action that is not governed, and a kind of body that is not read: what has arrived goes on while the rest is
/// still to come, although it is far larger than `max_request_body`.
#[test]
fn a_large_upload_streams_through_an_action_that_is_not_governed() {
    const SIZE: usize = 24 * MIB;
    let desk = Provider::tls(&[DESK]);
    let upload =
        format!("[actions.upload]\nmethod = \"POST\"\nurl = \"https://{DESK}/v1/files\"\ngoverned = false\n");
    let home = Home::new(&Conf::default().host(DESK, desk.addr()).with(&upload));
    let sidecar = home.serve();
    let first_part = Gate::default();
    let mut reply = Reply::raw("").at(When::Head);
    reply.acts = vec![
        Act::Drain(64 * 1024),
        Act::CheckIn(first_part.clone()),
        Act::Drain((SIZE - 64 * 1024) as u64),
        Act::Send(oncegate_tests::script::answer("201 Created", &[], "{}")),
    ];
    desk.on_write(reply);
    let mut tunnel = sidecar.billing().tunnel(DESK);
    let head = format!(
        "POST /v1/files HTTP/1.1\r\nHost: {DESK}\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: {SIZE}\r\n\r\n"
    );
    tunnel.send(head.as_bytes()).unwrap();
    let piece = vec![b'.'; MIB];
    tunnel.send(&piece).unwrap();
    assert!(first_part.pass(), "the provider reads while the agent still writes");
    for _ in 1..SIZE / MIB {
        tunnel.send(&piece).unwrap();
    }
    let answer = tunnel.answer().unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let seen = desk.record().writes();
    assert_eq!(seen[0].head.field("content-length"), Some(SIZE.to_string().as_str()));
    assert_eq!(seen[0].head.field("transfer-encoding"), None);
    assert!(peak_kib(&sidecar) < 512 * 1024);

    // The same action with a kind of body that is read: bounded, and refused if it says two things.
    let twice = Ask::json("/v1/files", r#"{"a":1,"a":2}"#);
    sidecar.billing().ask(DESK, &twice).assert_refused(400, "oncegate_invalid_input");
    assert_eq!(desk.record().writes().len(), 1);
}

/// The provider answers until nobody takes any more of it, and then takes the upload while it goes on answering; the agent
/// reads nothing before it has sent all.
#[test]
fn an_upload_goes_on_while_nobody_reads_its_answer() {
    const PLAIN: &str = "files.test";
    const UPLOAD: usize = 32 * MIB;
    const ANSWER: usize = 64 * MIB;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let conf = format!(
        "[hosts.\"{PLAIN}:80\"]\nconnect_to = \"{}\"\n\n\
         [actions.upload]\nmethod = \"POST\"\nurl = \"http://{PLAIN}/v1/files\"\ngoverned = false\n",
        listener.local_addr().unwrap()
    );
    let home = Home::new(&Conf::default().with(&conf));
    let sidecar = home.serve();
    let provider = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answers = stream.try_clone().unwrap();
        let mut asked = Wire::shown_secrets(stream, "the provider");
        asked.head().unwrap().unwrap();
        let (stuck, until_stuck) = mpsc::channel();
        let answering = thread::spawn(move || {
            write!(answers, "HTTP/1.1 200 OK\r\nContent-Length: {ANSWER}\r\n\r\n").unwrap();
            flood(&answers, &vec![b'a'; MIB], ANSWER / MIB, &stuck)
        });
        until_stuck.recv_timeout(PATIENCE).expect("nobody reads, so it is stuck");
        let taken = asked.skim(UPLOAD as u64, |_| {});
        assert!(answering.join().unwrap());
        taken
    });
    let mut wire = sidecar.billing().connect();
    let basic = sidecar.billing().basic();
    write!(
        wire.stream,
        "POST http://{PLAIN}/v1/files HTTP/1.1\r\nHost: {PLAIN}\r\nProxy-Authorization: {basic}\r\n\
         Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {UPLOAD}\r\n\r\n"
    )
    .unwrap();
    wire.stream.write_all(&vec![b'u'; UPLOAD]).expect("all of it is taken before any of the answer is read");
    let head = wire.head().unwrap().unwrap();
    assert!(head.line.contains(" 200 "), "{head:?}");
    assert_eq!(wire.skim(ANSWER as u64, |_| {}), ANSWER as u64);
    assert_eq!(provider.join().unwrap(), UPLOAD as u64);
}

/// Answers whose framing says something of its own.
#[test]
fn lengths_parts_and_answers_without_a_body_are_passed_on_as_they_are() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    let part = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-5/10\r\nETag: \"v1\"\r\nContent-Length: 4\r\n\r\n2345";
    shop.provider.on_read(Reply::raw(part));
    let ask = Ask::get("/v1/files/1").field("Range", "bytes=2-5").field("If-Range", "\"v1\"");
    let answer = tunnel.ask(&ask);
    assert_eq!((answer.status, answer.text().as_str(), answer.complete), (206, "2345", true));
    assert_eq!(answer.header("content-range"), Some("bytes 2-5/10"));
    assert_eq!(answer.header("etag"), Some("\"v1\""));
    let asked = shop.provider.record().requests().pop().unwrap();
    assert_eq!(asked.head.field("range"), Some("bytes=2-5"));
    assert_eq!(asked.head.field("if-range"), Some("\"v1\""));

    shop.provider.on_read(Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 4711\r\n\r\n"));
    let answer = tunnel.ask(&Ask::new("HEAD", "/v1/files/1"));
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("4711")), "{answer:?}");
    shop.provider
        .on_read(Reply::raw("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nContent-Length: 10\r\n\r\n"));
    let answer = tunnel.ask(&Ask::get("/v1/files/1").field("If-None-Match", "\"v1\""));
    assert_eq!((answer.status, answer.header("etag")), (304, Some("\"v1\"")), "{answer:?}");
    shop.provider.on_read(Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"));
    let answer = tunnel.ask(&Ask::get("/v1/files/1"));
    assert_eq!((answer.status, answer.header("transfer-encoding")), (204, None), "{answer:?}");
    // Each answer ended where it ended: the connections are in step.
    let answer = tunnel.ask(&Ask::get("/v1/refunds"));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(shop.provider.record().connections(), 1);
}

/// The credential in a field, in the reason phrase, percent-encoded in a link, and in an answer that is cut in two.
#[test]
fn fields_and_reason_phrase_carry_no_credential() {
    let shop = Shop::open();
    let sidecar = shop.home.serve_traced();
    let escaped: String = CREDENTIAL.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let partly = CREDENTIAL.replace('_', "%5F");
    shop.provider.on_read(Reply::raw(format!(
        "HTTP/1.1 200 Hello {CREDENTIAL}\r\nLink: </next?key={partly}>\r\nX-Key: {CREDENTIAL}\r\nX-Key: b={CREDENTIAL}\r\n\
         Set-Cookie: k={CREDENTIAL}; Path=/\r\nContent-Length: 2\r\n\r\nok"
    )));
    let answer = sidecar.billing().ask("api.stripe.com", &Ask::get("/v1/refunds"));
    let shown = answer.everything();
    for spelling in [CREDENTIAL, &escaped, &partly] {
        assert!(!shown.contains(spelling), "{shown}");
    }
    assert!(!answer.reason.contains(CREDENTIAL) && answer.reason.starts_with("Hello"), "{answer:?}");
    assert_eq!(answer.header("link"), Some("</next?key={{secret:STRIPE_KEY}}>"));
    assert_eq!(answer.header("set-cookie"), Some("k={{secret:STRIPE_KEY}}; Path=/"));
    assert_eq!(shown.matches("{{secret:STRIPE_KEY}}").count(), 5, "{shown}");
}

/// Several agents, one of which does not read: the others are served.
#[test]
fn who_does_not_read_holds_up_nobody_else() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 32 * MIB);
    shop.provider.on_read(Reply::raw(head).then(Act::Flood(vec![b'.'; MIB], 32)));
    let mut idle = sidecar.billing().tunnel("api.stripe.com");
    idle.start(&Ask::get("/v1/large"));
    shop.provider.record().wait_for("the large one", |seen| seen.len() == 1);
    let others: Vec<_> = (0..4)
        .map(|_| {
            let agent = sidecar.billing();
            thread::spawn(move || agent.ask("api.stripe.com", &Ask::get("/v1/refunds")).status)
        })
        .collect();
    for other in others {
        assert_eq!(other.join().unwrap(), 200);
    }
    assert!(idle.wire.head().unwrap().is_some());
    assert_eq!(idle.wire.skim(32 * MIB as u64, |_| {}), 32 * MIB as u64);
}
