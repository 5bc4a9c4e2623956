//! Hosts and paths: one canonical spelling, which is its own; and what it means is what a plain reading of it says.

use std::net::{Ipv4Addr, Ipv6Addr};

use oncegate_policy::authority::Authority;
use oncegate_policy::path::CanonicalPath;

/// Two lines: an authority and a path.
pub fn run(data: &[u8]) {
    let Some([authority, path]) = crate::lines(data) else { return };
    for default in [None, Some(443)] {
        if let Ok(read) = Authority::parse(authority, default) {
            host(authority, &read);
        }
    }
    if let Ok(read) = CanonicalPath::parse(path) {
        canonical(path, &read);
    }
    if let Ok(read) = CanonicalPath::spread(path) {
        canonical(&path.replace("%2f", "/").replace("%2F", "/"), &read);
    }
}

fn host(written: &str, read: &Authority) {
    let again = Authority::parse(&read.to_string(), None).expect("a canonical authority is one");
    assert_eq!(&again, read, "{written:?}");
    assert!(
        !read
            .host
            .bytes()
            .any(|b| b.is_ascii_uppercase() || b.is_ascii_whitespace() || b"@/?#%\\[]".contains(&b))
    );
    assert!(!read.host.ends_with('.') && read.port != 0);
    if read.host.contains(':') {
        assert!(read.host.parse::<Ipv6Addr>().is_ok(), "{written:?}");
        return;
    }
    // What a resolver might take for an address is one, in its only spelling.
    let last = read.host.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|b| b.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    if numeric {
        let address = read.host.parse::<Ipv4Addr>().expect("four plain decimal numbers");
        assert_eq!(address.to_string(), read.host);
    }
}

fn canonical(written: &str, read: &CanonicalPath) {
    let spelled = read.as_str();
    let again = CanonicalPath::parse(spelled).expect("a canonical path is one");
    assert_eq!((again.as_str(), again.segments()), (spelled, read.segments()), "{written:?}");
    assert_eq!(read.segments(), reference(written), "{written:?}");
    assert_eq!(read.segments(), reference(spelled), "{written:?}");
    for (at, segment) in read.segments().iter().enumerate() {
        assert!(segment != "." && segment != "..", "{written:?}");
        assert!(!segment.contains(['/', '\\', '\0']), "{written:?}");
        assert!(!segment.is_empty() || at + 1 == read.segments().len(), "{written:?}");
    }
}

/// RFC 3986 section 2.1, as short as it can be said.
fn reference(path: &str) -> Vec<String> {
    let decode = |segment: &str| {
        let mut bytes = segment.bytes();
        let mut out = Vec::new();
        while let Some(byte) = bytes.next() {
            out.push(match byte {
                b'%' => {
                    let hex = [bytes.next(), bytes.next()].map(|digit| digit.expect("two digits"));
                    let hex = std::str::from_utf8(&hex).expect("ASCII");
                    u8::from_str_radix(hex, 16).expect("hexadecimal")
                }
                plain => plain,
            });
        }
        String::from_utf8(out).expect("UTF-8")
    };
    path[1..].split('/').map(decode).collect()
}
