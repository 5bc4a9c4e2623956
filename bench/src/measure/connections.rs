//! New connections, one after the other, each with a full handshake.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Plan;
use crate::Failure;
use crate::child::Child;
use crate::client::{self, Agent, Kind, Way};
use crate::report::{Connections, Opened, Report};
use crate::rig::Rig;
use crate::stats::{Spread, float, quantile_us};
use crate::tls::{FRESH_HOSTS, HOST};

struct Round {
    nanos: Vec<u64>,
    cpu: Option<Duration>,
}

/// Measures what a new connection takes.
///
/// # Errors
/// A proxy could not be started.
pub async fn measure(rig: &mut Rig, plan: &Plan, report: &mut Report) -> Result<(), Failure> {
    let direct = rig.direct()?;
    let mut proxies = Vec::new();
    for proxy in rig.proxies().into_iter().filter(|proxy| proxy.takes(Kind::Read)) {
        proxies.push(rig.start(proxy, &format!("{}-connections", proxy.name())).await?);
    }
    let through = proxies.iter().map(|running| (&running.way, Some(&running.child)));
    let mut cells = Vec::new();
    for (way, child) in [(&direct, None)].into_iter().chain(through) {
        for what in [Opened::AndAsked, Opened::Handshake, Opened::FreshHost] {
            // The origin has one certificate for all names: there is nothing to mint on the direct way.
            if child.is_some() || what != Opened::FreshHost {
                cells.push((way, child, what, Vec::new()));
            }
        }
        // The leaf of the known host is minted now.
        drop(client::open(way, 1, true).await?);
    }
    for number in 0..plan.rounds {
        cells.rotate_left(usize::from(number > 0));
        for (way, child, what, rounds) in &mut cells {
            let before = child.map(Child::cpu).transpose()?;
            let (nanos, errors) = open(way, *what, plan.connections).await;
            let after = child.map(Child::cpu).transpose()?;
            report.errors += errors;
            rounds.push(Round {
                nanos,
                cpu: before.zip(after).map(|(before, after)| after.saturating_sub(before)),
            });
        }
    }
    cells.sort_by_key(|(way, _, what, _)| (*what as u8, way.name != "direct"));
    report.connections.extend(cells.iter().filter_map(|(way, _, what, rounds)| summed(way, *what, rounds)));
    for running in proxies {
        running.child.stop().await?;
    }
    Ok(())
}

async fn open(way: &Arc<Way>, what: Opened, count: usize) -> (Vec<u64>, u64) {
    let mut nanos = Vec::with_capacity(count);
    let mut errors = 0;
    for _ in 0..count {
        let host = match what {
            Opened::AndAsked | Opened::Handshake => HOST.to_owned(),
            Opened::FreshHost => format!("h{}.{FRESH_HOSTS}", client::fresh()),
        };
        let begun = Instant::now();
        match one(way, what, &host).await {
            Ok(()) => nanos.push(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            Err(_) => errors += 1,
        }
    }
    nanos.sort_unstable();
    (nanos, errors)
}

async fn one(way: &Arc<Way>, what: Opened, host: &str) -> io::Result<()> {
    let mut agent = Agent::open(way, host).await?;
    if what == Opened::AndAsked { agent.ask(Kind::Read, client::fresh()).await } else { Ok(()) }
}

fn summed(way: &Way, what: Opened, rounds: &[Round]) -> Option<Connections> {
    let each = |value: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(value));
    let cpu = rounds
        .iter()
        .filter_map(|round| Some(round.cpu?.as_secs_f64() * 1e6 / float(round.nanos.len() as u64).max(1.0)));
    Some(Connections {
        way: way.name,
        what,
        connections: rounds.iter().map(|round| round.nanos.len() as u64).sum(),
        p50_us: each(&|round| quantile_us(&round.nanos, 500))?,
        p99_us: each(&|round| quantile_us(&round.nanos, 990))?,
        cpu_us: Spread::of(cpu),
    })
}
