//! What was measured: written as JSON, printed as tables.

use std::fmt::Write as _;

use serde::Serialize;

use crate::client::Kind;
use crate::rig::{Counted, Secret};
use crate::stats::{Spread, float};
use crate::targets::{self, Judged};

/// A load before the run above which nothing can be said of the machine.
const NOISY_LOAD: f64 = 0.5;
/// How to have hudsucker take part.
const BUILD_HUDSUCKER: &str = "cargo build --release --manifest-path bench/hudsucker/Cargo.toml";

/// Everything that one run measured. Parts that were not run are absent.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Whether this run only shows that the rig works; its numbers mean nothing.
    pub short: bool,
    /// Rounds; every value is the median of its rounds.
    pub rounds: usize,
    /// The machine.
    pub machine: Machine,
    /// Where Oncegate had the credential from.
    pub secret: Secret,
    /// Whether hudsucker took part.
    pub hudsucker: bool,
    /// `fdatasync` of a 4 KiB write into a file that has its size already, in microseconds.
    pub fdatasync_us: Option<Spread>,
    /// Requests over connections that are kept.
    pub requests: Vec<Cell>,
    /// How many microseconds a way adds to the p50 of the direct one with one caller, round by round.
    pub added: Vec<Added>,
    /// Connections that are new.
    pub connections: Vec<Connections>,
    /// Tunnels that nobody uses.
    pub idle: Vec<Idle>,
    /// Starts.
    pub startup: Vec<Startup>,
    /// Bytes on disk.
    pub disk: Option<Disk>,
    /// A provider that takes its time.
    pub slow: Option<Slow>,
    /// Each end's count of what was asked.
    pub counted: Counted,
    /// Answers that were not as they should be, and connections that broke.
    pub errors: u64,
    /// What the project aims for.
    pub targets: Vec<Judged>,
}

/// What the numbers belong to.
#[derive(Debug, Default, Serialize)]
pub struct Machine {
    /// The processor's own name.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Whether the files were in memory, where nothing is ever synced.
    pub files_in_memory: bool,
    /// Processes that wanted a processor, on average over a minute: before the run, and after.
    pub load: [f64; 2],
}

/// One way, one kind of request, one number of callers.
#[derive(Debug, Serialize)]
pub struct Cell {
    /// The way.
    pub way: &'static str,
    /// GET or POST.
    pub kind: Kind,
    /// Connections, each with one request at a time.
    pub callers: usize,
    /// Requests of all rounds.
    pub requests: u64,
    /// Connections to the origin that were made for them, after each caller had been answered once.
    pub dialled: u64,
    /// Per second.
    pub per_second: Spread,
    /// The middle answer, in microseconds.
    pub p50_us: Spread,
    /// All but one in a hundred.
    pub p99_us: Spread,
    /// CPU time of the proxy's process per request, in microseconds.
    pub cpu_us: Option<Spread>,
}

/// What a way adds.
#[derive(Debug, Serialize)]
pub struct Added {
    /// The way.
    pub way: &'static str,
    /// GET or POST.
    pub kind: Kind,
    /// Microseconds.
    pub us: Spread,
}

/// Connections, one after the other, each with a full handshake.
#[derive(Debug, Serialize)]
pub struct Connections {
    /// The way.
    pub way: &'static str,
    /// What was done on each.
    pub what: Opened,
    /// Connections of all rounds.
    pub connections: u64,
    /// From the first packet to the end of it, in microseconds.
    pub p50_us: Spread,
    /// All but one in a hundred.
    pub p99_us: Spread,
    /// CPU time of the proxy's process per connection, in microseconds.
    pub cpu_us: Option<Spread>,
}

/// What is done on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Opened {
    /// To a known host, and one read.
    AndAsked,
    /// To a known host, and nothing.
    Handshake,
    /// To a host that no leaf has been minted for, and nothing.
    FreshHost,
}

impl Opened {
    fn words(self) -> &'static str {
        match self {
            Self::AndAsked => "one GET on it",
            Self::Handshake => "handshake only",
            Self::FreshHost => "new host, handshake only",
        }
    }
}

/// Tunnels that were opened and left alone.
#[derive(Debug, Serialize)]
pub struct Idle {
    /// The way.
    pub way: &'static str,
    /// Tunnels.
    pub tunnels: u64,
    /// Resident memory before anything was asked, in MiB.
    pub rss_mib: f64,
    /// More per tunnel that has not been used yet, in KiB.
    pub unused_kib: f64,
    /// More per tunnel after one GET on each, in KiB.
    pub used_kib: f64,
}

/// From the start of the process to the first answer through it.
#[derive(Debug, Serialize)]
pub struct Startup {
    /// The way.
    pub way: &'static str,
    /// Effects in the database; `None` in a directory that nothing has been in, so that a CA is made as well.
    pub effects: Option<u64>,
    /// Milliseconds.
    pub ms: Spread,
}

/// What the record of settled effects takes.
#[derive(Debug, Serialize)]
pub struct Disk {
    /// Effects.
    pub effects: u64,
    /// Bytes of each one's request body; the answer's has 400.
    pub body_bytes: usize,
    /// Bytes of the database per effect, after a clean stop.
    pub bytes_per_effect: f64,
}

/// Governed writes to a provider that takes its time.
#[derive(Debug, Serialize)]
pub struct Slow {
    /// How long the provider takes, in milliseconds.
    pub takes_ms: u64,
    /// Connections, each with one request at a time.
    pub callers: usize,
    /// The middle answer on the direct way, in microseconds.
    pub direct_us: Spread,
    /// The same through Oncegate.
    pub oncegate_us: Spread,
    /// What Oncegate adds to the direct one of the same round, in hundredths of it.
    pub added_percent: Spread,
}

impl Report {
    /// Everything as tables.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a string does not fail.
        self.write(&mut out).unwrap_or_default();
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Machine { processor, processors, files_in_memory, load } = &self.machine;
        writeln!(out, "{processors} x {processor}, load {:.1} before and {:.1} after", load[0], load[1])?;
        writeln!(out, "median of {} rounds (least to greatest)", self.rounds)?;
        if self.short {
            writeln!(out, "SHORT: this shows that the rig works; the numbers mean nothing")?;
        }
        let noisy = load[0] > NOISY_LOAD;
        if noisy {
            writeln!(out, "NOISY: others use this machine; quote nothing of this")?;
        }
        if *files_in_memory {
            writeln!(out, "FILES IN MEMORY: nothing is synced here; use --dir for a real disk")?;
        }
        if let Some(sync) = &self.fdatasync_us {
            writeln!(out, "fdatasync: {} us", spread(sync, 0))?;
        }
        let passed = !(self.requests.is_empty() && self.connections.is_empty() && self.idle.is_empty());
        if passed && !self.hudsucker {
            writeln!(out, "hudsucker is not built, and takes no part: {BUILD_HUDSUCKER}")?;
        }
        self.requests(out)?;
        self.connections(out)?;
        for one in &self.idle {
            writeln!(
                out,
                "{}: {:.1} MiB resident; each of {} idle tunnels {:.1} KiB unused, {:.1} KiB used",
                one.way, one.rss_mib, one.tunnels, one.unused_kib, one.used_kib
            )?;
        }
        for one in &self.startup {
            let state = one
                .effects
                .map_or_else(|| "an empty directory".to_owned(), |effects| format!("{effects} effects"));
            writeln!(out, "{}: start to first answer {} ms, {state}", one.way, spread(&one.ms, 1))?;
        }
        if let Some(disk) = &self.disk {
            writeln!(
                out,
                "{:.0} bytes on disk per effect ({} of them, {} B bodies)",
                disk.bytes_per_effect, disk.effects, disk.body_bytes
            )?;
        }
        if let Some(slow) = &self.slow {
            writeln!(
                out,
                "{} callers, a provider that takes {} ms: p50 {} us direct, {} us governed, {} % more",
                slow.callers,
                slow.takes_ms,
                spread(&slow.direct_us, 0),
                spread(&slow.oncegate_us, 0),
                spread(&slow.added_percent, 1)
            )?;
        }
        out.push_str(&targets::table(&self.targets, !self.short && !noisy));
        let exact = if self.counted.exact() { "exact" } else { "WRONG" };
        writeln!(out, "\ncounts {exact}: {:?}; {} errors", self.counted, self.errors)
    }

    fn requests(&self, out: &mut String) -> std::fmt::Result {
        if self.requests.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\n{:<14} {:<5} {:>7} {:>24} {:>20} {:>22} {:>18} {:>8}",
            "way", "kind", "callers", "per second", "p50 us", "p99 us", "CPU us/request", "dialled"
        )?;
        for cell in &self.requests {
            let kind = if cell.kind == Kind::Read { "GET" } else { "POST" };
            writeln!(
                out,
                "{:<14} {kind:<5} {:>7} {:>24} {:>20} {:>22} {:>18} {:>7.0}%",
                cell.way,
                cell.callers,
                spread(&cell.per_second, 0),
                spread(&cell.p50_us, 0),
                spread(&cell.p99_us, 0),
                cell.cpu_us.as_ref().map_or_else(String::new, |cpu| spread(cpu, 1)),
                100.0 * float(cell.dialled) / float(cell.requests).max(1.0),
            )?;
        }
        writeln!(out)?;
        for one in &self.added {
            let kind = if one.kind == Kind::Read { "GET" } else { "POST" };
            writeln!(out, "{} adds {} us to the p50 of one caller's {kind}", one.way, spread(&one.us, 0))?;
        }
        Ok(())
    }

    fn connections(&self, out: &mut String) -> std::fmt::Result {
        if self.connections.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\n{:<14} {:<26} {:>22} {:>24} {:>20}",
            "way", "new connection", "p50 us", "p99 us", "CPU us each"
        )?;
        for one in &self.connections {
            writeln!(
                out,
                "{:<14} {:<26} {:>22} {:>24} {:>20}",
                one.way,
                one.what.words(),
                spread(&one.p50_us, 0),
                spread(&one.p99_us, 0),
                one.cpu_us.as_ref().map_or_else(String::new, |cpu| spread(cpu, 0)),
            )?;
        }
        writeln!(out)
    }
}

fn spread(spread: &Spread, digits: usize) -> String {
    let Spread { median, min, max } = spread;
    format!("{median:.digits$} ({min:.digits$}-{max:.digits$})")
}
