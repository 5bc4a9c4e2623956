//! Every spelling of an address that must not be reached.

use std::net::Ipv4Addr;

/// Addresses of every block that is not public (RFC 6890 and its successors), as they are usually written.
const V4: [&str; 29] = [
    "127.0.0.1",
    "127.0.0.2",
    "127.1.2.3",
    "127.255.255.254",
    "0.0.0.0",
    "0.0.0.1",
    "0.255.255.255",
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.255.255",
    "169.254.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.2.2",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
];

const V6: [&str; 35] = [
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[0::1]",
    "[::0.0.0.1]",
    "[::]",
    "[0:0:0:0:0:0:0:0]",
    "[::ffff:0.0.0.0]",
    "[::ffff:0:0]",
    "::1",
    "[::1",
    "::1]",
    "[[::1]]",
    "[::1]x",
    "[::1%lo]",
    "[::1%25lo]",
    "[::1%251]",
    "[::1%00]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[febf::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00::2]",
    "[ff01::1]",
    "[ff02::1]",
    "[ff0e::1]",
    "[100::1]",
    "[2001::1]",
    "[2001:10::1]",
    "[2001:20::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[5f00::1]",
    "[v1.::1]",
];

/// Names that lead here on every machine, and brackets and user names round them.
const NAMES: [&str; 14] = [
    "localhost",
    "LOCALHOST",
    "LocalHost.",
    "localhost.",
    "localhost..",
    ".localhost",
    "a.localhost",
    "ip6-localhost",
    "ip6-loopback",
    "[localhost]",
    "local%68ost",
    "public.example@localhost",
    "public.example:80@localhost",
    "localhost\u{3002}",
];

/// Every spelling of one IPv4 address that some reader takes for it.
pub(crate) fn of_v4(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let word = u32::from(address);
    let [high, low] = [word >> 16, word & 0xffff];
    let wide = |digits: &str, dot: &str| {
        let spell = |n: u8| -> String {
            n.to_string().chars().map(|c| digits.chars().nth((c as usize) - 48).unwrap()).collect()
        };
        [a, b, c, d].map(spell).join(dot)
    };
    let escaped: String = address.to_string().bytes().map(|b| format!("%{b:02x}")).collect();
    vec![
        address.to_string(),
        format!("{address}."),
        format!("{address}.."),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
        format!("0X{a:X}.{b}.{c}.{d}"),
        format!("{a:03}.{b:03}.{c:03}.{d:03}"),
        format!("{a}.{b}.{}", u32::from(c) << 8 | u32::from(d)),
        format!("{a}.{}", word & 0xff_ffff),
        format!("0x{a:x}.{}", word & 0xff_ffff),
        format!("{word}"),
        format!("0x{word:x}"),
        format!("0{word:o}"),
        format!("{}", u64::from(word) + (1 << 32)),
        format!("{}.{b}.{c}.{d}", u32::from(a) + 256),
        format!("+{a}.{b}.{c}.{d}"),
        format!("{a}.{b}.{c}.{d}%00"),
        format!("{a}.{b}.{c}.{d}\\public.example"),
        format!("public.example@{address}"),
        escaped,
        wide("\u{ff10}\u{ff11}\u{ff12}\u{ff13}\u{ff14}\u{ff15}\u{ff16}\u{ff17}\u{ff18}\u{ff19}", "."),
        wide("0123456789", "\u{3002}"),
        format!("[{address}]"),
        format!("[::ffff:{address}]"),
        format!("[::ffff:{high:x}:{low:x}]"),
        format!("[0:0:0:0:0:ffff:{address}]"),
        format!("[::{address}]"),
        format!("[::ffff:0:{address}]"),
        format!("[64:ff9b::{address}]"),
        format!("[64:ff9b:1::{high:x}:{low:x}]"),
        format!("[2002:{high:x}:{low:x}::]"),
        format!("[2002:{high:x}:{low:x}:1::1]"),
        format!("[2001:0:{high:x}:{low:x}::1]"),
        format!("[fe80::5efe:{address}]"),
    ]
}

/// The whole table, without a repetition. `machine` is what this machine is called.
pub(crate) fn all(machine: &str) -> Vec<String> {
    let mut all: Vec<String> = [&V4[..], &V6, &NAMES].concat().into_iter().map(str::to_owned).collect();
    for address in ["127.0.0.1", "169.254.169.254", "10.0.0.1"] {
        all.extend(of_v4(address.parse().unwrap()));
    }
    all.extend([machine.to_owned(), format!("{machine}.")]);
    let mut seen = std::collections::HashSet::new();
    all.retain(|spelling| seen.insert(spelling.clone()));
    all
}

/// The n-th address of the blocks that are not public, for a long run: any `n` is one.
pub(crate) fn another(n: u64) -> Ipv4Addr {
    // Prefixes, and how many bits are fixed.
    const BLOCKS: [(u32, u32); 9] = [
        (0x7f00_0000, 8),
        (0x0a00_0000, 8),
        (0xac10_0000, 12),
        (0xc0a8_0000, 16),
        (0xa9fe_0000, 16),
        (0x6440_0000, 10),
        (0xc612_0000, 15),
        (0xe000_0000, 4),
        (0xf000_0000, 4),
    ];
    let (prefix, bits) = BLOCKS[usize::try_from(n % 9).unwrap()];
    let any = u32::try_from((n / 9) & 0xffff_ffff).unwrap();
    Ipv4Addr::from(prefix | (any & (u32::MAX >> bits)))
}
