//! A planted defect: a proxy that passes a request on as it came, after it has read it in one lax way of many: lines end
//! at any line feed, the first length counts, the first of two members is taken, and dots are folded away for judging.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use oncegate_tests::{ca, conf::CREDENTIAL, wait::PATIENCE, wire::Wire};
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use rustls_pki_types::ServerName;

use crate::attack::{Effect, Ledger};

type Books = Arc<Mutex<Vec<Effect>>>;

/// The proxy; it ends with the process.
pub(crate) struct Lax {
    pub(crate) at: SocketAddr,
    pub(crate) books: LaxBooks,
}

/// What it has written down.
#[derive(Clone, Default)]
pub(crate) struct LaxBooks(Books);

impl Ledger for LaxBooks {
    fn new_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Lax {
    /// One before a provider that speaks TLS.
    pub(crate) fn before(provider: SocketAddr) -> Lax {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, books) = (listener.local_addr().unwrap(), LaxBooks::default());
        let ledger = books.clone();
        thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let ledger = ledger.clone();
                thread::spawn(move || tunnel(tcp, provider, &ledger.0).unwrap_or_default());
            }
        });
        Lax { at, books }
    }
}

/// Any target is opened, and what is inside goes to the one provider.
fn tunnel(tcp: TcpStream, provider: SocketAddr, books: &Books) -> Option<()> {
    tcp.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut wire = Wire::shown_secrets(tcp, "it stands in the place of a sidecar");
    let head = wire.head().ok()??;
    let host = head.line.strip_prefix("CONNECT ")?.split([' ', ':']).next()?.to_lowercase();
    wire.stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let mut conn =
        ServerConnection::new(ca::server_config(&["tickets.test", "other.test", "api.stripe.com"])).unwrap();
    while conn.is_handshaking() {
        conn.complete_io(&mut wire.stream).ok()?;
    }
    let mut agent = StreamOwned::new(conn, wire.stream);
    let mut bytes = Vec::new();
    // All of it, since the agent ends its side: this double has no need to be quick.
    drop(agent.read_to_end(&mut bytes));
    let name = ServerName::try_from("tickets.test").unwrap();
    let conn = ClientConnection::new(ca::client_config(ca::pem()), name).unwrap();
    let mut upstream = StreamOwned::new(conn, TcpStream::connect(provider).ok()?);
    let mut rest = bytes.as_slice();
    while let Some((request, after)) = split(rest) {
        rest = after;
        upstream.write_all(&passed_on(&host, request)).ok()?;
        if !request.starts_with(b"GET") && !request.starts_with(b"HEAD") {
            books.lock().unwrap().push(effect(&host, request));
        }
    }
    // The end is said, so that a provider which has read something else does not wait for more.
    upstream.conn.send_close_notify();
    upstream.flush().ok()?;
    let mut wire = Wire::shown_secrets(upstream, "it leaks on purpose");
    while let Some(answer) = answer(&mut wire) {
        agent.write_all(&answer).ok()?;
    }
    agent.conn.send_close_notify();
    drop(agent.conn.complete_io(&mut agent.sock));
    Some(())
}

fn lines(head: &[u8]) -> Vec<String> {
    head.split(|b| *b == b'\n').map(|line| String::from_utf8_lossy(line).trim().to_owned()).collect()
}

fn field(head: &[u8], name: &str) -> Option<String> {
    let find = |line: String| {
        let (found, value) = line.split_once(':')?;
        found.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    };
    lines(head).into_iter().find_map(find)
}

/// A head and a body by the first length there is.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let ends = [&b"\r\n\r\n"[..], b"\n\n"];
    let head = ends
        .iter()
        .filter_map(|end| Some(bytes.windows(end.len()).position(|w| w == *end)? + end.len()))
        .min()?;
    let length = field(&bytes[..head], "content-length").and_then(|text| {
        let digits: String = text.trim_start_matches('+').chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().ok()
    });
    let end = match length {
        Some(length) => head.checked_add(length)?,
        None if field(&bytes[..head], "transfer-encoding").is_some() => {
            head + bytes[head..].windows(5).position(|w| w == b"0\r\n\r\n")? + 5
        }
        None => head,
    };
    bytes.split_at_checked(end)
}

/// The credential is put in front; nothing is taken away.
fn passed_on(host: &str, request: &[u8]) -> Vec<u8> {
    let at = request.iter().position(|b| *b == b'\n').map_or(request.len(), |at| at + 1);
    let credential = if host == "api.stripe.com" {
        format!("Authorization: Bearer {CREDENTIAL}\r\n")
    } else {
        String::new()
    };
    [&request[..at], credential.as_bytes(), &request[at..]].concat()
}

fn effect(host: &str, request: &[u8]) -> Effect {
    let head = request.windows(4).position(|w| w == b"\r\n\r\n").map_or(request.len(), |at| at + 4);
    let line = lines(request).into_iter().next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let body = String::from_utf8_lossy(&request[head..]).into_owned();
    let amount = body.split('&').find_map(|piece| piece.strip_prefix("amount=")?.parse().ok());
    Effect {
        method: method.to_owned(),
        url: format!("https://{host}{target}"),
        body: request[head..].to_vec(),
        amount,
        key: field(&request[..head], "idempotency-key"),
        provider_key: String::new(),
    }
}

/// One answer, with a code that says nothing.
fn answer(wire: &mut Wire<StreamOwned<ClientConnection, TcpStream>>) -> Option<Vec<u8>> {
    let head = wire.head().ok()??;
    let length = head.field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let body = wire.take(length);
    let own = if head.line.contains(" 500 ") {
        "HTTP/1.1 422 x\r\nOncegate-Outcome: unknown\r\nOncegate-Code: oncegate_outcome_unknown\r\n"
    } else {
        "HTTP/1.1 200 OK\r\n"
    };
    Some([format!("{own}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat())
}
