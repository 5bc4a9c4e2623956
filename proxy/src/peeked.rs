//! A stream whose first bytes are kept while somebody reads them, so that they can still be handed on unread.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes that are kept. rustls reads no handshake message of more than 64 KiB, in records of 16 KiB with 5 bytes
/// of head each, and may have read one record further.
const KEPT_BYTES_MAX: usize = 96 * 1024;

/// The stream.
pub struct Peeked<S> {
    inner: S,
    kept: Vec<u8>,
    keeping: bool,
}

impl<S> Peeked<S> {
    /// Keeps what is read from now on.
    #[must_use]
    pub fn new(inner: S) -> Self {
        Self { inner, kept: Vec::new(), keeping: true }
    }

    /// Keeps nothing more: whoever has read goes on.
    pub fn forget(&mut self) {
        self.kept = Vec::new();
        self.keeping = false;
    }

    /// What was read so far, and the stream behind it.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, S) {
        (self.kept, self.inner)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Peeked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if self.keeping {
            let read = buf.filled().get(before..).unwrap_or_default();
            if self.kept.len() + read.len() > KEPT_BYTES_MAX {
                return Poll::Ready(Err(io::Error::other("too much before the client hello was whole")));
            }
            self.kept.extend_from_slice(read);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Peeked<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn what_was_read_is_kept_until_it_is_not_wanted() {
        let mut stream = Peeked::new(&b"hello, world"[..]);
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.forget();
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(stream.into_parts().0, b"");
        let mut stream = Peeked::new(&b"hello, world"[..]);
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(stream.into_parts(), (b"hello".to_vec(), &b", world"[..]));
    }

    #[tokio::test]
    async fn what_does_not_end_is_not_kept_for_ever() {
        let mut stream = Peeked::new(tokio::io::repeat(22));
        let mut bytes = vec![0; KEPT_BYTES_MAX + 1];
        assert!(stream.read_exact(&mut bytes).await.is_err());
    }
}
