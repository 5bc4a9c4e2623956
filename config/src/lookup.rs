//! Questions to a whole configuration: which host is this, and which routes are there.

use oncegate_policy::authority::Authority;
use oncegate_policy::check::Check;
use oncegate_policy::router::Route;
use oncegate_policy::url_template::UrlTemplate;

use crate::model::{
    Action, ActionKind, Config, GithubFile, Host, HostPattern, Placement, SecretSource, SecretSpec,
};

/// Where `stripe.refund` writes.
pub const STRIPE_REFUNDS: &str = "https://api.stripe.com/v1/refunds";
/// Below it `stripe.write` writes.
pub const STRIPE_V1: &str = "https://api.stripe.com/v1";
/// Below it GitHub's adapters write.
pub const GITHUB_REPOS: &str = "https://api.github.com/repos";
/// Where `resend.email_send` writes.
pub const RESEND_EMAILS: &str = "https://api.resend.com/emails";

impl Config {
    /// The declared host that an authority belongs to: its own entry before the longest suffix.
    #[must_use]
    pub fn host_for(&self, authority: &Authority) -> Option<&Host> {
        most_specific(self.hosts.iter(), authority)
    }

    /// Whether a secret may go to this host (exact, or below a leading dot), by what is declared of it.
    #[must_use]
    pub fn may_go(&self, secret: &str, spec: &SecretSpec, host: &str) -> bool {
        let host = HostPattern::Exact(host.to_owned());
        match &spec.allowed_hosts {
            Some(allowed) => allowed.iter().any(|allowed| allows(allowed, &host)),
            None => self.secret_uses.iter().any(|one| one.secret == secret && one.to.covers(host.name())),
        }
    }

    /// What a proxied request can mean. Disabled actions are among them: a request that means one is refused,
    /// not handed to a less specific action.
    #[must_use]
    pub fn routes(&self) -> Vec<Route> {
        self.actions.values().flat_map(routes).collect()
    }
}

fn routes(action: &Action) -> Vec<Route> {
    let fixed = |method: &'static str, url: &str| UrlTemplate::parse(url).ok().map(|url| (method, url));
    let routes: Vec<(&str, UrlTemplate)> = match &action.kind {
        ActionKind::StripeRefund(_) => fixed("POST", STRIPE_REFUNDS).into_iter().collect(),
        ActionKind::StripeWrite(write) => vec![("POST", write.route.url.clone())],
        ActionKind::ResendEmail(_) => fixed("POST", RESEND_EMAILS).into_iter().collect(),
        ActionKind::GithubFile(file) => {
            let url = github_contents(file);
            ["PUT", "DELETE"].into_iter().filter_map(|method| Some((method, url.clone()?))).collect()
        }
        ActionKind::GithubWrite(write) => vec![(write.route.method.as_str(), write.route.url.clone())],
        ActionKind::Declared(declared) => vec![(declared.method.as_str(), declared.url.clone())],
    };
    // The router takes one `input.` off a path. Written out, a member of that very name stays a member.
    let when =
        action.when.iter().map(|check| Check { path: format!("input.{}", check.path), ..check.clone() });
    let when: Vec<Check> = when.collect();
    let route = |(method, url): (&str, UrlTemplate)| Route {
        action: action.name.as_str().to_owned(),
        method: method.to_owned(),
        url,
        when: when.clone(),
        governed: action.kind.is_governed(),
        writes_by_get: matches!(&action.kind, ActionKind::Declared(declared) if declared.writes_by_get),
    };
    routes.into_iter().map(route).collect()
}

/// `/repos/{owner}/{repo}/contents/{path}`. A file's path is one place with slashes in it.
fn github_contents(file: &GithubFile) -> Option<UrlTemplate> {
    let repository = match &file.repository {
        Some(only) => format!("{}/{}", only.owner, only.name),
        None => "{{input.owner}}/{{input.repo}}".to_owned(),
    };
    let url = UrlTemplate::parse(&format!("{GITHUB_REPOS}/{repository}/contents")).ok()?;
    Some(url.with_rest("path"))
}

pub(crate) fn most_specific<'a>(
    hosts: impl Iterator<Item = &'a Host>,
    authority: &Authority,
) -> Option<&'a Host> {
    hosts.filter(|host| host.port == authority.port && host.pattern.covers(&authority.host)).max_by_key(
        |host| match &host.pattern {
            HostPattern::Exact(_) => usize::MAX,
            HostPattern::Below(suffix) => suffix.len(),
        },
    )
}

impl SecretSpec {
    /// Whether it may stand in this place.
    #[must_use]
    pub fn may_stand(&self, place: Placement) -> bool {
        match &self.allowed_placements {
            Some(allowed) => allowed.contains(&place),
            None => place == Placement::Header || self.from == SecretSource::Vault,
        }
    }
}

impl HostPattern {
    /// The name without a leading dot.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Exact(name) | Self::Below(name) => name,
        }
    }

    /// Whether a host name in its one spelling is meant.
    #[must_use]
    pub fn covers(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => name == host,
            Self::Below(suffix) => {
                host.strip_suffix(suffix.as_str()).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
            }
        }
    }
}

/// Whether every host that `pattern` means is among those that a secret's `allowed_hosts` entry allows.
pub(crate) fn allows(allowed: &str, pattern: &HostPattern) -> bool {
    match (allowed.strip_prefix('.'), pattern) {
        (None, HostPattern::Exact(name)) => name == allowed,
        (None, HostPattern::Below(_)) => false,
        (Some(suffix), HostPattern::Exact(name)) => HostPattern::Below(suffix.to_owned()).covers(name),
        (Some(suffix), HostPattern::Below(below)) => {
            below == suffix || HostPattern::Below(suffix.to_owned()).covers(below)
        }
    }
}
