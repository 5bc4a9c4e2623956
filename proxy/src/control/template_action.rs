//! What a template action's definition says, in the API's words.

use std::time::Duration;

use oncegate_config::model::{Declared, ImpactRule, KeyPlace, Verify};
use oncegate_policy::check::{Check, Expected};
use oncegate_policy::classify::ResponseRules;
use oncegate_policy::impact::{AmountOf, AmountRule, Dimension};
use serde_json::{Map, Value, json};

/// Units of a span, the longest first, in milliseconds.
const UNITS: [(&str, u128); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

/// The members that no adapter action has.
pub(crate) fn shown(declared: &Declared) -> Value {
    let headers: Map<String, Value> =
        declared.headers.iter().map(|(name, value)| (name.clone(), value.to_string().into())).collect();
    let idempotency = declared.idempotency.as_ref().map(|idempotency| {
        let (place, name) = match &idempotency.place {
            KeyPlace::Header(name) => ("header", name),
            KeyPlace::Body(name) => ("body", name),
        };
        json!({ place: name, "window": span(idempotency.window) })
    });
    json!({
        "method": declared.method,
        "urlTemplate": declared.url.to_string(),
        "headers": headers,
        "scopeHeaders": Some(&declared.scope_headers).filter(|names| !names.is_empty()),
        "bodyTemplate": declared.body,
        "idempotency": idempotency,
        "response": response(&declared.response),
        "credentialSecret": declared.credential_secret,
    })
}

/// An impact declaration.
pub(crate) fn impact(rule: &ImpactRule) -> Value {
    let currency = match &rule.dimension {
        Dimension::Money { currency } => Some(currency),
        Dimension::ResourceMutations | Dimension::Declared { .. } => None,
    };
    json!({
        "dimension": rule.dimension.word(),
        "currency": currency,
        "unit": rule.dimension.unit(),
        "amount": amount(&rule.amount),
        "bound": rule.bound.word(),
    })
}

fn amount(rule: &AmountRule) -> String {
    let of = match &rule.of {
        AmountOf::Literal(amount) => amount.to_string(),
        AmountOf::Input(path) => format!("input.{path}"),
        AmountOf::Count(path) => format!("count(input.{path})"),
    };
    if rule.times == 1 { of } else { format!("{of} * {}", rule.times) }
}

/// A read-back declaration.
pub(crate) fn verify(verify: &Verify) -> Value {
    json!({ "url": verify.url.to_string(), "status": verify.status, "match": checks(&verify.checks) })
}

fn response(rules: &ResponseRules) -> Value {
    if rules.succeeded_when.is_empty() && rules.failed_when.is_empty() {
        return Value::Null;
    }
    let side = |wanted: &[Check]| if wanted.is_empty() { Value::Null } else { checks(wanted) };
    json!({ "succeededWhen": side(&rules.succeeded_when), "failedWhen": side(&rules.failed_when) })
}

/// What tells an action from others on its route.
pub(crate) fn when(when: &[Check]) -> Value {
    let written = when.iter().map(|check| Check { path: format!("input.{}", check.path), ..check.clone() });
    checks(&written.collect::<Vec<_>>())
}

fn checks(checks: &[Check]) -> Value {
    checks.iter().map(check).collect()
}

fn check(check: &Check) -> Value {
    let mut shown = json!({ "path": check.path, "absent": check.absent });
    // Left out and `null` are not the same: with neither, it is enough that something is there.
    if let (Some(expected), Some(members)) = (&check.equals, shown.as_object_mut()) {
        let expected = match expected {
            Expected::Literal(value) => value.clone(),
            Expected::Template(template) => Value::String(template.to_string()),
        };
        members.insert("equals".to_owned(), expected);
    }
    shown
}

/// A span of time as the configuration writes it.
pub(crate) fn span(span: Duration) -> String {
    let milliseconds = span.as_millis();
    let fits = |(_, unit): &&(&str, u128)| milliseconds > 0 && milliseconds.is_multiple_of(*unit);
    UNITS
        .iter()
        .find(fits)
        .map_or_else(|| "0s".to_owned(), |(name, unit)| format!("{}{name}", milliseconds / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_in_their_longest_unit() {
        for (milliseconds, written) in [
            (0, "0s"),
            (500, "500ms"),
            (90_000, "90s"),
            (600_000, "10min"),
            (86_400_000, "1d"),
            (90_000_000, "25h"),
        ] {
            assert_eq!(span(Duration::from_millis(milliseconds)), written);
        }
    }
}
