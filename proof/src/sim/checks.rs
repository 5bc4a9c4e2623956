//! The record against the truth: after every commit what was added to the chain, and from time to time all of it.

use std::collections::HashMap;

use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, params};

use super::world::World;

/// What was read of the record so far.
#[derive(Default)]
pub(crate) struct Seen {
    /// The last event of the chain.
    seq: i64,
    /// Where the chain has each effect.
    stages: HashMap<String, String>,
    /// All writes are stopped.
    halted: bool,
}

struct Event {
    seq: i64,
    at: i64,
    kind: String,
    effect: Option<String>,
    stage: Option<String>,
}

/// Effects that began to wait or to be sent, and where they may go from each stage.
fn follows(before: Option<&str>, after: &str) -> bool {
    let settled = after.starts_with("settled ");
    match before {
        None => matches!(after, "awaiting_approval" | "dispatching"),
        Some("awaiting_approval") => matches!(after, "ready" | "rejected"),
        Some("ready") => matches!(after, "dispatching" | "rejected"),
        Some("dispatching") => after == "reconciling" || settled,
        Some("reconciling") => settled,
        Some("settled acknowledged unverified") => after == "settled confirmed provider",
        Some(_) => false,
    }
}

impl Seen {
    /// Effects so far.
    pub(crate) fn effects(&self) -> u64 {
        self.stages.len() as u64
    }

    /// What one commit has added.
    pub(crate) fn committed(&mut self, world: &mut World) {
        world.step += 1;
        let events = match events(&world.shell, self.seq) {
            Ok(events) => events,
            Err(error) => return world.violated("the record can be read", error.to_string()),
        };
        let (mut admitted_at, mut limits_changed) = (None, false);
        for event in events {
            self.seq = event.seq;
            limits_changed |= event.kind.starts_with("limit_");
            self.obeys(world, &event);
            if let (Some(effect), Some(stage)) = (&event.effect, &event.stage) {
                let before = self.stages.insert(effect.clone(), stage.clone());
                if !follows(before.as_deref(), stage) {
                    let what = format!("{effect} went from {before:?} to {stage}");
                    world.violated("I6: history only goes forward", what);
                }
                if stage == "dispatching" {
                    admitted_at = Some(Timestamp(event.at));
                }
                outcome(world, effect, stage);
                let number = world.number(effect);
                world.note(("moved", number, stage.as_str()));
            }
        }
        if let Some(at) = admitted_at
            && !limits_changed
        {
            within_limits(world, at);
        }
    }
}

impl Seen {
    /// The chain is in the order of the commits: nothing is let out between a halt and its end.
    fn obeys(&mut self, world: &mut World, event: &Event) {
        match event.kind.as_str() {
            "halted" => self.halted = true,
            "resumed" => self.halted = false,
            "admitted" | "claimed" | "replay" if self.halted => {
                world.violated("a halt stops writes", format!("{} of {:?}", event.kind, event.effect));
            }
            _ => {}
        }
    }
}

fn events(shell: &Connection, after: i64) -> rusqlite::Result<Vec<Event>> {
    let mut statement =
        shell.prepare_cached("SELECT seq, at, kind, effect, stage FROM event WHERE seq > ?1 ORDER BY seq")?;
    let rows = statement.query_map([after], |row| {
        Ok(Event {
            seq: row.get(0)?,
            at: row.get(1)?,
            kind: row.get(2)?,
            effect: row.get(3)?,
            stage: row.get(4)?,
        })
    })?;
    rows.collect()
}

/// I3 and I4, against what the provider really did.
fn outcome(world: &mut World, effect: &str, stage: &str) {
    let applied = world.books.applied(effect);
    let right = match stage.split(' ').nth(1) {
        Some("failed") => applied == 0,
        Some(_) => applied == 1,
        // Not settled: everything is possible.
        None => true,
    };
    if !right {
        let what = format!("{effect} is {stage}, and was applied {applied} times");
        world.violated("I3/I4: an outcome has its evidence", what);
    }
}

/// I5: what was just admitted fits.
fn within_limits(world: &mut World, at: Timestamp) {
    let used = "SELECT l.amount, l.reserved + coalesce((SELECT c.amount FROM consumption c
            WHERE c.limit_key = l.key AND c.period = 'day' AND c.period_start = ?1), 0)
        FROM impact_limit l WHERE l.archived_at IS NULL";
    let found = world.shell.prepare_cached(used).and_then(|mut statement| {
        let rows = statement.query_map([at.day_start().0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<rusqlite::Result<Vec<(i64, i64)>>>()
    });
    match found {
        Ok(limits) => {
            for (amount, used) in limits.into_iter().filter(|(amount, used)| used > amount) {
                let what = format!("{used} of {amount} right after an admission");
                world.violated("I5: never more than a limit allows", what);
            }
        }
        Err(error) => world.violated("the record can be read", error.to_string()),
    }
}

/// What has to be 0 in any committed state.
const NOTHING_OF: [(&str, &str); 8] = [
    (
        "I1: one dispatch",
        "SELECT count(*) FROM (SELECT 1 FROM (SELECT effect FROM attempt WHERE kind = 'dispatch'
             UNION ALL SELECT key FROM effect WHERE stage = 'dispatching') GROUP BY effect HAVING count(*) > 1)",
    ),
    (
        "I5: what is reserved is the sum of what is open",
        "SELECT count(*) FROM impact_limit l WHERE l.reserved <> (SELECT coalesce(sum(e.amount), 0) FROM effect e
             JOIN hold h ON h.effect = e.key AND h.limit_key = l.key WHERE e.stage IN ('dispatching', 'reconciling'))",
    ),
    (
        "I5: what is exposed is the sum of what is unknown",
        "SELECT count(*) FROM impact_limit l WHERE l.unknown_exposure <> (SELECT coalesce(sum(e.amount), 0)
             FROM effect e JOIN hold h ON h.effect = e.key AND h.limit_key = l.key WHERE e.stage = 'reconciling')",
    ),
    (
        "I5: what is consumed is the sum of what has succeeded",
        "SELECT count(*) FROM impact_limit l WHERE (SELECT coalesce(sum(c.amount), 0) FROM consumption c
                 WHERE c.limit_key = l.key AND c.period = 'day')
             <> (SELECT coalesce(sum(e.amount), 0) FROM effect e JOIN hold h ON h.effect = e.key AND h.limit_key = l.key
                 WHERE e.result IN ('confirmed', 'acknowledged'))",
    ),
    (
        "I5: what is open is held by the limit that counts it",
        "SELECT count(*) FROM effect e, impact_limit l WHERE l.archived_at IS NULL
             AND e.stage IN ('dispatching', 'reconciling') AND NOT EXISTS (SELECT 1 FROM hold h
                 WHERE h.effect = e.key AND h.limit_key = l.key AND h.state = 'held' AND h.amount = e.amount)",
    ),
    (
        "I9: a key names one request",
        "SELECT count(*) FROM (SELECT 1 FROM (SELECT caller, action, caller_key AS sent FROM effect WHERE caller_key IS NOT NULL
                 UNION ALL SELECT caller, action, key FROM further_key)
             GROUP BY caller, action, sent HAVING count(*) > 1)",
    ),
    (
        "P6: nothing runs beside what is open on its subject",
        "SELECT count(*) FROM (SELECT 1 FROM effect WHERE stage IN ('dispatching', 'reconciling')
             GROUP BY action, subject HAVING count(*) > 1)",
    ),
    (
        "I13: the key that asked decides nothing",
        "SELECT count(*) FROM effect e JOIN event v ON v.effect = e.id
             WHERE v.author = e.caller AND v.kind IN ('resolved', 'replay', 'approved', 'denied')",
    ),
];

/// Everything, row by row.
pub(crate) fn whole(world: &mut World, seen: &Seen) {
    let rows = match rows(&world.shell) {
        Ok(rows) => rows,
        Err(error) => return world.violated("the record can be read", error.to_string()),
    };
    if rows.len() != seen.stages.len() {
        let what = format!("{} effects and {} in the chain", rows.len(), seen.stages.len());
        world.violated("I6: no effect is lost or made up", what);
    }
    for (effect, stage, writes, unsent) in rows {
        outcome(world, &effect, &stage);
        if seen.stages.get(&effect) != Some(&stage) {
            let what = format!("{effect} is {stage}, and {:?} in the chain", seen.stages.get(&effect));
            world.violated("I6: every move is in the chain", what);
        }
        let received = world.books.received(&effect);
        if received > writes.saturating_sub(unsent) as usize {
            let what = format!(
                "{effect} arrived {received} times, {writes} writes are on record, {unsent} as never sent"
            );
            world.violated(
                "I1/I2: what was sent is on record, and what is recorded as never sent was not",
                what,
            );
        }
    }
    for (invariant, query) in NOTHING_OF {
        let found = world
            .shell
            .prepare_cached(query)
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)));
        match found {
            Ok(0) => {}
            Ok(times) => world.violated(invariant, format!("{times} times")),
            Err(error) => world.violated("the record can be read", error.to_string()),
        }
    }
}

/// Each effect: where it stands, its dispatch and replays, and how many of these are recorded as never sent.
fn rows(shell: &Connection) -> rusqlite::Result<Vec<(String, String, u32, u32)>> {
    let mut statement = shell.prepare_cached(
        // Attempts are counted once for all effects: there is no index by which each would find its own.
        "SELECT e.id, CASE e.stage WHEN 'settled' THEN 'settled ' || e.result || ' ' || e.verification ELSE e.stage END,
             coalesce(a.writes, 0) + (e.stage = 'dispatching'), coalesce(a.unsent, 0)
         FROM effect e LEFT JOIN (SELECT effect, sum(kind <> 'reconcile') AS writes,
                 coalesce(sum(seen = 'not_sent'), 0) AS unsent
             FROM attempt GROUP BY effect) a ON a.effect = e.key",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    rows.collect()
}

/// In the end, with everything healed: nothing is on its way, and what the provider lists was found.
pub(crate) fn ended(world: &mut World) {
    let open = "SELECT id, stage FROM effect WHERE stage IN ('dispatching', 'reconciling', 'ready')";
    let found = world.shell.prepare_cached(open).and_then(|mut statement| {
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<rusqlite::Result<Vec<(String, String)>>>()
    });
    match found {
        Ok(open) => {
            for (effect, stage) in open {
                if stage != "reconciling" || world.books.lists(&effect) {
                    let what = format!("{effect} is {stage}, and listed: {}", world.books.lists(&effect));
                    world.violated("what the provider lists is found, and nothing stays on its way", what);
                }
            }
        }
        Err(error) => world.violated("the record can be read", error.to_string()),
    }
}

/// I7: what was ever shown is still there.
pub(crate) fn shown<'a>(world: &mut World, shown: impl Iterator<Item = &'a String>) {
    for effect in shown {
        let found = world
            .shell
            .prepare_cached("SELECT count(*) FROM effect WHERE id = ?1")
            .and_then(|mut statement| statement.query_row(params![effect], |row| row.get::<_, i64>(0)));
        if !matches!(found, Ok(1)) {
            world.violated("I7: an effect that was shown is there", format!("{effect}: {found:?}"));
        }
    }
}
