//! Operators: they resolve what they have looked up, replay, ask for looks, decide what waits, halt and change limits.
//! And agents that try the same for their own effects, which has to be refused.

use rusqlite::{Connection, OptionalExtension};
use serde_json::json;

use super::agents::{Agents, Purpose, Wanted, api};
use super::config::{KEYS, Settings};
use super::world::World;
use crate::rng::Rng;

/// What an operator does.
pub(crate) enum Act {
    /// A call of the API.
    Calls(super::agents::Call),
    /// The limits are others from now on.
    Reloads(Settings),
}

/// Whoever operates.
pub(crate) struct Operators {
    rng: Rng,
    halted: bool,
    pub(crate) settings: Settings,
}

/// Enough for a day of most seeds, and too little for some.
const PER_DAY: usize = 12_000;

impl Operators {
    pub(crate) fn new(mut rng: Rng) -> Self {
        let per_day = Some(i64::try_from(PER_DAY / 4 + rng.below(PER_DAY)).unwrap_or(1));
        Self { rng, halted: false, settings: Settings { per_day } }
    }

    /// Milliseconds until somebody does something again.
    pub(crate) fn pause_ms(&mut self) -> u64 {
        500 + self.rng.below(9_000) as u64
    }

    /// What is done next; `None` when there is nothing to do it to.
    pub(crate) fn next(&mut self, world: &World, agents: &mut Agents) -> Option<Act> {
        if self.halted {
            self.halted = false;
            return Some(self.environment(agents, "resume"));
        }
        match self.rng.below(100) {
            0..30 => self.resolves(world, agents),
            30..40 => self.meddles(world, agents),
            40..60 => self.about(agents, effect(&world.shell, UNKNOWN)?, "replay", 2, Wanted::Any),
            60..75 => {
                let by = self.rng.below(KEYS.len());
                self.about(agents, effect(&world.shell, UNKNOWN)?, "reconcile", by, Wanted::Any)
            }
            75..90 => {
                let (id, _) = effect(&world.shell, WAITING)?;
                let word = if self.rng.below(3) > 0 { "approve" } else { "deny" };
                Some(self.calls(agents, format!("/api/v2/approvals/{id}/{word}"), 2, &json!({}), Wanted::Any))
            }
            90..94 => {
                self.halted = true;
                Some(self.environment(agents, "halt"))
            }
            _ => {
                let gone = self.rng.below(5) == 0;
                let amount = i64::try_from(PER_DAY / 6 + self.rng.below(PER_DAY)).unwrap_or(1);
                self.settings.per_day = (!gone).then_some(amount);
                Some(Act::Reloads(self.settings))
            }
        }
    }

    /// Everything is as it should be again, for the end of a seed.
    pub(crate) fn heal(&mut self, agents: &mut Agents) -> Act {
        self.halted = false;
        self.environment(agents, "resume")
    }

    fn environment(&mut self, agents: &mut Agents, word: &str) -> Act {
        let body = if word == "halt" { json!({"reason": "a drill"}) } else { json!({}) };
        self.calls(agents, format!("/api/v2/environment/{word}"), 2, &body, Wanted::Any)
    }

    /// A person who has looked it up says what happened.
    fn resolves(&mut self, world: &World, agents: &mut Agents) -> Option<Act> {
        let (id, _) = effect(&world.shell, UNKNOWN)?;
        let outcome = if world.books.applied(&id) == 1 { "succeeded" } else { "failed" };
        let body = json!({"outcome": outcome, "reason": "seen in the provider's dashboard"});
        let path = format!("/api/v2/actions/effects/{id}/resolve");
        Some(self.calls(agents, path, 2, &body, Wanted::Any))
    }

    /// The key that asked tries to decide.
    fn meddles(&mut self, world: &World, agents: &mut Agents) -> Option<Act> {
        if self.rng.coin() {
            let (id, caller) = effect(&world.shell, WAITING)?;
            let path = format!("/api/v2/approvals/{id}/approve");
            return Some(self.calls(agents, path, key_of(&caller)?, &json!({}), Wanted::Refused));
        }
        let (id, caller) = effect(&world.shell, UNKNOWN)?;
        if self.rng.coin() {
            return self.about(agents, (id, caller.clone()), "replay", key_of(&caller)?, Wanted::Refused);
        }
        let body = json!({"outcome": "failed", "reason": "it would be so convenient"});
        let path = format!("/api/v2/actions/effects/{id}/resolve");
        Some(self.calls(agents, path, key_of(&caller)?, &body, Wanted::Refused))
    }

    fn about(
        &mut self,
        agents: &mut Agents,
        (id, _): (String, String),
        word: &str,
        key: usize,
        wanted: Wanted,
    ) -> Option<Act> {
        Some(self.calls(agents, format!("/api/v2/actions/effects/{id}/{word}"), key, &json!({}), wanted))
    }

    fn calls(
        &mut self,
        agents: &mut Agents,
        path: String,
        key: usize,
        body: &serde_json::Value,
        wanted: Wanted,
    ) -> Act {
        let bytes = api("POST", &path, KEYS[key].1, Some(body));
        Act::Calls(agents.call(Purpose::Operate(wanted), bytes, None))
    }
}

fn key_of(caller: &str) -> Option<usize> {
    KEYS.iter().position(|(name, ..)| *name == caller)
}

/// The effect that is unknown for longest and not being replayed, with who asked for it.
const UNKNOWN: &str = "SELECT e.id, e.caller FROM effect e WHERE e.stage = 'reconciling' AND NOT EXISTS
    (SELECT 1 FROM attempt a WHERE a.effect = e.key AND a.kind = 'replay' AND a.ended_at IS NULL)
    ORDER BY e.unknown_since, e.key LIMIT 1";
/// The oldest question.
const WAITING: &str =
    "SELECT p.id, p.caller FROM approval p WHERE p.status = 'pending' ORDER BY p.key LIMIT 1";

fn effect(shell: &Connection, query: &str) -> Option<(String, String)> {
    let mut statement = shell.prepare_cached(query).ok()?;
    statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional().ok()?
}
