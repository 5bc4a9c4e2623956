//! A stream that counts what was written to it and read from it, above TLS.
//!
//! The count of what was written is a witness beside hyper's own word: it says whether a byte of a request was handed to the TLS
//! layer or the kernel.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::awaited::Awaited;

/// Any stream to a provider.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// How many bytes were written, shared with whoever wants to know.
#[derive(Clone, Default)]
pub struct Written(Arc<Counts>);

#[derive(Default)]
struct Counts {
    bytes: AtomicU64,
    /// Something was written, or tried, and whoever writes has not seen it all out: the HTTP library flushes once it has
    /// nothing left.
    under_way: AtomicBool,
    /// Bytes that were read.
    heard: AtomicU64,
}

impl Written {
    /// Bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::SeqCst)
    }

    /// Whether everything that was to be written is.
    #[must_use]
    pub fn is_out(&self) -> bool {
        !self.0.under_way.load(Ordering::SeqCst)
    }

    /// Bytes that came from the other side so far.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.0.heard.load(Ordering::SeqCst)
    }
}

/// The counting stream.
pub struct Counting {
    inner: Awaited<Box<dyn Stream>>,
    written: Written,
}

impl Counting {
    /// Counts what is written to `inner`.
    #[must_use]
    pub fn new(inner: Box<dyn Stream>, written: Written) -> Self {
        Self { inner: Awaited::new(inner), written }
    }
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let read = buf.filled().len().saturating_sub(before);
        if read > 0 {
            self.written.0.heard.fetch_add(u64::try_from(read).unwrap_or(u64::MAX), Ordering::SeqCst);
        }
        polled
    }
}

impl AsyncWrite for Counting {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        // Counted before the call as well as after would be double; a failed write may still have passed on a
        // part inside TLS, so an attempt with data counts as written.
        if !buf.is_empty() {
            self.written.0.bytes.fetch_add(1, Ordering::SeqCst);
            self.written.0.under_way.store(true, Ordering::SeqCst);
        }
        let wrote = Pin::new(&mut self.inner).poll_write(cx, buf);
        if let Poll::Ready(Ok(n)) = &wrote {
            self.written.0.bytes.fetch_add(u64::try_from(*n).unwrap_or(u64::MAX), Ordering::SeqCst);
        }
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.written.0.under_way.store(false, Ordering::SeqCst);
            if self.written.bytes() > 0 {
                oncegate_store::failpoint::hit("after_send");
            }
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
