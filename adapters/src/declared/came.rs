//! A proxied body against what the action declares of its own: the `body` that it would build, and the type that it sends.

use oncegate_policy::body::BodyKind;
use oncegate_policy::form;
use oncegate_policy::json::{self, canonical};
use oncegate_policy::refusal::Refusal;
use oncegate_policy::template::{Piece, Scope, Template};
use serde_json::Value;

use super::{Declared, KeyPlace, header_text, invalid};
use crate::plan::Request;

/// The field that says what the body is.
pub(super) const CONTENT_TYPE: &str = "content-type";

/// A proxied body goes as it came. What the action is judged by (`judged`, dotted input paths) must stand there where the
/// declared body puts it, since that is where the provider reads it, and nothing may stand there that the input does not say;
/// what the declared body pins may be left out, but not be said otherwise: what holds a constant is of the same kind there, and
/// a list of the same length. Everything else goes as it came, also under other names. So it is with a declared field that an
/// agent sends itself.
///
/// # Errors
/// `invalid_input`: a body of another type than the declared one, or one that says otherwise.
pub(super) fn fits(declared: &Declared, request: &Request<'_>, judged: &[&str]) -> Result<(), Refusal> {
    let scope = Scope::of_input(request.input);
    if let Some(name) = field_of_its_own(declared, request, judged) {
        return Err(invalid(format!(
            "The header {name} is made of an input that judges, and which is not there"
        )));
    }
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
    // The provider's key is Oncegate's own, and replaces what came in its place.
    let mut template = template.clone();
    if let (Some((KeyPlace::Body(member), _)), Some(members)) =
        (&declared.idempotency, template.as_object_mut())
    {
        members.remove(member);
    }
    let taken = declared.url.inputs();
    let said = Said { scope, judged, taken: &taken };
    if said.by(&template, came.as_ref()) {
        Ok(())
    } else {
        Err(invalid("The body says something else than the one that the action declares for this input"))
    }
}

/// A declared field that an agent sends, where the input that it is to be made of judges and is not there.
fn field_of_its_own<'a>(declared: &'a Declared, request: &Request<'_>, judged: &[&str]) -> Option<&'a str> {
    let unsaid = |path: &&str| is_judged(path, judged) && json::get(request.input, path).is_none();
    let made = declared.headers.iter().filter(|(_, template)| template.inputs().iter().any(unsaid));
    let alike = |there: &str, name: &str| there.replace('_', "-") == name.replace('_', "-");
    let sent = |name: &str| request.headers.iter().any(|(there, _)| alike(there, name));
    made.map(|(name, _)| name.as_str()).find(|name| sent(name) && declared.key_header() != Some(name))
}

/// Whether a header's template is set by the adapter: those with a secret are placed where the secret may go.
pub(super) fn is_set_by(template: &Template) -> bool {
    template.secrets().is_empty()
}

/// Whether a template has a place for the effect's id or key.
pub(super) fn names_effect(template: &Template) -> bool {
    template.pieces().iter().any(|piece| match piece {
        Piece::EffectId | Piece::EffectKey => true,
        Piece::Text(_) | Piece::Input(_) | Piece::Secret(_) | Piece::Response(_) => false,
    })
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

/// What a body has to say.
struct Said<'a> {
    scope: Scope<'a>,
    /// Input paths that the action is judged by.
    judged: &'a [&'a str],
    /// Input paths that the URL takes: these are said there, and need not be said again.
    taken: &'a [&'a str],
}

impl Said<'_> {
    /// Whether what came says what the template makes of the input, by meaning: the form's `5` is the number 5.
    fn by(&self, template: &Value, came: Option<&Value>) -> bool {
        match (template, came) {
            (Value::Null | Value::Bool(_) | Value::Number(_), Some(came)) => same(template, came),
            (Value::String(text), _) => self.by_text(text, came),
            (Value::Array(items), Some(Value::Array(there))) => {
                let whole = items.len() == there.len() || !binds(template, self.judged);
                whole && items.iter().zip(there).all(|(item, there)| self.by(item, Some(there)))
            }
            (Value::Object(members), Some(Value::Object(there))) => {
                members.iter().all(|(name, member)| self.by(member, there.get(name)))
            }
            (Value::Array(items), None) => items.iter().all(|item| self.by(item, None)),
            (Value::Object(members), None) => members.values().all(|member| self.by(member, None)),
            (Value::Array(_) | Value::Object(_), Some(_)) => !binds(template, self.judged),
            (Value::Null | Value::Bool(_) | Value::Number(_), None) => true,
        }
    }

    /// One text. Where a judged member stands in it, it has to be there if its input is, and not if its input is not. One that
    /// names the effect goes as it came: [`own_marks`](crate::own_marks) looks at what an agent may not say there.
    fn by_text(&self, text: &str, came: Option<&Value>) -> bool {
        let Ok(template) = Template::parse(text) else { return false };
        if names_effect(&template) {
            return true;
        }
        let inputs = template.inputs();
        if inputs.is_empty() {
            return came.is_none_or(|came| came.as_str() == Some(text));
        }
        let is_there = |path: &str| json::get(self.scope.input, path).is_some();
        if !inputs.iter().any(|path| is_judged(path, self.judged)) {
            return true;
        }
        if came.is_none() && inputs.iter().all(|path| self.taken.contains(path)) {
            return true;
        }
        if !inputs.iter().all(|path| is_there(path)) {
            return came.is_none();
        }
        let said = match template.only_piece() {
            Some(Piece::Input(path)) => json::get(self.scope.input, path).cloned(),
            Some(
                Piece::Text(_) | Piece::Secret(_) | Piece::EffectId | Piece::EffectKey | Piece::Response(_),
            )
            | None => template.render(&self.scope).ok().map(Value::String),
        };
        said.zip(came).is_some_and(|(said, came)| same(&said, came))
    }
}

/// Whether what comes in a template's place has to be of its kind, and a list of its length: where a judged member or a constant
/// stands anywhere in it. A list or an object without anything in it is a constant.
fn binds(template: &Value, judged: &[&str]) -> bool {
    match template {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => Template::parse(text).is_ok_and(|text| {
            let inputs = text.inputs();
            let constant = inputs.is_empty() && !names_effect(&text);
            constant || inputs.iter().any(|path| is_judged(path, judged))
        }),
        Value::Array(items) => items.is_empty() || items.iter().any(|item| binds(item, judged)),
        Value::Object(members) => members.is_empty() || members.values().any(|member| binds(member, judged)),
    }
}

/// Whether one of the two paths is the other, or above it.
fn is_judged(path: &str, judged: &[&str]) -> bool {
    let above = |upper: &str, lower: &str| {
        lower.strip_prefix(upper).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    judged.iter().any(|judged| above(judged, path) || above(path, judged))
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
        fits(declared, &request, &["amount", "to"]).is_ok()
    }

    #[test]
    fn what_is_judged_stands_where_the_declared_body_puts_it() {
        let named = pay(
            Some(json!({"cents": "{{input.amount}}", "currency": "usd", "n": 1, "note": "{{input.memo}}"})),
            "",
        );
        for (content_type, bytes, taken) in [
            (JSON, r#"{"cents":5,"currency":"usd","n":1,"amount":5}"#, true),
            (JSON, r#"{"cents":5.0,"currency":"usd","n":1.0,"amount":5,"more":true}"#, true),
            (FORM, "cents=5&currency=usd&n=1&amount=5", true),
            // As the provider's own library sends it: what judges would not see it.
            (JSON, r#"{"cents":5,"currency":"usd","note":"x"}"#, false),
            (JSON, r#"{"currency":"usd","note":"x"}"#, true),
            (JSON, r#"{"cents":5,"amount":5,"note":"x","memo":"y"}"#, true),
            (JSON, "", true),
            (JSON, r#"{"cents":9000,"currency":"usd","n":1,"amount":5}"#, false),
            (JSON, r#"{"currency":"usd","n":1,"amount":5}"#, false),
            (JSON, r#"{"cents":5,"currency":"eur","n":1,"amount":5}"#, false),
            (JSON, r#"{"cents":5,"n":2,"amount":5}"#, false),
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
            (r#"{"who":["carl"],"text":"to bob: x","a":"x"}"#, false),
            (r#"{"who":["bob","carl"],"text":"to bob: x","a":"x"}"#, false),
            (r#"{"who":"bob","text":"to bob: x","a":"x"}"#, false),
            (r#"{"who":["bob"],"text":"to carl: x","a":"x"}"#, false),
            (r#"{"who":["bob"],"text":"to bob: x","a":"x","ref":"mine"}"#, true),
            (r#"{"who":["bob"]}"#, true),
            ("[]", false),
            // The URL says who.
            (r#"{"who":[]}"#, false),
            ("{}", true),
        ] {
            assert_eq!(is_taken(&listed, JSON, bytes), taken, "{bytes}");
        }
    }

    fn grant() -> Declared {
        let body = json!({
            "scopes": ["read"],
            "opts": {"dry_run": true, "note": "{{input.memo}}"},
            "lines": [{"price": "{{input.price}}", "currency": "usd"}],
            "none": [],
            "extra": {},
            "tags": ["{{input.tag}}"],
            "more": {"note": "{{input.memo}}"},
            "marks": ["{{effect.id}}"],
        });
        pay(Some(body), "")
    }

    /// One item more, or another kind of value, is the right that the declaration keeps back.
    #[test]
    fn p5_what_is_pinned_in_a_list_or_an_object_is_not_said_otherwise() {
        for (content_type, bytes) in [
            (JSON, r#"{"scopes":["read","admin"]}"#),
            (JSON, r#"{"scopes":[]}"#),
            (JSON, r#"{"scopes":"admin"}"#),
            (JSON, r#"{"scopes":null}"#),
            (JSON, r#"{"scopes":{"0":"admin"}}"#),
            (JSON, r#"{"scopes":{"0":"read"}}"#),
            (JSON, r#"{"opts":[{"dry_run":false}]}"#),
            (JSON, r#"{"opts":"dry_run=false"}"#),
            (JSON, r#"{"opts":[]}"#),
            (JSON, r#"{"opts":null}"#),
            (JSON, r#"{"lines":[{"currency":"usd"},{"currency":"eur"}]}"#),
            (JSON, r#"{"lines":{"3":{"currency":"eur"}}}"#),
            (JSON, r#"{"none":["admin"]}"#),
            (JSON, r#"{"extra":"x"}"#),
            (JSON, r#"[{"scopes":["admin"]}]"#),
            (FORM, "scopes[]=read&scopes[]=admin"),
            (FORM, "scopes[1]=admin"),
            (FORM, "scopes[0]=read&scopes[5]=admin"),
            (FORM, "scopes=admin"),
            (FORM, "opts=x"),
            (FORM, "opts[]=x"),
        ] {
            assert!(!is_taken(&grant(), content_type, bytes), "{bytes}");
        }
    }

    #[test]
    fn what_is_pinned_may_be_left_out_and_what_is_not_goes_as_it_came() {
        for (content_type, bytes) in [
            (JSON, r#"{"scopes":["read"],"opts":{"dry_run":true,"more":1},"none":[],"extra":{}}"#),
            (JSON, r#"{"lines":[{"price":5,"currency":"usd","more":1}],"extra":{"a":1}}"#),
            (JSON, r#"{"lines":[{"price":5}],"opts":{}}"#),
            (JSON, "{}"),
            (FORM, "scopes[]=read&opts[dry_run]=true&lines[0][currency]=usd"),
            (JSON, r#"{"tags":["a","b"],"more":"text","marks":[]}"#),
            (JSON, r#"{"tags":"a","more":[],"marks":null}"#),
        ] {
            assert!(is_taken(&grant(), content_type, bytes), "{bytes}");
        }
    }

    #[test]
    fn a_field_that_a_judged_input_makes_is_no_agents_to_send() {
        let made = Declared {
            headers: vec![("x-amount".into(), Template::parse("{{input.amount}}").unwrap())],
            ..pay(None, "")
        };
        for (body, field, taken) in [
            (r#"{"amount":5}"#, Some("x-amount"), true),
            (r#"{"amount":5}"#, None, true),
            ("{}", None, true),
            ("{}", Some("x-other"), true),
            ("{}", Some("x-amount"), false),
            ("{}", Some("x_amount"), false),
        ] {
            let (body_kind, input) = body::read(Some(JSON), body.as_bytes()).unwrap();
            let headers: Vec<_> =
                field.into_iter().map(|name| (name.to_owned(), "90000".to_owned())).collect();
            let body = body.as_bytes();
            let request =
                Request { method: "POST", headers: &headers, query: &[], body_kind, body, input: &input };
            assert_eq!(fits(&made, &request, &["amount"]).is_ok(), taken, "{field:?}");
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
