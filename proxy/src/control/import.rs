//! `POST /actions/import`: the operations of an OpenAPI document as actions, all that can be in one step.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use oncegate_policy::action::ActionName;
use serde_json::{Value, json};

use super::actions_write::secure;
use super::answer::{ApiError, ErrorCode, one};
use super::auth::Asker;
use super::body;
use super::definitions::{Edit, Refused, Standing, blocking, faulty, takes_over};
use crate::definition::entry;
use crate::definition::openapi::{self, Candidate, Import, Skipped};
use crate::state::Sidecar;

/// Most bytes of a request with a document.
pub(super) const BYTES_MAX: usize = 1024 * 1024;

/// `POST /actions/import`
pub(crate) async fn import(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    body: Body,
) -> Result<Response, ApiError> {
    let body = body::strict_object(body, BYTES_MAX).await?;
    let request: Import = serde_json::from_value(body)
        .map_err(|fault| ApiError::new(ErrorCode::Validation, format!("the body: {fault}")))?;
    let dry_run = request.dry_run;
    let read = blocking("read the document", move || Ok(openapi::read(&request))).await?;
    let found = read.map_err(|problem| faulty(vec![problem]))?;
    let mut edit = Edit::begin(&sidecar).await?;
    let mut taken = Taken { candidates: BTreeMap::new(), order: Vec::new(), skipped: found.skipped };
    for candidate in found.candidates {
        taken.offer(&sidecar, &mut edit, candidate);
    }
    taken.judge(&mut edit).await?;
    if !dry_run && !taken.candidates.is_empty() {
        let names: Vec<&ActionName> = taken.candidates.keys().collect();
        let editing = sidecar.editions.editing().await;
        let warnings = edit.take(&asker, &names, editing).await?;
        tracing::info!(caller.name = %asker.name, actions = names.len(), "actions were imported");
        taken.warn(warnings);
    }
    let status = if dry_run { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, one(taken.shown(dry_run))).into_response())
}

/// What becomes of the operations.
struct Taken {
    candidates: BTreeMap<ActionName, Candidate>,
    /// As the document has them.
    order: Vec<ActionName>,
    skipped: Vec<Skipped>,
}

impl Taken {
    /// Puts an operation into the file, unless something speaks against it already.
    fn offer(&mut self, sidecar: &Arc<Sidecar>, edit: &mut Edit<'_>, candidate: Candidate) {
        let entry = match entry::created(&candidate.members) {
            Ok(entry) => entry,
            Err(problems) => {
                return self.skip(candidate, problems.into_iter().map(|problem| problem.message));
            }
        };
        if let Err(problem) = secure(&sidecar.snapshot(), &entry) {
            return self.skip(candidate, [problem.message]);
        }
        let Some(name) = ActionName::parse(&candidate.name) else {
            let reason = format!("`{}` cannot be an action's name", candidate.name);
            return self.skip(candidate, [reason]);
        };
        let reason = match edit.standing(&name) {
            Standing::Nothing => {
                edit.defined.set(name.as_str(), entry);
                self.order.push(name.clone());
                self.candidates.insert(name, candidate);
                return;
            }
            Standing::Managed(known) if *known == entry => {
                format!("the action {name} is there already, and the same")
            }
            Standing::Managed(_) => format!("an action {name} exists already, and says something else"),
            Standing::ByHand => format!("an action {name} is declared in the configuration"),
        };
        self.skip(candidate, [reason]);
    }

    /// Takes out what the configuration's reader refuses and what would take requests from an action whose effects are
    /// open, until the rest is good. Each round takes out one at least.
    async fn judge(&mut self, edit: &mut Edit<'_>) -> Result<(), ApiError> {
        loop {
            let mut reasons: BTreeMap<ActionName, Vec<String>> = BTreeMap::new();
            let refused = match edit.judge().await {
                Ok(taken_over) if taken_over.is_empty() => return Ok(()),
                Ok(taken_over) => {
                    for one in &taken_over {
                        reasons.entry(one.by.clone()).or_default().push(one.sentence());
                    }
                    taken_over.first().map(takes_over)
                }
                Err(Refused::Faulty(found)) => {
                    for (action, problem) in &found {
                        if let Some(name) = ActionName::parse(action) {
                            reasons.entry(name).or_default().push(problem.message.clone());
                        }
                    }
                    Some(Refused::Faulty(found).into())
                }
                Err(Refused::Other(error)) => return Err(error),
            };
            let before = self.candidates.len();
            for (name, reasons) in reasons {
                let Some(candidate) = self.candidates.remove(&name) else { continue };
                edit.defined.remove(name.as_str());
                self.skip(candidate, reasons);
            }
            if let Some(refused) = refused.filter(|_| self.candidates.len() == before) {
                return Err(refused);
            }
        }
    }

    fn skip(&mut self, candidate: Candidate, reasons: impl IntoIterator<Item = String>) {
        let reason = reasons.into_iter().collect::<Vec<_>>().join("; ");
        self.skipped.push(Skipped { path: candidate.path, method: candidate.method, reason });
    }

    fn warn(&mut self, warnings: Vec<(String, String)>) {
        for (action, warning) in warnings {
            let candidate = ActionName::parse(&action).and_then(|name| self.candidates.get_mut(&name));
            if let Some(candidate) = candidate {
                candidate.warnings.push(warning);
            }
        }
    }

    fn shown(&self, dry_run: bool) -> Value {
        let candidates = self.order.iter().filter_map(|name| self.candidates.get_key_value(name));
        let created: Vec<_> = candidates
            .map(|(name, candidate)| {
                json!({
                    "name": name.as_str(),
                    "path": candidate.path,
                    "method": candidate.method,
                    "warnings": candidate.warnings,
                    "governed": candidate.members.get("governed") == Some(&Value::Bool(true)),
                    "impact": candidate.members.get("impact"),
                    "proposedVerify": candidate.proposed_verify,
                    "verifyNote": candidate.verify_note,
                })
            })
            .collect();
        json!({ "created": created, "skipped": self.skipped, "dryRun": dry_run })
    }
}
