//! HTTP that the parser refuses is answered by hyper itself, with an empty 400, 414 or 431. An agent deserves
//! the code and the sentence there too, so this stream swaps those bare answers for ones of ours.
//!
//! They are recognised by being the only answers on a connection with no field of ours and no `Via`, which every
//! answer that is passed on carries: hyper writes a bare error in one piece, as a whole head with
//! `content-length: 0`, `date` and `connection` at most.
//!
//! A refusal may come before all of a request was read. Closing a socket that holds unread bytes resets it, and a reset
//! may overtake the answer; so once our side has ended, what still comes is read and thrown away, for a moment.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use oncegate_policy::refusal::{Code, Refusal};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::upstream::wire::Stream;

/// How long an agent may take to end its side after ours.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// Bytes that are thrown away meanwhile.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// The stream to an agent.
pub struct Canned {
    inner: Box<dyn Stream>,
    /// Bytes of a swapped answer that are still to be written, and how many of hyper's they stand for.
    pending: Option<(Vec<u8>, usize, usize)>,
    /// Our side has ended; until when the agent's is waited for, and how many bytes may still come.
    lingering: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Canned {
    /// Wraps a stream to an agent.
    #[must_use]
    pub fn new(inner: Box<dyn Stream>) -> Self {
        Self { inner, pending: None, lingering: None }
    }
}

/// The answer to bytes that are no request of ours to read.
fn better(head: &[u8]) -> Option<Vec<u8>> {
    let bare = [&b"HTTP/1.1 400 "[..], b"HTTP/1.1 414 ", b"HTTP/1.1 431 ", b"HTTP/1.0 400 "]
        .iter()
        .any(|start| head.starts_with(start));
    // Nearly every piece that is written is something else.
    if !bare {
        return None;
    }
    let text = std::str::from_utf8(head).ok()?.to_ascii_lowercase();
    let (_, fields) = text.strip_suffix("\r\n\r\n")?.split_once("\r\n")?;
    let mut names = fields.split("\r\n").map(|field| field.split(':').next().unwrap_or_default());
    let only_its_own = names.all(|name| ["content-length", "date", "connection"].contains(&name));
    if !only_its_own || !fields.split("\r\n").any(|field| field == "content-length: 0") {
        return None;
    }
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
        "HTTP/1.1 400 {sentence}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\noncegate-outcome: refused\r\noncegate-code: oncegate_invalid_request\r\n\
         stripe-should-retry: false\r\nx-should-retry: false\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    Some(answer)
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
        if self.pending.is_none()
            && let Some(answer) = better(buf)
        {
            self.pending = Some((answer, 0, buf.len()));
        }
        let this = &mut *self;
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
    use super::better;

    #[test]
    fn only_a_bare_error_is_swapped() {
        for (head, swapped) in [
            ("HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n", true),
            ("HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n", true),
            // A provider's own, passed on: nothing may be said of it but what it says.
            ("HTTP/1.1 400 Bad Request\r\nvia: 1.1 oncegate\r\ncontent-length: 0\r\ndate: x\r\n\r\n", false),
            ("HTTP/1.1 400 x\r\noncegate-outcome: failed\r\ncontent-length: 0\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false),
            ("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\nmore", false),
        ] {
            assert_eq!(better(head.as_bytes()).is_some(), swapped, "{head}");
        }
    }
}
