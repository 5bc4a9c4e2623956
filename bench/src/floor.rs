//! The floor: the least that an intercepting proxy can do. CONNECT, a minted leaf, TLS on both sides, one header
//! put in. It judges nothing, streams nothing, and keeps one upstream connection for each of the agent's. With a
//! journal it also makes two durable commits around each POST. A bound to measure against, not a product.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use oncegate::clock::Clock;
use oncegate_certs::{Authority, Leaves};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::journal::Journal;
use crate::message::{self, Message};
use crate::origin::CREDENTIAL;
use crate::{During, Failure, tls};

/// Minted leaves that are kept, as many as Oncegate keeps.
const LEAVES_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("1024 is not zero");

/// A floor that has its port.
pub struct Floor {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    leaves: Leaves,
    origin: SocketAddr,
    trust: Arc<ClientConfig>,
    journal: Option<Journal>,
}

impl Floor {
    /// Binds and gets everything ready. `dir` has the origin's CA and gets our own, and the journal.
    ///
    /// # Errors
    /// The step that failed.
    pub async fn bind(dir: &Path, origin: SocketAddr, journal: bool) -> Result<Self, Failure> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.during("bind the floor")?;
        let authority = Authority::load_or_create(&dir.join("ca"), Clock::System.system())
            .during("make the floor's authority")?;
        let pem = std::fs::read(dir.join("origin-ca.pem")).during("read the origin's authority")?;
        let journal = journal.then(|| Journal::open(&dir.join("floor.db"))).transpose()?;
        let leaves = Leaves::new(Arc::new(authority), LEAVES_MAX);
        let shared = Shared { leaves, origin, trust: tls::client(&pem, true)?, journal };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until dropped.
    pub async fn serve(self) {
        while let Ok((stream, _)) = self.listener.accept().await {
            let shared = Arc::clone(&self.shared);
            // A connection that breaks shows at the client.
            tokio::spawn(async move { drop(intercept(&shared, stream).await) });
        }
    }
}

async fn intercept(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::new();
    let Some(connect) = message::read(&mut stream, &mut buffer).await? else { return Ok(()) };
    let host = target(&buffer).ok_or(io::ErrorKind::InvalidData)?.to_owned();
    drop(buffer.split_to(connect.total));
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    let leaf = shared.leaves.server_config(&host, Clock::System.system()).map_err(io::Error::other)?;
    let mut agent = TlsAcceptor::from(leaf).accept(stream).await?;
    let mut upstream: Option<TlsStream<TcpStream>> = None;
    let mut answers = BytesMut::new();
    while let Some(request) = message::read(&mut agent, &mut buffer).await? {
        let asked = buffer.split_to(request.total);
        let entry = match &shared.journal {
            Some(journal) if asked.starts_with(b"POST ") => {
                let (name, body) = (path(&asked), asked.get(request.head..).unwrap_or_default().to_vec());
                Some((journal, journal.begin(name, body).await.ok_or(io::ErrorKind::Other)?))
            }
            Some(_) | None => None,
        };
        let link = match &mut upstream {
            Some(link) => link,
            none => none.insert(dial(shared, &host).await?),
        };
        link.write_all(&with_credential(&asked, request)).await?;
        let answer = message::read(link, &mut answers).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let answered = answers.split_to(answer.total);
        if let Some((journal, key)) = entry {
            let body = answered.get(answer.head..).unwrap_or_default().to_vec();
            journal.end(key, body).await.ok_or(io::ErrorKind::Other)?;
        }
        agent.write_all(&answered).await?;
    }
    Ok(())
}

async fn dial(shared: &Shared, host: &str) -> io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(shared.origin).await?;
    tcp.set_nodelay(true)?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::clone(&shared.trust)).connect(name, tcp).await
}

/// The host of `CONNECT host:port HTTP/1.1`.
fn target(head: &[u8]) -> Option<&str> {
    let rest = std::str::from_utf8(head.strip_prefix(b"CONNECT ")?).ok()?;
    Some(rest.split_once(':')?.0)
}

fn path(request: &[u8]) -> String {
    let path = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    String::from_utf8_lossy(path).into_owned()
}

fn with_credential(request: &[u8], message: Message) -> BytesMut {
    let (head, body) = request.split_at(message.head);
    let mut out = BytesMut::with_capacity(request.len() + 64);
    out.extend_from_slice(head.strip_suffix(b"\r\n").unwrap_or(head));
    for piece in ["authorization: ", CREDENTIAL, "\r\n\r\n"] {
        out.extend_from_slice(piece.as_bytes());
    }
    out.extend_from_slice(body);
    out
}
