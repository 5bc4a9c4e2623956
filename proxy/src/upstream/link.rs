//! A connection that speaks HTTP/1.1, driven by whoever uses it.
//!
//! It has no task of its own: a request and its answer are moved by the task that waits for them, so neither is handed
//! from one task to another. Between two requests nobody drives it; the pool looks at it from time to time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use oncegate_policy::exchange::NotSent;

use super::wire::{Counting, Stream, Written};
use super::{Body, chain};

/// Most header fields in an answer. For more, the HTTP library makes room on the heap with every answer.
const ANSWER_HEADERS_MAX: usize = 100;

/// One connection to a provider.
pub struct Link {
    /// Counts what was written.
    pub written: Written,
    /// The count before this request.
    pub written_before: u64,
    /// It served another request before.
    pub reused: bool,
    sender: SendRequest<Body>,
    /// What moves the bytes; `None` once it has ended.
    connection: Option<Connection>,
}

type Connection = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

impl Link {
    /// Speaks HTTP over a stream. Nothing is written yet.
    ///
    /// # Errors
    /// The HTTP library took nothing; no byte of a request can have left.
    pub async fn over(stream: Box<dyn Stream>) -> Result<Self, NotSent> {
        let written = Written::default();
        let io = TokioIo::new(Counting::new(stream, written.clone()));
        let (sender, connection) = http1::Builder::new()
            .max_headers(ANSWER_HEADERS_MAX)
            .handshake(io)
            .await
            .map_err(|error| NotSent::Connect(chain(&error)))?;
        let connection: Connection = Box::pin(connection.with_upgrades());
        Ok(Self { written, written_before: 0, reused: false, sender, connection: Some(connection) })
    }

    /// Waits until it takes a request.
    ///
    /// # Errors
    /// It is closed: nothing of a request was written.
    pub async fn ready(&mut self) -> hyper::Result<()> {
        poll_fn(|cx| {
            self.drive(cx);
            self.sender.poll_ready(&mut unwoken())
        })
        .await
    }

    /// Sends one request and waits for the head of its answer; the body is read with [`Self::poll_frame`].
    ///
    /// # Errors
    /// The connection broke. The request is handed back if nothing of it was written.
    pub async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        let connection = &mut self.connection;
        let mut answer = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| {
            drive(connection, cx);
            answer.as_mut().poll(&mut unwoken())
        })
        .await
    }

    /// The next piece of an answer that came over this connection.
    pub fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // What has arrived already needs no driving.
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(&mut unwoken()) {
            return Poll::Ready(frame);
        }
        self.drive(cx);
        Pin::new(body).poll_frame(&mut unwoken())
    }

    /// The same, to wait for.
    pub async fn frame(&mut self, body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
        poll_fn(|cx| self.poll_frame(body, cx)).await
    }

    /// Whether its last answer has ended and it would take another request.
    pub fn is_done(&mut self) -> bool {
        // Most often seen already, when the end of the answer was read.
        self.connection.is_some() && self.sender.is_ready() || self.is_ready()
    }

    /// Whether it is open and would take a request now. Nobody is woken when that changes.
    pub fn is_ready(&mut self) -> bool {
        self.drive(&mut unwoken());
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Lets it go: what is still on its way (the rest of a request whose answer came early, a protocol that was
    /// switched to, the end of its TLS) goes on without anybody who waits for it.
    pub fn let_go(self) {
        let Self { sender, connection, .. } = self;
        drop(sender);
        if let (Some(connection), Ok(runtime)) = (connection, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { ended(connection.await) });
        }
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, cx);
    }
}

/// Moves what can be moved. Whoever waits is woken when there is more to move.
fn drive(connection: &mut Option<Connection>, cx: &mut Context<'_>) {
    if let Some(open) = connection
        && let Poll::Ready(result) = open.as_mut().poll(cx)
    {
        ended(result);
        *connection = None;
    }
}

/// Its error has reached the request's own future, if there was one.
fn ended(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::trace!(error = chain(&error), "a connection to a provider ended");
    }
}

/// For what can change only while the connection is driven, by the same task: being woken for it would mean to be polled
/// twice.
fn unwoken() -> Context<'static> {
    Context::from_waker(Waker::noop())
}
