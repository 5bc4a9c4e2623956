//! What a process takes: memory, time to start, bytes on disk.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::Plan;
use super::requests::ONCEGATE_DIR;
use crate::client::{self, Agent, Bounds, Kind};
use crate::report::{Disk, Idle, Report, Startup};
use crate::rig::{Proxy, Rig, Running};
use crate::stats::{Spread, float};
use crate::tls::HOST;
use crate::{During, Failure};

/// Bytes of a write whose record is weighed.
const DISK_WRITE_BYTES: usize = 1024;

/// Memory of a process that has just started, and what idle tunnels add to it.
///
/// # Errors
/// A proxy could not be started or did not serve.
pub async fn idle(rig: &mut Rig, plan: &Plan, report: &mut Report) -> Result<(), Failure> {
    for proxy in rig.proxies().into_iter().filter(|proxy| proxy.takes(Kind::Read)) {
        let running = rig.start(proxy, &format!("{}-idle", proxy.name())).await?;
        tokio::time::sleep(plan.settle).await;
        let fresh = running.child.rss_kib()?;
        let mut tunnels = client::open(&running.way, plan.tunnels, false).await?;
        tokio::time::sleep(plan.settle).await;
        let unused = running.child.rss_kib()?;
        for tunnel in &mut tunnels {
            tunnel.ask(Kind::Read, client::fresh()).await.during("use an idle tunnel")?;
        }
        tokio::time::sleep(plan.settle).await;
        let used = running.child.rss_kib()?;
        let each = |kib: u64| float(kib.saturating_sub(fresh)) / float(tunnels.len() as u64).max(1.0);
        report.idle.push(Idle {
            way: running.way.name,
            tunnels: tunnels.len() as u64,
            rss_mib: float(fresh) / 1024.0,
            unused_kib: each(unused),
            used_kib: each(used),
        });
        drop(tunnels);
        running.child.stop().await?;
    }
    Ok(())
}

/// From the start of the process to the first answer through it: in an empty directory, and with what the requests
/// have left behind, if they were measured.
///
/// # Errors
/// A proxy could not be started or did not serve.
pub async fn startup(rig: &mut Rig, plan: &Plan, report: &mut Report) -> Result<(), Failure> {
    let mut floor = Vec::new();
    let mut empty = Vec::new();
    let mut again = Vec::new();
    for number in 0..plan.rounds {
        let running = rig.start(Proxy::Floor, "floor-start").await?;
        floor.push(answered(running).await?);
        let running = rig.start(Proxy::Oncegate, &format!("oncegate-start-{number}")).await?;
        empty.push(answered(running).await?);
        let running = rig.start(Proxy::Oncegate, ONCEGATE_DIR).await?;
        again.push(answered(running).await?);
    }
    let effects = rig.counted().await?.effects;
    let measured = [("floor", None, floor), ("oncegate", None, empty), ("oncegate", Some(effects), again)];
    for (way, effects, times) in measured {
        let times = times.iter().map(|time| time.as_secs_f64() * 1000.0);
        report.startup.extend(Spread::of(times).map(|ms| Startup { way, effects, ms }));
    }
    Ok(())
}

async fn answered(running: Running) -> Result<Duration, Failure> {
    let mut agent = Agent::open(&running.way, HOST).await.during("connect to a proxy that has started")?;
    agent.ask(Kind::Read, client::fresh()).await.during("ask a proxy that has started")?;
    let took = running.child.started.elapsed();
    drop(agent);
    running.child.stop().await?;
    Ok(took)
}

/// Bytes of the database per settled effect.
///
/// # Errors
/// Oncegate could not be started, or its database is not there.
pub async fn disk(rig: &mut Rig, plan: &Plan, report: &mut Report) -> Result<(), Failure> {
    let running = rig.start_with(Proxy::Oncegate, "oncegate-disk", DISK_WRITE_BYTES).await?;
    let agents = client::open(&running.way, 16, false).await?;
    let bounds = Bounds { time: Duration::from_secs(60), requests: plan.disk_effects };
    let load = client::run(agents, Kind::Write, bounds).await;
    report.errors += load.errors;
    let database = running.dir.join("oncegate.db");
    running.child.stop().await?;
    let bytes = folded(&database).during("weigh the database")?;
    let effects = load.nanos.len() as u64;
    report.disk = Some(Disk {
        effects,
        body_bytes: DISK_WRITE_BYTES,
        bytes_per_effect: float(bytes) / float(effects).max(1.0),
    });
    Ok(())
}

/// Bytes of the database once its log has been folded into it.
fn folded(database: &Path) -> rusqlite::Result<u64> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok(u64::try_from(pragma("page_count")? * pragma("page_size")?).unwrap_or(0))
}
