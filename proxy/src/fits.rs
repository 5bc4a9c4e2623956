//! Whether an input fits the schema that its action declares.
//!
//! A form, a path and a query say everything as text, and providers read the numbers and booleans in it. So a text counts
//! as a number where the schema asks for one, and no number is let past its bounds for being written as text.

mod lists;

use std::borrow::Cow;

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{ValidationError, Validator};
use oncegate_adapters::Plan;
use oncegate_config::model::{Action, ActionKind};
use oncegate_policy::body::BodyKind;
use oncegate_policy::impact::Bound;
use oncegate_policy::refusal::{Code, Refusal};
use serde_json::{Number, Value};

use crate::asking::Asking;
use crate::state::Snapshot;

/// A compiled input schema.
pub struct Schema {
    declared: Validator,
    /// The same, with a list wherever it says something of one ([`lists::asked_for`]). Both have to hold.
    with_lists: Option<Validator>,
}

impl Schema {
    /// Compiles it.
    ///
    /// # Errors
    /// It is no schema; no configuration with one gets as far as this.
    pub fn of(schema: &Value) -> Result<Self, ValidationError<'static>> {
        let declared = jsonschema::validator_for(schema)?;
        let with_lists =
            lists::asked_for(schema).map(|schema| jsonschema::validator_for(&schema)).transpose()?;
        Ok(Self { declared, with_lists })
    }
}

/// A proxied request.
///
/// # Errors
/// `invalid_input`
pub(crate) fn proxied(snapshot: &Snapshot, action: &Action, asking: &Asking) -> Result<(), Refusal> {
    let Some(schema) = snapshot.schema(&action.name) else { return Ok(()) };
    let of_url = |member: &str| {
        let first = |path: &str| path.split(['.', '[']).next() == Some(member);
        let captured = action.kind.route().is_some_and(|route| route.url.inputs().into_iter().any(first));
        captured || asking.query.iter().any(|(name, _)| first(name))
    };
    let is_text = |member: &str| match asking.body_kind {
        BodyKind::Form | BodyKind::Empty => true,
        BodyKind::Json | BodyKind::Opaque => of_url(member),
    };
    fits(schema, &asking.input, is_text)
}

/// An input that was given as JSON.
///
/// # Errors
/// `invalid_input`
pub(crate) fn given(snapshot: &Snapshot, action: &Action, input: &Value) -> Result<(), Refusal> {
    snapshot.schema(&action.name).map_or(Ok(()), |schema| fits(schema, input, |_| false))
}

/// The amount that a refund without one is given by its plan: what a schema says of `amount` is said of that one too.
///
/// # Errors
/// `invalid_input`
pub(crate) fn pinned(
    snapshot: &Snapshot,
    action: &Action,
    input: &Value,
    plan: &Plan,
) -> Result<(), Refusal> {
    let ActionKind::StripeRefund(_) = &action.kind else { return Ok(()) };
    let exact = plan.impact.as_ref().filter(|impact| impact.bound == Bound::Exact);
    match (exact.and_then(|impact| impact.amount), input) {
        (Some(amount), Value::Object(members)) if members.get("amount").is_none_or(Value::is_null) => {
            let mut sent = members.clone();
            sent.insert("amount".to_owned(), amount.into());
            let sent = Value::Object(sent);
            // The rest has been judged as it came.
            let schema = snapshot.schema(&action.name);
            let of_it = |fault: &ValidationError<'_>| fault.instance_path().as_str() == "/amount";
            let fault = schema.and_then(|schema| schema.declared.iter_errors(&sent).find(of_it));
            fault.map_or(Ok(()), |fault| Err(unfit(&fault.instance_path().to_string())))
        }
        (Some(_) | None, _) => Ok(()),
    }
}

/// `is_text`: whether a member at the top is text because it cannot be anything else.
fn fits(schema: &Schema, input: &Value, is_text: impl Fn(&str) -> bool) -> Result<(), Refusal> {
    let mut both = std::iter::once(&schema.declared).chain(&schema.with_lists);
    both.try_for_each(|schema| fits_one(schema, input, &is_text))
}

fn fits_one(schema: &Validator, input: &Value, is_text: impl Fn(&str) -> bool) -> Result<(), Refusal> {
    let counted = with_numbers(input);
    let beyond = |counted: &Value| {
        let mut faults = schema.iter_errors(counted);
        faults.find(|fault| bounds_numbers(fault.kind())).map(|fault| fault.instance_path().to_string())
    };
    if let Some(at) = counted.as_ref().and_then(beyond) {
        return Err(unfit(&at));
    }
    let mut read = Cow::Borrowed(input);
    for fault in schema.iter_errors(input).filter(|fault| asks_for_another_type(fault.kind())) {
        let at = fault.instance_path().as_str();
        let member = at.trim_start_matches('/').split('/').next().unwrap_or_default();
        let meant = input.pointer(at).and_then(Value::as_str).filter(|_| is_text(member)).and_then(scalar);
        if let (Some(meant), Some(place)) = (meant, read.to_mut().pointer_mut(at)) {
            *place = meant;
        }
    }
    let fault = schema.validate(&read).err();
    fault.map_or(Ok(()), |fault| Err(unfit(&fault.instance_path().to_string())))
}

/// The input with every text that reads as a number as that number, if there is one.
fn with_numbers(value: &Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
        Value::String(text) => number(text).map(Value::Number),
        Value::Array(items) => {
            let read: Vec<_> = items.iter().map(with_numbers).collect();
            let any = read.iter().any(Option::is_some);
            let each = read.into_iter().zip(items).map(|(read, item)| read.unwrap_or_else(|| item.clone()));
            any.then(|| each.collect())
        }
        Value::Object(members) => {
            let read: Vec<_> = members.values().map(with_numbers).collect();
            let any = read.iter().any(Option::is_some);
            let each = members.iter().zip(read);
            let each = each.map(|((name, own), read)| (name.clone(), read.unwrap_or_else(|| own.clone())));
            any.then(|| Value::Object(each.collect()))
        }
    }
}

/// The number that a lenient reader finds in a text: with a sign, zeros or spaces before it. Of other texts with a digit
/// (`500usd`, `0x1F4`, `5_00`) readers make different numbers, and the greatest stands for them.
fn number(text: &str) -> Option<Number> {
    let beyond = || text.chars().any(char::is_numeric).then(|| Number::from_f64(f64::MAX)).flatten();
    plain_number(text.trim()).or_else(beyond)
}

fn plain_number(text: &str) -> Option<Number> {
    let is_written = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let float = text.parse::<f64>().ok().filter(|float| is_written && float.is_finite())?;
    let whole = text.parse::<i64>().ok().map(Number::from);
    whole.or_else(|| Number::from_f64(float))
}

/// The number or boolean that a text is, as JSON writes it.
fn scalar(text: &str) -> Option<Value> {
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => serde_json::from_str::<Number>(text).ok().map(Value::Number),
    }
}

fn bounds_numbers(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Maximum { .. }
            | Kind::Minimum { .. }
            | Kind::ExclusiveMaximum { .. }
            | Kind::ExclusiveMinimum { .. }
            | Kind::MultipleOf { .. }
    )
}

fn asks_for_another_type(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Type { .. }
            | Kind::Enum { .. }
            | Kind::Constant { .. }
            | Kind::AnyOf { .. }
            | Kind::OneOfNotValid { .. }
    )
}

fn unfit(at: &str) -> Refusal {
    let at = if at.is_empty() { "the input".to_owned() } else { format!("input{}", at.replace('/', ".")) };
    let sentence = format!("The input does not fit the action: {at} is not as declared. Nothing was sent.");
    Refusal::new(Code::InvalidInput, sentence)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_the_number_that_its_provider_reads() {
        let whole = json!({"properties": {"n": {"type": "integer", "maximum": 5000}}});
        let bounded = json!({"properties": {"n": {"maximum": 5000, "minimum": 1}}});
        let listed = json!({"properties": {"n": {"enum": [1000, 2000]}}});
        let off = json!({"properties": {"n": {"const": false}}});
        let word = json!({"properties": {"n": {"type": "string", "pattern": "^[0-9]+$"}}});
        let nested =
            json!({"properties": {"n": {"items": {"properties": {"q": {"type": "integer", "maximum": 9}}}}}});
        let either = json!({"properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}});
        // As the text of a form, and as a text in JSON.
        for (schema, text, form, given) in [
            (&whole, json!("1000"), true, false),
            (&whole, json!("30000"), false, false),
            (&whole, json!("1000.5"), false, false),
            (&whole, json!("ten"), false, false),
            (&whole, json!(1000), true, true),
            (&whole, json!(30000), false, false),
            (&bounded, json!("1000"), true, true),
            (&bounded, json!("30000"), false, false),
            (&bounded, json!(" +030000"), false, false),
            (&bounded, json!("3e4"), false, false),
            (&bounded, json!("-1"), false, false),
            (&bounded, json!("ten"), true, true),
            (&bounded, json!("50usd"), false, false),
            (&bounded, json!("0x1F4"), false, false),
            (&bounded, json!("1e999"), false, false),
            (&bounded, json!("\u{ff15}"), false, false),
            (&listed, json!("1000"), true, false),
            (&listed, json!("1500"), false, false),
            (&off, json!("false"), true, false),
            (&off, json!("true"), false, false),
            (&word, json!("1000"), true, true),
            (&word, json!("x"), false, false),
            (&nested, json!([{"q": "9"}]), true, false),
            (&nested, json!([{"q": "10"}]), false, false),
            (&either, json!("7"), true, false),
            (&either, json!("x"), false, false),
        ] {
            let schema = Schema::of(schema).unwrap();
            let input = json!({"n": text, "other": "1"});
            assert_eq!(fits(&schema, &input, |_| true).is_ok(), form, "{text} in a form");
            assert_eq!(fits(&schema, &input, |_| false).is_ok(), given, "{text} as JSON");
        }
    }

    /// What a schema says of items is said of whatever some server goes through as items.
    #[test]
    fn p10_bounds_of_items_are_left_by_nothing_that_is_no_list() {
        let lines = json!({"properties": {"n": {"items": {"properties": {"amount": {"maximum": 100}}}}}});
        let plain = json!({"properties": {"n": {"items": {"maximum": 100}}}});
        let few = json!({"properties": {"n": {"maxItems": 1}}});
        let all = json!({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"properties": {"n": {"items": {"enum": ["x"]}}}}}});
        let either = json!({"properties": {"n": {"items": {"enum": ["x"]}, "maxLength": 1}}});
        let map =
            json!({"properties": {"n": {"items": {"enum": ["x"]}, "additionalProperties": {"enum": ["x"]}}}});
        let typed = json!({"properties": {"n": {"type": ["array", "string"], "items": {"enum": ["x"]}}}});
        let not = json!({"properties": {"n": {"not": {"items": {"enum": ["x"]}}}}});
        let items = json!({"properties": {"n": {"properties": {"items": {"maximum": 100}}}}});
        for (schema, value, fits_it) in [
            (&lines, json!([{"amount": 100}]), true),
            (&lines, json!([{"amount": 9000}]), false),
            (&lines, json!({"0": {"amount": 9000}}), false),
            (&lines, json!({"3": {"amount": "9000"}}), false),
            (&lines, json!({"x": {"amount": 9000}}), false),
            (&lines, Value::Null, true),
            (&plain, json!(["100"]), true),
            (&plain, json!({"3": "9000"}), false),
            (&plain, json!("9000"), false),
            (&few, json!(["a"]), true),
            (&few, json!({"3": "a", "4": "b"}), false),
            (&all, json!(["x"]), true),
            (&all, json!({"3": "y"}), false),
            (&either, json!("y"), true),
            (&either, json!("yy"), false),
            (&either, json!({"3": "y"}), false),
            (&map, json!({"3": "x"}), true),
            (&map, json!({"3": "y"}), false),
            (&map, json!("y"), false),
            // As it says.
            (&typed, json!("y"), true),
            (&typed, json!({"3": "y"}), false),
            (&not, json!(["y"]), true),
            (&not, json!({"3": "y"}), false),
            (&items, json!({"items": 100}), true),
            (&items, json!({"items": 900}), false),
        ] {
            let compiled = Schema::of(schema).unwrap();
            for form in [true, false] {
                let fits = fits(&compiled, &json!({"n": value}), |_| form).is_ok();
                assert_eq!(fits, fits_it, "{value} by {schema}");
            }
        }
    }
}
