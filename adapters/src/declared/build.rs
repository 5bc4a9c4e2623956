//! The request for an input that came without one.

use oncegate_policy::json;
use oncegate_policy::refusal::Refusal;
use oncegate_policy::template::{Piece, RenderFault, Scope, Template};
use serde_json::{Map, Value};

use super::{Declared, cannot_render, header_text, invalid};
use crate::built::{Built, plain_header};
use crate::form_body;

pub(super) fn build(declared: &Declared, input: &Value, scope: &Scope<'_>) -> Result<Built, Refusal> {
    let scope = Scope { input, ..*scope };
    let method = declared.method.clone();
    let url = declared.url.build(&scope).map_err(|fault| cannot_render(&fault))?;
    let mut headers = declared.headers.clone();
    for (name, template) in headers.iter().filter(|(_, template)| template.secrets().is_empty()) {
        header_text(name, template, &scope)?;
    }
    let content = match &declared.body {
        Some(template) => Some(fill(template, &scope)?),
        None => what_is_left(declared, input),
    };
    let Some(content) = content else { return Ok(Built { method, url, headers, body: None }) };
    let content_type = headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value);
    let body = encode(&content, content_type)?;
    if content_type.is_none() {
        headers.push(plain_header("content-type", "application/json"));
    }
    Ok(Built { method, url, headers, body: Some(body) })
}

/// JSON, or a form where the declared type says so.
fn encode(content: &Value, content_type: Option<&Template>) -> Result<Vec<u8>, Refusal> {
    let is_form = content_type.is_some_and(|value| {
        value.to_string().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded")
    });
    match (is_form, content) {
        (false, _) => Ok(content.to_string().into_bytes()),
        (true, Value::Object(members)) => form_body::encode(members).map_err(invalid),
        (true, _) => Err(invalid("Only an object can be sent as a form")),
    }
}

/// The template with the input in its places. A text that is one placeholder and nothing else takes the value as it
/// is; any other becomes text.
fn fill(template: &Value, scope: &Scope<'_>) -> Result<Value, Refusal> {
    match template {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(template.clone()),
        Value::String(text) => fill_text(text, scope),
        Value::Array(items) => items.iter().map(|item| fill(item, scope)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| Ok((name.clone(), fill(member, scope)?)))
            .collect::<Result<Map<_, _>, _>>()
            .map(Value::Object),
    }
}

fn fill_text(text: &str, scope: &Scope<'_>) -> Result<Value, Refusal> {
    let template = Template::parse(text).map_err(invalid)?;
    if let Some(Piece::Input(path)) = template.only_piece() {
        let absent = || cannot_render(&RenderFault::Absent { path: format!("input.{path}") });
        return json::get(scope.input, path).cloned().ok_or_else(absent);
    }
    template.render(scope).map(Value::String).map_err(|fault| cannot_render(&fault))
}

/// What the URL did not take: what a proxied request of the same meaning would carry in its body.
fn what_is_left(declared: &Declared, input: &Value) -> Option<Value> {
    let mut left = input.clone();
    for path in declared.url.inputs() {
        take_out(&mut left, path);
    }
    let empty = left.as_object().is_some_and(Map::is_empty);
    let bodiless = matches!(declared.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "DELETE");
    (!(empty && bodiless)).then_some(left)
}

/// Removes the member at a dotted path, and the objects above it that are empty then.
fn take_out(value: &mut Value, path: &str) {
    let Value::Object(members) = value else { return };
    let Some((name, below)) = path.split_once('.') else {
        members.remove(path);
        return;
    };
    let Some(inner) = members.get_mut(name) else { return };
    take_out(inner, below);
    if inner.as_object().is_some_and(Map::is_empty) {
        members.remove(name);
    }
}
