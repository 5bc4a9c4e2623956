//! `oncegate halt` and `oncegate resume`: the emergency stop of every write.

use clap::Args;
use serde_json::json;

use super::client::expect_data;
use super::exit::{Exit, Stop};
use super::source::{api, shaped};
use super::table::facts;
use super::{Common, print};
use crate::control::view::EnvironmentJson;

#[derive(Args)]
pub(crate) struct HaltArgs {
    /// Why: agents read it in every refusal
    #[arg(long, value_name = "R")]
    reason: String,
}

/// Refuses every new write from now on, also after a restart.
pub(crate) async fn halt(common: &Common, args: &HaltArgs) -> Result<Exit, Stop> {
    change(common, "halt", &json!({ "reason": args.reason })).await
}

/// Lets writes happen again.
pub(crate) async fn resume(common: &Common) -> Result<Exit, Stop> {
    change(common, "resume", &json!({})).await
}

async fn change(common: &Common, step: &str, body: &serde_json::Value) -> Result<Exit, Stop> {
    let document = expect_data(api(common)?.post(&format!("/environment/{step}"), body).await?)?;
    if common.json {
        print::json(&document);
        return Ok(Exit::Done);
    }
    let environment: EnvironmentJson = shaped(&document)?;
    let mut rows = vec![("writes", if environment.halted { "halted" } else { "allowed" }.to_owned())];
    rows.extend(environment.halt_reason.map(|reason| ("reason", reason)));
    rows.extend(environment.halted_by.map(|by| ("by", by)));
    rows.extend(environment.halted_at.map(|at| ("since", at)));
    print::out(&facts(&rows));
    Ok(Exit::Done)
}
