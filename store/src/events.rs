//! The evidence chain: every change appends a row that carries the hash of the row before it.

use oncegate_policy::id::EffectId;
use oncegate_policy::time::Timestamp;
use rusqlite::types::FromSqlError;
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::Fault;
use crate::kept::Statements;
use crate::writer::Tx;

type Hash = [u8; 32];

/// What is appended.
pub(crate) struct Event<'a> {
    pub(crate) at: Timestamp,
    pub(crate) kind: &'static str,
    pub(crate) effect: Option<&'a EffectId>,
    /// Where the effect stands after this.
    pub(crate) stage: Option<&'a str>,
    pub(crate) author: Option<&'a str>,
    /// The fact in words, when this is evidence.
    pub(crate) text: Option<&'a str>,
    /// JSON.
    pub(crate) detail: String,
}

/// The end of the chain.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Head {
    seq: i64,
    hash: Hash,
}

impl Head {
    /// Where the chain ends now.
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        connection.query_row("SELECT seq, hash FROM chain_head", [], |row| {
            Ok(Self { seq: row.get(0)?, hash: row.get(1)? })
        })
    }

    /// Writes the end down, once per commit, so that a cut tail is noticed.
    pub(crate) fn keep(&self, statements: &dyn Statements) -> rusqlite::Result<()> {
        let update = "UPDATE chain_head SET seq = ?1, hash = ?2 WHERE one = 1";
        statements.execute(update, params![self.seq, self.hash]).map(drop)
    }
}

/// Most characters of a text in a row that is never changed: twice what a person may write. Whoever makes the text
/// keeps to a bound of its own, which is lower.
const TEXT_CHARS_MAX: usize = 8_000;

/// The beginning of a text that is too long.
pub(crate) fn bounded(text: &str) -> &str {
    let end = text.char_indices().nth(TEXT_CHARS_MAX).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or(text)
}

/// A detail that is written for each governed write: without a tree of JSON in between.
pub(crate) fn text_of(detail: &impl Serialize) -> String {
    // Fails on maps without text for keys, and on a writer that does: there is neither.
    serde_json::to_string(detail).unwrap_or_default()
}

impl Tx<'_> {
    /// Appends to the chain.
    pub(crate) fn append(&mut self, event: &Event<'_>) -> Result<(), Fault> {
        let row = Row {
            seq: self.head.seq.saturating_add(1),
            at: event.at.0,
            kind: event.kind,
            effect: event.effect.map(EffectId::as_str),
            stage: event.stage,
            author: event.author,
            text: event.text.map(bounded),
            detail: &event.detail,
        };
        let hash = row.hash(&self.head.hash);
        self.statements.execute(
            "INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                row.seq,
                row.at,
                row.kind,
                row.effect,
                row.stage,
                row.author,
                row.text,
                row.detail,
                self.head.hash,
                hash
            ],
        )?;
        *self.head = Head { seq: row.seq, hash };
        Ok(())
    }
}

/// One row, as it is hashed.
struct Row<'a> {
    seq: i64,
    at: i64,
    kind: &'a str,
    effect: Option<&'a str>,
    stage: Option<&'a str>,
    author: Option<&'a str>,
    text: Option<&'a str>,
    detail: &'a str,
}

impl Row<'_> {
    /// SHA-256 over the hash before and every field behind its length, so that no two rows read alike.
    fn hash(&self, before: &Hash) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(before);
        hasher.update(self.seq.to_be_bytes());
        hasher.update(self.at.to_be_bytes());
        let fields = [Some(self.kind), self.effect, self.stage, self.author, self.text, Some(self.detail)];
        for field in fields {
            match field {
                None => hasher.update([0]),
                Some(text) => {
                    hasher.update([1]);
                    hasher.update((text.len() as u64).to_be_bytes());
                    hasher.update(text);
                }
            }
        }
        hasher.finalize().into()
    }
}

/// What a check of the chain found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainReport {
    /// How many rows were read.
    pub rows: u64,
    /// The first fault, if there is one.
    pub fault: Option<ChainFault>,
}

/// A place where the record is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFault {
    /// The first bad row.
    pub seq: i64,
    /// What is wrong with it.
    pub what: String,
}

/// Reads the whole chain, in order, inside one snapshot.
pub(crate) fn verify(connection: &Connection) -> Result<ChainReport, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let mut report = walk(&snapshot)?;
    if report.fault.is_none() {
        report.fault = disagreement(&snapshot)?;
    }
    Ok(report)
}

fn walk(connection: &Connection) -> Result<ChainReport, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, kind, effect, stage, author, text, detail, prev_hash, hash FROM event ORDER BY seq",
    )?;
    let mut rows = statement.query([])?;
    let mut end = Head { seq: 0, hash: [0; 32] };
    let mut read = 0_u64;
    let bad = |rows, seq, what: &str| {
        Ok(ChainReport { rows, fault: Some(ChainFault { seq, what: what.to_owned() }) })
    };
    while let Some(row) = rows.next()? {
        read = read.saturating_add(1);
        let seq: i64 = row.get(0)?;
        let expected = end.seq.saturating_add(1);
        if seq != expected {
            return bad(read, expected, "this row is missing");
        }
        // Hashes are compared as bytes, whatever their number: one that was cut is a fault of the row, not an error.
        let Ok((found, before, hash)) = as_written(row) else {
            return bad(read, seq, "this row was changed: it cannot be read");
        };
        if before != end.hash {
            return bad(read, seq, "the row before it was changed or replaced");
        }
        end = Head { seq, hash: found.hash(&end.hash) };
        if hash != end.hash {
            return bad(read, seq, "this row was changed");
        }
    }
    if !ends(connection, &end)? {
        return bad(read, end.seq.saturating_add(1), "the end of the chain was cut off or replaced");
    }
    Ok(ChainReport { rows: read, fault: None })
}

/// A row with the two hashes in it. Fails only on a value of another kind, or on text that is not UTF-8.
fn as_written<'r>(row: &'r rusqlite::Row<'_>) -> Result<(Row<'r>, &'r [u8], &'r [u8]), FromSqlError> {
    let value = |at: usize| row.get_ref(at).map_err(FromSqlError::other);
    let maybe = |at: usize| value(at)?.as_str_or_null();
    let found = Row {
        seq: value(0)?.as_i64()?,
        at: value(1)?.as_i64()?,
        kind: value(2)?.as_str()?,
        effect: maybe(3)?,
        stage: maybe(4)?,
        author: maybe(5)?,
        text: maybe(6)?,
        detail: value(7)?.as_str()?,
    };
    Ok((found, value(8)?.as_blob()?, value(9)?.as_blob()?))
}

fn ends(connection: &Connection, end: &Head) -> Result<bool, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT seq = ?1 AND hash = ?2 FROM chain_head WHERE one = 1")?;
    Ok(statement.query_row(params![end.seq, end.hash], |row| row.get(0)).optional()?.unwrap_or(false))
}

/// Every effect stands where the last event about it says, and none has vanished unless it was pruned.
fn disagreement(connection: &Connection) -> Result<Option<ChainFault>, Fault> {
    let fault = connection
        .query_row(
            "SELECT coalesce(last.seq, (SELECT seq + 1 FROM chain_head)), coalesce(last.effect, effect.id), coalesce(last.stage, 'nothing'),
                 coalesce(effect.stage || coalesce(' ' || effect.result || ' ' || effect.verification, ''), 'nothing')
             FROM (SELECT max(seq) AS seq, effect, stage FROM event
                   WHERE effect IS NOT NULL AND stage IS NOT NULL GROUP BY effect) AS last
             FULL JOIN effect ON effect.id = last.effect
             WHERE (effect.stage || coalesce(' ' || effect.result || ' ' || effect.verification, '')) IS NOT last.stage
                 AND NOT (effect.id IS NULL AND last.stage = 'pruned')
             ORDER BY 1 LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?)),
        )
        .optional()?;
    Ok(fault.map(|(seq, effect, recorded, stands)| ChainFault {
        seq,
        what: format!("effect {effect} was last recorded as {recorded} and stands as {stands}"),
    }))
}
