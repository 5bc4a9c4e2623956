//! Actions that take requests from another one. A request means the most specific of the actions that it can mean, and
//! that one alone judges it: the approval, the limits and the identity of the other do not hold there.

use std::collections::BTreeMap;

use oncegate_policy::router::Route;

use crate::facts::Facts;
use crate::fault::Log;
use crate::model::Config;

/// Doubts about every action that takes requests from a governed one.
pub(crate) fn judge(config: &Config, facts: &Facts, log: &Log<'_>) {
    let mut places: BTreeMap<(String, String), Vec<Route>> = BTreeMap::new();
    for route in config.routes() {
        let place = (route.url.authority().to_string(), route.method.clone());
        places.entry(place).or_default().push(route);
    }
    for routes in places.values() {
        for (narrow, wide) in routes.iter().flat_map(|one| routes.iter().map(move |other| (one, other))) {
            if takes(narrow, wide) || is_ungoverned_case(narrow, wide) {
                let (by, from) = (&narrow.action, &wide.action);
                let message = format!(
                    "action `{by}` takes {} {} from `{from}`: what is declared of `{from}` does not hold there",
                    narrow.method, narrow.url
                );
                log.warn(facts.actions.get(by).copied().unwrap_or_default(), message);
            }
        }
    }
}

/// Where both have a `when`, they are told apart on purpose.
fn takes(narrow: &Route, wide: &Route) -> bool {
    narrow.action != wide.action
        && wide.governed
        && (narrow.when.is_empty() || wide.when.is_empty())
        && narrow.url.specificity() > wide.url.specificity()
        && narrow.url.overlaps(&wide.url)
}

/// Whether an action that is not governed is tried before a governed one at the same URL, for which it takes no more than
/// members that an agent may add.
fn is_ungoverned_case(special: &Route, general: &Route) -> bool {
    let says_more = special.when.len() > general.when.len();
    (!special.governed && general.governed && says_more)
        && general.when.iter().all(|check| special.when.contains(check))
        && special.url.specificity() == general.url.specificity()
        && special.url.overlaps(&general.url)
}
