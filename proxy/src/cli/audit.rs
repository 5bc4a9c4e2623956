//! `oncegate audit verify`: whether the evidence is what was written.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::exit::{Exit, Stop};
use super::source::Source;
use super::{Common, print, visible};

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Read the whole evidence chain. Exits 1 and names the first bad event if one was changed, removed or reordered
    Verify(VerifyArgs),
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Read this database instead of asking a sidecar
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

/// Does what the command says.
pub(crate) async fn run(common: &Common, command: &AuditCommand) -> Result<Exit, Stop> {
    let AuditCommand::Verify(args) = command;
    let report = Source::of_chain(common, args.db.as_deref())?.chain().await?;
    let fault = report.get("fault").filter(|fault| !fault.is_null());
    if common.json {
        print::json(&report);
    } else {
        let events = &report["events"];
        match fault {
            None => print::line(&format!("the evidence chain is intact: {events} events")),
            Some(fault) => {
                let what = visible::line(fault["what"].as_str().unwrap_or_default());
                print::line(&format!("BROKEN at event {}: {what} ({events} events read)", fault["seq"]));
            }
        }
    }
    Ok(if fault.is_none() { Exit::Done } else { Exit::Failed })
}
