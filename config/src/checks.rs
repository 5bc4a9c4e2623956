//! Lists of conditions: `when`, `match`, `succeeded_when` and `failed_when`.

use oncegate_policy::check::{Check, Expected};
use serde_json::Value;

use crate::reader::{Node, Table};
use crate::templates::{Allowed, parse};
use crate::value::{boolean, json, list, text};

/// More conditions than this are a program, which belongs elsewhere.
const MAX_CHECKS: usize = 10;

/// What a list of conditions is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// The action's input: paths begin with `input.`.
    Input,
    /// A read-back, whose values may be compared with the input.
    Look,
    /// An answer, compared with what stands in the file.
    Answer,
}

/// `when`: the paths come without their `input.`.
pub(crate) fn when(node: &Node<'_>) -> Option<Vec<Check>> {
    checks(node, About::Input)
}

/// `match`
pub(crate) fn matches(node: &Node<'_>) -> Option<Vec<Check>> {
    checks(node, About::Look)
}

/// `succeeded_when` and `failed_when`. An empty list would turn the rule off without a word.
pub(crate) fn answer(node: &Node<'_>) -> Option<Vec<Check>> {
    let checks = checks(node, About::Answer)?;
    if checks.is_empty() {
        node.fault(format!("{} is empty", node.what));
    }
    Some(checks)
}

fn checks(node: &Node<'_>, about: About) -> Option<Vec<Check>> {
    let count = node.items()?.len();
    if count > MAX_CHECKS {
        node.fault(format!("{} has {count} conditions: at most {MAX_CHECKS} are allowed", node.what));
    }
    let name = node.what.clone();
    list(node, |item| item.table(&format!("a condition of {name}"), |table| check(table, about))?)
}

fn check(table: &Table<'_>, about: About) -> Option<Check> {
    let path = table.need("path", |node| path(node, about));
    let equals = table.get("equals");
    let expected = equals.as_ref().map(|node| expected(node, about));
    let absent = table.or("absent", boolean, false);
    let equals = match expected {
        None => None,
        Some(expected) => Some(expected?),
    };
    Some(Check { path: path?, equals, absent })
}

fn path(node: &Node<'_>, about: About) -> Option<String> {
    let written = text(node)?;
    let path = match about {
        About::Input => written.strip_prefix("input."),
        About::Look | About::Answer => Some(written),
    };
    let Some(path) = path else {
        node.fault(format!("{}: `{written}` must begin with `input.`", node.what));
        return None;
    };
    if path.split('.').any(str::is_empty) {
        node.fault(format!("{}: `{written}` is not a dotted path such as `data.*.title`", node.what));
        return None;
    }
    Some(path.to_owned())
}

fn expected(node: &Node<'_>, about: About) -> Option<Expected> {
    let value = json(node)?;
    let Value::String(written) = &value else { return Some(Expected::Literal(value)) };
    if !written.contains("{{") {
        return Some(Expected::Literal(value));
    }
    if about != About::Look {
        node.fault(format!("{} is compared as it stands here: it cannot hold placeholders", node.what));
        return None;
    }
    parse(node, written, Allowed::LOOK).map(Expected::Template)
}
