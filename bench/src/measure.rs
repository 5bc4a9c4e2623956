//! The measurements, each bounded in count and time. What is compared is measured in turn, round by round, so that
//! a neighbour on the machine disturbs all of it alike.

pub mod connections;
pub mod growth;
pub mod ledger;
pub mod machine;
pub mod processes;
pub mod requests;
pub mod slow;
pub mod sustained;

use std::path::PathBuf;
use std::time::Duration;

use crate::client::{Bounds, Kind};
use crate::report::Report;
use crate::rig::{Rig, Secret};
use crate::{Failure, targets};

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Requests over kept connections: direct and every proxy; reads and writes; fdatasync.
    Requests,
    /// New intercepted connections.
    Connections,
    /// Memory, and what idle tunnels add to it.
    Idle,
    /// From the start of the process to the first answer.
    Startup,
    /// Bytes on disk per settled effect.
    Disk,
    /// Governed writes to a provider that takes its time.
    Slow,
}

impl Part {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 6] =
        [Self::Idle, Self::Requests, Self::Connections, Self::Startup, Self::Disk, Self::Slow];
}

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What.
    pub parts: Vec<Part>,
    /// Whether this is to show only that the rig works.
    pub short: bool,
    /// Rounds of everything that has rounds.
    pub rounds: usize,
    /// Numbers of callers.
    pub callers: Vec<usize>,
    /// What they ask for.
    pub kinds: Vec<Kind>,
    /// For one way, one kind and one number of callers in one round.
    pub cell: Bounds,
    /// New connections of one kind in one round.
    pub connections: usize,
    /// Idle tunnels.
    pub tunnels: usize,
    /// How long tunnels are left alone before memory is read.
    pub settle: Duration,
    /// Governed writes whose bytes on disk are counted.
    pub disk_effects: usize,
    /// Syncs in one round.
    pub syncs: usize,
    /// Where Oncegate has the credential from.
    pub secret: Secret,
    /// Where the rig's directory is made.
    pub dir: PathBuf,
    /// The program of `bench/hudsucker`, if it is to take part.
    pub hudsucker: Option<PathBuf>,
}

impl Plan {
    /// A measurement: about three minutes.
    #[must_use]
    pub fn full() -> Self {
        Self {
            parts: Part::ALL.to_vec(),
            short: false,
            rounds: 5,
            callers: vec![1, 16, 64],
            kinds: vec![Kind::Read, Kind::Write],
            cell: Bounds { time: Duration::from_secs(1), requests: 100_000 },
            connections: 400,
            tunnels: 1_000,
            settle: Duration::from_secs(2),
            disk_effects: 2_000,
            syncs: 200,
            secret: Secret::default(),
            dir: std::env::temp_dir(),
            hudsucker: None,
        }
    }

    /// Shows that the rig works, in seconds.
    #[must_use]
    pub fn short() -> Self {
        Self {
            short: true,
            rounds: 2,
            cell: Bounds { time: Duration::from_millis(100), requests: 2_000 },
            connections: 20,
            tunnels: 100,
            settle: Duration::from_millis(200),
            disk_effects: 100,
            syncs: 20,
            ..Self::full()
        }
    }
}

/// Runs the parts and compares the counts of all ends.
///
/// # Errors
/// Something could not be started or measured. Wrong answers and wrong counts are no error here but in the report.
pub async fn run(program: &std::path::Path, plan: &Plan) -> Result<Report, Failure> {
    let mut rig = Rig::new(program, &plan.dir, plan.secret)?.with_hudsucker(plan.hudsucker.clone());
    let mut report = Report {
        short: plan.short,
        rounds: plan.rounds,
        machine: machine::describe(rig.path()),
        secret: plan.secret,
        hudsucker: plan.hudsucker.is_some(),
        ..Report::default()
    };
    for part in &plan.parts {
        match part {
            Part::Requests => requests::measure(&mut rig, plan, &mut report).await?,
            Part::Connections => connections::measure(&mut rig, plan, &mut report).await?,
            Part::Idle => processes::idle(&mut rig, plan, &mut report).await?,
            Part::Startup => processes::startup(&mut rig, plan, &mut report).await?,
            Part::Disk => processes::disk(&mut rig, plan, &mut report).await?,
            Part::Slow => slow::measure(&mut rig, plan, &mut report).await?,
        }
    }
    report.machine.load[1] = machine::load();
    report.counted = rig.counted().await?;
    report.targets = targets::judge(&report);
    Ok(report)
}
