//! A schema of the document as a JSON Schema of its own: references are replaced by what they name, and the words that
//! only OpenAPI knows are left out or translated.

use serde_json::{Map, Value, json};

use super::document::Document;

/// Deepest nesting; a schema that names itself is cut here, and what is below may be anything.
const DEPTH_MAX: usize = 12;
/// Values of one operation's schemas, references written out.
const NODES_MAX: usize = 4_000;
/// Words that say nothing of what a value may be.
const LEFT_OUT: [&str; 6] = ["example", "xml", "discriminator", "externalDocs", "deprecated", "nullable"];
/// Members that hold a schema by name, a list of schemas, or one.
const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "dependentSchemas"];
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const SINGLE: [&str; 9] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
];

/// Writes out the schemas of one operation.
pub(super) struct Writer<'a> {
    document: &'a Document,
    nodes: usize,
    /// Something was cut, or a reference led nowhere.
    pub(super) warnings: Vec<String>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(document: &'a Document) -> Self {
        Self { document, nodes: 0, warnings: Vec::new() }
    }

    /// The schema, written out.
    ///
    /// # Errors
    /// It is too large, or refers to what is not there.
    pub(super) fn write(&mut self, schema: &Value) -> Result<Value, String> {
        self.schema(schema, 0)
    }

    fn schema(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(format!(
                "its schemas have more than {NODES_MAX} parts with their references written out"
            ));
        }
        if depth > DEPTH_MAX {
            self.warn(
                "a schema is nested too deep or names itself: what is below its 12th level may be anything",
            );
            return Ok(json!({}));
        }
        let schema = self.document.resolve(schema)?;
        let Value::Object(members) = schema else { return Ok(schema.clone()) };
        let mut written = Map::new();
        for (name, value) in members {
            let name = name.as_str();
            if LEFT_OUT.contains(&name) || name.starts_with("x-") || (name == "examples" && !value.is_array())
            {
                continue;
            }
            let value = self.member(name, value, depth + 1)?;
            written.insert(name.to_owned(), value);
        }
        if self.document.is_3_0 {
            as_of_3_1(&mut written, members.get("nullable") == Some(&Value::Bool(true)));
        }
        Ok(Value::Object(written))
    }

    fn member(&mut self, name: &str, value: &Value, depth: usize) -> Result<Value, String> {
        if let (Value::Object(named), true) = (value, NAMED.contains(&name)) {
            let mut all = Map::new();
            for (property, schema) in named {
                all.insert(property.clone(), self.schema(schema, depth)?);
            }
            return Ok(Value::Object(all));
        }
        if let (Value::Array(list), true) = (value, LISTS.contains(&name)) {
            return list.iter().map(|schema| self.schema(schema, depth)).collect();
        }
        if SINGLE.contains(&name) { self.schema(value, depth) } else { Ok(value.clone()) }
    }

    pub(super) fn warn(&mut self, warning: &str) {
        if !self.warnings.iter().any(|known| known == warning) {
            self.warnings.push(warning.to_owned());
        }
    }
}

/// What OpenAPI 3.0 says in a way of its own.
fn as_of_3_1(schema: &mut Map<String, Value>, nullable: bool) {
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match schema.get(flag) {
            Some(Value::Bool(true)) => match schema.remove(bound) {
                Some(value) => _ = schema.insert(flag.to_owned(), value),
                None => _ = schema.remove(flag),
            },
            Some(Value::Bool(false)) => _ = schema.remove(flag),
            Some(_) | None => {}
        }
    }
    if nullable {
        if let Some(Value::String(kind)) = schema.get("type") {
            let kinds = json!([kind, "null"]);
            schema.insert("type".to_owned(), kinds);
        }
        if let Some(Value::Array(values)) = schema.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
    }
}

/// What an object's schema says of its members, those of its `allOf` included.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) properties: Map<String, Value>,
    pub(super) required: Vec<String>,
    /// What else is said of the object as a whole.
    pub(super) rest: Map<String, Value>,
}

impl Members {
    /// Of a request's schema that [`Writer`] has written. `None` if it is not one of an object.
    pub(super) fn sent(schema: &Value) -> Option<Self> {
        let mut members = Self::answered(schema)?;
        // What only answers have is not sent.
        members.properties.retain(|_, property| property.get("readOnly") != Some(&Value::Bool(true)));
        members.required.retain(|name| members.properties.contains_key(name));
        Some(members)
    }

    /// The same of an answer's.
    pub(super) fn answered(schema: &Value) -> Option<Self> {
        let mut members = Self::default();
        members.add(schema)?;
        Some(members)
    }

    fn add(&mut self, schema: &Value) -> Option<()> {
        let schema = schema.as_object()?;
        let kind = schema.get("type");
        let object = kind.is_none_or(|kind| {
            kind == "object" || kind.as_array().is_some_and(|k| k.contains(&"object".into()))
        });
        let describes = ["properties", "allOf", "anyOf", "oneOf", "additionalProperties"];
        if !object || (kind.is_none() && !describes.iter().any(|name| schema.contains_key(*name))) {
            return None;
        }
        for (name, value) in schema {
            match (name.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    self.properties.extend(properties.clone());
                }
                ("required", Value::Array(names)) => {
                    self.required.extend(names.iter().filter_map(Value::as_str).map(str::to_owned));
                }
                ("allOf", Value::Array(parts)) => {
                    for part in parts {
                        self.add(part)?;
                    }
                }
                ("anyOf" | "oneOf" | "not" | "additionalProperties" | "minProperties", value) => {
                    self.rest.insert(name.clone(), value.clone());
                }
                _ => {}
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(version: &str) -> Document {
        Document::read(&json!({
            "openapi": version,
            "components": { "schemas": {
                "Node": { "type": "object", "properties": { "next": { "$ref": "#/components/schemas/Node" } } },
                "Wide": { "allOf": vec![json!({ "$ref": "#/components/schemas/Node" }); 8] },
                "Base": { "properties": { "id": { "type": "string", "readOnly": true }, "a": {} }, "required": ["id", "a"] },
            } },
        }))
        .unwrap()
    }

    #[test]
    fn references_are_written_out_within_bounds() {
        let document = document("3.1.0");
        let mut writer = Writer::new(&document);
        let written = writer.write(&json!({ "$ref": "#/components/schemas/Node" })).unwrap();
        assert_eq!(written["properties"]["next"]["properties"]["next"]["type"], "object");
        assert_eq!(writer.warnings.len(), 1, "{:?}", writer.warnings);
        assert!(!written.to_string().contains("$ref"));
        let wide = json!({ "allOf": vec![json!({ "$ref": "#/components/schemas/Wide" }); 64] });
        assert!(writer.write(&wide).unwrap_err().contains("more than 4000 parts"));
        assert!(Writer::new(&document).write(&json!({ "items": { "$ref": "#/x" } })).is_err());
    }

    #[test]
    fn what_only_openapi_says_is_translated() {
        let schema = json!({
            "type": "integer", "nullable": true, "minimum": 3, "exclusiveMinimum": true, "exclusiveMaximum": false,
            "enum": [4], "example": 4, "x-order": 1, "properties": { "example": { "type": "string" } },
        });
        let mut written = Writer::new(&document("3.0.3")).write(&schema).unwrap();
        let wanted = json!({
            "type": ["integer", "null"], "exclusiveMinimum": 3, "enum": [4, null],
            "properties": { "example": { "type": "string" } },
        });
        assert_eq!(written, wanted);
        written = Writer::new(&document("3.1.0")).write(&json!({ "exclusiveMinimum": 3 })).unwrap();
        assert_eq!(written, json!({ "exclusiveMinimum": 3 }));
    }

    #[test]
    fn the_members_of_an_object_are_collected() {
        let document = document("3.1.0");
        let schema = json!({
            "allOf": [{ "$ref": "#/components/schemas/Base" }, { "type": "object", "properties": { "b": {} }, "required": ["b"] }],
            "additionalProperties": false,
        });
        let written = Writer::new(&document).write(&schema).unwrap();
        let members = Members::sent(&written).unwrap();
        assert_eq!(members.properties.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(members.required, ["a", "b"]);
        assert_eq!(members.rest.keys().collect::<Vec<_>>(), ["additionalProperties"]);
        for other in
            [json!({ "type": "array" }), json!({}), json!(true), json!({ "allOf": [{ "type": "string" }] })]
        {
            assert!(Members::sent(&other).is_none(), "{other}");
        }
    }
}
