//! Previews: what would be sent, what it would take, and what must stay true for it. Sends nothing but the reads that a
//! plan makes, and takes nothing.

use std::sync::Arc;
use std::time::Duration;

use oncegate_config::model::{Action, Host};
use oncegate_policy::limit::Limit;
use oncegate_policy::preview::Basis;
use oncegate_policy::refusal::Refusal;
use oncegate_store::StoreError;
use oncegate_store::admit::Realm;
use oncegate_store::earlier::{Earlier, Operation};
use oncegate_store::preview::NewPreview;
use oncegate_store::view::{Exposure, StoredRequest};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::adapting;
use crate::asking::Asking;
use crate::plan::Planning;
use crate::prepare::{self, Draft};
use crate::state::{Sidecar, Snapshot};

/// How long a preview may be used where nobody says.
pub const LIFE: Duration = Duration::from_secs(600);
/// The longest life of a preview.
pub const LIFE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Why there is no preview.
pub enum NoPreview {
    /// The call itself would be refused for what it says.
    Refused(Refusal),
    /// The record could not be read.
    Store(StoreError),
}

/// SHA-256 over everything that must not have changed between a preview and the call that is bound to it: what is said,
/// how the action is declared, where and with which secrets it would be sent, and what the provider said when it was asked
/// (the amount that is left, for one). Limits are not among it: the call is held against those that stand then.
#[must_use]
pub fn basis(host: Option<&Host>, action: &Action, planning: &Planning) -> Basis {
    let plan = &planning.plan;
    // The text of a value of ours, compared with the same of the same version only: after an update of Oncegate a
    // preview is stale, which is safe.
    let parts = [
        planning.asked.fingerprint.as_str().to_owned(),
        format!("{:?}", (&plan.subject, &plan.resource, &plan.impact)),
        format!("{action:?}"),
        format!("{:?}", adapting::secret_names(host, action)),
        format!("{:?}", host.map(|host| (&host.connect_to, &host.ca_file, host.plain))),
    ];
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

/// Makes a preview, to be kept by the store.
///
/// # Errors
/// As [`NoPreview`] says.
pub async fn make(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    asking: Asking,
    life: Duration,
) -> Result<NewPreview, NoPreview> {
    let draft = prepare::draft(sidecar, snapshot, &asking).await.map_err(NoPreview::Refused)?;
    let now = sidecar.clock.now();
    let exposures = sidecar.store.exposures(now).await.map_err(NoPreview::Store)?;
    let halted = sidecar.store.halted().await.map_err(NoPreview::Store)?;
    let operation = operation(snapshot, &asking, &draft);
    let earlier = sidecar.store.earlier(operation, now).await.map_err(NoPreview::Store)?;
    let limits = limits(&draft, &exposures);
    let room = limits.iter().all(|limit| limit["fits"] == true);
    let repeats = match &earlier {
        Earlier::Repeat(view) => {
            json!({ "effectId": view.id.as_str(), "outcome": view.stage.outcome().word() })
        }
        Earlier::Nothing | Earlier::InTheWay(_) => Value::Null,
    };
    let preconditions = json!([
        condition("not_halted", halted.is_none(), "writes are not halted"),
        condition("room_on_limits", room, "every limit that applies has room for it"),
        not_done_before(&earlier),
    ]);
    let document = json!({
        "actionName": draft.action.name.as_str(),
        "change": change(&draft.stored),
        "credential": credential(snapshot, &asking, draft.action),
        "subject": draft.planning.plan.subject,
        "operationKey": draft.planning.asked.declared_key,
        "fingerprint": draft.planning.asked.fingerprint.as_str(),
        "impact": draft.planning.plan.impact.as_ref().map(crate::control::show::impact),
        "limits": limits,
        "preconditions": preconditions,
        "repeatOf": repeats,
        "requiresApproval": prepare::approval_needed(draft.action, &draft.planning),
        "guarantees": guarantees(&draft),
        "faultDrill": draft.action.fault_drill.map(|drill| drill.word()),
    });
    Ok(NewPreview {
        basis: basis(snapshot.host(&asking.authority), draft.action, &draft.planning),
        fingerprint: draft.planning.asked.fingerprint.clone(),
        caller: asking.caller,
        action: asking.action,
        input: asking.given,
        document,
        expires_at: now.plus(life),
        refreshed_from: None,
    })
}

/// What would be sent, but for the credential and for the effect's own marks, which are another for each invocation.
pub(crate) fn change(request: &StoredRequest) -> Value {
    let body = match (request.body.is_empty(), serde_json::from_slice::<Value>(&request.body)) {
        (true, _) => Value::Null,
        (false, Ok(json)) => json,
        (false, Err(_)) => String::from_utf8_lossy(&request.body).into_owned().into(),
    };
    let headers: serde_json::Map<String, Value> =
        request.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    json!({ "method": request.method, "url": request.url, "headers": headers, "body": body })
}

/// The credential by the names of its secrets, and where it would stand.
fn credential(snapshot: &Snapshot, asking: &Asking, action: &Action) -> Value {
    let named = adapting::secret_names(snapshot.host(&asking.authority), action);
    let names: Vec<&String> = named.values().flatten().collect();
    let places: Vec<&String> = named.keys().collect();
    if names.is_empty() { Value::Null } else { json!({ "secrets": names, "places": places }) }
}

/// Every limit that applies, and what would be left of it.
fn limits(draft: &Draft<'_>, exposures: &[Exposure]) -> Vec<Value> {
    let plan = &draft.planning.plan;
    let Some(impact) = &plan.impact else { return Vec::new() };
    let applies = |limit: &Limit| limit.applies(&draft.action.name, plan.resource.as_deref(), impact);
    exposures
        .iter()
        .filter(|exposure| exposure.archived_at.is_none() && applies(&exposure.limit))
        .map(|exposure| {
            let left = impact.amount.map(|amount| exposure.available().saturating_sub(amount));
            json!({
                "limitId": exposure.id.as_str(),
                "name": exposure.limit.name,
                "unit": exposure.limit.dimension.unit(),
                "period": exposure.limit.period.word(),
                "amount": exposure.limit.amount,
                "available": exposure.available(),
                "takes": impact.amount,
                "availableAfter": left,
                "fits": left.is_some_and(|left| left >= 0),
            })
        })
        .collect()
}

/// What the call would be compared by.
fn operation(snapshot: &Snapshot, asking: &Asking, draft: &Draft<'_>) -> Operation {
    let Planning { plan, asked, said } = &draft.planning;
    Operation {
        caller: asking.caller.clone(),
        action: asking.action.clone(),
        asked: asked.clone(),
        subject: plan.subject.clone(),
        near: plan.near.clone(),
        realm: Some(Realm {
            name: adapting::realm(draft.action),
            said: said.clone(),
            apart: adapting::apart(&snapshot.config, draft.action),
        }),
    }
}

/// Unmet too where the call would be refused for what is there already: with the refusal's code and sentence.
fn not_done_before(earlier: &Earlier) -> Value {
    const NAME: &str = "not_done_before";
    const TEXT: &str = "no earlier effect is this same operation, or in its way";
    match earlier {
        Earlier::Nothing => condition(NAME, true, TEXT),
        Earlier::Repeat(_) => condition(NAME, false, TEXT),
        Earlier::InTheWay(refusal) => json!({
            "name": NAME, "met": false, "description": refusal.sentence, "code": refusal.code.word(),
        }),
    }
}

fn condition(name: &str, met: bool, text: &str) -> Value {
    json!({ "name": name, "met": met, "description": text })
}

fn guarantees(draft: &Draft<'_>) -> Vec<String> {
    let mut guarantees = vec![
        "Recorded durably before a byte is sent, and sent at most once.".to_owned(),
        "A lost answer is unknown: its impact stays held until evidence or a person settles it.".to_owned(),
    ];
    guarantees.push(match draft.adapter.can_read_back() {
        true => "The provider can be asked what became of it.".to_owned(),
        false => {
            "The provider cannot be asked what became of it: only a person can settle an unknown.".to_owned()
        }
    });
    guarantees.push(match draft.planning.plan.replay_window_ms {
        Some(window_ms) => {
            format!(
                "The provider deduplicates on the effect's key for {} h: a replay is possible.",
                window_ms / 3_600_000
            )
        }
        None => "The provider deduplicates on no key: a replay is refused.".to_owned(),
    });
    if let Some(drill) = draft.action.fault_drill {
        guarantees.push(format!("Fault drill: {} is in force for this action.", drill.word()));
    }
    guarantees
}
