//! Open effects that a configuration has lost hold of: what it makes of their requests is not what was made of them. A repeat
//! would not be known for one, or nobody looks for them. It is said, at a start and at a reload: the edit may be meant.

use std::collections::BTreeMap;

use http::Uri;
use oncegate_adapters::{Planned, Request};
use oncegate_policy::action::ActionName;
use oncegate_policy::body;
use oncegate_policy::id::EffectId;
use oncegate_policy::query;
use oncegate_policy::template::Scope;
use oncegate_store::unsettled::Unsettled;
use oncegate_store::{Store, StoreError};
use serde_json::Value;

use crate::state::Snapshot;
use crate::taken_over::{self, READ_AT_ONCE};

/// What is wrong with them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Their action is not declared.
    Undeclared,
    /// Their requests are another action's.
    ServedBy(ActionName),
    /// The subject, or the operation key, is made in another way.
    OtherIdentity,
}

/// Open effects of one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// Theirs.
    pub action: ActionName,
    /// What is wrong.
    pub why: Why,
    /// How many.
    pub open: u64,
    /// The first of them.
    pub first: EffectId,
}

impl Stray {
    /// A line of the log.
    pub fn warn(&self) {
        tracing::warn!(action.name = %self.action, open = self.open, "{}", self.sentence());
    }

    /// In words, for whoever runs it.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { action, open, first, .. } = self;
        let are = format!("{open} effects that are not settled ({first} first)");
        let rest = match &self.why {
            Why::Undeclared => format!(
                "{action} is no longer declared, with {are}: nobody looks for them, and a repeat of their requests may be a first one of another action's"
            ),
            Why::ServedBy(by) => {
                format!(
                    "{action} has {are} whose requests are {by}'s now: a repeat of them may be a first one there"
                )
            }
            Why::OtherIdentity => format!(
                "{action} has {are} of which it makes another subject or operation key now: a varied retry of them would be sent"
            ),
        };
        format!("{rest}. Settle them first, or declare it as it was: `oncegate effects --unresolved`")
    }
}

/// What `snapshot` has lost hold of.
///
/// # Errors
/// The record could not be read.
pub async fn of(store: &Store, snapshot: &Snapshot) -> Result<Vec<Stray>, StoreError> {
    let mut found: BTreeMap<(ActionName, Why), (u64, EffectId)> = BTreeMap::new();
    let mut after = 0;
    loop {
        let unsettled = store.unsettled(after, READ_AT_ONCE).await?;
        let Some(last) = unsettled.last() else { break };
        after = last.place;
        for one in unsettled {
            let Some(why) = why(snapshot, &one) else { continue };
            found.entry((one.action, why)).or_insert((0, one.id)).0 += 1;
        }
    }
    let stray = |((action, why), (open, first))| Stray { action, why, open, first };
    Ok(found.into_iter().map(stray).collect())
}

fn why(snapshot: &Snapshot, one: &Unsettled) -> Option<Why> {
    if snapshot.declared(one.action.as_str()).is_none() {
        return Some(Why::Undeclared);
    }
    match taken_over::served_by(snapshot, &one.request) {
        Some(by) if by != one.action => Some(Why::ServedBy(by)),
        Some(_) | None => has_another_identity(snapshot, one).then_some(Why::OtherIdentity),
    }
}

/// `false` also where that cannot be told: a charge has to be read before, say.
fn has_another_identity(snapshot: &Snapshot, one: &Unsettled) -> bool {
    let Some((action, adapter)) = snapshot.declared(one.action.as_str()) else { return false };
    let memory: Value = serde_json::from_str(&one.memory).unwrap_or_default();
    let (input, request) = (&memory["input"], &one.request);
    let key = action.operation_key.as_ref().map(|key| key.render_identity(&Scope::of_input(input)));
    let same_key = match &key {
        None => one.declared_key.is_none(),
        Some(Ok(key)) => one.declared_key.as_ref() == Some(key),
        Some(Err(_)) => false,
    };
    // What was kept of the headers is what makes another request: the others are marked, and no part of a subject.
    let headers: Vec<(String, String)> =
        serde_json::from_value(memory["headers"].clone()).unwrap_or_default();
    let query = request.url.parse().ok().and_then(|uri: Uri| query::parse(uri.query()).ok());
    let content_type = request.headers.iter().find(|(name, _)| name == "content-type");
    let kind = body::read(content_type.map(|(_, value)| value.as_str()), &request.body);
    let (Some(query), Ok((body_kind, _))) = (query, kind) else { return !same_key };
    let (method, body) = (request.method.as_str(), request.body.as_slice());
    let planned = adapter.plan(&Request { method, headers: &headers, query: &query, body_kind, body, input });
    let same_subject = match planned {
        Planned::Ready(plan) => plan.subject == one.subject,
        Planned::NeedsRead(_) | Planned::Refused(_) => true,
    };
    !(same_key && same_subject)
}
