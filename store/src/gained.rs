//! Effects that can be looked for although they could not when they were admitted: how was declared after that.

use oncegate_policy::action::ActionName;
use oncegate_policy::time::Timestamp;
use rusqlite::params;

use crate::Store;
use crate::error::{Fault, StoreError};
use crate::writer::{Step, Tx};

const GAIN: Step = Step::new("look for what could not be looked for");
/// Effects in one transaction, at most.
const GAINED_MAX: usize = 256;

impl Store {
    /// What is unknown of these actions is due for a look now, if none was to be made. How many effects that are.
    ///
    /// # Errors
    /// The record could not be written; what was made due before stays so.
    pub async fn can_be_looked_for(
        &self,
        actions: Vec<ActionName>,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let mut all = 0_usize;
        for action in actions {
            loop {
                let action = action.clone();
                let verb = move |tx: &mut Tx<'_>| gain(tx, &action, now);
                let gained = self.inner.writer.write(GAIN, usize::MAX, verb).await?;
                all = all.saturating_add(gained);
                if gained < GAINED_MAX {
                    break;
                }
            }
        }
        Ok(all)
    }
}

fn gain(tx: &Tx<'_>, action: &ActionName, now: Timestamp) -> Result<usize, Fault> {
    let mut statement = tx.connection.prepare_cached(
        "UPDATE effect SET can_read_back = 1, next_look_at = ?2 WHERE key IN (
             SELECT key FROM effect INDEXED BY effect_open
             WHERE stage NOT IN ('settled', 'rejected') AND stage = 'reconciling' AND can_read_back = 0 AND action = ?1
             LIMIT ?3)",
    )?;
    let most = i64::try_from(GAINED_MAX).unwrap_or(i64::MAX);
    Ok(statement.execute(params![action.as_str(), now.0, most])?)
}
