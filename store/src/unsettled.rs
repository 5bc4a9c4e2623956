//! What was asked for and is not settled, as it was asked for: what a repeat of it would say.

use oncegate_policy::action::ActionName;
use oncegate_policy::id::EffectId;
use rusqlite::Connection;

use crate::Store;
use crate::error::{Fault, StoreError};
use crate::read::collect;
use crate::row;
use crate::view::StoredRequest;

/// The request of an effect that waits, is under way or is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// Its place in the order of the record.
    pub place: i64,
    /// Its id.
    pub id: EffectId,
    /// The action that it was asked for as.
    pub action: ActionName,
    /// What it was found to be on.
    pub subject: Option<String>,
    /// The key that its action made of it.
    pub declared_key: Option<String>,
    /// The realm that its action was of; `None` where an earlier version has admitted it.
    pub realm: Option<String>,
    /// What was given as [`crate::admit::NewEffect::memory`].
    pub memory: String,
    /// The request, without the credential.
    pub request: StoredRequest,
}

impl Store {
    /// The requests of effects that are not settled, oldest first: at most `limit` of those whose place is after `after`.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn unsettled(&self, after: i64, limit: u32) -> Result<Vec<Unsettled>, StoreError> {
        let look = move |connection: &Connection| read(connection, after, limit);
        self.inner.reader.read("read what is not settled", look).await
    }
}

pub(crate) fn read(connection: &Connection, after: i64, limit: u32) -> Result<Vec<Unsettled>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT e.key, e.id, e.action, e.subject, e.declared_key, r.realm, r.memory, r.method, r.url, r.headers, r.body
         FROM effect e JOIN request r ON r.effect = e.key
         WHERE e.key > ?1 AND e.stage NOT IN ('settled', 'rejected') ORDER BY e.key LIMIT ?2",
    )?;
    collect(&mut statement.query([after, i64::from(limit)])?, |columns| {
        let (place, id) = (columns.next()?, columns.word("effect id", EffectId::parse)?);
        let action = columns.word("action", ActionName::parse)?;
        let (subject, declared_key) = (columns.next()?, columns.next()?);
        let (realm, memory) = (columns.next()?, columns.next()?);
        let (method, url) = (columns.next()?, columns.next()?);
        let headers = row::headers_from(&columns.next::<String>()?)?;
        let request = StoredRequest { method, url, headers, body: columns.next()? };
        Ok(Unsettled { place, id, action, subject, declared_key, realm, memory, request })
    })
}
