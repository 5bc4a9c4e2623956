//! `[control]` and `[log]`.

use std::net::SocketAddr;

use crate::document::Document;
use crate::facts::Facts;
use crate::model::{Control, ControlTls, LogFormat, LogLevel, LogSection, MetricsAccess};
use crate::proxy::{listen, respond_within};
use crate::reader::Table;
use crate::value::{path, word};

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
