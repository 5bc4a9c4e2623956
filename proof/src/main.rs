//! Proofs: power cuts, crashes, schedules, simulated histories and a soak of the real sidecar.
//!
//! ```text
//! cargo run --release -p oncegate-proof -- power|crash|schedules [--long] [--seed S]
//! cargo run --release -p oncegate-proof -- sim [--long] [--seeds N] [--from S]
//! cargo run --release -p oncegate-proof -- soak [--long] [--minutes N] [--seed S]
//! ```
//!
//! Each suite ends with one line, and with 1 when it found a violation, 2 when it could not be carried out. Modules in
//! reading order.

mod below;
mod crash;
mod failure;
mod memory;
mod power;
mod report;
mod rng;
mod schedules;
mod sim;
mod soak;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, Subcommand};

use crate::report::Extent;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(
    name = "oncegate-proof",
    about = "Proofs: power cuts, crashes, schedules, simulated histories, a soak."
)]
struct Cli {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// Cuts the power at every moment of recorded runs
    Power(Wanted),
    /// Stops the process, or makes a call fail, at every call and failpoint
    Crash(Wanted),
    /// Plays every order of two actors on the claim core, and random orders of more
    Schedules(Wanted),
    /// Folds the log of a database, as somebody at the sqlite3 shell does
    #[command(hide = true)]
    Fold {
        /// The database
        database: PathBuf,
    },
    /// Plays seeds of a simulated world
    Sim {
        /// How many, in place of the form's own number
        #[arg(long)]
        seeds: Option<u64>,
        /// The first of them
        #[arg(long)]
        from: Option<u64>,
        /// The long form
        #[arg(long)]
        long: bool,
    },
    /// Keeps a sidecar under traffic, with a fault a second and a kill from time to time
    Soak {
        /// The long form
        #[arg(long)]
        long: bool,
        /// How long, in place of the form's own time
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000))]
        minutes: Option<u64>,
        /// Brings the choices of a run back; another one each time unless given
        #[arg(long)]
        seed: Option<u64>,
    },
}

#[derive(Args)]
struct Wanted {
    /// The long form
    #[arg(long)]
    long: bool,
    /// Brings a run back; another one each time unless given
    #[arg(long)]
    seed: Option<u64>,
    /// How many runs, in place of the form's own number
    #[arg(long)]
    runs: Option<u64>,
}

impl Wanted {
    fn extent(&self) -> Extent {
        Extent { long: self.long, seed: self.seed.unwrap_or_else(some_seed), runs: self.runs }
    }
}

#[expect(clippy::disallowed_methods, reason = "the seed is the only thing that comes from the clock")]
fn some_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}

fn main() -> ExitCode {
    let ended = match Cli::parse().suite {
        Suite::Power(wanted) => power::run(&wanted.extent()).map(|report| report.close()),
        Suite::Crash(wanted) => crash::run(&wanted.extent()).map(|report| report.close()),
        Suite::Fold { database } => below::play::fold(&database).map(|()| true),
        Suite::Schedules(wanted) => schedules::run(&wanted.extent()).map(|report| report.close()),
        Suite::Sim { seeds, from, long } => {
            sim::run(&sim::Wanted { from, seeds, long }).map(|report| report.close())
        }
        Suite::Soak { long, minutes, seed } => {
            let seed = seed.unwrap_or_else(some_seed);
            soak::run(&soak::Wanted { long, minutes, seed }).map(|report| report.close())
        }
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            drop(writeln!(std::io::stderr(), "{failure}"));
            ExitCode::from(2)
        }
    }
}
