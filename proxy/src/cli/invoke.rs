//! `oncegate invoke ACTION`: an action asked for by name, through the API.

use std::io::Read;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, Stop, chain};
use super::source::api;
use super::table::facts;
use super::{Common, print};
use crate::control::view::InvocationJson;

/// Most bytes of an input that is read from standard input; the API's own bound is what counts.
const INPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What is said of a repeat.
const REPEAT: &str = "recorded before; nothing was sent for this call";

#[derive(Args)]
pub(crate) struct InvokeArgs {
    /// The action's name
    action: String,
    /// The input, a JSON object; `-` reads it from standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    input: String,
    /// The operation's own key: the same key again is the same operation
    #[arg(long, value_name = "K")]
    key: Option<String>,
    /// The failed invocation that this one retries on purpose
    #[arg(long, value_name = "INV")]
    retry_of: Option<String>,
    /// Only if nothing has changed since this preview
    #[arg(long, value_name = "PRV")]
    preview: Option<String>,
}

/// Asks, prints what became of it, and exits by it.
pub(crate) async fn run(common: &Common, args: &InvokeArgs) -> Result<Exit, Stop> {
    let mut asked = json!({ "input": input(&args.input)? });
    let named = [("retryOf", &args.retry_of), ("previewId", &args.preview), ("operationKey", &args.key)];
    if let Some(members) = asked.as_object_mut() {
        members.extend(
            named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into()))),
        );
    }
    let action = oncegate_policy::url_template::percent_encode(&args.action);
    let look = match &args.key {
        Some(key) => format!("`oncegate effects --key {key}`"),
        None => format!("`oncegate effects --action {}`", args.action),
    };
    let path = format!("/actions/{action}/invoke");
    let (document, invocation): (_, InvocationJson) = api(common)?.effect(&path, &asked, &look).await?;
    if common.json {
        print::json(&document);
    } else {
        print::out(&written(&invocation));
    }
    if invocation.replayed == Some(true) {
        print::note(&format!("a repeat: {REPEAT}"));
    }
    Ok(exit_of(&invocation))
}

/// Passed on as it was typed: a number keeps its spelling.
fn input(text: &str) -> Result<Value, Stop> {
    let read = match text {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .take(INPUT_BYTES_MAX)
                .read_to_string(&mut text)
                .map_err(|error| Stop::usage(format!("--input: {}", chain(&error))))?;
            text
        }
        text => text.to_owned(),
    };
    oncegate_policy::json::strict(read.as_bytes())
        .map_err(|fault| Stop::usage(format!("--input cannot be read in one way: {fault}")))
}

fn written(invocation: &InvocationJson) -> String {
    let some = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let mut rows = vec![
        ("invocation", some(&invocation.id)),
        ("effect", some(&invocation.effect_id)),
        ("status", invocation.status.clone()),
        ("grade", some(&invocation.grade)),
    ];
    rows.extend((invocation.replayed == Some(true)).then(|| ("repeat", REPEAT.to_owned())));
    rows.extend(invocation.approval_id.clone().map(|approval| ("approval", approval)));
    rows.extend(invocation.response_status.map(|status| ("provider said", status.to_string())));
    rows.extend(invocation.error.clone().map(|error| ("because", error)));
    if !invocation.body.is_null() {
        rows.push(("body", invocation.body.to_string()));
    }
    facts(&rows)
}

fn exit_of(invocation: &InvocationJson) -> Exit {
    match (invocation.status.as_str(), invocation.grade.as_deref()) {
        ("succeeded", _) => Exit::Done,
        // Approved, and not sent yet: what is on its way is answered in another way.
        ("pending_approval", _) | ("running", Some("pending")) => Exit::Waiting,
        ("denied" | "expired", _) | ("failed", Some("refused")) => Exit::Refused,
        ("failed", _) => Exit::Failed,
        _ => Exit::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_what_became_of_it() {
        let exit = |status: &str, grade: Option<&str>| {
            let document = json!({
                "id": "inv_x", "invocationId": "inv_x", "actionName": "refund", "caller": "a", "status": status,
                "outcome": "x", "grade": grade, "effectId": null, "pendingApproval": false, "body": null,
            });
            exit_of(&serde_json::from_value(document).unwrap()).number()
        };
        assert_eq!(exit("succeeded", Some("acknowledged")), 0);
        assert_eq!(exit("failed", Some("failed")), 1);
        assert_eq!(exit("failed", None), 1);
        assert_eq!(exit("unknown", Some("unknown")), 13);
        assert_eq!(exit("running", None), 13);
        assert_eq!(exit("running", Some("pending")), 14);
        assert_eq!(exit("pending_approval", Some("pending")), 14);
        assert_eq!(exit("failed", Some("refused")), 15);
        assert_eq!(exit("denied", Some("denied")), 15);
        assert_eq!(exit("expired", Some("denied")), 15);
    }

    #[test]
    fn numbers_keep_their_spelling_and_doubles_are_refused() {
        assert_eq!(input(r#"{"amount": 12000}"#).unwrap().to_string(), r#"{"amount":12000}"#);
        assert!(input(r#"{"a":1,"a":2}"#).is_err());
        assert!(input("{").is_err());
    }
}
