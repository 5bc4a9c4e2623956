//! `oncegate ready`: whether the sidecar can do its work, for health checks in images that hold nothing but this binary.

use super::client::{Answer, Api, expect_data};
use super::exit::{Exit, Stop};
use super::{Common, print};

/// Exits 0 if it can.
pub(crate) async fn run(common: &Common) -> Result<Exit, Stop> {
    match Api::new(common, String::new())?.ready().await? {
        Answer::Data(data, _) if common.json => print::json(&data),
        Answer::Data(..) => print::line("ready"),
        refused @ Answer::Refused { .. } => return expect_data(refused).map(|_| Exit::Failed),
    }
    Ok(Exit::Done)
}
