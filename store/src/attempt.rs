//! Attempts and the keys that they have: their effect's, with a number behind it.

use oncegate_policy::id::{AttemptId, EffectId};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, params};

use crate::error::Fault;
use crate::row::{self, Effect};
use crate::view::EffectView;
use crate::writer::Tx;

/// An attempt's key is its effect's with this many bits behind it; they are 0 for the dispatch.
pub(crate) const BITS: u32 = 20;
/// A dispatch's id is its effect's own, with another beginning: there cannot be two.
pub(crate) fn dispatch_id(effect: &EffectId) -> AttemptId {
    AttemptId::from_ulid(effect.as_str().trim_start_matches(EffectId::PREFIX))
}

/// The effect of an open dispatch: as it was claimed, if it still says `dispatching`, else as it is now.
pub(crate) fn effect_of_claim(
    connection: &Connection,
    attempt: i64,
    remembered: Option<Box<EffectView>>,
) -> Result<Option<Effect>, Fault> {
    let key = attempt >> BITS;
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM effect WHERE key = ?1 AND stage = 'dispatching'")?;
    match remembered {
        Some(view) if statement.exists([key])? => Ok(Some(Effect { key, view: *view })),
        Some(_) | None => row::by_attempt(connection, attempt),
    }
}

impl Tx<'_> {
    /// The one dispatch attempt of an effect. Its key and its id are the effect's own, so that there cannot be two.
    pub(crate) fn begin_dispatch(&self, effect: i64, now: Timestamp) -> Result<i64, Fault> {
        let key = effect << BITS;
        self.connection
            .prepare_cached(
                "INSERT INTO attempt (key, effect, kind, run, started_at) VALUES (?1, ?2, 'dispatch', ?3, ?4)",
            )?
            .execute(params![key, effect, self.setting.run, now.0])?;
        Ok(key)
    }

    /// The key of an effect's next attempt that is no dispatch.
    pub(crate) fn next_attempt(&self, effect: i64) -> Result<i64, Fault> {
        let latest: Option<i64> = self
            .connection
            .prepare_cached(
                "SELECT max(key) FROM attempt WHERE key BETWEEN ?1 << 20 AND (?1 << 20) + 1048575",
            )?
            .query_row([effect], |row| row.get(0))?;
        Ok(latest.unwrap_or(effect << BITS).saturating_add(1))
    }
}
