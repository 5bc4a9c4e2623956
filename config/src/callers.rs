//! `[callers.NAME]`

use std::collections::BTreeMap;
use std::path::PathBuf;

use oncegate_policy::caller::{CallerName, Scope};
use toml::de::DeValue;

use crate::document::{Document, Entry};
use crate::facts::Facts;
use crate::model::{Caller, CallerListen, Key};
use crate::reader::{Node, Table};
use crate::value::{list, moment, socket, text, word};

/// A key and its successor: more are never valid at one time.
const MAX_KEYS: usize = 2;

pub(crate) fn read(document: &Document<'_>, facts: &mut Facts) -> BTreeMap<CallerName, Caller> {
    let mut callers = BTreeMap::new();
    for entry in document.entries("callers") {
        let caller =
            entry.node.table(&format!("[callers.{}]", entry.name), |table| caller(table, entry, facts));
        if let (Some(name), Some(caller)) = (name(entry), caller) {
            callers.insert(name, caller);
        }
    }
    callers
}

fn name(entry: &Entry<'_>) -> Option<CallerName> {
    let name = CallerName::parse(entry.name);
    if name.is_none() {
        let message = format!(
            "`{}` cannot be a caller's name: use 1 to 64 letters, digits, `_`, `.` and `-`",
            entry.name
        );
        entry.node.log.fault(entry.place, message);
    }
    name
}

fn caller(table: &Table<'_>, entry: &Entry<'_>, facts: &mut Facts) -> Caller {
    let listen = table.read("listen", |node| {
        let listen = listen(node)?;
        match &listen {
            CallerListen::Tcp(address) => facts.listens(node.place, address),
            CallerListen::Unix(path) => facts.listens_at(node.place, format!("unix:{}", path.display())),
        }
        Some(listen)
    });
    let transparent_listen = table.read("transparent_listen", |node| {
        let address = socket(node)?;
        facts.listens(node.place, &address);
        Some(address)
    });
    // Whoever has a listener of their own is known by it; everyone else needs a key.
    let hashes = if table.get("listen").or_else(|| table.get("transparent_listen")).is_some() {
        table.read("key_sha256", |node| key_hashes(node, entry, facts))
    } else {
        table.need("key_sha256", |node| key_hashes(node, entry, facts))
    };
    let mut scopes = table.need("scopes", |node| list(node, scope)).unwrap_or_default();
    scopes.sort();
    scopes.dedup();
    let expires = table.read("expires", moment);
    Caller { keys: hashes.unwrap_or_default(), expires, scopes, listen, transparent_listen }
}

fn key_hashes(node: &Node<'_>, entry: &Entry<'_>, facts: &mut Facts) -> Option<Vec<Key>> {
    let nodes = if matches!(node.value, DeValue::Array(_)) { node.items()? } else { vec![node.clone()] };
    if !(1..=MAX_KEYS).contains(&nodes.len()) {
        node.fault(format!("{} must hold one hash, or two while a key is being replaced", node.what));
        return None;
    }
    let mut keys = Vec::new();
    for node in &nodes {
        let Some(key) = key(node) else { continue };
        facts.key_hashes.push((node.place, entry.name.to_owned(), key.sha256));
        keys.push(key);
    }
    Some(keys)
}

fn key(node: &Node<'_>) -> Option<Key> {
    if !matches!(node.value, DeValue::Table(_)) {
        return Some(Key { sha256: key_hash(node)?, expires: None });
    }
    node.table(&node.what, |table| {
        let (sha256, expires) = (table.need("sha256", key_hash), table.read("expires", moment));
        Some(Key { sha256: sha256?, expires })
    })?
}

/// The written text is not repeated in a fault: whoever mixes them up puts the key itself here.
fn key_hash(node: &Node<'_>) -> Option<[u8; 32]> {
    let written = text(node)?.as_bytes();
    let hash = (written.len() == 64).then(|| hex(written)).flatten();
    if hash.is_none() {
        node.fault(format!("{} must be the SHA-256 of the key: 64 hexadecimal digits", node.what));
    }
    hash
}

fn hex(written: &[u8]) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    for (byte, digits) in hash.iter_mut().zip(written.chunks_exact(2)) {
        let digit = |at: usize| digits.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(hash)
}

fn scope(node: &Node<'_>) -> Option<Scope> {
    word(node, &Scope::ALL.map(|(scope, word)| (word, scope)))
}

fn listen(node: &Node<'_>) -> Option<CallerListen> {
    let Some(path) = text(node)?.strip_prefix("unix:") else { return socket(node).map(CallerListen::Tcp) };
    if path.is_empty() {
        node.fault(format!("{}: the path after `unix:` is empty", node.what));
        return None;
    }
    Some(CallerListen::Unix(PathBuf::from(path)))
}
