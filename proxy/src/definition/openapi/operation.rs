//! One operation of the document as one definition of the API.

use oncegate_policy::action::ActionName;
use oncegate_policy::url_template::percent_encode;
use serde_json::{Map, Value, json};

use super::document::Document;
use super::look::{Proposal, Write};
use super::schema::{Members, Writer};
use super::{Candidate, Settings};

/// Longest name of an action.
const NAME_MAX: usize = 64;
/// Headers that are set in other ways, and that OpenAPI says to ignore as parameters.
const OWN_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];
/// Methods that change nothing.
const READS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// A path of the document as a URL template has it.
pub(super) struct TemplatePath {
    pub(super) template: String,
    /// The names of its parameters.
    parameters: Vec<String>,
}

impl TemplatePath {
    pub(super) fn read(path: &str) -> Result<Self, String> {
        let mut parameters = Vec::new();
        let mut segments = Vec::new();
        for segment in path.split('/').skip(1) {
            match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some(name) if is_plain(name) => {
                    segments.push(format!("{{{{input.{name}}}}}"));
                    parameters.push(name.to_owned());
                }
                None if !segment.contains(['{', '}']) => segments.push(segment.to_owned()),
                Some(_) | None => {
                    return Err(format!(
                        "the path segment `{segment}` is not plain text or exactly one parameter"
                    ));
                }
            }
        }
        Ok(Self { template: format!("/{}", segments.join("/")), parameters })
    }
}

/// What can be a part of `{{input.x}}` and is no path of its own.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Where an operation stands.
pub(super) struct Place<'a> {
    /// Upper case.
    pub(super) method: String,
    pub(super) path: &'a str,
    pub(super) item: &'a Value,
    pub(super) operation: &'a Value,
}

impl Place<'_> {
    fn operation_id(&self) -> Option<&str> {
        self.operation.get("operationId").and_then(Value::as_str)
    }

    /// Whether somebody means this operation by `name`.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.operation_id() == Some(name)
            || self.name() == name
            || format!("{} {}", self.method, self.path) == name
    }

    /// Its `operationId` in the letters that a name may have, or else its method and path.
    pub(super) fn name(&self) -> String {
        let by_path = || format!("{}{}", self.method.to_ascii_lowercase(), self.path);
        let name = sanitised(self.operation_id().unwrap_or_default());
        if ActionName::parse(&name).is_some() { name } else { sanitised(&by_path()) }
    }
}

fn sanitised(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let words: Vec<&str> = text.split(|c: char| !fits(c)).filter(|word| !word.is_empty()).collect();
    words.join("-").trim_start_matches('.').chars().take(NAME_MAX).collect()
}

/// The schema of a JSON body, with its media type, without parameters.
pub(super) fn json_schema(content: &Value) -> Option<(&str, &Value)> {
    let essence = |name: &'_ str| name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let content = content.as_object()?;
    let plain = content.iter().find(|(name, _)| essence(name) == "application/json");
    let (name, media) =
        plain.or_else(|| content.iter().find(|(name, _)| essence(name).ends_with("+json")))?;
    let name = name.split(';').next().unwrap_or_default().trim();
    Some((name, media.get("schema").unwrap_or(&Value::Null)))
}

/// Everything that is collected of one operation.
struct Draft<'a> {
    document: &'a Document,
    writer: Writer<'a>,
    url: String,
    headers: Map<String, Value>,
    properties: Map<String, Value>,
    required: Vec<String>,
    /// What the body's schema says of the object as a whole.
    rest: Map<String, Value>,
}

/// The definition, or why there is none.
pub(super) fn candidate(
    document: &Document,
    settings: &Settings,
    place: &Place<'_>,
) -> Result<Candidate, String> {
    let base = settings.base(document, place)?;
    let path = TemplatePath::read(place.path)?;
    let mut draft = Draft {
        document,
        writer: Writer::new(document),
        url: format!("{base}{}", path.template),
        headers: settings.headers(),
        properties: Map::new(),
        required: Vec::new(),
        rest: Map::new(),
    };
    draft.parameters(place, &path)?;
    draft.body(place)?;
    draft.security(settings, place);
    if place.operation.get("deprecated") == Some(&Value::Bool(true)) {
        draft.writer.warn("the document calls this operation deprecated");
    }
    let governed = !READS.contains(&place.method.as_str()) && settings.governed;
    // A path's own parameters tell which thing it is, and not what became of it.
    let always: Vec<String> =
        draft.required.iter().filter(|name| !path.parameters.contains(name)).cloned().collect();
    let write = Write {
        method: &place.method,
        path: place.path,
        base: &base,
        operation: place.operation,
        always: &always,
        properties: &draft.properties,
    };
    let proposal = if governed { write.proposal(document) } else { Proposal::default() };
    let warnings = draft.writer.warnings.clone();
    let members = draft.definition(settings, place, governed);
    Ok(Candidate {
        name: place.name(),
        method: place.method.clone(),
        path: place.path.to_owned(),
        members,
        warnings,
        proposed_verify: proposal.verify,
        verify_note: Some(proposal.note).filter(|note| !note.is_empty()),
    })
}

impl Draft<'_> {
    fn parameters(&mut self, place: &Place<'_>, path: &TemplatePath) -> Result<(), String> {
        let mut named: Vec<&Value> = Vec::new();
        for list in [place.operation, place.item].map(|owner| owner.get("parameters")) {
            for parameter in list.and_then(Value::as_array).into_iter().flatten() {
                let parameter = self.document.resolve(parameter)?;
                let same = |known: &&Value| {
                    known.get("name") == parameter.get("name") && known.get("in") == parameter.get("in")
                };
                // The operation's own go before those of its path.
                if !named.iter().any(same) {
                    named.push(parameter);
                }
            }
        }
        for parameter in named {
            self.parameter(parameter)?;
        }
        for name in &path.parameters {
            self.properties.entry(name).or_insert_with(|| json!({ "type": "string" }));
            self.require(name);
        }
        Ok(())
    }

    fn parameter(&mut self, parameter: &Value) -> Result<(), String> {
        let text = |member: &str| parameter.get(member).and_then(Value::as_str).unwrap_or_default();
        let (name, place) = (text("name"), text("in"));
        let required = parameter.get("required") == Some(&Value::Bool(true));
        match (place, required) {
            ("path", _) => self.property(parameter, name),
            ("query", true) => {
                if !is_plain(name) {
                    return Err(format!("the query parameter `{name}` has letters that no input member has"));
                }
                self.property(parameter, name)?;
                let kind =
                    self.properties.get(name).and_then(|schema| schema.get("type")).and_then(Value::as_str);
                if matches!(kind, Some("array" | "object")) {
                    return Err(format!("the query parameter `{name}` is needed and not one plain value"));
                }
                let mark = if self.url.contains('?') { '&' } else { '?' };
                self.url.push_str(&format!("{mark}{}={{{{input.{name}}}}}", percent_encode(name)));
                self.require(name);
                Ok(())
            }
            ("header", _) if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) => Ok(()),
            ("header", _) if self.headers.keys().any(|known| known.eq_ignore_ascii_case(name)) => Ok(()),
            (place, true) => Err(format!(
                "the {place} parameter `{name}` is needed, and only a path and a query take input"
            )),
            (place, false) => {
                self.writer.warn(&format!("the {place} parameter `{name}` may be left out, and is"));
                Ok(())
            }
        }
    }

    fn property(&mut self, parameter: &Value, name: &str) -> Result<(), String> {
        let nothing = Value::Null;
        let schema = parameter.get("schema").unwrap_or(&nothing);
        let mut schema = self.writer.write(schema)?;
        if !schema.is_object() {
            schema = json!({ "type": "string" });
        }
        if let (Some(description), Some(members)) = (parameter.get("description"), schema.as_object_mut()) {
            members.entry("description").or_insert_with(|| description.clone());
        }
        self.properties.insert(name.to_owned(), schema);
        Ok(())
    }

    fn require(&mut self, name: &str) {
        if !self.required.iter().any(|known| known == name) {
            self.required.push(name.to_owned());
        }
    }

    fn body(&mut self, place: &Place<'_>) -> Result<(), String> {
        let Some(body) = place.operation.get("requestBody") else { return Ok(()) };
        let body = self.document.resolve(body)?;
        let content = body.get("content").unwrap_or(&Value::Null);
        let Some((media, schema)) = json_schema(content) else {
            let kinds: Vec<&str> =
                content.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            return Err(format!("its body is not JSON: {}", kinds.join(", ")));
        };
        let written = self.writer.write(schema)?;
        let members = Members::sent(&written).ok_or("its body is not described as a JSON object")?;
        if !media.eq_ignore_ascii_case("application/json") {
            self.headers.insert("Content-Type".to_owned(), media.into());
        }
        for (name, property) in members.properties {
            if self.properties.contains_key(&name) {
                return Err(format!(
                    "`{name}` stands in its URL and in its body, and an input has one of each name"
                ));
            }
            self.properties.insert(name, property);
        }
        // Where the body may be left out, so may each of its members.
        if body.get("required") == Some(&Value::Bool(true)) {
            members.required.iter().for_each(|name| self.require(name));
        }
        self.rest = members.rest;
        Ok(())
    }

    fn security(&mut self, settings: &Settings, place: &Place<'_>) {
        let asked = place.operation.get("security").unwrap_or_else(|| self.document.get("security"));
        let asks = asked.as_array().is_some_and(|ways| !ways.is_empty() && !ways.contains(&json!({})));
        if asks && !settings.has_auth() {
            self.writer.warn("the API asks for credentials: send `auth`, or give the host a `credential`");
        }
    }

    fn definition(self, settings: &Settings, place: &Place<'_>, governed: bool) -> Map<String, Value> {
        let text = |member: &str| {
            place.operation.get(member).and_then(Value::as_str).filter(|text| !text.is_empty())
        };
        let mut schema = self.rest;
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), self.required.into());
        }
        let mut members = Map::new();
        let mut say = |name: &str, value: Value| _ = members.insert(name.to_owned(), value);
        if let Some(description) = text("summary").or_else(|| text("description")) {
            say("description", description.into());
        }
        say("method", place.method.as_str().into());
        say("urlTemplate", self.url.into());
        if !self.headers.is_empty() {
            say("headers", Value::Object(self.headers));
        }
        say("inputSchema", Value::Object(schema));
        if governed {
            say("governed", true.into());
            say(
                "impact",
                json!({ "dimension": "resource_mutations", "unit": "resource_mutations", "amount": "1", "bound": "exact" }),
            );
            if settings.requires_approval {
                say("requiresApproval", true.into());
            }
        }
        members
    }
}
