//! A small typed reader over a TOML document: it records every fault with its place, and goes on.

use std::cell::RefCell;
use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::{Log, Place};
use crate::nearest::hint;

/// A value, where it stands, and what to call it in a fault.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    pub(crate) value: &'a DeValue<'a>,
    pub(crate) place: Place,
    /// `` `key` ``, or `` an item of `key` ``.
    pub(crate) what: String,
    pub(crate) log: &'a Log<'a>,
}

impl<'a> Node<'a> {
    pub(crate) fn new(value: &'a Spanned<DeValue<'a>>, file: usize, what: String, log: &'a Log<'a>) -> Self {
        Self { value: value.get_ref(), place: Place { file, offset: value.span().start }, what, log }
    }

    /// Records a fault at this value.
    pub(crate) fn fault(&self, message: impl Into<String>) {
        self.log.fault(self.place, message);
    }

    /// Records that the value is of another type than `wanted` (`a string`).
    pub(crate) fn wrong_type(&self, wanted: &str) {
        self.fault(format!("{} must be {wanted}, not {}", self.what, type_of(self.value)));
    }

    /// Reads a table; every key that `read` did not ask for is a fault.
    pub(crate) fn table<R>(&self, name: &str, read: impl FnOnce(&Table<'a>) -> R) -> Option<R> {
        let Some(entries) = self.value.as_table() else {
            self.wrong_type("a table");
            return None;
        };
        let table = Table {
            entries,
            place: self.place,
            name: name.to_owned(),
            known: RefCell::default(),
            log: self.log,
        };
        let result = read(&table);
        table.check_unknown();
        Some(result)
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> Option<Vec<Node<'a>>> {
        let Some(items) = self.value.as_array() else {
            self.wrong_type("a list");
            return None;
        };
        let item = |value| Node::new(value, self.place.file, format!("an item of {}", self.what), self.log);
        Some(items.iter().map(item).collect())
    }
}

/// A table that is being read.
pub(crate) struct Table<'a> {
    entries: &'a DeTable<'a>,
    /// Where it begins: a missing key is reported here.
    pub(crate) place: Place,
    name: String,
    known: RefCell<Vec<&'static str>>,
    pub(crate) log: &'a Log<'a>,
}

impl<'a> Table<'a> {
    /// The value of a key, if it is there.
    pub(crate) fn get(&self, key: &'static str) -> Option<Node<'a>> {
        self.known.borrow_mut().push(key);
        let value = self.entries.get(key)?;
        Some(Node::new(value, self.place.file, format!("`{key}`"), self.log))
    }

    /// Where a key stands; the table's own place if it is not there.
    pub(crate) fn key_place(&self, key: &str) -> Place {
        let key = self.entries.get_key_value(key).map(|(key, _)| key.span().start);
        key.map_or(self.place, |offset| Place { file: self.place.file, offset })
    }

    /// The read value of a key; `None` if it is missing or faulty.
    pub(crate) fn read<T>(&self, key: &'static str, read: impl FnOnce(&Node<'a>) -> Option<T>) -> Option<T> {
        self.get(key).and_then(|node| read(&node))
    }

    /// The read value of a key, or what stands for it if it is missing. A faulty one is replaced as well, so that
    /// reading goes on: its fault is recorded, and nothing comes of a configuration that has one.
    pub(crate) fn or<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Node<'a>) -> Option<T>,
        default: T,
    ) -> T {
        self.read(key, read).unwrap_or(default)
    }

    /// The read value of a key that must be there.
    pub(crate) fn need<T>(&self, key: &'static str, read: impl FnOnce(&Node<'a>) -> Option<T>) -> Option<T> {
        let node = self.get(key);
        if node.is_none() {
            self.log.fault(self.place, format!("missing key `{key}` in {}", self.name));
        }
        node.and_then(|node| read(&node))
    }

    /// Records a fault for each of `keys` that is there: `why` says what it does not go with.
    pub(crate) fn refuse(&self, keys: &[&'static str], why: &str) {
        for key in keys {
            if self.get(key).is_some() {
                self.log.fault(self.key_place(key), format!("`{key}` {why}"));
            }
        }
    }

    /// Which one of `keys` is there. None, or more than one, is a fault.
    pub(crate) fn exactly_one(&self, keys: &[&'static str]) -> Option<&'static str> {
        let there: Vec<&'static str> = keys.iter().copied().filter(|key| self.get(key).is_some()).collect();
        if let [one] = there.as_slice() {
            return Some(one);
        }
        let choices = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        self.log.fault(self.place, format!("{} needs exactly one of {choices}", self.name));
        None
    }

    fn check_unknown(&self) {
        // A key may have been asked for twice; a hint names it once.
        let known: BTreeSet<&str> = self.known.borrow().iter().copied().collect();
        for key in self.entries.keys() {
            let word: &str = key.get_ref();
            if !known.contains(word) {
                let place = Place { file: self.place.file, offset: key.span().start };
                self.log.fault(place, format!("unknown key `{word}`{}", hint(word, known.iter().copied())));
            }
        }
    }
}

/// The entries of a table in the order of the text.
pub(crate) fn entries<'a>(
    table: &'a DeTable<'a>,
    file: usize,
    log: &'a Log<'a>,
) -> Vec<(&'a str, Place, Node<'a>)> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| {
            let name: &str = key.get_ref();
            let place = Place { file, offset: key.span().start };
            (name, place, Node::new(value, file, format!("`{name}`"), log))
        })
        .collect();
    entries.sort_by_key(|(_, place, _)| *place);
    entries
}

fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
