//! The client: CONNECT, TLS, keep-alive, one request after the other on each connection (a closed loop).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::message;
use crate::origin::{ANSWER_BYTES, CREDENTIAL};
use crate::tls::HOST;
use crate::{During, Failure};

/// Bytes of a write's body.
pub const WRITE_BYTES: usize = 200;
/// Connections that are opened at the same time.
const OPENING_MAX: usize = 16;
/// No single step of a client takes longer, or the run has failed.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A GET: Oncegate passes it through.
    Read,
    /// A POST: Oncegate governs it.
    Write,
}

/// How the client gets to the origin, and what it got there.
#[derive(Debug)]
pub struct Way {
    /// As the tables call it.
    pub name: &'static str,
    /// The proxy, or the origin itself.
    pub to: SocketAddr,
    /// Whom it trusts at the other end.
    pub tls: Arc<ClientConfig>,
    /// `Proxy-Authorization` for a CONNECT; `None` goes straight to the origin, with the credential.
    pub proxy: Option<String>,
    /// A field that every answered write must bear, to prove that it went the way it was meant to.
    pub writes_bear: Option<&'static str>,
    /// Bytes of a write's body.
    pub write_bytes: usize,
    /// Reads that were answered as they should.
    pub reads: AtomicU64,
    /// Writes that were answered as they should.
    pub writes: AtomicU64,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// No request begins after this time.
    pub time: Duration,
    /// Requests of all callers together, at most.
    pub requests: usize,
}

/// What a loop of requests gave.
#[derive(Debug, Default)]
pub struct Load {
    /// How long each good answer took, in nanoseconds, sorted.
    pub nanos: Vec<u64>,
    /// Answers that were not as they should be, and connections that broke.
    pub errors: u64,
    /// From the first request to the last answer.
    pub wall: Duration,
}

/// One connection that can be asked.
pub struct Agent {
    way: Arc<Way>,
    stream: TlsStream<TcpStream>,
    buffer: BytesMut,
}

impl Agent {
    /// Connects to `host`.
    ///
    /// # Errors
    /// The connection, the CONNECT or the handshake failed.
    pub async fn open(way: &Arc<Way>, host: &str) -> io::Result<Self> {
        let opened = tokio::time::timeout(STEP_TIMEOUT, Self::connect(way, host)).await;
        opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn connect(way: &Arc<Way>, host: &str) -> io::Result<Self> {
        let mut tcp = TcpStream::connect(way.to).await?;
        tcp.set_nodelay(true)?;
        let mut buffer = BytesMut::new();
        if let Some(authorization) = &way.proxy {
            let connect = format!(
                "CONNECT {host}:443 HTTP/1.1\r\nhost: {host}:443\r\nproxy-authorization: {authorization}\r\n\r\n"
            );
            tcp.write_all(connect.as_bytes()).await?;
            let answer = message::read(&mut tcp, &mut buffer).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if message::status(&buffer) != Some(200) || answer.total != buffer.len() {
                return Err(io::Error::other("the proxy refused a CONNECT"));
            }
            buffer.clear();
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(&way.tls)).connect(name, tcp).await?;
        Ok(Self { way: Arc::clone(way), stream, buffer })
    }

    /// Asks once. `number` names the thing; no two writes may name the same.
    ///
    /// # Errors
    /// The connection broke, or the answer is not what the origin gives to those who bear the credential.
    pub async fn ask(&mut self, kind: Kind, number: u64) -> io::Result<()> {
        let asked = tokio::time::timeout(STEP_TIMEOUT, self.exchange(kind, number)).await;
        asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn exchange(&mut self, kind: Kind, number: u64) -> io::Result<()> {
        let request = request(&self.way, kind, number);
        self.stream.write_all(request.as_bytes()).await?;
        let answer =
            message::read(&mut self.stream, &mut self.buffer).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let whole = self.buffer.split_to(answer.total);
        let head = whole.get(..answer.head).unwrap_or_default();
        let wanted = self.way.writes_bear.filter(|_| kind == Kind::Write);
        let good = message::status(head) == Some(200)
            && answer.total - answer.head == ANSWER_BYTES
            && wanted.is_none_or(|name| message::field(head, name).is_some());
        if !good {
            return Err(io::Error::other(String::from_utf8_lossy(&whole).into_owned()));
        }
        let count = if kind == Kind::Read { &self.way.reads } else { &self.way.writes };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn request(way: &Way, kind: Kind, number: u64) -> String {
    let credential =
        if way.proxy.is_none() { format!("authorization: {CREDENTIAL}\r\n") } else { String::new() };
    let head = format!("/v1/things/{number:012} HTTP/1.1\r\nhost: {HOST}\r\naccept: */*\r\n{credential}");
    match kind {
        Kind::Read => format!("GET {head}\r\n"),
        Kind::Write => {
            let start = "{\"name\":\"thing\",\"note\":\"";
            let note = way.write_bytes.saturating_sub(start.len() + 2);
            let length = way.write_bytes;
            format!(
                "POST {head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{start}{:x<note$}\"}}",
                ""
            )
        }
    }
}

/// A number that no request of this run had before.
#[must_use]
pub fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Opens `count` connections and asks one read on each, so that what follows is keep-alive on both sides.
///
/// # Errors
/// One of them failed.
pub async fn open(way: &Arc<Way>, count: usize, warm: bool) -> Result<Vec<Agent>, Failure> {
    let mut agents = Vec::with_capacity(count);
    let mut opening: JoinSet<io::Result<Agent>> = JoinSet::new();
    let mut left = count;
    while left > 0 || !opening.is_empty() {
        while left > 0 && opening.len() < OPENING_MAX {
            left -= 1;
            let way = Arc::clone(way);
            opening.spawn(async move {
                let mut agent = Agent::open(&way, HOST).await?;
                if warm {
                    agent.ask(Kind::Read, fresh()).await?;
                }
                Ok(agent)
            });
        }
        if let Some(opened) = opening.join_next().await {
            agents.push(opened.during("open a connection")?.during("open a connection")?);
        }
    }
    Ok(agents)
}

/// Asks on every connection until the bounds are reached.
pub async fn run(agents: Vec<Agent>, kind: Kind, bounds: Bounds) -> Load {
    let each = bounds.requests / agents.len().max(1);
    let start = Instant::now();
    let mut callers = JoinSet::new();
    for agent in agents {
        callers.spawn(call(agent, kind, each, start + bounds.time));
    }
    let mut load = Load::default();
    while let Some(ended) = callers.join_next().await {
        match ended {
            Ok((nanos, errors)) => {
                load.nanos.extend(nanos);
                load.errors += errors;
            }
            Err(_) => load.errors += 1,
        }
    }
    load.wall = start.elapsed();
    load.nanos.sort_unstable();
    load
}

async fn call(mut agent: Agent, kind: Kind, count: usize, until: Instant) -> (Vec<u64>, u64) {
    let mut nanos = Vec::with_capacity(count.min(1 << 16));
    for _ in 0..count {
        let begun = Instant::now();
        if begun >= until {
            break;
        }
        // The answer to an error is not understood, so the connection cannot be used any further.
        if agent.ask(kind, fresh()).await.is_err() {
            return (nanos, 1);
        }
        nanos.push(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    (nanos, 0)
}
