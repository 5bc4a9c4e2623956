//! Which file on which branch of which repository.

use oncegate_policy::refusal::Refusal;
use oncegate_policy::url_template::percent_encode;
use serde_json::Value;

use super::{Repository, invalid};
use crate::github::is_plain_name;

/// One file. Owner and name in lower case: GitHub does not tell their cases apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) owner: String,
    pub(super) name: String,
    /// `None`: the default branch, whichever that is.
    pub(super) branch: Option<String>,
    pub(super) path: String,
}

impl Place {
    /// A narrowed action's URL names its repository, and what the body says of one is nothing to GitHub.
    pub(super) fn of(only: Option<&Repository>, input: &Value) -> Result<Self, Refusal> {
        let given = |member: &str| {
            let text = input.get(member).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.ok_or_else(|| invalid(format!("`{member}` is needed")))
        };
        let (owner, name) = match only {
            Some(only) => (only.owner.as_str(), only.name.as_str()),
            None => (given("owner")?, given("repo")?),
        };
        if !is_plain_name(owner) || !is_plain_name(name) {
            return Err(invalid("Name the repository in its plain spelling"));
        }
        let branch = match input.get("branch") {
            None | Some(Value::Null) => None,
            Some(Value::String(branch)) if !branch.is_empty() => {
                Some(branch.strip_prefix("refs/heads/").unwrap_or(branch).to_owned())
            }
            Some(_) => return Err(invalid("`branch` must be a branch's name")),
        };
        let path = given("path")?.to_owned();
        let plain = |segment: &str| !segment.is_empty() && segment != "." && segment != "..";
        if !path.split('/').all(plain) {
            return Err(invalid("`path` must be a file's path without empty and dot segments"));
        }
        Ok(Self { owner: owner.to_lowercase(), name: name.to_lowercase(), branch, path })
    }

    /// `/repos/owner/name`
    pub(super) fn repository_path(&self) -> String {
        format!("/repos/{}/{}", percent_encode(&self.owner), percent_encode(&self.name))
    }

    /// `/repos/owner/name/contents/a/b`
    pub(super) fn contents_path(&self) -> String {
        let path = self.path.split('/').map(percent_encode).collect::<Vec<_>>().join("/");
        format!("{}/contents/{path}", self.repository_path())
    }
}
