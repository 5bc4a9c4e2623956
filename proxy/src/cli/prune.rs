//! `oncegate prune`: retention by command. Done by whoever holds the database: the sidecar that runs on it, or this
//! command itself when none does.

use std::time::Duration;

use clap::Args;
use oncegate_policy::id::OwnerId;
use oncegate_store::{OpenError, Store, StoreOptions};
use serde_json::{Value, json};

use super::client::expect_data;
use super::exit::{Exit, Stop, chain};
use super::{Common, print, source};
use crate::clock::Clock;
use crate::control::environment::ended_before;
use crate::control::show;
use crate::state::new_ulid;

/// Nothing else is admitted by this process: the queue is never long.
const QUEUE_MAX: usize = 16;

#[derive(Args)]
pub(crate) struct PruneArgs {
    /// Shorten or remove effects that ended longer ago than this (90d, 12h, 30m); unknown ones never. Without it,
    /// only recorded answers older than `keep_responses` are erased
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
}

fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "write a whole number and its unit: 90d, 12h, 30m or 45s".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        'd' => 86_400,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).and_then(|digits| digits.parse::<u64>().ok()).ok_or_else(wrong)?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// Prunes.
pub(crate) async fn run(common: &Common, args: &PruneArgs) -> Result<Exit, Stop> {
    let document = if std::env::var_os("ONCEGATE_URL").is_some() {
        through_api(common, args).await?
    } else {
        match open(common)? {
            Some(store) => directly(&store, args).await?,
            None => through_api(common, args).await?,
        }
    };
    if common.json {
        print::json(&document);
    } else {
        print::line(&format!(
            "{} recorded answers erased, {} effects shortened, {} removed whole, {} invocations without an effect \
             pruned, {} expired previews removed",
            document["responses"],
            document["shortened"],
            document["removed"],
            document["invocations"],
            document["previews"]
        ));
    }
    Ok(Exit::Done)
}

async fn through_api(common: &Common, args: &PruneArgs) -> Result<Value, Stop> {
    let seconds = args.older_than.map(|age| age.as_secs());
    let body = json!({ "olderThanSeconds": seconds });
    expect_data(source::api(common)?.post("/environment/prune", &body).await?)
}

async fn directly(store: &Store, args: &PruneArgs) -> Result<Value, Stop> {
    let now = Clock::System.now();
    let before = args.older_than.map(|age| ended_before(age, now));
    let pruned = store.prune(before, now).await.map_err(|error| Stop::failed(chain(&error)))?;
    Ok(show::pruned(&pruned))
}

/// The database, if no sidecar holds it.
fn open(common: &Common) -> Result<Option<Store>, Stop> {
    let loaded = super::load(common)?;
    let path = loaded.database();
    if !path.exists() {
        return Err(Stop::usage(format!("there is no database {}", path.display())));
    }
    let options = StoreOptions {
        path,
        schedule: loaded.config.reconcile.schedule,
        queue_capacity: QUEUE_MAX,
        keep_responses: loaded.config.store.keep_responses,
    };
    match Store::open(options, OwnerId::from_ulid(&new_ulid()), Clock::System.now()) {
        Ok(store) => Ok(Some(store)),
        Err(OpenError::Locked { .. }) => Ok(None),
        Err(error) => Err(Stop::usage(chain(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (text, seconds) in [("90d", 7_776_000), ("12h", 43_200), ("30m", 1_800), ("0s", 0)] {
            assert_eq!(age(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "90", "d", "-1d", "1.5d", "1y", "90 d", "18446744073709551615d"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}
