//! What a suite says.

use std::io::Write;
use std::time::Instant;

/// How much is run.
pub(crate) struct Extent {
    pub(crate) long: bool,
    pub(crate) seed: u64,
    pub(crate) runs: Option<u64>,
}

/// What came of a suite.
pub(crate) struct Report {
    name: &'static str,
    seed: u64,
    begun: Instant,
    pub(crate) runs: u64,
    violations: u64,
}

impl Report {
    pub(crate) fn new(name: &'static str, seed: u64) -> Self {
        Self { name, seed, begun: Instant::now(), runs: 0, violations: 0 }
    }

    /// A line on the way, with the time it is said at.
    pub(crate) fn say(&self, line: &str) {
        let at = self.begun.elapsed().as_secs_f64();
        // Nobody reads on: the closing code still tells.
        drop(writeln!(std::io::stdout(), "{} {at:6.1} s  {line}", self.name));
    }

    pub(crate) fn violation(&mut self, what: &str) {
        self.violations += 1;
        self.say(&format!("VIOLATION (seed {}): {what}", self.seed));
    }

    /// The closing line; whether all is well.
    pub(crate) fn close(&self) -> bool {
        let (runs, violations, seed) = (self.runs, self.violations, self.seed);
        let took = self.begun.elapsed().as_secs_f64();
        let line = format!("{}: {runs} runs, {violations} violations, seed {seed}, {took:.0} s", self.name);
        drop(writeln!(std::io::stdout(), "{line}"));
        violations == 0
    }
}
