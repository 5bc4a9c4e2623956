//! A read of the provider: a GET, by type.

/// What no client sends unescaped in a path or a query.
const NEVER_RAW: &[u8] = br##"#\<>"`"##;

/// A GET of one path at the action's own host. There is no way to give it a method or a body, so a look at what
/// happened can never make anything happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBack {
    path_and_query: String,
    headers: Vec<(String, String)>,
}

/// Why a read cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadBackFault {
    /// It does not begin with one `/`: it could name another host.
    #[error("the path must begin with exactly one slash")]
    NotAPath,
    /// A space, a control character, a fragment or anything but ASCII.
    #[error("the path holds a character that must be escaped")]
    PathCharacter,
    /// A name that is not a lower-case token.
    #[error("a header name is not a lower-case token")]
    HeaderName,
    /// A line end or another control character, or anything but ASCII.
    #[error("a header value holds a character that cannot be sent")]
    HeaderValue,
}

impl ReadBack {
    /// A GET of `path_and_query`, escaped as it goes on the wire, with these headers (names in lower case). The
    /// credential is not among them: whoever sends it places it.
    ///
    /// # Errors
    /// What could end the request line or a header early, or reach another host.
    pub fn get(path_and_query: String, headers: Vec<(String, String)>) -> Result<Self, ReadBackFault> {
        if !path_and_query.starts_with('/') || path_and_query.starts_with("//") {
            return Err(ReadBackFault::NotAPath);
        }
        if !path_and_query.bytes().all(|b| b.is_ascii_graphic() && !NEVER_RAW.contains(&b)) {
            return Err(ReadBackFault::PathCharacter);
        }
        for (name, value) in &headers {
            if !is_lower_token(name) {
                return Err(ReadBackFault::HeaderName);
            }
            if !value.bytes().all(|b| b.is_ascii_graphic() || b == b' ') {
                return Err(ReadBackFault::HeaderValue);
            }
        }
        Ok(Self { path_and_query, headers })
    }

    /// The path and query as they go on the wire.
    #[must_use]
    pub fn path_and_query(&self) -> &str {
        &self.path_and_query
    }

    /// The headers, names in lower case.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }
}

/// A token of RFC 9110 section 5.6.2 without upper-case letters.
fn is_lower_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_could_split_the_request_is_built() {
        for (path, header, fault) in [
            ("/v1/refunds?limit=100", ("stripe-account", "acct_1"), None),
            ("/v1/payment_intents/pi_1?expand[]=latest_charge", ("accept", "a, b"), None),
            ("v1/refunds", ("a", "b"), Some(ReadBackFault::NotAPath)),
            ("//evil.example/v1", ("a", "b"), Some(ReadBackFault::NotAPath)),
            ("", ("a", "b"), Some(ReadBackFault::NotAPath)),
            ("/v1 HTTP/1.1", ("a", "b"), Some(ReadBackFault::PathCharacter)),
            ("/v1\r\nx: y", ("a", "b"), Some(ReadBackFault::PathCharacter)),
            ("/v1\t", ("a", "b"), Some(ReadBackFault::PathCharacter)),
            ("/v1#x", ("a", "b"), Some(ReadBackFault::PathCharacter)),
            ("/v1\\x", ("a", "b"), Some(ReadBackFault::PathCharacter)),
            ("/v1?q=\"x\"", ("a", "b"), Some(ReadBackFault::PathCharacter)),
            ("/vé", ("a", "b"), Some(ReadBackFault::PathCharacter)),
            ("/v1", ("a b", "c"), Some(ReadBackFault::HeaderName)),
            ("/v1", ("Accept", "c"), Some(ReadBackFault::HeaderName)),
            ("/v1", ("", "c"), Some(ReadBackFault::HeaderName)),
            ("/v1", ("a", "b\r\nc: d"), Some(ReadBackFault::HeaderValue)),
            ("/v1", ("a", "b\0"), Some(ReadBackFault::HeaderValue)),
        ] {
            let headers = vec![(header.0.to_owned(), header.1.to_owned())];
            assert_eq!(ReadBack::get(path.to_owned(), headers).err(), fault, "{path:?} {header:?}");
        }
    }
}
