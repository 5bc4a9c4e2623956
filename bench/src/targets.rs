//! What the project aims for, as ratios and bounds within one run.

use serde::Serialize;

use crate::client::Kind;
use crate::report::{Cell, Connections, Opened, Report};

/// How much CPU time hudsucker 0.25 took per passed-through request in units of a floor's, where the targets were
/// set (21.4 and 13.1 us). It stands in for hudsucker in a run in which that takes no part.
const HUDSUCKER_FLOORS: f64 = 1.63;
/// Targets in microseconds were set where the floor itself adds 17 us to the p50 of one caller. The same, must have
/// and aim, in units of what the floor adds: 30 and 20 us.
const ADDED_FLOORS: [f64; 2] = [1.76, 1.18];
/// There the floor takes 158 us of CPU time for a new connection. The same of 250 and 175 us.
const CONNECTION_FLOORS: [f64; 2] = [1.58, 1.11];

/// One target and what was measured.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// What.
    pub what: &'static str,
    /// Measured.
    pub measured: f64,
    /// At most, or at least, this.
    pub must: Option<f64>,
    /// Better still.
    pub aim: f64,
    /// Whether more is better.
    pub more_is_better: bool,
}

impl Judged {
    fn met(&self, bound: f64) -> bool {
        if self.more_is_better { self.measured >= bound } else { self.measured <= bound }
    }
}

/// Every target that the report has the numbers for.
#[must_use]
pub fn judge(report: &Report) -> Vec<Judged> {
    let judged = requests(report).into_iter().chain(connections(report)).chain(processes(report));
    judged.flatten().collect()
}

fn at_most(what: &'static str, measured: Option<f64>, must: Option<f64>, aim: f64) -> Option<Judged> {
    Some(Judged { what, measured: measured?, must, aim, more_is_better: false })
}

fn at_least(what: &'static str, measured: Option<f64>, must: f64, aim: f64) -> Option<Judged> {
    Some(Judged { what, measured: measured?, must: Some(must), aim, more_is_better: true })
}

fn requests(report: &Report) -> [Option<Judged>; 9] {
    let cell = |way, kind, callers| {
        let mut cells = report.requests.iter();
        cells.find(|cell: &&Cell| cell.way == way && cell.kind == kind && cell.callers == callers)
    };
    let cpu = |way| Some(cell(way, Kind::Read, 16)?.cpu_us?.median);
    let rate = |way, callers| Some(cell(way, Kind::Write, callers)?.per_second.median);
    let against_journal = |callers| over(rate("oncegate", callers), rate("floor-journal", callers));
    let added = |way, kind| {
        let added = report.added.iter().find(|one| one.way == way && one.kind == kind);
        Some(added?.us.median)
    };
    let added_read = added("oncegate", Kind::Read);
    let added_floors = over(added_read, added("floor", Kind::Read));
    let p99 = cell("oncegate", Kind::Write, 16).map(|cell| cell.p99_us.median / 1000.0);
    let passed = over(cpu("oncegate"), cpu("hudsucker"));
    let passed_floors = over(cpu("oncegate"), cpu("floor"));
    let stand_in = if passed.is_none() { passed_floors } else { None };
    let synced = over(added("oncegate", Kind::Write), report.fdatasync_us.map(|sync| 2.0 * sync.median));
    [
        at_most("passthrough CPU, 16 callers / hudsucker", passed, Some(1.0), 0.75),
        at_most("passthrough CPU, 16 callers / floor (no hudsucker)", stand_in, Some(HUDSUCKER_FLOORS), 1.22),
        at_most("passthrough CPU, 16 callers / floor", passed_floors, None, 1.2),
        at_most("passthrough, added p50, 1 caller, us", added_read, Some(30.0), 20.0),
        at_most(
            "passthrough, added p50, 1 caller / floor's",
            added_floors,
            Some(ADDED_FLOORS[0]),
            ADDED_FLOORS[1],
        ),
        at_most("governed, added p50, 1 caller / 2 fdatasync", synced, Some(3.0), 2.2),
        at_least("governed per second, 16 callers / floor-journal", against_journal(16), 0.5, 0.85),
        at_least("governed per second, 64 callers / floor-journal", against_journal(64), 0.5, 0.85),
        at_most("governed p99, 16 callers, ms", p99, Some(6.0), 2.0),
    ]
}

fn connections(report: &Report) -> [Option<Judged>; 5] {
    let opened = |way, what| {
        let mut all = report.connections.iter();
        all.find(|one: &&Connections| one.way == way && one.what == what)
    };
    let cpu_of = |way, what| Some(opened(way, what)?.cpu_us?.median);
    let cpu = |what| cpu_of("oncegate", what);
    let floors = over(cpu(Opened::AndAsked), cpu_of("floor", Opened::AndAsked));
    let p50 = |way| Some(opened(way, Opened::AndAsked)?.p50_us.median);
    let p99 = opened("oncegate", Opened::AndAsked).map(|one| one.p99_us.median / 1000.0);
    let minted = cpu(Opened::FreshHost).zip(cpu(Opened::Handshake)).map(|(fresh, known)| fresh - known);
    [
        at_most("new connection, CPU us", cpu(Opened::AndAsked), Some(250.0), 175.0),
        at_most("new connection, CPU / floor", floors, Some(CONNECTION_FLOORS[0]), CONNECTION_FLOORS[1]),
        at_most("new connection, p99 ms", p99, Some(5.0), 1.0),
        at_most("new connection, p50 / direct", over(p50("oncegate"), p50("direct")), None, 1.4),
        at_most("minting for a new host, CPU us", minted, Some(100.0), 50.0),
    ]
}

fn processes(report: &Report) -> [Option<Judged>; 5] {
    let idle = report.idle.iter().find(|idle| idle.way == "oncegate");
    // The one that goes on with a database; an empty directory costs a new CA once.
    let again = report.startup.iter().find(|one| one.way == "oncegate" && one.effects.is_some());
    let slow = report.slow.as_ref().map(|slow| slow.added_percent.median);
    let bytes = report.disk.as_ref().map(|disk| disk.bytes_per_effect);
    [
        at_most("resident when idle, MiB", idle.map(|idle| idle.rss_mib), Some(16.0), 10.0),
        at_most("idle tunnel, KiB", idle.map(|idle| idle.used_kib), Some(44.0), 20.0),
        at_most("start to first answer, ms", again.map(|one| one.ms.median), Some(50.0), 15.0),
        at_most("bytes per settled effect", bytes, Some(3000.0), 2200.0),
        at_most("added by the commits, provider of 50 ms, %", slow, Some(10.0), 6.0),
    ]
}

fn over(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let (a, b) = (a?, b?);
    (b > 0.0).then_some(a / b)
}

/// The targets as a table. The verdicts of a run that says nothing of the machine are marked.
#[must_use]
pub fn table(judged: &[Judged], quotable: bool) -> String {
    if judged.is_empty() {
        return String::new();
    }
    let mut out =
        format!("\n{:<50} {:>10} {:>12} {:>10}  verdict\n", "target", "measured", "must have", "aim");
    for one in judged {
        let sign = if one.more_is_better { ">=" } else { "<=" };
        let verdict = match (one.met(one.aim), one.must.map(|must| one.met(must))) {
            (true, _) => "aim met",
            (false, Some(true)) => "must have met",
            (false, Some(false)) => "NOT MET",
            (false, None) => "aim not met",
        };
        let doubt = if quotable { "" } else { "?" };
        let must = one.must.map_or_else(String::new, |must| format!("{sign} {must}"));
        let aim = format!("{sign} {}", one.aim);
        out.push_str(&format!(
            "{:<50} {:>10.2} {must:>12} {aim:>10}  {verdict}{doubt}\n",
            one.what, one.measured
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    #[test]
    fn verdicts_go_the_right_way() {
        let one = |measured, more_is_better, must, aim| Judged {
            what: "x",
            measured,
            must: Some(must),
            aim,
            more_is_better,
        };
        let judged = [one(0.9, true, 0.5, 0.85), one(2.5, false, 3.0, 2.2), one(3.5, false, 3.0, 2.2)];
        let text = table(&judged, true);
        let verdicts: Vec<&str> = text.lines().skip(2).filter_map(|line| line.rsplit("  ").next()).collect();
        assert_eq!(verdicts, ["aim met", "must have met", "NOT MET"]);
    }

    fn reads(way: &'static str, cpu_us: f64) -> Cell {
        let some = Spread { median: 1.0, min: 1.0, max: 1.0 };
        Cell {
            way,
            kind: Kind::Read,
            callers: 16,
            requests: 1,
            dialled: 0,
            per_second: some,
            p50_us: some,
            p99_us: some,
            cpu_us: Spread::of([cpu_us]),
        }
    }

    #[test]
    fn a_constant_stands_in_for_hudsucker_only_where_that_was_not_measured() {
        let mut report =
            Report { requests: vec![reads("floor", 10.0), reads("oncegate", 20.0)], ..Report::default() };
        let rows = |report: &Report| -> Vec<_> {
            judge(report).iter().map(|one| (one.what, one.measured, one.must)).collect()
        };
        let floor = ("passthrough CPU, 16 callers / floor", 2.0, None);
        assert_eq!(
            rows(&report),
            [("passthrough CPU, 16 callers / floor (no hudsucker)", 2.0, Some(HUDSUCKER_FLOORS)), floor]
        );
        report.requests.push(reads("hudsucker", 25.0));
        assert_eq!(rows(&report), [("passthrough CPU, 16 callers / hudsucker", 0.8, Some(1.0)), floor]);
    }

    #[test]
    fn nothing_is_judged_that_was_not_measured() {
        assert!(judge(&Report::default()).is_empty());
    }
}
