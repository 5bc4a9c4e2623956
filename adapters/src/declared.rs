//! A route that an operator declared: what it means is what the configuration says.

mod build;
mod came;
mod look;
mod pages;
mod said;

use std::borrow::Cow;

use oncegate_policy::body::BodyKind;
use oncegate_policy::check::{Check, Expected};
use oncegate_policy::classify::ResponseRules;
use oncegate_policy::impact::{AmountRule, Bound, Dimension, Impact};
use oncegate_policy::json;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::template::{Piece, RenderFault, Scope, Template};
use oncegate_policy::url_template::UrlTemplate;
use serde_json::Value;

use crate::built::{Built, is_header_text};
use crate::look::{Look, LookStep, Memory};
use crate::plan::{Marks, Plan, Planned, Prepared, Request};

/// What an agent may ask of an answer, and a server refuses with a 4xx when the write is done: flask-restx reads the mask of
/// `X-Fields` behind the method (`marshal_with`), and a range has no meaning but for GET (RFC 9110 section 14.2).
const SHAPING: [&str; 3] = ["x-fields", "range", "if-range"];

/// Where a provider reads its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// A header, name in lower case.
    Header(String),
    /// A top-level member of the JSON body.
    Body(String),
}

/// How the provider is asked whether it was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Verify {
    /// A GET on the action's own host.
    pub url: UrlTemplate,
    /// The status that a match needs.
    pub status: u16,
    /// All must hold; with none, the status alone is a match.
    pub checks: Vec<Check>,
}

impl Verify {
    /// Whether an effect's object is known by its id or key.
    pub(crate) fn names_the_effect(&self) -> bool {
        // A URL prints as the template it was read from.
        let url = Template::parse(&self.url.to_string()).ok();
        let expected = self.checks.iter().filter_map(|check| match &check.equals {
            Some(Expected::Template(template)) => Some(template),
            Some(Expected::Literal(_)) | None => None,
        });
        let of_the_effect = |piece: &Piece| matches!(piece, Piece::EffectId | Piece::EffectKey);
        url.iter().chain(expected).flat_map(Template::pieces).any(of_the_effect)
    }
}

/// A declared route.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Upper case.
    pub method: String,
    /// Where it goes: builds, and matches.
    pub url: UrlTemplate,
    /// Names in lower case.
    pub headers: Vec<(String, Template)>,
    /// The agent's own headers that make another request of the same input, in lower case.
    pub scope_headers: Vec<String>,
    /// What the API listener sends, and a proxied body has to say: a JSON value whose texts are templates.
    pub body: Option<Value>,
    /// What is acted on.
    pub subject: Option<Template>,
    /// What is counted, how much, and whether that is exact.
    pub impact: Option<(Dimension, AmountRule, Bound)>,
    /// Where the provider reads its key, and for how long it remembers it, in milliseconds.
    pub idempotency: Option<(KeyPlace, u64)>,
    /// How the provider is asked whether it was done.
    pub verify: Option<Verify>,
    /// How its answers are to be read.
    pub response: ResponseRules,
}

impl Declared {
    pub(crate) fn plan(&self, request: &Request<'_>) -> Planned {
        match self.try_plan(request) {
            Ok(plan) => Planned::Ready(plan),
            Err(refusal) => Planned::Refused(refusal),
        }
    }

    pub(crate) fn try_plan(&self, request: &Request<'_>) -> Result<Plan, Refusal> {
        let scope = Scope::of_input(request.input);
        let subject = self.subject.as_ref().map(|template| template.render_identity(&scope)).transpose();
        let subject = subject.map_err(|fault| cannot_render(&fault))?;
        let impact = self.impact.as_ref().map(|rule| impact(rule, request.input)).transpose()?;
        if let Some(verify) = &self.verify {
            let fault = |fault| invalid(format!("How it would be read back (`verify`): {fault}"));
            look::can_be_asked(verify, request.input).map_err(fault)?;
        }
        Ok(Plan {
            resource: subject.clone(),
            subject,
            near: Vec::new(),
            impact,
            fingerprint_scope: self.scope(request)?,
            read_scope: Vec::new(),
            provider_key: self.idempotency.is_some(),
            replay_window_ms: self.idempotency.as_ref().map(|(_, window_ms)| *window_ms),
            drop_headers: self.drop_headers(),
        })
    }

    /// The agent's own key, where ours stands in its place, and what shapes the answer alone.
    fn drop_headers(&self) -> Vec<String> {
        let shaping = SHAPING.into_iter().filter(|name| !self.scope_headers.iter().any(|own| own == name));
        self.key_header().into_iter().chain(shaping).map(str::to_owned).collect()
    }

    /// The scope headers as they leave: what is declared replaces what the agent sent, where its input is there.
    fn scope(&self, request: &Request<'_>) -> Result<Vec<(String, String)>, Refusal> {
        let rendered = Scope::of_input(request.input);
        let is_there = |path: &str| json::get(request.input, path).is_some();
        let is_set =
            |template: &Template| came::is_set_by(template) && template.inputs().into_iter().all(is_there);
        let mut scope = Vec::new();
        for name in &self.scope_headers {
            match self.headers.iter().find(|(own, template)| own == name && is_set(template)) {
                Some((_, template)) => {
                    scope.extend(template.render(&rendered).ok().map(|text| (name.clone(), text)));
                }
                None => scope.extend(request.scope(&[name])?),
            }
        }
        Ok(scope)
    }

    /// Of a request that an agent made itself.
    pub(crate) fn fits(&self, request: &Request<'_>, judged: &[&str]) -> Result<(), Refusal> {
        came::fits(self, request, judged)
    }

    /// The body goes as it came, unless the provider reads its key there. The declared headers are set for both listeners:
    /// what an operator pins is not an agent's to choose, and a read-back may search for the effect in them. One whose input
    /// is not there stays as it came.
    pub(crate) fn prepare(&self, request: &Request<'_>, marks: &Marks<'_>) -> Result<Prepared, Refusal> {
        let scope = Scope {
            input: request.input,
            effect_id: Some(marks.effect_id),
            effect_key: Some(marks.provider_key),
            response: None,
        };
        let key_header = self.key_header();
        let mut headers = Vec::new();
        for (name, template) in self.headers.iter().filter(|(_, template)| came::is_set_by(template)) {
            // The boundary of a multipart body, and the charset of a text, are in the agent's own field.
            let content = request.body.is_empty() || request.body_kind == BodyKind::Opaque;
            let is_there = |path: &str| json::get(request.input, path).is_some();
            let as_it_came = (name == came::CONTENT_TYPE && content)
                || key_header == Some(name.as_str())
                || !template.inputs().into_iter().all(is_there);
            if !as_it_came {
                headers.push((name.clone(), header_text(name, template, &scope)?));
            }
        }
        let body = match &self.idempotency {
            Some((KeyPlace::Header(name), _)) => {
                headers.push((name.clone(), marks.provider_key.to_owned()));
                request.body.to_vec()
            }
            Some((KeyPlace::Body(member), _)) => with_member(request, member, marks.provider_key)?,
            None => request.body.to_vec(),
        };
        Ok(Prepared { headers, body })
    }

    pub(crate) fn build(&self, input: &Value, scope: &Scope<'_>) -> Result<Built, Refusal> {
        build::build(self, input, scope)
    }

    pub(crate) fn look(&self, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
        match &self.verify {
            Some(verify) => look::look(verify, &self.headers, memory, step),
            None => Look::Impossible("no verify rule is declared"),
        }
    }

    pub(crate) fn without_marks<'a>(&self, said: &'a Value) -> Cow<'a, Value> {
        said::without_marks(self, said)
    }

    pub(crate) fn said_in_fields(
        &self,
        request: &Request<'_>,
        said: &Value,
    ) -> Result<Vec<(String, String)>, Refusal> {
        said::in_fields(self, request, said)
    }

    pub(crate) fn key_header(&self) -> Option<&str> {
        match &self.idempotency {
            Some((KeyPlace::Header(name), _)) => Some(name),
            Some((KeyPlace::Body(_), _)) | None => None,
        }
    }

    pub(crate) fn key_member(&self) -> Option<&str> {
        match &self.idempotency {
            Some((KeyPlace::Body(member), _)) => Some(member),
            Some((KeyPlace::Header(_), _)) | None => None,
        }
    }
}

fn impact(rule: &(Dimension, AmountRule, Bound), input: &Value) -> Result<Impact, Refusal> {
    let (dimension, amount, bound) = rule;
    let amount = amount.amount(input).map_err(invalid)?;
    Ok(Impact { dimension: dimension.clone(), amount, bound: *bound })
}

fn header_text(name: &str, template: &Template, scope: &Scope<'_>) -> Result<String, Refusal> {
    let text = template.render(scope).map_err(|fault| cannot_render(&fault))?;
    match is_header_text(&text) {
        true => Ok(text),
        false => {
            Err(invalid(format!("A value for the header {name} holds a character that cannot stand there")))
        }
    }
}

/// The one case in which a proxied body is written anew.
fn with_member(request: &Request<'_>, member: &str, value: &str) -> Result<Vec<u8>, Refusal> {
    let object = match request.body_kind {
        BodyKind::Json => json::strict(request.body).ok(),
        BodyKind::Empty | BodyKind::Form | BodyKind::Opaque => None,
    };
    let Some(Value::Object(mut members)) = object else {
        return Err(invalid(format!(
            "The body must be a JSON object: the provider reads its key {member} there"
        )));
    };
    members.insert(member.to_owned(), value.into());
    Ok(Value::Object(members).to_string().into_bytes())
}

fn invalid(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::InvalidInput, format!("{what}. Nothing was sent."))
}

fn cannot_render(fault: &RenderFault) -> Refusal {
    match fault {
        RenderFault::Secret { .. } => {
            Refusal::new(Code::CredentialUnavailable, format!("{fault}. Nothing was sent."))
        }
        RenderFault::Absent { .. }
        | RenderFault::Null { .. }
        | RenderFault::Empty { .. }
        | RenderFault::NotScalar { .. }
        | RenderFault::UrlSegment { .. } => invalid(fault),
    }
}

#[cfg(test)]
mod tests;
