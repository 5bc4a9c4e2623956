//! Members that stand for another one where names are bound whatever their case.

use serde_json::Value;

use super::excerpt;

/// The first member on the way to a dotted path whose name is the path's but for ASCII case: many servers bind both to
/// one parameter, and what was judged is then not what they read. `*` stands for any item of an array.
#[must_use]
pub fn lookalike(value: &Value, dotted_path: &str) -> Option<String> {
    let (name, below) = match dotted_path.split_once('.') {
        Some((name, below)) => (name, Some(below)),
        None => (dotted_path, None),
    };
    match value {
        Value::Object(members) => {
            let alike = |key: &&String| key.as_str() != name && key.eq_ignore_ascii_case(name);
            let other = members.keys().find(alike).map(|key| excerpt(key));
            other.or_else(|| lookalike(members.get(name)?, below?))
        }
        Value::Array(items) if name == "*" => items.iter().find_map(|item| lookalike(item, below?)),
        Value::Array(items) => lookalike(items.get(name.parse::<usize>().ok()?)?, below?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
