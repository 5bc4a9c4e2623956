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
    bell: Bell,
}

/// Asks what had nothing only when it has said that there may be more.
pub struct Bell {
    arrival: Arc<Arrival>,
    /// `arrival` as what is asked knows it.
    waker: Waker,
    /// Who asks, as `arrival` knows them.
    reader: Waker,
}

/// Told by what is asked when it may have more.
struct Arrival {
    /// False once it was asked and had nothing, until it says that there is more.
    maybe: AtomicBool,
    reader: Mutex<Waker>,
}

/// Knows without a look at the stream whether there may be something to read.
#[derive(Clone)]
pub struct Arrivals(Arc<Arrival>);

impl Arrivals {
    /// Whether a read may find anything: bytes, an end or an error.
    #[must_use]
    pub fn may_be_there(&self) -> bool {
        self.0.maybe.load(Ordering::SeqCst)
    }
}

impl<S> Awaited<S> {
    /// Wraps a stream.
    #[must_use]
    pub fn new(inner: S) -> Self {
        Self { inner, bell: Bell::default() }
    }

    /// What says whether there may be something to read.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        Arrivals(Arc::clone(&self.bell.arrival))
    }
}

impl Default for Bell {
    fn default() -> Self {
        let reader = Waker::noop().clone();
        let arrival = Arc::new(Arrival { maybe: AtomicBool::new(true), reader: Mutex::new(reader.clone()) });
        Self { waker: Waker::from(Arc::clone(&arrival)), arrival, reader }
    }
}

impl Bell {
    /// Asks, if there is a reason to. One bell is for one thing that is asked.
    pub fn poll<T>(&mut self, cx: &Context<'_>, ask: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        if !self.reader.will_wake(cx.waker()) {
            self.reader.clone_from(cx.waker());
            self.arrival.reader().clone_from(cx.waker());
        }
        if !self.arrival.maybe.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        // Seen by all before the look: what comes during it is not to be forgotten.
        self.arrival.maybe.store(false, Ordering::SeqCst);
        let had = ask(&mut Context::from_waker(&self.waker));
        if had.is_ready() {
            self.arrival.maybe.store(true, Ordering::Release);
        }
        had
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
        self.maybe.store(true, Ordering::SeqCst);
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
        let Self { inner, bell } = &mut *self;
        bell.poll(cx, |cx| Pin::new(inner).poll_read(cx, buf))
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
        let arrivals = stream.arrivals();
        assert!(arrivals.may_be_there(), "nobody has looked");
        let (first, last) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        for reader in [&first, &first, &last] {
            assert_eq!(look(&mut stream, &Waker::from(Arc::clone(reader))), None);
        }
        assert_eq!(stream.inner.1, 1);
        assert!(!arrivals.may_be_there());
        peer.write_all(b"more").await.unwrap();
        assert_eq!((first.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (0, 1));
        assert!(arrivals.may_be_there());
        // Whoever looks: nobody has to be the one that was woken.
        assert_eq!(look(&mut stream, Waker::noop()), Some(4));
        assert!(arrivals.may_be_there(), "it had more than fitted, for all we know");
        assert_eq!(look(&mut stream, Waker::noop()), None);
        assert!(!arrivals.may_be_there());
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
