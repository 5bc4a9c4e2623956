//! The simulated network: connections in memory to the simulated provider, with everything that breaks on the way.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use oncegate::upstream::dial::{Connected, Destination, Wires};
use oncegate::upstream::wire::Stream;
use oncegate_policy::exchange::NotSent;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

use super::books::{Goes, react};
use super::message::Messages;
use super::world::{Fault, Plant, Shared, lock};

/// Bytes on their way in one direction.
const IN_FLIGHT: usize = 64 * 1024;
/// Longer than anybody waits for a connection.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// The way to the provider.
pub(crate) struct ToProvider(pub(crate) Shared);

impl Wires for ToProvider {
    fn connect(&self, destination: &Destination) -> Connected {
        let world = Arc::clone(&self.0);
        let tls = destination.tls.is_some();
        Box::pin(async move {
            let (latency, broken) = {
                let mut world = lock(&world);
                let latency = Duration::from_millis(1 + world.rng.below(30) as u64);
                let broken = if world.breaks(3, Fault::DialRefused) {
                    Some(NotSent::Connect("connection refused".to_owned()))
                } else if world.breaks(1, Fault::NoName) {
                    Some(NotSent::Resolve("no such host".to_owned()))
                } else if tls && world.breaks(2, Fault::TlsFails) {
                    Some(NotSent::Tls("the certificate is not trusted".to_owned()))
                } else {
                    None
                };
                (latency, broken)
            };
            tokio::time::sleep(latency).await;
            if let Some(proof) = broken {
                return Err(proof);
            }
            if lock(&world).breaks(1, Fault::DialHangs) {
                tokio::time::sleep(FOR_EVER).await;
            }
            let (near, far) = tokio::io::duplex(IN_FLIGHT);
            let reset = Arc::new(AtomicBool::new(false));
            let wire = Wire { stream: near, reset: Arc::clone(&reset) };
            tokio::spawn(serve(world, far, reset));
            Ok(Box::new(wire) as Box<dyn Stream>)
        })
    }
}

/// The sidecar's end of a connection.
struct Wire {
    stream: DuplexStream,
    /// The other end was not closed but reset.
    reset: Arc<AtomicBool>,
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let ended = matches!(read, Poll::Ready(Ok(()))) && buf.filled().len() == before;
        match ended && self.reset.load(Ordering::SeqCst) {
            true => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            false => read,
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The provider's end: one request after the other.
async fn serve(world: Shared, far: DuplexStream, reset: Arc<AtomicBool>) {
    let mut requests = Messages::new(far);
    while let Ok(Some(request)) = requests.next().await {
        let (reaction, closes) = {
            let mut world = lock(&world);
            let reaction = react(&mut world, &request);
            let reset = matches!(reaction.goes, Goes::Reset | Goes::Half);
            if reset && world.plant == Some(Plant::Resends) && request.start.starts_with("POST ") {
                react(&mut world, &request);
            }
            (reaction, world.breaks(10, Fault::StaleConnection))
        };
        tokio::time::sleep(Duration::from_millis(reaction.after_ms)).await;
        let whole = reaction.bytes();
        let bytes = match reaction.goes {
            Goes::Whole => whole.as_slice(),
            Goes::Half => &whole[..whole.len() - reaction.body.to_string().len() / 2 - 1],
            Goes::Garbled => b"SMTP/1.1 220 ready\r\n\r\n",
            Goes::Nowhere | Goes::Reset => b"",
        };
        // The sidecar may have gone: that is its end of the story.
        if requests.stream().write_all(bytes).await.is_err() {
            return;
        }
        match reaction.goes {
            Goes::Whole if !closes => {}
            // An idle connection that is closed a moment later.
            Goes::Whole => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                return;
            }
            Goes::Nowhere | Goes::Garbled => return,
            Goes::Reset | Goes::Half => {
                reset.store(true, Ordering::SeqCst);
                return;
            }
        }
    }
}
