//! `oncegate halt` and `oncegate resume`: the emergency stop of every write.
//!
//! A database that no sidecar serves can be halted too, so that a sidecar that is started on it later (a restored one,
//! most of all) sends nothing before somebody says so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use oncegate_policy::caller::CallerName;
use oncegate_policy::id::OwnerId;
use oncegate_policy::reconcile::Schedule;
use oncegate_store::{Store, StoreOptions};
use serde_json::{Value, json};

use super::client::expect_data;
use super::exit::{Exit, Stop, chain};
use super::source::{api, shaped};
use super::table::facts;
use super::{Common, print};
use crate::clock::Clock;
use crate::control::environment::REASON_CHARS_MAX;
use crate::control::show;
use crate::control::view::EnvironmentJson;
use crate::state::new_ulid;

#[derive(Args)]
pub(crate) struct HaltArgs {
    /// Why: agents read it in every refusal
    #[arg(long, value_name = "R")]
    reason: String,
    /// Write it into this database, which no sidecar serves, instead of asking a sidecar
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

/// Who halts with `--db`, in the record: no caller did.
const BY_HAND: &str = "command-line";

/// Refuses every new write from now on, also after a restart.
pub(crate) async fn halt(common: &Common, args: &HaltArgs) -> Result<Exit, Stop> {
    match &args.db {
        None => change(common, "halt", &json!({ "reason": args.reason })).await,
        Some(path) => {
            let reason = args.reason.chars().count();
            if reason == 0 || reason > REASON_CHARS_MAX {
                return Err(Stop::usage(format!("a reason has 1 to {REASON_CHARS_MAX} characters")));
            }
            print_out(common, &directly(path, &args.reason).await?)
        }
    }
}

/// Lets writes happen again.
pub(crate) async fn resume(common: &Common) -> Result<Exit, Stop> {
    change(common, "resume", &json!({})).await
}

async fn change(common: &Common, step: &str, body: &Value) -> Result<Exit, Stop> {
    print_out(common, &expect_data(api(common)?.post(&format!("/environment/{step}"), body).await?)?)
}

/// The halt of a database that this process holds for a moment.
async fn directly(path: &Path, reason: &str) -> Result<Value, Stop> {
    let by = CallerName::parse(BY_HAND)
        .ok_or_else(|| Stop::failed(format!("`{BY_HAND}` is not the name of a caller")))?;
    if !path.exists() {
        return Err(Stop::usage(format!("there is no database {}", path.display())));
    }
    // Nothing is admitted, looked at or answered here: only the path matters.
    let schedule = Schedule { first_after: Duration::ZERO, max_interval: Duration::ZERO };
    let options =
        StoreOptions { path: path.to_owned(), schedule, queue_capacity: 1, keep_responses: Duration::ZERO };
    let now = Clock::System.now();
    let store = Store::open(options, OwnerId::from_ulid(&new_ulid()), now)
        .map_err(|error| Stop::usage(chain(&error)))?;
    let halt = store.halt(reason, &by, now).await.map_err(|error| Stop::failed(chain(&error)))?;
    serde_json::to_value(show::environment(Some(&halt))).map_err(|error| Stop::failed(error.to_string()))
}

fn print_out(common: &Common, document: &Value) -> Result<Exit, Stop> {
    if common.json {
        print::json(document);
        return Ok(Exit::Done);
    }
    let environment: EnvironmentJson = shaped(document)?;
    let mut rows = vec![("writes", if environment.halted { "halted" } else { "allowed" }.to_owned())];
    rows.extend(environment.halt_reason.map(|reason| ("reason", reason)));
    rows.extend(environment.halted_by.map(|by| ("by", by)));
    rows.extend(environment.halted_at.map(|at| ("since", at)));
    rows.extend(environment.let_go.into_iter().map(|effect| ("let go", effect)));
    print::out(&facts(&rows));
    Ok(Exit::Done)
}
