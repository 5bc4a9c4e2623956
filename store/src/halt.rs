//! Stopping every write, and going on.

use oncegate_policy::caller::CallerName;
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use crate::Store;
use crate::error::{Fault, StoreError};
use crate::events::Event;
use crate::row::Columns;
use crate::writer::{Step, Tx};

const HALT: Step = Step::new("halt").failing_at("before_halt_commit", "after_halt_commit");
const RESUME: Step = Step::new("resume").failing_at("before_halt_commit", "after_halt_commit");

/// Why nothing is dispatched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halt {
    /// What the operator said.
    pub reason: String,
    /// Who said it.
    pub by: CallerName,
    /// Since when.
    pub at: Timestamp,
}

impl Store {
    /// Refuses every new dispatch and replay from now on, also after a restart. A halt that stands already stays as
    /// it is.
    ///
    /// # Errors
    /// The record could not be written: nothing is halted.
    pub async fn halt(&self, reason: &str, by: &CallerName, now: Timestamp) -> Result<Halt, StoreError> {
        let halt = Halt { reason: reason.to_owned(), by: by.clone(), at: now };
        let verb = move |tx: &mut Tx<'_>| {
            if let Some(standing) = standing(tx.connection)? {
                return Ok(standing);
            }
            tx.connection.execute(
                "INSERT INTO halt (reason, by, at) VALUES (?1, ?2, ?3)",
                params![halt.reason, halt.by.as_str(), now.0],
            )?;
            tx.tally.forget_halt();
            event(tx, "halted", &halt.by, &halt.reason, now)?;
            Ok(halt.clone())
        };
        self.inner.writer.write(HALT, usize::MAX, verb).await
    }

    /// Lets dispatches happen again. Returns the halt that was lifted, if one stood.
    ///
    /// # Errors
    /// The record could not be written: the halt stands.
    pub async fn resume(&self, by: &CallerName, now: Timestamp) -> Result<Option<Halt>, StoreError> {
        let by = by.clone();
        let verb = move |tx: &mut Tx<'_>| {
            let Some(lifted) = standing(tx.connection)? else { return Ok(None) };
            tx.connection.execute(
                "UPDATE halt SET lifted_by = ?1, lifted_at = ?2 WHERE lifted_at IS NULL",
                params![by.as_str(), now.0],
            )?;
            tx.tally.forget_halt();
            event(tx, "resumed", &by, "dispatches are allowed again", now)?;
            Ok(Some(lifted))
        };
        self.inner.writer.write(RESUME, usize::MAX, verb).await
    }

    /// The halt that stands, if one does.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn halted(&self) -> Result<Option<Halt>, StoreError> {
        self.inner.reader.read("read whether writes are halted", standing).await
    }
}

fn standing(connection: &Connection) -> Result<Option<Halt>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT reason, by, at FROM halt WHERE lifted_at IS NULL")?;
    let read = |columns: &mut Columns<'_>| {
        Ok(Halt {
            reason: columns.next()?,
            by: columns.word("caller", CallerName::parse)?,
            at: Timestamp(columns.next()?),
        })
    };
    statement.query_row([], |row| Ok(read(&mut Columns::of(row)))).optional()?.transpose()
}

fn event(
    tx: &mut Tx<'_>,
    kind: &'static str,
    by: &CallerName,
    text: &str,
    now: Timestamp,
) -> Result<(), Fault> {
    let (author, text) = (Some(by.as_str()), Some(text));
    tx.append(&Event {
        at: now,
        kind,
        effect: None,
        stage: None,
        author,
        text,
        detail: json!({}).to_string(),
    })
}
