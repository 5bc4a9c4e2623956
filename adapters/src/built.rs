//! The request for an input that came without one, through the API listener.

use oncegate_policy::template::{Piece, Template};

/// A request that is ready but for its secrets: the same that an agent would have sent through the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Upper case.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// Names in lower case. Those with a secret in them can only be rendered where the secret may be placed; of the
    /// others it is known that they can be sent.
    pub headers: Vec<(String, Template)>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
}

/// A header whose value stands for itself, whatever braces are in it.
pub(crate) fn plain_header(name: &str, value: &str) -> (String, Template) {
    (name.to_owned(), Template::of_piece(Piece::Text(value.to_owned())))
}

/// Whether a text can be a header's value.
pub(crate) fn is_header_text(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
}
