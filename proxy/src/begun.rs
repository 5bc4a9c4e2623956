//! A stream of which the first byte was looked at, and not taken off.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// The stream.
pub(crate) struct Begun<S> {
    inner: S,
    first: Option<u8>,
    /// Nobody has read the first byte yet.
    ahead: bool,
}

impl<S: AsyncRead + Unpin> Begun<S> {
    /// Waits for the first byte, or for the end.
    ///
    /// # Errors
    /// The stream broke.
    pub(crate) async fn by(mut inner: S) -> io::Result<Self> {
        let mut first = [0];
        let read = inner.read(&mut first).await?;
        let first = first.first().copied().filter(|_| read > 0);
        Ok(Self { inner, first, ahead: first.is_some() })
    }

    /// Whether it begins with this byte.
    pub(crate) fn is(&self, byte: u8) -> bool {
        self.first == Some(byte)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let (true, Some(first)) = (self.ahead && buf.remaining() > 0, self.first) {
            self.ahead = false;
            buf.put_slice(&[first]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
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
    use super::*;

    #[tokio::test]
    async fn what_was_looked_at_is_read_after_all() {
        let mut begun = Begun::by(&b"hello"[..]).await.unwrap();
        assert!(begun.is(b'h') && !begun.is(b'e'));
        let mut all = String::new();
        begun.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "hello");
        let mut begun = Begun::by(&b""[..]).await.unwrap();
        assert!(!begun.is(0));
        assert_eq!(begun.read(&mut [0; 4]).await.unwrap(), 0);
    }
}
