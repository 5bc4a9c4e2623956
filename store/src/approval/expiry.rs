//! Questions that nobody answers in time.

use oncegate_policy::id::EffectId;
use oncegate_policy::time::Timestamp;
use rusqlite::Connection;

use super::{lapse, many};
use crate::Store;
use crate::error::{Fault, StoreError};
use crate::read::collect;
use crate::writer::{Step, Tx};

const EXPIRE: Step = Step::new("expire approvals");
/// Approvals that lapse in one transaction, at most.
const EXPIRED_MAX: i64 = 200;

impl Store {
    /// Rejects what nobody decided in time. Returns the effects that waited. One that cannot be ended is left out, which
    /// the log says.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn expire_approvals(&self, now: Timestamp) -> Result<Vec<EffectId>, StoreError> {
        let all = move |tx: &mut Tx<'_>| {
            let mut effects = Vec::new();
            for approval in over(tx.connection, now)? {
                effects.extend(expire(tx, approval, now)?);
            }
            Ok(effects)
        };
        match self.inner.writer.write(EXPIRE, usize::MAX, all).await {
            Err(error) if error.concerns_one() => self.expire_each(now).await,
            expired => expired,
        }
    }

    async fn expire_each(&self, now: Timestamp) -> Result<Vec<EffectId>, StoreError> {
        let list = move |tx: &mut Tx<'_>| over(tx.connection, now);
        let mut effects = Vec::new();
        for approval in self.inner.writer.write(EXPIRE, usize::MAX, list).await? {
            match self.inner.writer.write(EXPIRE, usize::MAX, move |tx| expire(tx, approval, now)).await {
                Ok(effect) => effects.extend(effect),
                Err(error) if error.concerns_one() => {
                    tracing::error!(
                        error = error.chain(),
                        "a question that nobody answered could not be ended"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        Ok(effects)
    }

    /// When the next question lapses that nobody has answered.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        let look = |connection: &Connection| {
            let next = "SELECT min(expires_at) FROM approval WHERE status = 'pending'";
            let mut statement = connection.prepare_cached(next)?;
            Ok(statement.query_row([], |found| found.get::<_, Option<i64>>(0))?.map(Timestamp))
        };
        self.inner.reader.read("read when the next question lapses", look).await
    }
}

/// Those whose time is over: their keys, so that one that cannot be read hides no other.
fn over(connection: &Connection, now: Timestamp) -> Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT key FROM approval WHERE status = 'pending' AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2",
    )?;
    collect(&mut statement.query([now.0, EXPIRED_MAX])?, |columns| columns.next())
}

/// The effect that waited.
fn expire(tx: &mut Tx<'_>, approval: i64, now: Timestamp) -> Result<Option<EffectId>, Fault> {
    let pending = many(tx.connection, "WHERE a.key = ?1 AND a.status = 'pending'", [approval])?;
    let Some(asked) = pending.into_iter().next() else { return Ok(None) };
    lapse(tx, &asked, now)?;
    Ok(asked.effect)
}
