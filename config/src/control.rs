//! `[control]`, `[log]` and `[otel]`.

use std::net::SocketAddr;

use oncegate_policy::authority::Authority;

use crate::document::Document;
use crate::facts::Facts;
use crate::model::{Control, ControlTls, LogFormat, LogLevel, LogSection, MetricsAccess, OtelSection};
use crate::proxy::{listen, respond_within};
use crate::reader::{Node, Table};
use crate::value::{path, text, word};

/// OTLP over HTTP (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-default-port>).
const OTLP_PORT: u16 = 4318;

/// The words of `metrics`.
const METRICS: [(&str, MetricsAccess); 2] = [("key", MetricsAccess::Key), ("open", MetricsAccess::Open)];
/// The words of `format`.
const FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

pub(crate) fn control(document: &Document<'_>, facts: &mut Facts) -> Option<Control> {
    document.section("control").table("[control]", |table| {
        let listen = listen(table, 8081, facts);
        let respond_within = respond_within(table, 20, facts);
        let tls = tls(table, listen);
        let metrics = table.or("metrics", |node| word(node, &METRICS), MetricsAccess::Key);
        if metrics == MetricsAccess::Open && !listen.ip().is_loopback() {
            let message = "`metrics = \"open\"` is for a loopback `listen` only: others need a key";
            table.log.fault(table.key_place("metrics"), message);
        }
        Control { listen, respond_within, tls, metrics }
    })
}

/// Keys and operators' words travel here: beyond this machine only encrypted.
fn tls(table: &Table<'_>, listen: SocketAddr) -> Option<ControlTls> {
    let Some(node) = table.get("tls") else {
        if !listen.ip().is_loopback() {
            let message = format!(
                "`listen` is {listen}, which is not a loopback address: it needs `tls = {{ cert = \"…\", key = \"…\" }}`"
            );
            table.log.fault(table.key_place("listen"), message);
        }
        return None;
    };
    node.table("`tls`", |tls| {
        let (cert, key) = (tls.need("cert", path), tls.need("key", path));
        Some(ControlTls { cert: cert?, key: key? })
    })?
}

pub(crate) fn log(document: &Document<'_>) -> Option<LogSection> {
    document.section("log").table("[log]", |table| LogSection {
        format: table.or("format", |node| word(node, &FORMATS), LogFormat::Text),
        level: table.read("level", |node| word(node, &LogLevel::ALL)),
    })
}

/// `[otel]`
pub(crate) fn otel(document: &Document<'_>) -> Option<OtelSection> {
    document
        .section("otel")
        .table("[otel]", |table| OtelSection { endpoint: table.read("endpoint", collector) })
}

/// `http://HOST:PORT` of a collector.
fn collector(node: &Node<'_>) -> Option<Authority> {
    let written = text(node)?;
    let authority = written
        .strip_prefix("http://")
        .and_then(|rest| Authority::parse(rest.strip_suffix('/').unwrap_or(rest), Some(OTLP_PORT)).ok());
    if authority.is_none() {
        node.fault(format!("{}: `{written}` is not an address such as `http://127.0.0.1:4318`", node.what));
    }
    authority
}
