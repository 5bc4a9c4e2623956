//! Schema versions: an append-only list. A step that has been released is never edited.

use std::path::Path;

use rusqlite::Connection;

use crate::error::OpenError;
use crate::failpoint;

/// Each brings the database from the version before to its own, its place in the list plus one.
const STEPS: &[&str] = &[
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
    include_str!("schema/0006.sql"),
    include_str!("schema/0007.sql"),
    include_str!("schema/0008.sql"),
    include_str!("schema/0009.sql"),
];

/// Marks the file as ours: "once".
const APPLICATION_ID: i64 = 0x6f6e_6365;

/// The version that this program reads and writes.
pub(crate) fn known() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// Brings the database to the latest version, or leaves it as it was. Whether a database of an earlier version was
/// changed by it.
pub(crate) fn upgrade(connection: &mut Connection, path: &Path) -> Result<bool, OpenError> {
    run(connection, path, STEPS)
}

fn run(connection: &mut Connection, path: &Path, steps: &[&str]) -> Result<bool, OpenError> {
    let failed = |source| OpenError::database("upgrade", path, source);
    let found = version(connection).map_err(failed)?;
    let known = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    if found == 0 && !is_empty(connection).map_err(failed)? {
        return Err(OpenError::NotADatabase { path: path.to_owned() });
    }
    // All of it or nothing: a step that fails leaves the earlier version whole, for the earlier program.
    let transaction = connection.transaction().map_err(failed)?;
    for (step, number) in steps.iter().zip(1_i64..).filter(|(_, number)| *number > found) {
        transaction.execute_batch(step).map_err(failed)?;
        transaction.pragma_update(None, "user_version", number).map_err(failed)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    failpoint::hit("before_upgrade_commit");
    transaction.commit().map_err(failed)?;
    failpoint::hit("after_upgrade_commit");
    Ok((1..known).contains(&found))
}

/// For a reader of the chain, which is the same in every version.
pub(crate) fn require_no_later(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    match require(connection, path) {
        Ok(()) | Err(OpenError::Older { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// For a reader: exactly the version that this program knows.
pub(crate) fn require(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::database("open", path, source);
    let known = known();
    match version(connection).map_err(failed)? {
        0 => Err(OpenError::NotADatabase { path: path.to_owned() }),
        found if found > known => Err(OpenError::Newer { path: path.to_owned(), found, known }),
        found if found < known => Err(OpenError::Older { path: path.to_owned(), found, known }),
        _ => Ok(()),
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Whether nothing was ever made in it: an empty file is such a database to SQLite.
pub(crate) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_that_fails_leaves_the_version_before() {
        let mut connection = Connection::open_in_memory().unwrap();
        let path = Path::new("x.db");
        run(&mut connection, path, &["CREATE TABLE one (a)"]).unwrap();
        let steps = ["CREATE TABLE one (a)", "CREATE TABLE two (a)", "CREATE TABLE two (a)"];
        assert!(matches!(
            run(&mut connection, path, &steps),
            Err(OpenError::Database { step: "upgrade", .. })
        ));
        assert_eq!(version(&connection).unwrap(), 1);
        assert!(connection.prepare("SELECT * FROM two").is_err());
        run(&mut connection, path, &steps[..2]).unwrap();
        assert_eq!(version(&connection).unwrap(), 2);
    }

    #[test]
    fn a_newer_file_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", known() + 1).unwrap();
        assert!(matches!(upgrade(&mut connection, Path::new("x.db")), Err(OpenError::Newer { .. })));
    }

    #[test]
    fn somebody_elses_database_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE theirs (a)").unwrap();
        assert!(matches!(upgrade(&mut connection, Path::new("x.db")), Err(OpenError::NotADatabase { .. })));
    }
}
