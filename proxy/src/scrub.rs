//! Takes secrets out of what a provider sends back: some providers echo the key they were given.
//!
//! Best effort by nature: it finds the value as it was placed and in the spellings that servers echo it in
//! (`spellings`). Requests carry `Accept-Encoding: identity` where a credential is placed; an answer that is packed
//! all the same is unpacked first ([`crate::unpack`]). The full guarantee is only that a secret goes to hosts that
//! were declared for it.

mod cache;
mod spellings;
mod stream;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, MatchKind};
use memchr::memmem;
use serde_json::Value;
use zeroize::Zeroizing;

pub use cache::Scrubbers;
pub use stream::ScrubStream;

/// Shorter values are left alone: taking "a" out of every answer would break them all.
const PATTERN_BYTES_MIN: usize = 6;

/// Finds placed secrets in answers and puts their placeholder there. Cheap to clone: the search is built once for each
/// set of secrets ([`Scrubbers`]).
#[derive(Clone, Default)]
pub struct Scrubber {
    rules: Option<Arc<Rules>>,
}

struct Rules {
    finder: AhoCorasick,
    /// In the order in which the finder numbers them.
    patterns: Vec<Pattern>,
    /// Which bytes a pattern begins with.
    begins: [bool; 256],
    /// Which bytes are in a pattern: most ends of a chunk are decided by one look here.
    holds: [bool; 256],
    /// Bytes of the longest pattern.
    longest: usize,
    /// Bytes of the shortest one.
    shortest: usize,
}

#[derive(Clone)]
struct Pattern {
    value: Zeroizing<Vec<u8>>,
    placeholder: Vec<u8>,
}

impl Pattern {
    /// Whether it stands in there, in whatever case.
    fn is_in(&self, bytes: &[u8]) -> bool {
        bytes.windows(self.value.len()).any(|part| part.eq_ignore_ascii_case(&self.value))
    }
}

impl Scrubber {
    /// For these secrets, by name.
    ///
    /// # Errors
    /// More text than a search can be built for; the bound on a secret's length keeps it far from that.
    pub fn new(secrets: &BTreeMap<String, Zeroizing<String>>) -> Result<Self, BuildError> {
        Self::of(secrets.iter().flat_map(|(name, value)| patterns(name, value)).collect())
    }

    /// One more, for this request only: builds the search anew, and leaves that of others as it is.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn also(&mut self, name: &str, value: &str) -> Result<(), BuildError> {
        let mut all: Vec<Pattern> = patterns(name, value).collect();
        all.extend(self.rules.iter().flat_map(|rules| rules.patterns.iter().cloned()));
        *self = Self::of(all)?;
        Ok(())
    }

    fn of(patterns: Vec<Pattern>) -> Result<Self, BuildError> {
        if patterns.is_empty() {
            return Ok(Self::default());
        }
        // The longest match counts: one secret may be part of another. Not the table-driven kind, which is faster by
        // a little and larger by far: a secret may have 64 KiB.
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(patterns.iter().map(|pattern| pattern.value.as_slice()))?;
        let mut begins = [false; 256];
        for first in patterns.iter().filter_map(|pattern| pattern.value.first()) {
            begins[usize::from(*first)] = true;
        }
        let mut holds = [false; 256];
        for byte in patterns.iter().flat_map(|pattern| pattern.value.iter()) {
            holds[usize::from(*byte)] = true;
        }
        let longest = patterns.iter().map(|pattern| pattern.value.len()).max().unwrap_or(0);
        let shortest = patterns.iter().map(|pattern| pattern.value.len()).min().unwrap_or(0);
        Ok(Self { rules: Some(Arc::new(Rules { finder, patterns, begins, holds, longest, shortest })) })
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_none()
    }

    /// A whole text without secrets, also without those that JSON spells with escapes: who reads the text as JSON would
    /// read them. Members may stand in another order then; a provider that writes like that is not owed its own
    /// spelling. Borrowed where there was nothing to take out.
    #[must_use]
    pub fn clean<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(rules) = self.rules.as_ref().filter(|rules| bytes.len() >= rules.shortest) else {
            return Cow::Borrowed(bytes);
        };
        let out = rules.clean(bytes);
        if memmem::find(&out, b"\\u").is_none() {
            return out;
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(&out) else { return out };
        if rules.clean_value(&mut value) { Cow::Owned(value.to_string().into_bytes()) } else { out }
    }

    /// As [`Self::clean`], for bytes that are one's own: they are given back as they are where nothing was found.
    #[must_use]
    pub fn clean_whole(&self, bytes: Vec<u8>) -> Vec<u8> {
        match self.clean(&bytes) {
            Cow::Borrowed(_) => bytes,
            Cow::Owned(clean) => clean,
        }
    }

    /// A whole text without secrets, when it is text.
    #[must_use]
    pub fn clean_text(&self, text: &str) -> String {
        match &self.rules {
            None => text.to_owned(),
            Some(rules) => rules.clean_text(text),
        }
    }

    /// Whether a field's name holds a secret. Names are told without case (RFC 9110 section 5.1), and came here in lower
    /// case: what is left of a secret there is all that matters of it, or nearly. Such a field is not passed on.
    #[must_use]
    pub fn is_in_name(&self, name: &str) -> bool {
        let Some(rules) = &self.rules else { return false };
        // Nearly every name is shorter than every secret.
        name.len() >= rules.shortest && rules.patterns.iter().any(|pattern| pattern.is_in(name.as_bytes()))
    }

    /// For an answer that is passed on as it comes. `keep_length` where a length was announced: the placeholder
    /// is then cut or filled to the length of what it stands for.
    #[must_use]
    pub fn stream(self, keep_length: bool) -> ScrubStream {
        ScrubStream::new(self.rules, keep_length)
    }
}

/// Every spelling of a secret that is long enough to be looked for.
fn patterns(name: &str, value: &str) -> impl Iterator<Item = Pattern> + use<> {
    let placeholder = format!("{{{{secret:{name}}}}}").into_bytes();
    let all = if value.len() < PATTERN_BYTES_MIN { BTreeSet::new() } else { spellings::spellings(value) };
    all.into_iter().map(move |spelling| Pattern {
        value: Zeroizing::new(spelling.into_bytes()),
        placeholder: placeholder.clone(),
    })
}

impl Rules {
    fn clean<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut out = Vec::new();
        let mut at = 0;
        for found in self.finder.find_iter(bytes) {
            out.extend_from_slice(&bytes[at..found.start()]);
            out.extend_from_slice(&self.patterns[found.pattern().as_usize()].placeholder);
            at = found.end();
        }
        // A pattern has at least one byte: nothing was found while `at` is 0.
        if at == 0 {
            return Cow::Borrowed(bytes);
        }
        out.extend_from_slice(&bytes[at..]);
        Cow::Owned(out)
    }

    fn clean_text(&self, text: &str) -> String {
        match self.clean(text.as_bytes()) {
            Cow::Borrowed(_) => text.to_owned(),
            Cow::Owned(clean) => String::from_utf8_lossy(&clean).into_owned(),
        }
    }

    /// Whether a decoded text held a secret; it is taken out.
    fn clean_value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => {
                let clean = self.clean_text(text);
                let found = clean != *text;
                *text = clean;
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
                    let clean = self.clean_text(&name);
                    found |= clean != name;
                    found |= self.clean_value(&mut member);
                    members.insert(clean, member);
                }
                found
            }
        }
    }

    /// Where the rest of these bytes could be the beginning of a secret; their end if nowhere.
    fn open_from(&self, bytes: &[u8]) -> usize {
        // No byte of a beginning is one that is in no pattern.
        let end = &bytes[bytes.len().saturating_sub(self.longest.saturating_sub(1))..];
        let foreign = end.iter().rposition(|byte| !self.holds[usize::from(*byte)]);
        let earliest = bytes.len() - end.len() + foreign.map_or(0, |at| at + 1);
        let could_begin = |at: &usize| {
            let rest = &bytes[*at..];
            self.begins[usize::from(bytes[*at])]
                && self
                    .patterns
                    .iter()
                    .any(|pattern| pattern.value.len() > rest.len() && pattern.value.starts_with(rest))
        };
        (earliest..bytes.len()).find(could_begin).unwrap_or(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

    use super::*;

    fn scrubber() -> Scrubber {
        let secret = Zeroizing::new("sk_test_planted/1".to_owned());
        Scrubber::new(&BTreeMap::from([("STRIPE_KEY".to_owned(), secret)])).unwrap()
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
    fn a_secret_is_found_in_a_name_in_whatever_case() {
        let secret = Zeroizing::new("sk_test_Planted.1".to_owned());
        let scrubber = Scrubber::new(&BTreeMap::from([("KEY".to_owned(), secret)])).unwrap();
        for (name, found) in [
            ("x-echo-sk_test_planted.1", true),
            ("sk_test_planted.1", true),
            // In hexadecimal.
            ("x-736b5f746573745f506c616e7465642e31", true),
            ("x-sk_test_planted", false),
            ("content-type", false),
            ("", false),
        ] {
            assert_eq!(scrubber.is_in_name(name), found, "{name}");
        }
        assert!(!Scrubber::default().is_in_name("sk_test_planted.1"));
    }

    #[test]
    fn json_escapes_of_several_libraries_are_known() {
        let secret = Zeroizing::new("ab+cd/ef&gh==".to_owned());
        let scrubber = Scrubber::new(&BTreeMap::from([("KEY".to_owned(), secret)])).unwrap();
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
        // Every second character: no spelling of the whole value is like that.
        let escape =
            |(at, c): (usize, char)| if at % 2 == 0 { c.into() } else { format!("\\u{:04x}", u32::from(c)) };
        let spelled: String = SECRET.chars().enumerate().map(escape).collect();
        for text in
            [format!(r#"{{"a":[1.50,"say {spelled}!"],"b":null}}"#), format!(r#"{{"{spelled}":true}}"#)]
        {
            let clean: Value = serde_json::from_slice(&scrubber.clean(text.as_bytes())).unwrap();
            assert!(!clean.to_string().contains(SECRET), "{clean}");
            assert!(clean.to_string().contains("{{secret:"), "{clean}");
        }
        // Nothing is written anew where there is nothing to take out.
        let plain: &[u8] = br#"{"b": 1.50, "a":"\u00e4"}"#;
        assert!(matches!(scrubber.clean(plain), Cow::Borrowed(same) if same == plain));
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
}
