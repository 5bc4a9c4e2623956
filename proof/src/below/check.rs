//! Opens a database as the next start would, and asks everything that must be true of any database, whatever was
//! asked of the sidecar before.

use std::path::Path;
use std::time::Duration;

use oncegate_policy::id::OwnerId;
use oncegate_policy::reconcile::Schedule;
use oncegate_policy::time::Timestamp;
use oncegate_store::{Store, StoreOptions};
use rusqlite::{Connection, OpenFlags};
use tokio::runtime::Runtime;

use crate::below::journal::Kept;
use crate::below::rows::{self, Fault, Summary};
use crate::failure::{During, Failure};

/// A moment for what the checks themselves write; nothing depends on it.
const NOW: Timestamp = Timestamp(1_795_953_600_000);
/// No look is due while checks run.
const FIRST_LOOK: Duration = Duration::from_secs(3600);

/// Opens databases, one after the other.
pub(crate) struct Checker {
    runtime: Runtime,
    /// What the schema must be, word for word.
    schema: String,
}

/// A sound database.
#[derive(Clone)]
pub(crate) struct Examined {
    /// As it was opened.
    pub(crate) before: Summary,
    /// After the first pass of a start: nothing is in flight any more.
    pub(crate) swept: Summary,
}

impl Checker {
    /// `sound` is a database whose schema is as it should be.
    pub(crate) fn new(sound: &Path) -> Result<Self, Failure> {
        const STEP: &str = "begin to check";
        let runtime = tokio::runtime::Builder::new_current_thread().build().during(STEP)?;
        let shell = Connection::open_with_flags(sound, OpenFlags::SQLITE_OPEN_READ_ONLY).during(STEP)?;
        Ok(Self { runtime, schema: schema(&shell).during(STEP)? })
    }

    /// Opens a database, recovers it, and closes it, all without a thread of the store's. What is left is one file that
    /// holds everything, the same for all databases that say the same: its content is given.
    pub(crate) fn settle(path: &Path) -> Result<Vec<u8>, Fault> {
        let (store, hand) =
            Store::open_by_hand(options(path), owner("0000000001"), NOW).map_err(|error| chain(&error))?;
        drop(store);
        drop(hand);
        if Kept::Log.beside(path).exists() {
            return Err("an orderly end left a log behind".to_owned());
        }
        std::fs::read(path).map_err(|error| chain(&error))
    }

    /// Everything that must hold of any database.
    pub(crate) fn examine(&self, path: &Path) -> Result<Examined, Fault> {
        let store = Store::open(options(path), owner("0000000002"), NOW).map_err(|error| chain(&error))?;
        let shell = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let shell = shell.map_err(|error| chain(&error))?;
        let said: String =
            shell.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(|e| chain(&e))?;
        if said != "ok" {
            return Err(format!("integrity: {said}"));
        }
        if schema(&shell).map_err(|error| chain(&error))? != self.schema {
            return Err("the schema is another one".to_owned());
        }
        let before = rows::read(&shell)?;
        self.follow(&store)?;
        let swept = self.runtime.block_on(store.sweep(NOW)).map_err(|error| chain(&error))?;
        self.follow(&store)?;
        let after = rows::read(&shell)?;
        let flying = before.effects.values().filter(|row| row.stage == "dispatching").count();
        if swept.len() != flying {
            return Err(format!("{} of {flying} were swept", swept.len()));
        }
        freed_nothing(&before, &after)?;
        Ok(Examined { before, swept: after })
    }

    /// The chain of events is whole, and agrees with the effects.
    fn follow(&self, store: &Store) -> Result<(), Fault> {
        let report = self.runtime.block_on(store.verify_chain()).map_err(|error| chain(&error))?;
        let fault =
            report.fault.map(|fault| format!("the chain of events, at {}: {}", fault.seq, fault.what));
        fault.map_or(Ok(()), Err)
    }
}

fn options(path: &Path) -> StoreOptions {
    StoreOptions {
        path: path.to_owned(),
        schedule: Schedule { first_after: FIRST_LOOK, max_interval: FIRST_LOOK },
        queue_capacity: 1,
        keep_responses: FIRST_LOOK,
    }
}

fn owner(number: &str) -> OwnerId {
    OwnerId::from_ulid(&format!("01ARZ3NDEKTSV4RR{number}"))
}

/// P3: what was in flight is unknown, everything else is as it was.
fn freed_nothing(before: &Summary, after: &Summary) -> Result<(), Fault> {
    for (key, row) in &before.effects {
        let Some(now) = after.effects.get(key) else { return Err(format!("the sweep lost {key}")) };
        let wanted = if row.stage == "dispatching" { "reconciling" } else { row.stage.as_str() };
        if (now.stage.as_str(), &now.result, &now.holds) != (wanted, &row.result, &row.holds) {
            return Err(format!("the sweep made {now:?} of {row:?}"));
        }
    }
    Ok(())
}

/// Two lanes of FNV-1a over words: enough to tell apart what nobody forges.
pub(crate) fn digest(content: &[u8]) -> u128 {
    let (mut one, mut two) = (0xCBF2_9CE4_8422_2325_u64, 0x6C62_272E_07BB_0142_u64);
    for word in content.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        let word = u64::from_le_bytes(bytes);
        one = (one ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
        two = (two ^ word.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
    }
    u128::from(one) << 64 | u128::from(two)
}

/// Every table, index, trigger and view, as it was made.
fn schema(shell: &Connection) -> rusqlite::Result<String> {
    let mut statement = shell.prepare("SELECT name, sql FROM sqlite_schema")?;
    let mut rows = statement.query([])?;
    let mut made = Vec::new();
    while let Some(row) = rows.next()? {
        made.push(format!(
            "{} {}",
            row.get::<_, String>(0)?,
            row.get::<_, Option<String>>(1)?.unwrap_or_default()
        ));
    }
    made.sort_unstable();
    Ok(made.join("\n"))
}

/// An error and everything behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
