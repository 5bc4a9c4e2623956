//! The document itself: read within bounds, with references that lead nowhere but into it.

use serde_json::Value;

use crate::definition::Problem;

/// References that one value may go through.
const HOPS_MAX: usize = 16;
/// Values of a YAML text, and aliases among them: an alias repeats what it names.
const YAML_NODES_MAX: usize = 100_000;
const YAML_ALIASES_MAX: usize = 1_000;
/// Bytes that aliases may copy.
const YAML_COPIED_MAX: usize = 4 << 20;
const FIELD: &str = "spec";

/// An OpenAPI 3 document.
#[derive(Debug)]
pub(super) struct Document {
    root: Value,
    /// 3.0 has a dialect of JSON Schema of its own.
    pub(super) is_3_0: bool,
}

impl Document {
    /// An object, or JSON or YAML as text.
    pub(super) fn read(spec: &Value) -> Result<Self, Problem> {
        let root = spec.as_str().map_or_else(|| Ok(spec.clone()), parsed)?;
        let version = root.get("openapi").and_then(Value::as_str).unwrap_or_default();
        if !version.starts_with("3.") {
            let message = "`spec` is not an OpenAPI 3.x document: its `openapi` must begin with `3.`";
            return Err(Problem::new(FIELD, message));
        }
        let is_3_0 = version.starts_with("3.0");
        Ok(Self { root, is_3_0 })
    }

    /// What stands at the root.
    pub(super) fn get(&self, name: &str) -> &Value {
        self.root.get(name).unwrap_or(&Value::Null)
    }

    /// The value, or what its `$ref` leads to.
    pub(super) fn resolve<'a>(&'a self, value: &'a Value) -> Result<&'a Value, String> {
        let mut value = value;
        for _ in 0..HOPS_MAX {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return Ok(value) };
            value = self.at(reference)?;
        }
        Err(format!("a `$ref` leads on more than {HOPS_MAX} times"))
    }

    /// What a reference names: a JSON pointer into this document (RFC 6901).
    pub(super) fn at(&self, reference: &str) -> Result<&Value, String> {
        let missing = || format!("`$ref: {reference}` is not in this document");
        let pointer = reference.strip_prefix('#').ok_or_else(missing)?;
        let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8().map_err(|_| missing())?;
        self.root.pointer(&pointer).ok_or_else(missing)
    }
}

/// JSON first: it is stricter, and the common case.
fn parsed(text: &str) -> Result<Value, Problem> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|fault| not_read("JSON", &fault));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: YAML_NODES_MAX,
            max_aliases: YAML_ALIASES_MAX,
            max_anchors: YAML_ALIASES_MAX,
            max_recorded_anchor_events: YAML_NODES_MAX,
            max_recorded_anchor_bytes: YAML_COPIED_MAX,
            max_documents: 1,
        },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|fault| not_read("YAML", &fault))
}

fn not_read(kind: &str, fault: &dyn std::fmt::Display) -> Problem {
    Problem::new(FIELD, format!("`spec` is not {kind}: {fault}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_yaml_and_an_object_are_the_same() {
        let yaml = "openapi: 3.0.3\npaths:\n  /a:\n    get:\n      responses:\n        200: {description: ok, x: 1.5}\n";
        let document = Document::read(&yaml.into()).unwrap();
        assert!(document.is_3_0);
        let object = json!({
            "openapi": "3.0.3",
            "paths": { "/a": { "get": { "responses": { "200": { "description": "ok", "x": 1.5 } } } } },
        });
        assert_eq!(document.root, object);
        assert_eq!(Document::read(&object.to_string().into()).unwrap().root, object);
    }

    #[test]
    fn other_documents_are_refused() {
        let bomb: String = (1..40).fold("openapi: 3.1.0\na0: &a0 [x, x]\n".to_owned(), |text, n| {
            let m = n - 1;
            format!("{text}a{n}: &a{n} [*a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}]\n")
        });
        for text in ["", "{", "a: [", "openapi: 2.0", "swagger: '2.0'", "- 1", "{\"openapi\": 3.1}", &bomb] {
            assert_eq!(Document::read(&text.into()).unwrap_err().field, "spec", "{text}");
        }
        assert!(Document::read(&json!(7)).is_err());
    }

    #[test]
    fn references_stay_inside() {
        let document = Document::read(&json!({
            "openapi": "3.1.0", "a/b": { "$ref": "#/c" }, "c": { "$ref": "#/d" }, "d": 7,
            "loop": { "$ref": "#/loop" }, "out": { "$ref": "https://example.com/x" }, "gone": { "$ref": "#/no" },
        }))
        .unwrap();
        assert_eq!(document.resolve(&json!({ "$ref": "#/a~1b" })), Ok(&json!(7)));
        for name in ["loop", "out", "gone"] {
            assert!(document.resolve(document.get(name)).is_err(), "{name}");
        }
    }
}
