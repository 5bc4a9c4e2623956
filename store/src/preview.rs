//! Previews: what a caller was shown of a call, kept so that the call can be bound to it.

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::id::{EffectId, PreviewId};
use oncegate_policy::preview::{Basis, BoundPreview, KnownPreview, stale};
use oncegate_policy::refusal::Refusal;
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::admit::NewEffect;
use crate::error::{Fault, StoreError};
use crate::row::{self, Columns};
use crate::writer::{Step, Tx};
use crate::{Store, read};

const CREATE: Step = Step::new("keep a preview");

/// The longest input of a preview, in bytes of JSON: that of a governed request by default.
pub const INPUT_BYTES_MAX: usize = 1024 * 1024;
/// The longest document of a preview, in bytes of JSON.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Unused previews that one caller can have at a time; expired ones do not count.
pub const UNUSED_MAX: i64 = 256;
/// How long an expired preview that nothing is bound to is kept: a call that comes late still reads why.
const KEPT_AFTER_EXPIRY_MS: i64 = 24 * 3_600_000;
/// Previews removed in one transaction, at most.
const REMOVED_MAX: i64 = 50;

/// What is to be kept.
#[derive(Clone, Debug)]
pub struct NewPreview {
    /// Whom it is for.
    pub caller: CallerName,
    /// Of what.
    pub action: ActionName,
    /// Over everything that must not change.
    pub basis: Basis,
    /// What the call says.
    pub fingerprint: Fingerprint,
    /// The input of the call, at most [`INPUT_BYTES_MAX`].
    pub input: Value,
    /// What is shown, at most [`DOCUMENT_BYTES_MAX`].
    pub document: Value,
    /// From when on it may not be used.
    pub expires_at: Timestamp,
    /// The preview that this one is instead of: it is superseded from now on.
    pub refreshed_from: Option<PreviewId>,
}

/// A preview as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviewView {
    /// Its id.
    pub id: PreviewId,
    /// Whom it is for.
    pub caller: CallerName,
    /// Of what.
    pub action: ActionName,
    /// Over everything that must not change.
    pub basis: Basis,
    /// What the call says.
    pub fingerprint: Fingerprint,
    /// The input of the call; `null` once the effect that it was used for is pruned.
    pub input: Value,
    /// What was shown; `null` once the effect that it was used for is pruned.
    pub document: Value,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it may not be used.
    pub expires_at: Timestamp,
    /// The preview that this one is instead of.
    pub refreshed_from: Option<PreviewId>,
    /// When another one came instead of this one.
    pub superseded_at: Option<Timestamp>,
    /// The effect that is bound to it.
    pub used_by: Option<EffectId>,
}

/// What became of a new preview.
#[derive(Clone, Debug, PartialEq)]
pub enum CreatedPreview {
    /// It can be used.
    Created(Box<PreviewView>),
    /// Input or document are longer than a preview may be.
    TooLarge {
        /// `input` or `document`.
        what: &'static str,
        /// The bound, in bytes of JSON.
        bytes_max: usize,
    },
    /// The caller has [`UNUSED_MAX`] previews that it has not used.
    TooMany,
    /// There is no preview of this caller and action to be refreshed under that id.
    NothingToRefresh,
}

impl Store {
    /// Keeps a preview. If it is a refresh, the earlier one is superseded in the same transaction.
    ///
    /// # Errors
    /// The record could not be written: nothing is kept and nothing superseded.
    pub async fn create_preview(
        &self,
        new: NewPreview,
        now: Timestamp,
    ) -> Result<CreatedPreview, StoreError> {
        let (input, document) = (new.input.to_string(), new.document.to_string());
        for (what, text, bytes_max) in
            [("input", &input, INPUT_BYTES_MAX), ("document", &document, DOCUMENT_BYTES_MAX)]
        {
            if text.len() > bytes_max {
                return Ok(CreatedPreview::TooLarge { what, bytes_max });
            }
        }
        let verb = move |tx: &mut Tx<'_>| create(tx, &new, &input, &document, now);
        self.inner.writer.write(CREATE, self.inner.queue_capacity, verb).await
    }

    /// One preview.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn preview(&self, id: &PreviewId) -> Result<Option<PreviewView>, StoreError> {
        self.inner.reader.preview(id).await
    }
}

impl read::Reader {
    /// One preview. `None` when there is none, or it has expired long ago.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn preview(&self, id: &PreviewId) -> Result<Option<PreviewView>, StoreError> {
        let id = id.clone();
        self.read("read a preview", move |connection| by_id(connection, &id)).await
    }
}

fn create(
    tx: &mut Tx<'_>,
    new: &NewPreview,
    input: &str,
    document: &str,
    now: Timestamp,
) -> Result<CreatedPreview, Fault> {
    let unused: i64 = tx
        .connection
        .prepare_cached(
            "SELECT count(*) FROM preview WHERE caller = ?1 AND used_by IS NULL AND expires_at > ?2",
        )?
        .query_row(params![new.caller.as_str(), now.0], |found| found.get(0))?;
    if unused >= UNUSED_MAX {
        return Ok(CreatedPreview::TooMany);
    }
    if let Some(earlier) = &new.refreshed_from
        && !supersede(tx, earlier, new, now)?
    {
        return Ok(CreatedPreview::NothingToRefresh);
    }
    let id = PreviewId::from_ulid(&tx.fresh_ulid(now)?);
    tx.connection
        .prepare_cached(
            "INSERT INTO preview (id, caller, action, basis, fingerprint, input, document, created_at, expires_at,
                 refreshed_from)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            id.as_str(),
            new.caller.as_str(),
            new.action.as_str(),
            new.basis,
            row::from_hex(&new.fingerprint),
            input,
            document,
            now.0,
            new.expires_at.0,
            new.refreshed_from.as_ref().map(PreviewId::as_str),
        ])?;
    Ok(CreatedPreview::Created(Box::new(PreviewView {
        id,
        caller: new.caller.clone(),
        action: new.action.clone(),
        basis: new.basis,
        fingerprint: new.fingerprint.clone(),
        input: new.input.clone(),
        document: new.document.clone(),
        created_at: now,
        expires_at: new.expires_at,
        refreshed_from: new.refreshed_from.clone(),
        superseded_at: None,
        used_by: None,
    })))
}

/// Whether there was one of this caller and action. One that was superseded before stays so since then: a client
/// that lost the answer to its refresh may ask again.
fn supersede(tx: &Tx<'_>, earlier: &PreviewId, new: &NewPreview, now: Timestamp) -> Result<bool, Fault> {
    let found = tx
        .connection
        .prepare_cached(
            "UPDATE preview SET superseded_at = coalesce(superseded_at, ?4) WHERE id = ?1 AND caller = ?2 AND action = ?3",
        )?
        .execute(params![earlier.as_str(), new.caller.as_str(), new.action.as_str(), now.0])?;
    Ok(found > 0)
}

/// Whether the effect may not be bound to the preview that it names, and why.
pub(crate) fn refusal(tx: &Tx<'_>, new: &NewEffect, now: Timestamp) -> Result<Option<Refusal>, Fault> {
    let Some(bound) = &new.preview else { return Ok(None) };
    let known = by_id(tx.connection, &bound.id)?.map(|found| KnownPreview {
        caller: found.caller,
        action: found.action,
        basis: found.basis,
        expires_at: found.expires_at,
        superseded: found.superseded_at.is_some(),
        used: found.used_by.is_some(),
    });
    Ok(stale(bound, known.as_ref(), (&new.caller, &new.action), now))
}

/// From now on the preview is that effect's.
pub(crate) fn bind(tx: &Tx<'_>, bound: &BoundPreview, effect: i64) -> Result<(), Fault> {
    tx.connection
        .prepare_cached("UPDATE preview SET used_by = ?2 WHERE id = ?1")?
        .execute(params![bound.id.as_str(), effect])?;
    Ok(())
}

/// Erases what a pruned effect was shown as; what it is bound to stays known.
pub(crate) fn shorten(connection: &Connection, effect: i64) -> Result<(), Fault> {
    connection
        .prepare_cached("UPDATE preview SET input = 'null', document = 'null' WHERE used_by = ?1")?
        .execute([effect])?;
    Ok(())
}

/// Before an effect is removed whole.
pub(crate) fn remove_with(connection: &Connection, effect: i64) -> Result<(), Fault> {
    connection.prepare_cached("DELETE FROM preview WHERE used_by = ?1")?.execute([effect])?;
    Ok(())
}

/// Removes some of those that expired without being used. Returns how many; as many as fit while there are more.
pub(crate) fn remove_expired(tx: &Tx<'_>, now: Timestamp) -> Result<u64, Fault> {
    let before = now.0.saturating_sub(KEPT_AFTER_EXPIRY_MS);
    let removed = tx
        .connection
        .prepare_cached(
            "DELETE FROM preview WHERE key IN (
                 SELECT key FROM preview WHERE used_by IS NULL AND expires_at < ?1 LIMIT ?2)",
        )?
        .execute(params![before, REMOVED_MAX])?;
    Ok(u64::try_from(removed).unwrap_or(u64::MAX))
}

fn by_id(connection: &Connection, id: &PreviewId) -> Result<Option<PreviewView>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT p.id, p.caller, p.action, p.basis, p.fingerprint, p.input, p.document, p.created_at, p.expires_at,
             p.refreshed_from, p.superseded_at, e.id
         FROM preview p LEFT JOIN effect e ON e.key = p.used_by WHERE p.id = ?1",
    )?;
    statement.query_row([id.as_str()], |found| Ok(view(found))).optional()?.transpose()
}

fn view(found: &Row<'_>) -> Result<PreviewView, Fault> {
    let columns = &mut Columns::of(found);
    Ok(PreviewView {
        id: columns.word("preview id", PreviewId::parse)?,
        caller: columns.word("caller", CallerName::parse)?,
        action: columns.word("action", ActionName::parse)?,
        basis: columns.next()?,
        fingerprint: columns.fingerprint()?,
        input: columns.word("input", |text| serde_json::from_str(text).ok())?,
        document: columns.word("document", |text| serde_json::from_str(text).ok())?,
        created_at: Timestamp(columns.next()?),
        expires_at: Timestamp(columns.next()?),
        refreshed_from: columns.maybe("preview id", PreviewId::parse)?,
        superseded_at: columns.time()?,
        used_by: columns.maybe("effect id", EffectId::parse)?,
    })
}
