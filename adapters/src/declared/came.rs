//! A proxied body against what the action declares of its own: the `body` that it would build, and the type that it sends.

use oncegate_policy::body::BodyKind;
use oncegate_policy::form;
use oncegate_policy::json::{self, canonical};
use oncegate_policy::refusal::Refusal;
use oncegate_policy::template::{Piece, Scope, Template};
use serde_json::Value;

use super::{Declared, header_text, invalid};
use crate::plan::Request;

/// The field that says what the body is.
pub(super) const CONTENT_TYPE: &str = "content-type";

/// A proxied body goes as it came. So it has to say what the declared one would: else it is judged by members of the input
/// that the provider reads under other names.
///
/// # Errors
/// `invalid_input`: a body of another type than the declared one, or one that says something else than the declared body does
/// for the same input. What the declared body does not name may stand beside it.
pub(super) fn fits(declared: &Declared, request: &Request<'_>) -> Result<(), Refusal> {
    let scope = Scope::of_input(request.input);
    if let Some((_, template)) = declared.headers.iter().find(|(name, _)| name == CONTENT_TYPE)
        && is_set_by(template)
        && !request.body.is_empty()
    {
        let wanted = header_text(CONTENT_TYPE, template, &scope)?;
        if !is_of_type(request, &essence(&wanted)) {
            return Err(invalid(format!("The body must be {wanted}, as the action declares it")));
        }
    }
    let Some(template) = &declared.body else { return Ok(()) };
    let came = match request.body_kind {
        BodyKind::Empty => None,
        BodyKind::Json => json::strict(request.body).ok(),
        BodyKind::Form => form::parse(request.body).ok(),
        BodyKind::Opaque => {
            return Err(invalid("The body must be JSON or a form: the action declares what it says"));
        }
    };
    match says(template, came.as_ref(), &scope) {
        true => Ok(()),
        false => {
            Err(invalid("The body says something else than the one that the action declares for this input"))
        }
    }
}

/// Whether a header's template is set by the adapter: those with a secret are placed where the secret may go.
pub(super) fn is_set_by(template: &Template) -> bool {
    template.secrets().is_empty()
}

fn is_of_type(request: &Request<'_>, wanted: &str) -> bool {
    let json = wanted == "application/json" || wanted.ends_with("+json");
    match request.body_kind {
        BodyKind::Empty => true,
        BodyKind::Json => json,
        BodyKind::Form => wanted == "application/x-www-form-urlencoded",
        BodyKind::Opaque => request.header_values(CONTENT_TYPE).any(|own| essence(own) == wanted),
    }
}

fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether what came says what the template makes of the input, by meaning: the form's `5` is the number 5. A place whose
/// input is not there is empty in both; one that names the effect is Oncegate's alone.
fn says(template: &Value, came: Option<&Value>, scope: &Scope<'_>) -> bool {
    match (template, came) {
        (Value::Null | Value::Bool(_) | Value::Number(_), _) => came.is_some_and(|came| same(template, came)),
        (Value::String(text), _) => text_says(text, came, scope),
        (Value::Array(items), Some(Value::Array(there))) => {
            items.len() == there.len()
                && items.iter().zip(there).all(|(item, there)| says(item, Some(there), scope))
        }
        (Value::Object(members), Some(Value::Object(there))) => {
            members.iter().all(|(name, member)| says(member, there.get(name), scope))
        }
        (Value::Array(items), None) => items.iter().all(|item| says(item, None, scope)),
        (Value::Object(members), None) => members.values().all(|member| says(member, None, scope)),
        (Value::Array(_) | Value::Object(_), Some(_)) => false,
    }
}

fn text_says(text: &str, came: Option<&Value>, scope: &Scope<'_>) -> bool {
    let Ok(template) = Template::parse(text) else { return false };
    let is_own = |piece: &Piece| match piece {
        Piece::EffectId | Piece::EffectKey => true,
        Piece::Text(_) | Piece::Input(_) | Piece::Secret(_) | Piece::Response(_) => false,
    };
    if template.pieces().iter().any(is_own) {
        return came.is_none();
    }
    let absent = |path: &str| json::get(scope.input, path).is_none();
    if template.inputs().into_iter().any(absent) {
        return came.is_none();
    }
    let said = match template.only_piece() {
        Some(Piece::Input(path)) => json::get(scope.input, path).cloned(),
        Some(Piece::Text(_) | Piece::Secret(_) | Piece::EffectId | Piece::EffectKey | Piece::Response(_))
        | None => template.render(scope).ok().map(Value::String),
    };
    said.zip(came).is_some_and(|(said, came)| same(&said, came))
}

fn same(one: &Value, other: &Value) -> bool {
    canonical(one) == canonical(other)
}

#[cfg(test)]
mod tests {
    use oncegate_policy::body;
    use oncegate_policy::url_template::UrlTemplate;
    use serde_json::json;

    use super::*;

    const FORM: &str = "application/x-www-form-urlencoded";
    const JSON: &str = "application/json";

    fn pay(body: Option<Value>, content_type: &str) -> Declared {
        let headers = (!content_type.is_empty())
            .then(|| (CONTENT_TYPE.to_owned(), Template::parse(content_type).unwrap()));
        Declared {
            method: "POST".into(),
            url: UrlTemplate::parse("https://a.example/pay/{{input.to}}").unwrap(),
            headers: headers.into_iter().collect(),
            scope_headers: vec![],
            body,
            subject: None,
            impact: None,
            idempotency: None,
            verify: None,
            response: Default::default(),
        }
    }

    fn is_taken(declared: &Declared, content_type: &str, bytes: &str) -> bool {
        let (body_kind, members) = body::read(Some(content_type), bytes.as_bytes()).unwrap();
        let input = body::merge(&[("to".into(), "bob".into())], &[], members).unwrap();
        let headers = [(CONTENT_TYPE.to_owned(), content_type.to_owned())];
        let body = bytes.as_bytes();
        let request =
            Request { method: "POST", headers: &headers, query: &[], body_kind, body, input: &input };
        fits(declared, &request).is_ok()
    }

    #[test]
    fn a_body_says_what_the_declared_one_would() {
        let named = pay(
            Some(json!({"cents": "{{input.amount}}", "currency": "usd", "n": 1, "note": "{{input.note}}"})),
            "",
        );
        for (content_type, bytes, taken) in [
            (JSON, r#"{"cents":5,"currency":"usd","n":1,"amount":5}"#, true),
            (JSON, r#"{"cents":5.0,"currency":"usd","n":1.0,"amount":5,"more":true}"#, true),
            (FORM, "cents=5&currency=usd&n=1&amount=5", true),
            (JSON, r#"{"cents":5,"currency":"usd","n":1,"amount":5,"note":"x"}"#, true),
            (JSON, r#"{"cents":9000,"currency":"usd","n":1,"amount":5}"#, false),
            (JSON, r#"{"cents":5,"currency":"eur","n":1,"amount":5}"#, false),
            (JSON, r#"{"cents":5,"n":1,"amount":5}"#, false),
            (JSON, r#"{"cents":5,"currency":"usd","n":1}"#, false),
            (JSON, r#"{"currency":"usd","n":1,"amount":5}"#, false),
            (JSON, "[]", false),
            (JSON, "", false),
            ("text/plain", "x", false),
        ] {
            assert_eq!(is_taken(&named, content_type, bytes), taken, "{bytes}");
        }
        let listed = pay(
            Some(
                json!({"who": ["{{input.to}}"], "text": "to {{input.to}}: {{input.a}}", "ref": "{{effect.id}}"}),
            ),
            "",
        );
        for (bytes, taken) in [
            (r#"{"who":["bob"],"text":"to bob: x","a":"x"}"#, true),
            (r#"{"who":["bob"]}"#, true),
            (r#"{"who":["carl"],"text":"to bob: x","a":"x"}"#, false),
            (r#"{"who":["bob","carl"],"text":"to bob: x","a":"x"}"#, false),
            (r#"{"who":["bob"],"text":"to carl: x","a":"x"}"#, false),
            (r#"{"who":["bob"],"ref":"eff_1"}"#, false),
        ] {
            assert_eq!(is_taken(&listed, JSON, bytes), taken, "{bytes}");
        }
    }

    #[test]
    fn a_body_is_of_the_type_that_is_declared() {
        for (declared, content_type, bytes, taken) in [
            (JSON, JSON, "{}", true),
            (JSON, "application/json; charset=utf-8", "{}", true),
            ("application/json; charset=utf-8", "application/vnd.api+json", "{}", true),
            (JSON, FORM, "a=b", false),
            (JSON, "text/plain", "{}", false),
            (JSON, FORM, "", true),
            (FORM, FORM, "a=b", true),
            (FORM, JSON, "{}", false),
            ("multipart/form-data", "multipart/form-data; boundary=b", "--b--", true),
            ("multipart/form-data", "text/plain", "--b--", false),
            ("", "text/plain", "x", true),
        ] {
            let declared = pay(None, declared);
            assert_eq!(is_taken(&declared, content_type, bytes), taken, "{content_type} {bytes}");
        }
    }
}
