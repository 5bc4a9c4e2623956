//! What the record of a sidecar says, while it runs or not.

use rusqlite::{Connection, OpenFlags, types::ValueRef};
use serde_json::{Map, Value, json};

use crate::{sidecar::Home, wait::until};

impl Home {
    /// The rows of a query, read-only, as an operator's `sqlite3` would.
    #[track_caller]
    pub fn query(&self, sql: &str) -> Vec<Value> {
        let db =
            Connection::open_with_flags(self.path("oncegate.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let mut statement = db.prepare(sql).unwrap();
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let rows = statement.query_map([], |row| {
            let mut all = Map::new();
            for (at, name) in names.iter().enumerate() {
                all.insert(name.clone(), value(row.get_ref(at)?));
            }
            Ok(Value::Object(all))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// The documented view of what is waiting, in flight or unknown.
    #[track_caller]
    pub fn unresolved(&self) -> Vec<Value> {
        self.query("select * from unresolved")
    }

    /// The documented view of one limit.
    #[track_caller]
    pub fn exposure(&self, limit: &str) -> Value {
        let mut rows = self.query("select * from exposure");
        rows.retain(|row| row["limit"] == limit);
        assert_eq!(rows.len(), 1, "rows of {limit}: {rows:?}");
        rows.remove(0)
    }

    /// `(consumed, reserved, unknown_exposure)` of the daily limit.
    #[track_caller]
    pub fn money(&self) -> (u64, u64, u64) {
        let row = self.exposure("refunds-per-day");
        let cents = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name} in {row}"));
        assert_eq!(cents("available") + cents("consumed") + cents("reserved"), cents("amount"), "in {row}");
        (cents("consumed"), cents("reserved"), cents("unknown_exposure"))
    }

    /// All effects, from the database.
    #[track_caller]
    pub fn effects(&self) -> Vec<Value> {
        let done = self.run_on_db(&["effects", "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        done.json().as_array().unwrap_or_else(|| panic!("a list: {done:?}")).clone()
    }

    /// One effect, from the database.
    #[track_caller]
    pub fn effect(&self, id: &str) -> Value {
        let all = self.effects();
        all.iter().find(|e| e["id"] == id).unwrap_or_else(|| panic!("no {id} in {all:?}")).clone()
    }

    /// Waits until an effect has this outcome, and gives it.
    #[track_caller]
    pub fn wait_outcome(&self, id: &str, outcome: &str) -> Value {
        until(&format!("{id} to be {outcome}; now {}", self.effect(id)), || {
            Some(self.effect(id)).filter(|e| e["outcome"] == outcome)
        })
    }
}

fn value(column: ValueRef<'_>) -> Value {
    match column {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => json!(n),
        ValueRef::Real(n) => json!(n),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => json!(bytes),
    }
}
