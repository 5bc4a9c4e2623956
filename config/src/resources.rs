//! What adapters act on, as far as a configuration can be wrong about it: how their resources begin, for the
//! `resource_prefix` of limits, and which of Stripe's endpoints move money.

use oncegate_policy::url_template::UrlTemplate;

use crate::lookup::STRIPE_V1;
use crate::model::{Action, ActionKind};

/// How the ids begin that a refund may name.
const PAYMENTS: [&str; 3] = ["pi_", "ch_", "py_"];
/// How the id of an account begins.
const ACCOUNT: &str = "acct_";

/// Stripe's endpoints that move money, or let it be moved, below `/v1/`: `*` is any one part.
const MOVES_MONEY: [&str; 18] = [
    "payouts",
    "payouts/*/reverse",
    "transfers",
    "transfers/*/reversals",
    "topups",
    "refunds",
    "charges",
    "charges/*/capture",
    "charges/*/refund",
    "charges/*/refunds",
    "payment_intents",
    "payment_intents/*/confirm",
    "payment_intents/*/capture",
    "application_fees/*/refund",
    "application_fees/*/refunds",
    "credit_notes",
    "invoices/*/pay",
    "customers/*/balance_transactions",
];

/// Whether a resource of the action can begin with `prefix`.
pub(crate) fn may_begin(prefix: &str, action: &Action) -> bool {
    match &action.kind {
        ActionKind::StripeRefund(_) => match prefix.split_once('/') {
            Some((account, payment)) => account.starts_with(ACCOUNT) && one_begins(payment, &PAYMENTS),
            None => one_begins(prefix, &PAYMENTS) || one_begins(prefix, &[ACCOUNT]),
        },
        // `owner/name/...`, the first two in lower case.
        ActionKind::GithubFile(_) | ActionKind::GithubWrite(_) => {
            prefix.split('/').take(2).all(|part| !part.bytes().any(|byte| byte.is_ascii_uppercase()))
        }
        ActionKind::ResendEmail(_) => true,
        // Its subject is its resource.
        ActionKind::StripeWrite(_) | ActionKind::Declared(_) => action.subject.is_some(),
    }
}

/// Whether a text that begins with one of `starts` can begin with `prefix`.
fn one_begins(prefix: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| start.starts_with(prefix) || prefix.starts_with(start))
}

/// The path of an endpoint of Stripe's that moves money.
pub(crate) fn moves_money(url: &UrlTemplate) -> Option<String> {
    let url = url.to_string();
    let below = url.strip_prefix(STRIPE_V1)?.strip_prefix('/')?;
    let parts: Vec<&str> = below.split('/').collect();
    let is = |known: &&str| {
        let known: Vec<&str> = known.split('/').collect();
        known.len() == parts.len()
            && known.iter().zip(&parts).all(|(known, part)| *known == "*" || known == part)
    };
    MOVES_MONEY.iter().any(is).then(|| format!("/v1/{below}"))
}
