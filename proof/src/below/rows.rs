//! What a database says, read row by row with statements of our own, and the sums that must come out of it.

use std::collections::HashMap;

use rusqlite::Connection;
use serde_json::Value;

/// What is wrong with a database.
pub(crate) type Fault = String;

/// What a database says of one effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) subject: String,
    pub(crate) stage: String,
    /// `confirmed`, `acknowledged`, `failed`, or empty.
    pub(crate) result: String,
    pub(crate) verification: String,
    pub(crate) dispatches: i64,
    pub(crate) replays: i64,
    /// Attempts that saw an answer of the bank's, or found the effect there.
    pub(crate) seen: i64,
    pub(crate) holds: Vec<Hold>,
    /// The bytes that were to be sent, until the effect is settled.
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) amount: i64,
    pub(crate) claimed: bool,
    pub(crate) digest: String,
}

impl Row {
    /// What it has taken for good, on the limit of which it took most.
    pub(crate) fn consumed(&self) -> i64 {
        self.holds.iter().map(|hold| hold.consumed).max().unwrap_or(0)
    }
}

/// Room on a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    limit: i64,
    amount: i64,
    state: String,
    consumed: i64,
}

/// What a database says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// By the key that the bank was given.
    pub(crate) effects: HashMap<String, Row>,
    /// Invocations without an effect, by method and URL: their status.
    pub(crate) plain: HashMap<String, String>,
    /// By id: their status.
    pub(crate) approvals: HashMap<String, String>,
    pub(crate) halts: i64,
}

/// Reads everything, and says what does not add up.
pub(crate) fn read(shell: &Connection) -> Result<Summary, Fault> {
    let failed = |error: rusqlite::Error| format!("the record cannot be read: {error}");
    let mut keys = HashMap::new();
    let mut rows = effects(shell, &mut keys).map_err(failed)?;
    beside(shell, &mut rows).map_err(failed)?;
    admitted(shell, &rows)?;
    rows.values().try_for_each(stands)?;
    limits(shell, &rows).map_err(failed)??;
    let pairs = |query: &str| -> rusqlite::Result<HashMap<String, String>> {
        shell.prepare(query)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    Ok(Summary {
        effects: rows.into_iter().filter_map(|(key, row)| Some((keys.remove(&key)?, row))).collect(),
        plain: pairs("SELECT target, status FROM plain_invocation").map_err(failed)?,
        approvals: pairs("SELECT id, status FROM approval").map_err(failed)?,
        halts: shell.query_row("SELECT count(*) FROM halt", [], |row| row.get(0)).map_err(failed)?,
    })
}

fn effects(shell: &Connection, keys: &mut HashMap<i64, String>) -> rusqlite::Result<HashMap<i64, Row>> {
    let mut statement = shell.prepare(
        "SELECT key, provider_key, id, subject, stage, result, verification, amount, claimed_at, request_digest FROM effect",
    )?;
    let mut found = HashMap::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let key: i64 = row.get(0)?;
        keys.insert(key, row.get(1)?);
        let text = |at: usize| row.get::<_, Option<String>>(at).map(Option::unwrap_or_default);
        let digest: Vec<u8> = row.get(9)?;
        let effect = Row {
            id: row.get(2)?,
            subject: text(3)?,
            stage: row.get(4)?,
            result: text(5)?,
            verification: text(6)?,
            amount: row.get::<_, Option<i64>>(7)?.unwrap_or(0),
            claimed: row.get::<_, Option<i64>>(8)?.is_some(),
            digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            ..Row::default()
        };
        found.insert(key, effect);
    }
    Ok(found)
}

/// Attempts, holds and kept requests.
fn beside(shell: &Connection, effects: &mut HashMap<i64, Row>) -> rusqlite::Result<()> {
    let mut statement = shell.prepare("SELECT effect, kind, coalesce(seen, '') FROM attempt")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Some(effect) = effects.get_mut(&row.get(0)?) else { continue };
        match row.get_ref(1)?.as_str()? {
            "dispatch" => effect.dispatches += 1,
            "replay" => effect.replays += 1,
            _ => {}
        }
        effect.seen += i64::from(matches!(row.get_ref(2)?.as_str()?, "answered" | "matched"));
    }
    // A dispatch has no row of its own while its effect says `dispatching`.
    effects
        .values_mut()
        .filter(|effect| effect.stage == "dispatching")
        .for_each(|effect| effect.dispatches += 1);
    let mut statement =
        shell.prepare("SELECT effect, limit_key, amount, state, coalesce(consumed, 0) FROM hold")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Some(effect) = effects.get_mut(&row.get(0)?) else { continue };
        let (limit, amount, state, consumed) = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
        effect.holds.push(Hold { limit, amount, state, consumed });
    }
    let mut statement = shell.prepare("SELECT effect, body FROM request")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(effect) = effects.get_mut(&row.get(0)?) {
            effect.body = row.get(1)?;
        }
    }
    Ok(())
}

/// Each effect's first event has the digest of its request.
fn admitted(shell: &Connection, effects: &HashMap<i64, Row>) -> Result<(), Fault> {
    let failed = |error: rusqlite::Error| format!("the events cannot be read: {error}");
    let mut digests = HashMap::new();
    let mut statement =
        shell.prepare("SELECT effect, detail FROM event WHERE kind IN ('admitted', 'parked')");
    let mut rows = statement.as_mut().map_err(|error| error.to_string())?.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let (id, detail): (String, String) =
            row.get(0).and_then(|id| Ok((id, row.get(1)?))).map_err(failed)?;
        let detail: Value =
            serde_json::from_str(&detail).map_err(|error| format!("the event of {id}: {error}"))?;
        digests.insert(id, detail["request"].as_str().unwrap_or_default().to_owned());
    }
    match effects.values().find(|effect| digests.get(&effect.id) != Some(&effect.digest)) {
        Some(effect) => Err(format!("I2: no event has the digest of {effect:?}")),
        None => Ok(()),
    }
}

/// I1, I4 and I5 for one effect.
fn stands(effect: &Row) -> Result<(), Fault> {
    let wanted = match (effect.stage.as_str(), effect.result.as_str()) {
        ("dispatching" | "reconciling", _) => "held",
        ("settled", "failed") => "released",
        ("settled", _) => "consumed",
        _ => "",
    };
    let held = effect.holds.iter().all(|hold| hold.state == wanted && hold.amount == effect.amount);
    if !held || effect.holds.is_empty() == effect.claimed {
        return Err(format!("I5: holds that do not go with their effect: {effect:?}"));
    }
    if effect.dispatches != i64::from(effect.claimed) {
        return Err(format!("I1: attempts that do not go with their effect: {effect:?}"));
    }
    let succeeded = matches!(effect.result.as_str(), "confirmed" | "acknowledged");
    if succeeded && effect.seen == 0 && effect.verification != "manual" {
        return Err(format!("I4: a success without evidence: {effect:?}"));
    }
    Ok(())
}

/// I5 for each limit: its counters are the sums over the effects, and within what it allows.
fn limits(shell: &Connection, effects: &HashMap<i64, Row>) -> rusqlite::Result<Result<(), Fault>> {
    let mut statement = shell.prepare("SELECT key, amount, reserved, unknown_exposure FROM impact_limit")?;
    let limits: Vec<[i64; 4]> = statement
        .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?
        .collect::<rusqlite::Result<_>>()?;
    let mut statement = shell
        .prepare("SELECT limit_key, sum(amount) FROM consumption WHERE period = 'day' GROUP BY limit_key")?;
    let consumed: HashMap<i64, i64> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    for [limit, amount, reserved, unknown] in limits {
        let sum = |of: &dyn Fn(&Row, &Hold) -> i64| -> i64 {
            let holds =
                effects.values().flat_map(|effect| effect.holds.iter().map(move |hold| (effect, hold)));
            holds.filter(|(_, hold)| hold.limit == limit).map(|(effect, hold)| of(effect, hold)).sum()
        };
        let held = sum(&|_, hold| if hold.state == "held" { hold.amount } else { 0 });
        let open = sum(&|effect, hold| if effect.stage == "reconciling" { hold.amount } else { 0 });
        let used = sum(&|_, hold| hold.consumed);
        let counted = consumed.get(&limit).copied().unwrap_or(0);
        if (reserved, unknown, counted) != (held, open, used) || reserved + counted > amount {
            return Ok(Err(format!(
                "I5: limit {limit} of {amount} has reserved {reserved}, unknown {unknown}, consumed {counted}; \
                 the effects make {held}, {open}, {used}"
            )));
        }
    }
    Ok(Ok(()))
}
