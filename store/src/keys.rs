//! Keys that name an invocation beside the one in its own row: the second of a request that carried two, and those of
//! its repeats. A row is only ever inserted: a caller's key names one request of an action for life.

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use rusqlite::params;

use crate::error::Fault;
use crate::writer::Tx;

/// Whose keys they are, and of which action.
pub(crate) struct Whose<'a> {
    pub(crate) caller: &'a CallerName,
    pub(crate) action: &'a ActionName,
}

/// What a key names.
#[derive(Clone, Copy)]
pub(crate) enum Named {
    /// The effect with this key.
    Effect(i64),
    /// The invocation without an effect with this key.
    Plain(i64),
}

/// When a key came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// With the request that made the invocation.
    First,
    /// With a repeat of it.
    WithRepeat,
}

/// Binds `key`, which names nothing yet. In the transaction that has looked for it.
pub(crate) fn bind(tx: &Tx<'_>, whose: &Whose<'_>, key: &str, names: Named, came: Came) -> Result<(), Fault> {
    let (effect, plain) = match names {
        Named::Effect(key) => (Some(key), None),
        Named::Plain(key) => (None, Some(key)),
    };
    tx.connection
        .prepare_cached(
            "INSERT INTO further_key (caller, action, key, effect, plain, original) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            whose.caller.as_str(),
            whose.action.as_str(),
            key,
            effect,
            plain,
            came == Came::First
        ])?;
    Ok(())
}
