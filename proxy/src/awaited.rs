//! A stream that is not asked again for what it did not have, until it says that there is more.
//!
//! Whoever moves an HTTP connection looks for bytes whenever it is moved: when a request is to be written, when an answer
//! has ended, when the connection is taken from the pool. Of eleven looks for one request two find any. Each of the others
//! goes through TLS to what the runtime knows of the socket, and back as an error. Here it is one look at a flag.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The stream.
pub struct Awaited<S> {
    inner: S,
    /// It had nothing when it was read last.
    empty: bool,
    arrival: Arc<Arrival>,
    /// `arrival` as the inner stream knows it.
    waker: Waker,
    /// Who reads, as `arrival` knows them.
    reader: Waker,
}

/// Told by the inner stream when it may have more.
struct Arrival {
    /// It was told so since the inner stream was read last.
    came: AtomicBool,
    reader: Mutex<Waker>,
}

impl<S> Awaited<S> {
    /// Wraps a stream.
    #[must_use]
    pub fn new(inner: S) -> Self {
        let reader = Waker::noop().clone();
        let arrival = Arc::new(Arrival { came: AtomicBool::new(false), reader: Mutex::new(reader.clone()) });
        Self { inner, empty: false, waker: Waker::from(Arc::clone(&arrival)), arrival, reader }
    }
}

impl Arrival {
    fn reader(&self) -> MutexGuard<'_, Waker> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Arrival {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// The flag first: whoever reads looks at it after having said whom to wake, so one of the two is seen.
    fn wake_by_ref(self: &Arc<Self>) {
        self.came.store(true, Ordering::SeqCst);
        let reader = self.reader().clone();
        reader.wake();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Awaited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.reader.will_wake(cx.waker()) {
            this.reader.clone_from(cx.waker());
            this.arrival.reader().clone_from(cx.waker());
        }
        if this.empty && !this.arrival.came.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        this.arrival.came.store(false, Ordering::SeqCst);
        let read = Pin::new(&mut this.inner).poll_read(&mut Context::from_waker(&this.waker), buf);
        this.empty = read.is_pending();
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Awaited<S> {
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
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::task::ready;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::coop;

    use super::*;

    /// Counts how often it is read.
    struct Counted(DuplexStream, usize);

    impl AsyncRead for Counted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.1 += 1;
            Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn look(stream: &mut Awaited<Counted>, waker: &Waker) -> Option<usize> {
        let mut room = [0; 8];
        let mut buf = ReadBuf::new(&mut room);
        let read = Pin::new(stream).poll_read(&mut Context::from_waker(waker), &mut buf);
        read.is_ready().then(|| buf.filled().len())
    }

    #[tokio::test]
    async fn what_has_nothing_is_read_again_when_it_says_so() {
        let (mut peer, stream) = duplex(64);
        let mut stream = Awaited::new(Counted(stream, 0));
        let (first, last) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        for reader in [&first, &first, &last] {
            assert_eq!(look(&mut stream, &Waker::from(Arc::clone(reader))), None);
        }
        assert_eq!(stream.inner.1, 1);
        peer.write_all(b"more").await.unwrap();
        assert_eq!((first.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (0, 1));
        // Whoever looks: nobody has to be the one that was woken.
        assert_eq!(look(&mut stream, Waker::noop()), Some(4));
        assert_eq!(look(&mut stream, Waker::noop()), None);
        drop(peer);
        assert_eq!(look(&mut stream, Waker::noop()), Some(0), "the end is seen as well");
        assert_eq!(look(&mut stream, Waker::noop()), Some(0));
    }

    #[tokio::test]
    async fn what_comes_is_read_whole_by_whoever_waits() {
        let (mut peer, stream) = duplex(16);
        let mut stream = Awaited::new(stream);
        let writing = tokio::spawn(async move {
            for _ in 0..100 {
                peer.write_all(b"a piece of what is written").await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        assert_eq!(read.len(), 2600);
        writing.await.unwrap();
    }

    /// A task that has used up its turn is told that there is nothing, whatever there is, and is woken for another.
    #[tokio::test]
    async fn what_was_put_off_is_read_in_the_next_turn() {
        let (ours, mut theirs) = tcp().await;
        let mut stream = Awaited::new(ours);
        theirs.write_all(b"there").await.unwrap();
        stream.inner.readable().await.unwrap();
        let (mut turns, mut room) = (0, [0; 8]);
        let read = poll_fn(|cx| {
            turns += 1;
            while turns == 1 && coop::has_budget_remaining() {
                ready!(coop::poll_proceed(cx)).made_progress();
            }
            let mut buf = ReadBuf::new(&mut room);
            ready!(Pin::new(&mut stream).poll_read(cx, &mut buf)).unwrap();
            Poll::Ready(buf.filled().len())
        });
        let read = tokio::time::timeout(Duration::from_secs(5), read).await;
        assert_eq!((read.expect("it is woken"), turns), (5, 2));
    }

    async fn tcp() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (listener.accept().await.unwrap().0, theirs)
    }
}
