//! A planted defect: a proxy that streams a request on as it comes, sends it again when no answer came, passes on
//! what it gets of an answer, and books what the first bytes say.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use oncegate_tests::{
    ca,
    wait::{PATIENCE, until},
    wire::Wire,
};
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use rustls_pki_types::ServerName;

use crate::verdicts::{HOST, TITLE};

type Upstream = StreamOwned<ClientConnection, TcpStream>;
type Agent = StreamOwned<ServerConnection, TcpStream>;
type Books = Arc<Mutex<HashMap<String, String>>>;

/// The proxy; it ends with the process.
pub(crate) struct Naive {
    /// Where it listens.
    pub(crate) at: SocketAddr,
    books: Books,
    /// Cloned into every exchange, so that its count tells how many are under way.
    busy: Arc<()>,
}

impl Naive {
    /// One before this provider.
    pub(crate) fn before(provider: SocketAddr) -> Naive {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let naive =
            Naive { at: listener.local_addr().unwrap(), books: Books::default(), busy: Arc::default() };
        let (books, busy) = (Arc::clone(&naive.books), Arc::downgrade(&naive.busy));
        thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let (books, busy) = (Arc::clone(&books), busy.upgrade());
                thread::spawn(move || {
                    exchange(tcp, provider, &books).unwrap_or_default();
                    drop(busy);
                });
            }
        });
        naive
    }

    /// What it has booked, once nothing is under way any more.
    pub(crate) fn ledger(&self) -> HashMap<String, String> {
        until("every exchange to end", || Some(()).filter(|()| Arc::strong_count(&self.busy) == 1));
        self.books.lock().unwrap().clone()
    }
}

/// `None` where an agent or a provider has gone.
fn exchange(tcp: TcpStream, provider: SocketAddr, books: &Books) -> Option<()> {
    tcp.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut wire = Wire::shown_secrets(tcp, "it stands in the place of a sidecar");
    wire.head().ok()??;
    wire.stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let mut conn = ServerConnection::new(ca::server_config(&[HOST])).unwrap();
    while conn.is_handshaking() {
        conn.complete_io(&mut wire.stream).ok()?;
    }
    let mut agent = StreamOwned::new(conn, wire.stream);
    let mut upstream = dial(provider)?;
    let mut sent = Vec::new();
    let mut chunk = [0; 1024];
    while !is_whole(&sent) {
        let n = agent.read(&mut chunk).unwrap_or(0);
        sent.extend_from_slice(&chunk[..n]);
        upstream.write_all(&chunk[..n]).ok()?;
        upstream.flush().ok()?;
        if n == 0 {
            book(books, &sent, "failed");
            return None;
        }
    }
    if answered(&mut agent, &mut upstream, books, &sent).is_none() {
        let mut again = dial(provider)?;
        again.write_all(&sent).ok()?;
        if answered(&mut agent, &mut again, books, &sent).is_none() {
            book(books, &sent, "failed");
        }
    }
    Some(())
}

fn dial(provider: SocketAddr) -> Option<Upstream> {
    let tcp = TcpStream::connect(provider).ok()?;
    let name = ServerName::try_from(HOST).unwrap();
    Some(StreamOwned::new(ClientConnection::new(ca::client_config(ca::pem()), name).unwrap(), tcp))
}

/// Passes on one read of an answer at least; `None` when there is none.
fn answered(agent: &mut Agent, upstream: &mut Upstream, books: &Books, sent: &[u8]) -> Option<()> {
    let mut chunk = [0; 1024];
    let n = upstream.read(&mut chunk).ok().filter(|n| *n > 0)?;
    book(books, sent, if chunk.starts_with(b"HTTP/1.1 2") { "succeeded" } else { "failed" });
    let said =
        String::from_utf8_lossy(&chunk[..n]).replacen("\r\n", "\r\nOncegate-Outcome: succeeded\r\n", 1);
    drop(agent.write_all(said.as_bytes()));
    drop(agent.flush());
    agent.conn.send_close_notify();
    drop(agent.conn.complete_io(&mut agent.sock));
    Some(())
}

fn is_whole(sent: &[u8]) -> bool {
    let text = String::from_utf8_lossy(sent);
    text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.ends_with('}'))
}

/// Under the title, which a whole head has.
fn book(books: &Books, sent: &[u8], outcome: &str) {
    let text = String::from_utf8_lossy(sent);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return };
    let title = head.lines().find_map(|line| line.strip_prefix(TITLE)?.strip_prefix(": "));
    books.lock().unwrap().insert(title.unwrap_or_default().to_owned(), outcome.to_owned());
}
