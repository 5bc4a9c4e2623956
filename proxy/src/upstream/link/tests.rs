use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::super::apart::REST_STALLED_MAX;
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
    assert_eq!(link.send(Box::new(request)).await.unwrap().status(), 413);
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
    assert_eq!(link.send(Box::new(request)).await.unwrap().status(), 413);
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
    let answer = link.send(Box::new(request)).await.unwrap();
    assert_eq!((answer.status(), answer.headers().len()), (200.try_into().unwrap(), 151));
    drop(provider.await.unwrap());
}

/// A provider that says nothing before it is asked.
async fn silent() -> (Box<Link>, DuplexStream) {
    let (ours, mut theirs) = duplex(4096);
    let mut link = Link::over(Box::new(ours)).await.unwrap();
    let asked = async {
        assert!(theirs.read(&mut [0; 1024]).await.unwrap() > 0);
        theirs.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    };
    let request = Request::get("/").body(whole(Bytes::new())).unwrap();
    let (answer, ()) = tokio::join!(link.send(Box::new(request)), asked);
    assert_eq!(answer.unwrap().status(), 204);
    assert!(link.is_done());
    (link, theirs)
}

/// Else its task would be polled twice for each request, all that is above it included.
#[tokio::test]
async fn who_sends_is_not_woken_by_sending() {
    let (mut link, theirs) = silent().await;
    let woken = Arc::new(Counted::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    assert!(pin!(link.ready()).poll(&mut cx).is_ready());
    let request = Request::get("/").body(whole(Bytes::new())).unwrap();
    let mut sending = pin!(link.send(Box::new(request)));
    assert!(sending.as_mut().poll(&mut cx).is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    drop(theirs);
    assert!(woken.0.load(Ordering::SeqCst) > 0, "it is by what happens there");
}

#[tokio::test]
async fn what_has_come_meanwhile_is_seen_and_nothing_else_is_looked_for() {
    let (mut link, mut theirs) = silent().await;
    assert!(link.is_unstirred() && link.is_ready());
    theirs.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
    assert!(!link.is_unstirred());
    assert!(!link.is_ready(), "an answer to nothing is its end");
    let (mut link, theirs) = silent().await;
    drop(theirs);
    assert!(!link.is_unstirred() && !link.is_ready(), "as is that it was closed");
}

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
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
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, piece: &[u8]) -> Poll<io::Result<usize>> {
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
    let answer = tokio::time::timeout(Duration::from_secs(5), link.send(Box::new(request))).await;
    assert_eq!(answer.expect("it is seen").unwrap().status(), 200);
    assert_eq!(begun.elapsed(), Duration::ZERO, "it was waited for");
}
