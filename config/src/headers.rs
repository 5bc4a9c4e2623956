//! Names of header fields.

use crate::reader::Node;
use crate::value::text;

/// Fields that belong to the connection or to the framing of a message, which are ours to write.
const OURS: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The name of a field that an operator may set, in lower case.
pub(crate) fn header_name(node: &Node<'_>) -> Option<String> {
    check_name(node, text(node)?)
}

/// The same, for a name that is not itself a value.
pub(crate) fn check_name(node: &Node<'_>, written: &str) -> Option<String> {
    let name = written.to_ascii_lowercase();
    // RFC 9110 section 5.6.2: token.
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        node.fault(format!("{}: `{written}` is not a header's name", node.what));
        return None;
    }
    if OURS.contains(&name.as_str()) {
        node.fault(format!("{}: `{written}` is written by Oncegate itself and cannot be set", node.what));
        return None;
    }
    Some(name)
}
