//! `[secrets.NAME]`

use std::collections::BTreeMap;

use oncegate_policy::authority::Authority;

use crate::document::{Document, Entry};
use crate::facts::Facts;
use crate::model::{Placement, SecretSource, SecretSpec};
use crate::reader::{Node, Table};
use crate::value::{boolean, list, owned, path, some_list, text, word};

/// The words of `allowed_placements`; `query` is the public word `url` by the name that TOML writers use.
const PLACEMENTS: [(&str, Placement); 4] = [
    ("header", Placement::Header),
    ("url", Placement::Url),
    ("query", Placement::Url),
    ("body", Placement::Body),
];

pub(crate) fn read(document: &Document<'_>, facts: &mut Facts) -> BTreeMap<String, SecretSpec> {
    let mut secrets = BTreeMap::new();
    for entry in document.entries("secrets") {
        check_name(entry);
        let spec = entry.node.table(&format!("[secrets.{}]", entry.name), secret).flatten();
        // A faulty one is declared all the same: whoever uses it has done nothing wrong.
        facts.secrets.insert(entry.name.to_owned(), spec.clone());
        if let Some(spec) = spec {
            secrets.insert(entry.name.to_owned(), spec);
        }
    }
    secrets
}

fn check_name(entry: &Entry<'_>) {
    let good = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    if entry.name.is_empty() || !entry.name.bytes().all(good) {
        let message = format!("`{}` cannot be a secret's name: use `A-Z`, `0-9` and `_`", entry.name);
        entry.node.log.fault(entry.place, message);
    }
}

fn secret(table: &Table<'_>) -> Option<SecretSpec> {
    let from = table.need("from", |node| node.table("`from`", source)?);
    let allowed_hosts = table.need("allowed_hosts", |node| some_list(node, host));
    let placements = table.get("allowed_placements");
    let allowed_placements = match &placements {
        None => Some(vec![Placement::Header]),
        Some(node) => list(node, |node| word(node, &PLACEMENTS)),
    };
    Some(SecretSpec { from: from?, allowed_hosts: allowed_hosts?, allowed_placements: allowed_placements? })
}

fn source(table: &Table<'_>) -> Option<SecretSource> {
    match table.exactly_one(&["env", "file", "command", "vault"])? {
        "env" => table.read("env", owned).map(SecretSource::Env),
        "file" => table.read("file", path).map(SecretSource::File),
        "command" => table.read("command", |node| some_list(node, owned)).map(SecretSource::Command),
        _ => table.read("vault", vault),
    }
}

fn vault(node: &Node<'_>) -> Option<SecretSource> {
    let vault = boolean(node)?;
    if !vault {
        node.fault("`vault` can only be `true`: name another source, or leave it");
    }
    vault.then_some(SecretSource::Vault)
}

/// A host without a port, or everything below one (`.example.com`), in its one spelling.
fn host(node: &Node<'_>) -> Option<String> {
    let written = text(node)?;
    let (dot, name) = written.strip_prefix('.').map_or(("", written), |name| (".", name));
    // Without a default, only what names a port is read.
    if Authority::parse(name, None).is_ok() {
        node.fault(format!(
            "{}: `{written}` has a port: a secret is bound to hosts, whatever the port",
            node.what
        ));
        return None;
    }
    match Authority::parse(name, Some(443)) {
        Ok(authority) => Some(format!("{dot}{}", authority.host)),
        Err(fault) => {
            node.fault(format!("{}: `{written}`: {fault}", node.what));
            None
        }
    }
}
