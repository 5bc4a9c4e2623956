//! `[secrets.NAME]`

use std::collections::BTreeMap;

use oncegate_policy::authority::Authority;

use crate::document::{Document, Entry};
use crate::facts::Facts;
use crate::model::{Placement, SecretSource, SecretSpec};
use crate::oauth2;
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
        let read = |table: &Table<'_>| secret(table, entry.name, facts);
        let spec = entry.node.table(&format!("[secrets.{}]", entry.name), read).flatten();
        // A faulty one is declared all the same: whoever uses it has done nothing wrong.
        facts.secrets.insert(entry.name.to_owned(), spec.clone());
        if spec.as_ref().is_some_and(|spec| spec.from == SecretSource::Vault) {
            facts.kept_in_vault.get_or_insert(entry.place);
        }
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

fn secret(table: &Table<'_>, name: &str, facts: &mut Facts) -> Option<SecretSpec> {
    let from = table.need("from", |node| node.table("`from`", |table| source(table, name, facts))?);
    let hosts = |node: &Node<'_>| some_list(node, host);
    // What the API keeps is named by hosts and actions that an operator's key declares; what lies elsewhere is not
    // ours, and says itself where it may go.
    let allowed_hosts = match from {
        Some(SecretSource::Vault) => table.read("allowed_hosts", hosts),
        Some(
            SecretSource::Env(_) | SecretSource::File(_) | SecretSource::Command(_) | SecretSource::OAuth2(_),
        )
        | None => table.need("allowed_hosts", hosts),
    };
    let allowed_placements =
        table.read("allowed_placements", |node| list(node, |node| word(node, &PLACEMENTS)));
    let description = table.read("description", owned);
    Some(SecretSpec { from: from?, description, allowed_hosts, allowed_placements })
}

/// `[vault] key`
pub(crate) fn vault_key(document: &Document<'_>) -> Option<SecretSource> {
    document.section("vault").table("[vault]", |table| {
        table.read("key", |node| {
            node.table("`key`", |table| {
                let kind = table.exactly_one(&["env", "file", "command"])?;
                outside(table, kind)
            })?
        })
    })?
}

fn source(table: &Table<'_>, name: &str, facts: &mut Facts) -> Option<SecretSource> {
    match table.exactly_one(&["env", "file", "command", "vault", "oauth2"])? {
        "vault" => table.read("vault", vault),
        "oauth2" => {
            let read = |table: &Table<'_>| oauth2::read(table, name, facts);
            let minted = table.read("oauth2", |node| node.table("`oauth2`", read)?)?;
            Some(SecretSource::OAuth2(Box::new(minted)))
        }
        kind => outside(table, kind),
    }
}

fn outside(table: &Table<'_>, kind: &str) -> Option<SecretSource> {
    match kind {
        "env" => table.read("env", owned).map(SecretSource::Env),
        "file" => table.read("file", path).map(SecretSource::File),
        _ => table.read("command", |node| some_list(node, owned)).map(SecretSource::Command),
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
