//! Admission: ONE transaction from "may this run?" to the claimed dispatch.

use std::sync::Arc;
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::admission::{Asked, Decision, decide};
use oncegate_policy::caller::CallerName;
use oncegate_policy::effect::{Outcome, Stage};
use oncegate_policy::fingerprint::Said;
use oncegate_policy::id::{ApprovalId, EffectId, InvocationId};
use oncegate_policy::impact::Impact;
use oncegate_policy::near::NearSubject;
use oncegate_policy::preview::BoundPreview;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::time::Timestamp;
use rusqlite::params;
use serde_json::json;

use crate::claim::{Claimed, DispatchPermit};
use crate::error::{Fault, StoreError};
use crate::events::Event;
use crate::facts::{self, Asking, Subjects};
use crate::holds::{self, Reserved, Room, Wanted};
use crate::insert::Entry;
use crate::keys::{Came, Named, Whose};
use crate::view::{EffectView, SecretNames, StoredRequest};
use crate::writer::{Step, Tx};
use crate::{Store, approval, attempt, dependencies, insert, keys, preview, row};

const ADMIT: Step = Step::new("admit an effect").failing_at("before_commit", "after_commit").permitting();
/// Longest title of a question that Oncegate asks by itself, in characters.
const TITLE_CHARS_MAX: usize = 300;
const AUDIT: Step = Step::new("record a refusal");

/// What is asked, planned and prepared: everything that an effect is made of.
#[derive(Clone, Debug)]
pub struct NewEffect {
    /// The invocation's id, fresh.
    pub invocation: InvocationId,
    /// The effect's id, fresh.
    pub effect: EffectId,
    /// Who asks.
    pub caller: CallerName,
    /// For what.
    pub action: ActionName,
    /// Identity: keys, fingerprint, retry.
    pub asked: Asked,
    /// What is acted on.
    pub subject: Option<String>,
    /// Other subjects that are looked at too, where one thing has more than one name.
    pub near: Vec<NearSubject>,
    /// What it is compared in beside its own action: effects of one realm are in each other's way, whatever their actions are
    /// called. `None` for those of its action alone.
    pub realm: Option<Realm>,
    /// What limits with a resource prefix look at.
    pub resource: Option<String>,
    /// What it takes of limits.
    pub impact: Option<Impact>,
    /// The key that the provider deduplicates on.
    pub provider_key: String,
    /// Until when the provider deduplicates, if it does.
    pub replay_until: Option<Timestamp>,
    /// Whether the provider can be asked what happened.
    pub can_read_back: bool,
    /// What the adapter needs for a look, as JSON: input and headers, never a credential.
    pub memory: String,
    /// What would be sent, without the credential.
    pub request: StoredRequest,
    /// Parks it for a person, for at most this long.
    pub approval: Option<Duration>,
    /// Effects that must have these outcomes.
    pub depends_on: Vec<(EffectId, Outcome)>,
    /// The effect that this one undoes.
    pub compensates: Option<EffectId>,
    /// The preview that it must still be true to.
    pub preview: Option<BoundPreview>,
    /// The fault drill that it is sent under.
    pub drill: Option<String>,
    /// Which secrets stand where in the request: names only.
    pub credential: SecretNames,
    /// `proxy` or `api`.
    pub listener: &'static str,
}

/// Where the same subject, declared key and content are the same thing under every name of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realm {
    /// Which.
    pub name: String,
    /// What the request says, to be compared with what other actions of the realm were asked.
    pub said: Said,
    /// Actions of the realm that are no other names of this one: declared beside it, and told from it by what is asked.
    pub apart: Vec<ActionName>,
}

/// What became of the question.
#[derive(Debug)]
pub enum Admitted {
    /// New, recorded, claimed, durable: it may be sent once.
    Granted {
        /// The right to send.
        permit: DispatchPermit,
        /// The effect as it was committed.
        effect: EffectView,
    },
    /// It is there already; nothing was written but the keys that came, if they named nothing before.
    Repeat(EffectView),
    /// No. An audit row was written; the key stays free.
    Refused(Refusal),
    /// New, recorded, and waiting for a person: nothing is held and nothing claimed.
    Parked(EffectView),
}

/// A refusal for the audit, said before an admission was tried.
#[derive(Clone, Debug)]
pub struct RefusedRequest {
    /// Who asked.
    pub caller: CallerName,
    /// For what, if that was known.
    pub action: Option<ActionName>,
    /// The answer.
    pub refusal: Refusal,
}

/// The same inside the transaction, before the commit.
enum Inside {
    Granted { claimed: Claimed, room: Room, retry_of: Option<InvocationId> },
    Repeat(Box<EffectView>),
    Refused(Refusal),
    Parked { approval: ApprovalId, expires_at: Timestamp, retry_of: Option<InvocationId> },
}

impl Store {
    /// Decides over what the record holds and, if it is new and there is room, claims its one dispatch. Returns
    /// after the commit: a permit is handed out for nothing less.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] when too many admissions wait; otherwise the record could not be written.
    /// Nothing may be sent on any error.
    pub async fn admit(&self, new: NewEffect, now: Timestamp) -> Result<Admitted, StoreError> {
        let waiting_max = self.inner.queue_capacity;
        // Shared with the verb, which is gone when it has answered: then the effect is made of the very same texts.
        let whole = Arc::new((Entry::of(&new, now), new));
        let shared = Arc::clone(&whole);
        let verb = move |tx: &mut Tx<'_>| admit(tx, &shared.1, &shared.0);
        let inside = self.inner.writer.write(ADMIT, waiting_max, verb).await?;
        let view = |stage, retry_of| {
            let (entry, new) = Arc::unwrap_or_clone(whole);
            entry.view(new, stage, retry_of)
        };
        Ok(match inside {
            Inside::Granted { claimed, room, retry_of } => {
                let owner = self.inner.owner.clone();
                let effect = view(Stage::Dispatching { claimed_at: now, owner }, retry_of);
                let claimed = claimed.remembering(&effect, room);
                Admitted::Granted { permit: DispatchPermit::of_committed(claimed), effect }
            }
            Inside::Repeat(effect) => Admitted::Repeat(*effect),
            Inside::Refused(refusal) => Admitted::Refused(refusal),
            Inside::Parked { approval, expires_at, retry_of } => {
                Admitted::Parked(view(Stage::AwaitingApproval { approval, expires_at }, retry_of))
            }
        })
    }

    /// Records that something was refused before an admission was tried. Does not occupy the key.
    ///
    /// # Errors
    /// The record could not be written; the refusal stands all the same.
    pub async fn audit_refusal(&self, refused: RefusedRequest, now: Timestamp) -> Result<(), StoreError> {
        let waiting_max = self.inner.queue_capacity;
        let verb = move |tx: &mut Tx<'_>| {
            refusal_event(tx, &refused.caller, refused.action.as_ref(), &refused.refusal, now)
        };
        self.inner.writer.write(AUDIT, waiting_max, verb).await
    }
}

fn admit(tx: &mut Tx<'_>, new: &NewEffect, entry: &Entry) -> Result<Inside, Fault> {
    let now = entry.now;
    let asking = Asking {
        caller: &new.caller,
        asked: &new.asked,
        fingerprint: entry.fingerprint,
        on: Subjects {
            action: &new.action,
            realm: new.realm.as_ref().map(|realm| realm.name.as_str()),
            subject: new.subject.as_deref(),
            near: &new.near,
        },
    };
    let halted = tx.tally.halted(tx.connection)?;
    let mut known = facts::read(tx.statements, &asking, halted, now)?;
    if let Some(realm) = &new.realm {
        let mut others = tx.tally.other_names(tx.connection, &realm.name, &new.action)?;
        others.retain(|name| !realm.apart.contains(name));
        facts::read_elsewhere(tx.connection, &mut known, realm, &others, new.asked.declared_key.as_deref())?;
    }
    let retry_of = match decide(&new.asked, &known, now) {
        Decision::New { retry_of } => retry_of,
        Decision::Repeat(id) => {
            let effect = row::by_id(tx.connection, &id)?.ok_or(Fault::Gone { effect: id })?;
            let whose = Whose { caller: &new.caller, action: &new.action };
            for key in known.unbound(&new.asked) {
                keys::bind(tx, &whose, &key.text, Named::Effect(effect.key), Came::WithRepeat)?;
            }
            return Ok(Inside::Repeat(Box::new(effect.view)));
        }
        Decision::Refuse(refusal) => return refused(tx, new, refusal, now),
    };
    if let Some(refusal) = preview::refusal(tx, new, now)? {
        return refused(tx, new, refusal, now);
    }
    if let Some(refusal) = unmet(tx, new)? {
        return refused(tx, new, refusal, now);
    }
    if let Some(lapse) = new.approval {
        if let Some(refusal) = approval::no_room_to_park(tx, &new.caller, new.request.body.len(), now)? {
            return refused(tx, new, refusal, now);
        }
        let approval = ApprovalId::from_ulid(&tx.fresh_ulid(now)?);
        return park(tx, new, entry, retry_of, approval, now.plus(lapse));
    }
    // Room is looked at before anything is written, so that a refusal leaves nothing behind but its audit row.
    let wanted =
        Wanted { action: &new.action, resource: new.resource.as_deref(), impact: new.impact.as_ref() };
    match holds::room(tx, &wanted, now)? {
        Reserved::Room(room) => claim_new(tx, new, entry, retry_of, room),
        Reserved::NoRoom(refusal) => refused(tx, new, refusal, now),
    }
}

/// Writes the effect as `dispatching`, its holds and its event. Crash window: until the commit returns there is no permit, so
/// no byte can leave; after it, a crash leaves a `dispatching` row without a living owner, which the sweep makes unknown.
fn claim_new(
    tx: &mut Tx<'_>,
    new: &NewEffect,
    entry: &Entry,
    retry_of: Option<InvocationId>,
    room: Room,
) -> Result<Inside, Fault> {
    let key = insert::insert(tx, new, entry, retry_of.as_ref(), None)?;
    holds::take(tx, key, &room)?;
    admitted_event(tx, "admitted", "dispatching", new, entry)?;
    let claimed = tx.setting.living.claim(new.effect.clone(), attempt::dispatch_key(key));
    Ok(Inside::Granted { claimed, room, retry_of })
}

fn park(
    tx: &mut Tx<'_>,
    new: &NewEffect,
    entry: &Entry,
    retry_of: Option<InvocationId>,
    approval: ApprovalId,
    expires_at: Timestamp,
) -> Result<Inside, Fault> {
    let key = insert::insert(tx, new, entry, retry_of.as_ref(), Some((&approval, expires_at)))?;
    ask(tx, key, new, &approval, expires_at, entry.now)?;
    admitted_event(tx, "parked", "awaiting_approval", new, entry)?;
    Ok(Inside::Parked { approval, expires_at, retry_of })
}

fn ask(
    tx: &Tx<'_>,
    key: i64,
    new: &NewEffect,
    approval: &ApprovalId,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<(), Fault> {
    let what = new.impact.as_ref().map_or_else(String::new, |impact| format!(": {impact}"));
    let on = new.subject.as_ref().map_or_else(String::new, |subject| format!(" on {subject}"));
    let title: String = format!("{}{what}{on}", new.action).chars().take(TITLE_CHARS_MAX).collect();
    tx.connection
        .prepare_cached(
            "INSERT INTO approval (id, effect, caller, title, asked_at, expires_at, status)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending')",
        )?
        .execute(params![approval.as_str(), key, new.caller.as_str(), title, now.0, expires_at.0])?;
    Ok(())
}

fn refused(tx: &mut Tx<'_>, new: &NewEffect, refusal: Refusal, now: Timestamp) -> Result<Inside, Fault> {
    refusal_event(tx, &new.caller, Some(&new.action), &refusal, now)?;
    Ok(Inside::Refused(refusal))
}

/// The audit row of a refusal.
pub(crate) fn refusal_event(
    tx: &mut Tx<'_>,
    caller: &CallerName,
    action: Option<&ActionName>,
    refusal: &Refusal,
    now: Timestamp,
) -> Result<(), Fault> {
    let in_the_way = refusal.effect.as_ref().map(EffectId::as_str);
    tx.append(&Event {
        at: now,
        kind: "refused",
        effect: None,
        stage: None,
        author: Some(caller.as_str()),
        text: Some(&refusal.sentence),
        detail: json!({
            "action": action.map(ActionName::as_str), "code": refusal.code.word(), "in_the_way": in_the_way,
        })
        .to_string(),
    })
}

fn admitted_event(
    tx: &mut Tx<'_>,
    kind: &'static str,
    stage: &str,
    new: &NewEffect,
    entry: &Entry,
) -> Result<(), Fault> {
    let (effect, author) = (Some(&new.effect), Some(new.caller.as_str()));
    let detail = entry.detail.clone();
    tx.append(&Event { at: entry.now, kind, effect, stage: Some(stage), author, text: None, detail })
}

fn unmet(tx: &Tx<'_>, new: &NewEffect) -> Result<Option<Refusal>, Fault> {
    if let Some(refusal) = dependencies::unmet(tx.connection, &new.depends_on)? {
        return Ok(Some(refusal));
    }
    let Some(undone) = &new.compensates else { return Ok(None) };
    let sentence = format!("No effect {undone} is in the record to be compensated. Nothing was sent.");
    Ok(row::by_id(tx.connection, undone)?.is_none().then(|| Refusal::new(Code::InvalidInput, sentence)))
}
