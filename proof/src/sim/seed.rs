//! One seed: a world, and as many runs of the process as it crashes and one more. Everything that happens follows from
//! the seed, so the same seed happens again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use oncegate_policy::time::Timestamp;
use oncegate_tests::canary;
use tokio::time::Instant;

use super::agents::Agents;
use super::checks::{self, Seen};
use super::life::{Ground, Life, runtime};
use super::operators::{Act, Operators};
use super::world::{Fault, Plant, Shared, Violation, World, lock};
use crate::failure::{During, Failure};
use crate::memory;
use crate::rng::Rng;

/// 2026-11-29T22:00:00Z: a day ends soon.
const BEGIN: Timestamp = Timestamp(1_795_989_600_000);
/// Effects of one seed, at least.
pub(crate) const EFFECTS: usize = 200;
/// Longer than any seed takes: one that does is stuck.
const LASTS_MS_MAX: u64 = 3_600_000;
/// Crashes of one seed, at most.
const CRASHES_MAX: u32 = 4;
/// All of the record is read after so many commits.
const WHOLE_EVERY: u64 = 128;

/// What is planned, in the seed's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Plan {
    Call,
    Operate,
    DiskFills,
    DiskEmpties,
    ClockJumps,
    /// Faults end, and nothing new is asked.
    Heal,
    /// Every look is due.
    Look,
    End,
}

/// How a run of the process ended.
enum Ended {
    Crashed,
    Done,
}

/// What came of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) digest: u64,
    pub(crate) effects: u64,
    pub(crate) commits: u64,
    pub(crate) calls: u64,
    pub(crate) faults: BTreeSet<Fault>,
    pub(crate) violation: Option<Violation>,
}

struct Seed {
    rng: Rng,
    world: Shared,
    agents: Agents,
    operators: Operators,
    seen: Seen,
    plans: BTreeMap<(u64, u64), Plan>,
    planned: u64,
    database: PathBuf,
    wall: Timestamp,
    crashes: u32,
    disk_ready_ms: u64,
    disk_is_full: bool,
    calls: u64,
    healing: bool,
}

/// Plays one seed to its end, or to the first violation.
pub(crate) fn play(ground: &Ground, number: u64, plant: Option<Plant>) -> Result<Outcome, Failure> {
    let folder = memory::folder()?;
    let database = folder.path().join("once.db");
    ground.empty.copy(&database, plant.map_or("", Plant::sql))?;
    let shell = memory::shell(&database)?;
    let world = World::new(Rng::new(number, 1), shell, plant);
    let mut seed = Seed {
        rng: Rng::new(number, 2),
        world: Arc::new(Mutex::new(world)),
        agents: Agents::new(Rng::new(number, 3)),
        operators: Operators::new(Rng::new(number, 4)),
        seen: Seen::default(),
        plans: BTreeMap::new(),
        planned: 0,
        database,
        wall: BEGIN,
        crashes: 0,
        disk_ready_ms: 0,
        disk_is_full: false,
        calls: 0,
        healing: false,
    };
    for plan in [Plan::Call, Plan::Operate, Plan::DiskFills, Plan::ClockJumps] {
        seed.plan_next(plan, 0);
    }
    let mut at_ms = 0;
    loop {
        let runtime = runtime()?;
        let ended = runtime.block_on(async {
            let ended = seed.live(ground, at_ms).await;
            at_ms = lock(&seed.world).stop();
            ended
        });
        // Whatever is on its way goes with the runtime, as with the process.
        drop(runtime);
        let mut world = lock(&seed.world);
        if let Some((file, hit)) = canary::below(folder.path(), &BTreeSet::new()).0.first() {
            world.violated("I10: no credential in the record", format!("{}: {hit}", file.display()));
        }
        match ended? {
            Ended::Crashed if world.violation.is_none() => {}
            Ended::Crashed | Ended::Done => return Ok(seed.outcome(&world)),
        }
    }
}

impl Seed {
    fn outcome(&self, world: &World) -> Outcome {
        Outcome {
            digest: world.digest(),
            effects: self.seen.effects(),
            commits: world.step,
            calls: self.calls,
            faults: world.faults.clone(),
            violation: world.violation.clone(),
        }
    }

    fn plan(&mut self, at_ms: u64, plan: Plan) {
        self.planned += 1;
        self.plans.insert((at_ms, self.planned), plan);
    }

    /// The same again, after a pause of its own.
    fn plan_next(&mut self, plan: Plan, now_ms: u64) {
        let pause = match plan {
            Plan::Call => self.agents.pause_ms(),
            Plan::Operate => self.operators.pause_ms(),
            Plan::DiskFills => 15_000 + self.rng.below(120_000) as u64,
            Plan::ClockJumps => 20_000 + self.rng.below(90_000) as u64,
            Plan::DiskEmpties => 100 + self.rng.below(4_000) as u64,
            Plan::Heal | Plan::Look | Plan::End => 0,
        };
        self.plan(now_ms + pause, plan);
    }

    /// One run of the process.
    async fn live(&mut self, ground: &Ground, at_ms: u64) -> Result<Ended, Failure> {
        lock(&self.world).begin(at_ms);
        let settings = self.operators.settings;
        let mut life = Life::begin(ground, &self.world, &self.database, settings, self.wall, true).await?;
        life.hand.fill_disk(self.disk_is_full).during("fill the disk")?;
        let begun = Instant::now();
        self.seen.committed(&mut lock(&self.world));
        self.disk_ready_ms = at_ms;
        loop {
            life.settle().await;
            for done in life.done() {
                self.agents.hear(&mut lock(&self.world), &done);
            }
            let (now_ms, violated) = {
                let world = lock(&self.world);
                (world.now_ms(), world.violation.is_some())
            };
            self.wall = life.sidecar.clock.now();
            if violated {
                return Ok(Ended::Done);
            }
            if life.hand.read(usize::MAX) > 0 {
                continue;
            }
            if life.hand.verbs() > 0 && self.disk_ready_ms <= now_ms {
                if self.commits(&mut life, now_ms) {
                    return Ok(Ended::Crashed);
                }
                continue;
            }
            let due = self.plans.first_key_value().filter(|((at, _), _)| *at <= now_ms);
            if let Some((key, plan)) = due.map(|(key, plan)| (*key, *plan)) {
                self.plans.remove(&key);
                if plan == Plan::End {
                    self.close(&mut life).await?;
                    return Ok(Ended::Done);
                }
                self.carry_out(plan, &mut life, now_ms)?;
                continue;
            }
            let disk = (life.hand.verbs() > 0).then_some(self.disk_ready_ms);
            let planned = self.plans.keys().next().map(|(at, _)| *at);
            let next_ms = disk.into_iter().chain(planned).min().unwrap_or(LASTS_MS_MAX);
            life.wait(begun + Duration::from_millis(next_ms.saturating_sub(at_ms))).await;
        }
    }

    /// One commit of what waits, or of the first of it. Whether the process ends on it.
    fn commits(&mut self, life: &mut Life, now_ms: u64) -> bool {
        let may_crash = !self.healing && self.crashes < CRASHES_MAX;
        let crash = may_crash && self.rng.below(350) == 0;
        // Before the commit nothing of it is there; after it, all of it is, and nobody was told.
        if !crash || self.rng.coin() {
            let many = 1 + self.rng.below(life.hand.verbs());
            life.hand.commit(many);
            let mut world = lock(&self.world);
            world.note(("commit", many));
            self.seen.committed(&mut world);
            if world.step.is_multiple_of(WHOLE_EVERY) {
                checks::whole(&mut world, &self.seen);
            }
        }
        if crash {
            self.crashes += 1;
            let mut world = lock(&self.world);
            world.faults.insert(Fault::Crash);
            world.note("crash");
        }
        // Mostly a commit takes no time worth mentioning.
        let takes = if self.rng.below(4) == 0 { 1 + self.rng.below(9) as u64 } else { 0 };
        self.disk_ready_ms = now_ms + takes;
        crash
    }

    fn carry_out(&mut self, plan: Plan, life: &mut Life, now_ms: u64) -> Result<(), Failure> {
        if now_ms > LASTS_MS_MAX {
            lock(&self.world).violated("a seed ends", format!("not after {now_ms} ms"));
        }
        match plan {
            Plan::Call if self.healing => {}
            Plan::Call => {
                let call = self.agents.next(&mut lock(&self.world));
                self.calls += 1;
                life.call(call);
                match self.seen.effects() >= EFFECTS as u64 {
                    true => self.plan(now_ms, Plan::Heal),
                    false => self.plan_next(plan, now_ms),
                }
            }
            Plan::Operate if self.healing => {}
            Plan::Operate => {
                let act = self.operators.next(&lock(&self.world), &mut self.agents);
                self.acts(act, life)?;
                self.plan_next(plan, now_ms);
            }
            Plan::DiskFills if self.healing => {}
            Plan::DiskFills | Plan::DiskEmpties => {
                self.disk_is_full = plan == Plan::DiskFills;
                life.hand.fill_disk(self.disk_is_full).during("fill the disk")?;
                let mut world = lock(&self.world);
                world.faults.insert(Fault::DiskFull);
                world.disk_full_until_ms = (!self.disk_is_full).then_some(now_ms);
                drop(world);
                let next = if self.disk_is_full { Plan::DiskEmpties } else { Plan::DiskFills };
                self.plan_next(next, now_ms);
            }
            Plan::ClockJumps if self.healing => {}
            Plan::ClockJumps => {
                let hours = i64::try_from(self.rng.below(37)).unwrap_or(0) - 6;
                life.wall.jump(hours * 3_600_000);
                let mut world = lock(&self.world);
                world.faults.insert(Fault::ClockJump);
                world.note(("jump", hours));
                drop(world);
                self.plan_next(plan, now_ms);
            }
            Plan::Heal => self.heal(life, now_ms)?,
            Plan::Look => life.wall.jump(3_600_000),
            Plan::End => {}
        }
        Ok(())
    }

    fn acts(&mut self, act: Option<Act>, life: &mut Life) -> Result<(), Failure> {
        match act {
            None => Ok(()),
            Some(Act::Calls(call)) => {
                life.call(call);
                Ok(())
            }
            Some(Act::Reloads(settings)) => life.reload(&self.world, settings),
        }
    }

    /// From here on nothing breaks. What is on its way ends, and then every look is due twice.
    fn heal(&mut self, life: &mut Life, now_ms: u64) -> Result<(), Failure> {
        self.healing = true;
        self.disk_is_full = false;
        life.hand.fill_disk(false).during("empty the disk")?;
        {
            let mut world = lock(&self.world);
            world.healed = true;
            world.disk_full_until_ms = Some(now_ms);
            world.books.list_what_lags();
        }
        let act = self.operators.heal(&mut self.agents);
        self.acts(Some(act), life)?;
        for (after_ms, plan) in
            [(95_000, Plan::Look), (120_000, Plan::Look), (145_000, Plan::Look), (170_000, Plan::End)]
        {
            self.plan(now_ms + after_ms, plan);
        }
        Ok(())
    }

    /// The last look at everything.
    async fn close(&mut self, life: &mut Life) -> Result<(), Failure> {
        let Life { sidecar, hand, .. } = life;
        let mut verified = std::pin::pin!(sidecar.store.verify_chain());
        let report = std::future::poll_fn(|cx| match verified.as_mut().poll(cx) {
            Poll::Pending if hand.read(1) > 0 => verified.as_mut().poll(cx),
            polled @ (Poll::Pending | Poll::Ready(_)) => polled,
        });
        let report = report.await.during("check the chain")?;
        let mut world = lock(&self.world);
        if let Some(fault) = report.fault {
            world.violated("I6: the chain is whole", fault.what);
        }
        checks::whole(&mut world, &self.seen);
        checks::shown(&mut world, self.agents.shown.iter());
        checks::ended(&mut world);
        Ok(())
    }
}
