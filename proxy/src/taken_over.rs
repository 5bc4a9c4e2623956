//! What another configuration would make of the requests whose effects are not settled.
//!
//! A repeat is recognised within its own action, and while the first is open within its realm. Where a request would mean
//! another action than it did, of another realm, an identical one is a first one there, under that action's controls, and
//! would be sent beside an effect that may have been applied.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use oncegate_config::model::Action;
use oncegate_policy::action::ActionName;
use oncegate_policy::authority::Authority;
use oncegate_policy::path::CanonicalPath;
use oncegate_policy::query;
use oncegate_policy::router::Candidate;
use oncegate_policy::url_template::Scheme;
use oncegate_store::{Store, StoreError, StoredRequest};
use serde_json::Value;

use crate::meant::{self, Content};
use crate::state::Snapshot;
use crate::{adapting, receive};

/// Effects that are read at once: each comes with its request, which is as long as `max_request_body` at most.
pub(crate) const READ_AT_ONCE: u32 = 64;

/// Requests that would be another action's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOver {
    /// Whose they are.
    pub from: ActionName,
    /// Whose they would be.
    pub by: ActionName,
    /// How many of their effects are not settled.
    pub open: u64,
    /// It is the same action under another name: a repeat is recognised as long as they are open.
    pub renamed: bool,
}

impl TakenOver {
    /// In words, for whoever declares actions.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { from, by, open, renamed } = self;
        let what = if *renamed {
            ": it is refused until they are settled, and is a first one afterwards"
        } else {
            ", which knows nothing of them, and would be sent"
        };
        format!(
            "{open} effects of {from} are not settled, and a repeat of their requests would be {by}'s{what}. \
             `oncegate effects --unresolved` lists them."
        )
    }
}

/// The effects that are not settled and whose requests `next` would take for an action that `now` does not take them
/// for, and that is not their own.
///
/// # Errors
/// The record could not be read.
pub async fn between(store: &Store, now: &Snapshot, next: &Snapshot) -> Result<Vec<TakenOver>, StoreError> {
    let realm = |snapshot: &Snapshot, name: &ActionName| {
        snapshot.action(name.as_str()).map(|(action, _)| adapting::realm(action))
    };
    let mut open: BTreeMap<(ActionName, ActionName, bool), u64> = BTreeMap::new();
    let mut after = 0;
    loop {
        let unsettled = store.unsettled(after, READ_AT_ONCE).await?;
        let Some(last) = unsettled.last() else { break };
        after = last.place;
        for one in unsettled {
            let Some(by) = served_by(next, &one.request).filter(|by| *by != one.action) else { continue };
            if served_by(now, &one.request).as_ref() != Some(&by) {
                // By what it was admitted under: its action may have had other names since.
                let was = one.realm.or_else(|| realm(now, &one.action));
                let renamed = was.is_some() && was == realm(next, &by);
                *open.entry((one.action, by, renamed)).or_default() += 1;
            }
        }
    }
    let taken_over = |((from, by, renamed), open)| TakenOver { from, by, open, renamed };
    Ok(open.into_iter().map(taken_over).collect())
}

/// The action as which this request would be let through; `None` where it would be refused, or is no action's.
pub(crate) fn served_by(snapshot: &Snapshot, request: &StoredRequest) -> Option<ActionName> {
    read(snapshot, request, |action, _, _| action.enabled.then(|| action.name.clone()))
}

/// The other action that this request is now, enabled or not. Not one that comes before `own` by its name alone: which of
/// the two it is was said by name.
pub(crate) fn anothers(snapshot: &Snapshot, request: &StoredRequest, own: &ActionName) -> Option<ActionName> {
    read(snapshot, request, |action, candidates, members| {
        let by = (action.name != *own).then(|| action.name.clone())?;
        let named = meant::named_as_well(own, action, candidates, members).is_some();
        (!named).then_some(by)
    })
}

/// What is made of a kept request: with the action that it means, all that its URL can mean, and its body's members.
fn read<T>(
    snapshot: &Snapshot,
    request: &StoredRequest,
    found: impl FnOnce(&Action, &[Candidate<'_>], &Value) -> Option<T>,
) -> Option<T> {
    let uri: Uri = request.url.parse().ok()?;
    let scheme =
        [Scheme::Https, Scheme::Http].into_iter().find(|one| uri.scheme_str() == Some(one.as_str()))?;
    let authority = Authority::parse(uri.authority()?.as_str(), Some(scheme.default_port())).ok()?;
    let (path, _) = CanonicalPath::parse_or_spread(uri.path()).ok()?;
    let query = query::parse(uri.query()).ok()?;
    let candidates = snapshot.router.candidates(&request.method, scheme, &authority, &path, &query);
    let headers: HeaderMap = request.headers.iter().filter_map(field).collect();
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let (kind, members) = meant::read(snapshot, &candidates, content_type, &request.body).ok()?;
    let packed = receive::is_packed(&headers);
    let method = Method::from_bytes(request.method.as_bytes()).ok()?;
    let content = Content {
        method: &method,
        content_type,
        packed,
        bytes: &request.body,
        kind,
        members: &members,
        told_by: snapshot.router.told_by(&request.method, scheme, &authority, &path),
    };
    let (action, _) = meant::meant(snapshot, &candidates, &content).ok()??;
    found(action, &candidates, &members)
}

fn field((name, value): &(String, String)) -> Option<(HeaderName, HeaderValue)> {
    Some((name.parse().ok()?, value.parse().ok()?))
}
