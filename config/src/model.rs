//! A configuration that has been read: every value is known to be good.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::authority::Authority;
use oncegate_policy::caller::{CallerName, Scope};
use oncegate_policy::check::Check;
use oncegate_policy::classify::ResponseRules;
use oncegate_policy::impact::{AmountRule, Bound, Dimension};
use oncegate_policy::limit::Limit;
use oncegate_policy::reconcile::Schedule;
use oncegate_policy::template::Template;
use oncegate_policy::url_template::UrlTemplate;

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[proxy]`
    pub proxy: Proxy,
    /// `[control]`
    pub control: Control,
    /// `[store]`
    pub store: StoreSection,
    /// `[reconcile]`
    pub reconcile: Reconcile,
    /// `[ca] dir`, as written (relative to the configuration file).
    pub ca_dir: PathBuf,
    /// `[callers.NAME]`
    pub callers: BTreeMap<CallerName, Caller>,
    /// `[secrets.NAME]`
    pub secrets: BTreeMap<String, SecretSpec>,
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
#[derive(Clone, Debug)]
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
    /// Open agent connections. Default 1024.
    pub max_connections: usize,
}

/// `[control]`
#[derive(Clone, Debug)]
pub struct Control {
    /// Where the API listens. Port 0 is allowed.
    pub listen: SocketAddr,
    /// What a client of the API waits for a governed answer (`respond_within`). Default 20 s.
    pub respond_within: Duration,
}

/// `[store]`
#[derive(Clone, Debug)]
pub struct StoreSection {
    /// As written (relative to the configuration file). Default `oncegate.db`.
    pub path: PathBuf,
    /// How long a provider's recorded answer is kept (`keep_responses`). Default 30 days.
    pub keep_responses: Duration,
}

/// `[reconcile]`
#[derive(Clone, Copy, Debug)]
pub struct Reconcile {
    /// `first_after` (30 s) and `max_interval` (1 h).
    pub schedule: Schedule,
    /// Read-backs in one pass (`max_per_pass`). Default 32.
    pub max_per_pass: usize,
    /// Time for one look (`timeout`). Default 20 s.
    pub timeout: Duration,
}

/// `[callers.NAME]`
#[derive(Clone, Debug)]
pub struct Caller {
    /// SHA-256 of each key that is valid now (`key_sha256`: one hex string, or a list of up to two for rotation).
    pub key_sha256: Vec<[u8; 32]>,
    /// What the key may do.
    pub scopes: Vec<Scope>,
    /// A proxy port or Unix socket of its own: whoever connects there is this caller.
    pub listen: Option<CallerListen>,
}

/// Where one caller has a listener of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerListen {
    /// `listen = "127.0.0.1:8090"`
    Tcp(SocketAddr),
    /// `listen = "unix:/run/…"`
    Unix(PathBuf),
}

/// `[secrets.NAME]`
#[derive(Clone, Debug)]
pub struct SecretSpec {
    /// Where the value comes from.
    pub from: SecretSource,
    /// Hosts it may go to: exact, or all below a leading dot. Never empty.
    pub allowed_hosts: Vec<String>,
    /// Places it may stand in. Default: header only.
    pub allowed_placements: Vec<Placement>,
}

/// Where a secret's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable of the sidecar.
    Env(String),
    /// A file (relative to the configuration file); one trailing line end is cut off.
    File(PathBuf),
    /// A command's standard output; one trailing line end is cut off.
    Command(Vec<String>),
    /// Put through the API.
    Vault,
}

/// A place in a request where a secret may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A header's value.
    Header,
    /// The URL (public word `url`; `query` is accepted).
    Url,
    /// The body.
    Body,
}

/// `[hosts."…"]`
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
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
}

/// `[actions.NAME]`
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name.
    pub name: ActionName,
    /// `description`, for the API's listing.
    pub description: Option<String>,
    /// `enabled`; a disabled action is refused as undeclared.
    pub enabled: bool,
    /// What it means.
    pub kind: ActionKind,
    /// `operation_key`
    pub operation_key: Option<Template>,
    /// `subject`, for declared actions.
    pub subject: Option<Template>,
    /// `requires_approval`
    pub requires_approval: bool,
    /// `approval_when`, over the impact.
    pub approval_when: Option<ApprovalWhen>,
    /// `approval_expires`. Default 24 h.
    pub approval_expires: Duration,
    /// `identical_within`. Default 24 h for money and for adapters, 10 min for other declared actions.
    pub identical_within: Duration,
    /// JSON Schema of the input, as it was declared (`input_schema`).
    pub input_schema: Option<serde_json::Value>,
    /// `when`: told apart from other actions on the same route. Paths begin with `input.` in the file; here without it.
    pub when: Vec<Check>,
    /// `fault_drill`
    pub fault_drill: Option<FaultDrill>,
}

/// `approval_when = "amount > 5000"`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalWhen {
    /// Approval is needed when the amount is above this, or is not known.
    pub amount_above: i64,
}

/// What an action means.
#[derive(Clone, Debug)]
pub enum ActionKind {
    /// `adapter = { type = "stripe.refund", account, mode, currency }`
    StripeRefund(StripeRefund),
    /// A declared route.
    Declared(Box<Declared>),
}

/// The configuration of `stripe.refund`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeRefund {
    /// The account, for subjects and resource prefixes.
    pub account: Option<String>,
    /// `test` or `live`.
    pub live: bool,
    /// Lower-case ISO 4217.
    pub currency: String,
    /// The secret that reads and writes (`credential_secret`).
    pub credential_secret: String,
}

/// A declared route.
#[derive(Clone, Debug)]
pub struct Declared {
    /// `method`, upper case.
    pub method: String,
    /// `url`: builds, and matches.
    pub url: UrlTemplate,
    /// `headers`, names in lower case.
    pub headers: Vec<(String, Template)>,
    /// `body`: a JSON value whose strings are templates.
    pub body: Option<serde_json::Value>,
    /// `governed`. Default true for everything but GET, HEAD and OPTIONS.
    pub governed: bool,
    /// `impact`
    pub impact: Option<ImpactRule>,
    /// `idempotency`
    pub idempotency: Option<Idempotency>,
    /// `verify`
    pub verify: Option<Verify>,
    /// `response`
    pub response: ResponseRules,
    /// `credential_secret`, if it is not the host's credential that is used.
    pub credential_secret: Option<String>,
}

/// `impact = { dimension, amount, bound, currency/unit }`
#[derive(Clone, Debug, PartialEq)]
pub struct ImpactRule {
    /// What is counted.
    pub dimension: Dimension,
    /// How much.
    pub amount: AmountRule,
    /// Exact, or the most it can be.
    pub bound: Bound,
}

/// `idempotency = { header = "Idempotency-Key", window = "24h" }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// Where the provider reads its key.
    pub place: KeyPlace,
    /// For how long the provider remembers it.
    pub window: Duration,
}

/// Where a provider reads its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// A header, name in lower case.
    Header(String),
    /// A top-level member of the body (`body = "idempotency_key"`).
    Body(String),
}

/// `verify = { url, status, match }`
#[derive(Clone, Debug)]
pub struct Verify {
    /// A GET on the action's own host.
    pub url: UrlTemplate,
    /// The status that a match needs. Default 200.
    pub status: u16,
    /// All must hold; at most 10.
    pub checks: Vec<Check>,
}

/// A fault that an operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultDrill {
    /// The request is sent, the answer is thrown away.
    DropResponseAfterSend,
}

impl FaultDrill {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::DropResponseAfterSend => "drop_response_after_send",
        }
    }
}
