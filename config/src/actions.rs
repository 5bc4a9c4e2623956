//! `[actions.NAME]`: what every action has, and `adapter`.

use std::collections::BTreeMap;
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::identity::IDENTICAL_WITHIN_MAX;
use oncegate_policy::impact::Dimension;
use oncegate_policy::template::Template;
use serde_json::Value;
use toml::de::DeValue;

use crate::checks::when;
use crate::document::{Document, Entry};
use crate::facts::Facts;
use crate::model::{Action, ActionKind, ApprovalWhen, FaultDrill};
use crate::reader::{Node, Table};
use crate::templates::{Allowed, template};
use crate::value::{boolean, duration, json, owned, positive_duration, text, word};
use crate::{adapters, declared};

const DAY: Duration = Duration::from_secs(24 * 3600);
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// What only a declared route has.
const ROUTE_KEYS: [&str; 12] = [
    "preset",
    "method",
    "url",
    "headers",
    "scope_headers",
    "body",
    "governed",
    "impact",
    "idempotency",
    "verify",
    "response",
    "subject",
];

pub(crate) fn read(document: &Document<'_>, facts: &mut Facts) -> BTreeMap<ActionName, Action> {
    let mut actions = BTreeMap::new();
    for entry in document.entries("actions") {
        facts.actions.insert(entry.name.to_owned(), entry.place);
        let name = name(entry);
        let read = |table: &Table<'_>| action(table, entry, name.clone(), facts);
        let action = entry.node.table(&format!("[actions.{}]", entry.name), read).flatten();
        if let (Some(name), Some(action)) = (name, action) {
            actions.insert(name, action);
        }
    }
    actions
}

fn name(entry: &Entry<'_>) -> Option<ActionName> {
    let name = ActionName::parse(entry.name);
    if name.is_none() {
        let message = if ActionName::RESERVED.contains(&entry.name) {
            format!("`{}` cannot be an action's name: the API needs it for itself", entry.name)
        } else {
            format!(
                "`{}` cannot be an action's name: use 1 to 64 letters, digits, `_`, `.` and `-`, not beginning with \
                 `.`",
                entry.name
            )
        };
        entry.node.log.fault(entry.place, message);
    }
    name
}

fn action(
    table: &Table<'_>,
    entry: &Entry<'_>,
    name: Option<ActionName>,
    facts: &mut Facts,
) -> Option<Action> {
    let description = table.read("description", owned);
    let enabled = table.or("enabled", boolean, true);
    let operation_key = table.read("operation_key", |node| template(node, Allowed::IDENTITY));
    let requires_approval = table.or("requires_approval", boolean, false);
    let approval_when = table.read("approval_when", approval_when);
    let approval_expires = table.or("approval_expires", positive_duration, DAY);
    let identical_within = table.read("identical_within", identical_within);
    let input_schema = table.read("input_schema", input_schema);
    let when = table.or("when", when, Vec::new());
    let fault_drill = table.read("fault_drill", fault_drill);
    let allow_live_drill = table.or("allow_live_drill", boolean, false);

    let (kind, subject) = match table.get("adapter") {
        Some(adapter) => {
            let refused: Vec<_> =
                ROUTE_KEYS.into_iter().filter(|key| !adapters::takes(&adapter, key)).collect();
            table.refuse(&refused, "does not go with `adapter`: the adapter knows it");
            (adapters::read(&adapter, table, facts), subject(table))
        }
        None => {
            if table.get("method").is_none() && table.get("url").is_none() {
                let hint = "an action needs either `adapter`, or `method` and `url`";
                table.log.fault(table.place, format!("[actions.{}]: {hint}", entry.name));
            }
            let declared = declared::read(table, entry.name, facts);
            (declared.map(|declared| ActionKind::Declared(Box::new(declared))), subject(table))
        }
    };
    let kind = kind?;
    let identical_within = identical_within.unwrap_or_else(|| default_identical(&kind));
    judge_approval(table, &kind, approval_when);
    let action = Action {
        name: name?,
        description,
        enabled,
        kind,
        operation_key,
        subject,
        requires_approval,
        approval_when,
        approval_expires,
        identical_within,
        input_schema,
        when,
        fault_drill,
        allow_live_drill,
    };
    if let Some(path) = action.moved_by_its_body() {
        let message = format!(
            "`when` asks for `input.{path}`, which `body` puts elsewhere, where the provider reads it: call the input what the \
             body calls it"
        );
        table.log.fault(table.key_place("body"), message);
    }
    Some(action)
}

fn subject(table: &Table<'_>) -> Option<Template> {
    table.read("subject", |node| template(node, Allowed::IDENTITY))
}

/// A success is not kept for longer than the longest: `prune` takes it away then.
fn identical_within(node: &Node<'_>) -> Option<Duration> {
    let read = duration(node)?;
    if read > IDENTICAL_WITHIN_MAX {
        let days = IDENTICAL_WITHIN_MAX.as_secs() / DAY.as_secs();
        let hint = "a repeat after that is known by `operation_key`, or a key that the caller chooses";
        node.fault(format!("{} must be at most {days}d: {hint}", node.what));
        return None;
    }
    Some(read)
}

/// Money and adapters: a day. Everything else is more often repeated on purpose.
fn default_identical(kind: &ActionKind) -> Duration {
    let long = match kind {
        ActionKind::StripeRefund(_)
        | ActionKind::StripeWrite(_)
        | ActionKind::ResendEmail(_)
        | ActionKind::GithubFile(_)
        | ActionKind::GithubWrite(_) => true,
        ActionKind::Declared(declared) => {
            declared.impact.as_ref().is_some_and(|impact| matches!(impact.dimension, Dimension::Money { .. }))
        }
    };
    if long { DAY } else { TEN_MINUTES }
}

fn judge_approval(table: &Table<'_>, kind: &ActionKind, approval_when: Option<ApprovalWhen>) {
    let has_amount = match kind {
        ActionKind::StripeRefund(_)
        | ActionKind::ResendEmail(_)
        | ActionKind::GithubFile(_)
        | ActionKind::GithubWrite(_) => true,
        ActionKind::StripeWrite(write) => write.route.impact.is_some(),
        ActionKind::Declared(declared) => declared.impact.is_some(),
    };
    if approval_when.is_some() && !has_amount {
        table.log.fault(
            table.key_place("approval_when"),
            "`approval_when` needs `impact`: it is about its amount",
        );
    }
}

/// `amount > 5000`
fn approval_when(node: &Node<'_>) -> Option<ApprovalWhen> {
    let written = text(node)?;
    let above =
        written.strip_prefix("amount").and_then(|rest| rest.trim_start().strip_prefix('>')).map(str::trim);
    let plain = |digits: &&str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let amount_above = above.filter(plain).and_then(|digits| digits.parse().ok());
    if amount_above.is_none() {
        node.fault(format!("{}: `{written}` is not of the form `amount > 5000`", node.what));
    }
    amount_above.map(|amount_above| ApprovalWhen { amount_above })
}

/// A table, or JSON as text: TOML has no `null`, and a schema may need one.
fn input_schema(node: &Node<'_>) -> Option<Value> {
    let schema = match node.value {
        DeValue::Table(_) => json(node)?,
        DeValue::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(schema) if schema.is_object() => schema,
            Ok(_) => {
                node.fault(format!("{}: the text is not a JSON object", node.what));
                return None;
            }
            Err(fault) => {
                node.fault(format!("{}: the text is not JSON: {fault}", node.what));
                return None;
            }
        },
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => {
            node.wrong_type("a table, or JSON as text");
            return None;
        }
    };
    if let Err(fault) = jsonschema::validator_for(&schema) {
        node.fault(format!("{} is not a JSON Schema: {fault}", node.what));
    }
    Some(schema)
}

fn fault_drill(node: &Node<'_>) -> Option<FaultDrill> {
    word(node, &FaultDrill::ALL.map(|drill| (drill.word(), drill)))
}
