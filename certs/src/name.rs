//! The names that may stand in a leaf.

use rustls_pki_types::ServerName;
use std::net::IpAddr;

/// The longest DNS name there can be, in bytes.
const LONGEST: usize = 253;

/// Why a server name gets no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// There is no name.
    #[error("it is empty")]
    Empty,
    /// No DNS name is that long.
    #[error("it is longer than 253 bytes")]
    TooLong,
    /// A leaf is for one server, never for a family of them.
    #[error("it is a wildcard")]
    Wildcard,
    /// Neither a DNS name nor an IP literal.
    #[error("it is neither a DNS name nor an IP address")]
    Malformed,
}

/// A name fit for a certificate, in its one canonical spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeafName {
    Dns(String),
    Ip(IpAddr),
}

impl LeafName {
    /// Reads a name. Letters are lowered and addresses spelled in one way, so that a server has one place in
    /// the cache however it is spelled.
    pub(crate) fn parse(text: &str) -> Result<LeafName, NameFault> {
        if text.is_empty() {
            return Err(NameFault::Empty);
        }
        if text.len() > LONGEST {
            return Err(NameFault::TooLong);
        }
        if text.contains('*') {
            return Err(NameFault::Wildcard);
        }
        // Neither SNI nor a SAN carries the root's dot (RFC 6066, RFC 5280), yet the parser below lets it pass.
        if text.ends_with('.') {
            return Err(NameFault::Malformed);
        }
        match ServerName::try_from(text) {
            Ok(ServerName::DnsName(name)) => Ok(LeafName::Dns(name.as_ref().to_ascii_lowercase())),
            Ok(ServerName::IpAddress(address)) => Ok(LeafName::Ip(address.into())),
            // The type may grow; what it grows by is not a name we know how to certify.
            Ok(_) | Err(_) => Err(NameFault::Malformed),
        }
    }

    /// How the name is spelled: its place in the cache, and its common name.
    pub(crate) fn spelling(&self) -> String {
        match self {
            LeafName::Dns(name) => name.clone(),
            LeafName::Ip(address) => address.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_taken_in_one_spelling() {
        for (text, spelling) in [
            ("api.stripe.com", "api.stripe.com"),
            ("API.Stripe.com", "api.stripe.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("my_bucket.s3.amazonaws.com", "my_bucket.s3.amazonaws.com"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("0:0:0:0:0:0:0:1", "::1"),
        ] {
            assert_eq!(LeafName::parse(text).unwrap().spelling(), spelling, "{text}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long_label = format!("{}.example", "a".repeat(64));
        let long_name = format!("{}example", "a.".repeat(124));
        assert_eq!(long_name.len(), 255);
        for (text, fault) in [
            ("", NameFault::Empty),
            (long_name.as_str(), NameFault::TooLong),
            ("*", NameFault::Wildcard),
            ("*.example", NameFault::Wildcard),
            ("a*.example", NameFault::Wildcard),
            (long_label.as_str(), NameFault::Malformed),
            (".", NameFault::Malformed),
            (".example", NameFault::Malformed),
            ("a..example", NameFault::Malformed),
            ("api.example.", NameFault::Malformed),
            ("-a.example", NameFault::Malformed),
            ("a-.example", NameFault::Malformed),
            ("a b.example", NameFault::Malformed),
            ("a\0.example", NameFault::Malformed),
            ("a\r\nb.example", NameFault::Malformed),
            ("bücher.example", NameFault::Malformed),
            ("api.example:443", NameFault::Malformed),
            ("user@api.example", NameFault::Malformed),
            ("api.example/x", NameFault::Malformed),
            ("[::1]", NameFault::Malformed),
            ("fe80::1%eth0", NameFault::Malformed),
            ("1.2.3", NameFault::Malformed),
            ("256.1.1.1", NameFault::Malformed),
            ("0x7f.1", NameFault::Malformed),
        ] {
            assert_eq!(LeafName::parse(text), Err(fault), "{text:?}");
        }
    }

    #[test]
    fn the_longest_name_is_taken() {
        let name = format!("{}{}", "a.".repeat(123), "example");
        assert_eq!(name.len(), LONGEST);
        assert!(LeafName::parse(&name).is_ok());
    }
}
