//! From approved to claimed: every control again, then the one dispatch, as an admission would.

use oncegate_policy::admission::{self, Known};
use oncegate_policy::effect::Stage;
use oncegate_policy::id::EffectId;
use oncegate_policy::refusal::Refusal;
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, params};
use serde_json::json;

use crate::claim::{Claimed, DispatchPermit};
use crate::error::{Fault, StoreError};
use crate::events::Event;
use crate::facts::{Fence, Subjects};
use crate::holds::{self, Reserved, Wanted};
use crate::read::{collect, depends_on};
use crate::row::{self, Effect};
use crate::view::{EffectView, StoredRequest};
use crate::writer::{Step, Tx};
use crate::{Store, approval, attempt, dependencies, facts, insert};

const CLAIM: Step =
    Step::new("claim an approved effect").failing_at("before_commit", "after_commit").permitting();
const REJECT: Step = Step::new("reject an approved effect");

/// What became of an approved effect.
#[derive(Debug)]
pub enum ReadyClaim {
    /// Claimed, held, durable: it may be sent once.
    Granted {
        /// The right to send.
        permit: DispatchPermit,
        /// The effect as it was committed.
        effect: EffectView,
    },
    /// A rule says no now: the effect is rejected, and nothing was sent.
    Rejected(Refusal, EffectView),
    /// Not now: writes are halted. The effect stays ready.
    Halted(Refusal, EffectView),
    /// It is not ready: somebody has claimed it, or nobody has approved it.
    NotReady(EffectView),
    /// There is no such effect.
    Missing,
}

/// What was prepared, to be sent as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedRequest {
    /// The effect.
    pub view: EffectView,
    /// The exact request, without the credential.
    pub request: StoredRequest,
    /// What was given as [`crate::admit::NewEffect::memory`].
    pub memory: String,
}

enum Inside {
    Granted { claimed: Claimed, effect: EffectView },
    Other(ReadyClaim),
}

impl Store {
    /// Approved effects that nobody has claimed yet, oldest first.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn ready(&self, limit: u32) -> Result<Vec<EffectId>, StoreError> {
        let look = move |connection: &Connection| {
            let mut statement = connection
                .prepare_cached("SELECT id FROM effect WHERE stage = 'ready' ORDER BY created_at LIMIT ?1")?;
            collect(&mut statement.query([limit])?, |columns| columns.word("effect id", EffectId::parse))
        };
        self.inner.reader.read("read what is approved", look).await
    }

    /// The request that was prepared for an effect. `None` once it is erased.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn prepared(&self, id: &EffectId) -> Result<Option<PreparedRequest>, StoreError> {
        let id = id.clone();
        let look = move |connection: &Connection| {
            let Some(effect) = row::by_id(connection, &id)? else { return Ok(None) };
            prepared(connection, effect)
        };
        self.inner.reader.read("read a prepared request", look).await
    }

    /// Claims the one dispatch of an approved effect. Halt, dependencies, the fence on the subject and every limit
    /// are looked at again; room is taken now and not before.
    ///
    /// # Errors
    /// The record could not be written: it is still ready, and nothing may be sent.
    pub async fn claim_ready(&self, id: &EffectId, now: Timestamp) -> Result<ReadyClaim, StoreError> {
        let id = id.clone();
        let verb = move |tx: &mut Tx<'_>| match row::by_id(tx.connection, &id)? {
            None => Ok(Inside::Other(ReadyClaim::Missing)),
            Some(effect) => claim(tx, &effect, now),
        };
        Ok(match self.inner.writer.write(CLAIM, usize::MAX, verb).await? {
            Inside::Granted { claimed, effect } => {
                ReadyClaim::Granted { permit: DispatchPermit::of_committed(claimed), effect }
            }
            Inside::Other(other) => other,
        })
    }

    /// Ends an approved effect that cannot be sent any more (its credential is gone, its action is not declared).
    /// `None` when it is not ready.
    ///
    /// # Errors
    /// The record could not be written: it is still ready.
    pub async fn reject_ready(
        &self,
        id: &EffectId,
        refusal: Refusal,
        now: Timestamp,
    ) -> Result<Option<EffectView>, StoreError> {
        let id = id.clone();
        let verb = move |tx: &mut Tx<'_>| match row::by_id(tx.connection, &id)? {
            Some(effect) if effect.view.stage.word() == "ready" => {
                Ok(Some(reject(tx, &effect, &refusal, now)?))
            }
            Some(_) | None => Ok(None),
        };
        self.inner.writer.write(REJECT, usize::MAX, verb).await
    }
}

fn claim(tx: &mut Tx<'_>, effect: &Effect, now: Timestamp) -> Result<Inside, Fault> {
    if effect.view.stage.word() != "ready" || !approval::is_approved(tx.connection, effect.key)? {
        return Ok(Inside::Other(ReadyClaim::NotReady(effect.view.clone())));
    }
    if let Some(reason) = facts::halted(tx.connection)? {
        return Ok(Inside::Other(ReadyClaim::Halted(admission::halted(&reason), effect.view.clone())));
    }
    let room = match in_the_way(tx, effect, now)? {
        Reserved::Room(room) => room,
        Reserved::NoRoom(refusal) => {
            let view = reject(tx, effect, &refusal, now)?;
            return Ok(Inside::Other(ReadyClaim::Rejected(refusal, view)));
        }
    };
    // The provider's memory of its key begins with the first use: the window is counted from now.
    let waited = now.0.saturating_sub(effect.view.created_at.0);
    tx.connection
        .prepare_cached(
            "UPDATE effect SET stage = 'dispatching', claimed_at = ?2, run = ?3, replay_until = replay_until + ?4
             WHERE key = ?1",
        )?
        .execute(params![effect.key, now.0, tx.setting.run, waited])?;
    holds::take(tx, effect.key, &room)?;
    tx.append(&Event {
        at: now,
        kind: "claimed",
        effect: Some(&effect.view.id),
        stage: Some("dispatching"),
        author: None,
        text: None,
        detail: json!({}).to_string(),
    })?;
    let claimed = tx.setting.living.claim(effect.view.id.clone(), attempt::dispatch_key(effect.key));
    Ok(Inside::Granted { claimed, effect: tx.again(effect)? })
}

/// Every control again. Room is looked for last.
fn in_the_way(tx: &mut Tx<'_>, effect: &Effect, now: Timestamp) -> Result<Reserved, Fault> {
    let needed = depends_on(tx.connection, effect.key)?;
    if let Some(refusal) = dependencies::unmet(tx.connection, &needed)? {
        return Ok(Reserved::NoRoom(refusal));
    }
    if let Some(open) = open_on_subject(tx.connection, effect)? {
        return Ok(Reserved::NoRoom(admission::unresolved(&open)));
    }
    holds::room(tx, &Wanted::of(&effect.view), now)
}

/// While this one waited, another write on its subject, or on one that may be the same, may have begun.
fn open_on_subject(connection: &Connection, effect: &Effect) -> Result<Option<Known>, Fault> {
    let mut statement = connection.prepare_cached("SELECT realm, near FROM request WHERE effect = ?1")?;
    let kept = collect(&mut statement.query([effect.key])?, |columns| {
        Ok((columns.next::<Option<String>>()?, columns.next::<Option<String>>()?))
    })?;
    let (realm, near) = kept.into_iter().next().unwrap_or_default();
    let on = Subjects {
        action: &effect.view.action,
        realm: realm.as_deref(),
        subject: effect.view.subject.as_deref(),
        near: &facts::near_from(near.as_deref())?,
    };
    facts::open_on_subject(connection, Fence::Claiming, &on)
}

fn reject(tx: &mut Tx<'_>, effect: &Effect, refusal: &Refusal, now: Timestamp) -> Result<EffectView, Fault> {
    tx.connection
        .prepare_cached(
            "UPDATE effect SET stage = 'rejected', rejection = 'refused', rejection_code = ?2, rejected_at = ?3
             WHERE key = ?1",
        )?
        .execute(params![effect.key, refusal.code.word(), now.0])?;
    tx.forget_request(effect.key)?;
    tx.append(&Event {
        at: now,
        kind: "rejected",
        effect: Some(&effect.view.id),
        stage: Some("rejected"),
        author: Some("dispatch"),
        text: Some(&refusal.sentence),
        detail: json!({ "code": refusal.code.word() }).to_string(),
    })?;
    tx.again(effect)
}

pub(crate) fn prepared(connection: &Connection, effect: Effect) -> Result<Option<PreparedRequest>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT method, url, headers, body, memory FROM request WHERE effect = ?1")?;
    let found = collect(&mut statement.query([effect.key])?, |columns| {
        let (method, url) = (columns.next()?, columns.next()?);
        let headers: String = columns.next()?;
        let request =
            StoredRequest { method, url, headers: row::headers_from(&headers)?, body: columns.next()? };
        Ok((request, headers, columns.next()?))
    })?;
    let Some((request, headers, memory)) = found.into_iter().next() else { return Ok(None) };
    // What is recorded, and what a person has seen, is what is sent. After the end it is erased.
    let may_be_sent = matches!(effect.view.stage, Stage::Ready | Stage::Reconciling { .. });
    if may_be_sent && row::to_hex(&insert::digest(&request, &headers)) != effect.view.request_digest {
        return Err(Fault::Altered { effect: effect.view.id });
    }
    Ok(Some(PreparedRequest { view: effect.view, request, memory }))
}
