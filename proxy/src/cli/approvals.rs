//! `oncegate approvals`, `approve` and `deny`: questions to a person, what they are about to the byte, and the answers.

use clap::{Args, ValueEnum};
use hyper::Method;
use oncegate_policy::id::ApprovalId;
use oncegate_policy::refusal::Code;
use serde_json::{Value, json};

use super::client::expect_data;
use super::exit::{Exit, Stop};
use super::pages::Part;
use super::source::{api, shaped};
use super::table::{Align, facts, table};
use super::{Common, print, visible};
use crate::control::view::{ApprovalJson, DecidedJson, InvocationJson};

#[derive(Args)]
pub(crate) struct ApprovalsArgs {
    /// Show this one, `apr_…`: while it is pending, with the whole request that would be sent
    #[arg(value_parser = approval_id, conflicts_with_all = ["status", "limit", "offset"])]
    id: Option<ApprovalId>,
    /// Only with this status
    #[arg(long, value_enum, value_name = "S")]
    status: Option<Status>,
    #[command(flatten)]
    part: Part,
}

#[derive(Args)]
pub(crate) struct DecideArgs {
    /// `apr_…`
    #[arg(value_parser = approval_id)]
    id: ApprovalId,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Status {
    Pending,
    Approved,
    Denied,
    Expired,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
        }
    }
}

fn approval_id(text: &str) -> Result<ApprovalId, String> {
    ApprovalId::parse(text)
        .ok_or_else(|| "an approval's id looks like apr_01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned())
}

/// Lists questions, newest first, or shows one.
pub(crate) async fn list(common: &Common, args: &ApprovalsArgs) -> Result<Exit, Stop> {
    if let Some(id) = &args.id {
        return show(common, id).await;
    }
    let status = args.status.map(|status| format!("&status={}", status.word())).unwrap_or_default();
    let api = api(common)?;
    let is_open = matches!(args.status, Some(Status::Pending));
    let document = args
        .part
        .read(is_open, async |limit, offset| api.page("/approvals", &status, limit, offset).await)
        .await?
        .told();
    if common.json {
        print::json(&document);
        return Ok(Exit::Done);
    }
    let approvals: Vec<ApprovalJson> = shaped(&document)?;
    if approvals.is_empty() {
        print::note("no approvals");
        return Ok(Exit::Done);
    }
    let columns = ["APPROVAL", "STATUS", "WHAT", "ASKED BY", "EXPIRES", "DECIDED BY", "EFFECT"];
    let rows: Vec<_> = approvals.iter().map(row).collect();
    print::out(&table(&columns.map(|column| (column, Align::Left)), &rows));
    Ok(Exit::Done)
}

/// One question, and everything that a person has to see before saying yes.
async fn show(common: &Common, id: &ApprovalId) -> Result<Exit, Stop> {
    let document = expect_data(api(common)?.call(Method::GET, &format!("/approvals/{id}")).await?)?;
    if common.json {
        print::json(&document);
    } else {
        print::out(&shown(&shaped(&document)?, &document["payload"]));
    }
    Ok(Exit::Done)
}

fn shown(approval: &ApprovalJson, payload: &Value) -> String {
    let mut rows = vec![
        ("approval", approval.id.clone()),
        ("status", approval.status.clone()),
        ("what", approval.title.clone()),
        ("asked by", format!("{}, {}", approval.requested_by, approval.requested_at)),
        ("expires", approval.expires_at.clone()),
    ];
    let more = [
        ("effect", &approval.effect_id),
        ("more", &approval.description),
        ("decided by", &approval.decided_by),
        ("decided at", &approval.decided_at),
        ("note", &approval.decision_note),
    ];
    rows.extend(more.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))));
    let text = facts(&rows);
    if payload.is_null() {
        return text;
    }
    // As JSON: nothing that the agent wrote can pass for a line of ours.
    format!("{text}\n{}\n", visible::json(&format!("{payload:#}")))
}

fn row(approval: &ApprovalJson) -> Vec<String> {
    let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    vec![
        approval.id.clone(),
        approval.status.clone(),
        approval.title.clone(),
        approval.requested_by.clone(),
        approval.expires_at.clone(),
        dash(&approval.decided_by),
        dash(&approval.effect_id),
    ]
}

/// Says yes: what waited is sent, and the command ends as that ends.
pub(crate) async fn approve(common: &Common, args: &DecideArgs) -> Result<Exit, Stop> {
    let look = format!("`oncegate approvals {}`", args.id);
    let (document, decided) =
        api(common)?.effect(&format!("/approvals/{}/approve", args.id), &note(args), &look).await?;
    print_decided(common, &document, &decided);
    Ok(decided.invocation.as_ref().map_or(Exit::Done, exit_of))
}

/// Says no: what waited ends, unsent.
pub(crate) async fn deny(common: &Common, args: &DecideArgs) -> Result<Exit, Stop> {
    let document = api(common)?.post(&format!("/approvals/{}/deny", args.id), &note(args)).await?;
    let document = expect_data(document)?;
    print_decided(common, &document, &shaped(&document)?);
    Ok(Exit::Done)
}

fn note(args: &DecideArgs) -> Value {
    args.note.as_ref().map_or_else(|| json!({}), |note| json!({ "note": note }))
}

fn print_decided(common: &Common, document: &Value, decided: &DecidedJson) {
    if common.json {
        print::json(document);
    } else {
        print::out(&written(decided));
    }
}

fn written(decided: &DecidedJson) -> String {
    let mut rows = vec![
        ("approval", decided.approval.id.clone()),
        ("status", decided.approval.status.clone()),
        ("what", decided.approval.title.clone()),
    ];
    if let Some(invocation) = &decided.invocation {
        rows.push(("effect", invocation.effect_id.clone().unwrap_or_default()));
        rows.push(("outcome", outcome(invocation)));
        rows.extend(invocation.error.clone().map(|error| ("why", error)));
        if let Some(what) = put_off_until(invocation) {
            let id = &decided.approval.id;
            rows.push(("then", format!("sent when {what}; `oncegate deny {id}` stops it before")));
        }
    }
    facts(&rows)
}

/// `succeeded (confirmed)`, where there is a grade.
fn outcome(invocation: &InvocationJson) -> String {
    match &invocation.grade {
        Some(grade) => format!("{} ({grade})", invocation.outcome),
        None => invocation.outcome.clone(),
    }
}

/// How `approve` ends: by what became of what was approved.
fn exit_of(invocation: &InvocationJson) -> Exit {
    match (invocation.status.as_str(), &invocation.decision) {
        ("succeeded", _) => Exit::Done,
        // Under a halt, or without its secret, it waits, and is sent after that.
        _ if put_off_until(invocation).is_some() => Exit::Waiting,
        // A rule said no when it was to be sent, for good.
        (_, Some(_)) => Exit::Refused,
        ("failed", None) => Exit::Failed,
        _ => Exit::Unknown,
    }
}

/// Approved, and nothing is sent now: it is when writes are resumed, or when its secret can be had.
fn put_off_until(invocation: &InvocationJson) -> Option<&'static str> {
    let decision = invocation.decision.as_ref().filter(|_| invocation.status == "running")?;
    Some(match decision.code == Code::Halted.word() {
        true => "writes are resumed",
        false => "its secret can be had",
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn approving_ends_by_what_became_of_it() {
        let invocation = |status: &str, decided: bool| {
            let decision =
                json!({ "source": "system", "code": "halted", "effect": "denied", "explanation": "x" });
            let decision = if decided { decision } else { Value::Null };
            let document = json!({
                "id": "inv_x", "invocationId": "inv_x", "actionName": "refund", "caller": "a", "status": status,
                "outcome": "x", "grade": "x", "effectId": "eff_x", "pendingApproval": false, "body": null,
                "decision": decision, "createdAt": "x",
            });
            exit_of(&shaped(&document).unwrap()).number()
        };
        let ends = [("succeeded", false), ("failed", false), ("unknown", false), ("running", false)];
        assert_eq!(ends.map(|(status, decided)| invocation(status, decided)), [0, 1, 13, 13]);
        assert_eq!([invocation("failed", true), invocation("running", true)], [15, 14]);
    }
}
