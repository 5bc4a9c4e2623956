//! What a schema says of a list it says of nothing else: an object or a text passes `items` whatever is in it. Some servers go
//! through an object's members, or through one value alone, as through items, so that a list is asked for there.

use serde_json::{Map, Value};

/// What says something of a value of one kind alone.
const KINDS: [(&str, &[&str]); 4] = [
    (
        "array",
        &[
            "items",
            "prefixItems",
            "additionalItems",
            "unevaluatedItems",
            "contains",
            "minItems",
            "maxItems",
            "uniqueItems",
        ],
    ),
    (
        "object",
        &[
            "properties",
            "patternProperties",
            "additionalProperties",
            "unevaluatedProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "required",
        ],
    ),
    ("string", &["minLength", "maxLength", "pattern", "format"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];
/// Members that hold schemas by name.
const NAMED: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
/// Members that hold one schema, or a list of them. What a schema may not be (`not`), or asks first (`if`), stays as it is.
const HELD: [&str; 12] = [
    "allOf",
    "anyOf",
    "oneOf",
    "prefixItems",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "then",
    "else",
];

/// The schema with a `type` wherever it says something of lists and none says what else may be there: a list, or another kind
/// of value of which it says something too. `None` where that changes nothing.
pub(super) fn asked_for(schema: &Value) -> Option<Value> {
    let typed = typed(schema);
    (typed != *schema).then_some(typed)
}

fn typed(schema: &Value) -> Value {
    let Some(words) = schema.as_object() else { return schema.clone() };
    let each = words.iter().map(|(word, says)| (word.clone(), below(word, says)));
    let mut words: Map<String, Value> = each.collect();
    let said: Vec<&str> =
        KINDS.into_iter().filter(|(_, of)| said_in(&words, of)).map(|(kind, _)| kind).collect();
    if said.contains(&"array") && !said_in(&words, &["type", "enum", "const"]) {
        words.insert("type".to_owned(), said.into_iter().chain(["null"]).collect());
    }
    Value::Object(words)
}

fn said_in(words: &Map<String, Value>, of: &[&str]) -> bool {
    of.iter().any(|word| words.contains_key(*word))
}

/// What a member of a schema holds.
fn below(word: &str, says: &Value) -> Value {
    match says {
        Value::Object(named) if NAMED.contains(&word) => {
            Value::Object(named.iter().map(|(name, schema)| (name.clone(), typed(schema))).collect())
        }
        Value::Array(schemas) if HELD.contains(&word) => schemas.iter().map(typed).collect(),
        Value::Object(_) if HELD.contains(&word) => typed(says),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => says.clone(),
    }
}
