//! Requests that are the last on their connection.
//!
//! A body may be left there unread, and be taken for the next request. Servers do so with bodies to which the method gives no meaning, and many with every body at some place: an error, a
//! redirect, a static file ("CL.0", <https://portswigger.net/research/browser-powered-desync-attacks>). The answer to what
//! stands in the body would then be taken for the answer to the next request on that connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, SizeHint};

use super::{Body, BodyError};

/// Whether a connection has carried what its provider may take for a request. Shared with the body on its way.
#[derive(Clone, Default)]
pub(super) struct Spent(Arc<AtomicBool>);

impl Spent {
    /// Whether no other request may follow.
    #[must_use]
    pub(super) fn is_spent(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Lets no other request follow.
    pub(super) fn spend(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The request as it leaves. Where its body may be left unread no other follows, and the provider is told so
/// (`Connection: close`); nor where the body begins as a request does, which is seen on its way, or where it authenticates the
/// connection.
pub(super) fn noted(mut request: Request<Body>, spent: &Spent) -> Request<Body> {
    if may_be_left(&request) {
        spent.spend();
        say_close(request.headers_mut());
    }
    if authenticates_the_connection(request.headers()) {
        spent.spend();
    }
    request.map(|body| noting(body, spent))
}

/// Whether a request has a body that many servers do not read: all methods but these give theirs no meaning (RFC 9110
/// section 9.3), or none that everybody knows.
fn may_be_left(request: &Request<Body>) -> bool {
    ![Method::POST, Method::PUT, Method::PATCH].contains(request.method()) && !request.body().is_end_stream()
}

/// Whether the provider knows from then on who speaks on this connection, whatever the next request says (RFC 4559 section
/// 6): it must not be anybody else's.
fn authenticates_the_connection(headers: &HeaderMap) -> bool {
    let of_the_connection = |value: &HeaderValue| {
        let scheme = value.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"Negotiate") || scheme.eq_ignore_ascii_case(b"NTLM")
    };
    headers.get_all(header::AUTHORIZATION).iter().any(of_the_connection)
}

/// Asks for the end of the connection behind the answer, besides what is asked of the next hop already; once.
fn say_close(headers: &mut HeaderMap) {
    let said = headers.get_all(header::CONNECTION).iter().any(|value| value == "close");
    if !said {
        headers.append(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// The body, which spends its connection if it begins as a request line does.
fn noting(body: Body, spent: &Spent) -> Body {
    if body.is_end_stream() {
        return body;
    }
    Noting { body, begins: Begins::NotYet, spent: spent.clone() }.boxed_unsync()
}

/// How a body begins, behind the line ends that a server passes over (RFC 9112 section 2.2).
enum Begins {
    NotYet,
    /// With a character of a method's name (RFC 9110 section 5.6.2): one line end more, and it is a request line.
    AsAMethod,
    /// With anything else: JSON does, with a brace or a quote.
    Otherwise,
}

struct Noting {
    body: Body,
    begins: Begins,
    spent: Spent,
}

impl Noting {
    fn note(&mut self, piece: &[u8]) {
        let ends_a_line = |byte: &u8| matches!(byte, b'\r' | b'\n');
        if let Begins::NotYet = self.begins
            && let Some(first) = piece.iter().find(|byte| !ends_a_line(byte))
        {
            self.begins = if is_of_a_token(*first) { Begins::AsAMethod } else { Begins::Otherwise };
        }
        match self.begins {
            Begins::AsAMethod if piece.iter().any(ends_a_line) => self.spent.spend(),
            Begins::NotYet | Begins::AsAMethod | Begins::Otherwise => {}
        }
    }
}

/// A character of a token.
fn is_of_a_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl hyper::body::Body for Noting {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(piece) = frame.data_ref()
        {
            self.note(piece);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::whole;

    /// In pieces as short as they can be, and whole.
    #[tokio::test]
    async fn what_begins_as_a_request_does_is_the_last_on_its_connection() {
        for (text, last) in [
            ("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", true),
            ("\r\n\nGET / HTTP/1.1\n\n", true),
            ("--b\r\nContent-Disposition: form-data\r\n", true),
            ("order=a\r\nGET / HTTP/1.1\r\n\r\n", true),
            ("order=a&amount=5", false),
            ("{\r\n  \"order\": \"GET / HTTP/1.1\\r\\n\"\r\n}", false),
            ("[\n1]", false),
            ("\"text\"\n", false),
            ("<pay>\n</pay>\n", false),
            ("", false),
        ] {
            let spent = Spent::default();
            let body = noting(whole(Bytes::from_static(text.as_bytes())), &spent);
            assert_eq!(body.size_hint().exact(), Some(text.len() as u64));
            assert_eq!(body.collect().await.unwrap().to_bytes(), text.as_bytes());
            assert_eq!(spent.is_spent(), last, "{text:?}");

            let spent = Spent::default();
            let mut pieces =
                Noting { body: whole(Bytes::new()), begins: Begins::NotYet, spent: spent.clone() };
            text.as_bytes().chunks(1).for_each(|piece| pieces.note(piece));
            assert_eq!(spent.is_spent(), last, "in pieces: {text:?}");
        }
    }
}
