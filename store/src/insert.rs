//! The rows of a new effect.

use oncegate_policy::effect::Stage;
use oncegate_policy::id::{ApprovalId, EffectId, InvocationId};
use oncegate_policy::time::Timestamp;
use rusqlite::params;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::admit::NewEffect;
use crate::error::Fault;
use crate::events::text_of;
use crate::facts::effect_of_invocation;
use crate::kept::execute_and_forget;
use crate::keys::{Came, Named, Whose};
use crate::view::{EffectView, SecretNames, StoredRequest};
use crate::writer::Tx;
use crate::{facts, keys, preview, row};

/// What is worked out once, before the writer's turn, and written to more than one place.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) now: Timestamp,
    /// The identity of what is asked, as bytes.
    pub(crate) fingerprint: [u8; 32],
    /// SHA-256 of the request as it was prepared.
    digest: [u8; 32],
    /// The same in letters.
    digest_hex: String,
    headers: String,
    target: String,
    credential: String,
    /// What the chain keeps of the admission, as JSON.
    pub(crate) detail: String,
}

impl Entry {
    pub(crate) fn of(new: &NewEffect, now: Timestamp) -> Self {
        let headers = row::headers_to(&new.request.headers);
        let digest = digest(&new.request, &headers);
        let digest_hex = row::to_hex(&digest);
        Self {
            now,
            fingerprint: row::from_hex(&new.asked.fingerprint),
            digest,
            headers,
            target: target(&new.request.method, &new.request.url),
            credential: row::names_to(&new.credential),
            detail: detail(new, &digest_hex),
            digest_hex,
        }
    }

    /// The effect as it was inserted, without reading it back.
    pub(crate) fn view(self, new: NewEffect, stage: Stage, retry_of: Option<InvocationId>) -> EffectView {
        let (claimed_at, approval) = match &stage {
            Stage::Dispatching { claimed_at, .. } => (Some(*claimed_at), None),
            Stage::AwaitingApproval { approval, .. } => (None, Some(approval.clone())),
            Stage::Ready | Stage::Reconciling { .. } | Stage::Settled(_) | Stage::Rejected(_) => (None, None),
        };
        EffectView {
            id: new.effect,
            invocation: new.invocation,
            caller: new.caller,
            action: new.action,
            listener: new.listener.to_owned(),
            stage,
            subject: new.subject,
            resource: new.resource,
            impact: new.impact,
            provider_key: new.provider_key,
            caller_key: new.asked.caller_key.map(|key| key.text),
            second_key: new.asked.second_key.map(|key| key.text),
            declared_key: new.asked.declared_key,
            fingerprint: new.asked.fingerprint,
            request_digest: self.digest_hex,
            target: self.target,
            response: None,
            response_status: None,
            last_loss: None,
            never_sent: None,
            created_at: self.now,
            claimed_at,
            unknown_since: None,
            looks: 0,
            can_read_back: new.can_read_back,
            replay_until: new.replay_until,
            retry_of,
            retried_by: None,
            compensates: new.compensates,
            approval,
            preview: new.preview.map(|bound| bound.id),
            drill: new.drill,
            credential: Some(new.credential),
        }
    }
}

/// What the chain keeps of an admission, in the order of the alphabet.
#[derive(Serialize)]
struct AdmittedDetail<'a> {
    action: &'a str,
    amount: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<&'a SecretNames>,
    fingerprint: &'a str,
    invocation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<&'a str>,
    provider_key: &'a str,
    request: &'a str,
    unit: Option<&'a str>,
}

fn detail(new: &NewEffect, digest_hex: &str) -> String {
    text_of(&AdmittedDetail {
        action: new.action.as_str(),
        amount: new.impact.as_ref().and_then(|impact| impact.amount),
        credential: Some(&new.credential).filter(|names| !names.is_empty()),
        fingerprint: new.asked.fingerprint.as_str(),
        invocation: new.invocation.as_str(),
        preview: new.preview.as_ref().map(|bound| bound.id.as_str()),
        provider_key: &new.provider_key,
        request: digest_hex,
        unit: new.impact.as_ref().map(|impact| impact.dimension.unit()),
    })
}

/// The effect, its prepared request, what it depends on, and the link to what it retries. Claimed at once, or parked
/// under an approval.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    new: &NewEffect,
    entry: &Entry,
    retry_of: Option<&InvocationId>,
    parked: Option<(&ApprovalId, Timestamp)>,
) -> Result<i64, Fault> {
    let (impact, now) = (new.impact.as_ref(), entry.now);
    let claimed = parked.is_none();
    tx.statements.execute(
            "INSERT INTO effect (id, invocation, caller, action, listener, fingerprint, caller_key, declared_key,
                 subject, resource, dimension, unit, amount, bound, provider_key, replay_until, can_read_back, target,
                 request_digest, retry_of, compensates, drill, created_at, stage, approval, expires_at, claimed_at, run,
                 preview, credential)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
                 ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)",
        params![
            new.effect.as_str(),
            new.invocation.as_str(),
            new.caller.as_str(),
            new.action.as_str(),
            new.listener,
            entry.fingerprint,
            new.asked.caller_key.as_ref().map(|key| &key.text),
            new.asked.declared_key,
            new.subject,
            new.resource,
            impact.map(|impact| impact.dimension.word()),
            impact.map(|impact| impact.dimension.unit()),
            impact.and_then(|impact| impact.amount),
            impact.map(|impact| impact.bound.word()),
            new.provider_key,
            new.replay_until.map(|at| at.0),
            new.can_read_back,
            entry.target,
            entry.digest,
            retry_of.map(InvocationId::as_str),
            new.compensates.as_ref().map(EffectId::as_str),
            new.drill,
            now.0,
            if claimed { "dispatching" } else { "awaiting_approval" },
            parked.map(|(approval, _)| approval.as_str()),
            parked.map(|(_, expires_at)| expires_at.0),
            claimed.then_some(now.0),
            claimed.then_some(tx.setting.run),
            new.preview.as_ref().map(|bound| bound.id.as_str()),
            entry.credential,
        ])?;
    let key = tx.connection.last_insert_rowid();
    insert_beside(tx, key, new, entry, retry_of)?;
    Ok(key)
}

fn insert_beside(
    tx: &mut Tx<'_>,
    key: i64,
    new: &NewEffect,
    entry: &Entry,
    retry_of: Option<&InvocationId>,
) -> Result<(), Fault> {
    let request = &new.request;
    // What is claimed at once has been fenced by now.
    let near = new.approval.and_then(|_| facts::near_to(&new.near));
    let row = params![
        key,
        request.method,
        request.url,
        entry.headers,
        new.memory,
        request.body,
        new.realm.as_ref().map(|realm| &realm.name),
        near
    ];
    tx.statements.once(
        "INSERT INTO request (effect, method, url, headers, memory, body, realm, near)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        row,
        execute_and_forget,
    )?;
    if let Some(realm) = &new.realm {
        tx.tally.is_asked_as(&realm.name, &new.action);
    }
    for (on, outcome) in &new.depends_on {
        tx.connection
            .prepare_cached("INSERT OR IGNORE INTO dependency SELECT ?1, key, ?3 FROM effect WHERE id = ?2")?
            .execute(params![key, on.as_str(), outcome.word()])?;
    }
    if let Some(second) = &new.asked.second_key {
        let whose = Whose { caller: &new.caller, action: &new.action };
        keys::bind(tx, &whose, &second.text, Named::Effect(key), Came::First)?;
    }
    if let Some(bound) = &new.preview {
        preview::bind(tx, bound, key)?;
    }
    if let Some(retried) = retry_of {
        tx.connection
            .prepare_cached(concat!(
                "UPDATE effect SET retried_by = ?2 WHERE key = ",
                effect_of_invocation!("?1")
            ))?
            .execute(params![retried.as_str(), new.invocation.as_str()])?;
    }
    Ok(())
}

impl Tx<'_> {
    /// A ULID of this moment, with SQLite's randomness.
    pub(crate) fn fresh_ulid(&self, now: Timestamp) -> Result<String, Fault> {
        let random = self
            .connection
            .prepare_cached("SELECT randomblob(16)")?
            .query_row([], |row| row.get::<_, [u8; 16]>(0))?;
        let at = u64::try_from(now.0).unwrap_or(0);
        Ok(ulid::Ulid::from_parts(at, u128::from_be_bytes(random)).to_string())
    }
}

/// What was prepared, for the receipt. The credential is not in it.
pub(crate) fn digest(request: &StoredRequest, headers: &str) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in [request.method.as_bytes(), request.url.as_bytes(), headers.as_bytes()] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.update(&request.body);
    hasher.finalize().into()
}

/// Without the query: it may hold what the agent sent, and this outlives the body.
pub(crate) fn target(method: &str, url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    format!("{method} {url}")
}
