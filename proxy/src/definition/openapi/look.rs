//! Where the document has a GET that reads a write back: a `verify` to propose. Nothing applies it; whether the provider
//! answers so is for a person to check.

use serde_json::{Map, Value, json};

use super::document::Document;
use super::operation::{TemplatePath, json_schema};
use super::schema::{Members, Writer};

/// Most conditions of a read-back.
const CONDITIONS_MAX: usize = 10;

/// What could be declared, and what to know of it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Proposal {
    pub(super) verify: Option<Value>,
    pub(super) note: String,
}

/// A write, as far as a read-back needs to know it.
pub(super) struct Write<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) base: &'a str,
    pub(super) operation: &'a Value,
    /// Members that every request has, beside the path's own.
    pub(super) always: &'a [String],
    pub(super) properties: &'a Map<String, Value>,
}

impl Write<'_> {
    /// A proposal, or why there is none.
    pub(super) fn proposal(&self, document: &Document) -> Proposal {
        match self.method {
            "POST" => self.created(document),
            "DELETE" => self.deleted(document),
            _ => self.replaced(document),
        }
    }

    /// `GET /things/{id}` of what `POST /things` has made: its id is in the answer to the write.
    fn created(&self, document: &Document) -> Proposal {
        let Some((path, get)) = self.below(document) else { return none("no GET that reads what it makes") };
        let parameter = path.rsplit('/').next().unwrap_or_default().trim_matches(['{', '}']).to_owned();
        let Some(answer) = answer_members(document, self.operation) else {
            return none("no JSON object as the answer to this write, which would name what it makes");
        };
        let id = [parameter.as_str(), "id"].into_iter().find(|name| answer.properties.contains_key(*name));
        let Some(id) = id else { return none("no id of what it makes in the answer to this write") };
        let Ok(inside) = TemplatePath::read(self.path) else { return none("no path that can be asked for") };
        let url = format!("{}{}/{{{{response.{id}}}}}", self.base, inside.template.trim_end_matches('/'));
        let verify = json!({ "url": url, "status": 200, "match": self.conditions(document, get) });
        let note = "Check it before you declare it. It needs the provider's answer to the write: it confirms a success, \
                    and cannot look for a lost answer.";
        Proposal { verify: Some(verify), note: note.to_owned() }
    }

    fn replaced(&self, document: &Document) -> Proposal {
        let Some(get) = same(document, self.path) else { return none("no GET at the same path") };
        let Ok(inside) = TemplatePath::read(self.path) else { return none("no path that can be asked for") };
        let conditions = self.conditions(document, get);
        if conditions.is_empty() {
            return none("no member that both every request and the read-back have, so nothing to compare");
        }
        let verify =
            json!({ "url": format!("{}{}", self.base, inside.template), "status": 200, "match": conditions });
        let note =
            "Check it before you declare it. It also matches if the values were the same before the write.";
        Proposal { verify: Some(verify), note: note.to_owned() }
    }

    fn deleted(&self, document: &Document) -> Proposal {
        if same(document, self.path).is_none() {
            return none("no GET at the same path");
        }
        let Ok(inside) = TemplatePath::read(self.path) else { return none("no path that can be asked for") };
        let verify =
            json!({ "url": format!("{}{}", self.base, inside.template), "status": 404, "match": [] });
        let note = "Check it before you declare it. It holds where the provider answers 404 for what is gone, and for \
                    what was never there.";
        Proposal { verify: Some(verify), note: note.to_owned() }
    }

    /// The one path that is this path and one parameter, and its GET.
    fn below<'a>(&self, document: &'a Document) -> Option<(&'a str, &'a Value)> {
        let start = self.path.trim_end_matches('/');
        let paths = document.get("paths").as_object()?;
        let mut fitting = paths.iter().filter_map(|(path, item)| {
            let last = path.trim_end_matches('/').strip_prefix(start)?.strip_prefix('/')?;
            let parameter = last.strip_prefix('{')?.strip_suffix('}')?;
            let whole = !parameter.contains(['/', '{', '}']);
            Some((path.trim_end_matches('/'), document.resolve(item).ok()?.get("get")?)).filter(|_| whole)
        });
        fitting.next()
    }

    /// Plain values that are always sent and that the read-back shows under the same name.
    fn conditions(&self, document: &Document, get: &Value) -> Vec<Value> {
        let Some(answer) = answer_members(document, get) else { return Vec::new() };
        let plain = |name: &&String| {
            let kind =
                self.properties.get(*name).and_then(|schema| schema.get("type")).and_then(Value::as_str);
            kind.is_some_and(|kind| ["string", "integer", "number", "boolean"].contains(&kind))
        };
        let shown = self.always.iter().filter(|name| answer.properties.contains_key(*name)).filter(plain);
        shown
            .take(CONDITIONS_MAX)
            .map(|name| json!({ "path": name, "equals": format!("{{{{input.{name}}}}}") }))
            .collect()
    }
}

fn none(why: &str) -> Proposal {
    Proposal { verify: None, note: format!("The document has {why}.") }
}

fn same<'a>(document: &'a Document, path: &str) -> Option<&'a Value> {
    document.resolve(document.get("paths").get(path)?).ok()?.get("get")
}

/// The members of an operation's successful JSON answer, those that only answers have included.
fn answer_members(document: &Document, operation: &Value) -> Option<Members> {
    let answers = operation.get("responses")?.as_object()?;
    let (_, answer) = answers.iter().find(|(status, _)| status.starts_with('2'))?;
    let content = document.resolve(answer).ok()?.get("content")?;
    let (_, schema) = json_schema(content)?;
    Members::answered(&Writer::new(document).write(schema).ok()?)
}
