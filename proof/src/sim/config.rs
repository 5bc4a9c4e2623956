//! The configuration of the simulated sidecar.

/// What operators change in the course of a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Of money in a day; `None`: no limit is declared.
    pub(crate) per_day: Option<i64>,
}

/// The declared key of an agent, an operator and the agents' other key, by their SHA-256.
pub(crate) const KEYS: [(&str, &str, &str); 3] = [
    ("shop", "ogk_simulated_shop", "\"actions:invoke\", \"actions:resolve\", \"approvals:decide\""),
    ("desk", "ogk_simulated_desk", "\"actions:invoke\""),
    (
        "ops",
        "ogk_simulated_ops",
        "\"actions:invoke\", \"actions:resolve\", \"approvals:decide\", \"environments:halt\"",
    ),
];

/// Where charges go.
pub(crate) const SHOP_HOST: &str = "pay.example";
/// An amount above which a person is asked first, in cents.
pub(crate) const ASK_ABOVE: i64 = 900;
/// What an agent waits, in milliseconds.
pub(crate) const RESPOND_WITHIN_MS: u64 = 12_000;
/// How long a provider is listened to, in milliseconds.
pub(crate) const UPSTREAM_TIMEOUT_MS: u64 = 60_000;

/// The whole file. `database` is absolute.
pub(crate) fn text(settings: Settings, database: &str) -> String {
    let mut text = format!(
        r#"
[proxy]
listen = "127.0.0.1:8080"
respond_within = "{RESPOND_WITHIN_MS}ms"
upstream_timeout = "{UPSTREAM_TIMEOUT_MS}ms"

[control]
listen = "127.0.0.1:8081"
respond_within = "{RESPOND_WITHIN_MS}ms"

[store]
path = "{database}"

[reconcile]
first_after = "30s"
max_interval = "1h"

[secrets.STRIPE_KEY]
from = {{ vault = true }}
allowed_hosts = ["api.stripe.com"]

[hosts."{SHOP_HOST}:80"]
plain = true

[hosts."api.stripe.com"]

[actions.charge]
method = "POST"
url = "http://{SHOP_HOST}/v1/charges"
headers = {{ "X-Effect" = "{{{{effect.id}}}}" }}
operation_key = "charge:{{{{input.order}}}}"
subject = "{{{{input.customer}}}}"
impact = {{ dimension = "money", currency = "usd", amount = "input.amount" }}
idempotency = {{ header = "Idempotency-Key", window = "24h" }}
verify = {{ url = "http://{SHOP_HOST}/v1/charges?ref={{{{effect.id}}}}", match = [{{ path = "data.*.ref", equals = "{{{{effect.id}}}}" }}] }}
approval_when = "amount > {ASK_ABOVE}"
approval_expires = "12h"

[actions.refund]
adapter = {{ type = "stripe.refund", mode = "test", currency = "usd" }}
credential_secret = "STRIPE_KEY"
"#
    );
    for (name, key, scopes) in KEYS {
        let digest = oncegate::proof::digest(key);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("\n[callers.{name}]\nkey_sha256 = \"{hex}\"\nscopes = [{scopes}]\n"));
    }
    if let Some(amount) = settings.per_day {
        text.push_str(&format!(
            "\n[limits.per-day]\ndimension = \"money\"\ncurrency = \"usd\"\nperiod = \"day\"\namount = {amount}\n"
        ));
    }
    text
}
