//! The sections that are one table each: `[proxy]`, `[store]`, `[reconcile]` and `[ca]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use oncegate_policy::reconcile::Schedule;

use crate::document::Document;
use crate::facts::Facts;
use crate::model::{Proxy, Reconcile, StoreSection, Undeclared};
use crate::reader::Table;
use crate::value::{count, duration, path, positive_duration, size, socket, word};

/// The words of `undeclared_hosts`.
const UNDECLARED: [(&str, Undeclared); 2] = [("deny", Undeclared::Deny), ("tunnel", Undeclared::Tunnel)];

/// The words of `reads_while_halted`.
const ALLOWED: [(&str, bool); 2] = [("allow", true), ("deny", false)];

pub(crate) fn proxy(document: &Document<'_>, facts: &mut Facts) -> Option<Proxy> {
    document.section("proxy").table("[proxy]", |table| {
        let upstream_timeout = upstream_timeout(table, facts);
        Proxy {
            listen: listen(table, 8080, facts),
            undeclared_hosts: table.or("undeclared_hosts", |node| word(node, &UNDECLARED), Undeclared::Deny),
            respond_within: respond_within(table, 12, facts),
            upstream_timeout,
            reuse_idle_within: table.or("reuse_idle_within", duration, Duration::from_secs(1)),
            request_timeout: table.or("request_timeout", positive_duration, Duration::from_secs(30)),
            max_request_body: table.or("max_request_body", size, 1 << 20),
            max_response_body: table.or("max_response_body", size, 8 << 20),
            reads_while_halted: table.or("reads_while_halted", |node| word(node, &ALLOWED), true),
            max_connections: table.or("max_connections", count, 1024),
        }
    })
}

pub(crate) fn store(document: &Document<'_>) -> Option<StoreSection> {
    document.section("store").table("[store]", |table| StoreSection {
        path: table.or("path", path, PathBuf::from("oncegate.db")),
        max_waiting: table.or("max_waiting", count, 4096),
        keep_responses: table.or("keep_responses", duration, Duration::from_secs(30 * 24 * 3600)),
    })
}

pub(crate) fn reconcile(document: &Document<'_>) -> Option<Reconcile> {
    document.section("reconcile").table("[reconcile]", |table| Reconcile {
        schedule: Schedule {
            first_after: table.or("first_after", positive_duration, Duration::from_secs(30)),
            max_interval: table.or("max_interval", positive_duration, Duration::from_secs(3600)),
        },
        max_per_pass: table.or("max_per_pass", count, 32),
        timeout: table.or("timeout", positive_duration, Duration::from_secs(20)),
    })
}

/// `dir` and `trust_dir`.
pub(crate) fn ca(document: &Document<'_>) -> Option<(PathBuf, Option<PathBuf>)> {
    document
        .section("ca")
        .table("[ca]", |table| (table.or("dir", path, PathBuf::from("ca")), table.read("trust_dir", path)))
}

pub(crate) fn listen(table: &Table<'_>, default_port: u16, facts: &mut Facts) -> SocketAddr {
    let address = table.or("listen", socket, SocketAddr::from((Ipv4Addr::LOCALHOST, default_port)));
    facts.listens(table.key_place("listen"), &address);
    address
}

fn upstream_timeout(table: &Table<'_>, facts: &mut Facts) -> Duration {
    let default = Duration::from_secs(120);
    let read = table.read("upstream_timeout", positive_duration);
    // A faulty one has its fault already: nothing is compared with it.
    let missing = table.get("upstream_timeout").is_none();
    facts.upstream_timeout = if missing { Some(default) } else { read };
    read.unwrap_or(default)
}

/// Whoever shortens only the upstream's time is not told off for a default.
pub(crate) fn respond_within(table: &Table<'_>, default: u64, facts: &mut Facts) -> Duration {
    let read = table.read("respond_within", positive_duration);
    if let Some(within) = read {
        facts.waits.push((table.key_place("respond_within"), within));
    }
    let default = Duration::from_secs(default);
    read.unwrap_or_else(|| facts.upstream_timeout.map_or(default, |timeout| timeout.min(default)))
}
