//! Lists, newest first: effects, and invocations of both kinds in one order.

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::effect::{Grade, Outcome};
use oncegate_policy::plain::PlainStatus;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use crate::Store;
use crate::error::{Fault, StoreError};
use crate::plain::{PlainView, look};
use crate::read::{Reader, snapshot};
use crate::row;
use crate::view::EffectView;

/// Which effects, or invocations, are listed. Newest first.
#[derive(Clone, Debug, Default)]
pub struct EffectFilter {
    /// Only of this action.
    pub action: Option<ActionName>,
    /// Only of this caller.
    pub caller: Option<CallerName>,
    /// Only with this outcome.
    pub outcome: Option<Outcome>,
    /// Only whose invocation has this status, by its public word.
    pub status: Option<String>,
    /// Only in this stage, by its public word. An invocation without an effect is in none.
    pub stage: Option<String>,
    /// Only with this grade. An invocation without an effect has none.
    pub grade: Option<Grade>,
    /// Only what is waiting, in flight or unknown; or only what is not.
    pub unresolved: Option<bool>,
    /// Only under this key, the caller's or the declared one.
    pub key: Option<String>,
    /// At most so many.
    pub limit: u32,
    /// After so many.
    pub offset: u32,
}

/// A page of effects, without their answers.
#[derive(Clone, Debug)]
pub struct EffectList {
    /// The page.
    pub effects: Vec<EffectView>,
    /// How many there are in all.
    pub total: u64,
}

/// An invocation, with its effect or without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvocationView {
    /// Of a governed action.
    Governed(Box<EffectView>),
    /// Of an action that is not governed.
    Plain(Box<PlainView>),
}

/// A page of invocations, without their answers.
#[derive(Clone, Debug)]
pub struct InvocationList {
    /// The page.
    pub items: Vec<InvocationView>,
    /// How many there are in all.
    pub total: u64,
}

impl Reader {
    /// A page of effects.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn list(&self, filter: EffectFilter) -> Result<EffectList, StoreError> {
        self.read("list effects", move |connection| snapshot(connection, |inside| list(inside, &filter)))
            .await
    }

    /// A page of invocations, with an effect and without.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn invocations(&self, filter: EffectFilter) -> Result<InvocationList, StoreError> {
        let look = move |connection: &Connection| snapshot(connection, |inside| invocations(inside, &filter));
        self.read("list invocations", look).await
    }
}

impl Store {
    /// A page of effects.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn list(&self, filter: EffectFilter) -> Result<EffectList, StoreError> {
        self.inner.reader.list(filter).await
    }

    /// A page of invocations, with an effect and without.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn invocations(&self, filter: EffectFilter) -> Result<InvocationList, StoreError> {
        self.inner.reader.invocations(filter).await
    }
}

/// What a row must be, in SQL, and what is bound to it.
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    fn count(&self, connection: &Connection, table: &str) -> Result<u64, Fault> {
        let count: i64 = connection
            .prepare_cached(&format!("SELECT count(*) FROM {table} e WHERE {}", self.sql))?
            .query_row(params_from_iter(&self.values), |found| found.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

fn list(connection: &Connection, filter: &EffectFilter) -> Result<EffectList, Fault> {
    let Conditions { sql, mut values } = effects_are(filter);
    let total = Conditions { sql: sql.clone(), values: values.clone() }.count(connection, "effect")?;
    values.push(Value::Integer(filter.limit.into()));
    values.push(Value::Integer(filter.offset.into()));
    let rest = format!("WHERE {sql} ORDER BY e.key DESC LIMIT ? OFFSET ?");
    let effects = row::many(connection, &rest, params_from_iter(&values))?;
    Ok(EffectList { effects: effects.into_iter().map(|effect| effect.view).collect(), total })
}

/// The two tables are read side by side, each from its newest row on, and merged by the time of the request: no
/// sort, and no more rows than the page is deep.
fn invocations(connection: &Connection, filter: &EffectFilter) -> Result<InvocationList, Fault> {
    let (governed, plain) = (effects_are(filter), plain_are(filter));
    let total = governed.count(connection, "effect")?;
    let total = total.saturating_add(plain.count(connection, "plain_invocation")?);
    let places = page(connection, filter, &governed, &plain)?;
    let keys = |wanted: bool| {
        let keys = places.iter().filter(|place| place.governed == wanted).map(|place| place.key);
        serde_json::Value::from(keys.collect::<Vec<_>>()).to_string()
    };
    let rest = "WHERE e.key IN (SELECT value FROM json_each(?1)) ORDER BY e.key DESC";
    let mut governed = row::many(connection, rest, [keys(true)])?.into_iter();
    let mut plain = look::listed(connection, &keys(false))?.into_iter();
    let items = places.iter().filter_map(|place| {
        if place.governed {
            governed.next().map(|effect| InvocationView::Governed(Box::new(effect.view)))
        } else {
            plain.next().map(|view| InvocationView::Plain(Box::new(view)))
        }
    });
    Ok(InvocationList { items: items.collect(), total })
}

/// Where an invocation of the page is.
struct Place {
    governed: bool,
    key: i64,
    created_at: i64,
}

fn page(
    connection: &Connection,
    filter: &EffectFilter,
    governed: &Conditions,
    plain: &Conditions,
) -> Result<Vec<Place>, Fault> {
    let newest = |table: &str, conditions: &Conditions| {
        let sql = &conditions.sql;
        format!("SELECT e.key, e.created_at FROM {table} e WHERE {sql} ORDER BY e.key DESC")
    };
    let mut effects = connection.prepare_cached(&newest("effect", governed))?;
    let mut others = connection.prepare_cached(&newest("plain_invocation", plain))?;
    let mut effects = effects.query(params_from_iter(&governed.values))?;
    let mut others = others.query(params_from_iter(&plain.values))?;
    let place = |governed: bool, row: Option<&Row<'_>>| -> Result<Option<Place>, Fault> {
        row.map(|row| Ok(Place { governed, key: row.get(0)?, created_at: row.get(1)? })).transpose()
    };
    let (mut effect, mut other) = (place(true, effects.next()?)?, place(false, others.next()?)?);
    let (mut skipped, mut page) = (0, Vec::new());
    while page.len() < filter.limit as usize {
        let effect_next = match (&effect, &other) {
            (Some(effect), Some(other)) => effect.created_at >= other.created_at,
            (effect, _) => effect.is_some(),
        };
        let newest = if effect_next {
            std::mem::replace(&mut effect, place(true, effects.next()?)?)
        } else {
            std::mem::replace(&mut other, place(false, others.next()?)?)
        };
        match newest {
            None => break,
            Some(_) if skipped < filter.offset => skipped += 1,
            Some(newest) => page.push(newest),
        }
    }
    Ok(page)
}

/// What both kinds are asked: of which action, and by whom.
fn whose(filter: &EffectFilter) -> (Vec<&'static str>, Vec<Value>) {
    let (mut conditions, mut values) = (vec!["1"], Vec::new());
    if let Some(action) = &filter.action {
        conditions.push("e.action = ?");
        values.push(Value::Text(action.as_str().to_owned()));
    }
    if let Some(caller) = &filter.caller {
        conditions.push("e.caller = ?");
        values.push(Value::Text(caller.as_str().to_owned()));
    }
    (conditions, values)
}

fn effects_are(filter: &EffectFilter) -> Conditions {
    let (mut conditions, mut values) = whose(filter);
    if let Some(stage) = &filter.stage {
        conditions.push("e.stage = ?");
        values.push(Value::Text(stage.clone()));
    }
    if let Some(key) = &filter.key {
        conditions.push(
            "(? IN (e.caller_key, e.declared_key)
                OR EXISTS (SELECT 1 FROM further_key k WHERE k.effect = e.key AND k.key = ?))",
        );
        values.extend([Value::Text(key.clone()), Value::Text(key.clone())]);
    }
    conditions.extend(filter.outcome.map(outcome_is));
    conditions.extend(filter.status.as_deref().map(status_is));
    conditions.extend(filter.grade.map(grade_is));
    conditions.extend(filter.unresolved.map(|unresolved| if unresolved { OPEN } else { ENDED }));
    Conditions { sql: conditions.join(" AND "), values }
}

fn plain_are(filter: &EffectFilter) -> Conditions {
    let (mut conditions, mut values) = whose(filter);
    if let Some(key) = &filter.key {
        conditions.push(
            "(e.caller_key = ? OR EXISTS (SELECT 1 FROM further_key k WHERE k.plain = e.key AND k.key = ?))",
        );
        values.extend([Value::Text(key.clone()), Value::Text(key.clone())]);
    }
    if let Some(status) = &filter.status {
        conditions.push("e.status = ?");
        values.push(Value::Text(status.clone()));
    }
    if let Some(outcome) = filter.outcome {
        conditions.push("e.status = ?");
        values
            .push(plain_outcome(outcome).map_or(Value::Null, |status| Value::Text(status.word().to_owned())));
    }
    if filter.stage.is_some() || filter.grade.is_some() {
        conditions.push("0");
    }
    conditions.extend(filter.unresolved.map(|unresolved| match unresolved {
        true => "e.status IN ('running', 'unknown')",
        false => "e.status IN ('succeeded', 'failed')",
    }));
    Conditions { sql: conditions.join(" AND "), values }
}

/// The status of an invocation without an effect that comes to this outcome, if one does.
fn plain_outcome(outcome: Outcome) -> Option<PlainStatus> {
    match outcome {
        Outcome::NotDispatched => None,
        Outcome::Pending => Some(PlainStatus::Running),
        Outcome::Succeeded => Some(PlainStatus::Succeeded),
        Outcome::Failed => Some(PlainStatus::Failed),
        Outcome::Unknown => Some(PlainStatus::Unknown),
    }
}

const OPEN: &str = "e.stage NOT IN ('settled', 'rejected')";
const ENDED: &str = "e.stage IN ('settled', 'rejected')";

/// The stages from which the outcome is derived, as in `Stage::outcome`.
fn outcome_is(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotDispatched => "e.stage IN ('awaiting_approval', 'rejected')",
        Outcome::Pending => "e.stage IN ('ready', 'dispatching')",
        Outcome::Succeeded => "e.result IN ('confirmed', 'acknowledged')",
        Outcome::Failed => "e.result = 'failed'",
        Outcome::Unknown => "e.stage = 'reconciling'",
    }
}

/// The stages from which an invocation's status is derived, as in `Stage::invocation_status`.
fn status_is(status: &str) -> &'static str {
    match status {
        "pending_approval" => "e.stage = 'awaiting_approval'",
        "running" => "e.stage IN ('ready', 'dispatching')",
        "unknown" => "e.stage = 'reconciling'",
        "succeeded" => "e.result IN ('confirmed', 'acknowledged')",
        "failed" => "(e.result = 'failed' OR e.rejection = 'refused')",
        "denied" => "e.rejection = 'denied'",
        "expired" => "e.rejection = 'expired'",
        _ => "0",
    }
}

/// The stages from which the grade is derived, as in `Stage::grade`.
fn grade_is(grade: Grade) -> &'static str {
    match grade {
        Grade::Confirmed => "e.result = 'confirmed'",
        Grade::Acknowledged => "e.result = 'acknowledged'",
        Grade::Unknown => "e.stage = 'reconciling'",
        Grade::Failed => "e.result = 'failed'",
        Grade::Refused => "e.rejection IN ('refused', 'expired')",
        Grade::Denied => "e.rejection = 'denied'",
        Grade::Pending => "e.stage IN ('awaiting_approval', 'ready', 'dispatching')",
    }
}
