//! The 28 ways in which a secret is looked for: what servers, languages and log writers make of a text.
//!
//! Not among them, because no fixed piece of text is left to look for: compressed or encrypted text, a value in parts,
//! base64 that is broken into lines, and escapes of some characters but not of others (beyond those that URLs need).

use std::fmt::Write;

use base64::{
    Engine,
    engine::{
        GeneralPurpose,
        general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
    },
};

/// One way to write a secret down.
pub struct Encoding {
    /// What it is called in a finding.
    pub name: &'static str,
    /// The pieces of text, of which one is there wherever the secret was written in this way.
    pub spell: fn(&str) -> Vec<Vec<u8>>,
}

/// All of them.
pub const ENCODINGS: [Encoding; 28] = [
    Encoding { name: "it is", spell: |s| one(s.to_owned()) },
    Encoding { name: "lower case", spell: |s| one(s.to_lowercase()) },
    Encoding { name: "upper case", spell: |s| one(s.to_uppercase()) },
    Encoding { name: "reversed text", spell: |s| one(s.chars().rev().collect()) },
    Encoding { name: "rot13", spell: |s| one(s.chars().map(rot13).collect()) },
    Encoding { name: "hex, lower", spell: |s| one(each(s, |b| format!("{b:02x}"))) },
    Encoding { name: "hex, upper", spell: |s| one(each(s, |b| format!("{b:02X}"))) },
    Encoding {
        name: "percent, all but letters and digits, upper",
        spell: |s| one(each(s, |b| odd(b, percent_upper))),
    },
    Encoding {
        name: "percent, all but letters and digits, lower",
        spell: |s| one(each(s, |b| odd(b, percent_lower))),
    },
    Encoding { name: "percent, every byte, upper", spell: |s| one(each(s, percent_upper)) },
    Encoding { name: "percent, every byte, lower", spell: |s| one(each(s, percent_lower)) },
    Encoding { name: "base64, 1st alignment", spell: |s| base64(&STANDARD_NO_PAD, s, 0) },
    Encoding { name: "base64, 2nd alignment", spell: |s| base64(&STANDARD_NO_PAD, s, 1) },
    Encoding { name: "base64, 3rd alignment", spell: |s| base64(&STANDARD_NO_PAD, s, 2) },
    Encoding { name: "base64 of URLs, 1st alignment", spell: |s| base64(&URL_SAFE_NO_PAD, s, 0) },
    Encoding { name: "base64 of URLs, 2nd alignment", spell: |s| base64(&URL_SAFE_NO_PAD, s, 1) },
    Encoding { name: "base64 of URLs, 3rd alignment", spell: |s| base64(&URL_SAFE_NO_PAD, s, 2) },
    Encoding { name: "base64 of base64", spell: base64_twice },
    Encoding { name: "base32", spell: base32 },
    Encoding { name: "JSON escapes, lower", spell: |s| one(each(s, |b| format!("\\u{b:04x}"))) },
    Encoding { name: "JSON escapes, upper", spell: |s| one(each(s, |b| format!("\\u{b:04X}"))) },
    Encoding { name: "hex escapes", spell: |s| one(each(s, |b| format!("\\x{b:02x}"))) },
    Encoding { name: "HTML entities, decimal", spell: |s| one(each(s, |b| format!("&#{b};"))) },
    Encoding { name: "HTML entities, hex", spell: |s| one(each(s, |b| format!("&#x{b:X};"))) },
    Encoding { name: "quoted-printable", spell: |s| one(each(s, |b| format!("={b:02X}"))) },
    Encoding { name: "UTF-16, little end first", spell: |s| vec![units(s, u16::to_le_bytes)] },
    Encoding { name: "UTF-16, big end first", spell: |s| vec![units(s, u16::to_be_bytes)] },
    // As Rust and Go print bytes, and as JSON writes them.
    Encoding { name: "a list of bytes", spell: |s| vec![list(s, ", "), list(s, ","), list(s, " ")] },
];

fn one(text: String) -> Vec<Vec<u8>> {
    vec![text.into_bytes()]
}

fn each(secret: &str, spell: impl Fn(u8) -> String) -> String {
    secret.bytes().map(spell).collect()
}

fn percent_upper(byte: u8) -> String {
    format!("%{byte:02X}")
}

fn percent_lower(byte: u8) -> String {
    format!("%{byte:02x}")
}

fn odd(byte: u8, spell: fn(u8) -> String) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { spell(byte) }
}

fn rot13(letter: char) -> char {
    let turned = |first: u8| char::from((letter as u8 - first + 13) % 26 + first);
    match letter {
        'a'..='z' => turned(b'a'),
        'A'..='Z' => turned(b'A'),
        other => other,
    }
}

/// What is the same in the base64 of every text around the secret, with so many bytes (of each three) before it.
fn base64(engine: &GeneralPurpose, secret: &str, before: usize) -> Vec<Vec<u8>> {
    vec![inside(engine, secret.as_bytes(), before)]
}

fn inside(engine: &GeneralPurpose, secret: &[u8], before: usize) -> Vec<u8> {
    let bytes = [&[0; 2][..before], secret].concat();
    common(engine.encode(&bytes).as_bytes(), bytes.len() * 8, before * 8, 6)
}

/// The characters that stand for bits of the secret alone: `bits` in all, of which the first `before` are not its own,
/// so many `each` character.
fn common(text: &[u8], bits: usize, before: usize, each: usize) -> Vec<u8> {
    text[before.div_ceil(each)..bits / each].to_vec()
}

fn base64_twice(secret: &str) -> Vec<Vec<u8>> {
    let once = (0..3).map(|before| inside(&STANDARD_NO_PAD, secret.as_bytes(), before));
    once.flat_map(|once| (0..3).map(move |before| inside(&STANDARD_NO_PAD, &once, before))).collect()
}

/// RFC 4648, at all five alignments.
fn base32(secret: &str) -> Vec<Vec<u8>> {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let aligned = |before: usize| {
        let bytes = [&[0; 4][..before], secret.as_bytes()].concat();
        let bits: Vec<u8> =
            bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
        let number = |five: &[u8]| five.iter().fold(0, |all, bit| all << 1 | usize::from(*bit));
        let text: Vec<u8> = bits.chunks_exact(5).map(|five| ALPHABET[number(five)]).collect();
        common(&text, bits.len(), before * 8, 5)
    };
    (0..5).map(aligned).collect()
}

fn units(secret: &str, spell: fn(u16) -> [u8; 2]) -> Vec<u8> {
    secret.encode_utf16().flat_map(spell).collect()
}

fn list(secret: &str, between: &str) -> Vec<u8> {
    let mut text = String::new();
    for (at, byte) in secret.bytes().enumerate() {
        write!(text, "{}{byte}", if at == 0 { "" } else { between }).unwrap();
    }
    text.into_bytes()
}
