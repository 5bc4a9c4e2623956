//! A connection that speaks HTTP/1.1, driven by whoever uses it.
//!
//! It has no task of its own: a request and its answer are moved by the task that waits for them, so neither is handed
//! from one task to another. Between two requests nobody drives it; the pool looks at it from time to time.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use oncegate_policy::exchange::NotSent;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::coop;
use tokio::time::{Instant, sleep};

use super::last::{self, Spent};
use super::wire::{Counting, Stream, Written};
use super::{Body, chain};
use crate::relay::Relay;

/// Most header fields in an answer. A complete answer with more is lost, and a governed write's outcome with it.
const ANSWER_HEADERS_MAX: usize = 200;
/// Nothing written for so long ends a connection that was let go: its provider does not take the rest.
const REST_STALLED_MAX: Duration = Duration::from_secs(30);

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
    /// Wakes whoever waits.
    relay: Relay,
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
        let (connection, relay) = (Some(connection), Relay::default());
        Ok(Self {
            written,
            written_before: 0,
            reused: false,
            spent: Spent::default(),
            sender,
            connection,
            relay,
        })
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
    /// It may be the last that the connection carries (`last.rs`).
    ///
    /// # Errors
    /// The connection broke. The request is handed back if nothing of it was written.
    pub async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        let request = last::noted(request, &self.spent);
        let (connection, relay) = (&mut self.connection, &self.relay);
        let mut answer = pin!(self.sender.try_send_request(request));
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
        let ready = self.connection.is_some() && self.sender.is_ready() && self.written.is_out();
        !self.spent.is_spent() && (ready || self.is_ready() && self.written.is_out())
    }

    /// Whether it is open and would take a request now. Nobody is woken when that changes.
    pub fn is_ready(&mut self) -> bool {
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
        let (kept, over) = oneshot::channel();
        if let (Some(mut connection), Ok(runtime)) = (connection, Handle::try_current()) {
            runtime.spawn(async move {
                tokio::select! {
                    biased;
                    result = &mut connection => ended(result),
                    _ = over => rest(connection, &written).await,
                }
            });
        }
        Apart { _kept: kept }
    }

    fn drive(&mut self, cx: &Context<'_>) {
        drive(&mut self.connection, &mut self.relay.towards(cx.waker()));
    }
}

/// Kept while the answer is read whose connection goes on by itself.
pub struct Apart {
    _kept: oneshot::Sender<Infallible>,
}

/// What nobody waits for.
async fn rest(mut connection: Connection, written: &Written) {
    let mut stalled = pin!(sleep(REST_STALLED_MAX));
    let mut before = written.bytes();
    let taken = poll_fn(|cx| {
        // Asked first: to drive the connection is to try to write, which counts as written.
        if stalled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        let taken = connection.as_mut().poll(cx).map(Some);
        let now = written.bytes();
        if now != before {
            before = now;
            stalled.as_mut().reset(Instant::now() + REST_STALLED_MAX);
        }
        taken
    });
    match taken.await {
        Some(result) => ended(result),
        None => tracing::debug!("a provider has answered and does not take the rest of its request"),
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::task::ready;

    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
    use tokio::task::JoinHandle;

    use super::super::whole;
    use super::*;

    const UPLOAD: usize = 256 * 1024;
    const TOO_LARGE: &[u8] = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";

    /// A link whose provider has answered early, after a first piece of [`UPLOAD`]; then the link is let go.
    async fn answered_early() -> DuplexStream {
        let (ours, mut theirs) = duplex(4096);
        let mut link = Link::over(Box::new(ours)).await.unwrap();
        let provider: JoinHandle<DuplexStream> = tokio::spawn(async move {
            theirs.read_exact(&mut [0; 1024]).await.unwrap();
            theirs.write_all(TOO_LARGE).await.unwrap();
            theirs
        });
        let request = Request::post("/").body(whole(Bytes::from(vec![b'.'; UPLOAD]))).unwrap();
        assert_eq!(link.send(request).await.unwrap().status(), 413);
        link.let_go();
        provider.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_does_not_take_the_rest_is_left() {
        let mut theirs = answered_early().await;
        sleep(REST_STALLED_MAX * 2).await;
        let mut taken = Vec::new();
        theirs.read_to_end(&mut taken).await.unwrap();
        assert!(taken.len() < UPLOAD / 2, "{} bytes came after all", taken.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_takes_the_rest_slowly_gets_all_of_it() {
        let (mut theirs, mut taken) = (answered_early().await, Vec::new());
        while theirs.read_buf(&mut taken).await.unwrap() > 0 {
            sleep(REST_STALLED_MAX / 2).await;
        }
        assert!(taken.len() > UPLOAD - 1024, "{} bytes came", taken.len());
    }

    #[tokio::test]
    async fn what_is_still_on_its_way_has_nothing_behind_it() {
        let (ours, mut theirs) = duplex(4096);
        let mut link = Link::over(Box::new(ours)).await.unwrap();
        let provider = tokio::spawn(async move {
            theirs.read_exact(&mut [0; 1024]).await.unwrap();
            theirs.write_all(TOO_LARGE).await.unwrap();
            theirs
        });
        let request = Request::post("/").body(whole(Bytes::from(vec![b'.'; UPLOAD]))).unwrap();
        assert_eq!(link.send(request).await.unwrap().status(), 413);
        let mut theirs = provider.await.unwrap();
        assert!(!link.is_done(), "most of the body is not written");
        let mut taken = 0;
        while taken < UPLOAD - 1024 {
            taken += theirs.read(&mut [0; 4096]).await.unwrap();
            link.is_ready();
        }
        assert!(link.is_done(), "now it is");
    }

    #[tokio::test]
    async fn an_answer_may_have_many_fields() {
        let (ours, mut theirs) = duplex(4096);
        let mut link = Link::over(Box::new(ours)).await.unwrap();
        let fields: String = (0..150).map(|at| format!("x-field-{at}: v\r\n")).collect();
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n");
        let provider = tokio::spawn(async move {
            assert!(theirs.read(&mut [0; 1024]).await.unwrap() > 0);
            theirs.write_all(answer.as_bytes()).await.unwrap();
            theirs
        });
        let request = Request::get("/").body(whole(Bytes::new())).unwrap();
        let answer = link.send(request).await.unwrap();
        assert_eq!((answer.status(), answer.headers().len()), (200.try_into().unwrap(), 151));
        drop(provider.await.unwrap());
    }

    /// Answers as soon as it is asked. To read that uses up the turn of the task that reads, as many sockets at once do.
    #[derive(Default)]
    struct AtOnce {
        asked: bool,
        answered: bool,
        reader: Option<Waker>,
    }

    impl AsyncRead for AtOnce {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if !self.asked || self.answered {
                self.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
            while coop::has_budget_remaining() {
                ready!(coop::poll_proceed(cx)).made_progress();
            }
            self.answered = true;
            buf.put_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for AtOnce {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            piece: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.asked = true;
            // There is something to read now.
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
            Poll::Ready(Ok(piece.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_at_the_end_of_a_turn_is_not_missed() {
        let mut link = Link::over(Box::new(AtOnce::default())).await.unwrap();
        let request = Request::get("/").body(whole(Bytes::new())).unwrap();
        let begun = Instant::now();
        // Time stands still while there is anything to do, and whoever looks at the end of it sees the answer after all.
        let answer = tokio::time::timeout(Duration::from_secs(5), link.send(request)).await;
        assert_eq!(answer.expect("it is seen").unwrap().status(), 200);
        assert_eq!(begun.elapsed(), Duration::ZERO, "it was waited for");
    }
}
