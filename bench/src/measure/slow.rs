//! Governed writes to a provider that takes as long as real ones do: what two commits add to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Plan;
use crate::Failure;
use crate::client::{self, Bounds, Kind, Way};
use crate::report::{Report, Slow};
use crate::rig::{Proxy, Rig};
use crate::stats::{Spread, quantile_us};

/// How long the provider takes, in milliseconds.
const TAKES_MS: u64 = 50;
/// Callers at once.
const CALLERS: usize = 64;
/// Writes of each caller in a round, at least.
const EACH: usize = 2;

/// Measures the direct way and Oncegate's in turn.
///
/// # Errors
/// Oncegate could not be started, or a connection could not be opened.
pub async fn measure(rig: &mut Rig, plan: &Plan, report: &mut Report) -> Result<(), Failure> {
    let direct = rig.direct()?;
    let oncegate = rig.start(Proxy::Oncegate, "oncegate-slow").await?;
    let (mut straight, mut governed, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let direct_us = p50(rig, &direct, plan, report).await?;
        let oncegate_us = p50(rig, &oncegate.way, plan, report).await?;
        straight.push(direct_us);
        governed.push(oncegate_us);
        added.push(100.0 * (oncegate_us - direct_us) / direct_us);
    }
    let spreads = (Spread::of(straight), Spread::of(governed), Spread::of(added));
    if let (Some(direct_us), Some(oncegate_us), Some(added_percent)) = spreads {
        report.slow =
            Some(Slow { takes_ms: TAKES_MS, callers: CALLERS, direct_us, oncegate_us, added_percent });
    }
    oncegate.child.stop().await
}

async fn p50(rig: &Rig, way: &Arc<Way>, plan: &Plan, report: &mut Report) -> Result<f64, Failure> {
    let agents = client::open(way, CALLERS, true).await?;
    rig.origin.takes_ms.store(TAKES_MS, Ordering::Relaxed);
    // Every caller gets its turn in a short form too.
    let bounds = Bounds { requests: plan.cell.requests.max(EACH * CALLERS), ..plan.cell };
    let load = client::run(agents, Kind::Write, bounds).await;
    rig.origin.takes_ms.store(0, Ordering::Relaxed);
    report.errors += load.errors;
    Ok(quantile_us(&load.nanos, 500))
}
