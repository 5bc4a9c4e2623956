//! `oncegate demo`: the story in `crate::demo`, with an exit code.

use std::time::Duration;

use clap::Args;
use tokio::time::timeout;

use super::exit::{Exit, Stop};
use super::serve::Signals;
use super::{Common, print};
use crate::demo;

/// It takes about a second; this is for machines that are busy.
const PLAY_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct DemoArgs {}

/// 0 only if every step was as it has to be and the provider counted exactly one write.
pub(crate) async fn run(common: &Common, _args: &DemoArgs) -> Result<Exit, Stop> {
    let mut signals = Signals::new()?;
    let played = tokio::select! {
        played = timeout(PLAY_TIMEOUT, demo::play(common.json)) => played,
        // What the story holds is dropped with it, the temporary directory too.
        () = signals.next() => return Err(Stop::failed("the demo was interrupted")),
    };
    let ending = played
        .map_err(|_| Stop::failed("the demo did not end in time"))?
        .map_err(|error| Stop::failed(format!("the demo could not be played: {error}")))?;
    if common.json {
        print::json(&ending.document);
    }
    Ok(if ending.good { Exit::Done } else { Exit::Failed })
}
