//! Simulated histories: the real policy, pipeline, reconciler, API and store, on one thread whose clock, network, disk
//! and process all follow a seed.
//!
//! Nothing of the sidecar is a double. Its dialler leads to a provider in the same thread, its clock is the runtime's,
//! which stands while anything can still run, and its store commits when the simulation lets it. A crash drops the
//! runtime and opens the database again. The provider keeps the truth: what it received and what it applied. Every
//! answer and every commit is held against it.

mod agents;
mod books;
mod checks;
mod config;
pub(crate) mod inside;
mod life;
mod message;
mod operators;
mod seed;
mod wires;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::failure::Failure;
use crate::report::Report;
use crate::rng::Rng;
use life::Ground;
use seed::{EFFECTS, Outcome, play};
use world::{Fault, Plant};

/// Seeds of one run, unless a number is given.
const SEEDS: u64 = 2_000;
const SEEDS_LONG: u64 = 200_000;
/// Kinds of faults that every seed has to see.
const FAULTS_MIN: usize = 5;
/// A planted fault is to be found within so many seeds.
const PLANTED_SEEDS: u64 = 20;

/// Which seeds.
pub(crate) struct Wanted {
    /// The first; the short form always has the same ones, the long form others each time.
    pub(crate) from: Option<u64>,
    /// How many; the form's own number unless given.
    pub(crate) seeds: Option<u64>,
    /// The long form.
    pub(crate) long: bool,
}

/// Each planted fault has to be found, one seed has to happen twice in the same way, and then all seeds.
pub(crate) fn run(wanted: &Wanted) -> Result<Report, Failure> {
    let from = wanted.from.unwrap_or(if wanted.long { another() } else { 1 });
    let mut report = Report::new("sim", from);
    let ground = Ground::new()?;
    let alone = wanted.seeds == Some(1);
    if !alone {
        planted(&ground, from, &mut report)?;
    }
    again(&ground, from, &mut report)?;
    let seeds = wanted.seeds.unwrap_or(if wanted.long { SEEDS_LONG } else { SEEDS });
    all(&ground, from, seeds, &mut report)?;
    Ok(report)
}

/// Seeds that were not played yet, most likely.
#[expect(clippy::disallowed_methods, reason = "nothing else comes from this clock")]
fn another() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().wrapping_mul(1_000_000)
}

fn planted(ground: &Ground, from: u64, report: &mut Report) -> Result<(), Failure> {
    for plant in Plant::ALL {
        let mut found = None;
        for number in from..from + PLANTED_SEEDS {
            if let Some(violation) = play(ground, number, Some(plant))?.violation {
                found = Some(format!("found in seed {number}: {violation}"));
                break;
            }
        }
        match found {
            Some(found) => report.say(&format!("planted {plant:?}: {found}")),
            None => report.violation(&format!("planted {plant:?}: not found in {PLANTED_SEEDS} seeds")),
        }
    }
    Ok(())
}

fn again(ground: &Ground, number: u64, report: &mut Report) -> Result<(), Failure> {
    let (first, second) = (play(ground, number, None)?, play(ground, number, None)?);
    if (first.digest, first.commits) == (second.digest, second.commits) {
        report.say(&format!("seed {number} twice: {} commits, digest {:016x}", first.commits, first.digest));
    } else {
        report.violation(&format!(
            "seed {number} is not the same twice: {} commits and {:016x}, then {} and {:016x}",
            first.commits, first.digest, second.commits, second.digest
        ));
    }
    Ok(())
}

/// What all seeds have come to.
#[derive(Default)]
struct Sum {
    seeds: u64,
    effects: u64,
    commits: u64,
    calls: u64,
    /// Of all their histories: another one, and something happened in another way.
    digest: u64,
    faults: BTreeMap<Fault, u64>,
    violations: Vec<String>,
    failed: Option<Failure>,
}

impl Sum {
    fn add(&mut self, number: u64, outcome: &Outcome) {
        self.seeds += 1;
        self.effects += outcome.effects;
        self.commits += outcome.commits;
        self.calls += outcome.calls;
        // The order in which seeds end is of no account.
        self.digest ^= Rng::new(number, outcome.digest).next();
        outcome.faults.iter().for_each(|fault| *self.faults.entry(*fault).or_default() += 1);
        let tame = outcome.effects < EFFECTS as u64 || outcome.faults.len() < FAULTS_MIN;
        match &outcome.violation {
            Some(violation) => self.violations.push(format!("seed {number}, {violation}")),
            None if tame => {
                let (effects, faults) = (outcome.effects, outcome.faults.len());
                self.violations
                    .push(format!("seed {number} is too tame: {effects} effects, {faults} faults"));
            }
            None => {}
        }
    }
}

fn all(ground: &Ground, from: u64, seeds: u64, report: &mut Report) -> Result<(), Failure> {
    let (next, sum) = (AtomicU64::new(from), Mutex::new(Sum::default()));
    let locked = || sum.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= from + seeds || locked().failed.is_some() {
            return;
        }
        match play(ground, number, None) {
            Ok(outcome) => locked().add(number, &outcome),
            Err(failure) => locked().failed = Some(failure),
        }
    };
    let players = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..players).for_each(|_| drop(scope.spawn(work))));
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = sum.failed {
        return Err(failure);
    }
    report.runs += sum.seeds;
    report.say(&format!(
        "{} seeds, {} effects, {} calls, {} commits, digest {:016x}",
        sum.seeds, sum.effects, sum.calls, sum.commits, sum.digest
    ));
    let faults: Vec<_> = sum.faults.iter().map(|(fault, seeds)| format!("{fault:?} {seeds}")).collect();
    report.say(&format!("seeds with each fault: {}", faults.join(", ")));
    for violation in sum.violations {
        report.violation(&violation);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_happens_again_and_a_resending_network_is_found() {
        let ground = Ground::new().unwrap();
        let (first, second) = (play(&ground, 3, None).unwrap(), play(&ground, 3, None).unwrap());
        assert!(first.violation.is_none(), "{:?}", first.violation);
        assert_eq!((first.digest, first.commits), (second.digest, second.commits));
        assert_ne!(play(&ground, 4, None).unwrap().digest, first.digest);
        assert!(play(&ground, 3, Some(Plant::Resends)).unwrap().violation.is_some());
    }
}
