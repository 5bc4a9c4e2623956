//! A form for an input that did not come as one.

use oncegate_policy::form;
use serde_json::{Map, Value};

/// A name that a form cannot spell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name below {below} is empty or holds a bracket, and cannot be sent as a form")]
pub(crate) struct NameFault {
    below: String,
}

/// The members as fields with nested brackets, in sorted order; lists are numbered, a `null` is left out.
pub(crate) fn encode(members: &Map<String, Value>) -> Result<Vec<u8>, NameFault> {
    sorted(members).into_iter().try_fold(Vec::new(), |body, (name, value)| {
        spellable(name, "the input")?;
        field(body, name, value)
    })
}

fn field(body: Vec<u8>, name: &str, value: &Value) -> Result<Vec<u8>, NameFault> {
    match value {
        Value::Null => Ok(body),
        Value::Bool(flag) => Ok(form::append(&body, name, if *flag { "true" } else { "false" })),
        Value::Number(number) => Ok(form::append(&body, name, number.as_str())),
        Value::String(text) => Ok(form::append(&body, name, text)),
        Value::Array(items) => {
            let mut numbered = items.iter().enumerate();
            numbered.try_fold(body, |body, (at, item)| field(body, &format!("{name}[{at}]"), item))
        }
        Value::Object(members) => sorted(members).into_iter().try_fold(body, |body, (key, item)| {
            spellable(key, name)?;
            field(body, &format!("{name}[{key}]"), item)
        }),
    }
}

fn spellable(name: &str, below: &str) -> Result<(), NameFault> {
    match name.is_empty() || name.contains(['[', ']']) {
        true => Err(NameFault { below: below.to_owned() }),
        false => Ok(()),
    }
}

/// Sorted here and not trusted to the map: a feature of `serde_json` switches it to insertion order.
fn sorted(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| name.as_str());
    sorted
}

#[cfg(test)]
mod tests {
    use oncegate_policy::json::canonical;
    use serde_json::json;

    use super::*;

    fn encoded(value: &Value) -> Result<String, NameFault> {
        encode(value.as_object().unwrap()).map(|body| String::from_utf8(body).unwrap())
    }

    #[test]
    fn members_become_sorted_fields() {
        for (input, body) in [
            (json!({}), ""),
            (json!({"b": 1, "a": "x y"}), "a=x%20y&b=1"),
            (json!({"m": {"k": "v&", "a": true}}), "m%5Ba%5D=true&m%5Bk%5D=v%26"),
            (json!({"l": ["x", {"y": 2}]}), "l%5B0%5D=x&l%5B1%5D%5By%5D=2"),
            (json!({"n": null, "e": {}}), ""),
        ] {
            assert_eq!(encoded(&input).as_deref(), Ok(body), "{input}");
        }
        for input in [json!({"a]": 1}), json!({"m": {"": 1}}), json!({"m": {"x[y": 1}})] {
            assert!(encoded(&input).is_err(), "{input}");
        }
    }

    #[test]
    fn the_form_says_what_the_input_said() {
        let input = json!({"amount": 12000, "metadata": {"order_id": "a b+c;ü", "deep": {"x": ["1", "2"]}}});
        let read = form::parse(encoded(&input).unwrap().as_bytes()).unwrap();
        assert_eq!(canonical(&read), canonical(&input));
    }
}
