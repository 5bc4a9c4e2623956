//! May this run? Repeat, fence, retry and halt, decided over facts that the store has read in the very
//! transaction that will claim the dispatch (DESIGN section 5).

use std::time::Duration;

use crate::fingerprint::Fingerprint;
use crate::id::{EffectId, InvocationId};
use crate::refusal::{Code, Refusal};
use crate::time::Timestamp;

/// What is asked, as far as identity goes.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The caller's key, if one was sent.
    pub caller_key: Option<CallerKey>,
    /// The other one, where the caller sent two: `operationKey` beside `Idempotency-Key`. A match on either is a match.
    pub second_key: Option<CallerKey>,
    /// The rendered `operation_key`, if the action declares one.
    pub declared_key: Option<String>,
    /// What the request says.
    pub fingerprint: Fingerprint,
    /// How long an identical request is a repeat after the first one ended; zero turns it off.
    pub identical_within: Duration,
    /// The failed invocation that this one retries on purpose.
    pub retry_of: Option<InvocationId>,
}

impl Asked {
    /// Each key that the caller sent.
    fn keys(&self) -> impl Iterator<Item = &CallerKey> {
        [&self.caller_key, &self.second_key].into_iter().flatten()
    }
}

/// A key that the caller sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerKey {
    /// As it was sent, at most 255 characters.
    pub text: String,
    /// Made by a library for one try: it does not name the operation.
    pub generated: bool,
}

/// What an earlier effect has come to, as far as identity cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Waiting for a person.
    AwaitingApproval,
    /// Approved, and not sent yet.
    Ready,
    /// On its way.
    InFlight,
    /// May have been applied.
    Unknown,
    /// Applied, at this time.
    Succeeded(Timestamp),
    /// Not applied, for certain.
    Failed,
    /// Failed by the word of a person who knows or fears that a part of it was applied, at this time.
    PartlyApplied(Timestamp),
    /// Denied or expired: nothing was sent and nobody waits.
    Rejected,
}

/// An effect that is already there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its id.
    pub effect: EffectId,
    /// Its invocation's id.
    pub invocation: InvocationId,
    /// What it said.
    pub fingerprint: Fingerprint,
    /// What it has come to.
    pub standing: Standing,
    /// Whether something already runs in its place.
    pub retried: bool,
}

/// What the record holds that could be in the way.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The invocation bound to this caller's key for this action.
    pub by_caller_key: Option<Known>,
    /// The invocation without an effect that is bound to this caller's key, from when the action was not governed.
    pub plain_under_key: Option<InvocationId>,
    /// As `by_caller_key`, of the second key.
    pub by_second_key: Option<Known>,
    /// As `plain_under_key`, of the second key.
    pub plain_under_second_key: Option<InvocationId>,
    /// The latest under the declared key, whoever asked.
    pub by_declared_key: Option<Known>,
    /// Of the identical requests of this action: an open one, else one that succeeded within `identical_within`, else the
    /// latest.
    pub by_fingerprint: Option<Known>,
    /// An effect in flight or unknown on the same subject of this action, or on one that may be the same thing.
    pub open_on_subject: Option<Known>,
    /// An effect that is not settled under the same declared key of another action of the realm: this one had another name, or
    /// another one takes its requests.
    pub under_key_elsewhere: Option<Known>,
    /// An effect that is not settled and says the same, of another action of the realm.
    pub identical_elsewhere: Option<Known>,
    /// What `retry_of` names; `None` when there is no such invocation of this action.
    pub retry_target: Option<Known>,
    /// Why everything is stopped, when it is.
    pub halted: Option<String>,
}

impl Facts {
    /// The keys that came and name nothing yet: what the request is answered with, they name from then on.
    pub fn unbound<'a>(&self, asked: &'a Asked) -> impl Iterator<Item = &'a CallerKey> + use<'a> {
        let first = self.by_caller_key.is_none() && self.plain_under_key.is_none();
        let second = self.by_second_key.is_none() && self.plain_under_second_key.is_none();
        let first = asked.caller_key.as_ref().filter(|_| first);
        first.into_iter().chain(asked.second_key.as_ref().filter(|_| second))
    }
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is new; the failed invocation that it retries, if there is one.
    New {
        /// Linked as `retryOf`/`retriedBy`.
        retry_of: Option<InvocationId>,
    },
    /// It is there already: show what it has come to.
    Repeat(EffectId),
    /// No.
    Refuse(Refusal),
}

/// Decides over the facts. Repeats are looked for before the halt, so that a halted agent still learns what
/// became of what it did.
#[must_use]
pub fn decide(asked: &Asked, facts: &Facts, now: Timestamp) -> Decision {
    if let Some(decision) = under_its_keys(asked, facts) {
        return decision;
    }
    let mut failed_before = None;
    if let Some(known) = &facts.by_declared_key {
        if !guards_nothing(known) && !is_retried_on_purpose(asked, known) {
            return same_or_reuse(asked, known);
        }
        failed_before = Some(known);
    }
    if let Some(known) = &facts.by_fingerprint {
        if is_identical_repeat(asked, known, facts, now) {
            return Decision::Repeat(known.effect.clone());
        }
        if guards_nothing(known) {
            failed_before = failed_before.or(Some(known));
        }
    }
    if let Some(open) = &facts.open_on_subject {
        return Decision::Refuse(unresolved(open));
    }
    let said_elsewhere = facts.identical_elsewhere.as_ref().filter(|_| !is_taken_at_its_word(asked));
    if let Some(open) = facts.under_key_elsewhere.as_ref().or(said_elsewhere) {
        return Decision::Refuse(unresolved_elsewhere(&open.effect));
    }
    if let Some(reason) = &facts.halted {
        return Decision::Refuse(halted(reason));
    }
    match &asked.retry_of {
        Some(named) => retry_on_purpose(named, facts),
        None => Decision::New {
            retry_of: failed_before
                .filter(|known| !known.retried && known.standing == Standing::Failed)
                .map(|known| known.invocation.clone()),
        },
    }
}

/// A caller's key stays with its invocation for life, failed or not. Two keys cannot name two of them.
fn under_its_keys(asked: &Asked, facts: &Facts) -> Option<Decision> {
    let plain = facts.plain_under_key.as_ref().or(facts.plain_under_second_key.as_ref());
    if let Some(invocation) = plain {
        return Some(Decision::Refuse(key_reuse(&format!("invocation {invocation}"), None)));
    }
    let mut named = [&facts.by_caller_key, &facts.by_second_key].into_iter().flatten();
    if let Some(other) = named.clone().find(|known| known.fingerprint != asked.fingerprint) {
        return Some(same_or_reuse(asked, other));
    }
    let known = named.next()?;
    Some(match named.find(|other| other.effect != known.effect) {
        Some(other) => {
            let names = format!("effects {} and {}", known.effect, other.effect);
            Decision::Refuse(two_operations(&names, Some(&known.effect)))
        }
        None => Decision::Repeat(known.effect.clone()),
    })
}

fn same_or_reuse(asked: &Asked, known: &Known) -> Decision {
    if known.fingerprint == asked.fingerprint {
        return Decision::Repeat(known.effect.clone());
    }
    Decision::Refuse(key_reuse(&format!("effect {}", known.effect), Some(&known.effect)))
}

/// A key that names something else already, in words.
pub(crate) fn key_reuse(names: &str, effect: Option<&EffectId>) -> Refusal {
    let sentence = format!(
        "This key already names a different request ({names}). Nothing was sent. Use the same request, or a new key for a new operation."
    );
    Refusal { code: Code::KeyReuse, sentence, effect: effect.cloned() }
}

/// The two keys of one request name two operations, in words.
pub(crate) fn two_operations(names: &str, effect: Option<&EffectId>) -> Refusal {
    let sentence = format!(
        "The request carries two keys, and they name two different operations ({names}). Nothing was sent. Use one of them."
    );
    Refusal { code: Code::Ambiguous, sentence, effect: effect.cloned() }
}

/// Everything is stopped, for this reason.
#[must_use]
pub fn halted(reason: &str) -> Refusal {
    let sentence = format!(
        "All writes are halted by the operator ({reason}). Nothing was sent. Do not retry; ask a person."
    );
    Refusal::new(Code::Halted, sentence)
}

/// `failed` is proof that nothing was applied; a question that was denied or has lapsed sent nothing either.
fn guards_nothing(known: &Known) -> bool {
    match known.standing {
        Standing::Failed | Standing::Rejected => true,
        Standing::AwaitingApproval
        | Standing::Ready
        | Standing::InFlight
        | Standing::Unknown
        | Standing::Succeeded(_)
        | Standing::PartlyApplied(_) => false,
    }
}

/// Whether it is to run once more, whole, although a part of it was applied: only who names it says so.
fn is_retried_on_purpose(asked: &Asked, known: &Known) -> bool {
    matches!(known.standing, Standing::PartlyApplied(_)) && asked.retry_of.as_ref() == Some(&known.invocation)
}

/// A key that somebody chose names another operation.
fn is_taken_at_its_word(asked: &Asked) -> bool {
    asked.keys().any(|key| !key.generated)
}

fn is_identical_repeat(asked: &Asked, known: &Known, facts: &Facts, now: Timestamp) -> bool {
    if is_taken_at_its_word(asked) {
        return false;
    }
    match known.standing {
        // Whatever else it names: a retry on purpose is of something that failed, not of this.
        Standing::AwaitingApproval | Standing::Ready | Standing::InFlight | Standing::Unknown => true,
        Standing::Succeeded(at) | Standing::PartlyApplied(at) => {
            // Nor does a failure of something else make another one of it.
            let target = facts.retry_target.as_ref().filter(|_| asked.retry_of.is_some());
            let on_purpose = target.is_some_and(|target| target.fingerprint == asked.fingerprint);
            !on_purpose && now.since(at) < asked.identical_within
        }
        Standing::Failed | Standing::Rejected => false,
    }
}

/// Another write on the subject is approved, or has begun, and nobody knows its end.
#[must_use]
pub fn unresolved(open: &Known) -> Refusal {
    let effect = &open.effect;
    let why = match open.standing {
        Standing::AwaitingApproval | Standing::Ready => "it is approved and has not been sent yet",
        Standing::InFlight
        | Standing::Unknown
        | Standing::Succeeded(_)
        | Standing::PartlyApplied(_)
        | Standing::Failed
        | Standing::Rejected => "the provider may have applied it",
    };
    let sentence = format!(
        "Effect {effect} on the same subject is not settled: {why}. Nothing was sent. Do not retry or vary the request; inspect that effect."
    );
    Refusal::naming(Code::UnresolvedEffect, effect.clone(), sentence)
}

/// The same was asked for as another action, and may still be done, or have been.
fn unresolved_elsewhere(open: &EffectId) -> Refusal {
    let sentence = format!(
        "Effect {open} is this same operation under another name of its action, and is not settled. Nothing was sent. Do not retry or vary the request; inspect that effect."
    );
    Refusal::naming(Code::UnresolvedEffect, open.clone(), sentence)
}

fn retry_on_purpose(named: &InvocationId, facts: &Facts) -> Decision {
    let refuse = |sentence: String| Decision::Refuse(Refusal::new(Code::RetryRefused, sentence));
    let Some(target) = &facts.retry_target else {
        return refuse(format!("Invocation {named} is none of yours for this action. Nothing was sent."));
    };
    if target.retried {
        return refuse(format!("Invocation {named} has been retried already. Nothing was sent."));
    }
    match target.standing {
        Standing::Failed | Standing::PartlyApplied(_) => {
            Decision::New { retry_of: Some(target.invocation.clone()) }
        }
        Standing::AwaitingApproval
        | Standing::Ready
        | Standing::InFlight
        | Standing::Unknown
        | Standing::Succeeded(_)
        | Standing::Rejected => refuse(format!(
            "Only a failed invocation can be retried, and {named} has not failed. Nothing was sent."
        )),
    }
}

#[cfg(test)]
mod tests;
