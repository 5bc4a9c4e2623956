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

use crate::awaited::{Arrivals, Awaited};

/// Any stream to a provider.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// How many bytes were written, shared with whoever wants to know. Only who drives the connection counts, one at a time, and
/// it is handed on behind a lock or within a task: so nothing here has to be one step for others.
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
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Whether everything that was to be written is.
    #[must_use]
    pub fn is_out(&self) -> bool {
        !self.0.under_way.load(Ordering::Relaxed)
    }

    /// Bytes that came from the other side so far.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.0.heard.load(Ordering::Relaxed)
    }

    fn wrote(&self, bytes: usize) {
        count(&self.0.bytes, bytes);
    }

    fn under_way(&self, is_it: bool) {
        self.0.under_way.store(is_it, Ordering::Relaxed);
    }
}

fn count(counter: &AtomicU64, more: usize) {
    let more = u64::try_from(more).unwrap_or(u64::MAX);
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
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

    /// What says whether there may be something to read.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        self.inner.arrivals()
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
            count(&self.written.0.heard, read);
        }
        polled
    }
}

impl AsyncWrite for Counting {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        // Counted before the call as well as after would be double; a failed write may still have passed on a
        // part inside TLS, so an attempt with data counts as written.
        if !buf.is_empty() {
            self.written.wrote(1);
            self.written.under_way(true);
        }
        let wrote = Pin::new(&mut self.inner).poll_write(cx, buf);
        if let Poll::Ready(Ok(n)) = &wrote {
            self.written.wrote(*n);
        }
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.written.under_way(false);
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
