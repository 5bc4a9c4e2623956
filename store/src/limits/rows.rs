//! How limits are read.

use oncegate_policy::action::ActionName;
use oncegate_policy::id::LimitId;
use oncegate_policy::impact::Dimension;
use oncegate_policy::limit::{Limit, Period};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, Params, Row};

use super::gone;
use crate::error::Fault;
use crate::row::Columns;

/// A limit with its counters.
pub(crate) struct LimitRow {
    pub(crate) key: i64,
    pub(crate) id: LimitId,
    pub(crate) limit: Limit,
    pub(crate) reserved: i64,
    pub(crate) unknown_exposure: i64,
    pub(crate) archived_at: Option<Timestamp>,
}

/// What is known of a limit that another hand has made unreadable.
pub(crate) struct Unreadable {
    pub(crate) dimension: Dimension,
    pub(crate) archived: bool,
    what: &'static str,
    found: String,
}

impl Unreadable {
    /// For those who need it.
    pub(crate) fn fault(&self) -> Fault {
        Fault::Unreadable { what: self.what, found: self.found.clone() }
    }
}

/// One statement on limits, put together by the compiler.
macro_rules! limits {
    ($rest:literal) => {
        concat!(
            "SELECT key, id, name, dimension, unit, period, amount, action, resource_prefix, reserved, unknown_exposure,
                 archived_at FROM impact_limit ",
            $rest
        )
    };
}

/// Limits by their keys, as far as each can be read.
type Each = Vec<(i64, Result<LimitRow, Unreadable>)>;

/// Every limit, in use or not.
pub(crate) fn all(connection: &Connection) -> Result<Each, Fault> {
    each(connection, limits!("ORDER BY key"))
}

/// Every limit, archived ones last.
pub(super) fn shown(connection: &Connection) -> Result<Each, Fault> {
    each(connection, limits!("ORDER BY archived_at IS NOT NULL, name, key"))
}

/// One that cannot be read is in nobody's way who does not need it.
fn each(connection: &Connection, statement: &'static str) -> Result<Each, Fault> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let read = match limit_row(row) {
            Err(Fault::Unreadable { what, found }) => Err(unreadable(row, what, found)?),
            read => Ok(read?),
        };
        found.push((row.get("key")?, read));
    }
    Ok(found)
}

fn unreadable(row: &Row<'_>, what: &'static str, found: String) -> Result<Unreadable, Fault> {
    let name: String = row.get("name")?;
    tracing::error!(limit = name, what, found, "a limit cannot be read");
    Ok(Unreadable {
        dimension: Dimension::from_words(&row.get::<_, String>("dimension")?, &row.get::<_, String>("unit")?),
        archived: row.get::<_, Option<i64>>("archived_at")?.is_some(),
        what,
        found,
    })
}

/// One limit, in use or not.
pub(crate) fn by_key(connection: &Connection, key: i64) -> Result<LimitRow, Fault> {
    many(connection, limits!("WHERE key = ?1"), [key])?.pop().ok_or_else(|| gone(&key.to_string()))
}

pub(super) fn active(connection: &Connection) -> Result<Vec<LimitRow>, Fault> {
    many(connection, limits!("WHERE archived_at IS NULL ORDER BY key"), [])
}

pub(super) fn by_name(connection: &Connection, name: &str) -> Result<Option<LimitRow>, Fault> {
    Ok(many(connection, limits!("WHERE archived_at IS NULL AND name = ?1"), [name])?.pop())
}

pub(super) fn by_id(connection: &Connection, id: &LimitId) -> Result<Option<LimitRow>, Fault> {
    Ok(many(connection, limits!("WHERE id = ?1"), [id.as_str()])?.pop())
}

/// The archived limit that this declaration continues, if there is one.
pub(super) fn archived(connection: &Connection, limit: &Limit) -> Result<Option<LimitRow>, Fault> {
    let statement = limits!(
        "WHERE archived_at IS NOT NULL AND name = ?1 AND dimension = ?2 AND unit = ?3
         ORDER BY archived_at DESC, key DESC LIMIT 1"
    );
    let named = [limit.name.as_str(), limit.dimension.word(), limit.dimension.unit()];
    Ok(many(connection, statement, named)?.pop())
}

fn many(
    connection: &Connection,
    statement: &'static str,
    params: impl Params,
) -> Result<Vec<LimitRow>, Fault> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(limit_row(row)?);
    }
    Ok(found)
}

fn limit_row(row: &Row<'_>) -> Result<LimitRow, Fault> {
    let columns = &mut Columns::of(row);
    Ok(LimitRow {
        key: columns.next()?,
        id: columns.word("limit id", LimitId::parse)?,
        limit: Limit {
            name: columns.next()?,
            dimension: Dimension::from_words(&columns.next::<String>()?, &columns.next::<String>()?),
            period: columns.word("period", Period::parse)?,
            amount: columns.next()?,
            action: columns.maybe("action", ActionName::parse)?,
            resource_prefix: columns.next()?,
        },
        reserved: columns.next()?,
        unknown_exposure: columns.next()?,
        archived_at: columns.time()?,
    })
}
