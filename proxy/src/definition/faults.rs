//! Faults of the configuration's reader in the words of the API: which member, and what is wrong with it.

use oncegate_config::Fault;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Problem, names};

/// One step of the way to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Item(usize),
}

/// Where every key and item of a text begins.
pub(crate) struct Places {
    text: String,
    /// In the order of the text.
    known: Vec<(usize, Vec<Step>)>,
}

impl Places {
    /// Of a file that has been written by us. One that cannot be read has no places.
    pub(crate) fn of(text: &str) -> Self {
        let mut known = Vec::new();
        if let Ok(root) = DeTable::parse(text) {
            walk_table(root.get_ref(), &mut Vec::new(), &mut known);
        }
        known.sort_by_key(|(offset, _)| *offset);
        Self { text: text.to_owned(), known }
    }

    /// The action at a fault, and the fault as the API says it. `None` if it stands at no action.
    pub(crate) fn problem(&self, fault: &Fault) -> Option<(&str, Problem)> {
        let offset = self.offset(fault)?;
        let (_, steps) = self.known.iter().rev().find(|(begins, _)| *begins <= offset)?;
        let [Step::Key(section), Step::Key(action), rest @ ..] = steps.as_slice() else { return None };
        if section != "actions" {
            return None;
        }
        let section = match rest {
            [Step::Key(key), ..] => Some(key.as_str()),
            [Step::Item(_), ..] | [] => None,
        };
        let missing = fault.message.strip_prefix("missing key `").and_then(|rest| rest.split('`').next());
        let mut field = field(rest, missing);
        // With an adapter, what the API sends inside of it stands beside it.
        let adapter =
            [Step::Key("actions".to_owned()), Step::Key(action.clone()), Step::Key("adapter".to_owned())];
        if self.known.iter().any(|(_, way)| *way == adapter) {
            field = match field.as_str() {
                "credentialSecret" => "adapter.credentialSecret".to_owned(),
                "faultDrill" => "adapter.config.faultDrill".to_owned(),
                _ => field,
            };
        }
        Some((action, Problem { field, message: spelled(&fault.message, section, action) }))
    }

    /// The byte at which a fault stands.
    fn offset(&self, fault: &Fault) -> Option<usize> {
        let mut before = 0;
        let mut lines = self.text.split_inclusive('\n');
        for _ in 1..fault.line {
            before += lines.next()?.len();
        }
        let line = lines.next().unwrap_or_default();
        let column = line.char_indices().nth(fault.column.saturating_sub(1)).map_or(line.len(), |(at, _)| at);
        Some(before + column)
    }
}

fn walk_table(table: &DeTable<'_>, way: &mut Vec<Step>, known: &mut Vec<(usize, Vec<Step>)>) {
    for (key, value) in table {
        way.push(Step::Key(key.get_ref().to_string()));
        known.push((key.span().start, way.clone()));
        // A table under a header of its own begins at the bracket.
        known.push((value.span().start, way.clone()));
        walk(value, way, known);
        way.pop();
    }
}

fn walk(value: &Spanned<DeValue<'_>>, way: &mut Vec<Step>, known: &mut Vec<(usize, Vec<Step>)>) {
    match value.get_ref() {
        DeValue::Table(table) => walk_table(table, way, known),
        DeValue::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                way.push(Step::Item(at));
                known.push((item.span().start, way.clone()));
                walk(item, way, known);
                way.pop();
            }
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {}
    }
}

/// The member that a way leads to: `verify.match[0].path`. A missing one is named at the table that lacks it.
fn field(way: &[Step], missing: Option<&str>) -> String {
    let mut steps: Vec<Step> = way.to_vec();
    steps.extend(missing.map(|key| Step::Key(key.to_owned())));
    let mut field = String::new();
    let mut section = None;
    for (depth, step) in steps.iter().enumerate() {
        match step {
            Step::Item(at) => field.push_str(&format!("[{at}]")),
            Step::Key(key) if depth == 0 => {
                // What an adapter's `credentialSecret` and `faultDrill` have become stands beside it.
                field.push_str(names::member(key).unwrap_or(key));
                section = Some(key.as_str());
            }
            Step::Key(key) => {
                let section = section.unwrap_or_default();
                let config = section == "adapter" && depth == 1 && key != "type";
                field.push_str(if config { ".config." } else { "." });
                field.push_str(&if depth == 1 { names::inner(section, key) } else { key.clone() });
            }
        }
    }
    if field.is_empty() { "name".to_owned() } else { field }
}

/// The message with every quoted key in the API's spelling.
fn spelled(message: &str, section: Option<&str>, action: &str) -> String {
    let message = message.replace(&format!("[actions.{action}]"), "the definition");
    let parts: Vec<String> = message
        .split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 1 { names::word(section, part) } else { part.to_owned() })
        .collect();
    parts.join("`")
}
