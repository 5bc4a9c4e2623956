//! Trailer fields (RFC 9110 section 6.5).
//!
//! Those of an answer are passed on to an agent that asked for them (`TE: trailers`), if the provider announced them
//! (`Trailer`): without the announcement HTTP/1.1 has no place to send them from here. Those of a request end here, as
//! section 6.5.1 allows: nothing that was not judged is to become a field at the provider. They are never merged into
//! the header.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::receive::is_hop_by_hop;
use crate::respond::is_ours_or_hint;
use crate::scrub::Scrubber;

/// Fields that frame, route, authenticate, or say how a message is to be read: too late at its end (section 6.5.1).
const NEVER: [&str; 27] = [
    "age",
    "authorization",
    "cache-control",
    "content-encoding",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expires",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "location",
    "max-forwards",
    "pragma",
    "range",
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "set-cookie",
    "vary",
    "via",
    "warning",
    "www-authenticate",
];

fn may_pass(name: &HeaderName, scrubber: &Scrubber) -> bool {
    let name = name.as_str();
    !NEVER.contains(&name) && !is_hop_by_hop(name) && !is_ours_or_hint(name) && !scrubber.is_in_name(name)
}

/// Whether the sender of these fields takes trailers.
#[must_use]
pub fn wanted(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::TE).iter().filter_map(|line| line.to_str().ok());
    let mut codings = lines.flat_map(|line| line.split(','));
    codings.any(|coding| coding.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("trailers"))
}

/// The announcement to pass on: of what was announced, the names that may pass.
#[must_use]
pub(super) fn announced(headers: &HeaderMap, scrubber: &Scrubber) -> Option<HeaderValue> {
    let lines = headers.get_all(header::TRAILER).iter().filter_map(|line| line.to_str().ok());
    let names: Vec<String> = lines
        .flat_map(|line| line.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .filter(|name| may_pass(name, scrubber))
        .map(|name| name.as_str().to_owned())
        .collect();
    if names.is_empty() { None } else { HeaderValue::from_str(&names.join(", ")).ok() }
}

/// The fields that may pass, without secrets.
#[must_use]
pub(super) fn passed_on(trailers: &HeaderMap, scrubber: &Scrubber) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(trailers.len());
    for (name, value) in trailers {
        if may_pass(name, scrubber)
            && let Ok(clean) = HeaderValue::from_bytes(&scrubber.clean(value.as_bytes()))
        {
            kept.append(name.clone(), clean);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn who_asks_and_what_may_pass() {
        assert!(wanted(&fields(&[("te", "gzip;q=0.5, Trailers")])));
        assert!(!wanted(&fields(&[("te", "gzip"), ("trailer", "x-sum")])));
        let came = fields(&[("trailer", "X-Sum, Content-Length, oncegate-effect"), ("trailer", "etag, te")]);
        let none = Scrubber::default();
        assert_eq!(announced(&came, &none).unwrap(), "x-sum, etag");
        assert_eq!(announced(&fields(&[("trailer", "Authorization, Set-Cookie, Retry-After")]), &none), None);
        let sent = fields(&[("x-sum", "1"), ("set-cookie", "a=b"), ("transfer-encoding", "chunked")]);
        assert_eq!(passed_on(&sent, &none), fields(&[("x-sum", "1")]));
    }
}
