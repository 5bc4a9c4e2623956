//! `[limits.NAME]`, and the words for what is counted.

use oncegate_policy::action::ActionName;
use oncegate_policy::impact::Dimension;
use oncegate_policy::limit::{Limit, Period};

use crate::document::Document;
use crate::facts::Facts;
use crate::reader::{Node, Table};
use crate::value::{amount, owned, text, word};

pub(crate) fn read(document: &Document<'_>, facts: &mut Facts) -> Vec<Limit> {
    let mut limits = Vec::new();
    for entry in document.entries("limits") {
        let read = |table: &Table<'_>| limit(table, entry.name, facts);
        let limit = entry.node.table(&format!("[limits.{}]", entry.name), read).flatten();
        if let Some(limit) = limit {
            facts.limits.push((entry.place, limit.clone()));
            limits.push(limit);
        }
    }
    limits
}

fn limit(table: &Table<'_>, name: &str, facts: &mut Facts) -> Option<Limit> {
    let dimension = dimension(table);
    let period = [Period::Day, Period::Month, Period::Total].map(|period| (period.word(), period));
    let period = table.need("period", |node| word(node, &period));
    let amount = table.need("amount", amount);
    let action = table.read("action", |node| {
        let name = text(node)?;
        facts.limited_actions.push((node.place, name.to_owned()));
        ActionName::parse(name)
    });
    let resource_prefix = table.read("resource_prefix", owned);
    Some(Limit {
        name: name.to_owned(),
        dimension: dimension?,
        period: period?,
        amount: amount?,
        action,
        resource_prefix,
    })
}

/// `dimension`, with `currency` for money and `unit` for an operator's own.
pub(crate) fn dimension(table: &Table<'_>) -> Option<Dimension> {
    let name = table.need("dimension", dimension_name);
    match name {
        Some("money") => {
            // The published API calls a currency `unit` in an impact: either word will do, one of them.
            if table.get("currency").is_none() && table.get("unit").is_some() {
                return table.read("unit", currency).map(|currency| Dimension::Money { currency });
            }
            table.refuse(&["unit"], "does not go with money: its unit is the `currency`");
            table.need("currency", currency).map(|currency| Dimension::Money { currency })
        }
        Some("resource_mutations") => {
            table.refuse(&["currency", "unit"], "does not go with `resource_mutations`");
            Some(Dimension::ResourceMutations)
        }
        Some(name) => {
            table.refuse(&["currency"], "goes with `dimension = \"money\"` only");
            let unit = table.or("unit", owned, name.to_owned());
            Some(Dimension::Declared { name: name.to_owned(), unit })
        }
        None => {
            // Known, so that a faulty dimension does not make them unknown keys.
            _ = (table.get("currency"), table.get("unit"));
            None
        }
    }
}

fn dimension_name<'a>(node: &Node<'a>) -> Option<&'a str> {
    let name = text(node)?;
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let fits =
        name.len() <= 32 && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.bytes().all(good);
    if !fits {
        node.fault(format!(
            "{}: `{name}` is not `money`, `resource_mutations` or a name of your own: 1 to 32 of `a-z`, `0-9` and \
             `_`, beginning with a letter",
            node.what
        ));
    }
    fits.then_some(name)
}

/// Three lower-case letters.
pub(crate) fn currency(node: &Node<'_>) -> Option<String> {
    let written = text(node)?;
    let fits = written.len() == 3 && written.bytes().all(|b| b.is_ascii_lowercase());
    if !fits {
        node.fault(format!(
            "{}: `{written}` is not a currency: write three lower-case letters, such as `usd`",
            node.what
        ));
    }
    fits.then(|| written.to_owned())
}
