//! Takes secrets out of what a provider sends back: some providers echo the key they were given.
//!
//! Best effort by nature: it finds the value as it was placed and in the spellings that servers echo it in
//! (`spellings`). Requests carry `Accept-Encoding: identity` where a credential is placed, so that there is
//! nothing to unpack. The full guarantee is only that a secret goes to hosts that were declared for it.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::{Bytes, BytesMut};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use zeroize::Zeroizing;

/// Shorter values are left alone: taking "a" out of every answer would break them all.
const PATTERN_BYTES_MIN: usize = 6;
/// What URLs leave as it is (RFC 3986 section 2.3). A credential in a query is placed in this spelling.
const URL_ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Finds placed secrets in answers and puts their placeholder there.
pub struct Scrubber {
    patterns: Vec<Pattern>,
    /// Which bytes a pattern begins with: most bytes of an answer are passed over by one look here.
    begins: [bool; 256],
}

impl Default for Scrubber {
    fn default() -> Self {
        Self { patterns: Vec::new(), begins: [false; 256] }
    }
}

struct Pattern {
    value: Zeroizing<Vec<u8>>,
    placeholder: Vec<u8>,
}

impl Scrubber {
    /// For these secrets, by name.
    #[must_use]
    pub fn new(secrets: BTreeMap<String, Zeroizing<String>>) -> Self {
        let mut scrubber = Self::default();
        for (name, value) in secrets {
            scrubber.also(&name, &value);
        }
        scrubber
    }

    /// One more.
    pub fn also(&mut self, name: &str, value: &str) {
        if value.len() < PATTERN_BYTES_MIN {
            return;
        }
        let placeholder = format!("{{{{secret:{name}}}}}").into_bytes();
        for spelling in spellings(value) {
            let value = Zeroizing::new(spelling.into_bytes());
            if let Some(first) = value.first() {
                self.begins[usize::from(*first)] = true;
            }
            self.patterns.push(Pattern { value, placeholder: placeholder.clone() });
        }
        // The longest first: one secret may be part of another.
        self.patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.value.len()));
    }

    /// The pattern that stands at the beginning of these bytes.
    fn at_start(&self, bytes: &[u8]) -> Option<&Pattern> {
        let first = bytes.first()?;
        if !self.begins[usize::from(*first)] {
            return None;
        }
        self.patterns.iter().find(|pattern| bytes.starts_with(&pattern.value))
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// A whole text without secrets, also without those that JSON spells with escapes: who reads the text as JSON would
    /// read them. Members may stand in another order then; a provider that writes like that is not owed its own spelling.
    #[must_use]
    pub fn clean(&self, bytes: &[u8]) -> Vec<u8> {
        let out = self.clean_bytes(bytes);
        if self.is_empty() || !out.windows(2).any(|pair| pair == b"\\u") {
            return out;
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(&out) else { return out };
        if self.clean_value(&mut value) { value.to_string().into_bytes() } else { out }
    }

    /// Whether a decoded text held a secret; it is taken out.
    fn clean_value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => {
                let clean = self.clean_bytes(text.as_bytes());
                let found = clean != text.as_bytes();
                if found {
                    *text = String::from_utf8_lossy(&clean).into_owned();
                }
                found
            }
            // Every one of them: `any` would stop at the first.
            Value::Array(items) => {
                let mut found = false;
                for item in items {
                    found |= self.clean_value(item);
                }
                found
            }
            Value::Object(members) => {
                let mut found = false;
                let taken = std::mem::take(members);
                for (name, mut member) in taken {
                    let clean = self.clean_text_bytes(&name);
                    found |= clean != name;
                    found |= self.clean_value(&mut member);
                    members.insert(clean, member);
                }
                found
            }
        }
    }

    fn clean_text_bytes(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.clean_bytes(text.as_bytes())).into_owned()
    }

    fn clean_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if let Some(pattern) = self.at_start(rest) {
                out.extend_from_slice(&pattern.placeholder);
                at += pattern.value.len();
            } else {
                out.extend_from_slice(&rest[..1]);
                at += 1;
            }
        }
        out
    }

    /// A whole text without secrets, when it is text.
    #[must_use]
    pub fn clean_text(&self, text: &str) -> String {
        self.clean_text_bytes(text)
    }

    /// For an answer that is passed on as it comes. `keep_length` where a length was announced: the placeholder
    /// is then cut or filled to the length of what it stands for.
    #[must_use]
    pub fn stream(self, keep_length: bool) -> ScrubStream {
        ScrubStream { scrubber: self, keep_length, held: BytesMut::new() }
    }

    /// How many bytes at the end could be the beginning of a secret.
    fn open_tail(&self, bytes: &[u8]) -> usize {
        self.patterns
            .iter()
            .map(|pattern| {
                let longest = bytes.len().min(pattern.value.len().saturating_sub(1));
                (1..=longest)
                    .rev()
                    .find(|len| pattern.value.starts_with(&bytes[bytes.len() - len..]))
                    .unwrap_or(0)
            })
            .max()
            .unwrap_or(0)
    }
}

/// Cleans an answer as it passes. Bytes are held back only while they could be the beginning of a secret, so an
/// event stream is not delayed.
pub struct ScrubStream {
    scrubber: Scrubber,
    keep_length: bool,
    held: BytesMut,
}

impl ScrubStream {
    /// Takes what came, gives what may go on.
    pub fn push(&mut self, chunk: Bytes) -> Bytes {
        if self.scrubber.is_empty() {
            return chunk;
        }
        self.held.extend_from_slice(&chunk);
        let mut out = BytesMut::with_capacity(self.held.len());
        let mut at = 0;
        loop {
            let rest = &self.held[at..];
            let Some((found, pattern)) = self.first_match(rest) else {
                let keep = self.scrubber.open_tail(rest);
                out.extend_from_slice(&rest[..rest.len() - keep]);
                at += rest.len() - keep;
                break;
            };
            out.extend_from_slice(&rest[..found]);
            let len = pattern.value.len();
            if self.keep_length {
                out.extend(pattern.placeholder.iter().copied().chain(std::iter::repeat(b'*')).take(len));
            } else {
                out.extend_from_slice(&pattern.placeholder);
            }
            at += found + len;
        }
        let _ = self.held.split_to(at);
        out.freeze()
    }

    /// What was held back: the answer has ended, so it was no secret.
    pub fn finish(&mut self) -> Bytes {
        self.held.split().freeze()
    }

    /// Whether nothing is held back.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    fn first_match(&self, bytes: &[u8]) -> Option<(usize, &Pattern)> {
        (0..bytes.len()).find_map(|at| self.scrubber.at_start(&bytes[at..]).map(|pattern| (at, pattern)))
    }
}

/// The value as it is, and as servers spell what they echo: in URLs, JSON, HTML, hex and base64.
fn spellings(value: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::from([value.to_owned()]);
    for set in [NON_ALPHANUMERIC, URL_ENCODED] {
        let upper = utf8_percent_encode(value, set).to_string();
        all.insert(lower_escapes(&upper));
        all.insert(upper.replace("%20", "+"));
        all.insert(upper);
    }
    let json = value.replace('\\', "\\\\").replace('"', "\\\"");
    all.insert(json.replace('/', "\\/"));
    // Gson and Go escape what means something in HTML.
    let escaped = |c: char| if "<>&='".contains(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    all.insert(json.chars().map(escaped).collect());
    // .NET escapes these as well, in capitals: base64 has a plus.
    let dotnet = |c: char| match c {
        '"' | '&' | '\'' | '+' | '<' | '>' | '`' => format!("\\u{:04X}", u32::from(c)),
        '\\' => "\\\\".to_owned(),
        other => other.into(),
    };
    all.insert(value.chars().map(dotnet).collect());
    all.insert(json);
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    all.insert(html.replace('\'', "&#39;"));
    all.insert(
        html.replace('\'', "&#39;").replace('/', "&#x2F;").replace('`', "&#x60;").replace('=', "&#x3D;"),
    );
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    all.insert(hex.to_ascii_uppercase());
    all.insert(hex);
    all.extend(inside_base64(value));
    all
}

/// `%2F` as `%2f`: the digits after a percent sign only.
fn lower_escapes(escaped: &str) -> String {
    let mut pieces = escaped.split('%');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at(piece.len().min(2));
        out.push('%');
        out.push_str(&digits.to_ascii_lowercase());
        out.push_str(rest);
    }
    out
}

/// What the base64 of any text around the value has in common: three alignments, without the characters at both
/// ends that the neighbours have a part in. Nothing for a short value, whose remains could be any text.
fn inside_base64(value: &str) -> Vec<String> {
    if value.len() < 2 * PATTERN_BYTES_MIN {
        return Vec::new();
    }
    let mut all = Vec::new();
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value.as_bytes());
        let from = [0, 2, 3][before];
        let whole = bytes.len() / 3 * 4;
        let to = whole + [0, 1, 2][bytes.len() % 3];
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            all.extend(engine.encode(&bytes).get(from..to).map(str::to_owned));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubber() -> Scrubber {
        let secret = Zeroizing::new("sk_test_planted/1".to_owned());
        Scrubber::new(BTreeMap::from([("STRIPE_KEY".to_owned(), secret)]))
    }

    #[test]
    fn a_reflected_secret_becomes_its_placeholder() {
        for (came, goes) in [
            ("bad key sk_test_planted/1!", "bad key {{secret:STRIPE_KEY}}!"),
            ("bad key sk%5Ftest%5Fplanted%2F1!", "bad key {{secret:STRIPE_KEY}}!"),
            ("/x?key=sk_test_planted%2F1!", "/x?key={{secret:STRIPE_KEY}}!"),
            ("/x?key=sk_test_planted%2f1!", "/x?key={{secret:STRIPE_KEY}}!"),
            (r#"{"key":"sk_test_planted\/1"}"#, r#"{"key":"{{secret:STRIPE_KEY}}"}"#),
            ("sk_test_planted&#x2F;1", "{{secret:STRIPE_KEY}}"),
            ("736b5f746573745f706c616e7465642f31", "{{secret:STRIPE_KEY}}"),
            ("sk_test_planted", "sk_test_planted"),
            ("", ""),
        ] {
            assert_eq!(scrubber().clean_text(came), goes);
        }
    }

    #[test]
    fn json_escapes_of_several_libraries_are_known() {
        let secret = Zeroizing::new("ab+cd/ef&gh==".to_owned());
        let scrubber = Scrubber::new(BTreeMap::from([("KEY".to_owned(), secret)]));
        for came in [
            r#"{"key":"ab+cd\/ef&gh=="}"#,
            r#"{"key":"ab+cd/ef\u0026gh\u003d\u003d"}"#,
            r#"{"key":"ab\u002Bcd/ef\u0026gh=="}"#,
        ] {
            assert_eq!(scrubber.clean_text(came), r#"{"key":"{{secret:KEY}}"}"#, "{came}");
        }
    }

    #[test]
    fn whatever_json_escapes_is_read_as_json_reads_it() {
        const SECRET: &str = "sk_test_planted/1";
        let scrubber = scrubber();
        let spelled: String = SECRET.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        for text in
            [format!(r#"{{"a":[1.50,"say {spelled}!"],"b":null}}"#), format!(r#"{{"{spelled}":true}}"#)]
        {
            let clean: Value = serde_json::from_slice(&scrubber.clean(text.as_bytes())).unwrap();
            assert!(!clean.to_string().contains(SECRET), "{clean}");
            assert!(clean.to_string().contains("{{secret:"), "{clean}");
        }
        // Nothing is written anew where there is nothing to take out.
        let plain = br#"{"b": 1.50, "a":"\u00e4"}"#;
        assert_eq!(scrubber.clean(plain), plain);
    }

    #[test]
    fn a_secret_inside_base64_is_found_wherever_it_begins() {
        for around in ["", "a", "ab", "abc", "abcd"] {
            let text = format!("{around}sk_test_planted/1{around}");
            for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                let cleaned = scrubber().clean_text(&engine.encode(&text));
                assert!(cleaned.contains("{{secret:STRIPE_KEY}}"), "{around}: {cleaned}");
            }
        }
    }

    #[test]
    fn a_secret_split_anywhere_is_found_and_nothing_else_is_held() {
        let text = b"a sk_test_planted/1 b sk_test_planted/1";
        for cut in 0..=text.len() {
            let mut stream = scrubber().stream(true);
            let mut out = stream.push(Bytes::copy_from_slice(&text[..cut])).to_vec();
            out.extend(stream.push(Bytes::copy_from_slice(&text[cut..])));
            out.extend(stream.finish());
            assert_eq!(out.len(), text.len(), "cut at {cut}");
            assert!(!String::from_utf8_lossy(&out).contains("planted"), "cut at {cut}");
        }
        let mut stream = scrubber().stream(false);
        assert_eq!(&stream.push(Bytes::from_static(b"data: 1\n\n"))[..], b"data: 1\n\n");
    }
}
