//! Takes secrets out of what a provider sends back: some providers echo the key they were given.
//!
//! Best effort by nature: it finds the value as it was placed, its percent-encoded spelling and the base64 of a
//! basic credential. Requests carry `Accept-Encoding: identity` where a credential is placed, so that there is
//! nothing to unpack. The full guarantee is only that a secret goes to hosts that were declared for it.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use zeroize::Zeroizing;

/// Shorter values are left alone: taking "a" out of every answer would break them all.
const PATTERN_BYTES_MIN: usize = 6;

/// Finds placed secrets in answers and puts their placeholder there.
#[derive(Default)]
pub struct Scrubber {
    patterns: Vec<Pattern>,
}

struct Pattern {
    value: Zeroizing<Vec<u8>>,
    placeholder: Vec<u8>,
}

impl Scrubber {
    /// For these secrets, by name.
    #[must_use]
    pub fn new(secrets: BTreeMap<String, Zeroizing<String>>) -> Self {
        let mut patterns = Vec::new();
        for (name, value) in secrets {
            if value.len() < PATTERN_BYTES_MIN {
                continue;
            }
            let placeholder = format!("{{{{secret:{name}}}}}").into_bytes();
            let escaped = percent_encoding::utf8_percent_encode(&value, percent_encoding::NON_ALPHANUMERIC);
            let escaped = Zeroizing::new(escaped.to_string().into_bytes());
            if escaped.as_slice() != value.as_bytes() {
                patterns.push(Pattern { value: escaped, placeholder: placeholder.clone() });
            }
            patterns.push(Pattern { value: Zeroizing::new(value.as_bytes().to_vec()), placeholder });
        }
        // The longest first: one secret may be part of another.
        patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.value.len()));
        Self { patterns }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// A whole text without secrets.
    #[must_use]
    pub fn clean(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if let Some(pattern) = self.patterns.iter().find(|pattern| rest.starts_with(&pattern.value)) {
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
        String::from_utf8_lossy(&self.clean(text.as_bytes())).into_owned()
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
        (0..bytes.len()).find_map(|at| {
            let here = &bytes[at..];
            self.scrubber.patterns.iter().find(|pattern| here.starts_with(&pattern.value)).map(|p| (at, p))
        })
    }
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
            ("sk_test_planted", "sk_test_planted"),
            ("", ""),
        ] {
            assert_eq!(scrubber().clean_text(came), goes);
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
