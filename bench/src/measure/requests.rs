//! Requests over connections that are kept.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Plan, machine};
use crate::Failure;
use crate::child::Child;
use crate::client::{self, Agent, Kind, Load, Way};
use crate::report::{Added, Cell, Report};
use crate::rig::{Proxy, Rig};
use crate::stats::{Spread, float, quantile_us};

/// Where Oncegate's database of this part is; start-up is measured on it as well.
pub const ONCEGATE_DIR: &str = Proxy::Oncegate.name();

/// One cell as it fills, round by round.
struct Filling {
    kind: Kind,
    callers: usize,
    way: Arc<Way>,
    rounds: Vec<Round>,
}

struct Round {
    number: usize,
    load: Load,
    dialled: u64,
    cpu: Option<Duration>,
}

/// Measures every way with every number of callers.
///
/// # Errors
/// A proxy could not be started, or a connection could not be opened.
pub async fn measure(rig: &mut Rig, plan: &Plan, report: &mut Report) -> Result<(), Failure> {
    let direct = rig.direct()?;
    let mut proxies = Vec::new();
    for proxy in rig.proxies() {
        proxies.push((proxy, rig.start(proxy, proxy.name()).await?));
    }
    let mut cells = Vec::new();
    for &callers in &plan.callers {
        for &kind in &plan.kinds {
            let asked = proxies.iter().filter(|(proxy, _)| proxy.takes(kind));
            let asked = asked.map(|(_, running)| (&running.way, Some(&running.child)));
            let ways = [(&direct, None)].into_iter().chain(asked);
            cells.extend(ways.map(|way| (way, empty(kind, callers, way.0))));
        }
    }
    let mut syncs = Vec::new();
    for number in 0..plan.rounds {
        syncs.push(machine::fdatasync_us(rig.path(), plan.syncs)?);
        // Another one goes first each time, so that none always follows the same neighbour.
        cells.rotate_left(if number == 0 { 0 } else { 1 });
        for ((way, child), cell) in &mut cells {
            let agents = client::open(way, cell.callers, true).await?;
            let dialled = rig.origin.counts.connections.load(Ordering::Relaxed);
            let (load, cpu) = once(agents, *child, cell.kind, plan).await?;
            let dialled = rig.origin.counts.connections.load(Ordering::Relaxed) - dialled;
            cell.rounds.push(Round { number, load, dialled, cpu });
        }
    }
    report.fdatasync_us = Spread::of(syncs);
    let mut cells: Vec<Filling> = cells.into_iter().map(|(_, cell)| cell).collect();
    cells.sort_by_key(|cell| (cell.kind == Kind::Write, cell.callers));
    for cell in &cells {
        report.errors += cell.rounds.iter().map(|round| round.load.errors).sum::<u64>();
        report.requests.extend(summed(cell));
        report.added.extend(added(cell, &cells));
    }
    for (_, running) in proxies {
        running.child.stop().await?;
    }
    Ok(())
}

fn empty(kind: Kind, callers: usize, way: &Arc<Way>) -> Filling {
    Filling { kind, callers, way: Arc::clone(way), rounds: Vec::new() }
}

/// The connections are warm already: CPU time is read around the requests alone.
async fn once(
    agents: Vec<Agent>,
    child: Option<&Child>,
    kind: Kind,
    plan: &Plan,
) -> Result<(Load, Option<Duration>), Failure> {
    let before = child.map(Child::cpu).transpose()?;
    let load = client::run(agents, kind, plan.cell).await;
    let after = child.map(Child::cpu).transpose()?;
    let cpu = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    Ok((load, cpu))
}

fn summed(cell: &Filling) -> Option<Cell> {
    let each = |value: &dyn Fn(&Round) -> f64| Spread::of(cell.rounds.iter().map(value));
    let done = |round: &Round| float(round.load.nanos.len() as u64).max(1.0);
    Some(Cell {
        way: cell.way.name,
        kind: cell.kind,
        callers: cell.callers,
        requests: cell.rounds.iter().map(|round| round.load.nanos.len() as u64).sum(),
        dialled: cell.rounds.iter().map(|round| round.dialled).sum(),
        per_second: each(&|round| done(round) / round.load.wall.as_secs_f64())?,
        p50_us: each(&|round| quantile_us(&round.load.nanos, 500))?,
        p99_us: each(&|round| quantile_us(&round.load.nanos, 990))?,
        cpu_us: Spread::of(
            cell.rounds.iter().filter_map(|round| round.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / done(round))),
        ),
    })
}

/// Against the direct way of the same round.
fn added(cell: &Filling, all: &[Filling]) -> Option<Added> {
    let direct = all.iter().find(|other| {
        other.way.name == "direct" && other.kind == cell.kind && other.callers == cell.callers
    })?;
    if cell.callers != 1 || cell.way.name == "direct" {
        return None;
    }
    let p50 = |round: &Round| quantile_us(&round.load.nanos, 500);
    let differences = cell.rounds.iter().filter_map(|round| {
        let same = direct.rounds.iter().find(|other| other.number == round.number)?;
        Some(p50(round) - p50(same))
    });
    Some(Added { way: cell.way.name, kind: cell.kind, us: Spread::of(differences)? })
}
