//! The two settings most tests play in: a shop that refunds through Stripe, and a help desk with an API of its own.

use std::net::SocketAddr;

use oncegate_tests::{
    conf::{Conf, stripe_conf},
    provider::Provider,
    sidecar::Home,
    stripe::Stripe,
};

/// The refund of the story: 120 dollars.
pub(crate) const REFUND: &str = "payment_intent=pi_3Pabc&amount=12000";
/// What a model makes of it on its second try.
pub(crate) const VARIED: &str = "payment_intent=pi_3Pabc&amount=12100";
/// Keys as libraries make them: one per call.
pub(crate) const KEYS: [&str; 3] = [
    "0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b",
    "7d0f6a52-91c1-4f0c-8f1e-2f6f7f0a9e11",
    "stripe-node-retry-c2a4e6b8-1357-4924-8bdf-9e7c5a3b1d0f",
];

/// Stripe's books, Stripe itself, and a folder for the sidecar.
pub(crate) struct Shop {
    pub(crate) books: Stripe,
    pub(crate) provider: Provider,
    pub(crate) home: Home,
}

impl Shop {
    /// With the usual configuration.
    pub(crate) fn open() -> Shop {
        Shop::open_with(stripe_conf)
    }

    /// With another one.
    pub(crate) fn open_with(conf: impl FnOnce(SocketAddr) -> Conf) -> Shop {
        let books = Stripe::default();
        let provider = books.serve();
        let home = Home::new(&conf(provider.addr()));
        Shop { books, provider, home }
    }

    /// How many writes reached Stripe, whole or not.
    pub(crate) fn writes(&self) -> usize {
        self.provider.record().writes().len()
    }
}

/// The help desk's host.
pub(crate) const DESK: &str = "tickets.test";

/// A declared action on an ordinary API, counted by a limit.
pub(crate) fn ticket_action(name: &str, host: &str) -> String {
    format!(
        r#"
[actions.{name}]
method = "POST"
url = "https://{host}/v1/tickets"
input_schema = {{ type = "object", required = ["title"], properties = {{ title = {{ type = "string" }} }} }}
subject = "{{{{input.title}}}}"
impact = {{ dimension = "resource_mutations", amount = "1", bound = "exact" }}
"#
    )
}

/// How many tickets a day.
pub(crate) const TICKETS_PER_DAY: &str = r#"
[limits.tickets-per-day]
dimension = "resource_mutations"
period = "day"
amount = 1000
"#;

/// The desk's configuration, with its provider at an address.
pub(crate) fn desk_conf(at: SocketAddr) -> Conf {
    Conf::default().host(DESK, at).with(&ticket_action("open-ticket", DESK)).with(TICKETS_PER_DAY)
}

/// A ticket's JSON.
pub(crate) fn ticket(title: &str) -> String {
    format!(r#"{{"title":"{title}"}}"#)
}
