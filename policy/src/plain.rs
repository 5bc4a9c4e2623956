//! An invocation of an action that is not governed: it makes no effect, takes no room and is not looked for. What
//! remains is its key, the halt, and that a retry on purpose is of something that failed.

use crate::admission::{halted, key_reuse, two_operations};
use crate::fingerprint::Fingerprint;
use crate::id::{EffectId, InvocationId};
use crate::refusal::{Code, Refusal};

/// What has become of it. The same words as for an invocation with an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlainStatus {
    /// On its way.
    Running,
    /// The provider says that it is done, or a person does.
    Succeeded,
    /// It was not done.
    Failed,
    /// It may have been done; only a person settles it.
    Unknown,
}

impl PlainStatus {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }

    /// Reads the public word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Succeeded, Self::Failed, Self::Unknown]
            .into_iter()
            .find(|status| status.word() == text)
    }
}

/// One that is already there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPlain {
    /// Its id.
    pub invocation: InvocationId,
    /// What it said.
    pub fingerprint: Fingerprint,
    /// What it has come to.
    pub status: PlainStatus,
    /// Whether something already runs in its place.
    pub retried: bool,
}

/// What is asked, as far as identity goes.
#[derive(Clone, Debug)]
pub struct AskedPlain {
    /// What the request says.
    pub fingerprint: Fingerprint,
    /// The failed invocation that this one retries on purpose.
    pub retry_of: Option<InvocationId>,
    /// Whether it can only read: GET, HEAD, OPTIONS. A halt stops writes.
    pub reads: bool,
}

/// What the record holds that could be in the way.
#[derive(Clone, Debug, Default)]
pub struct PlainFacts {
    /// The invocation bound to this caller's key for this action.
    pub by_caller_key: Option<KnownPlain>,
    /// The effect bound to this key, from when the action was governed.
    pub governed_under_key: Option<EffectId>,
    /// As `by_caller_key`, of the second key.
    pub by_second_key: Option<KnownPlain>,
    /// As `governed_under_key`, of the second key.
    pub governed_under_second_key: Option<EffectId>,
    /// The effect of this very request that is not settled, from when the action was governed.
    pub open_effect: Option<EffectId>,
    /// What `retry_of` names; `None` when there is no such invocation of this action.
    pub retry_target: Option<KnownPlain>,
    /// Why everything is stopped, when it is.
    pub halted: Option<String>,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainDecision {
    /// It is new.
    New,
    /// It is there already: show what it has come to.
    Repeat(InvocationId),
    /// No.
    Refuse(Refusal),
}

/// Decides over the facts. As in [`crate::admission::decide`], a repeat is recognised before the halt.
#[must_use]
pub fn decide(asked: &AskedPlain, facts: &PlainFacts) -> PlainDecision {
    if let Some(decision) = under_its_keys(asked, facts) {
        return decision;
    }
    if let Some(effect) = facts.open_effect.as_ref().filter(|_| !asked.reads) {
        return PlainDecision::Refuse(unresolved(effect));
    }
    if let Some(reason) = facts.halted.as_ref().filter(|_| !asked.reads) {
        return PlainDecision::Refuse(halted(reason));
    }
    match &asked.retry_of {
        Some(named) => retry_on_purpose(named, facts),
        None => PlainDecision::New,
    }
}

/// As for an invocation with an effect: each key stays with what it names, and two keys cannot name two.
fn under_its_keys(asked: &AskedPlain, facts: &PlainFacts) -> Option<PlainDecision> {
    let governed = facts.governed_under_key.as_ref().or(facts.governed_under_second_key.as_ref());
    if let Some(effect) = governed {
        return Some(PlainDecision::Refuse(key_reuse(&format!("effect {effect}"), Some(effect))));
    }
    let mut named = [&facts.by_caller_key, &facts.by_second_key].into_iter().flatten();
    if let Some(other) = named.clone().find(|known| known.fingerprint != asked.fingerprint) {
        let names = format!("invocation {}", other.invocation);
        return Some(PlainDecision::Refuse(key_reuse(&names, None)));
    }
    let known = named.next()?;
    Some(match named.find(|other| other.invocation != known.invocation) {
        Some(other) => {
            let names = format!("invocations {} and {}", known.invocation, other.invocation);
            PlainDecision::Refuse(two_operations(&names, None))
        }
        None => PlainDecision::Repeat(known.invocation.clone()),
    })
}

/// That the action is not governed any more settles nothing.
fn unresolved(effect: &EffectId) -> Refusal {
    let sentence = format!(
        "Effect {effect} of this very request is not settled, from when the action was governed. Nothing was sent. Do not retry; inspect that effect."
    );
    Refusal::naming(Code::UnresolvedEffect, effect.clone(), sentence)
}

fn retry_on_purpose(named: &InvocationId, facts: &PlainFacts) -> PlainDecision {
    let refuse = |sentence: String| PlainDecision::Refuse(Refusal::new(Code::RetryRefused, sentence));
    match &facts.retry_target {
        None => refuse(format!("Invocation {named} is none of yours for this action. Nothing was sent.")),
        Some(target) if target.retried => {
            refuse(format!("Invocation {named} has been retried already. Nothing was sent."))
        }
        Some(target) => match target.status {
            PlainStatus::Failed => PlainDecision::New,
            PlainStatus::Running | PlainStatus::Succeeded | PlainStatus::Unknown => refuse(format!(
                "Only a failed invocation can be retried, and {named} has not failed. Nothing was sent."
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(status: PlainStatus, input: &str) -> KnownPlain {
        KnownPlain {
            invocation: InvocationId::from_ulid("01J0000000000000000000000A"),
            fingerprint: Fingerprint::of("ping", &serde_json::json!(input), &[]),
            status,
            retried: false,
        }
    }

    fn asked(known: &KnownPlain, retries: bool, reads: bool) -> AskedPlain {
        let retry_of = retries.then(|| known.invocation.clone());
        AskedPlain { fingerprint: known.fingerprint.clone(), retry_of, reads }
    }

    fn code(decision: &PlainDecision) -> Option<Code> {
        match decision {
            PlainDecision::Refuse(refusal) => Some(refusal.code),
            PlainDecision::New | PlainDecision::Repeat(_) => None,
        }
    }

    #[test]
    fn a_key_names_one_request_for_life() {
        for status in
            [PlainStatus::Running, PlainStatus::Succeeded, PlainStatus::Failed, PlainStatus::Unknown]
        {
            let known = known(status, "one");
            let facts = PlainFacts {
                by_caller_key: Some(known.clone()),
                halted: Some("drill".into()),
                ..PlainFacts::default()
            };
            let repeat = PlainDecision::Repeat(known.invocation.clone());
            assert_eq!(decide(&asked(&known, false, false), &facts), repeat);
            let other = decide(&asked(&self::known(status, "other"), false, false), &facts);
            assert_eq!(code(&other), Some(Code::KeyReuse));
        }
        let effect = EffectId::from_ulid("01J0000000000000000000000B");
        let facts = PlainFacts { governed_under_key: Some(effect.clone()), ..PlainFacts::default() };
        let PlainDecision::Refuse(refusal) =
            decide(&asked(&known(PlainStatus::Running, "one"), false, true), &facts)
        else {
            panic!("not refused")
        };
        assert_eq!((refusal.code, refusal.effect), (Code::KeyReuse, Some(effect)));
    }

    /// A match on either of two keys is a match, and neither may name something else.
    #[test]
    fn each_of_two_keys_names_one_request_for_life() {
        let one = known(PlainStatus::Succeeded, "one");
        let id = InvocationId::from_ulid("01J0000000000000000000000B");
        let other = KnownPlain { invocation: id, ..one.clone() };
        let varied = known(PlainStatus::Succeeded, "other");
        let repeat = Ok(one.invocation.clone());
        for (first, second, expected) in [
            (None, None, Err(None)),
            (Some(&one), None, repeat.clone()),
            (None, Some(&one), repeat.clone()),
            (Some(&one), Some(&one), repeat),
            (Some(&one), Some(&varied), Err(Some(Code::KeyReuse))),
            (None, Some(&varied), Err(Some(Code::KeyReuse))),
            (Some(&one), Some(&other), Err(Some(Code::Ambiguous))),
        ] {
            let facts = PlainFacts {
                by_caller_key: first.cloned(),
                by_second_key: second.cloned(),
                ..PlainFacts::default()
            };
            let got = match decide(&asked(&one, false, false), &facts) {
                PlainDecision::Repeat(id) => Ok(id),
                decision @ (PlainDecision::New | PlainDecision::Refuse(_)) => Err(code(&decision)),
            };
            assert_eq!(got, expected, "{first:?} {second:?}");
        }
        let effect = EffectId::from_ulid("01J0000000000000000000000B");
        let facts = PlainFacts { governed_under_second_key: Some(effect), ..PlainFacts::default() };
        assert_eq!(code(&decide(&asked(&one, false, true), &facts)), Some(Code::KeyReuse));
    }

    #[test]
    fn what_was_governed_and_is_not_settled_is_not_sent_again() {
        let one = known(PlainStatus::Failed, "one");
        let effect = EffectId::from_ulid("01J0000000000000000000000B");
        let facts = PlainFacts { open_effect: Some(effect), ..PlainFacts::default() };
        assert_eq!(code(&decide(&asked(&one, false, false), &facts)), Some(Code::UnresolvedEffect));
        assert_eq!(decide(&asked(&one, false, true), &facts), PlainDecision::New);
    }

    #[test]
    fn a_halt_stops_what_writes() {
        let one = known(PlainStatus::Failed, "one");
        let facts = PlainFacts { halted: Some("drill".into()), ..PlainFacts::default() };
        assert_eq!(code(&decide(&asked(&one, false, false), &facts)), Some(Code::Halted));
        assert_eq!(decide(&asked(&one, false, true), &facts), PlainDecision::New);
    }

    #[test]
    fn only_what_failed_is_retried_and_only_once() {
        for (status, retried, allowed) in [
            (PlainStatus::Failed, false, true),
            (PlainStatus::Failed, true, false),
            (PlainStatus::Running, false, false),
            (PlainStatus::Succeeded, false, false),
            (PlainStatus::Unknown, false, false),
        ] {
            let target = KnownPlain { retried, ..known(status, "one") };
            let facts = PlainFacts { retry_target: Some(target.clone()), ..PlainFacts::default() };
            let decision = decide(&asked(&target, true, false), &facts);
            assert_eq!(decision == PlainDecision::New, allowed, "{status:?} {retried}");
        }
        let missing = decide(&asked(&known(PlainStatus::Failed, "one"), true, false), &PlainFacts::default());
        assert_eq!(code(&missing), Some(Code::RetryRefused));
    }

    #[test]
    fn a_status_is_read_back_from_its_word() {
        for (status, word) in [
            (PlainStatus::Running, "running"),
            (PlainStatus::Succeeded, "succeeded"),
            (PlainStatus::Failed, "failed"),
            (PlainStatus::Unknown, "unknown"),
        ] {
            assert_eq!((status.word(), PlainStatus::parse(word)), (word, Some(status)));
        }
        assert_eq!(PlainStatus::parse("settled"), None);
    }
}
