//! The request for a file that was asked for through the API.

use oncegate_policy::refusal::Refusal;
use serde_json::{Map, Value, json};

use super::place::Place;
use super::{GithubFile, Repository, invalid};
use crate::built::{Built, plain_header};

const ORIGIN: &str = "https://api.github.com";
/// Members that the URL and the method take.
const NOT_IN_THE_BODY: [&str; 5] = ["repository", "owner", "repo", "path", "delete"];

pub(super) fn build(action: &GithubFile, input: &Value) -> Result<Built, Refusal> {
    let Value::Object(members) = input else { return Err(invalid("The input must be an object")) };
    let repository = repository(action, members)?;
    let place = Place::of(Some(&repository), input)?;
    let delete = match members.get("delete") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err(invalid("`delete` must be true or false")),
    };
    if delete == members.contains_key("content") {
        return Err(invalid("Send either `content`, the file in Base64, or `delete: true`"));
    }
    let kept =
        |(name, value): &(&String, &Value)| !NOT_IN_THE_BODY.contains(&name.as_str()) && !value.is_null();
    let mut body: Map<String, Value> =
        members.iter().filter(kept).map(|(name, value)| (name.clone(), value.clone())).collect();
    if let (false, Some(branch)) = (body.contains_key("branch"), &action.branch) {
        body.insert("branch".to_owned(), branch.as_str().into());
    }
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/vnd.github+json"),
        ("user-agent", "oncegate"),
    ];
    Ok(Built {
        method: if delete { "DELETE" } else { "PUT" }.to_owned(),
        url: format!(
            "{ORIGIN}{}",
            Place { owner: repository.owner, name: repository.name, ..place }.contents_path()
        ),
        headers: headers.map(|(name, value)| plain_header(name, value)).to_vec(),
        body: Some(Value::Object(body).to_string().into_bytes()),
    })
}

/// The repository as it is spelled: the route of a narrowed action compares it letter by letter.
fn repository(action: &GithubFile, members: &Map<String, Value>) -> Result<Repository, Refusal> {
    let named = match members.get("repository") {
        None | Some(Value::Null) => None,
        Some(Value::String(named)) => {
            let parts = named
                .split_once('/')
                .filter(|(owner, name)| !owner.is_empty() && !name.is_empty() && !name.contains('/'));
            Some(parts.ok_or_else(|| invalid("`repository` must be owner/name"))?)
        }
        Some(_) => return Err(invalid("`repository` must be owner/name")),
    };
    match (&action.repository, named) {
        (None, None) => Err(invalid("`repository` is needed")),
        (None, Some((owner, name))) => Ok(Repository { owner: owner.to_owned(), name: name.to_owned() }),
        (Some(only), None) => Ok(only.clone()),
        (Some(only), Some((owner, name))) => {
            let same = only.owner.eq_ignore_ascii_case(owner) && only.name.eq_ignore_ascii_case(name);
            let other = || invalid(format!("This action writes to {}/{} only", only.owner, only.name));
            same.then(|| only.clone()).ok_or_else(other)
        }
    }
}

/// What tools that are built from the listing need to know of a file's input.
pub(crate) fn input_schema() -> Value {
    json!({
        "type": "object",
        "required": ["path", "message"],
        "properties": {
            "repository": { "type": "string", "description": "owner/name; needed unless the action is for one" },
            "branch": { "type": "string", "description": "the default branch if missing" },
            "path": { "type": "string", "description": "the file's path in the repository" },
            "content": { "type": "string", "description": "the new content in Base64" },
            "message": { "type": "string", "description": "the commit message" },
            "sha": { "type": "string", "description": "the blob that is replaced or deleted; none for a new file" },
            "delete": { "type": "boolean", "description": "deletes the file; then without content" },
        },
    })
}
