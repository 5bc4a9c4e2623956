//! What makes two requests "the same": a digest of the action and its input.

use std::fmt;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::json::{canonical, write_text};

/// SHA-256 over the canonical form of action, input and scope; 64 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of one request.
    ///
    /// `scope` holds the headers that change whom the request acts for (such as `Stripe-Account`); the case of
    /// their names and their order do not matter. Trace ids and the key itself never belong here.
    #[must_use]
    pub fn of(action: &str, input: &Value, scope: &[(String, String)]) -> Self {
        let mut headers: Vec<_> =
            scope.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
        headers.sort_unstable();

        let mut text = String::from("{\"action\":");
        write_text(action, &mut text);
        text.push_str(",\"input\":");
        text.push_str(&canonical(input));
        text.push_str(",\"scope\":[");
        for (at, (name, value)) in headers.iter().enumerate() {
            text.push_str(if at == 0 { "[" } else { ",[" });
            write_text(name, &mut text);
            text.push(',');
            write_text(value, &mut text);
            text.push(']');
        }
        text.push_str("]}");
        Self(digest_hex(text.as_bytes()))
    }

    /// A stored fingerprint: exactly 64 hex digits, in either case.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let good = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        good.then(|| Self(text.to_ascii_lowercase()))
    }

    /// The 64 hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// SHA-256 of `bytes` as 64 lower-case hex digits.
#[must_use]
pub fn digest_hex(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
