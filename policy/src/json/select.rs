//! Dotted paths into a value: `metadata.order_id`, `items.0.price`, `data.*.title`.

use serde_json::Value;

/// The one value at a dotted path. A number selects an item of an array; `*` has no meaning here.
#[must_use]
pub fn get<'a>(value: &'a Value, dotted_path: &str) -> Option<&'a Value> {
    dotted_path.split('.').try_fold(value, step)
}

/// Every value at a dotted path, in document order, where `*` stands for any item of an array.
#[must_use]
pub fn select<'a>(value: &'a Value, dotted_path: &str) -> Vec<&'a Value> {
    dotted_path
        .split('.')
        .fold(vec![value], |found, name| found.into_iter().flat_map(|value| steps(value, name)).collect())
}

fn steps<'a>(value: &'a Value, name: &str) -> Vec<&'a Value> {
    match value {
        Value::Array(items) if name == "*" => items.iter().collect(),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => step(value, name).into_iter().collect(),
    }
}

fn step<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.get(name),
        // Only the canonical spelling of an index: `01` would be a second name for one item.
        Value::Array(items) => {
            let index: usize = name.parse().ok()?;
            (index.to_string() == name).then(|| items.get(index)).flatten()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
