//! What stands before every handler: no browser, no rebound name, a request id, and an answer even when a
//! handler panics.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use oncegate_policy::authority::Authority;

use super::answer::{ApiError, ErrorCode};
use super::serving::OverTls;
use crate::state::Sidecar;
use crate::task;

/// The port that a `Host` without one means.
const HTTP_PORT: u16 = 80;

/// Gives every answer its `X-Request-Id`, keeps answers out of caches, and runs the handler in a task of its
/// own: neither a client that hangs up nor a panic leaves something half done or unanswered.
pub(crate) async fn answer_always(request: Request, next: Next) -> Response {
    let id = format!("req_{}", ulid::Ulid::new());
    let mut response = match task::start(next.run(request)).await {
        Ok(response) => response,
        // The panic hook has written what happened to the log; its text is not for the client.
        Err(error) => ApiError::internal("answer this request", &error).into_response(),
    };
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert("x-request-id", id);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Turns away what a browser sends, and names that somebody else could point at us.
pub(crate) async fn no_browser(
    State(sidecar): State<Arc<Sidecar>>,
    request: Request,
    next: Next,
) -> Response {
    let listen = sidecar.snapshot().config.control.listen;
    let over_tls = request.extensions().get::<OverTls>().is_some();
    match check(request.headers(), request.uri(), listen, over_tls) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check(headers: &HeaderMap, uri: &Uri, listen: SocketAddr, over_tls: bool) -> Result<(), ApiError> {
    let refused = |message: &str| Err(ApiError::new(ErrorCode::Authorization, message));
    // A web page has no business here, and no browser lets a page leave this header out of a cross-site write.
    if headers.contains_key(header::ORIGIN) {
        return refused("requests from web pages are not accepted");
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(ApiError::new(ErrorCode::Validation, "exactly one Host header is needed"));
    };
    // A name that somebody pointed at us has no certificate for it: TLS has turned it away.
    if over_tls {
        return Ok(());
    }
    let ours = |text: &str| {
        Authority::parse(text, Some(HTTP_PORT)).is_ok_and(|authority| is_ours(&authority.host, listen.ip()))
    };
    if !host.to_str().is_ok_and(ours) || !uri.authority().is_none_or(|authority| ours(authority.as_str())) {
        return refused(
            "the Host header names neither this machine's loopback nor the address the API listens on",
        );
    }
    Ok(())
}

/// A name can be made to resolve to us by whoever owns it; an address cannot.
fn is_ours(host: &str, listen: IpAddr) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address == listen || listen.is_unspecified(),
        Err(_) => host == "localhost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(host: &str, listen: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        check(&headers, &Uri::from_static("/api/v2/impact-limits"), listen.parse().unwrap(), false).is_ok()
    }

    #[test]
    fn only_our_own_authority_is_answered() {
        for host in ["127.0.0.1:8081", "localhost:8081", "LOCALHOST", "[::1]:8081"] {
            assert!(allowed(host, "127.0.0.1:8081"), "{host}");
        }
        for host in ["evil.example", "evil.example:8081", "10.0.0.7:8081", "localhost.evil.example", "a b"] {
            assert!(!allowed(host, "127.0.0.1:8081"), "{host}");
        }
        assert!(allowed("10.0.0.7:8081", "10.0.0.7:8081"));
        assert!(allowed("10.0.0.7:8081", "0.0.0.0:8081"));
        assert!(!allowed("evil.example:8081", "0.0.0.0:8081"));
    }

    #[test]
    fn web_pages_and_absolute_targets_elsewhere_are_refused() {
        let listen = "127.0.0.1:8081".parse().unwrap();
        let mut headers = HeaderMap::new();
        assert!(check(&headers, &Uri::from_static("/"), listen, false).is_err());
        headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:8081"));
        assert!(check(&headers, &Uri::from_static("http://evil.example/"), listen, false).is_err());
        headers.insert(header::ORIGIN, HeaderValue::from_static("http://127.0.0.1:8081"));
        assert!(check(&headers, &Uri::from_static("/"), listen, false).is_err());
    }

    #[test]
    fn over_tls_the_certificate_has_proved_the_name() {
        let listen = "0.0.0.0:8081".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("sidecar.internal:8081"));
        assert!(check(&headers, &Uri::from_static("/"), listen, false).is_err());
        assert!(check(&headers, &Uri::from_static("/"), listen, true).is_ok());
        headers.insert(header::ORIGIN, HeaderValue::from_static("https://sidecar.internal:8081"));
        assert!(check(&headers, &Uri::from_static("/"), listen, true).is_err());
    }
}
