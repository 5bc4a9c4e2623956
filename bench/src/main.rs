//! `oncegate-bench`: see `bench/README.md`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use oncegate_bench::client::{Bounds, Kind};
use oncegate_bench::measure::{self, Part, Plan, growth};
use oncegate_bench::rig::Secret;
use oncegate_bench::{During, Failure, roles};
use serde::Serialize;

/// Settled effects of the small record that a large one is compared with.
const GROWTH_SMALL: u64 = 10_000;
/// Where a release build of `bench/hudsucker` is.
const HUDSUCKER: &str = "bench/hudsucker/target/release/oncegate-bench-hudsucker";

/// Measures Oncegate beside a minimal interceptor, on loopback
#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every part
    All(Options),
    /// Requests over kept connections: 1, 16 and 64 callers, reads and governed writes
    Requests(Options),
    /// New intercepted connections
    Connections(Options),
    /// Memory, and what idle tunnels add to it
    Idle(Options),
    /// From the start of the process to the first answer
    Startup(Options),
    /// Bytes on disk per settled effect
    Disk(Options),
    /// Governed writes to a provider that takes 50 ms
    Slow(Options),
    /// As many governed writes as there can be, for a long time: memory, descriptors and log must not grow
    Sustained {
        /// How long
        #[arg(long, default_value_t = 10)]
        minutes: u64,
        /// Connections, each with one request at a time
        #[arg(long, default_value_t = 64)]
        callers: usize,
        /// Where the database is made while it runs; it needs about 2 GB for each million writes [default: the system's]
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Where the result is written
        #[arg(long, default_value = "bench/results")]
        out: PathBuf,
        /// The result goes to NAME.json
        #[arg(long, default_value = "sustained")]
        name: String,
    },
    /// The record alone, with little and with much in it: what an admission takes, and an opening
    Growth {
        /// Settled effects of the large record; it needs about 2.4 GB for each million
        #[arg(long, default_value_t = 1_000_000)]
        effects: u64,
        /// Rounds; values are medians over them
        #[arg(long, default_value_t = 10)]
        rounds: usize,
        /// Where the databases are made while it runs [default: the system's]
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Where the result is written
        #[arg(long, default_value = "bench/results")]
        out: PathBuf,
        /// The result goes to NAME.json
        #[arg(long, default_value = "growth")]
        name: String,
    },
    /// The record alone, without a proxy: governed writes into the store, and into the least journal
    Store {
        /// Writes of each line
        #[arg(long, default_value_t = 6_000)]
        writes: u64,
        /// Where the databases are made while it runs, on the disk that is to be measured [default: the system's]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Serve as Oncegate (a child of the rig)
    #[command(hide = true)]
    ServeOncegate { dir: PathBuf },
    /// Serve as a floor (a child of the rig)
    #[command(hide = true)]
    ServeFloor {
        dir: PathBuf,
        origin: SocketAddr,
        #[arg(long)]
        journal: bool,
    },
}

#[derive(Args)]
struct Options {
    /// Only show that the rig works; the numbers mean nothing
    #[arg(long)]
    short: bool,
    /// Rounds; values are medians over them
    #[arg(long)]
    rounds: Option<usize>,
    /// Only with so many callers, to profile one case
    #[arg(long)]
    callers: Option<usize>,
    /// Only reads or only writes
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// The results go to NAME.json [default: latest, or short]
    #[arg(long)]
    name: Option<String>,
    /// Where results are written
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
    /// Where databases are made while it runs, on the disk that is to be measured [default: the system's]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where Oncegate has the credential from
    #[arg(long, value_enum, default_value_t)]
    secret: Secret,
    /// The program of bench/hudsucker [default: its release build, if there is one]
    #[arg(long)]
    hudsucker: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Line::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            say(&format!("cannot {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<bool, Failure> {
    let part = |part: Part| vec![part];
    let (parts, options) = match command {
        Command::ServeOncegate { dir } => return serve(roles::oncegate(&dir)),
        Command::ServeFloor { dir, origin, journal } => return serve(roles::floor(&dir, origin, journal)),
        Command::Store { writes, dir } => return store(writes, dir.as_deref()),
        Command::Growth { effects, rounds, dir, out, name } => {
            let bounds =
                growth::Bounds { effects: [GROWTH_SMALL, effects], rounds: rounds.max(1), writes: 500 };
            return grown(bounds, dir.as_deref(), &out, &name);
        }
        Command::Sustained { minutes, callers, dir, out, name } => {
            let bounds = Bounds { time: Duration::from_secs(60 * minutes), requests: usize::MAX };
            return sustained(bounds, callers.max(1), dir.unwrap_or_else(std::env::temp_dir), &out, &name);
        }
        Command::All(options) => (Part::ALL.to_vec(), options),
        Command::Requests(options) => (part(Part::Requests), options),
        Command::Connections(options) => (part(Part::Connections), options),
        Command::Idle(options) => (part(Part::Idle), options),
        Command::Startup(options) => (part(Part::Startup), options),
        Command::Disk(options) => (part(Part::Disk), options),
        Command::Slow(options) => (part(Part::Slow), options),
    };
    let mut plan = if options.short { Plan::short() } else { Plan::full() };
    plan.parts = parts;
    plan.secret = options.secret;
    plan.callers = options.callers.map_or(plan.callers, |callers| vec![callers.max(1)]);
    plan.kinds = options.kind.map_or(plan.kinds, |kind| vec![kind]);
    plan.rounds = options.rounds.unwrap_or(plan.rounds).max(1);
    plan.dir = options.dir.unwrap_or(plan.dir);
    plan.hudsucker =
        options.hudsucker.or_else(|| Some(HUDSUCKER.into()).filter(|path: &PathBuf| path.is_file()));
    let program = std::env::current_exe().during("find this program")?;
    // One thread for all callers: a second one would take a processor from the proxy that is measured.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().during("start a runtime")?;
    let report = runtime.block_on(measure::run(&program, &plan))?;
    say(&report.text());
    let name = options.name.unwrap_or_else(|| if plan.short { "short" } else { "latest" }.to_owned());
    keep(&options.out, &name, &report)?;
    // Timings never decide: they belong to the machine and the moment.
    Ok(report.errors == 0 && report.counted.exact())
}

fn sustained(bounds: Bounds, callers: usize, dir: PathBuf, out: &Path, name: &str) -> Result<bool, Failure> {
    let program = std::env::current_exe().during("find this program")?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().during("start a runtime")?;
    let ended = runtime.block_on(measure::sustained::run(&program, &dir, callers, bounds))?;
    say(&ended.text());
    keep(out, name, &ended)?;
    Ok(ended.errors == 0 && ended.counted.exact() && ended.flat())
}

fn grown(bounds: growth::Bounds, dir: Option<&Path>, out: &Path, name: &str) -> Result<bool, Failure> {
    let dir = directory(dir)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().during("start a runtime")?;
    let growth = runtime.block_on(growth::run(dir.path(), bounds))?;
    say(&growth.text());
    keep(out, name, &growth)?;
    Ok(true)
}

fn directory(parent: Option<&Path>) -> Result<tempfile::TempDir, Failure> {
    let made = match parent {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    };
    made.during("make a directory for databases")
}

fn store(writes: u64, dir: Option<&Path>) -> Result<bool, Failure> {
    let dir = directory(dir)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().during("start a runtime")?;
    let lines = runtime.block_on(measure::ledger::run(dir.path(), writes))?;
    say(&measure::ledger::text(&lines));
    Ok(true)
}

/// A child: the runtime of `oncegate serve`.
fn serve(role: impl Future<Output = Result<(), Failure>>) -> Result<bool, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().during("start a runtime")?;
    let served = runtime.block_on(role);
    runtime.shutdown_background();
    served.map(|()| true)
}

fn keep(out: &Path, name: &str, report: &impl Serialize) -> Result<(), Failure> {
    fs::create_dir_all(out).during("make the directory for results")?;
    let path = out.join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(report).during("write the results")?;
    fs::write(&path, format!("{text}\n")).during("write the results")?;
    say(&format!("written to {}", path.display()));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what a command line tool is for")]
fn say(text: &str) {
    println!("{text}");
}
