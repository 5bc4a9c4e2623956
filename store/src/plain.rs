//! Invocations of actions that are not governed. They make no effect, take no room and are not looked for; each is
//! recorded before it is sent, sent at most once, and unknown until a person settles it when its answer is lost.

use std::sync::Arc;

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::classify::Verdict;
use oncegate_policy::exchange::Loss;
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::id::InvocationId;
use oncegate_policy::plain::{AskedPlain, PlainDecision, PlainStatus, decide};
use oncegate_policy::refusal::Refusal;
use oncegate_policy::time::Timestamp;
use rusqlite::params;
use serde_json::json;

use crate::claim::{PlainClaim, PlainClaimed, PlainPermit, Unrecorded};
use crate::error::{Fault, StoreError};
use crate::events::Event;
use crate::keys::{Came, Named, Whose};
use crate::record::{Seen, SeenExchange};
use crate::resolve::ResolvedAs;
use crate::view::{NeverSent, StoredResponse};
use crate::writer::{Step, Tx};
use crate::{Store, admit, insert, keys, read, row};

pub(crate) mod look;
mod prune;
pub mod resolve;

const BEGIN: Step = Step::new("begin an invocation").failing_at("before_commit", "after_commit").permitting();
const END: Step = Step::new("record the outcome of an invocation")
    .failing_at("before_record_commit", "after_record_commit");

/// What is asked of an action that is not governed.
#[derive(Clone, Debug)]
pub struct NewPlain {
    /// The invocation's id, fresh.
    pub invocation: InvocationId,
    /// Who asks.
    pub caller: CallerName,
    /// For what.
    pub action: ActionName,
    /// `proxy` or `api`.
    pub listener: &'static str,
    /// The caller's own key, if it sent one.
    pub caller_key: Option<String>,
    /// The other one, if it sent two.
    pub second_key: Option<String>,
    /// What the request says.
    pub fingerprint: Fingerprint,
    /// The failed invocation that this one retries on purpose.
    pub retry_of: Option<InvocationId>,
    /// The method. A halt lets `GET`, `HEAD` and `OPTIONS` through: they only read.
    pub method: String,
    /// The whole URL; kept without its query.
    pub url: String,
}

/// An invocation without an effect, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainView {
    /// Its id.
    pub id: InvocationId,
    /// Who asked.
    pub caller: CallerName,
    /// For what.
    pub action: ActionName,
    /// `proxy` or `api`.
    pub listener: String,
    /// What the request says.
    pub fingerprint: Fingerprint,
    /// The caller's own key, if it sent one.
    pub caller_key: Option<String>,
    /// Method and URL without its query, for people.
    pub target: String,
    /// What has become of it.
    pub status: PlainStatus,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When its dispatch ended, one way or another.
    pub ended_at: Option<Timestamp>,
    /// What the provider answered. `None` in lists, and after `[store] keep_responses`.
    pub response: Option<StoredResponse>,
    /// The status of that answer, also where it is not shown.
    pub response_status: Option<u16>,
    /// How the answer was lost, if it was.
    pub last_loss: Option<Loss>,
    /// The proof that nothing left, if nothing did.
    pub never_sent: Option<NeverSent>,
    /// The person's word that settled it, if it was unknown.
    pub resolution: Option<PlainResolution>,
    /// The failed invocation that this one retries.
    pub retry_of: Option<InvocationId>,
    /// The invocation that retries this one.
    pub retried_by: Option<InvocationId>,
}

/// A person's word on an unknown invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainResolution {
    /// What happened.
    pub outcome: ResolvedAs,
    /// Who says so; never the one who asked.
    pub by: CallerName,
    /// Why.
    pub evidence: String,
    /// Where to look it up at the provider.
    pub external_reference: Option<String>,
    /// When it was said.
    pub at: Timestamp,
}

/// What became of the question.
#[derive(Debug)]
pub enum Begun {
    /// New, recorded, durable: it may be sent once.
    Fresh {
        /// The right to send.
        permit: PlainPermit,
        /// The invocation as it was committed.
        invocation: PlainView,
    },
    /// It is there already; nothing was written but the keys that came, if they named nothing before.
    Repeat(PlainView),
    /// No. An audit row was written; the key stays free.
    Refused(Refusal),
}

/// The same inside the transaction, before the commit.
enum Inside {
    Fresh { claimed: PlainClaimed, invocation: PlainView },
    Repeat(PlainView),
    Refused(Refusal),
}

impl Store {
    /// Records an invocation before it is sent, unless the caller's key names one already. Returns after the commit.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] when too much waits; otherwise the record could not be written. Nothing may be
    /// sent on any error.
    pub async fn begin_plain(&self, new: NewPlain, now: Timestamp) -> Result<Begun, StoreError> {
        let waiting_max = self.inner.queue_capacity;
        let inside = self.inner.writer.write(BEGIN, waiting_max, move |tx| begin(tx, &new, now)).await?;
        Ok(match inside {
            Inside::Fresh { claimed, invocation } => {
                Begun::Fresh { permit: PlainPermit::of_committed(claimed), invocation }
            }
            Inside::Repeat(invocation) => Begun::Repeat(invocation),
            Inside::Refused(refusal) => Begun::Refused(refusal),
        })
    }

    /// The end of its one dispatch.
    ///
    /// # Errors
    /// The record could not be written: the claim is gone, and the sweep will call the invocation unknown.
    pub async fn end_plain(
        &self,
        claim: PlainClaim,
        seen: impl Into<Arc<Seen>>,
        now: Timestamp,
    ) -> Result<PlainView, Box<Unrecorded<PlainClaim>>> {
        let (key, id, seen) = (claim.claimed.key, claim.invocation().clone(), seen.into());
        let verb = move |tx: &mut Tx<'_>| {
            end(tx, key, &id, &seen, now)?;
            look::by_key(tx.connection, key)?.ok_or_else(|| gone(&id))
        };
        // The claim lives until the commit is decided, as that of an effect.
        match self.inner.writer.write(END, usize::MAX, verb).await {
            Ok(view) => {
                self.inner.living_plain.forget(key);
                Ok(view)
            }
            Err(error) => Err(Unrecorded::of(claim, error)),
        }
    }

    /// One invocation without an effect, with its answer.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn plain(&self, id: &InvocationId) -> Result<Option<PlainView>, StoreError> {
        self.inner.reader.plain(id).await
    }
}

impl read::Reader {
    /// One invocation without an effect, with its answer.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn plain(&self, id: &InvocationId) -> Result<Option<PlainView>, StoreError> {
        let id = id.clone();
        self.read("read an invocation", move |connection| look::by_id(connection, &id)).await
    }
}

fn begin(tx: &mut Tx<'_>, new: &NewPlain, now: Timestamp) -> Result<Inside, Fault> {
    let reads = ["GET", "HEAD", "OPTIONS"].contains(&new.method.as_str());
    let asked = AskedPlain { fingerprint: new.fingerprint.clone(), retry_of: new.retry_of.clone(), reads };
    let found = look::facts(tx.connection, new)?;
    let whose = Whose { caller: &new.caller, action: &new.action };
    match decide(&asked, &found) {
        PlainDecision::New => {}
        PlainDecision::Repeat(id) => {
            let known = look::by_id(tx.connection, &id)?.ok_or_else(|| gone(&id))?;
            // What it repeats is found by a key: one of two may be new.
            let unbound = [(&new.caller_key, &found.by_caller_key), (&new.second_key, &found.by_second_key)];
            for key in unbound.iter().filter(|(_, known)| known.is_none()).filter_map(|(key, _)| key.as_ref())
            {
                let named = Named::Plain(look::key_of(tx.connection, &id)?.ok_or_else(|| gone(&id))?);
                keys::bind(tx, &whose, key, named, Came::WithRepeat)?;
            }
            return Ok(Inside::Repeat(known));
        }
        PlainDecision::Refuse(refusal) => {
            admit::refusal_event(tx, &new.caller, Some(&new.action), &refusal, now)?;
            return Ok(Inside::Refused(refusal));
        }
    }
    let target = insert::target(&new.method, &new.url);
    let key = insert_row(tx, new, &target, now)?;
    if let Some(second) = &new.second_key {
        keys::bind(tx, &whose, second, Named::Plain(key), Came::First)?;
    }
    // Crash window: as at an admission, no permit exists before the commit; after it a crash leaves a row that says
    // `running` with no living owner, which the sweep calls unknown.
    let detail =
        json!({ "action": new.action.as_str(), "fingerprint": new.fingerprint.as_str(), "target": target });
    event(tx, "plain_begun", &new.invocation, Some(new.caller.as_str()), None, detail, now)?;
    let claimed = PlainClaimed::new(&tx.setting.living_plain, new.invocation.clone(), key);
    Ok(Inside::Fresh { claimed, invocation: running(new, target, now) })
}

fn insert_row(tx: &Tx<'_>, new: &NewPlain, target: &str, now: Timestamp) -> Result<i64, Fault> {
    tx.connection
        .prepare_cached(
            "INSERT INTO plain_invocation (id, caller, action, listener, fingerprint, caller_key, target, retry_of,
                 created_at, status, run)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'running', ?10)",
        )?
        .execute(params![
            new.invocation.as_str(),
            new.caller.as_str(),
            new.action.as_str(),
            new.listener,
            row::from_hex(&new.fingerprint),
            new.caller_key,
            target,
            new.retry_of.as_ref().map(InvocationId::as_str),
            now.0,
            tx.setting.run,
        ])?;
    let key = tx.connection.last_insert_rowid();
    if let Some(retried) = &new.retry_of {
        tx.connection
            .prepare_cached("UPDATE plain_invocation SET retried_by = ?2 WHERE id = ?1")?
            .execute([retried.as_str(), new.invocation.as_str()])?;
    }
    Ok(key)
}

fn running(new: &NewPlain, target: String, now: Timestamp) -> PlainView {
    PlainView {
        id: new.invocation.clone(),
        caller: new.caller.clone(),
        action: new.action.clone(),
        listener: new.listener.to_owned(),
        fingerprint: new.fingerprint.clone(),
        caller_key: new.caller_key.clone(),
        target,
        status: PlainStatus::Running,
        created_at: now,
        ended_at: None,
        response: None,
        response_status: None,
        last_loss: None,
        never_sent: None,
        resolution: None,
        retry_of: new.retry_of.clone(),
        retried_by: None,
    }
}

/// What was seen of a running invocation, once.
pub(crate) fn end(
    tx: &mut Tx<'_>,
    key: i64,
    id: &InvocationId,
    seen: &Seen,
    now: Timestamp,
) -> Result<(), Fault> {
    let status = match seen.verdict {
        Verdict::Succeeded => PlainStatus::Succeeded,
        Verdict::Failed => PlainStatus::Failed,
        Verdict::Unknown => PlainStatus::Unknown,
    };
    let answer = match &seen.exchange {
        SeenExchange::Answered { answer, .. } => Some(answer),
        SeenExchange::NotSent(_) | SeenExchange::Lost(_) => None,
    };
    let (step, cause, seen_status) = seen.columns();
    let ended = tx
        .connection
        .prepare_cached(
            "UPDATE plain_invocation SET status = ?2, run = NULL, ended_at = ?3, seen = ?4, step = ?5, cause = ?6,
                 seen_status = ?7, response_reason = ?8, response_headers = ?9, response_body = ?10
             WHERE key = ?1 AND status = 'running'",
        )?
        .execute(params![
            key,
            status.word(),
            now.0,
            seen.word(),
            step,
            cause,
            seen_status,
            answer.and_then(|answer| answer.reason.as_ref()),
            answer.map(|answer| row::headers_to(&answer.headers)),
            answer.map(|answer| &answer.body),
        ])?;
    if ended == 0 {
        return Err(gone(id));
    }
    event(tx, "plain_ended", id, Some(seen.author()), Some(&seen.text()), seen.detail(), now)
}

fn event(
    tx: &mut Tx<'_>,
    kind: &'static str,
    id: &InvocationId,
    author: Option<&str>,
    text: Option<&str>,
    mut detail: serde_json::Value,
    now: Timestamp,
) -> Result<(), Fault> {
    if let Some(members) = detail.as_object_mut() {
        members.insert("invocation".to_owned(), id.as_str().into());
    }
    let detail = detail.to_string();
    tx.append(&Event { at: now, kind, effect: None, stage: None, author, text, detail })
}

fn gone(id: &InvocationId) -> Fault {
    Fault::NotRunning { invocation: id.clone() }
}
