//! The origin: answers 200 with 400 bytes, but only to requests that carry the injected credential, and counts.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::{During, Failure};

/// What the proxies put in and the client never knows, except on the direct way.
pub const CREDENTIAL: &str = "Bearer sk_bench_5b1f0c6d9e7a4832";
/// Bytes of an answer's body.
pub const ANSWER_BYTES: usize = 400;
/// Most bytes of a request's body.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// What has arrived so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections that finished TLS.
    pub connections: AtomicU64,
    /// Reads with the credential.
    pub reads: AtomicU64,
    /// Writes with the credential.
    pub writes: AtomicU64,
    /// Writes to a path that was written before.
    pub twice: AtomicU64,
    /// Requests without the credential.
    pub refused: AtomicU64,
    written: Mutex<HashSet<String>>,
}

/// The origin, in a thread and a runtime of its own; ends when dropped.
pub struct Origin {
    /// Where it listens.
    pub addr: SocketAddr,
    /// What arrived.
    pub counts: Arc<Counts>,
    /// How long it takes for each answer, in milliseconds; 0 unless a measurement wants a slow provider.
    pub takes_ms: Arc<AtomicU64>,
    _stop: oneshot::Sender<()>,
}

impl Origin {
    /// Starts it on a port of the system's choice.
    ///
    /// # Errors
    /// No port, no thread.
    pub fn start(tls: Arc<ServerConfig>) -> Result<Self, Failure> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).during("bind the origin")?;
        listener.set_nonblocking(true).during("bind the origin")?;
        let addr = listener.local_addr().during("bind the origin")?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .during("start the origin's runtime")?;
        let counts = Arc::new(Counts::default());
        let (stop, stopped) = oneshot::channel();
        let takes_ms = Arc::new(AtomicU64::new(0));
        let (known, takes) = (Arc::clone(&counts), Arc::clone(&takes_ms));
        let serve = move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(listener, TlsAcceptor::from(tls), known, takes) => {}
                    _ = stopped => {}
                }
            });
        };
        std::thread::Builder::new().name("origin".to_owned()).spawn(serve).during("start the origin")?;
        Ok(Self { addr, counts, takes_ms, _stop: stop })
    }
}

async fn accept(
    listener: std::net::TcpListener,
    tls: TlsAcceptor,
    counts: Arc<Counts>,
    takes_ms: Arc<AtomicU64>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, tls.clone(), Arc::clone(&counts), Arc::clone(&takes_ms)));
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, counts: Arc<Counts>, takes_ms: Arc<AtomicU64>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Ok(stream) = tls.accept(stream).await else { return };
    counts.connections.fetch_add(1, Ordering::Relaxed);
    let answer = service_fn(|request| answer(request, &counts, &takes_ms));
    // A proxy that closes a connection is no fault: what matters is counted above and at the client.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
}

async fn answer(
    request: Request<Incoming>,
    counts: &Counts,
    takes_ms: &AtomicU64,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let known = request.headers().get(AUTHORIZATION).is_some_and(|value| value == CREDENTIAL);
    let writes = request.method() == Method::POST;
    let path = request.uri().path().to_owned();
    let whole = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await.is_ok();
    if !known || !whole {
        counts.refused.fetch_add(1, Ordering::Relaxed);
        let mut refused = Response::new(Full::new(Bytes::new()));
        *refused.status_mut() = StatusCode::UNAUTHORIZED;
        return Ok(refused);
    }
    let takes = takes_ms.load(Ordering::Relaxed);
    if takes > 0 {
        tokio::time::sleep(Duration::from_millis(takes)).await;
    }
    if writes {
        counts.writes.fetch_add(1, Ordering::Relaxed);
        if !counts.written.lock().unwrap_or_else(PoisonError::into_inner).insert(path) {
            counts.twice.fetch_add(1, Ordering::Relaxed);
        }
    } else {
        counts.reads.fetch_add(1, Ordering::Relaxed);
    }
    let mut response = Response::new(Full::new(Bytes::from_static(&ANSWER)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// A JSON object of exactly [`ANSWER_BYTES`] bytes.
static ANSWER: [u8; ANSWER_BYTES] = {
    let mut bytes = [b' '; ANSWER_BYTES];
    let text = b"{\"id\":\"thing\",\"status\":\"succeeded\"}";
    let mut at = 0;
    while at < text.len() {
        bytes[at] = text[at];
        at += 1;
    }
    bytes
};
