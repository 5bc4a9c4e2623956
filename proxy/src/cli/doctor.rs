//! `oncegate doctor`: which clients of this machine will be governed behind `oncegate run`. Each that is found asks
//! for a name that the sidecar answers itself, in the very environment of a run, and the sidecar tells how far it came.
//! Nothing leaves the machine but what a client sends that ignores the proxy: a question for a name that cannot exist.

mod behind;
mod checks;
mod clients;
mod python;
mod trial;
mod verdict;

use clap::Args;
use serde_json::json;

use super::exit::{Exit, Stop};
use super::{Common, env, print};
use crate::clock::Clock;
use behind::Behind;
use checks::Check;
use clients::Client;
use verdict::Verdict;

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// The caller that the clients are; may be left out when only one may invoke actions
    #[arg(long = "as", value_name = "CALLER")]
    caller: Option<String>,
    /// Try this client only, as it is named in the output; may be repeated
    #[arg(long = "client", value_name = "NAME")]
    clients: Vec<String>,
}

/// What is printed.
struct Report {
    sidecar: String,
    checks: Vec<Check>,
    verdicts: Vec<Verdict>,
    absent: Vec<&'static str>,
}

/// Exits 0 when every client that was found is governed and no check failed, else 1.
pub(crate) async fn run(common: &Common, args: &DoctorArgs) -> Result<Exit, Stop> {
    let loaded = super::load(common)?;
    let (caller, _) = env::which_caller(&loaded, args.caller.as_deref())?;
    let wanted = wanted(&args.clients)?;
    let mut checks = checks::files(&loaded, Clock::System.system());
    checks.extend(checks::environment(&loaded, &|name| std::env::var(name).ok()));
    let (mut verdicts, mut absent) = (Vec::new(), Vec::new());
    let mut sidecar = "none".to_owned();
    // Without a CA to trust there is nothing to try: starting a sidecar would make one, and a doctor changes nothing.
    if !checks::hopeless(&checks) {
        match Behind::open(&loaded, caller).await {
            Ok(behind) => {
                sidecar = behind.described();
                let tried = trial::all(&loaded, caller, &behind, &wanted).await;
                behind.close().await;
                (verdicts, absent) = tried?;
            }
            Err(stop) => checks.push(checks::no_sidecar(&stop.message)),
        }
    }
    let report = Report { sidecar, checks, verdicts, absent };
    if common.json {
        print::json(&report.document());
    } else {
        print::out(&report.text());
    }
    Ok(if report.well() { Exit::Done } else { Exit::Failed })
}

fn wanted(names: &[String]) -> Result<Vec<&'static Client>, Stop> {
    let all = clients::all();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|client| client.name == **name)) {
        let known: Vec<_> = all.iter().map(|client| client.name).collect();
        return Err(Stop::usage(format!("there is no client `{unknown}`; known are: {}", known.join(", "))));
    }
    Ok(all.into_iter().filter(|client| names.is_empty() || names.iter().any(|n| n == client.name)).collect())
}

impl Report {
    fn well(&self) -> bool {
        !self.checks.iter().any(Check::failed) && self.verdicts.iter().all(Verdict::governed)
    }

    fn document(&self) -> serde_json::Value {
        json!({
            "ok": self.well(),
            "sidecar": self.sidecar,
            "checks": self.checks.iter().map(Check::document).collect::<Vec<_>>(),
            "clients": self.verdicts.iter().map(Verdict::document).collect::<Vec<_>>(),
            "absent": self.absent,
        })
    }

    fn text(&self) -> String {
        let mut text = format!("sidecar: {}\n", self.sidecar);
        self.checks.iter().for_each(|check| text.push_str(&check.text()));
        if !self.verdicts.is_empty() {
            text.push('\n');
        }
        self.verdicts.iter().for_each(|verdict| text.push_str(&verdict.text()));
        if !self.absent.is_empty() {
            text.push_str(&format!("\nnot found: {}\n", self.absent.join(", ")));
        }
        text
    }
}
