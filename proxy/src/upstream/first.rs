//! One try to send one request over one connection, and what may be believed of it.

use http::{Request, Response};
use hyper::body::Incoming;

use super::link::Link;
use super::{Body, chain};

/// How a try began.
pub enum First {
    /// The head of an answer.
    Head(Response<Incoming>),
    /// The request as it was, and why: not a byte of it left.
    HandedBack(Box<Request<Body>>, String),
    /// It may have left, and no answer came; why.
    Lost(String),
}

impl First {
    /// Sends a request.
    pub async fn over(link: &mut Link, request: Box<Request<Body>>) -> Self {
        if let Err(error) = link.ready().await {
            return Self::HandedBack(request, chain(&error));
        }
        match link.send(request).await {
            Ok(response) => Self::Head(response),
            Err(mut error) => {
                // Handed back proves that nothing was sent; not handed back proves nothing at all. The counter under
                // TLS is a second witness: with a single byte written, "handed back" is not believed.
                let unsent = error.take_message().filter(|_| link.written.bytes() == link.written_before);
                let cause = chain(error.error());
                match unsent {
                    Some(unsent) => Self::HandedBack(Box::new(unsent), cause),
                    None => Self::Lost(cause),
                }
            }
        }
    }
}
