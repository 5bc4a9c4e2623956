//! One spelling for "which server": host and port, as every part compares them.
//!
//! CONNECT target, SNI, `Host`, absolute-form target and configuration all come through
//! [`Authority::parse`], so two spellings of one server are equal and a spelling that two resolvers could
//! read differently does not exist.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest host name in bytes, without its trailing dot (RFC 1035 section 2.3.4).
const MAX_HOST: usize = 253;
/// Longest label in bytes (RFC 1035 section 2.3.4).
const MAX_LABEL: usize = 63;

/// A host and a port in canonical form (RFC 3986 section 3.2, without userinfo).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Authority {
    /// Lower case, one trailing dot removed, at most 253 bytes. An IPv6 literal stands without brackets, in
    /// the spelling of RFC 5952.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
}

/// Why a text is no authority. None of these echoes the text: it may hold a password before an `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityFault {
    /// No host.
    #[error("the host is empty: write it as host:port")]
    Empty,
    /// `user@host` or `user:password@host`.
    #[error("a user name or password before the host is not accepted: remove everything up to the @")]
    UserInfo,
    /// An internationalised name that is not an A-label (RFC 5890 section 2.3.2.1).
    #[error("the host is not ASCII: write an internationalised name in its xn-- form")]
    NotAscii,
    /// Percent-encoding, or an IPv6 zone.
    #[error("the host contains a percent sign: write the name without percent-encoding or zone")]
    Percent,
    /// White space, control characters, or anything that no host name contains.
    #[error("the host contains a character that no host name has")]
    Character,
    /// Brackets that do not hold exactly one IPv6 literal.
    #[error("brackets in a host belong around an IPv6 address and nothing else, as in [2001:db8::1]:443")]
    Brackets,
    /// More than one colon and no brackets.
    #[error("the host has more than one colon: write an IPv6 address in brackets, as in [2001:db8::1]:443")]
    BareColons,
    /// No port, where there is no default (CONNECT: RFC 9110 section 9.3.6).
    #[error("the port is missing: write it as host:port")]
    PortMissing,
    /// A port that is empty, zero, too large, or not plain digits.
    #[error("the port must be a plain number from 1 to 65535 without leading zeros")]
    Port,
    /// A label that is empty, over 63 bytes, or begins or ends with a hyphen.
    #[error(
        "every part of the host name between dots must have 1 to 63 characters and no hyphen at its ends"
    )]
    Label,
    /// Over 253 bytes.
    #[error("the host name is longer than 253 characters")]
    TooLong,
    /// `127.1`, `0x7f.1`, `2130706433`, `0177.0.0.1`: resolvers read these as addresses, each in its own way.
    #[error("the host looks like an IPv4 address but is not four plain decimal numbers such as 192.0.2.1")]
    Ipv4LookAlike,
}

impl Authority {
    /// Reads `host`, `host:port` or `[v6]:port`. Without a `default_port` the port must be written (CONNECT,
    /// RFC 9110 section 9.3.6).
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, AuthorityFault> {
        check_characters(text)?;
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (literal, after) = rest.split_once(']').ok_or(AuthorityFault::Brackets)?;
                let port = match after.strip_prefix(':') {
                    Some(port) => Some(port),
                    None if after.is_empty() => None,
                    None => return Err(AuthorityFault::Brackets),
                };
                (ipv6(literal)?, port)
            }
            None => {
                let (name, port) = match text.split_once(':') {
                    Some((name, port)) => (name, Some(port)),
                    None => (text, None),
                };
                if port.is_some_and(|port| port.contains(':')) {
                    return Err(AuthorityFault::BareColons);
                }
                (name_or_ipv4(name)?, port)
            }
        };
        let port = match port {
            Some(written) => parse_port(written)?,
            None => default_port.filter(|port| *port != 0).ok_or(AuthorityFault::PortMissing)?,
        };
        Ok(Self { host, port })
    }

    /// The host as it stands in a URL: with brackets if it is an IPv6 literal.
    #[must_use]
    pub fn url_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

fn check_characters(text: &str) -> Result<(), AuthorityFault> {
    if text.is_empty() {
        return Err(AuthorityFault::Empty);
    }
    if text.contains('@') {
        return Err(AuthorityFault::UserInfo);
    }
    if !text.is_ascii() {
        return Err(AuthorityFault::NotAscii);
    }
    if text.contains('%') {
        return Err(AuthorityFault::Percent);
    }
    Ok(())
}

fn ipv6(literal: &str) -> Result<String, AuthorityFault> {
    let address: Ipv6Addr = literal.parse().map_err(|_| AuthorityFault::Brackets)?;
    Ok(address.to_string())
}

fn name_or_ipv4(name: &str) -> Result<String, AuthorityFault> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        return Err(AuthorityFault::Empty);
    }
    if name.contains(['[', ']']) {
        return Err(AuthorityFault::Brackets);
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        return Err(AuthorityFault::Character);
    }
    if name.len() > MAX_HOST {
        return Err(AuthorityFault::TooLong);
    }
    let good = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    if !name.split('.').all(good) {
        return Err(AuthorityFault::Label);
    }
    let name = name.to_ascii_lowercase();
    // `Ipv4Addr` accepts canonical dotted quads only, so whatever else "ends in a number" is a look-alike.
    if ends_in_number(&name) && name.parse::<Ipv4Addr>().is_err() {
        return Err(AuthorityFault::Ipv4LookAlike);
    }
    Ok(name)
}

/// Whether a URL parser would take the name for an IPv4 address: its last label is decimal, octal or hex.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    match last.strip_prefix("0x") {
        Some(hex) => hex.bytes().all(|b| b.is_ascii_hexdigit()),
        None => last.bytes().all(|b| b.is_ascii_digit()),
    }
}

fn parse_port(written: &str) -> Result<u16, AuthorityFault> {
    let plain = written.bytes().all(|b| b.is_ascii_digit()) && !written.starts_with('0');
    if !plain {
        return Err(AuthorityFault::Port);
    }
    written.parse().map_err(|_| AuthorityFault::Port)
}
