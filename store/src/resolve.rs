//! A person's word: resolving what nothing else could, and notes.

use oncegate_policy::caller::CallerName;
use oncegate_policy::effect::{SettledResult, Stage, Verification};
use oncegate_policy::id::EffectId;
use oncegate_policy::impact::Dimension;
use oncegate_policy::time::Timestamp;
use serde_json::json;

use crate::Store;
use crate::error::{Fault, StoreError};
use crate::holds::Ending;
use crate::row::{self, Effect};
use crate::settle::{End, Fact};
use crate::view::EffectView;
use crate::writer::{Step, Tx};

const RESOLVE: Step =
    Step::new("resolve an effect").failing_at("before_resolve_commit", "after_resolve_commit");
const NOTE: Step = Step::new("add a note");

/// The shortest reason, in characters.
pub const REASON_CHARS_MIN: usize = 10;

/// What a person says happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The outcome.
    pub outcome: ResolvedAs,
    /// Why, in at least [`REASON_CHARS_MIN`] characters.
    pub reason: String,
    /// Whether a failed effect left something behind.
    pub partial_effect: Option<PartialEffect>,
    /// How much was really taken, by dimension: consumed instead of what was reserved.
    pub actual_impact: Vec<(Dimension, i64)>,
    /// Where to look it up at the provider.
    pub external_reference: Option<String>,
}

/// The two outcomes that a person can state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolvedAs {
    /// It was applied: the hold is consumed.
    Succeeded,
    /// It was not: the hold is released.
    Failed,
}

/// What a failed effect left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialEffect {
    /// Nothing.
    None,
    /// Perhaps something.
    Possible,
    /// Something.
    Confirmed,
}

impl ResolvedAs {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }

    /// Reads the public word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Succeeded, Self::Failed].into_iter().find(|outcome| outcome.word() == text)
    }
}

impl PartialEffect {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Possible => "possible",
            Self::Confirmed => "confirmed",
        }
    }
}

/// What became of a person's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It settles the effect.
    Done(EffectView),
    /// The key that asked for an effect never resolves it (P8).
    OwnEffect(EffectView),
    /// Only an unknown effect is resolved.
    NotUnknown(EffectView),
    /// The reason is too short to be one.
    ReasonTooShort,
    /// There is no such effect.
    Missing,
}

impl Store {
    /// Settles an unknown effect by a person's word, with author, time and reason.
    ///
    /// # Errors
    /// The record could not be written: the effect is as unknown as before.
    pub async fn resolve(
        &self,
        id: &EffectId,
        by: &CallerName,
        resolution: Resolution,
        now: Timestamp,
    ) -> Result<Resolved, StoreError> {
        let (id, by) = (id.clone(), by.clone());
        let verb = move |tx: &mut Tx<'_>| match row::by_id(tx.connection, &id)? {
            None => Ok(Resolved::Missing),
            Some(effect) => resolve(tx, effect, &by, &resolution, now),
        };
        self.inner.writer.write(RESOLVE, usize::MAX, verb).await
    }

    /// Adds a note to an effect's evidence. `None` when there is no such effect.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] when too much waits; otherwise the record could not be written.
    pub async fn note(
        &self,
        id: &EffectId,
        by: &CallerName,
        text: &str,
        now: Timestamp,
    ) -> Result<Option<EffectView>, StoreError> {
        let (id, by, text) = (id.clone(), by.clone(), text.to_owned());
        let verb = move |tx: &mut Tx<'_>| {
            let Some(effect) = row::by_id(tx.connection, &id)? else { return Ok(None) };
            let fact =
                Fact { kind: "note", author: Some(by.as_str()), text: &text, detail: json!({}).to_string() };
            tx.note_fact(&effect, fact, now)?;
            Ok(Some(effect.view))
        };
        self.inner.writer.write(NOTE, self.inner.queue_capacity, verb).await
    }
}

fn resolve(
    tx: &mut Tx<'_>,
    mut effect: Effect,
    by: &CallerName,
    resolution: &Resolution,
    now: Timestamp,
) -> Result<Resolved, Fault> {
    if effect.view.caller == *by {
        return Ok(Resolved::OwnEffect(effect.view));
    }
    if resolution.reason.trim().chars().count() < REASON_CHARS_MIN {
        return Ok(Resolved::ReasonTooShort);
    }
    // A race with a look or a late answer is decided by who comes first to the only writer: the other one finds
    // the effect settled, and what it says is kept beside it.
    if !matches!(effect.view.stage, Stage::Reconciling { .. }) {
        return Ok(Resolved::NotUnknown(effect.view));
    }
    let succeeded = resolution.outcome == ResolvedAs::Succeeded;
    let result = if succeeded { SettledResult::Acknowledged } else { SettledResult::Failed };
    let holds = Ending::Actual { amounts: resolution.actual_impact.clone(), otherwise_consumed: succeeded };
    let word = resolution.outcome.word();
    let text = format!("resolved as {word} by {by}: {}", resolution.reason.trim());
    let actual = resolution.actual_impact.iter();
    let shown = |(of, amount): &(Dimension, i64)| json!({ "dimension": of.word(), "unit": of.unit(), "amount": amount });
    let detail = json!({
        "outcome": word,
        "partial_effect": resolution.partial_effect.map(PartialEffect::word),
        "actual_impact": actual.map(shown).collect::<Vec<_>>(),
        "external_reference": resolution.external_reference,
    })
    .to_string();
    tx.settled_response(&mut effect, None, now)?;
    let end = End { result, verification: Verification::Manual, holds };
    let fact = Fact { kind: "resolved", author: Some(by.as_str()), text: &text, detail };
    tx.settle(&mut effect, &end, fact, now)?;
    Ok(Resolved::Done(effect.view))
}
