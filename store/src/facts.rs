//! What the record holds that could be in the way of a request: the input of `policy::admission::decide`.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::admission::{Asked, CallerKey, Facts, Known, Standing};
use oncegate_policy::caller::CallerName;
use oncegate_policy::id::{EffectId, InvocationId};
use oncegate_policy::near::NearSubject;
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::admit::Realm;
use crate::error::Fault;
use crate::events::text_of;
use crate::kept::Statements;
use crate::plain;
use crate::read::collect;
use crate::row::{self, Columns};

/// How many earlier identical requests are looked at for one that still counts. Behind these, what is open and what
/// succeeded are looked for by themselves: only an action that is asked again and again under chosen keys has so many.
const IDENTICAL_MAX: i64 = 32;

/// Who asks for what.
pub(crate) struct Asking<'a> {
    pub(crate) caller: &'a CallerName,
    pub(crate) asked: &'a Asked,
    /// The fingerprint in it, as bytes.
    pub(crate) fingerprint: [u8; 32],
    pub(crate) on: Subjects<'a>,
}

/// What is acted on, by every name that it may have.
pub(crate) struct Subjects<'a> {
    pub(crate) action: &'a ActionName,
    /// Effects of other actions are compared with where they are of the same one.
    pub(crate) realm: Option<&'a str>,
    pub(crate) subject: Option<&'a str>,
    pub(crate) near: &'a [NearSubject],
}

/// Whose way an open effect is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// Of a request that comes: what is approved is about to be sent.
    Admitting,
    /// Of what is approved and about to be sent itself: two of them keep each other from nothing until one has begun.
    Claiming,
}

/// SQL for the key of an invocation's effect: that has the same id with another beginning, but for those of earlier versions.
macro_rules! effect_of_invocation {
    ($invocation:literal) => {
        concat!(
            "coalesce((SELECT key FROM effect WHERE id = 'eff_' || substr(",
            $invocation,
            ", 5) AND invocation = ",
            $invocation,
            "), (SELECT key FROM effect WHERE invocation = ",
            $invocation,
            " AND substr(invocation, 5) <> substr(id, 5)))"
        )
    };
}
pub(crate) use effect_of_invocation;

/// Whether a person who settled an effect as failed has said that a part of it was applied, or may have been.
macro_rules! partly_applied {
    () => {
        "result IS 'failed' AND verification IS 'manual' AND EXISTS (SELECT 1 FROM event
             WHERE event.effect = effect.id AND event.text IS NOT NULL AND event.kind = 'resolved'
                 AND (json_extract(event.detail, '$.partial_effect') IN ('possible', 'confirmed')
                     OR json_extract(event.detail, '$.actual_impact[0].amount') > 0))"
    };
}

/// One statement on effects that are in the way. A text is put together by the compiler, so that finding it in the
/// statement cache costs no more than reading it.
macro_rules! known {
    (INDEXED $index:literal, $($rest:expr),+) => {
        concat!(known!(), " INDEXED BY ", $index, " WHERE ", $($rest),+)
    };
    ($($rest:expr),+) => { concat!(known!(), " WHERE ", $($rest),+) };
    () => {
        concat!(
            "SELECT id, invocation, fingerprint, stage, result, settled_at, ",
            partly_applied!(),
            ", retried_by IS NOT NULL FROM effect"
        )
    };
}

/// In its own row, or among the further ones.
const UNDER_CALLER_KEY: &str = known!(
    "key = coalesce((SELECT key FROM effect WHERE caller = ?1 AND action = ?2 AND caller_key = ?3),
        (SELECT effect FROM further_key WHERE caller = ?1 AND action = ?2 AND key = ?3))"
);
const UNDER_DECLARED_KEY: &str = known!("action = ?1 AND declared_key = ?2 ORDER BY key DESC LIMIT 1");
/// What is open on subjects: `$where` says which of them. It is of the same action, or of the same realm, whatever its action
/// is called. Any of them is in the way: to find the oldest would cost SQLite a table to sort them in.
macro_rules! open_on {
    ($where:literal) => {
        known!(
            $where,
            " AND stage NOT IN ('settled', 'rejected') AND subject IS NOT NULL
                AND (action = ?1 OR EXISTS (SELECT 1 FROM request r WHERE r.effect = effect.key AND r.realm = ?2)) LIMIT 1"
        )
    };
}

const OPEN_ON_SUBJECT: &str = open_on!("subject = ?3 AND stage <> 'awaiting_approval'");
const BEGUN_ON_SUBJECT: &str = open_on!("subject = ?3 AND stage NOT IN ('awaiting_approval', 'ready')");
/// What is in flight may be the same, too, and is for seconds only.
const UNKNOWN_BELOW: &str =
    open_on!("subject >= ?3 AND subject < ?3 || char(1114111) AND stage IN ('dispatching', 'reconciling')");
const RETRY_TARGET: &str =
    concat!(known!("action = ?2 AND caller = ?3 AND key = "), effect_of_invocation!("?1"));
/// Among what is open of the action, which is little, and not among all that was ever identical.
const OPEN_IDENTICAL: &str = known!(
    INDEXED "effect_open",
    "fingerprint = ?2 AND action = ?1
         AND stage NOT IN ('settled', 'rejected') ORDER BY key LIMIT 1"
);
/// Behind failures and refusals, each of which was asked under a key of its own.
const SUCCEEDED_IDENTICAL: &str = known!(
    INDEXED "effect_fingerprint",
    "fingerprint = ?2 AND action = ?1 AND stage = 'settled' AND settled_at > ?3 AND (result <> 'failed' OR ",
    partly_applied!(),
    ") ORDER BY key DESC LIMIT 1"
);
const IDENTICAL: &str = known!("fingerprint = ?2 AND action = ?1 ORDER BY key DESC LIMIT ?3");

/// Under another name of a realm: words and keys are its own there. Any of them is in the way.
const UNDER_KEY_ELSEWHERE: &str = known!(
    "declared_key = ?3 AND action = ?1 AND stage NOT IN ('settled', 'rejected')
         AND EXISTS (SELECT 1 FROM request r WHERE r.effect = effect.key AND r.realm = ?2) LIMIT 1"
);
const IDENTICAL_ELSEWHERE: &str = known!(
    INDEXED "effect_open",
    "fingerprint = ?3 AND action = ?1 AND stage NOT IN ('settled', 'rejected')
         AND EXISTS (SELECT 1 FROM request r WHERE r.effect = effect.key AND r.realm = ?2) LIMIT 1"
);
const NAMES_OF_REALMS: &str =
    "SELECT DISTINCT r.realm, e.action FROM effect e INDEXED BY effect_open JOIN request r ON r.effect = e.key
     WHERE e.stage NOT IN ('settled', 'rejected') AND r.realm IS NOT NULL";

/// Reads the facts, but for whether writes are halted, which the writer knows by heart. In the write transaction they
/// cannot change before the claim; on a reader's connection they are good for recognising a repeat, and only for that.
pub(crate) fn read(
    statements: &dyn Statements,
    asking: &Asking<'_>,
    halted: Option<String>,
    now: Timestamp,
) -> Result<Facts, Fault> {
    let (action, asked) = (asking.on.action.as_str(), asking.asked);
    let (by_caller_key, plain_under_key) = under_key(statements, asking, asked.caller_key.as_ref())?;
    let (by_second_key, plain_under_second_key) = under_key(statements, asking, asked.second_key.as_ref())?;
    let by_declared_key = match &asked.declared_key {
        Some(key) => known(statements, UNDER_DECLARED_KEY, [action, key.as_str()])?,
        None => None,
    };
    let open_on_subject = open_on_subject(statements, Fence::Admitting, &asking.on)?;
    let retry_target = match &asked.retry_of {
        Some(named) => known(statements, RETRY_TARGET, [named.as_str(), action, asking.caller.as_str()])?,
        None => None,
    };
    Ok(Facts {
        by_caller_key,
        plain_under_key,
        by_second_key,
        plain_under_second_key,
        by_declared_key,
        by_fingerprint: identical(statements, asking, now)?,
        open_on_subject,
        // Read by themselves, where there is another name.
        under_key_elsewhere: None,
        identical_elsewhere: None,
        retry_target,
        halted,
    })
}

/// What is open of other actions of a realm, by their names: under the declared key, and with the same content.
pub(crate) fn read_elsewhere(
    connection: &Connection,
    facts: &mut Facts,
    realm: &Realm,
    others: &[ActionName],
    declared_key: Option<&str>,
) -> Result<(), Fault> {
    for name in others {
        let (action, realm_name) = (name.as_str(), realm.name.as_str());
        if let Some(key) = declared_key.filter(|_| facts.under_key_elsewhere.is_none()) {
            facts.under_key_elsewhere = known(connection, UNDER_KEY_ELSEWHERE, (action, realm_name, key))?;
        }
        if facts.identical_elsewhere.is_none() {
            let fingerprint = row::from_hex(&realm.said.of_action(action));
            facts.identical_elsewhere =
                known(connection, IDENTICAL_ELSEWHERE, (action, realm_name, fingerprint))?;
        }
    }
    Ok(())
}

/// Of each realm, the actions that something is open of.
pub(crate) fn names_of_realms(
    connection: &Connection,
) -> Result<HashMap<String, BTreeSet<ActionName>>, Fault> {
    let mut names: HashMap<String, BTreeSet<ActionName>> = HashMap::new();
    let mut statement = connection.prepare_cached(NAMES_OF_REALMS)?;
    let found = collect(&mut statement.query([])?, |columns| {
        Ok((columns.next::<String>()?, columns.word("action", ActionName::parse)?))
    })?;
    for (realm, action) in found {
        names.entry(realm).or_default().insert(action);
    }
    Ok(names)
}

/// What one of the caller's keys names: an effect, or an invocation without one.
fn under_key(
    statements: &dyn Statements,
    asking: &Asking<'_>,
    key: Option<&CallerKey>,
) -> Result<(Option<Known>, Option<InvocationId>), Fault> {
    let Some(key) = key else { return Ok((None, None)) };
    let named = [asking.caller.as_str(), asking.on.action.as_str(), &key.text];
    Ok((known(statements, UNDER_CALLER_KEY, named)?, plain::look::under_key(statements, named)?))
}

/// What is open on the subject itself, else on one that may be the same thing.
pub(crate) fn open_on_subject(
    statements: &dyn Statements,
    fence: Fence,
    on: &Subjects<'_>,
) -> Result<Option<Known>, Fault> {
    let action = on.action.as_str();
    let itself = match fence {
        Fence::Admitting => OPEN_ON_SUBJECT,
        Fence::Claiming => BEGUN_ON_SUBJECT,
    };
    if let Some(subject) = on.subject
        && let Some(open) = known(statements, itself, (action, on.realm, subject))?
    {
        return Ok(Some(open));
    }
    for near in on.near {
        let open = match near {
            NearSubject::Named(subject) => known(statements, itself, (action, on.realm, subject))?,
            NearSubject::Beginning(with) => known(statements, UNKNOWN_BELOW, (action, on.realm, with))?,
        };
        if open.is_some() {
            return Ok(open);
        }
    }
    Ok(None)
}

/// Other subjects as they are kept: a JSON list of pairs. `None` for none.
pub(crate) fn near_to(near: &[NearSubject]) -> Option<String> {
    let pair = |near: &NearSubject| match near {
        NearSubject::Named(subject) => (NAMED, subject.clone()),
        NearSubject::Beginning(with) => (BEGINNING, with.clone()),
    };
    (!near.is_empty()).then(|| text_of(&near.iter().map(pair).collect::<Vec<_>>()))
}

pub(crate) fn near_from(text: Option<&str>) -> Result<Vec<NearSubject>, Fault> {
    let read = |(word, subject): (String, String)| match word.as_str() {
        NAMED => Ok(NearSubject::Named(subject)),
        BEGINNING => Ok(NearSubject::Beginning(subject)),
        _ => Err(Fault::Unreadable { what: "kind of subject", found: word }),
    };
    row::headers_from(text.unwrap_or("[]"))?.into_iter().map(read).collect()
}

const NAMED: &str = "named";
const BEGINNING: &str = "beginning";

/// Of all identical requests the one that counts most: one that is open, else one that succeeded within
/// `identical_within`, else the latest. The latest alone would forget an unknown behind a later failure.
fn identical(
    statements: &dyn Statements,
    asking: &Asking<'_>,
    now: Timestamp,
) -> Result<Option<Known>, Fault> {
    let (action, fingerprint) = (asking.on.action.as_str(), asking.fingerprint);
    let (mut seen, mut recent, mut latest, mut open) = (0_i64, None, None, None);
    statements.once(IDENTICAL, (action, fingerprint, IDENTICAL_MAX), |statement, params| {
        let mut rows = statement.query(params)?;
        while let Some(found) = rows.next()? {
            let found = read_known(found)?;
            seen += 1;
            // The oldest of those that are open.
            if is_open(&found) {
                open = Some(found);
            } else if recent.is_none() && counts_still(&found, asking.asked.identical_within, now) {
                recent = Some(found);
            } else if latest.is_none() {
                latest = Some(found);
            }
        }
        Ok::<_, Fault>(())
    })?;
    if seen == IDENTICAL_MAX {
        // There may be more of them: an open one is found behind however many.
        open = known(statements, OPEN_IDENTICAL, (action, fingerprint))?;
        if recent.is_none() {
            let since = now.minus(asking.asked.identical_within);
            recent = known(statements, SUCCEEDED_IDENTICAL, (action, fingerprint, since.0))?;
        }
    }
    Ok(open.or(recent).or(latest))
}

fn is_open(known: &Known) -> bool {
    match known.standing {
        Standing::AwaitingApproval | Standing::Ready | Standing::InFlight | Standing::Unknown => true,
        Standing::Succeeded(_) | Standing::PartlyApplied(_) | Standing::Failed | Standing::Rejected => false,
    }
}

fn counts_still(known: &Known, within: Duration, now: Timestamp) -> bool {
    match known.standing {
        Standing::Succeeded(at) | Standing::PartlyApplied(at) => now.since(at) < within,
        Standing::AwaitingApproval
        | Standing::Ready
        | Standing::InFlight
        | Standing::Unknown
        | Standing::Failed
        | Standing::Rejected => false,
    }
}

/// Why all writes are stopped, when they are.
pub(crate) fn halted(connection: &Connection) -> Result<Option<String>, Fault> {
    let mut statement = connection.prepare_cached("SELECT reason FROM halt WHERE lifted_at IS NULL")?;
    Ok(statement.query_row([], |found| found.get(0)).optional()?)
}

fn known(
    statements: &dyn Statements,
    statement: &'static str,
    params: impl Params,
) -> Result<Option<Known>, Fault> {
    statements.first(statement, params, |found| Ok(read_known(found)))?.transpose()
}

fn read_known(found: &Row<'_>) -> Result<Known, Fault> {
    let columns = &mut Columns::of(found);
    Ok(Known {
        effect: columns.word("effect id", EffectId::parse)?,
        invocation: columns.word("invocation id", InvocationId::parse)?,
        fingerprint: columns.fingerprint()?,
        standing: standing(columns)?,
        retried: columns.next()?,
    })
}

fn standing(columns: &mut Columns<'_>) -> Result<Standing, Fault> {
    let stage: String = columns.next()?;
    let result: Option<String> = columns.next()?;
    let settled_at = columns.time()?;
    let in_part: bool = columns.next()?;
    let standing = match (stage.as_str(), result.as_deref(), settled_at) {
        ("awaiting_approval", None, None) => Some(Standing::AwaitingApproval),
        ("ready", None, None) => Some(Standing::Ready),
        ("dispatching", None, None) => Some(Standing::InFlight),
        ("reconciling", None, None) => Some(Standing::Unknown),
        ("settled", Some("confirmed" | "acknowledged"), Some(at)) => Some(Standing::Succeeded(at)),
        ("settled", Some("failed"), Some(at)) if in_part => Some(Standing::PartlyApplied(at)),
        ("settled", Some("failed"), Some(_)) => Some(Standing::Failed),
        ("rejected", None, None) => Some(Standing::Rejected),
        _ => None,
    };
    standing.ok_or(Fault::Unreadable { what: "stage", found: stage })
}
