//! Which members of an input an action is judged by.

use std::collections::BTreeSet;

use oncegate_policy::impact::AmountOf;
use oncegate_policy::template::{Piece, Template};
use oncegate_policy::url_template::UrlTemplate;
use serde_json::{Map, Value};

use crate::model::{Action, KeyPlace};

/// How deep the names in a schema are looked for. A member below has a name above it that is found.
const SCHEMA_DEPTH: usize = 8;
/// What says nothing of a member by its name.
const NAMELESS: [&str; 16] = [
    "type",
    "properties",
    "required",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "$defs",
    "definitions",
];

impl Action {
    /// The dotted paths of the input members that the action is judged by: how much, on what, and which operation it is.
    #[must_use]
    pub fn judged_paths(&self) -> Vec<&str> {
        let route = self.kind.route();
        let amount =
            route.and_then(|route| route.impact.as_ref()).and_then(|impact| match &impact.amount.of {
                AmountOf::Input(path) | AmountOf::Count(path) => Some(path.as_str()),
                AmountOf::Literal(_) => None,
            });
        let key = route.and_then(|route| route.idempotency.as_ref()).and_then(|key| match &key.place {
            KeyPlace::Body(member) => Some(member.as_str()),
            KeyPlace::Header(_) => None,
        });
        let templates = self.subject.iter().chain(&self.operation_key).flat_map(Template::inputs);
        let when = self.when.iter().map(|check| check.path.as_str());
        templates.chain(amount).chain(key).chain(when).collect()
    }

    /// The same where the action declares what it sends: under a schema each input that a declared body or field is made of is
    /// judged, since a schema may speak of a member without naming it (a reference, a pattern).
    #[must_use]
    pub fn judged_where_declared(&self) -> BTreeSet<String> {
        let mut judged: BTreeSet<_> = self.judged_paths().into_iter().map(str::to_owned).collect();
        if let Some(route) = self.kind.route().filter(|_| self.input_schema.is_some()) {
            let of_fields = route.headers.iter().flat_map(|(_, template)| template.inputs());
            judged.extend(of_fields.map(str::to_owned));
            route.body.iter().for_each(|body| inputs(body, &mut judged));
        }
        judged
    }

    /// The first member that `when` asks for and the declared body says, but not under its own name: the provider reads it at
    /// another place than `when` does.
    #[must_use]
    pub fn moved_by_its_body(&self) -> Option<&str> {
        let route = self.kind.route()?;
        let body = route.body.as_ref()?;
        let mut said = BTreeSet::new();
        inputs(body, &mut said);
        // What the URL takes is read there.
        for taken in route.url.inputs() {
            said.remove(taken);
        }
        let moved = |path: &&str| said.iter().any(|said| meet(said, path)) && !stands(body, path, "");
        self.when.iter().map(|check| check.path.as_str()).find(moved)
    }

    /// The members that the declared schema asks for at its top.
    pub fn required_members(&self) -> impl Iterator<Item = &str> {
        let required = self.input_schema.as_ref().and_then(|schema| schema.get("required")?.as_array());
        required.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The dotted paths of the members that the declared schema names.
    #[must_use]
    pub fn schema_paths(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        if let Some(schema) = &self.input_schema {
            named(schema, "", SCHEMA_DEPTH, &mut found);
        }
        found
    }

    /// The dotted paths of the members of the declared `body`; `*` stands for the items of a list.
    #[must_use]
    pub fn body_paths(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        if let Some(body) = self.kind.route().and_then(|route| route.body.as_ref()) {
            written(body, "", SCHEMA_DEPTH, &mut found);
        }
        found
    }

    /// Whether the declared schema says something of a body that is not read: of more than what the URL takes, and not of
    /// `stand_in`, under which such a body stands in the input.
    #[must_use]
    pub fn schema_needs_the_body(&self, url: &UrlTemplate, stand_in: &str) -> bool {
        let Some(schema) = self.input_schema.as_ref().and_then(Value::as_object) else { return false };
        let first = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
        let named: BTreeSet<_> = self.schema_paths().iter().map(|path| first(path)).collect();
        let taken: BTreeSet<_> = url.inputs().into_iter().map(first).collect();
        let refuses_nobody = |word: &str, says: &Value| {
            NAMELESS.contains(&word) || (word == "additionalProperties" && *says == Value::Bool(true))
        };
        let nameless = schema.iter().all(|(word, says)| refuses_nobody(word, says));
        let is_of_the_url = nameless && named.is_subset(&taken);
        !is_of_the_url && !named.contains(stand_in)
    }
}

/// Collects the names in a schema's `properties` and `required`, and in the schemas that it is put together from. A name with a
/// dot in it is no path, and is left out.
fn named(schema: &Value, above: &str, depth: usize, found: &mut BTreeSet<String>) {
    let (Some(schema), Some(depth)) = (schema.as_object(), depth.checked_sub(1)) else { return };
    let path = |name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let plain = |name: &&str| !name.contains('.');
    found.extend(required.filter_map(Value::as_str).filter(plain).map(path));
    for (name, below) in members(schema, "properties").filter(|(name, _)| plain(&name.as_str())) {
        found.insert(path(name));
        named(below, &path(name), depth, found);
    }
    for items in ["items", "contains", "additionalItems"] {
        schema.get(items).into_iter().for_each(|item| named(item, &path("*"), depth, found));
    }
    let first = schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
    first.for_each(|item| named(item, &path("*"), depth, found));
    for list in ["allOf", "anyOf", "oneOf"] {
        let parts = schema.get(list).and_then(Value::as_array).into_iter().flatten();
        parts.for_each(|part| named(part, above, depth, found));
    }
    for word in ["not", "if", "then", "else"] {
        schema.get(word).into_iter().for_each(|part| named(part, above, depth, found));
    }
}

/// Whether one of the two paths is the other, or above it.
fn meet(one: &str, other: &str) -> bool {
    let above = |upper: &str, lower: &str| {
        lower.strip_prefix(upper).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    above(one, other) || above(other, one)
}

/// Collects the inputs that a template of a body is made of.
fn inputs(body: &Value, found: &mut BTreeSet<String>) {
    match body {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => {
            let template = Template::parse(text).ok();
            found.extend(template.iter().flat_map(Template::inputs).map(str::to_owned));
        }
        Value::Array(items) => items.iter().for_each(|item| inputs(item, found)),
        Value::Object(members) => members.values().for_each(|member| inputs(member, found)),
    }
}

/// Whether a template of a body puts an input, or one that it is in, where its own path says. `above` is where `body` stands.
fn stands(body: &Value, path: &str, above: &str) -> bool {
    match body {
        Value::String(text) => {
            let template = Template::parse(text).ok();
            let piece = template.as_ref().and_then(Template::only_piece);
            matches!(piece, Some(Piece::Input(own)) if own == above)
        }
        Value::Object(members) => {
            let (name, rest) = path.split_once('.').unwrap_or((path, ""));
            let place = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
            members.get(name).is_some_and(|member| stands(member, rest, &place))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

/// Collects the paths of the members of a template of a body.
fn written(body: &Value, above: &str, depth: usize, found: &mut BTreeSet<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let path = |name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
    match body {
        Value::Object(members) => {
            for (name, below) in members {
                found.insert(path(name));
                written(below, &path(name), depth, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| written(item, &path("*"), depth, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn members<'a>(schema: &'a Map<String, Value>, word: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(word).and_then(Value::as_object).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_members_of_a_schema_are_found_wherever_it_names_them() {
        let schema = json!({
            "required": ["a", "service.name"],
            "properties": {"service.name": {"properties": {"x": {}}}, "b": {"properties": {"c": {"properties": {}}}, "required": ["d"]}},
            "allOf": [{"not": {"required": ["e"]}}],
            "if": {"properties": {"f": {"const": 1, "items": {"properties": {"g": {"maximum": 1}}}}}},
        });
        let mut found = BTreeSet::new();
        named(&schema, "", SCHEMA_DEPTH, &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "b", "b.c", "b.d", "e", "f", "f.*.g"]);
    }

    #[test]
    fn an_input_stands_where_its_own_name_puts_it() {
        let body = json!({"kind": "{{input.kind}}", "to": {"who": "{{input.to.who}}", "note": "{{input.note}}"}, "card": "{{input.card}}"});
        for (path, there) in
            [("kind", true), ("to.who", true), ("card.number", true), ("note", false), ("to.note", false)]
        {
            assert_eq!(stands(&body, path, ""), there, "{path}");
        }
    }

    #[test]
    fn the_members_of_a_body_are_found_in_lists_as_well() {
        let mut found = BTreeSet::new();
        written(
            &json!({"a": 1, "b": [{"c": "{{input.x}}"}], "d": {"e": null}}),
            "",
            SCHEMA_DEPTH,
            &mut found,
        );
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "b", "b.*.c", "d", "d.e"]);
    }
}
