//! `github.file_update`: PUT and DELETE /repos/{owner}/{repo}/contents/{path}
//! (<https://docs.github.com/en/rest/repos/contents#create-or-update-file-contents>, `#delete-a-file`).
//!
//! GitHub has no idempotency key, so there is no replay. The blob SHA that a request carries goes out as it came: with
//! it, a second write of the same file is refused. Every commit message ends with the trailer `Oncegate-Effect: eff_…`,
//! by which the commit is found again.

mod build;
mod look;
mod place;

use oncegate_policy::body::BodyKind;
use oncegate_policy::classify::ResponseRules;
use oncegate_policy::exchange::Answer;
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::json;
use oncegate_policy::refusal::{Code, Refusal};
use serde_json::Value;

pub(crate) use build::input_schema;

use crate::built::Built;
use crate::github::get;
use crate::look::{Look, LookStep, Memory};
use crate::plan::{Marks, Plan, Planned, Prepared, Read, Request, bounded_subject};
use place::Place;

/// The trailer that carries the effect's id.
pub(crate) const TRAILER: &str = "Oncegate-Effect";

/// Files of any repository, or of one, or of one branch of it.
#[derive(Clone, Debug)]
pub struct GithubFile {
    repository: Option<Repository>,
    branch: Option<String>,
    response: ResponseRules,
}

/// `owner/name`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// A user or an organisation.
    pub owner: String,
    /// The repository's own name.
    pub name: String,
}

impl GithubFile {
    /// What may be written: everything that the credential may, unless it is narrowed.
    #[must_use]
    pub fn new(repository: Option<Repository>, branch: Option<String>) -> Self {
        // "409 Conflict" is documented for a blob SHA that is not the file's any more and for a branch that moved at
        // the same time; both say that nothing was written
        // (<https://docs.github.com/en/rest/repos/contents#create-or-update-file-contents--status-codes>). 422 is a
        // definite failure by the usual table.
        let response = ResponseRules { failed_statuses: vec![409], ..ResponseRules::default() };
        Self { repository, branch, response }
    }

    pub(crate) fn response_rules(&self) -> &ResponseRules {
        &self.response
    }

    pub(crate) fn build(&self, input: &Value) -> Result<Built, Refusal> {
        build::build(self, input)
    }

    /// A write that names no branch goes to the default one. Which that is has to be known, or the same write with the
    /// branch spelled out would pass for another.
    pub(crate) fn plan(&self, request: &Request<'_>) -> Planned {
        match self.place_of(request) {
            Err(refusal) => Planned::Refused(refusal),
            Ok(place) if place.branch.is_some() => Planned::Ready(plan_for(&place)),
            Ok(place) => match get(place.repository_path()) {
                Ok(read_back) => Planned::NeedsRead(Read {
                    read_back,
                    why: "the request names no branch: which one is the default",
                }),
                Err(fault) => Planned::Refused(invalid(fault)),
            },
        }
    }

    pub(crate) fn plan_with(&self, request: &Request<'_>, read: Option<&Answer>) -> Planned {
        let planned = self.place_of(request).and_then(|place| {
            let read = read.filter(|read| read.status == 200);
            let read = read.and_then(|read| json::of_answer(&read.body).ok());
            let default = read.as_ref().and_then(|repository| repository.get("default_branch")?.as_str());
            match place.branch.as_deref().or(default) {
                Some(branch) => Ok(plan_for(&Place { branch: Some(branch.to_owned()), ..place })),
                None => Err(invalid("The repository's default branch could not be read: name the branch")),
            }
        });
        match planned {
            Ok(plan) => Planned::Ready(plan),
            Err(refusal) => Planned::Refused(refusal),
        }
    }

    fn place_of(&self, request: &Request<'_>) -> Result<Place, Refusal> {
        if !request.query.is_empty() {
            let sentence =
                "A file's parameters belong in the body; the query must be empty. Nothing was sent.";
            return Err(Refusal::new(Code::Ambiguous, sentence));
        }
        message(request.input)?;
        let place = Place::of(self.repository.as_ref(), request.input)?;
        if let Some(only) = self.branch.as_deref().filter(|only| place.branch.as_deref() != Some(only)) {
            return Err(invalid(format!(
                "This action writes to the branch {only} only: name it as `branch`"
            )));
        }
        Ok(place)
    }

    /// What the agent sent, with the trailer under its commit message.
    pub(crate) fn prepare(&self, request: &Request<'_>, marks: &Marks<'_>) -> Result<Prepared, Refusal> {
        let object = match request.body_kind {
            BodyKind::Json => json::strict(request.body).ok(),
            BodyKind::Empty | BodyKind::Form | BodyKind::Opaque => None,
        };
        let Some(Value::Object(mut members)) = object else {
            return Err(invalid("A file must be written or deleted with a JSON object"));
        };
        let marked = with_trailer(message(request.input)?, marks.effect_id);
        members.insert("message".to_owned(), marked.into());
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Ok(Prepared { headers, body: Value::Object(members).to_string().into_bytes() })
    }

    pub(crate) fn look(&self, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
        match Place::of(self.repository.as_ref(), memory.input) {
            Ok(place) => look::look(&place, memory, step),
            Err(_) => Look::Impossible("what was asked names no file whose commits could be listed"),
        }
    }
}

fn plan_for(place: &Place) -> Plan {
    let Place { owner, name, branch, path } = place;
    let branch = branch.as_deref().unwrap_or_default();
    Plan {
        subject: Some(bounded_subject(format!("{owner}/{name}@{branch}:{path}"))),
        near: Vec::new(),
        resource: Some(format!("{owner}/{name}/{path}")),
        impact: Some(Impact {
            dimension: Dimension::ResourceMutations,
            amount: Some(1),
            bound: Bound::Exact,
        }),
        fingerprint_scope: Vec::new(),
        read_scope: Vec::new(),
        provider_key: false,
        replay_window_ms: None,
        drop_headers: Vec::new(),
    }
}

/// The commit message, without a mark of its own.
fn message(input: &Value) -> Result<&str, Refusal> {
    let message = input.get("message").and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let message = message.ok_or_else(|| invalid("`message` is needed; Oncegate marks the commit in it"))?;
    match message.to_ascii_lowercase().contains(&format!("{TRAILER}:").to_ascii_lowercase()) {
        true => Err(invalid(format!("The trailer {TRAILER} is set by Oncegate and may not be sent"))),
        false => Ok(message),
    }
}

fn trailer(effect_id: &str) -> String {
    format!("{TRAILER}: {effect_id}")
}

/// Git reads trailers from the last paragraph (git-interpret-trailers): one of trailers alone is gone on with.
fn with_trailer(message: &str, effect_id: &str) -> String {
    let message = message.trim_end();
    let is_trailer = |line: &str| {
        line.split_once(": ").is_some_and(|(token, _)| {
            !token.is_empty() && token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
    };
    let goes_on = message.rsplit_once("\n\n").is_some_and(|(_, last)| last.lines().all(is_trailer));
    let gap = if goes_on { "\n" } else { "\n\n" };
    format!("{message}{gap}{}", trailer(effect_id))
}

fn invalid(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::InvalidInput, format!("{what}. Nothing was sent."))
}

#[cfg(test)]
mod tests;
