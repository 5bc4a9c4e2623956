//! Orders inside the process: the registry that duplicates wait at, permits on their way, the one-at-a-time of what was
//! approved, late answers. None of it is in the database, so the schedules of the claim core do not see it.
//!
//! Two requests are put into a real sidecar at once, and every order of what can happen next is played: which verb is
//! committed first or together with another, when a read is answered, when time passes. Tasks only meet where they
//! wait, and between two waits nothing of another task can come on one thread; what threads could add lies inside
//! mutexes of a few lines. So each order is a list of choices, and the next list is the last one with its last choice
//! changed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncegate::reconciler;
use oncegate_policy::time::Timestamp;
use oncegate_store::Hand;

use super::agents::{Agents, Order, Purpose, Wanted, api};
use super::books::Fate;
use super::checks::{self, Seen};
use super::config::{KEYS, Settings};
use super::life::{Ground, Life, runtime};
use super::world::{Shared, World, lock};
use crate::failure::{During, Failure};
use crate::memory;
use crate::report::Report;
use crate::rng::Rng;

/// 2026-11-29T12:00:00Z
const NOON: Timestamp = Timestamp(1_795_953_600_000);
/// Orders of one scenario, at most; one that has more is said not to be exhausted.
const ORDERS_MAX: u64 = 800;
const ORDERS_MAX_LONG: u64 = 200_000;
/// Where time stands after each time it passes: connected, nearly too late, too late for the agent, for everybody.
const MARKS_MS: [u64; 4] = [100, 11_990, 13_000, 75_000];
/// Room for one of two orders.
const ROOM: Settings = Settings { per_day: Some(150) };

/// Something that is asked for at the beginning.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// An order of 100, or above what needs no question, by its number and its customer's.
    Charge(usize, usize),
    Large(usize),
    /// And its agent is gone at once.
    HangsUp(usize),
    /// A pass of the reconciler.
    Pass,
    Approve,
    Replay,
    Look,
    Resolve,
    Halt,
    Lower,
}

struct Scenario {
    name: &'static str,
    /// What the provider does about every write.
    fate: Fate,
    /// What has happened before, in one order.
    before: &'static [Move],
    /// What happens in every order.
    moves: &'static [Move],
}

const SOON: Fate = Fate::Answers(200, 50);
const AT_THE_LAST_MOMENT: Fate = Fate::Answers(200, 11_950);
const LATE: Fate = Fate::Answers(200, 12_500);

const SCENARIOS: [Scenario; 12] = [
    Scenario { name: "twins", fate: SOON, before: &[], moves: &[Move::Charge(1, 1), Move::Charge(1, 1)] },
    Scenario {
        name: "twins, answered at the last moment",
        fate: AT_THE_LAST_MOMENT,
        before: &[],
        moves: &[Move::Charge(1, 1), Move::Charge(1, 1)],
    },
    Scenario {
        name: "twins, answered late",
        fate: LATE,
        before: &[],
        moves: &[Move::Charge(1, 1), Move::Charge(1, 1)],
    },
    Scenario {
        name: "twins, lost",
        fate: Fate::Loses(50),
        before: &[],
        moves: &[Move::Charge(1, 1), Move::Charge(1, 1)],
    },
    Scenario {
        name: "twins, refused by the provider",
        fate: Fate::Answers(402, 50),
        before: &[],
        moves: &[Move::Charge(1, 1), Move::Charge(1, 1)],
    },
    Scenario {
        name: "a twin hangs up",
        fate: SOON,
        before: &[],
        moves: &[Move::HangsUp(1), Move::Charge(1, 1)],
    },
    Scenario {
        name: "two orders of one customer",
        fate: SOON,
        before: &[],
        moves: &[Move::Charge(1, 1), Move::Charge(2, 1)],
    },
    Scenario {
        name: "room for one of two",
        fate: Fate::Loses(50),
        before: &[],
        moves: &[Move::Charge(1, 1), Move::Charge(2, 2)],
    },
    Scenario {
        name: "approved, and a pass",
        fate: SOON,
        before: &[Move::Large(1)],
        moves: &[Move::Approve, Move::Pass],
    },
    Scenario {
        name: "replayed and looked at",
        fate: Fate::Loses(50),
        before: &[Move::Charge(1, 1)],
        moves: &[Move::Replay, Move::Look],
    },
    Scenario {
        name: "a late answer and a person's word",
        fate: LATE,
        before: &[],
        moves: &[Move::Charge(1, 1), Move::Resolve],
    },
    Scenario {
        name: "a halt and a lower limit",
        fate: SOON,
        before: &[],
        moves: &[Move::Charge(1, 1), Move::Halt, Move::Lower],
    },
];

/// Every order of every scenario.
pub(crate) fn explore(long: bool, report: &mut Report) -> Result<(), Failure> {
    let ground = Ground::new()?;
    let orders_max = if long { ORDERS_MAX_LONG } else { ORDERS_MAX };
    let next = AtomicUsize::new(0);
    let explored = Mutex::new(Vec::new());
    let work = || {
        while let Some(scenario) = SCENARIOS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let orders = orders(&ground, scenario, orders_max);
            explored.lock().unwrap_or_else(PoisonError::into_inner).push((scenario.name, orders));
        }
    };
    let players = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..players).for_each(|_| drop(scope.spawn(work))));
    for (name, orders) in explored.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let Orders { played, exhausted, violation } = orders?;
        report.runs += played;
        let all = if exhausted { "every order" } else { "the first orders" };
        report.say(&format!("inside, {name}: {all}, {played}"));
        if let Some(violation) = violation {
            report.violation(&format!("inside, {name}, {violation}"));
        }
    }
    Ok(())
}

/// What came of one scenario.
struct Orders {
    played: u64,
    exhausted: bool,
    violation: Option<String>,
}

fn orders(ground: &Ground, scenario: &Scenario, orders_max: u64) -> Result<Orders, Failure> {
    let mut choices: Vec<(usize, usize)> = Vec::new();
    let mut played = 0;
    loop {
        let violation = play(ground, scenario, &mut choices)?;
        played += 1;
        if let Some(violation) = violation {
            let taken: Vec<usize> = choices.iter().map(|(taken, _)| *taken).collect();
            let violation = Some(format!("choices {taken:?}: {violation}"));
            return Ok(Orders { played, exhausted: false, violation });
        }
        // The next list of choices: the last one that has another choice takes it.
        while choices.last().is_some_and(|(taken, of)| taken + 1 == *of) {
            choices.pop();
        }
        let Some((taken, _)) = choices.last_mut() else {
            return Ok(Orders { played, exhausted: true, violation: None });
        };
        if played == orders_max {
            return Ok(Orders { played, exhausted: false, violation: None });
        }
        *taken += 1;
    }
}

/// One order. `choices` is what to choose as far as it goes, and afterwards what was chosen, each of how many.
fn play(
    ground: &Ground,
    scenario: &Scenario,
    choices: &mut Vec<(usize, usize)>,
) -> Result<Option<String>, Failure> {
    let folder = memory::folder()?;
    let database = folder.path().join("once.db");
    ground.empty.copy(&database, "")?;
    let shell = memory::shell(&database)?;
    let mut world = World::new(Rng::new(7, 7), shell, None);
    world.healed = true;
    world.fate = Some(scenario.fate);
    let world = Arc::new(Mutex::new(world));
    runtime()?.block_on(async {
        lock(&world).begin(0);
        let life = Life::begin(ground, &world, &database, ROOM, NOON, false).await?;
        let mut inside = Inside { life, world: Arc::clone(&world), agents: Agents::new(Rng::new(7, 3)) };
        let mut seen = Seen::default();
        for before in scenario.before {
            inside.begin(*before)?;
        }
        inside.run(&mut seen, &mut Vec::new(), true).await;
        for first in scenario.moves {
            inside.begin(*first)?;
        }
        inside.run(&mut seen, choices, false).await;
        let mut world = lock(&world);
        checks::whole(&mut world, &seen);
        checks::shown(&mut world, inside.agents.shown.iter());
        Ok(world.violation.as_ref().map(ToString::to_string))
    })
}

struct Inside {
    life: Life,
    world: Shared,
    agents: Agents,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Commit(usize),
    Read,
    Time,
}

impl Inside {
    fn begin(&mut self, one: Move) -> Result<(), Failure> {
        let (path, body) = match one {
            Move::Charge(order, customer) => return self.charge(order, customer, 100, None),
            Move::Large(order) => return self.charge(order, 1, super::config::ASK_ABOVE + 1, None),
            Move::HangsUp(order) => return self.charge(order, 1, 100, Some(0)),
            Move::Lower => return self.life.reload(&self.world, Settings { per_day: Some(50) }),
            Move::Pass => {
                let sidecar = Arc::clone(&self.life.sidecar);
                tokio::spawn(async move { reconciler::pass(&sidecar).await });
                return Ok(());
            }
            Move::Halt => ("environment/halt".to_owned(), "{\"reason\":\"a drill\"}"),
            Move::Approve => (format!("approvals/{}/approve", self.one("SELECT id FROM approval")?), "{}"),
            Move::Replay => (format!("actions/effects/{}/replay", self.one(EFFECT)?), "{}"),
            Move::Look => (format!("actions/effects/{}/reconcile", self.one(EFFECT)?), "{}"),
            Move::Resolve => {
                // Nobody can name it before it is there: whoever resolves comes as soon as it is.
                return self.resolves();
            }
        };
        let body = serde_json::from_str(body).during("make a request")?;
        let bytes = api("POST", &format!("/api/v2/{path}"), KEYS[2].1, Some(&body));
        let call = self.agents.call(Purpose::Operate(Wanted::Any), bytes, None);
        self.life.call(call);
        Ok(())
    }

    fn charge(
        &mut self,
        order: usize,
        customer: usize,
        amount: i64,
        hangs_up_after_ms: Option<u64>,
    ) -> Result<(), Failure> {
        let order = Order::charge(order, customer, amount);
        let call = self.agents.order_now(order, hangs_up_after_ms);
        self.life.call(call);
        Ok(())
    }

    /// A person who looks the effect up as soon as it is unknown, and says the truth.
    fn resolves(&self) -> Result<(), Failure> {
        let (sidecar, world) = (Arc::clone(&self.life.sidecar), Arc::clone(&self.world));
        let by = oncegate_policy::caller::CallerName::parse(KEYS[2].0).during("name an operator")?;
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(12_200)).await;
            let found = {
                let world = lock(&world);
                world.shell.query_row(EFFECT, [], |row| row.get::<_, String>(0)).ok().map(|id| {
                    let applied = world.books.applied(&id) == 1;
                    (id, applied)
                })
            };
            let Some((id, applied)) = found else { return };
            let Some(id) = oncegate_policy::id::EffectId::parse(&id) else { return };
            let resolution = oncegate_store::resolve::Resolution {
                outcome: match applied {
                    true => oncegate_store::resolve::ResolvedAs::Succeeded,
                    false => oncegate_store::resolve::ResolvedAs::Failed,
                },
                reason: "seen in the provider's dashboard".to_owned(),
                partial_effect: None,
                actual_impact: vec![],
                external_reference: None,
            };
            drop(sidecar.store.resolve(&id, &by, resolution, sidecar.clock.now()).await);
        });
        Ok(())
    }

    fn one(&self, query: &str) -> Result<String, Failure> {
        let world = lock(&self.world);
        world.shell.query_row(query, [], |row| row.get(0)).during("find what was there before")
    }

    /// Until nothing can happen any more: what happens next is the first that can, or what `choices` say.
    async fn run(&mut self, seen: &mut Seen, choices: &mut Vec<(usize, usize)>, first: bool) {
        let begun = { lock(&self.world).now_ms() };
        let (mut marks, mut at) = (MARKS_MS.iter(), 0);
        loop {
            self.life.settle().await;
            for done in self.life.done() {
                self.agents.hear(&mut lock(&self.world), &done);
            }
            if lock(&self.world).violation.is_some() {
                return;
            }
            let next = enabled(&self.life.hand, marks.len() > 0);
            let taken = match next.len() {
                0 => return,
                1 => 0,
                _ if first => 0,
                of => {
                    if at == choices.len() {
                        choices.push((0, of));
                    }
                    at += 1;
                    choices[at - 1].0
                }
            };
            match next[taken] {
                Next::Commit(many) => {
                    self.life.hand.commit(many);
                    seen.committed(&mut lock(&self.world));
                }
                Next::Read => drop(self.life.hand.read(1)),
                Next::Time => {
                    let to = begun + marks.next().copied().unwrap_or_default();
                    let now = { lock(&self.world).now_ms() };
                    tokio::time::advance(Duration::from_millis(to.saturating_sub(now))).await;
                }
            }
        }
    }
}

const EFFECT: &str = "SELECT id FROM effect ORDER BY key LIMIT 1";

fn enabled(hand: &Hand, time_passes: bool) -> Vec<Next> {
    let verbs = hand.verbs();
    let mut next = Vec::new();
    if verbs > 0 {
        next.push(Next::Commit(1));
    }
    if verbs > 1 {
        next.push(Next::Commit(verbs));
    }
    if hand.reads() > 0 {
        next.push(Next::Read);
    }
    if time_passes {
        next.push(Next::Time);
    }
    next
}
