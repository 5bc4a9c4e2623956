//! Statements of every write, prepared once and kept at hand for as long as the writer works. To find one in the connection's
//! own cache takes a hash of its text, a copy of that, and two moves in a list: a twentieth of a write.

use std::cell::RefCell;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, Statement};

/// Where statements are found.
pub(crate) trait Statements {
    /// Lends a statement for one use of it. Fails only when there is none.
    fn with(&self, text: &'static str, run: &mut Use<'_>) -> rusqlite::Result<()>;
}

/// One use of a statement.
type Use<'a> = dyn FnMut(&mut Statement<'_>) + 'a;

impl dyn Statements + '_ {
    /// How many rows it has changed.
    pub(crate) fn execute(&self, text: &'static str, params: impl Params) -> rusqlite::Result<usize> {
        self.once(text, params, |statement, params| statement.execute(params))
    }

    /// The first row, if there is one.
    pub(crate) fn first<T>(
        &self,
        text: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.once(text, params, |statement, params| statement.query_row(params, read).optional())
    }

    /// `run` with the statement and its parameters.
    pub(crate) fn once<P, T, E: From<rusqlite::Error>>(
        &self,
        text: &'static str,
        params: P,
        run: impl FnOnce(&mut Statement<'_>, P) -> Result<T, E>,
    ) -> Result<T, E> {
        let (mut asked, mut answer) = (Some((params, run)), Err(rusqlite::Error::InvalidQuery.into()));
        self.with(text, &mut |statement| {
            if let Some((params, run)) = asked.take() {
                answer = run(statement, params);
            }
        })?;
        answer
    }
}

/// As [`Statement::execute`], for what may be large: a kept statement would hold its copy of it until it is used again.
pub(crate) fn execute_and_forget(
    statement: &mut Statement<'_>,
    params: impl Params,
) -> rusqlite::Result<usize> {
    let done = statement.execute(params);
    statement.clear_bindings();
    done
}

/// Those of a reader are in its cache only.
impl Statements for Connection {
    fn with(&self, text: &'static str, run: &mut Use<'_>) -> rusqlite::Result<()> {
        run(&mut *self.prepare_cached(text)?);
        Ok(())
    }
}

/// Those of the writer. They go back to the connection's cache with this.
pub(crate) struct Kept<'c> {
    pub(crate) connection: &'c Connection,
    slots: RefCell<Vec<Slot<'c>>>,
}

/// One statement; `None` while it is lent.
type Slot<'c> = (&'static str, Option<CachedStatement<'c>>);

impl<'c> Kept<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection, slots: RefCell::default() }
    }

    /// The statement, and where it is put back.
    fn take(&self, text: &'static str) -> rusqlite::Result<(usize, CachedStatement<'c>)> {
        let mut slots = self.slots.borrow_mut();
        // Nearly always the same text at the same place: letters are compared only when there is none.
        let found = slots.iter().position(|(of, _)| std::ptr::eq(*of, text));
        let found = found.or_else(|| slots.iter().position(|(of, _)| *of == text));
        let at = found.unwrap_or(slots.len());
        let kept = slots.get_mut(at).and_then(|(_, kept)| kept.take());
        let statement = kept.map_or_else(|| self.connection.prepare_cached(text), Ok)?;
        if found.is_none() {
            slots.push((text, None));
        }
        Ok((at, statement))
    }
}

impl Statements for Kept<'_> {
    fn with(&self, text: &'static str, run: &mut Use<'_>) -> rusqlite::Result<()> {
        let (at, mut statement) = self.take(text)?;
        run(&mut statement);
        if let Some((_, kept)) = self.slots.borrow_mut().get_mut(at) {
            *kept = Some(statement);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_kept_and_may_be_asked_for_while_it_is_lent() {
        let connection = Connection::open_in_memory().unwrap();
        let kept = Kept::new(&connection);
        let statements: &dyn Statements = &kept;
        let plus = "SELECT ?1 + 1";
        let next = |of: i64| statements.first(plus, [of], |row| row.get::<_, i64>(0));
        assert_eq!(next(1).unwrap(), Some(2));
        let within = statements.first(plus, [2], |row| Ok((row.get::<_, i64>(0)?, next(6)?)));
        assert_eq!(within.unwrap(), Some((3, Some(7))));
        assert_eq!(next(3).unwrap(), Some(4));
        // The same letters at another place are the same statement.
        let elsewhere: &'static str = Box::leak(plus.to_owned().into_boxed_str());
        assert_eq!(statements.first(elsewhere, [4], |row| row.get::<_, i64>(0)).unwrap(), Some(5));
        assert_eq!(kept.slots.borrow().len(), 1);
    }

    #[test]
    fn one_that_fails_is_as_good_as_before() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE one (a INTEGER PRIMARY KEY) STRICT").unwrap();
        let kept = Kept::new(&connection);
        let statements: &dyn Statements = &kept;
        let insert = |key: i64| statements.execute("INSERT INTO one VALUES (?1)", [key]);
        assert_eq!(insert(1).unwrap(), 1);
        assert!(insert(1).is_err());
        assert_eq!(insert(2).unwrap(), 1);
        assert!(statements.execute("INSERT INTO none VALUES (1)", []).is_err(), "there is no such table");
        assert_eq!(statements.first("SELECT a FROM one WHERE a = ?1", [3], |_| Ok(())).unwrap(), None);
    }
}
