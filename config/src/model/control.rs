//! What is said of the control listener and of the log.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use oncegate_policy::authority::Authority;

/// `[control]`
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Where the API listens. Port 0 is allowed.
    pub listen: SocketAddr,
    /// What a client of the API waits for a governed answer (`respond_within`). Default 20 s.
    pub respond_within: Duration,
    /// `tls`; always there when `listen` is not a loopback address.
    pub tls: Option<ControlTls>,
    /// `metrics`
    pub metrics: MetricsAccess,
}

/// `tls = { cert = "…", key = "…" }`: PEM files, as written (relative to the configuration file).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlTls {
    /// The certificate, and those that lead to its root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Who may read `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsAccess {
    /// Whoever has a key. The default.
    Key,
    /// Everybody on this machine; a loopback listener only.
    Open,
}

/// `[log]`: what stands here is overruled by `ONCEGATE_LOG` and `ONCEGATE_LOG_FORMAT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSection {
    /// `format`. Default text.
    pub format: LogFormat,
    /// `level`; `None` where it is not written: `info` for `serve`, less for commands.
    pub level: Option<LogLevel>,
}

/// `[otel]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtelSection {
    /// `endpoint`: a collector that takes OTLP over plain HTTP, `/v1/traces`. None: no spans are made.
    pub endpoint: Option<Authority>,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The least that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What is broken.
    Error,
    /// And what needs a look.
    Warn,
    /// And what was done.
    Info,
    /// And how.
    Debug,
    /// And every step.
    Trace,
}

impl LogLevel {
    /// Every level with its word.
    pub const ALL: [(&'static str, Self); 6] = [
        ("off", Self::Off),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}
