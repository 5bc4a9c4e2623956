//! JSON values as TOML. TOML has no `null`, and its numbers are 64 bits wide.

use serde_json::{Number, Value};

use super::Problem;

/// Digits that a 64-bit float keeps, whatever the number.
const FLOAT_DIGITS: usize = 15;

/// What becomes of a member that is `null`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// It counts as left out.
    LeftOut,
    /// It means something, and cannot be written.
    Refused,
}

/// A JSON value as TOML, or every place where TOML cannot say it.
///
/// # Errors
/// Each `null` that is not left out, and each number that would not stay what it is.
pub(crate) fn from_json(field: &str, value: &Value, nulls: Nulls) -> Result<toml::Value, Vec<Problem>> {
    let mut problems = Vec::new();
    let read = convert(field, value, nulls, &mut problems);
    match read {
        Some(read) if problems.is_empty() => Ok(read),
        Some(_) | None => Err(problems),
    }
}

fn convert(field: &str, value: &Value, nulls: Nulls, problems: &mut Vec<Problem>) -> Option<toml::Value> {
    match value {
        Value::Null => {
            let message = "`null` cannot be written in the configuration: leave the member out";
            problems.push(Problem::new(field, message));
            None
        }
        Value::Bool(truth) => Some(toml::Value::Boolean(*truth)),
        Value::String(text) => Some(toml::Value::String(text.clone())),
        Value::Number(written) => {
            let read = number(written);
            if read.is_none() {
                let message = format!("the number {written} is too long: put it in quotes");
                problems.push(Problem::new(field, message));
            }
            read
        }
        Value::Array(items) => {
            let items: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(at, item)| convert(&format!("{field}[{at}]"), item, nulls, problems))
                .collect();
            items.into_iter().collect::<Option<Vec<_>>>().map(toml::Value::Array)
        }
        Value::Object(members) => {
            let mut table = toml::Table::new();
            for (name, member) in members {
                if member.is_null() && nulls == Nulls::LeftOut {
                    continue;
                }
                if let Some(member) = convert(&format!("{field}.{name}"), member, nulls, problems) {
                    table.insert(name.clone(), member);
                }
            }
            Some(toml::Value::Table(table))
        }
    }
}

fn number(written: &Number) -> Option<toml::Value> {
    if let Some(whole) = written.as_i64() {
        return Some(toml::Value::Integer(whole));
    }
    let text = written.to_string();
    let digits = text.split(['e', 'E']).next()?.bytes().filter(u8::is_ascii_digit).count();
    let float = written.as_f64().filter(|float| float.is_finite())?;
    // Whole numbers beyond 64 bits have no fraction and no exponent.
    (text.contains(['.', 'e', 'E']) && digits <= FLOAT_DIGITS).then_some(toml::Value::Float(float))
}

/// The JSON of a TOML value; a date, which no definition has, as its text.
#[cfg(test)]
pub(crate) fn to_json(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::Boolean(truth) => Value::from(*truth),
        toml::Value::Datetime(date) => Value::from(date.to_string()),
        toml::Value::Array(items) => items.iter().map(to_json).collect(),
        toml::Value::Table(table) => {
            table.iter().map(|(name, member)| (name.clone(), to_json(member))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_toml_has_stays_what_it_is() {
        let value = json!({ "a": [1, -2, 0.25, true, "x"], "b": { "c d": "\u{7f}\"\n" } });
        let there = from_json("body", &value, Nulls::Refused).unwrap();
        assert_eq!(to_json(&there), value);
    }

    #[test]
    fn what_toml_has_not_is_named() {
        let value: Value = serde_json::from_str(
            r#"{"a": null, "b": [18446744073709551615, {"c": 0.12345678901234567, "d": 1e999}]}"#,
        )
        .unwrap();
        let fields = |nulls| {
            let problems = from_json("body", &value, nulls).unwrap_err();
            problems.into_iter().map(|problem| problem.field).collect::<Vec<_>>()
        };
        assert_eq!(fields(Nulls::LeftOut), ["body.b[0]", "body.b[1].c", "body.b[1].d"]);
        assert_eq!(fields(Nulls::Refused)[0], "body.a");
        assert!(from_json("x", &json!([null]), Nulls::LeftOut).is_err(), "an item cannot be left out");
    }
}
