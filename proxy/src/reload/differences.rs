//! What two configurations differ in: names, and nothing that stands behind them.

use std::collections::BTreeMap;
use std::fmt;

use oncegate_config::model::{Config, Host, HostPattern};
use oncegate_policy::action::ActionName;

use crate::adapting;

/// One thing that another configuration brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What kind of thing.
    pub kind: Kind,
    /// Its name; empty for a section that is one table.
    pub name: String,
    /// What happened to it.
    pub change: Change,
}

/// What can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `[actions]`
    Action,
    /// `[hosts]`
    Host,
    /// `[callers]`
    Caller,
    /// `[secrets]`: what is declared of it, never its value.
    Secret,
    /// `[limits]`
    Limit,
    /// `[proxy]`
    Proxy,
    /// `[control]`
    Control,
    /// `[reconcile]`
    Reconcile,
}

/// How it differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not there.
    Added,
    /// It is not there any more.
    Removed,
    /// It says something else.
    Changed,
}

impl Difference {
    /// Whether something that held, or was served, does so no more.
    #[must_use]
    pub fn takes_away(&self) -> bool {
        match self.change {
            Change::Removed => true,
            Change::Added | Change::Changed => false,
        }
    }
}

impl Difference {
    /// The action that is new, another one now, or gone.
    #[must_use]
    pub fn action(&self) -> Option<ActionName> {
        match self.kind {
            Kind::Action => ActionName::parse(&self.name),
            Kind::Host
            | Kind::Caller
            | Kind::Secret
            | Kind::Limit
            | Kind::Proxy
            | Kind::Control
            | Kind::Reconcile => None,
        }
    }
}

/// The actions of `before` that go to a server of one that differs, where it was or where it is now: one that is new, another
/// now, or moved may take their requests, with a limit and an approval of its own.
pub fn beside(differences: &[Difference], before: &Config, after: &Config) -> Vec<ActionName> {
    let server =
        |name: &ActionName| [before, after].map(|one| one.actions.get(name).map(adapting::authority));
    let touched = differences.iter().filter_map(Difference::action);
    let servers: Vec<_> = touched.flat_map(|name| server(&name)).flatten().collect();
    let beside = before.actions.values().filter(|action| servers.contains(&adapting::authority(action)));
    beside.map(|action| action.name.clone()).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Action => "action",
            Kind::Host => "host",
            Kind::Caller => "caller",
            Kind::Secret => "secret",
            Kind::Limit => "limit",
            Kind::Proxy => "[proxy]",
            Kind::Control => "[control]",
            Kind::Reconcile => "[reconcile]",
        };
        let change = match self.change {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Changed => "changed",
        };
        let space = if self.name.is_empty() { "" } else { " " };
        write!(f, "{kind}{space}{} {change}", self.name)
    }
}

/// Every difference, by kind and then by name.
#[must_use]
pub fn between(old: &Config, new: &Config) -> Vec<Difference> {
    let limits = |config: &'_ Config| -> BTreeMap<String, oncegate_policy::limit::Limit> {
        config.limits.iter().map(|limit| (limit.name.clone(), limit.clone())).collect()
    };
    // One that counts something else is another limit to the record: the one of before goes.
    let counts = |config: &Config, name: &str| {
        config.limits.iter().find(|limit| limit.name == name).map(|limit| limit.dimension.clone())
    };
    let recounted = |difference: Difference| {
        let (was, is) = (counts(old, &difference.name), counts(new, &difference.name));
        let changes = match difference.change {
            Change::Changed if was != is => vec![Change::Removed, Change::Added],
            change @ (Change::Changed | Change::Removed | Change::Added) => vec![change],
        };
        changes.into_iter().map(move |change| Difference { change, ..difference.clone() })
    };
    let section =
        |kind, same: bool| (!same).then(|| Difference { kind, name: String::new(), change: Change::Changed });
    let sections = [
        section(Kind::Proxy, old.proxy == new.proxy),
        section(Kind::Control, old.control == new.control),
        section(Kind::Reconcile, old.reconcile == new.reconcile),
    ];
    [
        named(Kind::Action, &old.actions, &new.actions),
        named(Kind::Host, &hosts(old), &hosts(new)),
        named(Kind::Caller, &old.callers, &new.callers),
        named(Kind::Secret, &old.secrets, &new.secrets),
        named(Kind::Limit, &limits(old), &limits(new)).into_iter().flat_map(recounted).collect(),
        sections.into_iter().flatten().collect(),
    ]
    .concat()
}

fn hosts(config: &Config) -> BTreeMap<String, &Host> {
    let name = |host: &Host| match &host.pattern {
        HostPattern::Exact(name) => format!("{name}:{}", host.port),
        HostPattern::Below(suffix) => format!(".{suffix}:{}", host.port),
    };
    config.hosts.iter().map(|host| (name(host), host)).collect()
}

fn named<N: Ord + ToString, T: PartialEq>(
    kind: Kind,
    old: &BTreeMap<N, T>,
    new: &BTreeMap<N, T>,
) -> Vec<Difference> {
    let difference = |name: &N, change| Difference { kind, name: name.to_string(), change };
    let gone = old.keys().filter(|name| !new.contains_key(name));
    let gone = gone.map(|name| difference(name, Change::Removed));
    let news = new.iter().filter_map(|(name, is)| match old.get(name) {
        None => Some(difference(name, Change::Added)),
        Some(was) if was != is => Some(difference(name, Change::Changed)),
        Some(_) => None,
    });
    gone.chain(news).collect()
}

#[cfg(test)]
mod tests {
    use oncegate_config::Source;

    use super::*;

    fn config(text: &str) -> Config {
        oncegate_config::parse(&[Source { name: "o.toml", text }]).unwrap().config
    }

    #[test]
    fn differences_are_named_and_nothing_more() {
        let old = config(
            r#"
[callers.a]
key_sha256 = "1111111111111111111111111111111111111111111111111111111111111111"
scopes = []
[secrets.ONE]
from = { env = "ONE" }
allowed_hosts = ["a.example"]
[limits.l]
dimension = "resource_mutations"
period = "day"
amount = 1
[hosts."a.example"]
"#,
        );
        let new = config(
            r#"
[proxy]
respond_within = "3s"
[callers.a]
key_sha256 = "2222222222222222222222222222222222222222222222222222222222222222"
scopes = []
[secrets.TWO]
from = { env = "ONE" }
allowed_hosts = ["a.example"]
[hosts."a.example"]
"#,
        );
        let said: Vec<_> = between(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "caller a changed",
                "secret ONE removed",
                "secret TWO added",
                "limit l removed",
                "[proxy] changed"
            ]
        );
        assert!(between(&new, &new).is_empty());
    }

    /// All that counted in the unit of before has no limit from then on.
    #[test]
    fn a_limit_of_another_unit_is_one_that_goes() {
        let limit = |what: &str| config(&format!("[limits.l]\nperiod = \"day\"\n{what}\n"));
        let usd = limit("dimension = \"money\"\ncurrency = \"usd\"\namount = 1");
        let said = |other: Config| between(&usd, &other).iter().map(ToString::to_string).collect::<Vec<_>>();
        for other in [
            "dimension = \"money\"\ncurrency = \"eur\"\namount = 1",
            "dimension = \"resource_mutations\"\namount = 1",
        ] {
            assert_eq!(said(limit(other)), ["limit l removed", "limit l added"]);
        }
        assert_eq!(said(limit("dimension = \"money\"\ncurrency = \"usd\"\namount = 2")), ["limit l changed"]);
    }
}
