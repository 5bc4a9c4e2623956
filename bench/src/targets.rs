//! What the project aims for, as ratios and bounds within one run.

use serde::Serialize;

use crate::client::Kind;
use crate::report::{Cell, Connections, Opened, Report};

/// How much CPU time hudsucker 0.25 took per passed-through request in units of a floor's, when both were last
/// measured side by side (21.4 and 13.1 us). It is no part of this rig.
const HUDSUCKER: f64 = 1.63;

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

fn requests(report: &Report) -> [Option<Judged>; 6] {
    let cell = |way, kind, callers| {
        let mut cells = report.requests.iter();
        cells.find(|cell: &&Cell| cell.way == way && cell.kind == kind && cell.callers == callers)
    };
    let cpu = |way| Some(cell(way, Kind::Read, 16)?.cpu_us?.median);
    let rate = |way, callers| Some(cell(way, Kind::Write, callers)?.per_second.median);
    let against_journal = |callers| over(rate("oncegate", callers), rate("floor-journal", callers));
    let added = |kind| {
        let added = report.added.iter().find(|one| one.way == "oncegate" && one.kind == kind);
        Some(added?.us.median)
    };
    let p99 = cell("oncegate", Kind::Write, 16).map(|cell| cell.p99_us.median / 1000.0);
    let passed = over(cpu("oncegate"), cpu("floor"));
    let synced = over(added(Kind::Write), report.fdatasync_us.map(|sync| 2.0 * sync.median));
    [
        at_most("passthrough CPU, 16 callers / floor", passed, Some(HUDSUCKER), 1.2),
        at_most("passthrough, added p50, 1 caller, us", added(Kind::Read), Some(30.0), 20.0),
        at_most("governed, added p50, 1 caller / 2 fdatasync", synced, Some(3.0), 2.2),
        at_least("governed per second, 16 callers / floor-journal", against_journal(16), 0.5, 0.85),
        at_least("governed per second, 64 callers / floor-journal", against_journal(64), 0.5, 0.85),
        at_most("governed p99, 16 callers, ms", p99, Some(6.0), 2.0),
    ]
}

fn connections(report: &Report) -> [Option<Judged>; 4] {
    let opened = |way, what| {
        let mut all = report.connections.iter();
        all.find(|one: &&Connections| one.way == way && one.what == what)
    };
    let cpu = |what| Some(opened("oncegate", what)?.cpu_us?.median);
    let p50 = |way| Some(opened(way, Opened::AndAsked)?.p50_us.median);
    let p99 = opened("oncegate", Opened::AndAsked).map(|one| one.p99_us.median / 1000.0);
    let minted = cpu(Opened::FreshHost).zip(cpu(Opened::Handshake)).map(|(fresh, known)| fresh - known);
    [
        at_most("new connection, CPU us", cpu(Opened::AndAsked), Some(250.0), 175.0),
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

    #[test]
    fn nothing_is_judged_that_was_not_measured() {
        assert!(judge(&Report::default()).is_empty());
    }
}
