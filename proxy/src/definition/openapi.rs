//! An OpenAPI 3 document as definitions of actions. What cannot be said faithfully is skipped with a reason, instead of
//! becoming an action that looks right and is not.

mod document;
mod look;
mod operation;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Problem;
use document::Document;
use operation::{Place, candidate};

/// Most operations of one document, wanted or not.
const OPERATIONS_MAX: usize = 500;
/// Keys of a path item that are operations (OpenAPI 3.1 section 4.8.9).
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// What stands for the secret in `auth.valueTemplate`.
const SECRET: &str = "{{secret}}";

/// `POST /actions/import`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Import {
    spec: Value,
    base_url: Option<String>,
    auth: Option<Auth>,
    requires_approval: Option<bool>,
    #[serde(default)]
    pub(crate) dry_run: bool,
    only: Option<Vec<String>>,
    governed: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Auth {
    header_name: String,
    secret_name: String,
    value_template: Option<String>,
}

/// An operation that can be an action.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// Not yet told apart from others of the same name.
    pub(crate) name: String,
    pub(crate) method: String,
    pub(crate) path: String,
    /// A definition as `POST /actions` takes it, without its name.
    pub(crate) members: Map<String, Value>,
    pub(crate) warnings: Vec<String>,
    pub(crate) proposed_verify: Option<Value>,
    pub(crate) verify_note: Option<String>,
}

/// An operation that is no action, and why.
#[derive(Debug, Serialize)]
pub(crate) struct Skipped {
    pub(crate) path: String,
    pub(crate) method: String,
    pub(crate) reason: String,
}

/// What a document holds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) skipped: Vec<Skipped>,
}

/// What holds for every operation.
pub(super) struct Settings {
    base_url: Option<String>,
    auth: Option<(String, String)>,
    requires_approval: bool,
    governed: bool,
}

/// Reads a document.
///
/// # Errors
/// It is none, it is too large, or what was sent with it is wrong.
pub(crate) fn read(import: &Import) -> Result<Found, Problem> {
    let settings = Settings::read(import)?;
    let document = Document::read(&import.spec)?;
    let places = places(&document)?;
    let only = import.only.as_deref();
    for (at, name) in only.unwrap_or_default().iter().enumerate() {
        if !places.iter().any(|place| place.is_called(name)) {
            let message = format!("the document has no operation `{name}`");
            return Err(Problem::new(format!("only[{at}]"), message));
        }
    }
    let wanted = |place: &&Place<'_>| only.is_none_or(|only| only.iter().any(|name| place.is_called(name)));
    let mut found = Found::default();
    let mut names = BTreeSet::new();
    for place in places.iter().filter(wanted) {
        match candidate(&document, &settings, place) {
            Ok(mut candidate) => {
                candidate.name = unlike(&candidate.name, &names);
                names.insert(candidate.name.clone());
                found.candidates.push(candidate);
            }
            Err(reason) => {
                found.skipped.push(Skipped {
                    path: place.path.to_owned(),
                    method: place.method.clone(),
                    reason,
                });
            }
        }
    }
    Ok(found)
}

fn places(document: &Document) -> Result<Vec<Place<'_>>, Problem> {
    let refused = |message: String| Problem::new("spec", message);
    let Some(paths) = document.get("paths").as_object() else {
        return Err(refused("`spec` has no `paths`".to_owned()));
    };
    let mut places = Vec::new();
    for (path, item) in paths {
        let item = document.resolve(item).map_err(|fault| refused(format!("{path}: {fault}")))?;
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            places.push(Place { method: method.to_ascii_uppercase(), path, item, operation });
        }
    }
    if places.len() > OPERATIONS_MAX {
        let count = places.len();
        return Err(refused(format!(
            "`spec` has {count} operations: at most {OPERATIONS_MAX} are read at once"
        )));
    }
    Ok(places)
}

/// The name, with a number if another operation has it already.
fn unlike(name: &str, taken: &BTreeSet<String>) -> String {
    let numbered = |number: usize| {
        let end = format!("-{number}");
        let start: String = name.chars().take(64 - end.len()).collect();
        format!("{start}{end}")
    };
    let all = std::iter::once(name.to_owned()).chain((2..).map(numbered));
    all.into_iter().find(|name| !taken.contains(name)).unwrap_or_default()
}

impl Settings {
    fn read(import: &Import) -> Result<Self, Problem> {
        let governed = import.governed.unwrap_or(true);
        let requires_approval = import.requires_approval.unwrap_or(false);
        if requires_approval && !governed {
            let message = "what waits for a person is governed: leave `governed` out";
            return Err(Problem::new("governed", message));
        }
        let auth = import.auth.as_ref().map(Auth::header).transpose()?;
        let base_url = import.base_url.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        if base_url.as_ref().is_some_and(|url| !is_base(url)) {
            let message = "`baseUrl` must be `https://` or `http://`, a host and a path, without a query";
            return Err(Problem::new("baseUrl", message));
        }
        Ok(Self { base_url, auth, requires_approval, governed })
    }

    fn has_auth(&self) -> bool {
        self.auth.is_some()
    }

    fn headers(&self) -> Map<String, Value> {
        self.auth.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect()
    }

    /// Where an operation's path begins: what was sent, else the nearest server of the document.
    fn base(&self, document: &Document, place: &Place<'_>) -> Result<String, String> {
        if let Some(url) = &self.base_url {
            return Ok(url.clone());
        }
        let first = |servers: &Value| servers.get(0).cloned();
        let own =
            [place.operation, place.item].into_iter().find_map(|owner| owner.get("servers").and_then(first));
        let server = own.or_else(|| first(document.get("servers"))).unwrap_or_default();
        let mut url = server.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
        for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
            let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
            url = url.replace(&format!("{{{name}}}"), default);
        }
        let url = url.trim_end_matches('/');
        if is_base(url) {
            return Ok(url.to_owned());
        }
        Err("the document names no server in full for it: send `baseUrl`".to_owned())
    }
}

fn is_base(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['?', '#', '{', '}']))
}

impl Auth {
    /// The header and its template.
    fn header(&self) -> Result<(String, String), Problem> {
        let bearer = self.header_name.eq_ignore_ascii_case("authorization");
        let default = if bearer { format!("Bearer {SECRET}") } else { SECRET.to_owned() };
        let named = format!("{{{{secret:{}}}}}", self.secret_name);
        // By its own name it is the same.
        let template = self.value_template.as_ref().map_or(default, |sent| sent.replace(&named, SECRET));
        if !template.contains(SECRET) {
            return Err(Problem::new("auth.valueTemplate", format!("`valueTemplate` must hold `{SECRET}`")));
        }
        Ok((self.header_name.clone(), template.replace(SECRET, &named)))
    }
}
