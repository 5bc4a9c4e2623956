//! An answer as the agent got it.

use std::io::{self, Read};

use serde_json::Value;

use crate::wire::{End, Head, Wire};

/// Everything an agent can see of an answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The reason phrase: the only text that some clients print.
    pub reason: String,
    /// The head it came with.
    pub head: Head,
    /// The body, without its framing.
    pub body: Vec<u8>,
    /// Whether the body is whole by its own framing.
    pub complete: bool,
}

impl Answer {
    /// Reads one answer. `bodiless` for answers to HEAD and for an accepted CONNECT.
    pub fn read<S: Read>(wire: &mut Wire<S>, bodiless: bool) -> io::Result<Answer> {
        let Some(head) = wire.head()? else {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no answer"));
        };
        let mut words = head.line.splitn(3, ' ');
        let version = words.next().unwrap_or_default();
        assert!(version.starts_with("HTTP/1."), "not an HTTP/1 answer: {}", head.line);
        let status = words.next().unwrap_or_default().parse().expect("a status code");
        let reason = words.next().unwrap_or_default().to_owned();
        let (body, end) = if bodiless || status == 204 || status == 304 {
            (Vec::new(), End::Complete)
        } else if head.field("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
            wire.chunked()
        } else if let Some(length) = head.field("content-length") {
            wire.sized(length.parse().expect("a content length"))
        } else {
            wire.rest()
        };
        Ok(Answer { status, reason, head, body, complete: end == End::Complete })
    }

    /// A header's first value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    /// The body as JSON; fails the test if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// `Oncegate-Outcome`.
    pub fn outcome(&self) -> &str {
        self.header("oncegate-outcome").unwrap_or("(no Oncegate-Outcome)")
    }

    /// `Oncegate-Code`: there when the answer is the sidecar's own.
    pub fn code(&self) -> &str {
        self.header("oncegate-code").unwrap_or("(no Oncegate-Code)")
    }

    /// `Oncegate-Effect`; fails the test if there is none.
    pub fn effect(&self) -> String {
        let effect =
            self.header("oncegate-effect").unwrap_or_else(|| panic!("no Oncegate-Effect in {self:?}"));
        assert!(effect.starts_with("eff_"), "not an effect's name: {effect}");
        effect.to_owned()
    }

    /// Everything as one text, to search for what must not be there.
    pub fn everything(&self) -> String {
        format!("{}\n{:?}\n{}", self.head.line, self.head.fields, self.text())
    }

    /// What holds for every answer of the sidecar's own about a governed request (DESIGN section 11): a status that
    /// no client retries, complete, JSON, no hint to try again, and the code in header and body.
    #[track_caller]
    pub fn assert_own(&self, status: u16, code: &str) -> &Answer {
        assert_eq!((self.status, self.code()), (status, code), "in {self:?}");
        assert!(self.complete, "a truncated answer: {self:?}");
        assert!(self.header("content-length").is_some(), "no Content-Length: {self:?}");
        let media = self.header("content-type").unwrap_or_default();
        assert!(media.starts_with("application/json"), "served as {media}");
        assert_eq!(self.header("stripe-should-retry"), Some("false"), "in {self:?}");
        assert_eq!(self.header("x-should-retry"), Some("false"), "in {self:?}");
        for hint in ["retry-after", "location", "x-ratelimit-remaining", "set-cookie"] {
            assert_eq!(self.header(hint), None, "{hint} in an answer of our own");
        }
        assert!(self.text().contains(code), "{code} is not in the body: {}", self.text());
        let phrase = self.reason.bytes().all(|b| (0x20..0x7f).contains(&b));
        assert!(phrase && !self.reason.is_empty(), "reason phrase {:?}", self.reason);
        self
    }

    /// A refusal: as [`Answer::assert_own`], and it says that nothing was sent.
    #[track_caller]
    pub fn assert_refused(&self, status: u16, code: &str) -> &Answer {
        self.assert_own(status, code);
        assert_eq!(self.outcome(), "refused", "in {self:?}");
        self
    }

    /// The sentence of DESIGN section 11, in the reason phrase, about this effect.
    #[track_caller]
    pub fn assert_unknown(&self) -> &Answer {
        self.assert_own(422, "oncegate_outcome_unknown");
        assert_eq!(self.outcome(), "unknown");
        let sentence = unknown_sentence(&self.effect());
        assert_eq!(self.reason, sentence);
        assert!(self.text().contains(&sentence), "the sentence is not in the body: {}", self.text());
        self
    }
}

/// What the agent is told when the answer is lost.
pub fn unknown_sentence(effect: &str) -> String {
    format!(
        "The provider may have applied effect {effect}; Oncegate is reconciling it. Do not retry; inspect the effect."
    )
}
