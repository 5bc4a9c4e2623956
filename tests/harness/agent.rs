//! An agent: raw HTTP/1.1 through the proxy, byte by byte.

use std::{
    io::{self, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;

use crate::{answer::Answer, wait::PATIENCE, wire::Wire};

/// A caller with a key, who trusts the sidecar's CA and nothing else.
#[derive(Clone)]
pub struct Agent {
    proxy: SocketAddr,
    authorization: Option<String>,
    tls: Arc<ClientConfig>,
}

/// One request to be written.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// Fields after `Host`.
    pub fields: Vec<(String, String)>,
    /// The body; `Content-Length` is added when there is one.
    pub body: Vec<u8>,
}

impl Ask {
    /// A request without a body.
    pub fn new(method: &str, target: &str) -> Ask {
        Ask { method: method.into(), target: target.into(), fields: Vec::new(), body: Vec::new() }
    }

    /// A GET.
    pub fn get(target: &str) -> Ask {
        Ask::new("GET", target)
    }

    /// A POST of a form.
    pub fn form(target: &str, form: &str) -> Ask {
        Ask::new("POST", target).field("Content-Type", "application/x-www-form-urlencoded").body(form)
    }

    /// A POST of JSON.
    pub fn json(target: &str, json: &str) -> Ask {
        Ask::new("POST", target).field("Content-Type", "application/json").body(json)
    }

    /// A refund as a Stripe library sends it, with a placeholder for a key.
    pub fn refund(form: &str) -> Ask {
        Ask::form("/v1/refunds", form).field("Authorization", "Bearer sk_test_placeholder")
    }

    /// One more header field.
    pub fn field(mut self, name: &str, value: &str) -> Ask {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// An `Idempotency-Key`.
    pub fn key(self, key: &str) -> Ask {
        self.field("Idempotency-Key", key)
    }

    /// Another body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Ask {
        self.body = body.into();
        self
    }

    /// The request's bytes, for this host.
    pub fn bytes(&self, host: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !self.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: {host}\r\n"));
        }
        for (name, value) in &self.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}

impl Agent {
    /// A caller at this proxy; `caller` and `key` go out as Basic proxy credentials.
    pub fn new(proxy: SocketAddr, ca_pem: &str, caller: &str, key: &str) -> Agent {
        let basic = STANDARD.encode(format!("{caller}:{key}"));
        Agent { proxy, authorization: Some(format!("Basic {basic}")), tls: crate::ca::client_config(ca_pem) }
    }

    /// The same with another `Proxy-Authorization`, or none.
    pub fn authorized(&self, authorization: Option<&str>) -> Agent {
        Agent { authorization: authorization.map(str::to_owned), ..self.clone() }
    }

    /// Its `Proxy-Authorization`, for requests that are written by hand.
    pub fn basic(&self) -> String {
        self.authorization.clone().unwrap_or_default()
    }

    /// Where its proxy is.
    pub fn proxy(&self) -> SocketAddr {
        self.proxy
    }

    /// A bare connection to the proxy, to write anything to.
    pub fn connect(&self) -> Wire<TcpStream> {
        let tcp = TcpStream::connect_timeout(&self.proxy, PATIENCE).expect("the proxy listens");
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.set_write_timeout(Some(PATIENCE)).unwrap();
        tcp.set_nodelay(true).unwrap();
        Wire::new(tcp)
    }

    /// Writes bytes to the proxy itself and reads one answer.
    pub fn raw(&self, bytes: &[u8]) -> io::Result<Answer> {
        let mut wire = self.connect();
        wire.stream.write_all(bytes)?;
        Answer::read(&mut wire, false)
    }

    /// Asks in absolute form, without a tunnel.
    pub fn absolute(&self, host: &str, ask: &Ask) -> io::Result<Answer> {
        let mut ask = ask.clone();
        if let Some(authorization) = &self.authorization {
            ask = ask.field("Proxy-Authorization", authorization);
        }
        self.raw(&ask.bytes(host))
    }

    /// `CONNECT authority`, and TLS for `name`; or the answer that refused it.
    pub fn tunnel_to(&self, authority: &str, name: &str) -> Result<Tunnel, Answer> {
        let mut wire = self.connect();
        let mut head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
        if let Some(authorization) = &self.authorization {
            head.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        head.push_str("\r\n");
        wire.stream.write_all(head.as_bytes()).unwrap();
        let head = wire.head().unwrap().expect("an answer to CONNECT");
        if !head.line.contains(" 200 ") {
            let mut again = Wire::new(wire.stream);
            return Err(refused(head, &mut again, &wire.seen));
        }
        let host = authority.trim_end_matches(":443").to_owned();
        Ok(self.secured(wire.stream, name, host, true).expect("TLS with the sidecar"))
    }

    /// TLS at once, as a client that knows no proxy: for a listener to which connections are redirected. `named` says
    /// whether the name is asked for (SNI).
    pub fn straight(&self, name: &str, named: bool) -> io::Result<Tunnel> {
        self.secured(self.connect().stream, name, name.to_owned(), named)
    }

    fn secured(&self, mut stream: TcpStream, name: &str, host: String, named: bool) -> io::Result<Tunnel> {
        let mut config = ClientConfig::clone(&self.tls);
        config.enable_sni = named;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut conn = ClientConnection::new(Arc::new(config), name).unwrap();
        while conn.is_handshaking() {
            conn.complete_io(&mut stream)?;
        }
        assert_ne!(conn.alpn_protocol(), Some(b"h2".as_slice()), "agents are offered HTTP/1.1 only");
        Ok(Tunnel { wire: Wire::new(StreamOwned::new(conn, stream)), host })
    }

    /// A tunnel to a host's port 443.
    #[track_caller]
    pub fn tunnel(&self, host: &str) -> Tunnel {
        match self.tunnel_to(&format!("{host}:443"), host) {
            Ok(tunnel) => tunnel,
            Err(answer) => panic!("CONNECT {host}:443 was answered {answer:?}"),
        }
    }

    /// One request through a tunnel of its own.
    #[track_caller]
    pub fn ask(&self, host: &str, ask: &Ask) -> Answer {
        self.tunnel(host).ask(ask)
    }

    /// A refund through a tunnel of its own, with a key if there is one.
    #[track_caller]
    pub fn refund(&self, key: Option<&str>, form: &str) -> Answer {
        let ask = Ask::refund(form);
        self.ask("api.stripe.com", &key.map_or(ask.clone(), |key| ask.key(key)))
    }
}

/// Reads the body of an answer whose head was read already.
fn refused(head: crate::wire::Head, wire: &mut Wire<TcpStream>, seen: &[u8]) -> Answer {
    let start = seen.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    let length: usize = head.field("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
    let mut body = seen[start..].to_vec();
    body.extend(wire.take(length.saturating_sub(body.len())));
    let mut words = head.line.splitn(3, ' ').skip(1);
    let status = words.next().unwrap().parse().expect("a status code");
    let reason = words.next().unwrap_or_default().to_owned();
    let complete = body.len() == length;
    Answer { status, reason, head, body, complete }
}

/// TLS inside an accepted CONNECT; may carry several requests.
pub struct Tunnel {
    /// What is inside, to read from piece by piece.
    pub wire: Wire<StreamOwned<ClientConnection, TcpStream>>,
    host: String,
}

impl Tunnel {
    /// Writes bytes and does not wait.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.stream.write_all(bytes)?;
        self.wire.stream.flush()
    }

    /// Writes a request and does not wait.
    pub fn start(&mut self, ask: &Ask) {
        let bytes = ask.bytes(&self.host);
        self.send(&bytes).expect("the sidecar reads");
    }

    /// Reads one answer.
    pub fn answer(&mut self) -> io::Result<Answer> {
        Answer::read(&mut self.wire, false)
    }

    /// Reads the answer to a HEAD.
    pub fn answer_to_head(&mut self) -> io::Result<Answer> {
        Answer::read(&mut self.wire, true)
    }

    /// Writes a request and reads its answer.
    #[track_caller]
    pub fn ask(&mut self, ask: &Ask) -> Answer {
        let bytes = ask.bytes(&self.host);
        // A refusal may come before all of a body was read; the answer is there all the same.
        drop(self.send(&bytes));
        let answer = if ask.method == "HEAD" { self.answer_to_head() } else { self.answer() };
        answer.unwrap_or_else(|e| panic!("no answer to {} {}: {e}", ask.method, ask.target))
    }

    /// Ends the connection at once, without a TLS goodbye.
    pub fn hang_up(self) {
        drop(self.wire.stream.sock.shutdown(Shutdown::Both));
    }
}
