//! `github.write`: any other write of GitHub's REST API that an operator declares: issues, comments, pull requests.
//!
//! GitHub has no idempotency key, so there is no replay. What can be found again is what carries a mark, and the only
//! place for one is the text that people read: it is put there as an HTML comment if the operator allows it
//! (`mark_body`), and not otherwise. Subject and impact are as declared, or else what the URL names and one mutation.

mod look;
mod shape;

use oncegate_policy::body::BodyKind;
use oncegate_policy::classify::ResponseRules;
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::json;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::template::Scope;
use serde_json::Value;

use crate::built::{Built, plain_header};
use crate::declared::{Declared, Verify};
use crate::github::is_plain_name;
use crate::look::{Look, LookStep, Memory};
use crate::own_marks;
use crate::plan::{Marks, Plan, Planned, Prepared, Request, bounded_subject};
use shape::Shape;

/// The name in the mark.
const MARK: &str = "oncegate-effect";

/// One declared write.
#[derive(Clone, Debug)]
pub struct GithubWrite {
    /// Whether the text that people read may carry the effect's mark.
    mark_body: bool,
    /// Where it goes, what it acts on, what it changes, and how else it can be looked for.
    route: Declared,
}

impl GithubWrite {
    pub(crate) fn verify(&self) -> Option<&Verify> {
        self.route.verify.as_ref()
    }

    /// A write of this route. Its `response` is replaced by what GitHub documents of the endpoint.
    #[must_use]
    pub fn new(route: Declared, mark_body: bool) -> Self {
        let failed_statuses = Shape::of_url(&route.url.to_string()).refusals().to_vec();
        let response = ResponseRules { failed_statuses, ..ResponseRules::default() };
        Self { mark_body, route: Declared { response, ..route } }
    }

    pub(crate) fn response_rules(&self) -> &ResponseRules {
        &self.route.response
    }

    pub(crate) fn build(&self, input: &Value, scope: &Scope<'_>) -> Result<Built, Refusal> {
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/vnd.github+json"),
            ("user-agent", "oncegate"),
        ];
        let headers = headers.map(|(name, value)| plain_header(name, value)).to_vec();
        Declared { headers, ..self.route.clone() }.build(input, scope)
    }

    pub(crate) fn plan(&self, request: &Request<'_>) -> Planned {
        match self.try_plan(request) {
            Ok(plan) => Planned::Ready(plan),
            Err(refusal) => Planned::Refused(refusal),
        }
    }

    fn try_plan(&self, request: &Request<'_>) -> Result<Plan, Refusal> {
        match request.body_kind {
            BodyKind::Empty | BodyKind::Json => {}
            BodyKind::Form | BodyKind::Opaque => return Err(invalid("GitHub must be asked with JSON")),
        }
        let named = |name: &str| self.route.url.parameters().any(|own| own == name);
        if request.query.iter().any(|(name, _)| !named(name)) {
            let sentence = "The parameters belong in the body; the query must be empty. Nothing was sent.";
            return Err(Refusal::new(Code::Ambiguous, sentence));
        }
        // Where no mark of ours goes, too: one that an agent writes would be found in place of what was lost.
        if self.marks() || request.input.get("body").is_some_and(Value::is_string) {
            unmarked_text(request.input)?;
        }
        // A merge's message becomes a commit's, among which a file's are looked for by their trailer.
        own_marks::no_trailer(request.input, None)?;
        let plan = self.route.try_plan(request)?;
        let path = self.path(request.input);
        path.as_deref().map_or(Ok(()), plain_names)?;
        let named = || path.as_deref().map(|path| bounded_subject(subject(path, request.input)));
        let one = Impact { dimension: Dimension::ResourceMutations, amount: Some(1), bound: Bound::Exact };
        Ok(Plan {
            subject: plan.subject.clone().or_else(named),
            resource: path.as_deref().map(resource),
            impact: plan.impact.clone().or(Some(one)),
            ..plan
        })
    }

    /// What the agent sent; with the mark under its text, if that is allowed.
    pub(crate) fn prepare(&self, request: &Request<'_>, marks: &Marks<'_>) -> Result<Prepared, Refusal> {
        if !self.marks() {
            return self.route.prepare(request, marks);
        }
        let object = match request.body_kind {
            BodyKind::Json => json::strict(request.body).ok(),
            BodyKind::Empty | BodyKind::Form | BodyKind::Opaque => None,
        };
        let Some(Value::Object(mut members)) = object else {
            return Err(invalid("The body must be a JSON object: Oncegate marks the text in it"));
        };
        let text = unmarked_text(request.input)?.trim_end();
        let gap = if text.is_empty() { "" } else { "\n\n" };
        members.insert("body".to_owned(), format!("{text}{gap}{}", mark(marks.effect_id)).into());
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Ok(Prepared { headers, body: Value::Object(members).to_string().into_bytes() })
    }

    pub(crate) fn can_read_back(&self) -> bool {
        self.route.verify.is_some() || self.marks()
    }

    /// The operator's own rule goes first: it was written for this very endpoint.
    pub(crate) fn look(&self, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
        if self.route.verify.is_some() {
            return self.route.look(memory, step);
        }
        match self.path(memory.input) {
            Some(path) => look::look(&Shape::of_path(&path), self.mark_body, memory, step),
            None => Look::Impossible("the URL cannot be built from what was asked"),
        }
    }

    /// Whether what goes out carries a mark.
    fn marks(&self) -> bool {
        self.mark_body && Shape::of_url(&self.route.url.to_string()).has_text()
    }

    /// `/repos/owner/name/…`
    fn path(&self, input: &Value) -> Option<String> {
        let url = self.route.url.build(&Scope::of_input(input)).ok()?;
        shape::path_of(&url).map(str::to_owned)
    }
}

/// `owner/name/…` in one spelling: GitHub does not tell the cases of owner and name apart, and a number is the same with
/// zeros before it.
fn resource(path: &str) -> String {
    let below = path.strip_prefix("/repos/").unwrap_or(path).to_lowercase();
    let one = |word: &str| match word.bytes().all(|b| b.is_ascii_digit()) {
        true => word.trim_start_matches('0').to_owned(),
        false => word.to_owned(),
    };
    below.split('/').map(one).collect::<Vec<_>>().join("/")
}

/// What is acted on. A pull request is what it would merge into what: GitHub has one open at a time of each
/// (<https://docs.github.com/en/rest/pulls/pulls#create-a-pull-request>).
fn subject(path: &str, input: &Value) -> String {
    let resource = resource(path);
    let branch = |name: &str| {
        let text = input.get(name).and_then(Value::as_str).unwrap_or_default();
        let owner = resource.split('/').next().unwrap_or_default();
        // `owner:branch` is a branch of that owner's fork; of the repository's own owner it is the branch alone.
        let own = text.split_once(':').filter(|(named, _)| named.eq_ignore_ascii_case(owner));
        let text = own.map_or(text, |(_, branch)| branch);
        text.strip_prefix("refs/heads/").unwrap_or(text).to_owned()
    };
    match Shape::of_path(path) {
        Shape::Pull(_) => format!("{resource}/{}...{}", branch("base"), branch("head")),
        Shape::Issue(_) | Shape::Comment(..) | Shape::Merge | Shape::Other => without_workflow(&resource),
    }
}

/// A workflow has two names, its file's and a number
/// (<https://docs.github.com/en/rest/actions/workflows#create-a-workflow-dispatch-event>): under the other one a lost run would be
/// started again. So the workflows of a repository are one subject.
fn without_workflow(resource: &str) -> String {
    match resource.split('/').collect::<Vec<_>>().as_slice() {
        [owner, repository, "actions", "workflows", _, rest @ ..] => {
            [&[*owner, *repository, "actions", "workflows", "*"], rest].concat().join("/")
        }
        _ => resource.to_owned(),
    }
}

/// One spelling of each place ([`is_plain_name`]), and numbers in digits: what it makes of `7.0` is not documented either.
fn plain_names(path: &str) -> Result<(), Refusal> {
    let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let good = match words.as_slice() {
        ["repos", owner, repository, "issues" | "pulls", number, ..] => {
            is_plain_name(owner) && is_plain_name(repository) && number.bytes().all(|b| b.is_ascii_digit())
        }
        ["repos", owner, repository, ..] => is_plain_name(owner) && is_plain_name(repository),
        _ => true,
    };
    if good { Ok(()) } else { Err(invalid("Name the repository and the number in their plain spelling")) }
}

/// The text that people will read, without a mark of its own.
fn unmarked_text(input: &Value) -> Result<&str, Refusal> {
    let text = match input.get("body") {
        None | Some(Value::Null) => "",
        Some(Value::String(text)) => text,
        Some(_) => return Err(invalid("`body` must be text")),
    };
    match text.to_ascii_lowercase().contains(&format!("{MARK}:")) {
        true => Err(invalid(format!("The mark {MARK} is set by Oncegate and may not be sent"))),
        false => Ok(text),
    }
}

/// Not shown where Markdown is (<https://spec.commonmark.org/0.31.2/#html-comment>).
fn mark(effect_id: &str) -> String {
    format!("<!-- {MARK}: {effect_id} -->")
}

fn invalid(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::InvalidInput, format!("{what}. Nothing was sent."))
}

#[cfg(test)]
mod tests;
