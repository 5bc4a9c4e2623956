//! One schedule: steps of several actors in one order, on a real store, beside a ghost that knows what really happened.

use oncegate_policy::action::ActionName;
use oncegate_policy::classify::{ResponseRules, verdict};
use oncegate_policy::exchange::{Answer, Exchange, Loss, NotSent, Phase};
use oncegate_policy::id::EffectId;
use oncegate_policy::reconcile::{Finding, Looker};
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::Admitted;
use oncegate_store::approval::Decided;
use oncegate_store::look::Found;
use oncegate_store::ready::ReadyClaim;
use oncegate_store::replay::Replaying;
use oncegate_store::resolve::{Resolution, Resolved, ResolvedAs};
use oncegate_store::view::EffectView;
use oncegate_store::{Claim, NewEffect, ReplayClaim, Seen, Store};

use super::actors::{Actor, By, CAP, Heard, Shown, Step};
use super::checks::{Violation, check};
use super::ghost::{DAY, Ghost};
use super::heard::hear;
use super::world::{NOON, Verb, World, agent, limit, operator};
use crate::failure::{During, Failure};

/// Why a schedule was not played to its end.
pub(crate) enum Stop {
    /// An invariant does not hold.
    Violated(Violation),
    /// It could not be played.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Violated(violation)
    }
}

/// What one actor has in hand.
#[derive(Default)]
pub(crate) struct Holding {
    pub(crate) claim: Option<Claim>,
    pub(crate) replay: Option<ReplayClaim>,
}

/// A verb on its way, with what it is about.
pub(crate) struct Asked {
    pub(crate) who: usize,
    pub(crate) step: Step,
    pub(crate) now: Timestamp,
    pub(crate) target: Option<EffectId>,
    pub(crate) new: Option<NewEffect>,
}

/// What a verb came to.
pub(crate) enum Said {
    Admitted(Box<Admitted>),
    View(Box<EffectView>),
    /// With the claim, which is still in hand.
    Unanswered(Box<EffectView>, Claim),
    Found(Box<Found>),
    Resolved(Box<Resolved>),
    Replaying(Box<Replaying>),
    Decided(Box<Decided>),
    Claimed(Box<ReadyClaim>),
    Swept(Vec<EffectId>),
    Done,
}

/// A schedule under way.
pub(crate) struct Play<'w> {
    world: &'w mut World,
    action: ActionName,
    pub(crate) ghost: Ghost,
    pub(crate) holding: Vec<Holding>,
    /// Effects of earlier schedules end here.
    first_row: i64,
    /// What was done, for the report of a violation.
    trace: Vec<(usize, Step)>,
    /// Verbs that were committed.
    pub(crate) steps: u64,
}

impl<'w> Play<'w> {
    /// On a database that other schedules may have used: this one has an action and a limit of its own.
    pub(crate) fn begin(world: &'w mut World, actors: usize) -> Result<Self, Failure> {
        world.played += 1;
        let action = ActionName::parse(&format!("refund-{}", world.played)).during("name an action")?;
        let store = world.store()?;
        let (sweeping, expiring, limits) = (store.clone(), store.clone(), vec![limit(&action, CAP)]);
        // What the one before has left is nobody's any more.
        let clean: Vec<Verb<()>> = vec![
            Box::pin(async move { sweeping.sweep(NOON).await.map(drop) }),
            Box::pin(async move { expiring.expire_approvals(NOON.plus(30 * DAY)).await.map(drop) }),
            Box::pin(async move { store.sync_limits(limits, NOON).await.map(drop) }),
        ];
        for cleaned in world.commit(clean)? {
            cleaned.during("begin a schedule")?;
        }
        let newest = "SELECT coalesce(max(key), 0) FROM effect";
        let first_row = world.shell.query_row(newest, [], |row| row.get(0)).during("read a database")?;
        let holding = (0..actors).map(|_| Holding::default()).collect();
        let ghost = Ghost::new(NOON);
        Ok(Self { world, action, ghost, holding, first_row, trace: vec![], steps: 0 })
    }

    /// Plays steps in this order, each a commit of its own, or, if `together`, neighbours of different actors in one.
    pub(crate) fn play(
        &mut self,
        order: &[(usize, Step)],
        actors: &[&Actor],
        together: bool,
    ) -> Result<(), Stop> {
        let mut rest = order;
        while let [first, tail @ ..] = rest {
            let pair = match tail {
                [second, ..] if together && first.0 != second.0 && second.1 != Step::Restart => 2,
                _ => 1,
            };
            let (now, later) = if first.1 == Step::Restart { (1, tail) } else { (pair, &rest[pair..]) };
            self.batch(&rest[..now], actors)?;
            rest = later;
        }
        Ok(())
    }

    fn batch(&mut self, steps: &[(usize, Step)], actors: &[&Actor]) -> Result<(), Stop> {
        let (mut asked, mut verbs) = (Vec::new(), Vec::new());
        for (who, step) in steps {
            self.trace.push((*who, *step));
            if let Some((what, verb)) = self.ask(*who, *step)? {
                asked.push(what);
                verbs.push(verb);
            }
        }
        self.steps += asked.len() as u64;
        let said = self.world.commit(verbs)?;
        for (asked, said) in asked.iter().zip(said) {
            let said = said.map_err(|error| {
                Violation::new("a verb that must work", format!("{:?}: {error:?}", asked.step))
            });
            said.and_then(|said| hear(self, asked, said)).map_err(|wrong| self.told(wrong, actors))?;
        }
        let checked = check(&self.world.shell, &self.ghost, self.action.as_str(), self.first_row)?;
        checked.map_err(|wrong| self.told(wrong, actors).into())
    }

    fn told(&self, wrong: Violation, actors: &[&Actor]) -> Violation {
        let name = |who: usize| actors.get(who).map_or("before", |actor| actor.name);
        let line = |(who, step): &(usize, Step)| format!("\n    {}: {step:?}", name(*who));
        wrong.after(&self.trace.iter().map(line).collect::<String>())
    }

    /// What is no verb. Whether that is all there is to do.
    fn at_once(&mut self, who: usize, step: Step) -> Result<bool, Failure> {
        if step == Step::Gone {
            let held = std::mem::take(&mut self.holding[who]);
            self.let_go(&held);
        } else if step == Step::Restart {
            let all: Vec<_> = self.holding.iter_mut().map(std::mem::take).collect();
            all.iter().for_each(|held| self.let_go(held));
            drop(all);
            self.world.restart(self.ghost.now)?;
        } else if step == Step::Wait {
            self.ghost.now = self.ghost.now.plus(DAY);
            return Ok(false);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// The verb of a step, where there is something to do.
    fn ask(&mut self, who: usize, step: Step) -> Result<Option<(Asked, Verb<Said>)>, Failure> {
        if self.at_once(who, step)? {
            return Ok(None);
        }
        let now = self.ghost.now;
        let mut asked = Asked { who, step, now, target: None, new: None };
        let store = self.world.store()?;
        asked.target = self.ghost.latest("pi_1").map(|known| known.id.clone());
        let verb: Verb<Said> = match step {
            Step::Ask(ask) => {
                let new = self.world.request(&self.action, ask, now);
                asked.new = Some(new.clone());
                Box::pin(async move { store.admit(new, now).await.map(|said| Said::Admitted(said.into())) })
            }
            Step::Answer(heard) => {
                let Some(claim) = self.holding[who].claim.take() else { return Ok(None) };
                asked.target = Some(claim.effect().clone());
                Box::pin(async move {
                    let recorded = store.record(claim, seen(heard), now).await;
                    recorded.map(|view| Said::View(view.into())).map_err(|failed| failed.error)
                })
            }
            Step::Replayed(heard) => {
                let Some(claim) = self.holding[who].replay.take() else { return Ok(None) };
                asked.target = Some(claim.effect().clone());
                Box::pin(async move {
                    let recorded = store.record_replay(claim, seen(heard), now).await;
                    recorded.map(|view| Said::View(view.into())).map_err(|failed| failed.error)
                })
            }
            Step::Unanswered => {
                let Some(claim) = self.holding[who].claim.take() else { return Ok(None) };
                asked.target = Some(claim.effect().clone());
                Box::pin(async move {
                    let view = store.mark_unknown(&claim, "no answer in time", now).await?;
                    Ok(Said::Unanswered(view.into(), claim))
                })
            }
            Step::Gone | Step::Restart => return Ok(None),
            Step::Wait => Box::pin(async move { store.expire_approvals(now).await.map(Said::Swept) }),
            Step::Sweep => Box::pin(async move { store.sweep(now).await.map(Said::Swept) }),
            Step::Halt => {
                Box::pin(async move { store.halt("drill", &operator(), now).await.map(|_| Said::Done) })
            }
            Step::Resume => Box::pin(async move { store.resume(&operator(), now).await.map(|_| Said::Done) }),
            Step::Limit(cap) => {
                let limits = cap.map(|cap| limit(&self.action, cap)).into_iter().collect();
                Box::pin(async move { store.sync_limits(limits, now).await.map(|_| Said::Done) })
            }
            Step::Look(..)
            | Step::Confirm
            | Step::Resolve(..)
            | Step::Replay(_)
            | Step::Claim
            | Step::Approve(_)
            | Step::Deny(_) => {
                let Some(id) = asked.target.clone() else { return Ok(None) };
                match self.about(store, id, step)? {
                    Some(verb) => verb,
                    None => return Ok(None),
                }
            }
        };
        Ok(Some((asked, verb)))
    }

    /// What is done about one effect.
    fn about(&mut self, store: Store, id: EffectId, step: Step) -> Result<Option<Verb<Said>>, Failure> {
        let now = self.ghost.now;
        Ok(Some(match step {
            Step::Look(shown, by) => Box::pin(async move {
                store
                    .apply_finding(&id, finding(shown), looker(by), now)
                    .await
                    .map(|said| Said::Found(said.into()))
            }),
            Step::Confirm => Box::pin(async move {
                store.confirm(&id, finding(Shown::Match), now).await.map(|said| Said::Found(said.into()))
            }),
            Step::Resolve(succeeded, by) => Box::pin(async move {
                let said = store.resolve(&id, &caller(by), resolution(succeeded), now).await?;
                Ok(Said::Resolved(said.into()))
            }),
            Step::Replay(by) => Box::pin(async move {
                let said = store.begin_replay(&id, &caller(by), |_| Ok(()), now).await?;
                Ok(Said::Replaying(said.into()))
            }),
            Step::Claim => {
                Box::pin(
                    async move { store.claim_ready(&id, now).await.map(|said| Said::Claimed(said.into())) },
                )
            }
            Step::Approve(by) | Step::Deny(by) => {
                let asking = store.clone();
                let wanted = id.clone();
                let found = self.world.ask(Box::pin(async move { asking.effect(&wanted).await }))?;
                let Some(approval) = found.and_then(|found| found.view.approval) else { return Ok(None) };
                let yes = matches!(step, Step::Approve(_));
                Box::pin(async move {
                    match yes {
                        true => store.approve(&approval, &caller(by), None, now).await,
                        false => store.deny(&approval, &caller(by), None, now).await,
                    }
                    .map(|said| Said::Decided(said.into()))
                })
            }
            Step::Ask(_)
            | Step::Answer(_)
            | Step::Unanswered
            | Step::Gone
            | Step::Replayed(_)
            | Step::Limit(_)
            | Step::Halt
            | Step::Resume
            | Step::Sweep
            | Step::Restart
            | Step::Wait => {
                return Ok(None);
            }
        }))
    }

    fn let_go(&mut self, held: &Holding) {
        let dispatch = held.claim.as_ref().map(|claim| claim.effect().clone());
        if let Some(known) = dispatch.and_then(|id| self.ghost.of(&id)) {
            known.held = false;
        }
    }
}

fn caller(by: By) -> oncegate_policy::caller::CallerName {
    match by {
        By::Agent => agent(),
        By::Operator | By::Schedule => operator(),
    }
}

fn looker(by: By) -> Looker {
    match by {
        By::Agent | By::Operator => Looker::Caller(caller(by).as_str().to_owned()),
        By::Schedule => Looker::Schedule,
    }
}

fn finding(shown: Shown) -> Finding {
    let (what, reference, record) = ("refund re_1".into(), Some("re_1".into()), None);
    match shown {
        Shown::Match => Finding::Matched { what, reference, record },
        Shown::Failed => Finding::ProviderSaysFailed { what, reference, record },
        Shown::Nothing => Finding::NoMatch { what: "1 page".into() },
    }
}

fn resolution(succeeded: bool) -> Resolution {
    Resolution {
        outcome: if succeeded { ResolvedAs::Succeeded } else { ResolvedAs::Failed },
        reason: "seen in the dashboard".to_owned(),
        partial_effect: None,
        actual_impact: vec![],
        external_reference: None,
    }
}

fn seen(heard: Heard) -> Seen {
    let answered =
        |status| Exchange::Answered(Answer { status, reason: None, headers: vec![], body: b"{}".to_vec() });
    let exchange = match heard {
        Heard::Success => answered(200),
        Heard::Refused => answered(402),
        Heard::NotSent => Exchange::NotSent(NotSent::Connect("refused".to_owned())),
        Heard::Lost => {
            let cause = "connection reset".to_owned();
            Exchange::Lost(Loss { phase: Phase::AwaitingHead, cause, status: None })
        }
    };
    Seen::of(verdict(&exchange, &ResponseRules::default()), &exchange)
}
