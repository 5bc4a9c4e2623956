//! Everything that may still say no: plan, inject, and the request as it will leave. Nothing but reads has left when
//! this is done, and nothing is spent.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Request;
use http::header::CONTENT_TYPE;
use oncegate_adapters::{Adapter, Marks, no_other_effect, only_of};
use oncegate_config::model::{Action, Host};
use oncegate_policy::body::BodyKind;
use oncegate_policy::classify;
use oncegate_policy::preview::BoundPreview;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::template::Scope;
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{NewEffect, Realm};
use oncegate_store::view::{SecretNames, StoredRequest};
use serde_json::json;

use crate::asking::Asking;
use crate::plan::{self, Planning};
use crate::secrets::Placed;
use crate::state::{Sidecar, Snapshot};
use crate::upstream::Prepared;
use crate::{adapting, inject, meaning, preview, receive};

/// A governed request that only its admission is missing to.
pub struct Ready {
    /// What is to be admitted.
    pub effect: NewEffect,
    /// What is to be sent then.
    pub request: Prepared,
    /// How its answer is to be read.
    pub rules: classify::ResponseRules,
}

/// What a request amounts to and how it will leave, whether it is governed or not.
pub struct Draft<'a> {
    /// The action.
    pub action: &'a Action,
    /// What it means at its provider.
    pub adapter: &'a Adapter,
    /// Whose repeat it could be, what it takes.
    pub planning: Planning,
    /// Everything but the credential.
    pub stored: StoredRequest,
    /// With the credential.
    pub request: Prepared,
}

/// Prepares a governed request.
///
/// # Errors
/// The refusal, and nothing was sent but reads.
pub async fn governed(sidecar: &Arc<Sidecar>, snapshot: &Snapshot, asking: Asking) -> Result<Ready, Refusal> {
    let Draft { action, adapter, planning, stored, request } = draft(sidecar, snapshot, &asking).await?;
    let now = sidecar.clock.now();
    let host = snapshot.host(&asking.authority);
    let credential = adapting::secret_names(host, action);
    let bound = |id| BoundPreview { id, basis: preview::basis(host, action, &planning) };
    let preview = asking.preview.clone().map(bound);
    let apart = adapting::apart(&snapshot.config, action);
    let mut effect =
        NewEffect { credential, preview, ..new_effect(asking, action, adapter, planning, stored, now) };
    effect.realm = effect.realm.map(|realm| Realm { apart, ..realm });
    Ok(Ready { effect, request, rules: adapter.response_rules().clone() })
}

/// Plans a request, marks it, and places its credential.
///
/// # Errors
/// The refusal, and nothing was sent but reads.
pub async fn draft<'a>(
    sidecar: &Arc<Sidecar>,
    snapshot: &'a Snapshot,
    asking: &Asking,
) -> Result<Draft<'a>, Refusal> {
    let undeclared =
        || Refusal::new(Code::Undeclared, "The action is not declared or not enabled. Nothing was sent.");
    let (action, adapter) = snapshot.action(asking.action.as_str()).ok_or_else(undeclared)?;
    let host = snapshot.host(&asking.authority).ok_or_else(undeclared)?;
    let planning = plan::plan(sidecar, snapshot, host, action, adapter, asking).await?;

    let provider_key = asking.fresh.provider_key();
    let effect_id = asking.fresh.effect.as_str();
    let marks = Marks { effect_id, provider_key: &provider_key };
    let mut marked = adapter.prepare(&asking.for_adapter(), &planning.plan, &marks)?;
    name_its_type(asking, &mut marked);
    let scope = Scope {
        input: &asking.input,
        effect_id: Some(effect_id),
        effect_key: Some(&provider_key),
        response: None,
    };
    let placed =
        inject::placed(sidecar, snapshot, host, Some(action), &asking.authority, Some(scope)).await?;
    let stored = stored_request(asking, &planning, &marked);
    let now = sidecar.clock.system();
    let request = outgoing(snapshot, host, asking, (&planning, marked), placed, now)?;
    names_no_other(snapshot, asking, &request)?;
    Ok(Draft { action, adapter, planning, stored, request })
}

/// JSON that came without a type leaves with the one that it was judged by: Rack takes a POST without one for a form
/// (`form_data?` in <https://github.com/rack/rack/blob/main/lib/rack/request.rb>).
fn name_its_type(asking: &Asking, marked: &mut oncegate_adapters::Prepared) {
    let named = asking.header_map.contains_key(CONTENT_TYPE)
        || marked.headers.iter().any(|(name, _)| name == CONTENT_TYPE.as_str());
    if asking.body_kind == BodyKind::Json && !named {
        marked.headers.push((CONTENT_TYPE.as_str().to_owned(), "application/json".to_owned()));
    }
}

/// What leaves names no other effect, whatever put its parts together: what came, a declared field, body or URL.
fn names_no_other(snapshot: &Snapshot, asking: &Asking, request: &Prepared) -> Result<(), Refusal> {
    let Ok(head) = &request.head else { return Ok(()) };
    let headers: Vec<_> = meaning::texts_of(head.headers()).collect();
    let own = asking.fresh.effect.as_str();
    let leaving = oncegate_adapters::Request {
        headers: &headers,
        body: &request.body,
        input: asking.said(),
        ..asking.for_adapter()
    };
    only_of(own, &asking.authority.host, &leaving)?;
    match snapshot.is_read_by_effect(&asking.authority) {
        true => no_other_effect(own, &leaving),
        false => Ok(()),
    }
}

/// The request as it leaves: the agent's fields, the effect's marks, the credential, in this order.
fn outgoing(
    snapshot: &Snapshot,
    host: &Host,
    asking: &Asking,
    (planning, marked): (&Planning, oncegate_adapters::Prepared),
    mut placed: Placed,
    now: SystemTime,
) -> Result<Prepared, Refusal> {
    let mut scrubber = std::mem::take(&mut placed.scrubber);
    let lent = std::mem::take(&mut placed.lent);
    let (signer, unminted) = (placed.signer.take(), placed.unminted.take());
    let request = Request::builder().method(asking.method.clone()).uri(&asking.path_and_query).body(());
    let request = request.map_err(|_| {
        Refusal::new(Code::InvalidRequest, "The request target cannot be sent. Nothing was sent.")
    })?;
    let to = (&asking.authority, asking.scheme);
    let drop = &planning.plan.drop_headers;
    let mut head = inject::outgoing(request, &asking.header_map, &marked.headers, drop, to, placed)?;
    inject::finish(&mut head, &marked.body, to, (signer.as_ref(), &mut scrubber), now)?;
    Ok(Prepared {
        destination: snapshot.destination(&asking.authority, host),
        head: unminted.map_or(Ok(head), Err),
        body: marked.body.into(),
        scrubber,
        lent,
        bounds: snapshot.bounds(),
    })
}

/// What is kept of a request: everything but the credential.
fn stored_request(
    asking: &Asking,
    planning: &Planning,
    marked: &oncegate_adapters::Prepared,
) -> StoredRequest {
    let replaced = |name: &str| {
        planning.plan.drop_headers.iter().any(|dropped| dropped == name)
            || marked.headers.iter().any(|(set, _)| set == name)
            || ["authorization", "cookie", "proxy-authorization", "x-amz-security-token"].contains(&name)
            || receive::is_hop_by_hop(name)
    };
    let kept = asking.headers.iter().filter(|(name, _)| !replaced(name)).cloned();
    StoredRequest {
        method: asking.method.as_str().to_owned(),
        url: asking.url(),
        headers: kept.chain(marked.headers.iter().cloned()).collect(),
        body: marked.body.clone(),
    }
}

fn new_effect(
    asking: Asking,
    action: &Action,
    adapter: &Adapter,
    planning: Planning,
    request: StoredRequest,
    now: Timestamp,
) -> NewEffect {
    let provider_key = asking.fresh.provider_key();
    let approval_needed = approval_needed(action, &planning);
    let Planning { plan, asked, said } = planning;
    let headers: Vec<_> = plan.fingerprint_scope.iter().chain(&plan.read_scope).collect();
    let memory = format!(r#"{{"headers":{},"input":{}}}"#, json!(headers), asking.input);
    let links = asking.links;
    NewEffect {
        invocation: asking.fresh.invocation,
        effect: asking.fresh.effect,
        caller: asking.caller,
        action: asking.action,
        asked,
        subject: plan.subject,
        realm: Some(Realm { name: adapting::realm(action), said, apart: Vec::new() }),
        near: plan.near,
        resource: plan.resource,
        impact: plan.impact,
        provider_key,
        replay_until: plan.replay_window_ms.map(|window| now.plus(Duration::from_millis(window))),
        can_read_back: adapter.can_read_back(),
        memory,
        request,
        approval: approval_needed.then_some(action.approval_expires),
        depends_on: links.depends_on,
        compensates: links.compensates,
        preview: None,
        drill: asking.drill.or(action.fault_drill).map(|drill| drill.word().to_owned()),
        credential: SecretNames::new(),
        listener: asking.listener.word(),
    }
}

/// Whether a person has to say yes first: always, or above an amount, or because the amount is not known.
pub(crate) fn approval_needed(action: &Action, planning: &Planning) -> bool {
    action.requires_approval
        || action.approval_when.is_some_and(|when| {
            let amount = planning.plan.impact.as_ref().and_then(|impact| impact.amount);
            amount.is_none_or(|amount| amount > when.amount_above)
        })
}
