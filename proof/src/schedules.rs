//! Schedules of the claim core: every order in which two actors can take their steps, on the real store.
//!
//! A step is one verb, and a verb is one transaction of the only writer. Nothing of one step can come between the
//! halves of another, so an order of steps is all there is to choose: exploring every order is exact. Each order is
//! played twice, with a commit for each verb and with neighbours of different actors in one commit. What is not in the
//! database is explored by [`crate::sim::inside`].

mod actors;
mod checks;
mod ghost;
mod heard;
pub(crate) mod plant;
mod play;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::failure::{During, Failure};
use crate::memory::Empty;
use crate::report::{Extent, Report};
use crate::rng::Rng;
use actors::{ACTORS, Actor, SETTINGS, Step};
use checks::Violation;
use plant::Plant;
use play::{Play, Stop};
use world::World;

/// Random schedules of three or four actors, unless a number is given.
const RANDOM: u64 = 2_000;
const RANDOM_LONG: u64 = 1_000_000;
/// A database is left for a new one after so many schedules, so that none grows large.
const PER_DATABASE: u64 = 60;

/// Every order of two actors, random orders of more, and the planted faults, each of which has to be found.
pub(crate) fn run(extent: &Extent) -> Result<Report, Failure> {
    let mut report = Report::new("schedules", extent.seed);
    for plant in Plant::ALL {
        let planted = explore(Some(plant), pairs().len() as u64, &|index, tally| pair(index, tally))?;
        match planted.violation {
            Some(found) => {
                let (word, after) = (plant.word(), planted.schedules);
                let first = found.to_string();
                let first = first.lines().next().unwrap_or_default();
                report.say(&format!("planted: {word}: found after {after} schedules: {first}"));
            }
            None => report.violation(&format!("planted: {}: it was not found", plant.word())),
        }
    }
    let every = explore(None, pairs().len() as u64, &|index, tally| pair(index, tally))?;
    told(&mut report, "every order of two actors", every);
    let random = extent.runs.unwrap_or(if extent.long { RANDOM_LONG } else { RANDOM });
    let seed = extent.seed;
    let many = explore(None, random, &|index, tally| several(seed, index, tally))?;
    told(&mut report, "random orders of three and four", many);
    crate::sim::inside::explore(extent.long, &mut report)?;
    Ok(report)
}

fn told(report: &mut Report, what: &str, explored: Explored) {
    let Explored { schedules, verbs, violation } = explored;
    report.runs += schedules;
    report.say(&format!("{what}: {schedules} schedules, {verbs} verbs"));
    if let Some(violation) = violation {
        report.violation(&violation.to_string());
    }
}

/// What came of an exploration.
struct Explored {
    schedules: u64,
    verbs: u64,
    violation: Option<Violation>,
}

/// One explorer's databases and counts.
struct Tally<'e> {
    empty: &'e Empty,
    plant: Option<Plant>,
    world: Option<World>,
    schedules: u64,
    verbs: u64,
}

impl Tally<'_> {
    /// One schedule, from `before` on.
    fn play(
        &mut self,
        before: &Actor,
        actors: &[&Actor],
        order: &[(usize, Step)],
        together: bool,
    ) -> Result<(), Stop> {
        if self.world.as_ref().is_none_or(|world| world.played >= PER_DATABASE) {
            self.close()?;
            self.world = Some(World::new(self.empty, self.plant)?);
        }
        let world = self.world.as_mut().during("open a database")?;
        // Whoever acted before has the last place, and holds what it holds to the end.
        let first: Vec<_> = before.steps.iter().map(|step| (actors.len(), *step)).collect();
        let mut play = Play::begin(world, actors.len() + 1)?;
        self.schedules += 1;
        let played = play.play(&first, actors, false).and_then(|()| play.play(order, actors, together));
        self.verbs += play.steps;
        played
    }

    /// The chain of events of a database that is left.
    fn close(&mut self) -> Result<(), Stop> {
        let Some(mut world) = self.world.take() else { return Ok(()) };
        let store = world.store()?;
        let report = world.ask(Box::pin(async move { store.verify_chain().await }))?;
        match report.fault {
            None => Ok(()),
            Some(fault) => Err(Violation::new("I6: the chain is whole", fault.what).into()),
        }
    }
}

/// Plays tasks `0..tasks` on every processor until one of them finds a violation.
fn explore(
    plant: Option<Plant>,
    tasks: u64,
    task: &(dyn Fn(u64, &mut Tally<'_>) -> Result<(), Stop> + Sync),
) -> Result<Explored, Failure> {
    let empty = Empty::new()?;
    let (next, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new(Explored { schedules: 0, verbs: 0, violation: None });
    let failed = Mutex::new(None);
    let work = || {
        let mut tally = Tally { empty: &empty, plant, world: None, schedules: 0, verbs: 0 };
        let stop = loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= tasks || stopped.load(Ordering::Relaxed) {
                break tally.close().err();
            }
            if let Err(stop) = task(index, &mut tally) {
                break Some(stop);
            }
        };
        let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.schedules += tally.schedules;
        all.verbs += tally.verbs;
        if let Some(stop) = stop {
            stopped.store(true, Ordering::Relaxed);
            match stop {
                Stop::Violated(violation) => all.violation = all.violation.take().or(Some(violation)),
                Stop::Failed(failure) => {
                    *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(failure);
                }
            }
        }
    };
    let players = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..players).for_each(|_| drop(scope.spawn(work))));
    match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)),
    }
}

/// What was before, and which two meet.
fn pairs() -> Vec<(usize, usize, usize)> {
    let mut pairs = Vec::new();
    for one in 0..ACTORS.len() {
        for other in one..ACTORS.len() {
            pairs.extend((0..SETTINGS.len()).map(|before| (before, one, other)));
        }
    }
    pairs
}

/// Every order of one pair.
fn pair(index: u64, tally: &mut Tally<'_>) -> Result<(), Stop> {
    let Some((before, one, other)) = pairs().get(usize::try_from(index).unwrap_or(usize::MAX)).copied()
    else {
        return Ok(());
    };
    let actors = [&ACTORS[one], &ACTORS[other]];
    for order in orders(actors[0].steps, actors[1].steps) {
        for together in [false, true] {
            tally.play(&SETTINGS[before], &actors, &order, together)?;
        }
    }
    Ok(())
}

/// All merges of two sequences that keep the order within each.
fn orders(one: &[Step], other: &[Step]) -> Vec<Vec<(usize, Step)>> {
    let (Some((first, rest)), Some((second, others))) = (one.split_first(), other.split_first()) else {
        let left = one.iter().map(|step| (0, *step)).chain(other.iter().map(|step| (1, *step)));
        return vec![left.collect()];
    };
    let begin = |who: usize, step: &Step, tails: Vec<Vec<(usize, Step)>>| {
        tails
            .into_iter()
            .map(move |mut tail| {
                tail.insert(0, (who, *step));
                tail
            })
            .collect::<Vec<_>>()
    };
    let mut all = begin(0, first, orders(rest, other));
    all.extend(begin(1, second, orders(one, others)));
    all
}

/// One random order of three or four random actors.
fn several(seed: u64, index: u64, tally: &mut Tally<'_>) -> Result<(), Stop> {
    let mut rng = Rng::new(seed, index);
    let before = &SETTINGS[rng.below(SETTINGS.len())];
    let actors: Vec<&Actor> = (0..3 + rng.below(2)).map(|_| &ACTORS[rng.below(ACTORS.len())]).collect();
    let mut left: Vec<std::slice::Iter<'_, Step>> = actors.iter().map(|actor| actor.steps.iter()).collect();
    let mut order = Vec::new();
    while left.iter().any(|steps| steps.len() > 0) {
        let who = rng.below(left.len());
        order.extend(left[who].next().map(|step| (who, *step)));
    }
    let together = rng.coin();
    tally.play(before, &actors, &order, together)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_and_two_steps_have_six_orders() {
        let orders = orders(ACTORS[0].steps, ACTORS[1].steps);
        assert_eq!(orders.len(), 6);
        assert!(orders.iter().all(|order| order.len() == 4));
    }
}
