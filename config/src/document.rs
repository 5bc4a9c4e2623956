//! Several files as one document: which section or entry stands where.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::{Log, Place};
use crate::nearest::hint;
use crate::reader::{Node, entries};

/// Sections that are one table.
const SINGLE: [&str; 8] = ["proxy", "control", "log", "otel", "store", "reconcile", "ca", "vault"];
/// Sections whose entries each have a name.
const NAMED: [&str; 5] = ["callers", "secrets", "hosts", "actions", "limits"];

/// One entry of a named section.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    /// Where its name stands.
    pub(crate) place: Place,
    pub(crate) node: Node<'a>,
}

/// All files together.
pub(crate) struct Document<'a> {
    single: BTreeMap<&'a str, Node<'a>>,
    named: BTreeMap<&'a str, Vec<Entry<'a>>>,
    nothing: Node<'a>,
}

impl<'a> Document<'a> {
    /// Puts the files together. `nothing` is an empty table: it stands for sections that are not there.
    pub(crate) fn merge(
        files: &'a [(usize, Spanned<DeTable<'a>>)],
        nothing: &'a DeValue<'a>,
        log: &'a Log<'a>,
    ) -> Self {
        let nothing = Node { value: nothing, place: Place::default(), what: "the file".to_owned(), log };
        let mut document = Self { single: BTreeMap::new(), named: BTreeMap::new(), nothing };
        for (file, root) in files {
            for (section, place, node) in entries(root.get_ref(), *file, log) {
                document.add(section, place, node);
            }
        }
        document
    }

    fn add(&mut self, section: &'a str, place: Place, node: Node<'a>) {
        let log = node.log;
        if SINGLE.contains(&section) {
            match self.single.get(section) {
                Some(first) => defined_twice(log, place, &format!("[{section}]"), first.place),
                // The place of a table is that of its name: an inline table and a header look alike then.
                None => _ = self.single.insert(section, Node { place, ..node }),
            }
        } else if NAMED.contains(&section) {
            let Some(table) = node.value.as_table() else { return node.wrong_type("a table") };
            for (name, place, node) in entries(table, place.file, log) {
                let known = self.named.entry(section).or_default();
                match known.iter().find(|entry| entry.name == name) {
                    Some(first) => defined_twice(log, place, &format!("[{section}.{name}]"), first.place),
                    None => known.push(Entry { name, place, node: Node { place, ..node } }),
                }
            }
        } else {
            log.fault(
                place,
                format!("unknown section `{section}`{}", hint(section, SINGLE.into_iter().chain(NAMED))),
            );
        }
    }

    /// A section that is one table; empty if it is not there.
    pub(crate) fn section(&self, section: &str) -> &Node<'a> {
        self.single.get(section).unwrap_or(&self.nothing)
    }

    /// The entries of a named section.
    pub(crate) fn entries(&self, section: &str) -> &[Entry<'a>] {
        self.named.get(section).map_or(&[], Vec::as_slice)
    }
}

fn defined_twice(log: &Log<'_>, place: Place, table: &str, first: Place) {
    log.fault(place, format!("`{table}` is already defined at {}", log.spell(first)));
}
