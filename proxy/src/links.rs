//! What one request says of others: the failed invocation that it retries, the effects that it depends on, the effect
//! that it undoes. Said in headers at the proxy listener and in the body at the API listener; read here for both.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue};
use oncegate_policy::effect::Outcome;
use oncegate_policy::id::{EffectId, InvocationId};
use oncegate_policy::refusal::{Code, Refusal};
use serde_json::Value;

use crate::receive;

/// The agent names a failed invocation that it retries on purpose.
pub const RETRY_OF_HEADER: &str = "oncegate-retry-of";
/// The agent names effects that must have an outcome first.
pub const DEPENDS_ON_HEADER: &str = "oncegate-depends-on";
/// The agent names the effect that this one undoes.
pub const COMPENSATES_HEADER: &str = "oncegate-compensates";
/// Effects that one may depend on.
const DEPENDS_ON_MAX: usize = 16;

/// The links of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The failed invocation that it retries on purpose.
    pub retry_of: Option<InvocationId>,
    /// Effects that must have these outcomes. An outcome that may still change satisfies nobody.
    pub depends_on: Vec<(EffectId, Outcome)>,
    /// The effect that this one undoes.
    pub compensates: Option<EffectId>,
}

impl Links {
    /// From the fields of a proxied request: `Oncegate-Depends-On: eff_…, eff_…=failed`.
    ///
    /// # Errors
    /// `invalid_input`, naming the field; `ambiguous` for one that stands twice and names one thing.
    pub fn of_headers(headers: &HeaderMap) -> Result<Self, Refusal> {
        // Several lines are one list (RFC 9110 section 5.3).
        let lines: Vec<_> = headers.get_all(DEPENDS_ON_HEADER).iter().map(text_of).collect();
        let named = lines
            .iter()
            .flat_map(|line| line.split(','))
            .map(|one| {
                let one = one.trim();
                let (id, outcome) = one.split_once('=').unwrap_or((one, Outcome::Succeeded.word()));
                dependency(id, outcome).ok_or_else(|| {
                    invalid("Oncegate-Depends-On has to name effects (eff_…=succeeded or eff_…=failed)")
                })
            })
            .collect::<Result<_, _>>()?;
        let one = |name| Ok::<_, Refusal>(receive::only(headers, name)?.map(text_of));
        Ok(Self {
            retry_of: one(RETRY_OF_HEADER)?.map(|value| retry_of(&value)).transpose()?,
            depends_on: bounded(named)?,
            compensates: one(COMPENSATES_HEADER)?.map(|value| compensates(&value)).transpose()?,
        })
    }

    /// From the members of an invocation: `retryOf`, `dependsOn: [{effect, outcome}]`, `compensates`.
    ///
    /// # Errors
    /// `invalid_input`, naming the member.
    pub fn of_body(body: &Value) -> Result<Self, Refusal> {
        let one = |member: &Value| {
            let outcome = match member.get("outcome") {
                None | Some(Value::Null) => Some(Outcome::Succeeded.word()),
                Some(outcome) => outcome.as_str(),
            };
            let found = member.get("effect").and_then(Value::as_str).zip(outcome);
            found.and_then(|(id, outcome)| dependency(id, outcome)).ok_or_else(|| {
                invalid("dependsOn has to be a list of {effect: eff_…, outcome: succeeded or failed}")
            })
        };
        let named = match body.get("dependsOn") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(members)) => members.iter().map(one).collect::<Result<_, _>>()?,
            Some(other) => vec![one(other)?],
        };
        Ok(Self {
            retry_of: text(body, "retryOf")?.map(retry_of).transpose()?,
            depends_on: bounded(named)?,
            compensates: text(body, "compensates")?.map(compensates).transpose()?,
        })
    }
}

/// A member that is a text, or is not there.
///
/// # Errors
/// `invalid_input` for anything else.
pub fn text<'a>(body: &'a Value, name: &str) -> Result<Option<&'a str>, Refusal> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(invalid(&format!("{name} has to be a text")))
        }
    }
}

fn text_of(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

fn dependency(id: &str, outcome: &str) -> Option<(EffectId, Outcome)> {
    let outcome = [Outcome::Succeeded, Outcome::Failed].into_iter().find(|each| each.word() == outcome)?;
    Some((EffectId::parse(id)?, outcome))
}

fn bounded(named: Vec<(EffectId, Outcome)>) -> Result<Vec<(EffectId, Outcome)>, Refusal> {
    match named.len() > DEPENDS_ON_MAX {
        true => Err(invalid(&format!("One request may depend on at most {DEPENDS_ON_MAX} effects"))),
        false => Ok(named),
    }
}

fn retry_of(text: &str) -> Result<InvocationId, Refusal> {
    InvocationId::parse(text).ok_or_else(|| invalid("What is retried has to be an invocation (inv_…)"))
}

fn compensates(text: &str) -> Result<EffectId, Refusal> {
    EffectId::parse(text).ok_or_else(|| invalid("What is compensated has to be an effect (eff_…)"))
}

fn invalid(what: &str) -> Refusal {
    Refusal::new(Code::InvalidInput, format!("{what}. Nothing was sent."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EFFECT: &str = "eff_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    const INVOCATION: &str = "inv_01ARZ3NDEKTSV4RRFFQ69G5FAV";

    #[test]
    fn both_listeners_read_the_same_links() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_OF_HEADER, INVOCATION.parse().unwrap());
        headers.insert(DEPENDS_ON_HEADER, format!("{EFFECT}, {EFFECT}=failed").parse().unwrap());
        headers.insert(COMPENSATES_HEADER, EFFECT.parse().unwrap());
        let body = json!({
            "retryOf": INVOCATION, "compensates": EFFECT,
            "dependsOn": [{ "effect": EFFECT }, { "effect": EFFECT, "outcome": "failed" }],
        });
        let links = Links::of_headers(&headers).unwrap();
        assert_eq!(links, Links::of_body(&body).unwrap());
        assert_eq!(links.depends_on.len(), 2);
        assert_eq!(Links::of_body(&json!({})).unwrap(), Links::default());
    }

    #[test]
    fn every_line_of_the_list_counts_and_what_names_one_thing_stands_once() {
        let mut headers = HeaderMap::new();
        headers.append(DEPENDS_ON_HEADER, EFFECT.parse().unwrap());
        headers.append(DEPENDS_ON_HEADER, format!("{EFFECT}=failed, {EFFECT}").parse().unwrap());
        assert_eq!(Links::of_headers(&headers).unwrap().depends_on.len(), 3);
        headers.append(DEPENDS_ON_HEADER, "x".parse().unwrap());
        assert_eq!(Links::of_headers(&headers).unwrap_err().code, Code::InvalidInput);
        for (name, value) in [(RETRY_OF_HEADER, INVOCATION), (COMPENSATES_HEADER, EFFECT)] {
            let mut headers = HeaderMap::new();
            headers.append(name, value.parse().unwrap());
            assert!(Links::of_headers(&headers).is_ok());
            headers.append(name, value.parse().unwrap());
            assert_eq!(Links::of_headers(&headers).unwrap_err().code, Code::Ambiguous, "{name}");
        }
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for body in [
            json!({ "retryOf": "inv_1" }),
            json!({ "retryOf": 1 }),
            json!({ "compensates": INVOCATION }),
            json!({ "dependsOn": [{ "effect": EFFECT, "outcome": "unknown" }] }),
            json!({ "dependsOn": [{ "outcome": "succeeded" }] }),
            json!({ "dependsOn": vec![json!({ "effect": EFFECT }); 17] }),
        ] {
            assert_eq!(Links::of_body(&body).unwrap_err().code, Code::InvalidInput, "{body}");
        }
        for value in ["eff_1", "x", "", &format!("{EFFECT}=pending")] {
            let mut headers = HeaderMap::new();
            headers.insert(DEPENDS_ON_HEADER, value.parse().unwrap());
            assert_eq!(Links::of_headers(&headers).unwrap_err().code, Code::InvalidInput, "{value}");
        }
    }
}
