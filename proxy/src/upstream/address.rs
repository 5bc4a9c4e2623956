//! Which addresses may be dialled. The address that is judged is the address that is dialled.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpStream;

/// An address that was judged. Nothing else is ever connected to: the name that led to it is not looked up again, so
/// that it cannot lead elsewhere in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged(SocketAddr);

impl Judged {
    /// Judges an address: any where private ones are allowed, else a public one only.
    #[must_use]
    pub fn of(candidate: SocketAddr, private_allowed: bool) -> Option<Self> {
        (private_allowed || is_public(candidate.ip())).then_some(Self(candidate))
    }

    /// Connects to the very address that was judged.
    ///
    /// # Errors
    /// As the system says.
    pub async fn connect(self) -> io::Result<TcpStream> {
        TcpStream::connect(self.0).await
    }
}

/// Whether an address is one that a public name may lead to. Everything else (loopback, private, link-local,
/// CGNAT, multicast, documentation, mapped forms of them) is refused unless the operator declared it, because a
/// name that resolves there is how a proxy is made to reach what only it can reach.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// The special-purpose registry of RFC 6890 and its successors.
fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let special = v4.is_loopback()
        || v4.is_private()
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_broadcast()
        || v4.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19));
    !special
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let segments = v6.segments();
    // Forms that carry an IPv4 address inside are judged by it: mapped, compatible, NAT64, 6to4.
    let last_v4 = {
        let [.., a, b] = segments;
        Ipv4Addr::from((u32::from(a) << 16) | u32::from(b))
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            !v6.is_loopback() && !v6.is_unspecified() && is_public_v4(last_v4)
        }
        [0x2002, a, b, ..] => is_public_v4(Ipv4Addr::from((u32::from(a) << 16) | u32::from(b))),
        // Only 2000::/3 is global unicast; 2001::/23 (Teredo and protocol assignments) and 2001:db8::/32 are not.
        [first, second, ..] => {
            (0x2000..0x4000).contains(&first)
                && !(first == 0x2001 && (second < 0x200 || second == 0xdb8))
                && !(first == 0x3fff && second < 0x1000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for (text, public) in [
            ("8.8.8.8", true),
            ("2606:4700::1111", true),
            ("::ffff:8.8.8.8", true),
            ("127.0.0.1", false),
            ("127.255.0.9", false),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("100.128.0.1", true),
            ("198.18.0.1", false),
            ("192.0.2.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("240.0.0.1", false),
            ("::", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::127.0.0.1", false),
            ("64:ff9b::a00:1", false),
            ("2002:7f00:1::", false),
            ("fe80::1", false),
            ("fc00::1", false),
            ("ff02::1", false),
            ("2001:db8::1", false),
            ("2001::1", false),
            ("fec0::1", false),
        ] {
            assert_eq!(is_public(text.parse().unwrap()), public, "{text}");
        }
    }
}
