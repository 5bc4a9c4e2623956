//! What makes two requests "the same": a digest of the action and its input.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::json::{canonical, write_text};

/// SHA-256 over the canonical form of action, input and scope; 64 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of one request: what it says ([`Said::of`]), as one of an action.
    #[must_use]
    pub fn of(action: &str, input: &Value, scope: &[(String, String)]) -> Self {
        Said::of(input, scope).of_action(action)
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

/// What a request says, before it is known of which action: the same words are compared under more than one name where an
/// action has been renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said(Arc<str>);

impl Said {
    /// The canonical form of input and scope.
    ///
    /// `scope` holds the headers that change whom the request acts for (such as `Stripe-Account`); the case of
    /// their names and their order do not matter. Trace ids and the key itself never belong here.
    #[must_use]
    pub fn of(input: &Value, scope: &[(String, String)]) -> Self {
        let mut headers: Vec<_> =
            scope.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
        headers.sort_unstable();

        let mut text = String::from(",\"input\":");
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
        Self(text.into())
    }

    /// The fingerprint that it has as a request of this action.
    #[must_use]
    pub fn of_action(&self, action: &str) -> Fingerprint {
        let mut text = String::from("{\"action\":");
        write_text(action, &mut text);
        text.push_str(&self.0);
        Fingerprint(digest_hex(text.as_bytes()))
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
