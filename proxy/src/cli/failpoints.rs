//! `oncegate failpoints`: the named places where a test may stop the process. Only with the feature of that name.

use serde_json::json;

use super::exit::Exit;
use super::table::facts;
use super::{Common, print};

/// Lists them; `ONCEGATE_FAILPOINT=<name>=abort` chooses one.
pub(crate) fn run(common: &Common) -> Exit {
    let places = oncegate_store::failpoint::NAMES;
    if common.json {
        let listed: Vec<_> =
            places.iter().map(|(name, what)| json!({ "name": name, "when": what })).collect();
        print::json(&listed);
    } else {
        let rows: Vec<_> = places.iter().map(|(name, what)| (*name, (*what).to_owned())).collect();
        print::out(&facts(&rows));
    }
    Exit::Done
}
