//! The catalogue: what is known of providers' idempotency, each fact with its source.
//!
//! One file per provider in `adapters/catalog`. A fact that could not be confirmed is shown and never enables a replay.

use oncegate_policy::check::{Check, Expected};
use oncegate_policy::classify::ResponseRules;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::declared::KeyPlace;

/// The files, in the order of their names.
const FILES: [(&str, &str); 22] = [
    ("adyen", include_str!("../catalog/adyen.toml")),
    ("akahu", include_str!("../catalog/akahu.toml")),
    ("aws-cloudcontrol", include_str!("../catalog/aws-cloudcontrol.toml")),
    ("aws-ec2", include_str!("../catalog/aws-ec2.toml")),
    ("aws-verifiedpermissions", include_str!("../catalog/aws-verifiedpermissions.toml")),
    ("checkout-com", include_str!("../catalog/checkout-com.toml")),
    ("github", include_str!("../catalog/github.toml")),
    ("hubspot", include_str!("../catalog/hubspot.toml")),
    ("linear", include_str!("../catalog/linear.toml")),
    ("notion", include_str!("../catalog/notion.toml")),
    ("paypal", include_str!("../catalog/paypal.toml")),
    ("plaid", include_str!("../catalog/plaid.toml")),
    ("plaid-bank-transfers", include_str!("../catalog/plaid-bank-transfers.toml")),
    ("postmark", include_str!("../catalog/postmark.toml")),
    ("qonto", include_str!("../catalog/qonto.toml")),
    ("resend", include_str!("../catalog/resend.toml")),
    ("sendgrid", include_str!("../catalog/sendgrid.toml")),
    ("shopify", include_str!("../catalog/shopify.toml")),
    ("slack", include_str!("../catalog/slack.toml")),
    ("square", include_str!("../catalog/square.toml")),
    ("stripe", include_str!("../catalog/stripe.toml")),
    ("twilio", include_str!("../catalog/twilio.toml")),
];

/// A file of the catalogue that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the catalogue's entry `{name}` cannot be read")]
pub struct CatalogFault {
    name: &'static str,
    source: toml::de::Error,
}

/// One provider.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// What an action's `preset` calls it.
    pub name: &'static str,
    /// Its facts.
    #[serde(flatten)]
    pub facts: Facts,
}

/// What is known of a provider.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The provider, and which API of it.
    pub title: String,
    /// Where it is: exact, or all below a leading dot.
    pub hosts: Vec<String>,
    /// What does not fit in a fact.
    pub note: Option<String>,
    /// Where the key goes.
    pub key: Fact<Key>,
    /// For how long it is remembered.
    pub window: Option<Fact<Window>>,
    /// Whether the answer to a failed request is kept under its key.
    pub failures: Option<Fact<Failures>>,
    /// What the same key with another request gets.
    pub conflict: Option<Fact<Conflict>>,
    /// How a write can be looked for.
    pub read_back: Option<Fact<ReadBackHint>>,
    /// How it speaks inside a 2xx.
    pub response: Option<Fact<Response>>,
    /// Whether a GET with the same parameters does what the POST does.
    pub writes_by_get: Option<Fact<WritesByGet>>,
}

/// One fact, with where it stands.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Fact<T> {
    /// What is known.
    #[serde(flatten)]
    pub what: T,
    /// The page that says so, or that was searched in vain.
    pub source: String,
    /// Whether the source was read and says so.
    pub confirmed: bool,
}

/// Where a key goes.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Key {
    /// The kind of place.
    pub place: Place,
    /// The header's, member's or parameter's name.
    pub name: Option<String>,
}

/// The kinds of places.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A header.
    Header,
    /// A top-level member of a JSON body.
    Body,
    /// A parameter of a form: known, and not set by Oncegate.
    Form,
    /// Inside a GraphQL document: known, and not set by Oncegate.
    Document,
    /// An id that the client chooses for what it makes: the agent's own business.
    Id,
    /// Nowhere, as far as is known.
    None,
}

/// How long a key is remembered.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Window {
    /// At least so many minutes.
    pub minutes: u32,
}

/// Whether failures are kept.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Failures {
    /// A repeat of a request that failed gets the same failure.
    pub kept: bool,
}

/// The same key with another request.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Conflict {
    /// The status of the answer.
    pub status: u16,
}

/// Whether a GET does what the POST does.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct WritesByGet {
    /// It does.
    pub all: bool,
}

/// How a write can be looked for.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ReadBackHint {
    /// For whoever writes a `verify` rule.
    pub how: String,
}

/// How a provider speaks inside a 2xx.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Response {
    /// All must hold for a success.
    pub succeeded_when: Vec<Condition>,
    /// All must hold for a definite failure. Without any, no 2xx is one.
    #[serde(default)]
    pub failed_when: Vec<Condition>,
}

/// One condition on an answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// A dotted path; `*` stands for any item of a list.
    pub path: String,
    /// What some value there must equal; without it, it is enough that something is there.
    pub equals: Option<Value>,
    /// Turns it round: no value there may equal it, or nothing may be there at all.
    #[serde(default)]
    pub absent: bool,
}

/// All entries, in the order of their names.
///
/// # Errors
/// A file that cannot be read; a test reads each.
pub fn entries() -> Result<Vec<Entry>, CatalogFault> {
    let read = |(name, text): &(&'static str, &str)| match toml::from_str(text) {
        Ok(facts) => Ok(Entry { name, facts }),
        Err(source) => Err(CatalogFault { name, source }),
    };
    FILES.iter().map(read).collect()
}

impl Entry {
    /// Where the effect's own key is set, and for how many milliseconds a replay may follow: only if place and window
    /// are both confirmed, and the place is one that Oncegate can write.
    #[must_use]
    pub fn replay(&self) -> Option<(KeyPlace, u64)> {
        let window = self.facts.window.as_ref().filter(|window| window.confirmed)?;
        let key = Some(&self.facts.key).filter(|key| key.confirmed)?;
        let name = key.what.name.as_deref()?;
        let place = match key.what.place {
            Place::Header => KeyPlace::Header(name.to_ascii_lowercase()),
            Place::Body => KeyPlace::Body(name.to_owned()),
            Place::Form | Place::Document | Place::Id | Place::None => return None,
        };
        Some((place, u64::from(window.what.minutes) * 60 * 1000))
    }

    /// How answers are read, if that is confirmed.
    #[must_use]
    pub fn response(&self) -> ResponseRules {
        let Some(fact) = self.facts.response.as_ref().filter(|fact| fact.confirmed) else {
            return ResponseRules::default();
        };
        let check = |condition: &Condition| Check {
            path: condition.path.clone(),
            equals: condition.equals.clone().map(Expected::Literal),
            absent: condition.absent,
        };
        ResponseRules {
            failed_statuses: Vec::new(),
            failed_states: &[],
            succeeded_when: fact.what.succeeded_when.iter().map(check).collect(),
            failed_when: fact.what.failed_when.iter().map(check).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
