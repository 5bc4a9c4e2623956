//! The environment in which an agent's clients use the proxy and trust its CA, client by client (which variable
//! helps whom was tried out: see docs/guides/clients.md).

use std::net::SocketAddr;
use std::path::Path;

use oncegate_certs::TRUSTSTORE;
use oncegate_policy::caller::CallerName;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::shims::Shims;

/// What becomes of one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is this, whatever it was.
    Set(String),
    /// This stands before what it was, with the separator in between.
    Before(String, &'static str),
}

/// Variables that would lead clients around the proxy.
pub(crate) const REMOVED: [&str; 2] = ["ALL_PROXY", "all_proxy"];
/// Variables that lead to it.
pub(crate) const PROXIES: [&str; 8] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "WSS_PROXY",
    "wss_proxy",
    "WS_PROXY",
    "ws_proxy",
];

/// What agents must trust, and where they connect unless their connections are redirected.
pub(crate) struct Place<'a> {
    pub(crate) proxy: Option<Proxy<'a>>,
    /// System roots and our CA.
    pub(crate) bundle: &'a Path,
    /// Our CA alone.
    pub(crate) ca: &'a Path,
    pub(crate) shims: &'a Shims,
}

/// Where agents connect.
pub(crate) struct Proxy<'a> {
    /// With credentials if the caller has no listener of its own.
    pub(crate) url: &'a str,
    /// The same for Java, which takes host and port apart and sends no credentials: a port where none are needed, if
    /// there is one.
    pub(crate) java: SocketAddr,
}

/// `http://caller:key@host:port`; both parts are escaped.
pub(crate) fn proxy_url(authority: &str, credentials: Option<(&CallerName, &str)>) -> String {
    match credentials {
        Some((caller, key)) => {
            let escaped = |text: &str| utf8_percent_encode(text, &UNRESERVED).to_string();
            format!("http://{}:{}@{authority}", escaped(caller.as_str()), escaped(key))
        }
        None => format!("http://{authority}"),
    }
}

/// RFC 3986 section 2.3.
const UNRESERVED: percent_encoding::AsciiSet =
    NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Every variable, in the order in which it is printed.
pub(crate) fn changes(place: &Place<'_>) -> Vec<(&'static str, Change)> {
    let set = |name, value: String| (name, Change::Set(value));
    let path = |path: &Path| path.display().to_string();
    let mut changes = Vec::new();
    if let Some(proxy) = &place.proxy {
        changes.extend(PROXIES.map(|name| set(name, proxy.url.to_owned())));
        changes.extend(["NO_PROXY", "no_proxy"].map(|name| set(name, "127.0.0.1,localhost,::1".to_owned())));
        changes.push(set("NODE_USE_ENV_PROXY", "1".to_owned()));
    }
    // These replace a client's own roots: the bundle holds the system's too.
    for name in [
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "npm_config_cafile",
        "PIP_CERT",
        "CARGO_HTTP_CAINFO",
        "AWS_CA_BUNDLE",
        "DENO_CERT",
    ] {
        changes.push(set(name, path(place.bundle)));
    }
    // This one adds to them.
    changes.push(set("NODE_EXTRA_CA_CERTS", path(place.ca)));
    changes.push(("NODE_OPTIONS", Change::Before(format!("--require={}", quoted(&place.shims.node)), " ")));
    changes.push(("PYTHONPATH", Change::Before(path(&place.shims.python), ":")));
    // AWS's libraries else send their own chunks and checksums with a body, which cannot be judged
    // (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-dataintegrity.html>).
    changes.push(set("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required".to_owned()));
    // It takes the place of the user's own file, so it is left out where there is one.
    if !own_wgetrc() {
        changes.push(set("WGETRC", path(&place.shims.wget)));
    }
    changes.push(("JAVA_TOOL_OPTIONS", Change::Before(java(place), " ")));
    changes
}

fn own_wgetrc() -> bool {
    let usual = || std::env::home_dir().is_some_and(|home| home.join(".wgetrc").exists());
    std::env::var_os("WGETRC").is_some() || usual()
}

/// Properties for every Java virtual machine that is started: it reads no proxy variable and no PEM. What an
/// application sets on its own command line comes later, and counts.
fn java(place: &Place<'_>) -> String {
    let proxy = place.proxy.iter().flat_map(|proxy| {
        let (host, port) = (proxy.java.ip(), proxy.java.port());
        ["http", "https"].map(|scheme| format!("-D{scheme}.proxyHost={host} -D{scheme}.proxyPort={port}"))
    });
    // No password is named: the file needs none.
    let truststore = java_quoted(&place.bundle.with_file_name(TRUSTSTORE));
    let trust = format!("-Djavax.net.ssl.trustStore={truststore}");
    proxy.chain([trust]).collect::<Vec<_>>().join(" ")
}

/// As the JVM reads JAVA_TOOL_OPTIONS: white space ends an option unless it is between quotes of either kind. Nothing
/// is escaped, and what touches is one option.
fn java_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains(|c: char| c.is_whitespace() || c == '"' || c == '\'') {
        format!("\"{}\"", text.replace('"', "\"'\"'\""))
    } else {
        text
    }
}

/// As NODE_OPTIONS reads it: spaces end an option unless it is quoted.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains([' ', '"', '\\']) {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        text
    }
}

/// What a variable is after the change, given what it was.
pub(crate) fn applied(change: &Change, before: Option<&str>) -> String {
    match (change, before) {
        (Change::Set(value), _) => value.clone(),
        (Change::Before(value, separator), Some(before)) if !before.is_empty() => {
            format!("{value}{separator}{before}")
        }
        (Change::Before(value, _), _) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_escaped() {
        let caller = CallerName::parse("billing-agent").unwrap();
        assert_eq!(
            proxy_url("127.0.0.1:8080", Some((&caller, "a/b@c:d_e"))),
            "http://billing-agent:a%2Fb%40c%3Ad_e@127.0.0.1:8080"
        );
        assert_eq!(proxy_url("127.0.0.1:8080", None), "http://127.0.0.1:8080");
    }

    #[test]
    fn a_path_is_one_option_for_java() {
        for (path, written) in
            [("/a/b.p12", "/a/b.p12"), ("/a b/c'd.p12", "\"/a b/c'd.p12\""), ("/a\"b", "\"/a\"'\"'\"b\"")]
        {
            assert_eq!(java_quoted(Path::new(path)), written);
        }
    }

    #[test]
    fn what_was_there_stays_behind() {
        let before = Change::Before("/x".into(), ":");
        assert_eq!(applied(&before, Some("/y")), "/x:/y");
        assert_eq!(applied(&before, Some("")), "/x");
        assert_eq!(applied(&before, None), "/x");
        assert_eq!(applied(&Change::Set("1".into()), Some("0")), "1");
    }
}
