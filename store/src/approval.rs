//! Questions to a person: parked effects, and questions that an agent asks on its own account.

mod expiry;

use oncegate_policy::caller::CallerName;
use oncegate_policy::id::{ApprovalId, EffectId};
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use crate::Store;
use crate::error::{Fault, StoreError};
use crate::events::Event;
use crate::read::collect;
use crate::row::Columns;
use crate::writer::{Step, Tx};

const DECIDE: Step =
    Step::new("decide an approval").failing_at("before_approve_commit", "after_approve_commit");
const REQUEST: Step = Step::new("ask for an approval");
/// Questions of one caller's own that are pending at once, at most: more of them bury those that something waits for.
pub const QUESTIONS_MAX: u32 = 64;
/// Effects of one caller that wait for a person at once, at most: their requests are kept until somebody decides or they
/// lapse, and one caller's must leave the disk to all others.
pub const PARKED_MAX: u32 = 256;
/// Bytes of the bodies of these, at most; a single larger one is parked alone.
pub const PARKED_BYTES_MAX: i64 = 64 * 1024 * 1024;

/// A question to a person.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalView {
    /// Its id.
    pub id: ApprovalId,
    /// The effect that waits for it; `None` when an agent asked for something of its own.
    pub effect: Option<EffectId>,
    /// Who asks, and may not decide.
    pub caller: CallerName,
    /// What it is about.
    pub title: String,
    /// More about it.
    pub description: Option<String>,
    /// What the agent gave along, JSON.
    pub payload: Option<Value>,
    /// Since when it is asked.
    pub asked_at: Timestamp,
    /// When it lapses.
    pub expires_at: Timestamp,
    /// `pending`, `approved`, `denied` or `expired`.
    pub status: String,
    /// Who decided.
    pub decided_by: Option<CallerName>,
    /// When it was decided or lapsed.
    pub decided_at: Option<Timestamp>,
    /// What the one who decided said.
    pub note: Option<String>,
}

/// A question that an agent asks on its own account; nothing waits for it here.
#[derive(Clone, Debug)]
pub struct NewApproval {
    /// Who asks.
    pub caller: CallerName,
    /// What it is about.
    pub title: String,
    /// More about it.
    pub description: Option<String>,
    /// For the one who decides, JSON.
    pub payload: Option<Value>,
    /// When it lapses.
    pub expires_at: Timestamp,
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// It counts: an approved effect is `ready`, a denied one is rejected.
    Done(ApprovalView),
    /// The key that asked never decides (P8).
    OwnRequest(ApprovalView),
    /// Somebody else has decided and nothing can be stopped any more, or it has lapsed.
    AlreadyDecided(ApprovalView),
    /// There is no such approval.
    Missing,
}

impl Store {
    /// Says yes. An effect that waited for it becomes `ready`: nothing is held or sent before it is claimed.
    ///
    /// # Errors
    /// The record could not be written: it is still pending.
    pub async fn approve(
        &self,
        id: &ApprovalId,
        by: &CallerName,
        note: Option<String>,
        now: Timestamp,
    ) -> Result<Decided, StoreError> {
        self.decide(id, by, "approved", note, now).await
    }

    /// Says no. An effect that waited for it is rejected, for good; so is one that was approved and is not sent yet.
    ///
    /// # Errors
    /// The record could not be written: it is still pending.
    pub async fn deny(
        &self,
        id: &ApprovalId,
        by: &CallerName,
        note: Option<String>,
        now: Timestamp,
    ) -> Result<Decided, StoreError> {
        self.decide(id, by, "denied", note, now).await
    }

    async fn decide(
        &self,
        id: &ApprovalId,
        by: &CallerName,
        status: &'static str,
        note: Option<String>,
        now: Timestamp,
    ) -> Result<Decided, StoreError> {
        let (id, by) = (id.clone(), by.clone());
        let verb = move |tx: &mut Tx<'_>| decide(tx, &id, &by, status, note.as_deref(), now);
        self.inner.writer.write(DECIDE, usize::MAX, verb).await
    }

    /// Asks a person something on an agent's own account. `None` when [`QUESTIONS_MAX`] of this caller's are pending.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] when too much waits; otherwise the record could not be written.
    pub async fn request_approval(
        &self,
        new: NewApproval,
        now: Timestamp,
    ) -> Result<Option<ApprovalView>, StoreError> {
        let waiting_max = self.inner.queue_capacity;
        self.inner.writer.write(REQUEST, waiting_max, move |tx| request(tx, &new, now)).await
    }

    /// One approval.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn approval(&self, id: &ApprovalId) -> Result<Option<ApprovalView>, StoreError> {
        let id = id.clone();
        self.inner.reader.read("read an approval", move |connection| by_id(connection, &id)).await
    }

    /// Approvals, newest first, with one of these statuses if any are given.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn approvals(
        &self,
        statuses: Option<Vec<&'static str>>,
        limit: u32,
        offset: u32,
    ) -> Result<(Vec<ApprovalView>, u64), StoreError> {
        let wanted = statuses.map(|statuses| json!(statuses).to_string());
        let look = move |connection: &Connection| {
            let total: i64 = connection.query_row(
                "SELECT count(*) FROM approval WHERE ?1 IS NULL OR status IN (SELECT value FROM json_each(?1))",
                [&wanted],
                |found| found.get(0),
            )?;
            let rest = "WHERE ?1 IS NULL OR a.status IN (SELECT value FROM json_each(?1))
                 ORDER BY a.key DESC LIMIT ?2 OFFSET ?3";
            let page = many(connection, rest, params![wanted, limit, offset])?;
            Ok((page, u64::try_from(total).unwrap_or(0)))
        };
        self.inner.reader.read("list approvals", look).await
    }
}

fn decide(
    tx: &mut Tx<'_>,
    id: &ApprovalId,
    by: &CallerName,
    status: &'static str,
    note: Option<&str>,
    now: Timestamp,
) -> Result<Decided, Fault> {
    let Some(asked) = by_id(tx.connection, id)? else { return Ok(Decided::Missing) };
    if asked.caller == *by {
        return Ok(Decided::OwnRequest(asked));
    }
    if asked.status == "pending" && asked.expires_at <= now {
        // Nobody has swept it yet; a decision that comes too late does not count because of that.
        lapse(tx, &asked, now)?;
        return Ok(Decided::AlreadyDecided(again(tx, asked)?));
    }
    let said = note.map_or_else(String::new, |note| format!(": {note}"));
    if asked.status == "approved" && status == "denied" && waits_unsent(tx, &asked)? {
        // The yes stays in the record; what it let go is stopped.
        move_effect(tx, &asked, "rejected", "denied", now)?;
        let text = format!("denied by {by} after it was approved, and before it was sent{said}");
        decided_event(tx, &asked, status, "rejected", &text, by.as_str(), now)?;
        return Ok(Decided::Done(asked));
    }
    if asked.status != "pending" {
        return Ok(Decided::AlreadyDecided(asked));
    }
    tx.connection
        .prepare_cached(
            "UPDATE approval SET status = ?2, decided_by = ?3, decided_at = ?4, note = ?5 WHERE id = ?1",
        )?
        .execute(params![id.as_str(), status, by.as_str(), now.0, note])?;
    let stage = if status == "approved" { "ready" } else { "rejected" };
    move_effect(tx, &asked, stage, "denied", now)?;
    decided_event(tx, &asked, status, stage, &format!("{status} by {by}{said}"), by.as_str(), now)?;
    Ok(Decided::Done(again(tx, asked)?))
}

/// Approved, and not yet claimed: writes are halted, or its turn has not come.
fn waits_unsent(tx: &Tx<'_>, asked: &ApprovalView) -> Result<bool, Fault> {
    let Some(effect) = &asked.effect else { return Ok(false) };
    let mut statement =
        tx.connection.prepare_cached("SELECT 1 FROM effect WHERE id = ?1 AND stage = 'ready'")?;
    Ok(statement.exists([effect.as_str()])?)
}

fn lapse(tx: &mut Tx<'_>, asked: &ApprovalView, now: Timestamp) -> Result<(), Fault> {
    tx.connection
        .prepare_cached("UPDATE approval SET status = 'expired', decided_at = ?2 WHERE id = ?1")?
        .execute(params![asked.id.as_str(), now.0])?;
    move_effect(tx, asked, "rejected", "expired", now)?;
    decided_event(tx, asked, "expired", "rejected", "nobody decided in time", "schedule", now)
}

/// The effect that waited goes on to `ready`, or ends; its prepared request is erased if it ends.
fn move_effect(
    tx: &Tx<'_>,
    asked: &ApprovalView,
    stage: &str,
    rejection: &str,
    now: Timestamp,
) -> Result<(), Fault> {
    let Some(effect) = &asked.effect else { return Ok(()) };
    let rejected = (stage == "rejected").then_some(rejection);
    tx.connection
        .prepare_cached(
            "UPDATE effect SET stage = ?2, expires_at = NULL, rejection = ?3, rejected_at = ?4 WHERE id = ?1",
        )?
        .execute(params![effect.as_str(), stage, rejected, rejected.map(|_| now.0)])?;
    if rejected.is_some() {
        tx.connection
            .prepare_cached("DELETE FROM request WHERE effect = (SELECT key FROM effect WHERE id = ?1)")?
            .execute([effect.as_str()])?;
    }
    Ok(())
}

fn decided_event(
    tx: &mut Tx<'_>,
    asked: &ApprovalView,
    kind: &'static str,
    stage: &str,
    text: &str,
    author: &str,
    now: Timestamp,
) -> Result<(), Fault> {
    tx.append(&Event {
        at: now,
        kind,
        effect: asked.effect.as_ref(),
        stage: asked.effect.as_ref().map(|_| stage),
        author: Some(author),
        text: Some(text),
        detail: json!({ "approval": asked.id.as_str() }).to_string(),
    })
}

fn request(tx: &mut Tx<'_>, new: &NewApproval, now: Timestamp) -> Result<Option<ApprovalView>, Fault> {
    let pending: u32 = tx
        .connection
        .prepare_cached(
            "SELECT count(*) FROM approval WHERE status = 'pending' AND expires_at > ?2 AND caller = ?1 AND effect IS NULL",
        )?
        .query_row(params![new.caller.as_str(), now.0], |found| found.get(0))?;
    if pending >= QUESTIONS_MAX {
        return Ok(None);
    }
    let id = ApprovalId::from_ulid(&tx.fresh_ulid(now)?);
    tx.connection
        .prepare_cached(
            "INSERT INTO approval (id, caller, title, description, payload, asked_at, expires_at, status)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'pending')",
        )?
        .execute(params![
            id.as_str(),
            new.caller.as_str(),
            new.title,
            new.description,
            new.payload.as_ref().map(Value::to_string),
            now.0,
            new.expires_at.0
        ])?;
    tx.append(&Event {
        at: now,
        kind: "approval_asked",
        effect: None,
        stage: None,
        author: Some(new.caller.as_str()),
        text: None,
        detail: json!({ "approval": id.as_str(), "title": new.title }).to_string(),
    })?;
    let made = by_id(tx.connection, &id)?;
    made.map(Some).ok_or_else(|| Fault::Unreadable { what: "approval", found: id.to_string() })
}

/// Why no more of this caller's is parked, with a body of so many bytes.
pub(crate) fn no_room_to_park(
    tx: &Tx<'_>,
    caller: &CallerName,
    bytes: usize,
    now: Timestamp,
) -> Result<Option<Refusal>, Fault> {
    let (count, kept): (u32, i64) = tx
        .connection
        .prepare_cached(
            "SELECT count(*), coalesce(sum(length(r.body)), 0) FROM approval a LEFT JOIN request r ON r.effect = a.effect
             WHERE a.status = 'pending' AND a.expires_at > ?2 AND a.caller = ?1 AND a.effect IS NOT NULL",
        )?
        .query_row(params![caller.as_str(), now.0], |found| Ok((found.get(0)?, found.get(1)?)))?;
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let what = if count >= PARKED_MAX {
        format!("{PARKED_MAX} requests of {caller} wait for approval")
    } else if kept > 0 && kept.saturating_add(bytes) > PARKED_BYTES_MAX {
        format!("Requests of {caller} that wait for approval take up to {PARKED_BYTES_MAX} bytes")
    } else {
        return Ok(None);
    };
    let sentence = format!("{what}: no more are kept. Nothing was sent. Try again once they are decided.");
    Ok(Some(Refusal::new(Code::Overloaded, sentence)))
}

fn again(tx: &Tx<'_>, asked: ApprovalView) -> Result<ApprovalView, Fault> {
    Ok(by_id(tx.connection, &asked.id)?.unwrap_or(asked))
}

fn by_id(connection: &Connection, id: &ApprovalId) -> Result<Option<ApprovalView>, Fault> {
    Ok(many(connection, "WHERE a.id = ?1", [id.as_str()])?.pop())
}

fn many(
    connection: &Connection,
    rest: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<ApprovalView>, Fault> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT a.id, e.id, a.caller, a.title, a.description, a.payload, a.asked_at, a.expires_at, a.status,
             a.decided_by, a.decided_at, a.note
         FROM approval a LEFT JOIN effect e ON e.key = a.effect {rest}"
    ))?;
    collect(&mut statement.query(params)?, read)
}

fn read(columns: &mut Columns<'_>) -> Result<ApprovalView, Fault> {
    Ok(ApprovalView {
        id: columns.word("approval id", ApprovalId::parse)?,
        effect: columns.maybe("effect id", EffectId::parse)?,
        caller: columns.word("caller", CallerName::parse)?,
        title: columns.next()?,
        description: columns.next()?,
        payload: columns.maybe("payload", |text| serde_json::from_str(text).ok())?,
        asked_at: Timestamp(columns.next()?),
        expires_at: Timestamp(columns.next()?),
        status: columns.next()?,
        decided_by: columns.maybe("caller", CallerName::parse)?,
        decided_at: columns.time()?,
        note: columns.next()?,
    })
}

/// Whether a person has approved this effect.
pub(crate) fn is_approved(connection: &Connection, effect: i64) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached("SELECT status FROM approval WHERE effect = ?1")?;
    let status: Option<String> = statement.query_row([effect], |found| found.get(0)).optional()?;
    Ok(status.as_deref() == Some("approved"))
}
