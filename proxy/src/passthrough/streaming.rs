//! The body of an answer on its way to the agent.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::trailers;
use crate::arriving::Arriving;
use crate::scrub::{ScrubStream, Scrubber};
use crate::task::Work;
use crate::unpack::Unpacker;
use crate::upstream::BodyError;
use crate::upstream::apart::Apart;
use crate::upstream::dial::Destination;
use crate::upstream::link::Link;
use crate::upstream::pool::Pool;
use crate::upstream::silence::{Silence, TOO_LONG};

/// An answer on its way: unpacked if need be, and without secrets. Each piece is passed on as it comes; the next one is
/// read when the agent has taken it.
pub(super) struct Streaming {
    inner: Incoming,
    unpacker: Option<Unpacker>,
    scrub: ScrubStream,
    /// Cleans the trailers; `None` where nobody asked for any.
    trailers_by: Option<Scrubber>,
    trailers: Option<HeaderMap>,
    ended: bool,
    moved_by: MovedBy,
    silence: Silence,
}

/// What moves an answer.
pub(super) enum MovedBy {
    /// Whoever reads it. The connection goes home when the answer has ended.
    Reader(Arc<Pool>, Arc<Destination>, Box<Link>),
    /// A task of its own, since the request is not whole yet: an agent that sends all of it before it reads any of the
    /// answer would wait for us, and we for it.
    Itself { _connection: Apart },
    /// It has ended.
    Nobody,
}

impl MovedBy {
    /// For an answer whose head has come over `link`.
    pub(super) fn new(
        pool: &Arc<Pool>,
        destination: Arc<Destination>,
        link: Box<Link>,
        sending: &Sending,
    ) -> Self {
        match sending.0.strong_count() {
            0 => Self::Reader(Arc::clone(pool), destination, link),
            _ => Self::Itself { _connection: link.apart() },
        }
    }
}

/// Whether a request's body is still being sent.
pub(super) struct Sending(Weak<()>);

impl Sending {
    /// One that was there as a whole: nobody has to send any more of it.
    pub(super) fn whole() -> Self {
        Self(Weak::new())
    }
}

impl Streaming {
    pub(super) fn new(
        inner: Incoming,
        unpacker: Option<Unpacker>,
        scrub: ScrubStream,
        trailers_by: Option<Scrubber>,
        moved_by: MovedBy,
    ) -> Self {
        Self {
            inner,
            unpacker,
            scrub,
            trailers_by,
            trailers: None,
            ended: false,
            moved_by,
            silence: Silence::default(),
        }
    }

    /// What comes from the provider.
    fn arriving(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let arrived = match &mut self.moved_by {
            MovedBy::Reader(_, _, link) => link.poll_frame(&mut self.inner, cx),
            MovedBy::Itself { .. } | MovedBy::Nobody => Pin::new(&mut self.inner).poll_frame(cx),
        };
        match arrived {
            Poll::Ready(frame) => {
                self.silence.broken();
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => self.silence.poll(cx).map(|()| Some(Err(TOO_LONG.into()))),
        }
    }

    fn go_home(&mut self) {
        match std::mem::replace(&mut self.moved_by, MovedBy::Nobody) {
            MovedBy::Reader(pool, destination, link) => pool.put(&destination, link),
            MovedBy::Itself { .. } | MovedBy::Nobody => {}
        }
    }

    /// The answer breaks here: what the agent has of it is told to be a part.
    fn broken(&mut self, error: BodyError) -> Option<Result<Frame<Bytes>, BodyError>> {
        self.moved_by = MovedBy::Nobody;
        Some(Err(error))
    }

    fn frame(&mut self, frame: Frame<Bytes>) -> Option<Bytes> {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(other) => {
                if let (Ok(trailers), Some(scrubber)) = (other.into_trailers(), &self.trailers_by) {
                    self.trailers = Some(trailers::passed_on(&trailers, scrubber));
                }
                return None;
            }
        };
        match &mut self.unpacker {
            Some(unpacker) => {
                unpacker.push(data);
                None
            }
            None => Some(self.scrub.push(data)),
        }
    }
}

impl Drop for Streaming {
    /// An answer of known length is not polled again after its last byte: its end is seen here.
    fn drop(&mut self) {
        if self.inner.is_end_stream() {
            self.go_home();
        }
    }
}

impl http_body::Body for Streaming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        loop {
            let mut clean = None;
            match this.unpacker.as_mut().map(Unpacker::pull) {
                Some(Err(error)) => return Poll::Ready(this.broken(error.into())),
                Some(Ok(Some(piece))) => clean = Some(this.scrub.push(piece)),
                Some(Ok(None)) | None if this.ended => {
                    let rest = this.scrub.finish();
                    if !rest.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(rest))));
                    }
                    return Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
                }
                Some(Ok(None)) | None => match ready!(this.arriving(cx)) {
                    Some(Ok(frame)) => clean = this.frame(frame),
                    Some(Err(error)) => return Poll::Ready(this.broken(error)),
                    None => {
                        if let Some(Err(error)) = this.unpacker.as_mut().map(Unpacker::finish) {
                            return Poll::Ready(this.broken(error.into()));
                        }
                        this.go_home();
                        this.ended = true;
                    }
                },
            }
            if let Some(clean) = clean.filter(|clean| !clean.is_empty()) {
                return Poll::Ready(Some(Ok(Frame::data(clean))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let arrived = self.ended || (self.inner.is_end_stream() && self.unpacker.is_none());
        arrived && self.scrub.is_idle() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        // What an unpacker makes is not told by what arrives.
        if self.unpacker.is_some() { SizeHint::default() } else { self.inner.size_hint() }
    }
}

/// A request's body as it comes, for as long as it may, without its trailers: they were not judged, and end here.
pub(super) struct WithoutTrailers {
    arriving: Arriving,
    /// Ends, and says why, when no more of it may be sent.
    withdrawn: Option<Work<&'static str>>,
    /// The HTTP library drops a body when it has sent all of it.
    _sending: Arc<()>,
}

impl WithoutTrailers {
    pub(super) fn new(arriving: Arriving, withdrawn: Option<Work<&'static str>>) -> (Self, Sending) {
        let sending = Arc::new(());
        let seen = Sending(Arc::downgrade(&sending));
        (Self { arriving, withdrawn, _sending: sending }, seen)
    }
}

impl http_body::Body for WithoutTrailers {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(Poll::Ready(why)) = self.withdrawn.as_mut().map(|withdrawn| withdrawn.as_mut().poll(cx)) {
            self.withdrawn = None;
            return Poll::Ready(Some(Err(why.into())));
        }
        loop {
            match ready!(Pin::new(&mut self.arriving).poll_frame(cx)) {
                Some(Ok(frame)) if frame.is_data() => return Poll::Ready(Some(Ok(frame))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.arriving.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.arriving.size_hint()
    }
}
