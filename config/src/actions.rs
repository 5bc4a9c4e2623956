//! `[actions.NAME]`: what every action has, and `adapter`.

use std::collections::BTreeMap;
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::impact::Dimension;
use oncegate_policy::url_template::UrlTemplate;
use serde_json::Value;
use toml::de::DeValue;

use crate::checks::when;
use crate::declared;
use crate::document::{Document, Entry};
use crate::facts::{Destination, Facts};
use crate::limits::currency;
use crate::lookup::STRIPE_REFUNDS;
use crate::model::{Action, ActionKind, ApprovalWhen, FaultDrill, HostPattern, Placement, StripeRefund};
use crate::nearest::hint;
use crate::reader::{Node, Table};
use crate::templates::{Allowed, template};
use crate::value::{boolean, duration, json, owned, positive_duration, text, word};

const DAY: Duration = Duration::from_secs(24 * 3600);
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// Adapters that the design names and this version does not have yet.
const PLANNED: [&str; 2] = ["resend.email_send", "github.file_update"];
const STRIPE_REFUND: &str = "stripe.refund";

/// What only a declared route has.
const ROUTE_KEYS: [&str; 10] = [
    "method",
    "url",
    "headers",
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
    let identical_within = table.read("identical_within", duration);
    let input_schema = table.read("input_schema", input_schema);
    let when = table.or("when", when, Vec::new());
    let fault_drill = table.read("fault_drill", fault_drill);

    let (kind, subject) = match table.get("adapter") {
        Some(adapter) => {
            table.refuse(&ROUTE_KEYS, "does not go with `adapter`: the adapter knows it");
            (adapter_kind(&adapter, table, facts), None)
        }
        None => {
            if table.get("method").is_none() && table.get("url").is_none() {
                let hint = "an action needs either `adapter`, or `method` and `url`";
                table.log.fault(table.place, format!("[actions.{}]: {hint}", entry.name));
            }
            let subject = table.read("subject", |node| template(node, Allowed::IDENTITY));
            let declared = declared::read(table, entry.name, facts);
            (declared.map(|declared| ActionKind::Declared(Box::new(declared))), subject)
        }
    };
    let kind = kind?;
    let identical_within = identical_within.unwrap_or_else(|| default_identical(&kind));
    judge_approval(table, &kind, approval_when);
    Some(Action {
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
    })
}

/// Money and adapters: a day. Everything else is more often repeated on purpose.
fn default_identical(kind: &ActionKind) -> Duration {
    let money = match kind {
        ActionKind::StripeRefund(_) => true,
        ActionKind::Declared(declared) => {
            declared.impact.as_ref().is_some_and(|impact| matches!(impact.dimension, Dimension::Money { .. }))
        }
    };
    if money { DAY } else { TEN_MINUTES }
}

fn judge_approval(table: &Table<'_>, kind: &ActionKind, approval_when: Option<ApprovalWhen>) {
    let has_amount = match kind {
        ActionKind::StripeRefund(_) => true,
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
    word(node, &[FaultDrill::DropResponseAfterSend].map(|drill| (drill.word(), drill)))
}

fn adapter_kind(node: &Node<'_>, action: &Table<'_>, facts: &mut Facts) -> Option<ActionKind> {
    // Read in any case, so that it is a known key whatever the adapter is.
    let secret = action.get("credential_secret");
    let kind =
        node.value.as_table().and_then(|table| table.get("type")).and_then(|kind| kind.get_ref().as_str());
    if let Some(kind) = kind.filter(|kind| *kind != STRIPE_REFUND) {
        let message = if PLANNED.contains(&kind) {
            format!("adapter `{kind}` is not available in this version")
        } else {
            format!("unknown adapter `{kind}`{}", hint(kind, [STRIPE_REFUND].into_iter().chain(PLANNED)))
        };
        // Its other keys are not judged: nobody knows yet what they should be.
        node.fault(message);
        return None;
    }
    let refund = node.table("`adapter`", |table| stripe_refund(table, action)).flatten();
    if secret.is_none() {
        action.log.fault(action.place, "the adapter `stripe.refund` needs `credential_secret`");
    }
    let secret = secret.and_then(|node| stripe_secret(&node, facts));
    if let Ok(url) = UrlTemplate::parse(STRIPE_REFUNDS) {
        let (scheme, authority) = (url.scheme(), url.authority().clone());
        facts.destinations.push(Destination { place: node.place, scheme, authority });
    }
    Some(ActionKind::StripeRefund(StripeRefund { credential_secret: secret?, ..refund? }))
}

fn stripe_refund(table: &Table<'_>, action: &Table<'_>) -> Option<StripeRefund> {
    _ = table.need("type", text);
    let account = table.read("account", owned);
    let live = table.need("mode", |node| word(node, &[("test", false), ("live", true)]));
    let currency = table.need("currency", currency);
    if live == Some(true) && action.get("fault_drill").is_some() {
        let place = action.key_place("fault_drill");
        action.log.fault(
            place,
            "`fault_drill` is refused with `mode = \"live\"`: a drill loses the answer on purpose",
        );
    }
    Some(StripeRefund { account, live: live?, currency: currency?, credential_secret: String::new() })
}

fn stripe_secret(node: &Node<'_>, facts: &mut Facts) -> Option<String> {
    let secret = owned(node)?;
    facts.uses(
        node.place,
        &secret,
        Placement::Header,
        Some(&HostPattern::Exact("api.stripe.com".to_owned())),
    );
    Some(secret)
}
