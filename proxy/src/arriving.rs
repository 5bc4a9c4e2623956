//! The body of an agent's request as it arrives, and what becomes of the part that nobody wants.
//!
//! A request may be answered before its body is whole: it is refused, or its provider answers early. Many clients read no
//! answer until they have written all, and some take a connection that is closed meanwhile for broken and never look for
//! one. So what is left of such a body is read and thrown away while the agent still writes, within bounds; then the
//! connection goes on, or ends as it should.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::task;

/// Bytes of one body that are thrown away; behind them the connection is closed.
const UNWANTED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long one body is thrown away.
const UNWANTED_FOR_MAX: Duration = Duration::from_secs(10);
/// Nothing came for so long: the agent does not write any more.
const SILENT_FOR_MAX: Duration = Duration::from_secs(1);

/// The body. Whoever drops it before its end lets the rest be thrown away.
pub struct Arriving {
    /// `None` once it has ended or broken.
    incoming: Option<Incoming>,
    /// The agent writes it, asked or not. One that waits to be told to (`Expect: 100-continue`) never begins.
    begun: bool,
}

impl Arriving {
    /// The same request, with its body in hand.
    pub fn of(request: Request<Incoming>) -> Request<Self> {
        let begun = !waits(request.headers());
        request.map(|incoming| Self { incoming: Some(incoming), begun })
    }
}

/// Whether the agent waits for a word before it writes the body.
fn waits(headers: &HeaderMap) -> bool {
    let expected = headers.get_all(header::EXPECT);
    expected.iter().any(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // To ask for it is the word that it waits for.
        self.begun = true;
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(incoming).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.incoming = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let left = self.incoming.take().filter(|incoming| self.begun && !incoming.is_end_stream());
        if let (Some(left), Ok(runtime)) = (left, Handle::try_current()) {
            runtime.spawn(task::apart(async move {
                // Over time, it is dropped, and the connection with it.
                drop(timeout(UNWANTED_FOR_MAX, thrown_away(left)).await);
            }));
        }
    }
}

async fn thrown_away(mut unwanted: Incoming) {
    let mut left = UNWANTED_BYTES_MAX;
    while let Ok(Some(Ok(frame))) = timeout(SILENT_FOR_MAX, unwanted.frame()).await {
        let came = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(came) {
            Some(still) => left = still,
            None => return,
        }
    }
}
