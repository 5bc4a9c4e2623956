//! DESIGN section 9, with keys in place of its dots and the host that its actions write to.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::{CallerName, Scope};
use oncegate_policy::check::{Check, Expected};
use oncegate_policy::impact::{AmountOf, AmountRule, Bound, Dimension};
use oncegate_policy::limit::Period;
use oncegate_policy::template::Template;

use super::{config, warnings};
use crate::model::{
    Action, ActionKind, Config, Credential, Declared, HostPattern, Idempotency, ImpactRule, KeyPlace,
    Placement, SecretSource, StripeRefund, Undeclared,
};

const EXAMPLE: &str = include_str!("example.toml");

fn action<'a>(config: &'a Config, name: &str) -> &'a Action {
    &config.actions[&ActionName::parse(name).unwrap()]
}

fn declared<'a>(config: &'a Config, name: &str) -> &'a Declared {
    match &action(config, name).kind {
        ActionKind::Declared(declared) => declared,
        ActionKind::StripeRefund(_)
        | ActionKind::StripeWrite(_)
        | ActionKind::ResendEmail(_)
        | ActionKind::GithubFile(_)
        | ActionKind::GithubWrite(_) => {
            panic!("{name} has an adapter")
        }
    }
}

#[test]
fn single_tables() {
    let config = config(EXAMPLE);
    let seconds = Duration::from_secs;
    assert_eq!(config.proxy.listen, SocketAddr::from(([127, 0, 0, 1], 8080)));
    assert_eq!(config.proxy.undeclared_hosts, Undeclared::Deny);
    assert_eq!(config.proxy.respond_within, seconds(12));
    assert_eq!(config.proxy.upstream_timeout, seconds(120));
    assert_eq!(config.proxy.reuse_idle_within, seconds(1));
    assert_eq!(config.proxy.request_timeout, seconds(30));
    assert_eq!((config.proxy.max_request_body, config.proxy.max_response_body), (1 << 20, 8 << 20));
    assert_eq!(config.control.listen, SocketAddr::from(([127, 0, 0, 1], 8081)));
    assert_eq!(config.control.respond_within, seconds(20));
    assert_eq!(config.store.path, PathBuf::from("oncegate.db"));
    assert_eq!(config.store.keep_responses, seconds(30 * 86_400));
    assert_eq!(config.reconcile.schedule.first_after, seconds(30));
    assert_eq!(config.reconcile.schedule.max_interval, seconds(3600));
    assert_eq!(config.ca_dir, PathBuf::from("ca"));
}

#[test]
fn callers_secrets_hosts_and_limits() {
    let config = config(EXAMPLE);
    let agent = &config.callers[&CallerName::parse("billing-agent").unwrap()];
    assert_eq!(agent.scopes, [Scope::ActionsInvoke]);
    assert_eq!(agent.keys.len(), 1);
    assert_eq!(agent.keys[0].sha256[..3], [0x5f, 0xec, 0xeb]);
    assert_eq!(config.callers[&CallerName::parse("ops").unwrap()].scopes.len(), 7);
    let secret = &config.secrets["STRIPE_KEY"];
    assert_eq!(secret.from, SecretSource::Env("STRIPE_SECRET_KEY".to_owned()));
    assert_eq!(secret.allowed_hosts.as_ref().unwrap(), &["api.stripe.com"]);
    assert_eq!(secret.allowed_placements.as_ref().unwrap(), &[Placement::Header]);
    let stripe = &config.hosts[1];
    assert_eq!((&stripe.pattern, stripe.port), (&HostPattern::Exact("api.stripe.com".to_owned()), 443));
    assert!(stripe.reads && !stripe.writes && !stripe.websockets && !stripe.plain && !stripe.allow_private);
    let Some(Credential::Header { name, value }) = &stripe.credential else { panic!("{stripe:?}") };
    assert_eq!(
        (name.as_str(), value.to_string().as_str()),
        ("authorization", "Bearer {{secret:STRIPE_KEY}}")
    );
    let limit = &config.limits[0];
    assert_eq!(limit.name, "refunds-per-day");
    assert_eq!(limit.dimension, Dimension::Money { currency: "usd".to_owned() });
    assert_eq!((limit.period, limit.amount), (Period::Day, 50_000));
}

#[test]
fn actions() {
    let config = config(EXAMPLE);
    let refund = action(&config, "refund");
    let ActionKind::StripeRefund(adapter) = &refund.kind else { panic!("{refund:?}") };
    let expected = StripeRefund {
        account: Some("acct_1Nxyz".to_owned()),
        live: false,
        currency: "usd".to_owned(),
        credential_secret: "STRIPE_KEY".to_owned(),
    };
    assert_eq!(*adapter, expected);
    assert_eq!(refund.operation_key, Template::parse("refund:{{input.metadata.order_id}}").ok());
    assert_eq!(refund.identical_within, Duration::from_secs(86_400));
    assert_eq!(refund.approval_expires, Duration::from_secs(86_400));

    let ticket = declared(&config, "open-ticket");
    assert!(ticket.governed);
    assert_eq!(ticket.url.to_string(), "https://tickets.example/v1/projects/{{input.project}}/tickets");
    let one = AmountRule { of: AmountOf::Literal(1), times: 1 };
    let impact = ImpactRule { dimension: Dimension::ResourceMutations, amount: one, bound: Bound::Exact };
    assert_eq!(ticket.impact, Some(impact));
    let place = KeyPlace::Header("idempotency-key".to_owned());
    assert_eq!(
        ticket.idempotency,
        Some(Idempotency { place, window: Duration::from_secs(86_400), failures_kept: None })
    );
    let verify = ticket.verify.as_ref().unwrap();
    assert_eq!(verify.status, 200);
    let title = Template::parse("{{input.title}}").unwrap();
    let check =
        Check { path: "data.*.title".to_owned(), equals: Some(Expected::Template(title)), absent: false };
    assert_eq!(verify.checks, [check]);
    assert_eq!(action(&config, "open-ticket").identical_within, Duration::from_secs(600));
    let schema = action(&config, "open-ticket").input_schema.as_ref().unwrap();
    assert_eq!(schema["properties"]["title"]["type"], "string");

    assert!(!declared(&config, "search").governed);
}

#[test]
fn without_warnings() {
    assert_eq!(warnings(EXAMPLE), [""; 0]);
}

#[test]
fn an_empty_file_is_a_proxy_that_refuses_everything() {
    let config = config("");
    assert_eq!(config.proxy.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.control.listen.to_string(), "127.0.0.1:8081");
    assert!(config.hosts.is_empty() && config.actions.is_empty() && config.callers.is_empty());
}

#[test]
fn identical_within_is_a_day_for_money_and_off_when_it_says_so() {
    let with = |line: &str| {
        let text = format!(
            "[hosts.\"a.example\"]\n[actions.pay]\nmethod = \"POST\"\nurl = \"https://a.example/pay\"\n{line}"
        );
        action(&config(&text), "pay").identical_within.as_secs()
    };
    let money = "impact = { dimension = \"money\", currency = \"eur\", amount = \"input.amount * 100\" }";
    assert_eq!(with(money), 86_400);
    assert_eq!(with(&format!("{money}\nidentical_within = \"0s\"")), 0);
    assert_eq!(with(""), 600);
}
