//! A body where its method gives it no meaning (RFC 9110 section 9.3): many servers leave it on the connection, and read
//! it as the next request. Nothing follows it there.

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    conf::Conf,
    gate::Gate,
    provider::Provider,
    record::Request,
    script::{Reply, When},
    sidecar::{Home, Sidecar},
};
use serde_json::json;

use crate::shop::{DESK, TICKETS_PER_DAY, desk_conf, ticket, ticket_action};

/// A request that has no end yet: the head of whatever follows on the connection becomes its last field.
const OPEN_REQUEST: &str = "POST /v1/refunds?amount=999999 HTTP/1.1\r\nHost: tickets.test\r\nX-A: ";
/// A whole one, whose answer would be taken for that of the next request.
const WHOLE_REQUEST: &str = "GET /v1/slow HTTP/1.1\r\nHost: tickets.test\r\n\r\n";
/// A credential on the host, so that a request which is let in there would be seen to carry it.
const KEYED: &str =
    "\n[secrets.KEY]\nfrom = { env = \"STRIPE_SECRET_KEY\" }\nallowed_hosts = [\"tickets.test\"]\n";

/// Takes the head for the whole request, as a server that reads no body there.
fn unread() -> Reply {
    Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").at(When::Head)
}

fn keyed_desk(provider: &Provider) -> Home {
    let mut conf = Conf::default().with(KEYED).host(DESK, provider.addr());
    conf.rest.push_str("credential = { header = \"Authorization\", value = \"Bearer {{secret:KEY}}\" }\n");
    Home::new(&conf.with(&ticket_action("open-ticket", DESK)).with(TICKETS_PER_DAY))
}

fn ask(sidecar: &Sidecar, ask: &Ask) -> Answer {
    sidecar.billing().ask(DESK, ask)
}

/// The request that was let in would be a write that nobody governed, with the credential of the next one.
#[test]
fn a_body_of_a_read_never_becomes_a_request_of_its_own() {
    let provider = Provider::tls(&[DESK]);
    let home = keyed_desk(&provider);
    let sidecar = home.serve();
    for method in ["GET", "HEAD", "OPTIONS"] {
        provider.on_read(unread());
        let first = Ask::new(method, "/v1/search").body(OPEN_REQUEST);
        assert_eq!(ask(&sidecar, &first).status, 200, "bodies are passed on");
        assert_eq!(ask(&sidecar, &Ask::get("/v1/second")).status, 200);
        let seen = provider.record().requests();
        let (first, second) = (&seen[seen.len() - 2], &seen[seen.len() - 1]);
        assert_eq!((first.method.as_str(), second.target.as_str()), (method, "/v1/second"), "{seen:?}");
        assert_ne!(first.connection, second.connection, "{method}");
        assert_eq!(first.head.field("connection"), Some("close"), "{method}");
        assert_eq!(second.head.field("connection"), None);
    }
    // Nor one that comes in chunks.
    provider.on_read(unread());
    let chunked = format!("{:x}\r\n{OPEN_REQUEST}\r\n0\r\n\r\n", OPEN_REQUEST.len());
    let mut tunnel = sidecar.billing().tunnel(DESK);
    let head = format!("GET /v1/search HTTP/1.1\r\nHost: {DESK}\r\nTransfer-Encoding: chunked\r\n\r\n");
    tunnel.send(format!("{head}{chunked}").as_bytes()).unwrap();
    assert_eq!(tunnel.answer().unwrap().status, 200);
    assert_eq!(tunnel.ask(&Ask::get("/v1/second")).status, 200);
    let mut seen = provider.record().requests();
    let second = seen.pop().unwrap();
    let first = seen.into_iter().rfind(|request| request.target == "/v1/search").unwrap();
    assert_eq!(second.target, "/v1/second");
    assert_ne!(first.connection, second.connection, "in chunks");
    // What stands in a body may reach such a server as a request, and is an agent's own to the last byte.
    let keyed = |request: &&Request| request.head.field("authorization").is_some();
    let writes = provider.record().writes();
    assert_eq!(writes.iter().filter(keyed).count(), 0, "{writes:?}");
}

/// A server that reads such bodies goes on being asked over one connection where there are none.
#[test]
fn a_read_without_a_body_keeps_its_connection() {
    let provider = Provider::tls(&[DESK]);
    let home = keyed_desk(&provider);
    let sidecar = home.serve();
    for _ in 0..3 {
        assert_eq!(ask(&sidecar, &Ask::get("/v1/tickets")).status, 200);
    }
    assert_eq!(provider.record().connections(), 1);
    let search = Ask::get("/v1/tickets").field("Content-Type", "application/json").body(r#"{"open":true}"#);
    assert_eq!(ask(&sidecar, &search).status, 200);
    let seen = provider.record().requests().pop().unwrap();
    assert_eq!((seen.text().as_str(), seen.complete), (r#"{"open":true}"#, true));
}

/// The governed write gets its own answer, not the one to a request in the body before it.
#[test]
fn a_body_of_a_read_never_answers_a_governed_write() {
    for method in ["GET", "OPTIONS"] {
        let provider = Provider::tls(&[DESK]);
        let home = Home::new(&desk_conf(provider.addr()));
        let sidecar = home.serve();
        let slow = Gate::default();
        provider.on_read(unread());
        provider.on_read(Reply::json("404 Not Found", "{}").after(&slow));
        assert_eq!(ask(&sidecar, &Ask::new(method, "/v1/first").body(WHOLE_REQUEST)).status, 200);
        own_answer(&sidecar, &home, &provider, &slow);
    }
}

/// As a read, a governed write whose method gives its body no meaning.
#[test]
fn a_body_of_a_governed_delete_never_answers_another_write() {
    let provider = Provider::tls(&[DESK]);
    let delete =
        format!("[actions.drop]\nmethod = \"DELETE\"\nurl = \"https://{DESK}/v1/items/{{{{input.id}}}}\"\n");
    let home = Home::new(&desk_conf(provider.addr()).with(&delete));
    let sidecar = home.serve();
    let slow = Gate::default();
    provider.on_write(unread());
    provider.on_read(Reply::json("404 Not Found", "{}").after(&slow));
    let body = Ask::new("DELETE", "/v1/items/9").field("Content-Type", "text/plain").body(WHOLE_REQUEST);
    assert_eq!(ask(&sidecar, &body).status, 200);
    own_answer(&sidecar, &home, &provider, &slow);
    let writes = provider.record().writes();
    assert_eq!(writes[0].head.field("connection"), Some("close"));
    assert_eq!(writes[1].head.field("connection"), None);
}

/// A place that leaves the body of a POST unread, as error pages and redirects do: what stands in it is answered later, and
/// that is nobody's answer.
#[test]
fn a_body_that_begins_as_a_request_never_answers_a_governed_write() {
    let provider = Provider::tls(&[DESK]);
    let legacy =
        format!("[actions.old]\nmethod = \"POST\"\nurl = \"https://{DESK}/legacy\"\ngoverned = false\n");
    let home = Home::new(&desk_conf(provider.addr()).with(&legacy));
    let sidecar = home.serve();
    for framed in [false, true] {
        let slow = Gate::default();
        provider.on_write(unread());
        provider.on_read(Reply::json("404 Not Found", "{}").after(&slow));
        let length = WHOLE_REQUEST.len();
        let (framing, body) = if framed {
            ("Transfer-Encoding: chunked".to_owned(), format!("{length:x}\r\n{WHOLE_REQUEST}\r\n0\r\n\r\n"))
        } else {
            (format!("Content-Length: {length}"), WHOLE_REQUEST.to_owned())
        };
        let mut tunnel = sidecar.billing().tunnel(DESK);
        let head =
            format!("POST /legacy HTTP/1.1\r\nHost: {DESK}\r\nContent-Type: text/plain\r\n{framing}\r\n\r\n");
        tunnel.send(format!("{head}{body}").as_bytes()).unwrap();
        assert_eq!(tunnel.answer().unwrap().status, 200);
        let mut other = sidecar.billing().tunnel(DESK);
        other.start(&Ask::json("/v1/tickets", &ticket(&framed.to_string())));
        let tickets = if framed { 2 } else { 1 };
        provider.record().wait_for("the ticket", |seen| {
            let whole = seen.iter().filter(|request| request.target == "/v1/tickets" && request.complete);
            whole.count() == tickets
        });
        slow.open();
        let answer = other.answer().unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(home.effect(&answer.effect())["outcome"], json!("succeeded"));
        let seen = provider.record().writes();
        assert_ne!(seen[seen.len() - 1].connection, seen[seen.len() - 2].connection, "{framed}");
    }
}

/// A provider may know who speaks by the connection (RFC 4559): nobody else speaks on it.
#[test]
fn a_connection_that_somebody_has_authenticated_is_nobody_else_s() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()));
    let sidecar = home.serve();
    for scheme in ["Negotiate YII=", "ntlm TlRM"] {
        for asked in [Ask::get("/v1/mine").field("Authorization", scheme), Ask::get("/v1/next")] {
            assert_eq!(ask(&sidecar, &asked).status, 200);
        }
        let seen = provider.record().requests();
        assert_ne!(seen[seen.len() - 1].connection, seen[seen.len() - 2].connection, "{scheme}");
    }
}

/// The governed write arrives while the answer to what stood in the body is still held back.
fn own_answer(sidecar: &Sidecar, home: &Home, provider: &Provider, slow: &Gate) {
    let mut tunnel = sidecar.billing().tunnel(DESK);
    tunnel.start(&Ask::json("/v1/tickets", &ticket("printer")));
    provider.record().wait_for("the ticket", |seen| {
        seen.iter().any(|request| request.target == "/v1/tickets" && request.complete)
    });
    slow.open();
    let answer = tunnel.answer().unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(home.effect(&answer.effect())["outcome"], json!("succeeded"));
}
