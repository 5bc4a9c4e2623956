//! Cleaning an answer while it passes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::Rules;

/// Cleans an answer as it passes. Only an end that could be the beginning of a secret is held back, until the next
/// byte or the end of the answer tells: an event stream is not delayed. A piece in which nothing is found is passed on
/// without being copied.
pub struct ScrubStream {
    rules: Option<Arc<Rules>>,
    keep_length: bool,
    held: BytesMut,
}

impl ScrubStream {
    pub(super) fn new(rules: Option<Arc<Rules>>, keep_length: bool) -> Self {
        Self { rules, keep_length, held: BytesMut::new() }
    }

    /// Takes what came, gives what may go on.
    pub fn push(&mut self, piece: Bytes) -> Bytes {
        let Some(rules) = self.rules.clone() else { return piece };
        let mut piece = piece;
        if !self.held.is_empty() {
            self.held.extend_from_slice(&piece);
            piece = self.held.split().freeze();
        }
        let mut open = rules.open_from(&piece);
        let mut out = BytesMut::new();
        let mut at = 0;
        for found in rules.finder.find_iter(&piece) {
            // It begins in what is held back: it may yet turn out to be part of a longer one.
            if found.start() >= open {
                break;
            }
            out.extend_from_slice(&piece[at..found.start()]);
            self.replace(&mut out, found.len(), &rules.patterns[found.pattern().as_usize()].placeholder);
            at = found.end();
            // It reaches into what would have been held back: what follows it is judged anew.
            if at > open {
                open = at + rules.open_from(&piece[at..]);
            }
        }
        self.held.extend_from_slice(&piece[open..]);
        if at == 0 {
            return piece.slice(..open);
        }
        out.extend_from_slice(&piece[at..open]);
        out.freeze()
    }

    /// What was held back: the answer has ended, so it is no beginning of anything longer.
    pub fn finish(&mut self) -> Bytes {
        let rest = self.held.split().freeze();
        let Some(rules) = &self.rules else { return rest };
        let mut out = BytesMut::new();
        let mut at = 0;
        for found in rules.finder.find_iter(&rest) {
            out.extend_from_slice(&rest[at..found.start()]);
            self.replace(&mut out, found.len(), &rules.patterns[found.pattern().as_usize()].placeholder);
            at = found.end();
        }
        if at == 0 {
            return rest;
        }
        out.extend_from_slice(&rest[at..]);
        out.freeze()
    }

    /// Whether nothing is held back.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    fn replace(&self, out: &mut BytesMut, bytes: usize, placeholder: &[u8]) {
        if self.keep_length {
            out.extend(placeholder.iter().copied().chain(std::iter::repeat(b'*')).take(bytes));
        } else {
            out.extend_from_slice(placeholder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zeroize::Zeroizing;

    use super::*;
    use crate::scrub::Scrubber;

    fn stream(secrets: &[(&str, &str)], keep_length: bool) -> ScrubStream {
        let named = |(name, value): &(&str, &str)| ((*name).to_owned(), Zeroizing::new((*value).to_owned()));
        let secrets: BTreeMap<_, _> = secrets.iter().map(named).collect();
        Scrubber::new(&secrets).unwrap().stream(keep_length)
    }

    const KEY: [(&str, &str); 1] = [("KEY", "sk_test_planted/1")];

    #[test]
    fn a_secret_split_anywhere_is_found_and_nothing_else_is_held() {
        let text = b"a sk_test_planted/1 b sk_test_planted/1";
        for cut in 0..=text.len() {
            let mut stream = stream(&KEY, true);
            let mut out = stream.push(Bytes::copy_from_slice(&text[..cut])).to_vec();
            out.extend(stream.push(Bytes::copy_from_slice(&text[cut..])));
            out.extend(stream.finish());
            assert_eq!(out.len(), text.len(), "cut at {cut}");
            assert!(!String::from_utf8_lossy(&out).contains("planted"), "cut at {cut}");
        }
        let mut stream = stream(&KEY, false);
        assert_eq!(&stream.push(Bytes::from_static(b"data: 1\n\n"))[..], b"data: 1\n\n");
    }

    #[test]
    fn byte_by_byte_it_is_as_in_one_piece() {
        let text = b"sk_sk_test_planted/1sk_test_plante sk_test_planted%2F1 sk_test_planted/";
        let mut stream = stream(&KEY, false);
        let mut out = Vec::new();
        for byte in text {
            out.extend(stream.push(Bytes::copy_from_slice(&[*byte])));
        }
        out.extend(stream.finish());
        let expected = "sk_{{secret:KEY}}sk_test_plante {{secret:KEY}} sk_test_planted/";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_secret_that_begins_another_one_is_taken_out_as_soon_as_it_is_told_from_it() {
        let mut stream = stream(&[("LONG", "abcdefghij"), ("SHORT", "abcdef")], false);
        assert_eq!(&stream.push(Bytes::from_static(b"-abcdef"))[..], b"-", "it may be the longer one");
        assert_eq!(&stream.push(Bytes::from_static(b"gh"))[..], b"");
        assert_eq!(&stream.push(Bytes::from_static(b"ij."))[..], b"{{secret:LONG}}.");
        assert_eq!(&stream.push(Bytes::from_static(b"abcdefg"))[..], b"");
        assert_eq!(&stream.push(Bytes::from_static(b"x"))[..], b"{{secret:SHORT}}gx");
        assert_eq!(&stream.push(Bytes::from_static(b"abcdef"))[..], b"");
        assert_eq!(&stream.finish()[..], b"{{secret:SHORT}}", "it has ended");
    }

    #[test]
    fn where_nothing_is_found_nothing_is_copied() {
        let mut stream = stream(&KEY, false);
        let piece = Bytes::from(vec![b'.'; 4096]);
        assert_eq!(stream.push(piece.clone()).as_ptr(), piece.as_ptr());
        assert!(stream.is_idle());
    }
}
