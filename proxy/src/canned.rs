//! HTTP that the parser refuses is answered by hyper itself, with an empty 400, 414 or 431. An agent deserves
//! the code and the sentence there too, so this stream puts an answer of ours in place of those.
//!
//! They are known by whose turn it is, never by what they look like: hyper writes of its own accord only while no
//! request is with the service and everything of the last answer has left. What is an answer's, or a tunnel's, is passed
//! on unread, whatever it spells.
//!
//! HTTP that cannot be read is refused before all of it was. Closing a socket that holds unread bytes resets it, and a reset
//! may overtake the answer; so once our side has ended, what still comes is read and thrown away, for a moment.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use oncegate_policy::refusal::{Code, Refusal};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::upstream::wire::Stream;
use crate::upstream::{Body, BodyError};

/// How long an agent may take to end its side after ours.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// Bytes that are thrown away meanwhile.
const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// No request is with the service, and all of the last answer has left.
const NOBODY: u8 = 0;
/// The service has a request, or its answer is being written.
const SERVICE: u8 = 1;
/// The answer has ended, and some of it may still have to leave.
const LEAVING: u8 = 2;
/// The connection speaks no HTTP of ours any more.
const HANDED_OVER: u8 = 3;

/// Whose turn it is to write to an agent. All of one connection moves in one task; the atomic only makes that known.
#[derive(Clone, Default)]
pub struct Turns(Arc<AtomicU8>);

impl Turns {
    /// The service is given a request.
    #[must_use]
    pub fn begin<B>(&self, request: &Request<B>) -> Turn {
        self.0.store(SERVICE, Ordering::Relaxed);
        Turn { turns: self.clone(), connect: request.method() == Method::CONNECT }
    }

    /// If it stands so, it stands so from now on.
    fn step(&self, from: u8, to: u8) {
        if self.0.load(Ordering::Relaxed) == from {
            self.0.store(to, Ordering::Relaxed);
        }
    }
}

/// The service's turn with one request: to the end of its answer's body, however that ends.
pub struct Turn {
    turns: Turns,
    connect: bool,
}

impl Turn {
    /// The answer, which holds the turn from here on. One that ends HTTP on this connection keeps it for good.
    pub fn answer(self, response: Response<Body>) -> Response<Answer> {
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS || self.connect && status.is_success() {
            self.turns.step(SERVICE, HANDED_OVER);
        }
        response.map(|body| Answer { body, _turn: self })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.step(SERVICE, LEAVING);
    }
}

/// The body of an answer.
pub struct Answer {
    body: Body,
    _turn: Turn,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The stream to an agent.
pub struct Canned {
    inner: Box<dyn Stream>,
    turns: Turns,
    /// Bytes of a swapped answer that are still to be written, and how many of hyper's they stand for.
    pending: Option<(Vec<u8>, usize, usize)>,
    /// Our side has ended; until when the agent's is waited for, and how many bytes may still come.
    lingering: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Canned {
    /// Wraps a stream to an agent. Whoever serves it says in `turns` when it does.
    #[must_use]
    pub fn new(inner: Box<dyn Stream>, turns: Turns) -> Self {
        Self { inner, turns, pending: None, lingering: None }
    }
}

/// The answer to bytes that are no request of ours to read.
fn answer() -> Vec<u8> {
    let sentence = "The request is broken, forbidden or oversized HTTP. Nothing was sent.";
    let refusal = Refusal::new(Code::InvalidRequest, sentence);
    let error = oncegate_adapters::OwnError {
        status: refusal.code.proxy_status(),
        code: "oncegate_invalid_request",
        sentence,
        effect: None,
        idempotency_error: false,
        doc_url: "urn:oncegate:refusal:invalid_request",
    };
    let body = oncegate_adapters::no_adapter_error_body(&error);
    let mut answer = format!(
        "HTTP/1.1 400 {sentence}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\noncegate-outcome: refused\r\noncegate-code: oncegate_invalid_request\r\n\
         stripe-should-retry: false\r\nx-should-retry: false\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    answer
}

impl AsyncRead for Canned {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Canned {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.pending.is_none() && this.turns.0.load(Ordering::Relaxed) == NOBODY {
            this.pending = Some((answer(), 0, buf.len()));
        }
        let Some((answer, written, stands_for)) = &mut this.pending else {
            return Pin::new(&mut this.inner).poll_write(cx, buf);
        };
        while *written < answer.len() {
            match Pin::new(&mut this.inner).poll_write(cx, &answer[*written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => *written += n,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        let stands_for = *stands_for;
        this.pending = None;
        Poll::Ready(Ok(stands_for))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // It asks for this only when it holds nothing more that was to be written.
        self.turns.step(LEAVING, NOBODY);
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let (until, left) = match &mut this.lingering {
            Some(lingering) => lingering,
            None => {
                ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
                this.lingering.insert((Box::pin(tokio::time::sleep(LINGER_MAX)), LINGER_BYTES_MAX))
            }
        };
        let mut chunk = [0; 4096];
        while *left > 0 && until.as_mut().poll(cx).is_pending() {
            let mut read = ReadBuf::new(&mut chunk);
            let ended = ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read)).is_err();
            if ended || read.filled().is_empty() {
                break;
            }
            *left = left.saturating_sub(read.filled().len());
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::BodyExt;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// What the HTTP library answers of its own accord.
    const BARE: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    const GOOD: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    const BROKEN: &[u8] = b"BROKEN\r\n\r\n";
    const PIECES: usize = 3;

    /// A body that spells it again and again, each time in a piece of its own.
    struct Pieces {
        left: usize,
        rested: bool,
    }

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            self.rested = !self.rested;
            if self.rested {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
            self.left = left;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(BARE.as_bytes())))))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact((self.left * BARE.len()) as u64)
        }
    }

    /// An agent's side of a connection on which no more than `room` bytes are on their way.
    fn connected(room: usize) -> DuplexStream {
        let (agent, stream) = duplex(room);
        let turns = Turns::default();
        let canned = TokioIo::new(Canned::new(Box::new(stream), turns.clone()));
        let service = service_fn(move |request| {
            let turn = turns.begin(&request);
            let body = Pieces { left: PIECES, rested: false }.boxed_unsync();
            async move { Ok::<_, Infallible>(turn.answer(Response::new(body))) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(canned, service));
        agent
    }

    async fn told(agent: &mut DuplexStream, bytes: usize) -> String {
        let mut told = vec![0; bytes];
        agent.read_exact(&mut told).await.unwrap();
        String::from_utf8(told).unwrap()
    }

    #[tokio::test]
    async fn what_an_answer_spells_is_passed_on_and_what_the_library_says_is_not() {
        let ours = String::from_utf8(answer()).unwrap();
        for room in [16, BARE.len(), 64 * 1024] {
            let mut agent = connected(room);
            for _ in 0..2 {
                agent.write_all(GOOD).await.unwrap();
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    head.push_str(&told(&mut agent, 1).await);
                }
                assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
                assert_eq!(told(&mut agent, PIECES * BARE.len()).await, BARE.repeat(PIECES), "room {room}");
            }
            agent.write_all(BROKEN).await.unwrap();
            let mut last = String::new();
            agent.read_to_string(&mut last).await.unwrap();
            assert_eq!(last, ours, "room {room}");
        }
    }

    #[tokio::test]
    async fn what_comes_at_once_with_a_request_is_told_from_its_answer() {
        let mut agent = connected(64 * 1024);
        agent.write_all(&[GOOD, BROKEN].concat()).await.unwrap();
        let mut all = String::new();
        agent.read_to_string(&mut all).await.unwrap();
        assert!(
            all.ends_with(&format!("{}{}", BARE.repeat(PIECES), String::from_utf8(answer()).unwrap())),
            "{all}"
        );
    }

    #[test]
    fn who_has_handed_a_connection_over_never_speaks_on_it_again() {
        let after = |method: Method, status: StatusCode| {
            let turns = Turns::default();
            let request = Request::builder().method(method).body(()).unwrap();
            let mut response = Response::new(crate::upstream::no_body());
            *response.status_mut() = status;
            drop(turns.begin(&request).answer(response));
            turns.step(LEAVING, NOBODY);
            turns.0.load(Ordering::Relaxed)
        };
        assert_eq!(after(Method::CONNECT, StatusCode::OK), HANDED_OVER);
        assert_eq!(after(Method::GET, StatusCode::SWITCHING_PROTOCOLS), HANDED_OVER);
        assert_eq!(after(Method::CONNECT, StatusCode::PROXY_AUTHENTICATION_REQUIRED), NOBODY);
        assert_eq!(after(Method::GET, StatusCode::OK), NOBODY);
    }
}
