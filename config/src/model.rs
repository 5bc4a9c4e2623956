//! A configuration that has been read: every value is known to be good.

mod action;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::authority::Authority;
use oncegate_policy::caller::{CallerName, Scope};
use oncegate_policy::limit::Limit;
use oncegate_policy::reconcile::Schedule;
use oncegate_policy::template::Template;
use oncegate_policy::time::Timestamp;

pub use action::{
    Action, ActionKind, ApprovalWhen, Declared, EmailFence, FaultDrill, GithubFile, GithubWrite, Idempotency,
    ImpactRule, KeyPlace, Preset, Repository, ResendEmail, StripeRefund, StripeWrite, Verify,
};

mod control;

mod secret;

pub use secret::{
    ClientAuth, Grant, OAuth2, Placement, SecretSource, SecretSpec, SecretUse, Sigv4, TokenUrl,
};

pub use control::{Control, ControlTls, LogFormat, LogLevel, LogSection, MetricsAccess, OtelSection};

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[proxy]`
    pub proxy: Proxy,
    /// `[control]`
    pub control: Control,
    /// `[log]`
    pub log: LogSection,
    /// `[otel]`
    pub otel: OtelSection,
    /// `[store]`
    pub store: StoreSection,
    /// `[reconcile]`
    pub reconcile: Reconcile,
    /// `[ca] dir`, as written (relative to the configuration file).
    pub ca_dir: PathBuf,
    /// `[ca] trust_dir`: where agents that run as other users find what they trust.
    pub trust_dir: Option<PathBuf>,
    /// `[callers.NAME]`
    pub callers: BTreeMap<CallerName, Caller>,
    /// `[vault] key`: where the key comes from that values in the vault are encrypted under. Never the vault itself.
    pub vault_key: Option<SecretSource>,
    /// `[secrets.NAME]`
    pub secrets: BTreeMap<String, SecretSpec>,
    /// Every place of a host or an action that names a secret.
    pub secret_uses: Vec<SecretUse>,
    /// `[hosts."…"]`
    pub hosts: Vec<Host>,
    /// `[actions.NAME]`
    pub actions: BTreeMap<ActionName, Action>,
    /// `[limits.NAME]`
    pub limits: Vec<Limit>,
}

/// What happens to hosts that nobody declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undeclared {
    /// Refused.
    Deny,
    /// Tunnelled blind, never with a credential.
    Tunnel,
}

/// `[proxy]`
#[derive(Clone, Debug, PartialEq)]
pub struct Proxy {
    /// Where agents connect. Port 0 is allowed.
    pub listen: SocketAddr,
    /// `undeclared_hosts`
    pub undeclared_hosts: Undeclared,
    /// What an agent waits for a governed answer. Default 12 s.
    pub respond_within: Duration,
    /// How long the provider is listened to. Default 120 s.
    pub upstream_timeout: Duration,
    /// How long a connection may have been idle to be reused for a governed write. Default 1 s.
    pub reuse_idle_within: Duration,
    /// For the agent's own request to arrive whole. Default 30 s.
    pub request_timeout: Duration,
    /// Bytes of a governed request's body. Default 1 MiB.
    pub max_request_body: usize,
    /// Bytes of a governed answer's body. Default 8 MiB.
    pub max_response_body: usize,
    /// Whether reads go on while writes are halted. Default: they do.
    pub reads_while_halted: bool,
    /// Open agent connections. Default 1024.
    pub max_connections: usize,
}

/// `[store]`
#[derive(Clone, Debug, PartialEq)]
pub struct StoreSection {
    /// As written (relative to the configuration file). Default `oncegate.db`.
    pub path: PathBuf,
    /// Admissions that may wait to be recorded; more are refused before anything is sent (`max_waiting`). Default 4096.
    pub max_waiting: usize,
    /// How long a provider's recorded answer is kept (`keep_responses`). Default 30 days.
    pub keep_responses: Duration,
}

/// `[reconcile]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reconcile {
    /// `first_after` (30 s) and `max_interval` (1 h).
    pub schedule: Schedule,
    /// Read-backs in one pass (`max_per_pass`). Default 32.
    pub max_per_pass: usize,
    /// Time for one look (`timeout`). Default 20 s.
    pub timeout: Duration,
}

/// `[callers.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// The keys (`key_sha256`): one, or two while a key is being replaced.
    pub keys: Vec<Key>,
    /// From when on nobody is this caller any more, with whatever key or listener (`expires`).
    pub expires: Option<Timestamp>,
    /// What the key may do.
    pub scopes: Vec<Scope>,
    /// A proxy port or Unix socket of its own: whoever connects there is this caller.
    pub listen: Option<CallerListen>,
    /// A port to which its connections to port 443 are redirected: whoever connects there is this caller.
    pub transparent_listen: Option<SocketAddr>,
}

/// A key of a caller: `"…"`, or `{ sha256 = "…", expires = "…" }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// SHA-256 of it.
    pub sha256: [u8; 32],
    /// From when on nobody has it.
    pub expires: Option<Timestamp>,
}

/// Where one caller has a listener of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerListen {
    /// `listen = "127.0.0.1:8090"`
    Tcp(SocketAddr),
    /// `listen = "unix:/run/…"`
    Unix(PathBuf),
}

/// `[hosts."…"]`
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Which host or hosts.
    pub pattern: HostPattern,
    /// 443 unless written `name:port`.
    pub port: u16,
    /// Plain HTTP (`plain = true`): absolute-form requests only; else TLS only. Where it is not written: port 80,
    /// or a server whose actions' URLs begin with `http://`.
    pub plain: bool,
    /// What is put into every request.
    pub credential: Option<Credential>,
    /// GET, HEAD and OPTIONS that no action claims. Default: allow.
    pub reads: bool,
    /// Writes that no action claims. Default: deny.
    pub writes: bool,
    /// WebSockets, where `reads` lets their handshake through. Default: deny, since what is said inside is not governed.
    pub websockets: bool,
    /// Dial this instead of the name: tests and private peers.
    pub connect_to: Option<Authority>,
    /// A further CA for this host's certificate (relative to the configuration file).
    pub ca_file: Option<PathBuf>,
    /// Whether addresses that are not public may be dialled. Implied by `connect_to`.
    pub allow_private: bool,
    /// No `[hosts]` entry: an action's URL alone declares it.
    pub implied: bool,
}

/// Which hosts a `[hosts]` entry speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This one.
    Exact(String),
    /// All below (stored without the leading dot): `.example.com` matches `a.example.com`, not `example.com`.
    Below(String),
}

/// What is put into a request in the agent's place.
#[derive(Clone, Debug, PartialEq)]
pub enum Credential {
    /// `{ header = "Authorization", value = "Bearer {{secret:NAME}}" }`
    Header {
        /// The header's name, lower case.
        name: String,
        /// Its value.
        value: Template,
    },
    /// `{ query = "api_key", value = "{{secret:NAME}}" }`
    Query {
        /// The parameter's name.
        name: String,
        /// Its value.
        value: Template,
    },
    /// `{ basic = { user = "…", password = "{{secret:NAME}}" } }`
    Basic {
        /// The user's name.
        user: Template,
        /// The password.
        password: Template,
    },
    /// `{ sigv4 = { region = "…", service = "…", access_key = "NAME", secret_key = "NAME" } }`
    Sigv4(Sigv4),
}
