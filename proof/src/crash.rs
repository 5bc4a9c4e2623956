//! Crashes: the real process is stopped at each call that reaches its disk or its provider, or the call is made to
//! fail; then it is started again, perhaps stopped once more during recovery, and what it knows is compared with what
//! the bank and the clients saw.

mod run;

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use oncegate_store::failpoint::{NAMES, Plant};
use oncegate_tests::binary::Build;

use crate::below::journal::Call;
use crate::below::play::Play;
use crate::below::plays;
use crate::below::recording::{self, calls};
use crate::below::{Errno, Fault, Library};
use crate::crash::run::{At, Ran, Run};
use crate::failure::Failure;
use crate::report::{Extent, Report};
use crate::rng::Rng;

/// Runs of the short form and of the long one.
const RUNS: usize = 1_100;
const RUNS_LONG: usize = 22_000;
/// Runs among which the planted fault must show.
const RUNS_PLANTED: usize = 300;
/// Violations after which no further run is begun.
const VIOLATIONS_MAX: usize = 10;
/// Runs at once; they mostly wait.
const AT_ONCE: usize = 6;
/// What happens at a call.
const FAULTS: [Fault; 7] = [
    Fault::Kill,
    Fault::After,
    Fault::Short,
    Fault::Once(Errno::NoSpace),
    Fault::From(Errno::NoSpace),
    Fault::Once(Errno::InputOutput),
    Fault::From(Errno::InputOutput),
];

/// Runs the suite.
pub(crate) fn run(extent: &Extent) -> Result<Report, Failure> {
    let mut report = Report::new("crash", extent.seed);
    let library = Library::compile()?;
    let warm = recording::warm()?;
    let ground = Ground { library: &library, warm: warm.path() };
    let mut rng = Rng::new(extent.seed, 0);

    let mut plan = Vec::new();
    for play in plays::CRASHED {
        plan.extend(points(play, &ground)?);
    }
    let all = plan.len();
    let wanted = extent.runs.and_then(|runs| usize::try_from(runs).ok());
    let wanted = wanted.unwrap_or(if extent.long { RUNS_LONG } else { RUNS });
    let named =
        plays::CRASHED.iter().flat_map(|play| NAMES.iter().map(|(name, _)| (*play, At::Failpoint(name))));
    let named: Vec<_> = named.collect();
    let plan = drawn(plan, wanted.saturating_sub(named.len()), &mut rng);
    report.say(&format!(
        "{all} places of {} scenarios, and {} failpoints",
        plays::CRASHED.len(),
        NAMES.len()
    ));
    let outcome = ground.all(named.into_iter().chain(plan).collect(), None, extent.seed, VIOLATIONS_MAX);
    outcome.tell(&mut report)?;
    for (name, _) in NAMES.iter().filter(|(name, _)| !outcome.named.contains(name)) {
        report.violation(&format!("no scenario came to the failpoint {name}"));
    }

    let kills = points(&plays::LOOKED_FOR, &ground)?;
    let kills = kills.into_iter().filter(|(_, at)| matches!(at, At::Call(_, Fault::Kill))).collect();
    let plan = drawn(kills, RUNS_PLANTED, &mut rng);
    let planted = ground.all(plan, Some(Plant::SendBeforeClaim), extent.seed, 1);
    match planted.violations.first() {
        Some(caught) => report.say(&format!(
            "planted {}: caught after {} runs: {caught}",
            Plant::SendBeforeClaim.word(),
            planted.runs
        )),
        None => report.violation(&format!(
            "planted {}: not caught in {} runs",
            Plant::SendBeforeClaim.word(),
            planted.runs
        )),
    }
    Ok(report)
}

/// Every place of a scenario at which something can happen.
fn points(play: &Play, ground: &Ground<'_>) -> Result<Vec<(Play, At)>, Failure> {
    let mut points = Vec::new();
    for entry in calls(play, ground.library, ground.warm)? {
        let writes = matches!(entry.call, Call::Write { .. } | Call::Send(_));
        let faults = FAULTS.iter().filter(|fault| writes || **fault != Fault::Short);
        points.extend(faults.map(|fault| (*play, At::Call(entry.number, *fault))));
    }
    Ok(points)
}

/// So many, each at most once until all were drawn.
fn drawn(mut all: Vec<(Play, At)>, wanted: usize, rng: &mut Rng) -> VecDeque<(Play, At)> {
    rng.shuffle(&mut all);
    all.iter().cycle().take(wanted).copied().collect()
}

/// What all runs share.
struct Ground<'a> {
    library: &'a Library,
    warm: &'a Path,
}

/// What came of many runs.
#[derive(Default)]
struct Outcome {
    runs: u64,
    /// Runs in which the planned call was made.
    reached: u64,
    /// Failpoints that were reached.
    named: BTreeSet<&'static str>,
    again: u64,
    violations: Vec<String>,
    failures: Vec<String>,
}

impl Outcome {
    fn tell(&self, report: &mut Report) -> Result<(), Failure> {
        report.runs += self.runs;
        report.say(&format!(
            "{} runs: {} reached their place, {} were stopped again during recovery",
            self.runs, self.reached, self.again
        ));
        self.violations.iter().for_each(|violation| report.violation(violation));
        self.failures.first().map_or(Ok(()), |failure| Err(Failure::new("carry out a run", failure)))
    }
}

impl Ground<'_> {
    /// Carries out a plan, several runs at once. They end when `enough` violations were found.
    fn all(&self, plan: VecDeque<(Play, At)>, plant: Option<Plant>, seed: u64, enough: usize) -> Outcome {
        let (plan, number, outcome) = (Mutex::new(plan), AtomicU64::new(0), Mutex::new(Outcome::default()));
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    // Taken before the run: a guard in the condition of the loop would be held through it.
                    let next = || plan.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    while let Some((play, at)) = next() {
                        let number = number.fetch_add(1, Ordering::Relaxed);
                        let rng = Rng::new(seed, number + 1);
                        let build = match (plant, at) {
                            (None, At::Call(..)) => Build::Plain,
                            (Some(_), _) | (None, At::Failpoint(_)) => Build::Failpoints,
                        };
                        let run =
                            Run { play: &play, at, plant, build, library: self.library, warm: self.warm };
                        let ran = run.carry_out(rng);
                        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                        outcome.take(&play, at, ran);
                        if outcome.violations.len() >= enough {
                            return;
                        }
                    }
                });
            }
        });
        outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outcome {
    fn take(&mut self, play: &Play, at: At, ran: Result<Ran, Failure>) {
        self.runs += 1;
        match ran {
            Ok(Ran { reached, again, fault }) => {
                self.reached += u64::from(reached);
                self.again += u64::from(again);
                if let (At::Failpoint(name), true) = (at, reached) {
                    self.named.insert(name);
                }
                self.violations.extend(fault.map(|fault| format!("{} {at}: {fault}", play.name)));
            }
            Err(failure) => self.failures.push(format!("{} {at}: {failure}", play.name)),
        }
    }
}
