//! Plays one request of the corpus against a proxy, and gathers everything that came of it.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Arc,
};

use oncegate_tests::{
    canary::Finder,
    sidecar::Home,
    wait::{PATIENCE, until},
    wire::Wire,
};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;
use serde_json::Value;

use crate::{
    asking::proxy_authorization,
    corpus::Case,
    origin::{Arrived, Origin},
};

/// An effect as it was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) body: Vec<u8>,
    pub(crate) amount: Option<u64>,
    pub(crate) key: Option<String>,
    pub(crate) provider_key: String,
}

/// Where a proxy writes down what it lets through.
pub(crate) trait Ledger {
    /// All effects since the last call, oldest first.
    fn new_effects(&mut self) -> Vec<Effect>;
}

/// The database of a sidecar.
pub(crate) struct Database {
    pub(crate) home: Home,
    last: i64,
}

impl Database {
    pub(crate) fn of(home: Home) -> Database {
        Database { home, last: 0 }
    }
}

impl Ledger for Database {
    fn new_effects(&mut self) -> Vec<Effect> {
        let sql = format!(
            "select e.key, e.stage, e.amount, e.caller_key, e.provider_key, r.method, r.url, r.body from effect e join request r on r.effect = e.key where e.key > {} order by e.key",
            self.last
        );
        let rows = until("every dispatch to end", || {
            Some(self.home.query(&sql)).filter(|rows| rows.iter().all(|row| row["stage"] != "dispatching"))
        });
        self.last = rows.last().map_or(self.last, |row| row["key"].as_i64().unwrap());
        rows.iter().map(effect).collect()
    }
}

fn effect(row: &Value) -> Effect {
    let text = |name: &str| row[name].as_str().map(str::to_owned);
    let byte = |value: &Value| u8::try_from(value.as_u64().unwrap()).unwrap();
    Effect {
        method: text("method").unwrap(),
        url: text("url").unwrap(),
        body: row["body"].as_array().unwrap().iter().map(byte).collect(),
        amount: row["amount"].as_u64(),
        key: text("caller_key"),
        provider_key: text("provider_key").unwrap(),
    }
}

/// A proxy under attack.
pub(crate) struct Target<L> {
    pub(crate) proxy: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) origin: Origin,
    pub(crate) ledger: L,
}

/// What came of one case.
pub(crate) struct Outcome {
    /// All that was written inside the tunnel (or to the proxy itself), the clean request behind it included.
    pub(crate) written: Vec<u8>,
    /// The target of the clean request.
    pub(crate) probe: String,
    /// All that was heard there.
    pub(crate) heard: Vec<u8>,
    /// The answer to a `CONNECT` that was refused.
    pub(crate) refused: Option<Vec<u8>>,
    /// What the provider saw.
    pub(crate) arrived: Arrived,
    /// What was recorded.
    pub(crate) effects: Vec<Effect>,
}

impl<L: Ledger> Target<L> {
    /// Writes a case and a clean request behind it, ends its side, and hears everything out.
    pub(crate) fn attack(&mut self, case: &Case, id: &str, bytes: &[u8]) -> Outcome {
        let (host, absolute) = match case.connect {
            None => ("plain.test", "http://plain.test"),
            Some(_) if case.sni == "api.stripe.com" => ("api.stripe.com", ""),
            Some(_) => ("tickets.test", ""),
        };
        let probe = format!("/sync/{id}");
        let proof = match case.connect {
            None => format!("Proxy-Authorization: {}\r\n", proxy_authorization("billing-agent")),
            Some(_) => String::new(),
        };
        let clean = format!("GET {absolute}{probe} HTTP/1.1\r\nHost: {host}\r\n{proof}\r\n");
        let written = [bytes, clean.as_bytes()].concat();
        let tcp = TcpStream::connect(self.proxy).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.set_nodelay(true).unwrap();
        let (heard, refused) = match &case.connect {
            None => (spoken(tcp, &written, |tcp| drop(tcp.shutdown(Shutdown::Write))), None),
            Some(authority) => match self.tunnel(tcp, authority, &case.sni) {
                Err(refused) => (Vec::new(), Some(refused)),
                Ok(tls) => {
                    let goodbye = |tls: &mut StreamOwned<ClientConnection, TcpStream>| {
                        tls.conn.send_close_notify();
                        drop(tls.conn.complete_io(&mut tls.sock));
                        drop(tls.sock.shutdown(Shutdown::Write));
                    };
                    (spoken(tls, &written, goodbye), None)
                }
            },
        };
        let effects = self.ledger.new_effects();
        Outcome { written, probe, heard, refused, arrived: self.origin.arrived(), effects }
    }

    /// TLS inside a tunnel, or all that was said instead.
    fn tunnel(
        &self,
        mut tcp: TcpStream,
        authority: &str,
        sni: &str,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, Vec<u8>> {
        let proof = proxy_authorization("billing-agent");
        let head = format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nProxy-Authorization: {proof}\r\n\r\n"
        );
        tcp.write_all(head.as_bytes()).unwrap();
        let mut wire = Wire::new(tcp);
        let opened = wire.head().is_ok_and(|head| head.is_some_and(|head| head.line.contains(" 200 ")));
        if !opened {
            drop(wire.stream.shutdown(Shutdown::Write));
            drop(wire.rest());
            return Err(wire.seen);
        }
        let name = ServerName::try_from(sni.to_owned()).unwrap();
        let mut conn = ClientConnection::new(Arc::clone(&self.tls), name).unwrap();
        while conn.is_handshaking() {
            if let Err(error) = conn.complete_io(&mut wire.stream) {
                return Err(format!("TLS: {error}").into_bytes());
            }
        }
        Ok(StreamOwned::new(conn, wire.stream))
    }
}

/// Writes all, ends this side, and reads to the end.
fn spoken<S: Read + Write + Send>(mut stream: S, bytes: &[u8], goodbye: impl FnOnce(&mut S)) -> Vec<u8> {
    // Whoever refuses early may stop reading: that what is left cannot be written is no fault.
    if stream.write_all(bytes).and_then(|()| stream.flush()).is_ok() {
        goodbye(&mut stream);
    }
    let mut heard = Vec::new();
    drop(stream.read_to_end(&mut heard));
    Finder::everything().nowhere_in("what an attacker heard", &heard);
    heard
}
