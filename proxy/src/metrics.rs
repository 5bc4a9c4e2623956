//! What is counted, for `/metrics`. Labels are words of ours, names of declared actions and of limits: never an input,
//! a key or a caller's text, so that their number is bounded by the configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncegate_policy::reconcile::Finding;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Stands for every action that nobody declared; no action can have this name.
pub const UNDECLARED: &str = "(undeclared)";
/// Commits: 0.1 ms to about 3 s.
const COMMIT_BUCKETS: (f64, f64, u16) = (0.0001, 2.0, 16);
/// Providers: 5 ms to about 160 s.
const UPSTREAM_BUCKETS: (f64, f64, u16) = (0.005, 2.0, 16);

/// Of the process, as its log is: it begins before there are any [`Metrics`].
static LOG_LINES_LOST: AtomicU64 = AtomicU64::new(0);

/// A line of the log could not be written. Nothing else can be said of it: where it would be said is where it failed.
pub(crate) fn log_line_lost() {
    LOG_LINES_LOST.fetch_add(1, Ordering::Relaxed);
}

/// How many could not be written since the process began.
pub(crate) fn log_lines_lost() -> u64 {
    LOG_LINES_LOST.load(Ordering::Relaxed)
}

pub(crate) type Labels = Vec<(&'static str, String)>;

/// Everything that is counted as it happens.
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    passed_on: Counter,
    unknown_keys: Family<Labels, Counter>,
    looks: Family<Labels, Counter>,
    commits: Family<Labels, Histogram, fn() -> Histogram>,
    upstream: Family<Labels, Histogram, fn() -> Histogram>,
    tunnels: Family<Labels, Gauge>,
    connections: Gauge,
}

fn commit_histogram() -> Histogram {
    let (start, factor, length) = COMMIT_BUCKETS;
    Histogram::new(exponential_buckets(start, factor, length))
}

fn upstream_histogram() -> Histogram {
    let (start, factor, length) = UPSTREAM_BUCKETS;
    Histogram::new(exponential_buckets(start, factor, length))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("oncegate");
        let requests = Family::default();
        registry.register(
            "requests",
            "Governed requests by action, outcome, code of the refusal, and whether they were repeats",
            requests.clone(),
        );
        let passed_on = Counter::default();
        registry.register("passed_on", "Requests that were passed on ungoverned", passed_on.clone());
        let unknown_keys = Family::default();
        registry.register(
            "unknown_keys",
            "Keys that were shown and that no caller has",
            unknown_keys.clone(),
        );
        let looks = Family::default();
        registry.register("reconcile_attempts", "Looks at the provider by what was found", looks.clone());
        let commits = Family::new_with_constructor(commit_histogram as fn() -> Histogram);
        registry.register(
            "commit_seconds",
            "From handing a transaction to the writer to its durable commit",
            commits.clone(),
        );
        let upstream = Family::new_with_constructor(upstream_histogram as fn() -> Histogram);
        registry.register(
            "upstream_seconds",
            "From the claim of a dispatch to the end of the provider's answer, or of the waiting for it",
            upstream.clone(),
        );
        let tunnels = Family::default();
        registry.register("tunnels_open", "Open CONNECT tunnels by kind, and WebSockets", tunnels.clone());
        let connections = Gauge::default();
        registry.register("agent_connections_open", "Open connections of agents", connections.clone());
        Self { registry, requests, passed_on, unknown_keys, looks, commits, upstream, tunnels, connections }
    }
}

/// Something open; no longer so when dropped.
pub struct Open(Gauge);

impl Open {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// A request was answered. `code` is that of a refusal, else empty.
    pub fn request(&self, action: &str, outcome: &'static str, code: &'static str, repeat: bool) {
        let labels = vec![
            ("action", action.to_owned()),
            ("outcome", outcome.to_owned()),
            ("code", code.to_owned()),
            ("repeat", repeat.to_string()),
        ];
        self.requests.get_or_create(&labels).inc();
    }

    /// A request was passed on ungoverned.
    pub fn passed_on(&self) {
        self.passed_on.inc();
    }

    /// A key was shown that no caller has, at this listener.
    pub fn unknown_key(&self, listener: &'static str) {
        self.unknown_keys.get_or_create(&vec![("listener", listener.to_owned())]).inc();
    }

    /// A look at the provider has ended.
    pub fn looked(&self, finding: &Finding) {
        self.looks.get_or_create(&vec![("finding", finding.word().to_owned())]).inc();
    }

    /// A transaction was committed: `admit` or `record`.
    pub fn committed(&self, verb: &'static str, took: Duration) {
        self.commits.get_or_create(&vec![("verb", verb.to_owned())]).observe(took.as_secs_f64());
    }

    /// A dispatch has ended, or nobody waits for it any more.
    pub fn upstream(&self, action: &str, took: Duration) {
        self.upstream.get_or_create(&vec![("action", action.to_owned())]).observe(took.as_secs_f64());
    }

    /// A tunnel is open for as long as this is kept: `governed`, `refused`, `probe`, `blind`, or `websocket` inside one.
    pub fn tunnel(&self, kind: &'static str) -> Open {
        Open::new(self.tunnels.get_or_create_owned(&vec![("kind", kind.to_owned())]))
    }

    /// An agent's connection is open for as long as this is kept.
    pub fn connection(&self) -> Arc<Open> {
        Arc::new(Open::new(self.connections.clone()))
    }

    /// Everything as OpenMetrics text, `now` included: what is read at the moment of asking.
    ///
    /// # Errors
    /// None in practice: text is written to memory.
    pub fn text(&self, now: &Registry) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, now)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}
