//! Configurations, written as an operator would.

use std::{fmt::Write, net::SocketAddr};

use sha2::{Digest, Sha256};

use crate::{ca, resend};

/// The key of caller `billing-agent`, the one that asks for things.
pub const BILLING_KEY: &str = "og_billing_0d6fa1f2c9b84d55a3e7";
/// The key of caller `ops`, the one that decides.
pub const OPS_KEY: &str = "og_ops_77c2be31f0a94e6d8b15";
/// The credential that no agent may ever see. The providers of these tests do not check it.
pub const CREDENTIAL: &str = "sk_test_9fJcR7uWq2LzXb4T";
/// Where the sidecar finds it.
pub const CREDENTIAL_ENV: &str = "STRIPE_SECRET_KEY";

/// A secret of the tests, under a name that may be printed.
pub struct Canary {
    /// What it is called in a finding.
    pub name: &'static str,
    /// The secret.
    pub value: &'static str,
}

const fn canary(name: &'static str, value: &'static str) -> Canary {
    Canary { name, value }
}

/// No provider gets this one: it shows that a search finds what is there. Its encodings are all distinct.
pub const PLANTED: &str = "sk_test_planted_???_Qx7Vw";
/// A secret that is put through the API, and what it is replaced by.
pub const VAULT_FIRST: &str = "sk_test_vault_first_8Kq2";
/// The one after it.
pub const VAULT_SECOND: &str = "sk_test_vault_second_Zr5T";
/// The secret of an OAuth2 client.
pub const CLIENT_SECRET: &str = "cs_test_7Hq2mZ0Lw9";
/// An access token that is minted.
pub const TOKEN_FIRST: &str = "at_test_first_4Rb8vK";
/// The one after it.
pub const TOKEN_SECOND: &str = "at_test_second_Xn3pQd";
/// The name of a key for AWS, which is declared as a secret.
pub const AWS_KEY_ID: &str = "AKIATESTONLY00000001";
/// The secret half of it.
pub const AWS_SECRET: &str = "sk_test_aws/Wn4k+9vQ2";
/// A session token of AWS.
pub const AWS_SESSION: &str = "st_test_session/8Lm=";
/// A credential in a file, and what the file says later.
pub const FILE_FIRST: &str = "sk_test_file_first_3Jd6";
/// The one after it.
pub const FILE_SECOND: &str = "sk_test_file_second_Ye9M";

/// All credentials that sidecars of the suites are given: each is looked for wherever it must not be.
pub const CREDENTIALS: [Canary; 14] = [
    canary("CREDENTIAL", CREDENTIAL),
    canary("PLANTED", PLANTED),
    canary("VAULT_FIRST", VAULT_FIRST),
    canary("VAULT_SECOND", VAULT_SECOND),
    canary("CLIENT_SECRET", CLIENT_SECRET),
    canary("TOKEN_FIRST", TOKEN_FIRST),
    canary("TOKEN_SECOND", TOKEN_SECOND),
    canary("AWS_KEY_ID", AWS_KEY_ID),
    canary("AWS_SECRET", AWS_SECRET),
    canary("AWS_SESSION", AWS_SESSION),
    canary("FILE_FIRST", FILE_FIRST),
    canary("FILE_SECOND", FILE_SECOND),
    canary("resend::SEND_KEY", resend::SEND_KEY),
    canary("resend::READ_KEY", resend::READ_KEY),
];
/// The keys of callers: they stand in a configuration as hashes only.
pub const CALLER_KEYS: [Canary; 2] = [canary("BILLING_KEY", BILLING_KEY), canary("OPS_KEY", OPS_KEY)];

/// A configuration in the making. The timings suit tests that look by themselves: no scheduled look disturbs them.
#[derive(Clone)]
pub struct Conf {
    /// Lines of `[proxy]`.
    pub proxy: Vec<String>,
    /// Lines of `[control]`.
    pub control: Vec<String>,
    /// Lines of `[store]`.
    pub store: Vec<String>,
    /// `reconcile.first_after`.
    pub first_after: String,
    /// More lines of `[reconcile]`.
    pub reconcile: Vec<String>,
    /// Everything after the standard tables.
    pub rest: String,
}

impl Default for Conf {
    fn default() -> Conf {
        let listen = || vec!["listen = \"127.0.0.1:0\"".to_owned()];
        Conf {
            proxy: listen(),
            control: listen(),
            store: vec!["path = \"oncegate.db\"".into()],
            first_after: "1h".into(),
            reconcile: Vec::new(),
            rest: String::new(),
        }
    }
}

/// What stands in the configuration for a key.
pub fn digest(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

impl Conf {
    /// One more line of `[proxy]`.
    pub fn proxy(mut self, line: &str) -> Conf {
        self.proxy.push(line.to_owned());
        self
    }

    /// One more line of `[control]`.
    pub fn control(mut self, line: &str) -> Conf {
        self.control.push(line.to_owned());
        self
    }

    /// One more line of `[reconcile]`.
    pub fn reconcile(mut self, line: &str) -> Conf {
        self.reconcile.push(line.to_owned());
        self
    }

    /// How long agents wait, and how long the provider is listened to.
    pub fn timing(self, respond_within: &str, upstream_timeout: &str) -> Conf {
        self.proxy(&format!("respond_within = \"{respond_within}\""))
            .proxy(&format!("upstream_timeout = \"{upstream_timeout}\""))
    }

    /// Tables as they are written.
    pub fn with(mut self, tables: &str) -> Conf {
        self.rest.push_str(tables);
        self.rest.push('\n');
        self
    }

    /// A host at a provider of ours, without a credential.
    pub fn host(self, name: &str, at: SocketAddr) -> Conf {
        self.with(&format!("[hosts.\"{name}\"]\nconnect_to = \"{at}\"\nca_file = \"upstream-ca.pem\"\n"))
    }

    /// `api.stripe.com` at a provider of ours, with the credential.
    pub fn stripe_host(self, at: SocketAddr) -> Conf {
        self.with(&format!(
            r#"
[secrets.STRIPE_KEY]
from = {{ env = "{CREDENTIAL_ENV}" }}
allowed_hosts = ["api.stripe.com"]
allowed_placements = ["header"]

[hosts."api.stripe.com"]
credential = {{ header = "Authorization", value = "Bearer {{{{secret:STRIPE_KEY}}}}" }}
reads = "allow"
writes = "deny"
connect_to = "{at}"
ca_file = "upstream-ca.pem"
"#
        ))
    }

    /// The same, and WebSockets.
    pub fn stripe_host_with_websockets(self, at: SocketAddr) -> Conf {
        let mut conf = self.stripe_host(at);
        conf.rest.push_str("websockets = \"allow\"\n");
        conf
    }

    /// Action `refund` by the adapter, with more lines of its own if wanted.
    pub fn refund(self, more: &str) -> Conf {
        self.with(&format!(
            r#"
[actions.refund]
adapter = {{ type = "stripe.refund", account = "acct_1Nxyz", mode = "test", currency = "usd" }}
credential_secret = "STRIPE_KEY"
{more}
"#
        ))
    }

    /// `limits.refunds-per-day`.
    pub fn daily_limit(self, amount: u64) -> Conf {
        self.with(&format!(
            "[limits.refunds-per-day]\ndimension = \"money\"\ncurrency = \"usd\"\nperiod = \"day\"\namount = {amount}\n"
        ))
    }

    /// The file's text.
    pub fn text(&self) -> String {
        format!(
            r#"[proxy]
{proxy}

[control]
{control}

[store]
{store}

[ca]
dir = "ca"

[reconcile]
first_after = "{first_after}"
max_interval = "1h"
{reconcile}

[callers.billing-agent]
key_sha256 = "{billing}"
scopes = ["actions:invoke"]

[callers.ops]
key_sha256 = "{ops}"
scopes = ["actions:invoke", "actions:resolve", "actions:govern", "secrets:write", "impact-limits:write", "environments:halt", "approvals:decide"]

{rest}"#,
            proxy = self.proxy.join("\n"),
            control = self.control.join("\n"),
            store = self.store.join("\n"),
            first_after = self.first_after,
            reconcile = self.reconcile.join("\n"),
            billing = digest(BILLING_KEY),
            ops = digest(OPS_KEY),
            rest = self.rest,
        )
    }
}

/// DESIGN section 9 without `operation_key`: refunds at a Stripe of ours, 500 dollars a day.
pub fn stripe_conf(provider: SocketAddr) -> Conf {
    Conf::default().stripe_host(provider).refund("").daily_limit(50_000)
}

/// The authority of all providers here, as `upstream-ca.pem` beside the configuration.
pub fn upstream_ca() -> &'static str {
    ca::pem()
}

/// A caller's key.
pub fn key_of(caller: &str) -> &'static str {
    match caller {
        "billing-agent" => BILLING_KEY,
        "ops" => OPS_KEY,
        other => panic!("no caller {other}"),
    }
}
