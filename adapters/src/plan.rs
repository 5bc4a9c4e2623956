//! Before sending: what an agent asked, what it means, and the bytes that go out.

use oncegate_policy::body::BodyKind;
use oncegate_policy::fingerprint::digest_hex;
use oncegate_policy::impact::Impact;
use oncegate_policy::near::NearSubject;
use oncegate_policy::refusal::{Code, Refusal};
use serde_json::Value;

use crate::read_back::ReadBack;

/// What an agent asked, as the proxy listener or the API read it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Upper case.
    pub method: &'a str,
    /// Names in lower case.
    pub headers: &'a [(String, String)],
    /// Decoded names and values of the query.
    pub query: &'a [(String, String)],
    /// What the body is.
    pub body_kind: BodyKind,
    /// The body as it came.
    pub body: &'a [u8],
    /// What it says: captured path and query values and the members of the body.
    pub input: &'a Value,
}

impl Request<'_> {
    /// Every value of one header.
    pub(crate) fn header_values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        self.headers.iter().filter(move |(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    /// Those of these headers that are there, each with its one value.
    ///
    /// # Errors
    /// One that is empty, or there more than once, also with `_` for `-`, which CGI and WSGI take for the same: who reads
    /// it may read another one than we do.
    pub(crate) fn scope(&self, names: &[impl AsRef<str>]) -> Result<Vec<(String, String)>, Refusal> {
        let refused = |name: &str, what| {
            let sentence = format!("The header {name} {what}. Nothing was sent.");
            Refusal::new(Code::Ambiguous, sentence)
        };
        let folded = |name: &str| name.replace('_', "-");
        let mut scope = Vec::new();
        for name in names.iter().map(AsRef::as_ref) {
            let alike = |there: &str| there.len() == name.len() && folded(there) == folded(name);
            if self.headers.iter().any(|(there, _)| there != name && alike(there)) {
                return Err(refused(name, "was sent in another spelling"));
            }
            let mut values = self.header_values(name);
            if let Some(value) = values.next() {
                // Counted as an account of no name, it would slip past every limit of the real one.
                if value.trim().is_empty() {
                    return Err(refused(name, "is empty"));
                }
                scope.push((name.to_owned(), value.to_owned()));
            }
            if values.next().is_some() {
                return Err(refused(name, "was sent more than once"));
            }
        }
        Ok(scope)
    }
}

/// What a request means, or what has to be known first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// All that admission needs.
    Ready(Plan),
    /// The provider has to be read first; then [`crate::Adapter::plan_with`].
    NeedsRead(Read),
    /// No.
    Refused(Refusal),
}

/// What a request means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is acted on: the fence against varied retries. `payment_intent/pi_…`.
    pub subject: Option<String>,
    /// Other subjects that are looked at too, where one thing has more than one name.
    pub near: Vec<NearSubject>,
    /// What the limits' `resource_prefix` is compared with: one name a line, such as `acct_…/pi_…`.
    pub resource: Option<String>,
    /// How much it changes.
    pub impact: Option<Impact>,
    /// What beside the input makes it another request: headers that change where or how it is done.
    pub fingerprint_scope: Vec<(String, String)>,
    /// What a read has to repeat besides, and what makes no other request: headers that say how an answer is written.
    pub read_scope: Vec<(String, String)>,
    /// The effect's own key is sent to the provider, which deduplicates on it.
    pub provider_key: bool,
    /// For how long the provider does so.
    pub replay_window_ms: Option<u64>,
    /// The agent's headers that must not be passed on, lower case.
    pub drop_headers: Vec<String>,
}

/// A longer subject is kept as its digest, in bytes.
const MAX_SUBJECT: usize = 255;

/// A subject that is made of texts of any length.
pub(crate) fn bounded_subject(subject: String) -> String {
    match subject.len() {
        0..=MAX_SUBJECT => subject,
        _ => format!("sha256/{}", digest_hex(subject.as_bytes())),
    }
}

/// A read that a plan waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// What is read.
    pub read_back: ReadBack,
    /// What for.
    pub why: &'static str,
}

/// The effect's marks on a request.
#[derive(Clone, Copy, Debug)]
pub struct Marks<'a> {
    /// `eff_…`
    pub effect_id: &'a str,
    /// The key that the provider deduplicates on, decided at admission.
    pub provider_key: &'a str,
}

/// What goes out in the agent's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Headers to set, names in lower case; each replaces the agent's own.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}
