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
use tokio::task::coop;

use super::apart::Apart;
use super::last::{self, Spent};
use super::silence::Silence;
use super::wire::{Counting, Stream, Written};
use super::{Body, chain};
use crate::awaited::Arrivals;
use crate::relay::Relay;

/// Most header fields in an answer. A complete answer with more is lost, and a governed write's outcome with it.
const ANSWER_HEADERS_MAX: usize = 200;

/// One connection to a provider.
pub struct Link {
    /// Counts what was written.
    pub written: Written,
    /// The count before this request.
    pub written_before: u64,
    /// It served another request before.
    pub reused: bool,
    /// Whether it carried a body that its provider may have left there unread: then it serves no other request.
    spent: Spent,
    sender: SendRequest<Body>,
    /// What moves the bytes; `None` once it has ended.
    connection: Option<Connection>,
    /// Whether the provider may have said something that the connection has not read.
    arrivals: Arrivals,
    /// How long it has said nothing to a request that was passed on.
    pub(crate) silence: Silence,
    /// Wakes whoever waits.
    relay: Relay,
}

pub(super) type Connection = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

impl Link {
    /// Speaks HTTP over a stream. Nothing is written yet. In a box: each request takes it through many hands, and back.
    ///
    /// # Errors
    /// The HTTP library took nothing; no byte of a request can have left.
    pub async fn over(stream: Box<dyn Stream>) -> Result<Box<Self>, NotSent> {
        let written = Written::default();
        let counting = Counting::new(stream, written.clone());
        let arrivals = counting.arrivals();
        let io = TokioIo::new(counting);
        let (sender, connection) = http1::Builder::new()
            .max_headers(ANSWER_HEADERS_MAX)
            .handshake(io)
            .await
            .map_err(|error| NotSent::Connect(chain(&error)))?;
        let connection: Connection = Box::pin(connection.with_upgrades());
        let (connection, relay) = (Some(connection), Relay::default());
        Ok(Box::new(Self {
            written,
            written_before: 0,
            reused: false,
            spent: Spent::default(),
            sender,
            connection,
            arrivals,
            silence: Silence::default(),
            relay,
        }))
    }

    /// Waits until it takes a request.
    ///
    /// # Errors
    /// It is closed: nothing of a request was written.
    pub async fn ready(&mut self) -> hyper::Result<()> {
        if self.is_unstirred() {
            return Ok(());
        }
        poll_fn(|cx| {
            self.drive(cx);
            self.sender.poll_ready(&mut unwoken())
        })
        .await
    }

    /// Sends one request and waits for the head of its answer; the body is read with [`Self::poll_frame`].
    ///
    /// It may be the last that the connection carries (`last.rs`). It comes in a box because it passes through many hands, and
    /// each would make room for all of it.
    ///
    /// # Errors
    /// The connection broke. The request is handed back if nothing of it was written.
    pub async fn send(
        &mut self,
        request: Box<Request<Body>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        let request = last::noted(*request, &self.spent);
        let (connection, relay) = (&mut self.connection, &self.relay);
        // To hand it over wakes the connection, which is what drives it below.
        let (answer, _) = relay.quietly(|| self.sender.try_send_request(request));
        let mut answer = pin!(answer);
        poll_fn(|cx| {
            drive(connection, &mut relay.towards(cx.waker()));
            let answered = answer.as_mut().poll(&mut unwoken());
            if answered.is_pending() && !coop::has_budget_remaining() {
                // The answer may be there: a task that has used up its turn is told nothing but to come again.
                cx.waker().wake_by_ref();
            }
            answered
        })
        .await
    }

    /// The next piece of an answer that came over this connection.
    pub fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // What has arrived already needs no driving. To ask for it wakes the connection, which is what drives it below.
        let (arrived, _) = self.relay.quietly(|| Pin::new(&mut *body).poll_frame(&mut unwoken()));
        if arrived.is_ready() {
            return arrived;
        }
        self.drive(cx);
        Pin::new(body).poll_frame(&mut unwoken())
    }

    /// The same, to wait for.
    pub async fn frame(&mut self, body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
        poll_fn(|cx| self.poll_frame(body, cx)).await
    }

    /// Whether its last answer has ended, its last request has left whole, and it would take another one. The HTTP library
    /// takes one already when the last has gone as far as its own buffer: behind a body that the provider does not take, the
    /// next would never leave.
    pub fn is_done(&mut self) -> bool {
        // Most often seen already, when the end of the answer was read.
        !self.spent.is_spent() && (self.stands() || self.is_ready() && self.written.is_out())
    }

    /// Whether it took a request when it was driven last.
    fn stands(&self) -> bool {
        self.connection.is_some() && self.sender.is_ready() && self.written.is_out()
    }

    /// Whether it does still: nothing has come since, no bytes and no end, so to drive it would move nothing.
    fn is_unstirred(&self) -> bool {
        self.stands() && !self.arrivals.may_be_there()
    }

    /// Whether it is open and would take a request now. Nobody is woken when that changes.
    pub fn is_ready(&mut self) -> bool {
        if self.is_unstirred() {
            return !self.spent.is_spent();
        }
        drive(&mut self.connection, &mut unwoken());
        !self.spent.is_spent() && self.connection.is_some() && self.sender.is_ready()
    }

    /// Lets it go: what is still on its way (the rest of a request whose answer came early, a protocol that was
    /// switched to, the end of its TLS) goes on without anybody who waits for it, until nothing was written for
    /// 30 s.
    pub fn let_go(self) {
        drop(self.apart());
    }

    /// Gives it a task of its own, for an answer that came before its request was whole. Whoever reads such an answer
    /// may not want any of it before all is sent. The body is read with its own `poll_frame` from then on, and no other
    /// request follows.
    #[must_use = "when it is dropped the connection is let go"]
    pub fn apart(self) -> Apart {
        let Self { sender, connection, written, .. } = self;
        drop(sender);
        Apart::of(connection, written)
    }

    fn drive(&mut self, cx: &Context<'_>) {
        drive(&mut self.connection, &mut self.relay.towards(cx.waker()));
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
pub(super) fn ended(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::trace!(error = chain(&error), "a connection to a provider ended");
    }
}

/// For what can change only while the connection is driven, by the same task: being woken for it would mean to be polled
/// twice.
fn unwoken() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[cfg(test)]
mod tests;
