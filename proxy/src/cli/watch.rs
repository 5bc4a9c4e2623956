//! `oncegate watch`: what is unresolved, held or waiting, and every change of it, until Ctrl-C.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::exit::{Exit, Stop};
use super::pages::Part;
use super::source::{Source, Wanted, shaped};
use super::{Common, effects, limits, print, visible};
use crate::control::view::{EffectJson, LimitJson};

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most effects that are shown; the oldest of more are left out.
const EFFECTS_MAX: u32 = 200;
/// Clears a terminal and goes to its top.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

#[derive(Args)]
pub(crate) struct WatchArgs {
    /// Show it once, and end
    #[arg(long)]
    once: bool,
    /// Read this database instead of asking a sidecar
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

/// Shows it now and at every change. With `--json` one document a line.
pub(crate) async fn run(common: &Common, args: &WatchArgs) -> Result<Exit, Stop> {
    let source = Source::choose(common, args.db.as_deref())?;
    let mut shown = look(&source).await?;
    let there = show(common, &shown)?;
    if args.once || !there {
        return Ok(Exit::Done);
    }
    let mut silent = false;
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            _ = &mut interrupt => return Ok(Exit::Done),
            () = sleep(LOOK_EVERY) => {}
        }
        match look(&source).await {
            Ok(now) => {
                // Whoever read this may have gone: nobody is left to tell.
                if (now != shown || silent) && !show(common, &now)? {
                    return Ok(Exit::Done);
                }
                (shown, silent) = (now, false);
            }
            // A sidecar that starts again is waited for.
            Err(stop) if !silent => {
                print::note(&stop.message);
                silent = true;
            }
            Err(_) => {}
        }
    }
}

/// Everything that is shown, as one document.
async fn look(source: &Source) -> Result<Value, Stop> {
    let wanted =
        Wanted { unresolved: true, part: Part { limit: Some(EFFECTS_MAX), offset: 0 }, ..Wanted::default() };
    Ok(json!({ "effects": source.effects(&wanted).await?.rows, "limits": source.limits().await? }))
}

/// Whether somebody still reads.
fn show(common: &Common, now: &Value) -> Result<bool, Stop> {
    if common.json {
        return Ok(print::told(&format!("{}\n", visible::json(&now.to_string()))));
    }
    let clear = if io::stdout().is_terminal() { CLEAR } else { "" };
    Ok(print::told(&format!("{clear}{}\n", written(now)?)))
}

fn written(now: &Value) -> Result<String, Stop> {
    let unresolved: Vec<EffectJson> = shaped(&now["effects"])?;
    let held: Vec<LimitJson> = shaped(&now["limits"])?;
    let held: Vec<LimitJson> = held.into_iter().filter(|limit| limit.reserved != 0).collect();
    let mut text = match unresolved.len() {
        0 => "nothing is unresolved\n".to_owned(),
        number => format!("{number} unresolved\n{}", effects::listed(&unresolved)),
    };
    if !held.is_empty() {
        text.push_str(&format!("\nheld\n{}", limits::listed(&held)));
    }
    Ok(text)
}
