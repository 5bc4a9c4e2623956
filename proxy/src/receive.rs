//! What an agent sent: bounded, attributed, hop-by-hop fields off, and read in exactly one way.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use oncegate_policy::authority::Authority;
use oncegate_policy::caller::CallerName;
use oncegate_policy::other_method;
use oncegate_policy::path::CanonicalPath;
use oncegate_policy::query;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::url_template::Scheme;

use crate::arriving::Arriving;
use crate::connection::REQUEST_HEAD_BYTES_MAX;
use crate::passthrough::trailers;
use crate::plan::KEY_HEADER;

/// Who is on the other side of a connection, and where they said they go.
#[derive(Clone, Debug)]
pub struct Via {
    /// Who asks.
    pub caller: CallerName,
    /// TLS inside a `CONNECT`, or an absolute-form request.
    pub scheme: Scheme,
    /// The one authority of the request: CONNECT target and SNI, or the absolute form's.
    pub authority: Authority,
}

/// A request's head, read in one way.
pub struct Head {
    /// Who asks, of whom.
    pub via: Arc<Via>,
    /// One of the standard methods, upper case.
    pub method: Method,
    /// The path in its canonical spelling.
    pub path: CanonicalPath,
    /// The path and query exactly as they came: these bytes go out.
    pub raw_path_and_query: PathAndQuery,
    /// Decoded query parameters.
    pub query: Vec<(String, String)>,
    /// The agent's fields, without the hop-by-hop ones.
    pub headers: HeaderMap,
    /// Its fields for Oncegate itself: they end here.
    pub own: HeaderMap,
    /// The agent takes trailers (`TE: trailers`).
    pub wants_trailers: bool,
}

/// How the names of fields for Oncegate itself begin.
const OURS: &str = "oncegate-";

/// Whether a field is for Oncegate itself, or from it; also in the spelling with `_`.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    name.get(..OURS.len()).is_some_and(|start| is_read_as(start, OURS))
}

/// The one value of a field that may stand once.
///
/// # Errors
/// `ambiguous`: it stands there twice.
pub fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a HeaderValue>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(twice(name)),
    }
}

fn twice(name: &str) -> Refusal {
    let sentence = format!("The header {name} stands in the request twice. Nothing was sent.");
    Refusal::new(Code::Ambiguous, sentence)
}

/// Fields that ask a server to take one method for another.
const METHOD_OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// Fields that make some servers serve another path than that of the request line.
const PATH_OVERRIDES: [&str; 2] = ["x-original-url", "x-rewrite-url"];

/// Reads a head. `parts` come from an HTTP/1.1 parser that has refused broken framing already.
///
/// # Errors
/// A refusal: `invalid_request` for HTTP that we do not take, `ambiguous` for what two readers could read
/// differently.
pub fn head(parts: http::request::Parts, via: Arc<Via>) -> Result<Head, Refusal> {
    let broken = |sentence: &str| Refusal::new(Code::InvalidRequest, sentence);
    let ambiguous = |sentence: String| Refusal::new(Code::Ambiguous, format!("{sentence} Nothing was sent."));
    // Method names are case-sensitive (RFC 9110 section 9.1): "post" is no method that we know.
    if parts.method.as_str().bytes().any(|byte| !byte.is_ascii_uppercase()) {
        return Err(broken(
            "The method is not one that is known here; methods are case-sensitive. Nothing was sent.",
        ));
    }
    if head_bytes(&parts) > REQUEST_HEAD_BYTES_MAX {
        return Err(broken("The head of the request is larger than 64 KiB. Nothing was sent."));
    }
    one_framing(&parts.headers)?;
    one_authority(&parts, &via.authority, via.scheme)?;
    // All of them begin so.
    if parts.headers.keys().any(|name| name.as_str().starts_with('x')) {
        if let Some(name) = one_of(&METHOD_OVERRIDES, &parts.headers) {
            return Err(ambiguous(format!(
                "The header {name} asks for another method than the request line."
            )));
        }
        if let Some(name) = one_of(&PATH_OVERRIDES, &parts.headers) {
            return Err(ambiguous(format!("The header {name} asks for another path than the request line.")));
        }
    }
    // An empty path is the root (RFC 9112 section 3.2.1). `http` says so of it as text, and would send nothing.
    let given = parts.uri.path_and_query().filter(|given| given.as_str() != "/");
    let raw = given.cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let (raw_path, raw_query) = match raw.as_str().split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (raw.as_str(), None),
    };
    // An encoded slash has one reading only where an action says so: `meaning` refuses it elsewhere.
    let (path, _) = CanonicalPath::parse_or_spread(raw_path)
        .map_err(|fault| ambiguous(format!("The path is ambiguous: {fault}.")))?;
    let query =
        query::parse(raw_query).map_err(|fault| ambiguous(format!("The query is ambiguous: {fault}.")))?;
    let own = parts.method.as_str();
    if query.iter().any(|(name, value)| other_method::is_asked_in_query(name, value, own)) {
        return Err(ambiguous("The query asks for another method than the request line.".to_owned()));
    }
    let wants_trailers = trailers::wanted(&parts.headers);
    let (headers, own) = end_to_end(parts.headers);
    Ok(Head { via, method: parts.method, path, raw_path_and_query: raw, query, headers, own, wants_trailers })
}

/// The first of these fields that is there, in any spelling that a server may take for it.
fn one_of<'a>(names: &[&'a str], headers: &HeaderMap) -> Option<&'a str> {
    names.iter().copied().find(|name| headers.keys().any(|there| is_read_as(there.as_str(), name)))
}

/// Whether two names of fields are one to a server that hands fields on as variables (CGI, WSGI, PHP): there `-` is
/// written `_`. Names are in lower case.
#[must_use]
pub fn is_read_as(name: &str, other: &str) -> bool {
    let folded = |byte: u8| if byte == b'_' { b'-' } else { byte };
    name.len() == other.len() && name.bytes().map(folded).eq(other.bytes().map(folded))
}

/// Sets a field in place of what the agent sent there, in any spelling that a server may take for it.
pub fn set_field(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    let other = |there: &&HeaderName| **there != name && is_read_as(there.as_str(), name.as_str());
    let others: Vec<HeaderName> = headers.keys().filter(other).cloned().collect();
    for other in others {
        headers.remove(other);
    }
    headers.insert(name, value);
}

/// The parser stops somewhere behind its bound, where a read happens to end; here it is exact.
fn head_bytes(parts: &http::request::Parts) -> usize {
    let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
    let field =
        |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + ": \r\n".len();
    target + parts.headers.iter().map(field).sum::<usize>()
}

/// One way to tell where the body ends (RFC 9112 section 6.3): never two. The parser has taken equal lengths for one,
/// and has taken off a length beside a coding, which overrides it; the connection ends behind such a request.
fn one_framing(headers: &HeaderMap) -> Result<(), Refusal> {
    let lengths = headers.get_all(header::CONTENT_LENGTH).iter().count();
    let mut encodings = 0;
    for coding in headers.get_all(header::TRANSFER_ENCODING) {
        if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            let sentence = "The body is in a transfer coding other than chunked. Nothing was sent.";
            return Err(Refusal::new(Code::InvalidRequest, sentence));
        }
        encodings += 1;
    }
    if lengths + encodings > 1 {
        let sentence = "The request says in two ways where its body ends. Nothing was sent.";
        return Err(Refusal::new(Code::InvalidRequest, sentence));
    }
    Ok(())
}

/// Target, tunnel and `Host` have to name one authority.
fn one_authority(parts: &http::request::Parts, authority: &Authority, scheme: Scheme) -> Result<(), Refusal> {
    let disagree = || {
        let sentence = format!(
            "The request was sent towards {authority} and names another host inside. Nothing was sent."
        );
        Refusal::new(Code::Ambiguous, sentence)
    };
    let default_port = Some(scheme.default_port());
    // A target that is a host and nothing else is for CONNECT alone (RFC 9112 section 3.2.3).
    if parts.uri.authority().is_some() && parts.uri.scheme().is_none() {
        let sentence = "The request target is a host without a path. Nothing was sent.";
        return Err(Refusal::new(Code::InvalidRequest, sentence));
    }
    if let Some(inner) = parts.uri.authority() {
        let inner = Authority::parse(inner.as_str(), default_port).map_err(|_| disagree())?;
        let inner_scheme = parts.uri.scheme_str().unwrap_or(scheme.as_str());
        if inner != *authority || !inner_scheme.eq_ignore_ascii_case(scheme.as_str()) {
            return Err(disagree());
        }
    }
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            let host = host.to_str().map_err(|_| disagree())?;
            // What is spelled as we spell it needs no reading. An address of IPv6 stands in brackets there.
            let spelled_alike = host == authority.host && !host.contains(':');
            if spelled_alike && authority.port == scheme.default_port() {
                return Ok(());
            }
            let host = Authority::parse(host, default_port).map_err(|_| disagree())?;
            if host == *authority { Ok(()) } else { Err(disagree()) }
        }
        (Some(_), Some(_)) => {
            Err(Refusal::new(Code::InvalidRequest, "The request has two Host fields. Nothing was sent."))
        }
        // HTTP/1.0 in absolute form or inside a tunnel may leave it out; the target then speaks alone.
        (None, _) if parts.version == http::Version::HTTP_10 => Ok(()),
        (None, _) => {
            Err(Refusal::new(Code::InvalidRequest, "The request has no Host field. Nothing was sent."))
        }
    }
}

/// The fields that concern the other side, and those for Oncegate itself under the names with `-`. Done before a credential is placed, never
/// after: `Connection: authorization` must not take the credential off again.
#[must_use]
pub fn end_to_end(headers: HeaderMap) -> (HeaderMap, HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    // Room for the credential, and for the `Host` that is set anew.
    let mut kept = HeaderMap::with_capacity(headers.len().saturating_add(2));
    let mut own = HeaderMap::new();
    let mut current = None;
    for (name, value) in headers {
        // A name comes with the first of its values.
        current = name.or(current);
        let Some(name) = &current else { continue };
        if is_ours(name.as_str()) {
            own.append(in_our_spelling(name), value);
        } else if !is_hop_by_hop(name.as_str()) && !named.contains(name) {
            kept.append(name, value);
        }
    }
    (kept, own)
}

/// The name of a field of ours, as it is looked for.
fn in_our_spelling(name: &HeaderName) -> HeaderName {
    if !name.as_str().contains('_') {
        return name.clone();
    }
    HeaderName::from_bytes(name.as_str().replace('_', "-").as_bytes()).unwrap_or_else(|_| name.clone())
}

/// Whether a field speaks to the next hop only (RFC 9110 section 7.6.1), or is one that we set ourselves; also in the
/// spelling with `_`.
#[must_use]
pub fn is_hop_by_hop(name: &str) -> bool {
    let folded = if name.contains('_') { Cow::Owned(name.replace('_', "-")) } else { Cow::Borrowed(name) };
    matches!(
        folded.as_ref(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "expect"
            | "content-length"
            | "host"
    )
}

/// Fields that mean one thing and may stand once (RFC 9110 section 5.3): of two, one server reads the first and another
/// the last. Those of the framing and the content type are looked at where they are read.
const SINGLE: [HeaderName; 2] = [header::AUTHORIZATION, HeaderName::from_static(KEY_HEADER)];

/// Fields of a governed request that are judged, and so may stand there in their own spelling only.
const JUDGED: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::AUTHORIZATION,
    HeaderName::from_static(KEY_HEADER),
];

/// Whether a body is packed: what its provider unpacks is not what was read.
#[must_use]
pub fn is_packed(headers: &HeaderMap) -> bool {
    let packed = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    headers.get_all(header::CONTENT_ENCODING).iter().any(packed)
}

/// What is judged has to be what is sent, so a governed request has nothing that is passed over when it is judged:
/// no field that is not text, no field twice that may stand once or in another spelling, and no packed body.
///
/// # Errors
/// `invalid_request`, or `ambiguous` for a field that stands twice or that servers read as another one.
pub fn readable(headers: &HeaderMap) -> Result<(), Refusal> {
    if let Some(name) = SINGLE.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        return Err(twice(name.as_str()));
    }
    let judged = |there: &&HeaderName| {
        JUDGED.iter().any(|name| *there != name && is_read_as(there.as_str(), name.as_str()))
    };
    if let Some(name) = headers.keys().find(judged) {
        let sentence = format!("The header {name} is another one to some servers. Nothing was sent.");
        return Err(Refusal::new(Code::Ambiguous, sentence));
    }
    let refuse = |sentence: String| Err(Refusal::new(Code::InvalidRequest, sentence));
    if let Some((name, _)) = headers.iter().find(|(_, value)| value.to_str().is_err()) {
        return refuse(format!(
            "The header {name} has characters other than printable ASCII. Nothing was sent."
        ));
    }
    if is_packed(headers) {
        return refuse(
            "The body is packed (Content-Encoding); send it as it is. Nothing was sent.".to_owned(),
        );
    }
    Ok(())
}

/// The whole body of a request that may be a governed write.
///
/// # Errors
/// `body_too_large`, `incomplete_request` when it did not arrive within `within`, `invalid_request` when its
/// framing broke or trailer fields follow it.
pub async fn body(arriving: Arriving, bytes_max: usize, within: Duration) -> Result<Bytes, Refusal> {
    let too_large = || {
        Refusal::new(
            Code::BodyTooLarge,
            format!("The body is larger than {bytes_max} bytes. Nothing was sent."),
        )
    };
    // Who has said how long it is, and waits for a word before it writes it, need not begin.
    if usize::try_from(arriving.size_hint().lower()).map_or(true, |said| said > bytes_max) {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(within, Limited::new(arriving, bytes_max).collect()).await;
    match collected {
        Err(_) => Err(Refusal::new(
            Code::IncompleteRequest,
            "The request did not arrive whole in time. Nothing was sent.",
        )),
        // They are part of no judgement, and the parser takes for trailers whatever follows a line feed that ends none.
        Ok(Ok(whole)) if whole.trailers().is_some() => Err(Refusal::new(
            Code::InvalidRequest,
            "Fields follow the body (a trailer section); they are not read here. Nothing was sent.",
        )),
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::new(
            Code::InvalidRequest,
            "The body is broken or did not arrive whole. Nothing was sent.",
        )),
    }
}

/// Fields as the adapters read them: lower-case names; what is no text is left out.
#[must_use]
pub fn plain(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

/// The `Host` field for an authority: without the port where it is the scheme's own, since signatures cover it.
#[must_use]
pub fn host_value(authority: &Authority, scheme: Scheme) -> Option<HeaderValue> {
    let default_port = authority.port == scheme.default_port();
    if default_port && !authority.host.contains(':') {
        return HeaderValue::from_str(&authority.host).ok();
    }
    let text = if default_port { authority.url_host() } else { authority.to_string() };
    HeaderValue::from_str(&text).ok()
}
