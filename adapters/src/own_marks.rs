//! Marks are set by Oncegate alone. One that an agent wrote, moved or took away itself would be found in the place of what
//! was lost: it could free its own hold, or settle what it is not sure of (P8). So no request may name one, whichever
//! action it belongs to.

use oncegate_policy::body::BodyKind;
use oncegate_policy::refusal::{Code, Refusal};
use serde_json::Value;

use crate::github_file::TRAILER;
use crate::plan::Request;
use crate::resend_email::agent_mark;
use crate::stripe;

/// Stripe's metadata member, and the name of Resend's tag.
pub(crate) const MARK: &str = "oncegate_effect";
/// How every effect's id begins.
const ANY_EFFECT: &str = "eff_";
/// What stands before it in the key that its provider gets.
const KEY_BEGIN: &str = "oncegate-";
/// And how many letters and digits follow.
const ULID_LETTERS: usize = 26;

const STRIPE: &str = "api.stripe.com";
const RESEND: &str = "api.resend.com";
const GITHUB: &str = "api.github.com";

/// Of a request as it leaves, whatever made it: what came, or a template that joins what came. It may carry this very effect's
/// marks, which nobody can know before.
///
/// # Errors
/// `invalid_input`
pub fn only_of(own: &str, host: &str, request: &Request<'_>) -> Result<(), Refusal> {
    no_member(request.input, Some(own))?;
    let mut texts = request.headers.iter().chain(request.query).map(|(_, value)| value);
    if texts.any(|text| is_key_of_another(text, own)) || holds_a_key_of_another(request.input, own) {
        return Err(invalid("A key that is another effect's"));
    }
    match host {
        STRIPE => stripe::can_be_read(request),
        RESEND => is_read(request, "Resend").and_then(|()| no_agent(request, Some(own))),
        GITHUB => is_read(request, "GitHub").and_then(|()| no_trailer(request.input, Some(own))),
        _ => Ok(()),
    }
}

/// Whether a text is another effect's key, alone or in the quotes of a structured field: a provider that reads its key there
/// would take what is sent for that effect.
fn is_key_of_another(text: &str, own: &str) -> bool {
    let text = text.trim();
    let text = text.strip_prefix('"').unwrap_or(text).trim_start();
    let Some((begin, effect)) = text.split_at_checked(KEY_BEGIN.len()) else { return false };
    let is_effect = effect.get(..ANY_EFFECT.len()).is_some_and(|any| any.eq_ignore_ascii_case(ANY_EFFECT));
    let is_own = !own.is_empty() && effect.starts_with(own);
    begin.eq_ignore_ascii_case(KEY_BEGIN) && is_effect && !is_own
}

/// The same of any text in a value.
fn holds_a_key_of_another(value: &Value, own: &str) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => is_key_of_another(text, own),
        Value::Array(items) => items.iter().any(|item| holds_a_key_of_another(item, own)),
        Value::Object(members) => members
            .iter()
            .any(|(name, member)| is_key_of_another(name, own) || holds_a_key_of_another(member, own)),
    }
}

/// Whether a value is, or holds as a member, an effect's key: what is sent under one is in the place of its effect.
#[must_use]
pub fn holds_a_key(value: &Value) -> bool {
    holds_a_key_of_another(value, "")
}

/// What is not read could hold a mark, and these providers may read it as JSON whatever its type says.
fn is_read(request: &Request<'_>, provider: &str) -> Result<(), Refusal> {
    match request.body_kind {
        BodyKind::Empty | BodyKind::Form | BodyKind::Json => Ok(()),
        BodyKind::Opaque => {
            let sentence = format!("{provider} must be asked with JSON. Nothing was sent.");
            Err(Refusal::new(Code::InvalidInput, sentence))
        }
    }
}

/// No member of the mark's name at any depth, and no tag of that name. `own` is the one effect that may be named.
pub(crate) fn no_member(value: &Value, own: Option<&str>) -> Result<(), Refusal> {
    let is_own = |marked: Option<&Value>| own.is_some() && marked.and_then(Value::as_str) == own;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        Value::Array(items) => items.iter().try_for_each(|item| no_member(item, own)),
        Value::Object(members) => {
            let tag = members.get("name").and_then(Value::as_str) == Some(MARK);
            if tag && !is_own(members.get("value")) {
                return Err(invalid(format!("The tag {MARK}")));
            }
            members.iter().try_for_each(|(name, member)| {
                match name.to_ascii_lowercase().contains(MARK) && !is_own(Some(member)) {
                    true => Err(invalid(format!("metadata[{MARK}]"))),
                    false => no_member(member, own),
                }
            })
        }
    }
}

/// No effect's id in `User-Agent`, as Resend's logs show it.
pub(crate) fn no_agent(request: &Request<'_>, own: Option<&str>) -> Result<(), Refusal> {
    let own = own.map(agent_mark);
    let marks = |token: &str| token.contains(&agent_mark(ANY_EFFECT)) && Some(token) != own.as_deref();
    match request.header_values("user-agent").flat_map(|value| value.split(' ')).any(marks) {
        true => Err(invalid("An effect's id in User-Agent")),
        false => Ok(()),
    }
}

/// No mark of GitHub's in any text: a commit's trailer and the comment below an issue begin alike.
pub(crate) fn no_trailer(value: &Value, own: Option<&str>) -> Result<(), Refusal> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) => no_trailer_in(text, own),
        Value::Array(items) => items.iter().try_for_each(|item| no_trailer(item, own)),
        Value::Object(members) => members.iter().try_for_each(|(name, member)| {
            no_trailer_in(name, own)?;
            no_trailer(member, own)
        }),
    }
}

fn no_trailer_in(text: &str, own: Option<&str>) -> Result<(), Refusal> {
    let begin = format!("{TRAILER}:").to_ascii_lowercase();
    let text = text.to_ascii_lowercase();
    let own = own.map(|own| format!("{begin} {}", own.to_ascii_lowercase()));
    let left = own.map_or(text.clone(), |own| text.replace(&own, ""));
    match left.contains(&begin) {
        true => Err(invalid(format!("The mark {TRAILER}"))),
        false => Ok(()),
    }
}

/// No other effect's id, which its key ends with too, in any text of a request to a server whose objects are read back by it:
/// wherever the provider looks for what it is asked for, it would find this one in the place of what was lost. `own` is
/// the effect that the request makes; an empty one for what makes none.
///
/// # Errors
/// `invalid_input`
pub fn no_other_effect(own: &str, request: &Request<'_>) -> Result<(), Refusal> {
    // What is said to Oncegate goes no further.
    let sent = |name: &str| !name.starts_with("oncegate-");
    let fields = request.headers.iter().filter(|(name, _)| sent(name));
    let said = fields
        .chain(request.query)
        .any(|(name, value)| is_of_another(name, own) || is_of_another(value, own));
    let opaque =
        request.body_kind == BodyKind::Opaque && is_of_another(&String::from_utf8_lossy(request.body), own);
    match said || opaque || any_is_of_another(request.input, own) {
        true => Err(invalid("Another effect's id, by which what this action made is looked for,")),
        false => Ok(()),
    }
}

fn any_is_of_another(value: &Value, own: &str) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => is_of_another(text, own),
        Value::Array(items) => items.iter().any(|item| any_is_of_another(item, own)),
        Value::Object(members) => {
            members.iter().any(|(name, member)| is_of_another(name, own) || any_is_of_another(member, own))
        }
    }
}

/// Whether a text holds an effect's id that is not `own`. In any case: a provider may search like that.
fn is_of_another(text: &str, own: &str) -> bool {
    let is_id = |rest: &str| {
        rest.bytes().take(ULID_LETTERS).filter(u8::is_ascii_alphanumeric).count() == ULID_LETTERS
    };
    let lower = text.to_ascii_lowercase();
    lower.match_indices(ANY_EFFECT).any(|(at, _)| {
        let rest = lower.get(at + ANY_EFFECT.len()..).unwrap_or_default();
        let is_own = !own.is_empty() && text.get(at..).unwrap_or_default().starts_with(own);
        is_id(rest) && !is_own
    })
}

fn invalid(what: impl std::fmt::Display) -> Refusal {
    let sentence = format!("{what} is set by Oncegate and may not be sent. Nothing was sent.");
    Refusal::new(Code::InvalidInput, sentence)
}

#[cfg(test)]
mod tests {
    use oncegate_policy::body;
    use serde_json::json;

    use super::*;

    fn refused(host: &str, content_type: &str, body: &str, agent: &str) -> Option<Code> {
        let (body_kind, input) = body::read(Some(content_type), body.as_bytes()).unwrap();
        let headers = [("user-agent".to_owned(), agent.to_owned())];
        let body = body.as_bytes();
        let request =
            Request { method: "POST", headers: &headers, query: &[], body_kind, body, input: &input };
        only_of("eff_1", host, &request).err().map(|refusal| refusal.code)
    }

    #[test]
    fn no_request_carries_another_effects_mark() {
        const FORM: &str = "application/x-www-form-urlencoded";
        const JSON: &str = "application/json";
        let no = Some(Code::InvalidInput);
        for (host, content_type, body, code) in [
            ("shop.example", FORM, "metadata[oncegate_effect]=", no),
            ("shop.example", FORM, "metadata%5Boncegate_effect%5D=eff_2", no),
            ("shop.example", FORM, "metadata[oncegate_effect][]=eff_1", no),
            ("shop.example", FORM, "metadata[oncegate_effect]=eff_1", None),
            ("shop.example", JSON, r#"{"metadata":{"oncegate_effect":null}}"#, no),
            ("shop.example", JSON, r#"{"metadata":{"Oncegate_Effect ":"x"}}"#, no),
            ("shop.example", JSON, r#"{"metadata[oncegate_effect]":"eff_2"}"#, no),
            ("shop.example", JSON, r#"{"payment_intent_data":{"metadata":{"oncegate_effect":"eff_2"}}}"#, no),
            ("shop.example", JSON, r#"{"tags":[{"name":"oncegate_effect","value":"eff_2"}]}"#, no),
            ("shop.example", JSON, r#"{"tags":[{"name":"oncegate_effect","value":"eff_1"}]}"#, None),
            ("shop.example", JSON, r#"{"key":"oncegate-eff_2"}"#, no),
            ("shop.example", FORM, "a[b]=oncegate-eff_2", no),
            ("shop.example", JSON, r#"{"oncegate-eff_2":1}"#, no),
            ("shop.example", JSON, r#"{"key":"oncegate-eff_1","text":"of oncegate-eff_2"}"#, None),
            ("shop.example", JSON, r#"{"text":"see oncegate_effect","metadata":""}"#, None),
            ("shop.example", JSON, r#"{"text":"Oncegate-Effect: eff_2"}"#, None),
            ("shop.example", "text/plain", "metadata[oncegate_effect]=", None),
            (STRIPE, FORM, "metadata=", no),
            (STRIPE, FORM, "metadata[a]=b", None),
            (STRIPE, "text/plain", "metadata[oncegate_effect]=", no),
            (GITHUB, JSON, r#"{"message":"x\n\nOncegate-effect: eff_2"}"#, no),
            (GITHUB, JSON, r#"{"files":[{"text":"<!-- oncegate-effect:eff_1 -->"}]}"#, no),
            (GITHUB, JSON, r#"{"message":"x\n\nOncegate-Effect: eff_1"}"#, None),
            (GITHUB, JSON, r#"{"Oncegate-Effect: eff_2":"x"}"#, no),
            (GITHUB, "text/plain", "x", no),
            (RESEND, "text/plain", "x", no),
            ("shop.example", JSON, r#"{"key":"Oncegate-eff_2"}"#, no),
        ] {
            assert_eq!(refused(host, content_type, body, "curl/8"), code, "{host} {body}");
        }
        for (host, agent, code) in [
            (RESEND, "curl/8 oncegate/eff_2", no),
            (RESEND, "oncegate/eff_1x", no),
            (RESEND, "curl/8 oncegate/eff_1", None),
            ("shop.example", "oncegate/eff_2", None),
            ("shop.example", "oncegate-eff_2", no),
            ("shop.example", "\"oncegate-eff_2\"", no),
            ("shop.example", "oncegate-eff_1", None),
        ] {
            assert_eq!(refused(host, JSON, "{}", agent), code, "{host} {agent}");
        }
    }

    #[test]
    fn an_agent_can_name_no_effect_of_its_own() {
        for input in [json!({"metadata": {MARK: "eff_1"}}), json!({"a": [{"name": MARK, "value": "eff_1"}]})]
        {
            assert!(no_member(&input, None).is_err(), "{input}");
        }
        assert!(no_trailer(&json!({"message": "x\n\nOncegate-Effect: eff_1"}), None).is_err());
        assert!(no_trailer(&json!({"message": "of an Oncegate effect"}), None).is_ok());
    }

    #[test]
    fn what_is_read_back_by_its_effect_names_no_other_one() {
        const OWN: &str = "eff_01J0000000000000000000000A";
        let names = |body: &str, agent: &str, query: &str| {
            let (body_kind, input) = body::read(Some("application/json"), body.as_bytes()).unwrap();
            let headers = [
                ("user-agent".to_owned(), agent.to_owned()),
                ("oncegate-compensates".to_owned(), "eff_01J0000000000000000000000B".to_owned()),
            ];
            let query = [("q".to_owned(), query.to_owned())];
            let body = body.as_bytes();
            let request =
                Request { method: "POST", headers: &headers, query: &query, body_kind, body, input: &input };
            no_other_effect(OWN, &request).is_err()
        };
        let other = "eff_01J0000000000000000000000B";
        for (body, agent, query, refused) in [
            (format!(r#"{{"ref":"{other}"}}"#), "curl", "", true),
            (format!(r#"{{"a":[{{"note":"see oncegate-{other}."}}]}}"#), "curl", "", true),
            (format!(r#"{{"ref":"{}"}}"#, other.to_ascii_lowercase()), "curl", "", true),
            (format!(r#"{{"{other}":1}}"#), "curl", "", true),
            (r#"{"ref":"eff\u005f01J0000000000000000000000B"}"#.to_owned(), "curl", "", true),
            ("{}".to_owned(), other, "", true),
            ("{}".to_owned(), "curl", other, true),
            (format!(r#"{{"ref":"{OWN}","more":"{OWN}{OWN}"}}"#), "curl", OWN, false),
            (r#"{"ref":"order-17","note":"eff_ and eff_short"}"#.to_owned(), "curl", "eff_", false),
        ] {
            assert_eq!(names(&body, agent, query), refused, "{body} {agent} {query}");
        }
    }

    #[test]
    fn a_request_without_a_body_is_read() {
        let request = Request {
            method: "POST",
            headers: &[],
            query: &[],
            body_kind: BodyKind::Empty,
            body: b"",
            input: &json!({}),
        };
        assert!(only_of("eff_1", STRIPE, &request).is_ok());
    }
}
