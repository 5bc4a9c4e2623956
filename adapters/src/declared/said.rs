//! What a request says, whichever effect it makes and whichever way it was asked for: repeats are known by it.

use std::borrow::Cow;

use oncegate_policy::id::EffectId;
use oncegate_policy::json::{self, canonical};
use oncegate_policy::refusal::Refusal;
use oncegate_policy::template::Template;
use serde_json::{Value, json};

use super::{Declared, came};
use crate::plan::Request;

/// How an effect's id begins, how long one is, and what stands before it in a provider's key.
const ID: &str = "eff_";
const ID_BYTES: usize = ID.len() + 26;
const KEY: &str = "oncegate-";

/// What a body says without the places that name the effect: each try has a name and a key of its own there. A text that
/// says something else besides is kept without these.
pub(super) fn without_marks<'a>(declared: &Declared, said: &'a Value) -> Cow<'a, Value> {
    let marked = declared.body.as_ref().filter(|template| names_effect(template));
    let Some(template) = marked else { return Cow::Borrowed(said) };
    let mut said = said.clone();
    if template.is_object() {
        unmark(template, &mut said);
    } else {
        // Such a body is read into one member.
        unmark(&json!({ "body": template }), &mut said);
    }
    Cow::Owned(said)
}

/// The declared fields that say what the request itself does not: made of an input that is neither in the URL nor in the
/// body, they make another request of the same words. Those in `scope_headers` do anyway.
pub(super) fn in_fields(
    declared: &Declared,
    request: &Request<'_>,
    said: &Value,
) -> Result<Vec<(String, String)>, Refusal> {
    let mut fields = Vec::new();
    for (name, template) in &declared.headers {
        let inputs = template.inputs();
        let known = declared.scope_headers.contains(name);
        if known || inputs.iter().all(|path| json::get(said, path).is_some()) {
            continue;
        }
        if came::is_set_by(template) {
            let of_the_field = request.scope(&[name])?.into_iter();
            fields.extend(of_the_field.map(|(name, value)| (name, without_ids(&value))));
        } else {
            // The secret in it is no part of what is said.
            let values = inputs.iter().filter_map(|path| json::get(request.input, path));
            fields.extend(values.map(|value| (name.clone(), canonical(value))));
        }
    }
    Ok(fields)
}

/// Whether a template of a body has a place for the effect's id or key.
fn names_effect(template: &Value) -> bool {
    match template {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => Template::parse(text).is_ok_and(|text| came::names_effect(&text)),
        Value::Array(items) => items.iter().any(names_effect),
        Value::Object(members) => members.values().any(names_effect),
    }
}

/// Takes the effect's places out. `false`: nothing is left of it, and with it goes the member that it is.
fn unmark(template: &Value, said: &mut Value) -> bool {
    match (template, said) {
        (Value::String(text), said) => unmark_text(text, said),
        // As if it were not there.
        (template, Value::Null) if is_all_marks(template) => false,
        (Value::Array(items), Value::Array(there)) => {
            for (item, there) in items.iter().zip(there.iter_mut()) {
                if !unmark(item, there) {
                    *there = Value::Null;
                }
            }
            // Whoever leaves the effect's place out has none at the end.
            while there.last().is_some_and(Value::is_null) && is_mark_at(items, there.len()) {
                there.pop();
            }
            !(there.is_empty() && is_all_marks(template))
        }
        // As a form writes a list.
        (Value::Array(items), Value::Object(there)) => {
            for (at, item) in items.iter().enumerate() {
                if let Some(there) = there.get_mut(&at.to_string())
                    && !unmark(item, there)
                {
                    *there = Value::Null;
                }
            }
            let at_the_end = items.iter().enumerate().rev().take_while(|(_, item)| is_all_marks(item));
            let no_more = there.len() <= items.len();
            for (at, _) in at_the_end.filter(|_| no_more) {
                there.remove(&at.to_string());
            }
            !(there.is_empty() && is_all_marks(template))
        }
        (Value::Object(members), Value::Object(there)) => {
            let before = there.len();
            for (name, member) in members {
                if there.get_mut(name).is_some_and(|there| !unmark(member, there)) {
                    there.remove(name);
                }
            }
            // A proxied request that leaves the effect's place out has no object around it, either.
            !(there.is_empty() && (before > 0 || members.values().any(names_effect)))
        }
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_), _) => true,
    }
}

/// Whether nothing but the effect's places stands there.
fn is_all_marks(template: &Value) -> bool {
    match template {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => {
            Template::parse(text).is_ok_and(|text| came::names_effect(&text) && text.inputs().is_empty())
        }
        Value::Array(items) => !items.is_empty() && items.iter().all(is_all_marks),
        Value::Object(members) => !members.is_empty() && members.values().all(is_all_marks),
    }
}

/// Whether the last of so many items has the effect's place alone.
fn is_mark_at(items: &[Value], length: usize) -> bool {
    length.checked_sub(1).and_then(|at| items.get(at)).is_some_and(is_all_marks)
}

fn unmark_text(text: &str, said: &mut Value) -> bool {
    let Ok(template) = Template::parse(text) else { return true };
    if !came::names_effect(&template) {
        return true;
    }
    if let Value::String(text) = said {
        *text = without_ids(text);
    }
    !template.inputs().is_empty()
}

/// A text without what an effect's id or key is.
fn without_ids(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(ID) {
        let (before, from) = rest.split_at(at);
        let id = from.get(..ID_BYTES).filter(|id| EffectId::parse(id).is_some());
        left.push_str(id.and_then(|_| before.strip_suffix(KEY)).unwrap_or(before));
        let (taken, kept) = id.map_or((ID.len(), ID), |_| (ID_BYTES, ""));
        left.push_str(kept);
        rest = from.get(taken..).unwrap_or_default();
    }
    left.push_str(rest);
    left
}

#[cfg(test)]
mod tests {
    use oncegate_policy::url_template::UrlTemplate;

    use super::*;

    fn declared(body: Value) -> Declared {
        Declared {
            method: "POST".into(),
            url: UrlTemplate::parse("https://a.example/pay").unwrap(),
            headers: Vec::new(),
            scope_headers: Vec::new(),
            body: Some(body),
            subject: None,
            impact: None,
            idempotency: None,
            verify: None,
            response: Default::default(),
        }
    }

    #[test]
    fn p6_a_place_in_a_list_counts_for_nothing() {
        let body = declared(
            json!({ "n": "{{input.n}}", "tags": ["paid", "{{effect.id}}"], "refs": ["{{effect.id}}"],
            "m": { "a": "{{effect.id}}" } }),
        );
        let without = |said: &Value| without_marks(&body, said).into_owned();
        let left = json!({ "n": 5, "tags": ["paid"] });
        for said in [
            json!({ "n": 5, "tags": ["paid", "eff_x"], "refs": ["eff_x"], "m": { "a": "eff_x" } }),
            json!({ "n": 5, "tags": ["paid", null], "refs": [null], "m": { "a": null } }),
            json!({ "n": 5, "tags": ["paid"], "refs": [], "m": null }),
            json!({ "n": 5, "tags": ["paid"], "refs": null, "m": {} }),
            json!({ "n": 5, "tags": ["paid"] }),
        ] {
            assert_eq!(without(&said), left, "{said}");
        }
        let form = json!({ "n": 5, "tags": { "0": "paid", "1": "x" }, "refs": { "0": "x" } });
        assert_eq!(without(&form), json!({ "n": 5, "tags": { "0": "paid" } }));
        let more = json!({ "n": 5, "tags": ["paid", "x", "late"] });
        assert_eq!(without(&more), json!({ "n": 5, "tags": ["paid", null, "late"] }));
    }

    #[test]
    fn p6_a_request_says_the_same_whichever_effect_it_names() {
        const ID: &str = "eff_01JD7Z0000000000000000000A";
        let template = json!({
            "n": "{{input.n}}",
            "ref": "{{effect.id}}",
            "meta": { "ref": "our {{effect.key}}" },
            "note": "{{input.note}} ({{effect.key}})",
            "list": ["{{effect.id}}", { "ref": "{{effect.id}}" }, "{{input.n}}"],
        });
        let built = json!({
            "n": 5, "ref": ID, "meta": { "ref": format!("our oncegate-{ID}") },
            "note": format!("to eff_x (oncegate-{ID})"), "list": [ID, { "ref": ID }, 5],
        });
        let left = json!({ "n": 5, "note": "to eff_x ()", "list": [null, null, 5] });
        let without = |said: &Value| without_marks(&declared(template.clone()), said).into_owned();
        assert_eq!(without(&built), left);
        // What an agent puts in these places is no part of it, and it may leave them out.
        let came = json!({
            "n": 5, "meta": {}, "note": "to eff_x ()", "list": { "0": "x", "1": { "ref": 7 }, "2": 5 },
        });
        assert_eq!(
            without(&came),
            json!({ "n": 5, "note": "to eff_x ()", "list": { "0": null, "1": null, "2": 5 } })
        );
        // All else is: what stands beside them, and what is said under other names.
        for other in [
            json!({ "n": 6, "ref": ID }),
            json!({ "n": 5, "meta": { "ref": ID, "more": 1 } }),
            json!({ "n": 5, "note": format!("to bob (oncegate-{ID})") }),
            json!({ "n": 5, "Ref": ID }),
        ] {
            assert_ne!(without(&other), left, "{other}");
        }
        assert_eq!(without(&json!({ "meta": { "more": 1, "ref": ID } })), json!({ "meta": { "more": 1 } }));
        let text = declared(json!("for {{input.n}}: {{effect.id}}"));
        assert_eq!(
            *without_marks(&text, &json!({ "body": format!("for 5: {ID}") })),
            json!({ "body": "for 5: " })
        );
        let unmarked = declared(json!({ "ref": "{{input.ref}}" }));
        assert_eq!(*without_marks(&unmarked, &built), built, "an effect's id that is the agent's to say");
    }
}
