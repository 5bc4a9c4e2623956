//! A stand-in for a payment provider: makes refunds, lists them, counts what it is asked, and can lose an answer
//! after it has done the work. It ignores idempotency keys: whatever is sent twice is refunded twice.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use crate::task;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use oncegate_policy::form;
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// Most bytes of a request's body.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The running provider.
pub(crate) struct Provider {
    state: Arc<State>,
    addr: SocketAddr,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    refunds: Vec<Value>,
    writes: usize,
    reads: usize,
    lose_next: bool,
    /// Every `Authorization` that came.
    credentials: Vec<String>,
}

impl Provider {
    /// Listens on a port of the system's choice and serves until dropped.
    pub(crate) async fn start(tls: Arc<ServerConfig>) -> Result<Self, String> {
        let listener =
            TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| format!("cannot listen: {error}"))?;
        let addr = listener.local_addr().map_err(|error| format!("cannot listen: {error}"))?;
        let state = Arc::new(State::default());
        let task = task::start(accept(listener, TlsAcceptor::from(tls), Arc::clone(&state)));
        Ok(Self { state, addr, task })
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The next refund is made, and its answer thrown away with the connection.
    pub(crate) fn lose_next_answer(&self) {
        self.state.ledger().lose_next = true;
    }

    /// How many writes arrived.
    pub(crate) fn writes(&self) -> usize {
        self.state.ledger().writes
    }

    /// How many reads arrived.
    pub(crate) fn reads(&self) -> usize {
        self.state.ledger().reads
    }

    /// The id of the refund, if there is exactly one.
    pub(crate) fn only_refund(&self) -> Option<String> {
        match self.state.ledger().refunds.as_slice() {
            [refund] => refund["id"].as_str().map(str::to_owned),
            _ => None,
        }
    }

    /// Every credential that was presented.
    pub(crate) fn credentials(&self) -> Vec<String> {
        self.state.ledger().credentials.clone()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        task::start(serve(stream, tls.clone(), Arc::clone(&state)));
    }
}

/// One connection. It ends without another byte when an answer is to be lost.
async fn serve(stream: TcpStream, tls: TlsAcceptor, state: Arc<State>) {
    let Ok(stream) = tls.accept(stream).await else { return };
    let cut = Notify::new();
    let answer = service_fn(|request| answer(request, &state, &cut));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        // A client that goes away is not this story's subject.
        _ended = connection => {}
        () = cut.notified() => {}
    }
}

async fn answer(
    request: Request<Incoming>,
    state: &State,
    cut: &Notify,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let credential = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    state.ledger().credentials.extend(credential.map(str::to_owned));
    let path = request.uri().path().to_owned();
    let response = match (request.method().clone(), path.as_str()) {
        (Method::POST, "/v1/refunds") => {
            let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
            let made =
                body.ok().and_then(|body| form::parse(&body.to_bytes()).ok()).map(|form| state.refund(&form));
            if state.take_loss() {
                cut.notify_one();
                // The connection is dropped while this waits: the answer exists and never leaves.
                std::future::pending::<()>().await;
            }
            made.map_or_else(|| json_answer(400, &json!({})), |refund| json_answer(200, &refund))
        }
        (Method::GET, "/v1/refunds") => json_answer(200, &state.list()),
        (Method::GET, other) => match other.strip_prefix("/v1/refunds/").and_then(|id| state.find(id)) {
            Some(refund) => json_answer(200, &refund),
            None => json_answer(404, &json!({})),
        },
        _ => json_answer(404, &json!({})),
    };
    Ok(response)
}

impl State {
    fn refund(&self, form: &Value) -> Value {
        let mut ledger = self.ledger();
        ledger.writes += 1;
        let number = ledger.refunds.len() + 1;
        let amount = form["amount"].as_str().and_then(|text| text.parse::<i64>().ok());
        let refund = json!({
            "id": format!("re_demo_{number:04}"),
            "object": "refund",
            "created": Clock::System.now().0 / 1000,
            "amount": amount,
            "currency": "usd",
            "payment_intent": form["payment_intent"],
            "metadata": form["metadata"],
            "status": "succeeded",
        });
        ledger.refunds.push(refund.clone());
        refund
    }

    fn take_loss(&self) -> bool {
        std::mem::take(&mut self.ledger().lose_next)
    }

    fn list(&self) -> Value {
        let mut ledger = self.ledger();
        ledger.reads += 1;
        json!({ "object": "list", "data": ledger.refunds, "has_more": false, "url": "/v1/refunds" })
    }

    fn find(&self, id: &str) -> Option<Value> {
        let mut ledger = self.ledger();
        ledger.reads += 1;
        ledger.refunds.iter().find(|refund| refund["id"] == id).cloned()
    }
}

fn json_answer(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
