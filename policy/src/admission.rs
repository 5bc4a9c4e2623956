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
    /// The rendered `operation_key`, if the action declares one.
    pub declared_key: Option<String>,
    /// What the request says.
    pub fingerprint: Fingerprint,
    /// How long an identical request is a repeat after the first one ended; zero turns it off.
    pub identical_within: Duration,
    /// The failed invocation that this one retries on purpose.
    pub retry_of: Option<InvocationId>,
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
    /// Approved or on its way.
    InFlight,
    /// May have been applied.
    Unknown,
    /// Applied, at this time.
    Succeeded(Timestamp),
    /// Not applied, for certain.
    Failed,
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
    /// The latest under the declared key, whoever asked.
    pub by_declared_key: Option<Known>,
    /// Of the identical requests of this action: an open one, else one that succeeded within `identical_within`, else the
    /// latest.
    pub by_fingerprint: Option<Known>,
    /// An effect in flight or unknown on the same subject of this action, or on one that may be the same thing.
    pub open_on_subject: Option<Known>,
    /// What `retry_of` names; `None` when there is no such invocation of this action.
    pub retry_target: Option<Known>,
    /// Why everything is stopped, when it is.
    pub halted: Option<String>,
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
    if let Some(known) = &facts.by_caller_key {
        // A caller's key stays with its invocation for life, failed or not.
        return same_or_reuse(asked, known);
    }
    if let Some(invocation) = &facts.plain_under_key {
        return Decision::Refuse(key_reuse(&format!("invocation {invocation}"), None));
    }
    let mut failed_before = None;
    if let Some(known) = &facts.by_declared_key {
        if !guards_nothing(known) {
            return same_or_reuse(asked, known);
        }
        failed_before = Some(known);
    }
    if let Some(known) = &facts.by_fingerprint {
        if is_identical_repeat(asked, known, now) {
            return Decision::Repeat(known.effect.clone());
        }
        if guards_nothing(known) {
            failed_before = failed_before.or(Some(known));
        }
    }
    if let Some(open) = &facts.open_on_subject {
        return Decision::Refuse(unresolved(open));
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
        Standing::AwaitingApproval | Standing::InFlight | Standing::Unknown | Standing::Succeeded(_) => false,
    }
}

fn is_identical_repeat(asked: &Asked, known: &Known, now: Timestamp) -> bool {
    // A key that somebody chose is taken at its word: it names another operation.
    if asked.caller_key.as_ref().is_some_and(|key| !key.generated) {
        return false;
    }
    match known.standing {
        // Whatever else it names: a retry on purpose is of something that failed, not of this.
        Standing::AwaitingApproval | Standing::InFlight | Standing::Unknown => true,
        Standing::Succeeded(at) => asked.retry_of.is_none() && now.since(at) < asked.identical_within,
        Standing::Failed | Standing::Rejected => false,
    }
}

fn unresolved(open: &Known) -> Refusal {
    let sentence = format!(
        "Effect {} on the same subject is not settled: the provider may have applied it. Nothing was sent. Do not retry or vary the request; inspect that effect.",
        open.effect
    );
    Refusal::naming(Code::UnresolvedEffect, open.effect.clone(), sentence)
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
        Standing::Failed => Decision::New { retry_of: Some(target.invocation.clone()) },
        Standing::AwaitingApproval
        | Standing::InFlight
        | Standing::Unknown
        | Standing::Succeeded(_)
        | Standing::Rejected => refuse(format!(
            "Only a failed invocation can be retried, and {named} has not failed. Nothing was sent."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);
    const WITHIN: Duration = Duration::from_secs(600);
    const STANDINGS: [Standing; 6] = [
        Standing::AwaitingApproval,
        Standing::InFlight,
        Standing::Unknown,
        Standing::Succeeded(NOW),
        Standing::Failed,
        Standing::Rejected,
    ];

    fn fingerprint(input: &str) -> Fingerprint {
        Fingerprint::of("refund", &serde_json::json!(input), &[])
    }

    /// Of the request that [`asked`] is, in a row of its own.
    fn known(standing: Standing, row: char) -> Known {
        let ulid = format!("01J0000000000000000000000{row}");
        Known {
            effect: EffectId::from_ulid(&ulid),
            invocation: InvocationId::from_ulid(&ulid),
            fingerprint: fingerprint("one"),
            standing,
            retried: false,
        }
    }

    fn asked() -> Asked {
        Asked {
            caller_key: None,
            declared_key: None,
            fingerprint: fingerprint("one"),
            identical_within: WITHIN,
            retry_of: None,
        }
    }

    fn with_key(generated: bool) -> Asked {
        Asked { caller_key: Some(CallerKey { text: "key".into(), generated }), ..asked() }
    }

    fn retrying(named: &Known) -> Asked {
        Asked { retry_of: Some(named.invocation.clone()), ..asked() }
    }

    fn of_something_else() -> Asked {
        Asked { fingerprint: fingerprint("other"), ..asked() }
    }

    /// The code, and the effect that is in the way.
    fn refused(decision: Decision) -> Option<(Code, Option<EffectId>)> {
        match decision {
            Decision::Refuse(refusal) => Some((refusal.code, refusal.effect)),
            Decision::New { .. } | Decision::Repeat(_) => None,
        }
    }

    fn halt() -> Option<String> {
        Some("drill".into())
    }

    #[test]
    fn a_callers_key_names_one_request_for_life() {
        for standing in STANDINGS {
            let there = known(standing, 'A');
            let facts = Facts { by_caller_key: Some(there.clone()), halted: halt(), ..Facts::default() };
            assert_eq!(decide(&asked(), &facts, NOW), Decision::Repeat(there.effect.clone()), "{standing:?}");
            let reused = refused(decide(&of_something_else(), &facts, NOW));
            assert_eq!(reused, Some((Code::KeyReuse, Some(there.effect))), "{standing:?}");
        }
        let plain = Some(InvocationId::from_ulid("01J0000000000000000000000A"));
        let facts = Facts { plain_under_key: plain, halted: halt(), ..Facts::default() };
        assert_eq!(refused(decide(&asked(), &facts, NOW)), Some((Code::KeyReuse, None)));
    }

    #[test]
    fn a_declared_key_is_free_again_after_a_failure_and_a_no() {
        for standing in STANDINGS {
            let there = known(standing, 'A');
            let facts = Facts { by_declared_key: Some(there.clone()), ..Facts::default() };
            let (same, other) = (decide(&asked(), &facts, NOW), decide(&of_something_else(), &facts, NOW));
            match standing {
                Standing::Failed | Standing::Rejected => {
                    let retry_of = (standing == Standing::Failed).then_some(there.invocation);
                    assert_eq!(same, Decision::New { retry_of: retry_of.clone() });
                    assert_eq!(other, Decision::New { retry_of });
                }
                Standing::AwaitingApproval
                | Standing::InFlight
                | Standing::Unknown
                | Standing::Succeeded(_) => {
                    assert_eq!(same, Decision::Repeat(there.effect.clone()));
                    assert_eq!(refused(other), Some((Code::KeyReuse, Some(there.effect))));
                }
            }
        }
    }

    #[test]
    fn an_identical_request_is_a_repeat_unless_its_key_says_otherwise() {
        let ago = |milliseconds| Standing::Succeeded(NOW.minus(Duration::from_millis(milliseconds)));
        let retry = retrying(&known(Standing::Failed, 'B'));
        for (standing, bare, on_purpose) in [
            (Standing::AwaitingApproval, true, true),
            (Standing::InFlight, true, true),
            (Standing::Unknown, true, true),
            (ago(0), true, false),
            (ago(599_999), true, false),
            (ago(600_000), false, false),
            (Standing::Failed, false, false),
            (Standing::Rejected, false, false),
        ] {
            let there = known(standing, 'A');
            let target = Some(known(Standing::Failed, 'B'));
            let facts =
                Facts { by_fingerprint: Some(there.clone()), retry_target: target, ..Facts::default() };
            let is_repeat =
                |asked: &Asked| decide(asked, &facts, NOW) == Decision::Repeat(there.effect.clone());
            assert_eq!(is_repeat(&asked()), bare, "{standing:?}");
            assert_eq!(is_repeat(&with_key(true)), bare, "{standing:?}, a library's key");
            assert!(!is_repeat(&with_key(false)), "{standing:?}, a chosen key");
            assert_eq!(is_repeat(&retry), on_purpose, "{standing:?}, a retry on purpose");
        }
    }

    #[test]
    fn what_runs_in_the_place_of_a_failure_is_linked_to_it_once() {
        let failed = |row| Some(known(Standing::Failed, row));
        let rejected = Some(known(Standing::Rejected, 'A'));
        let taken = Some(Known { retried: true, ..known(Standing::Failed, 'A') });
        for (by_declared_key, by_fingerprint, linked) in [
            (None, None, None),
            (failed('A'), None, Some('A')),
            (None, failed('B'), Some('B')),
            (failed('A'), failed('B'), Some('A')),
            (taken.clone(), None, None),
            (None, taken, None),
            (None, rejected, None),
            // Long over: no repeat, and no failure.
            (None, Some(known(Standing::Succeeded(Timestamp(0)), 'A')), None),
        ] {
            let facts = Facts { by_declared_key, by_fingerprint, ..Facts::default() };
            let retry_of = linked.map(|row| known(Standing::Failed, row).invocation);
            assert_eq!(decide(&asked(), &facts, NOW), Decision::New { retry_of }, "{facts:?}");
        }
    }

    #[test]
    fn an_open_effect_on_the_subject_is_in_the_way_before_the_halt_and_a_repeat_before_both() {
        let open = known(Standing::Unknown, 'A');
        let stopped = Facts { halted: halt(), ..Facts::default() };
        let both = Facts { open_on_subject: Some(open.clone()), ..stopped.clone() };
        let repeat = Facts { by_fingerprint: Some(open.clone()), ..both.clone() };
        assert_eq!(decide(&asked(), &repeat, NOW), Decision::Repeat(open.effect.clone()));
        let unresolved = refused(decide(&asked(), &both, NOW));
        assert_eq!(unresolved, Some((Code::UnresolvedEffect, Some(open.effect))));
        assert_eq!(decide(&asked(), &stopped, NOW), Decision::Refuse(halted("drill")));
        assert!(halted("drill").sentence.contains("(drill)"));
    }

    #[test]
    fn only_what_failed_is_retried_on_purpose_and_only_once() {
        let refusal = Some((Code::RetryRefused, None));
        for standing in STANDINGS {
            let target = known(standing, 'A');
            let asked = retrying(&target);
            let facts = Facts { retry_target: Some(target.clone()), ..Facts::default() };
            let decision = decide(&asked, &facts, NOW);
            if standing == Standing::Failed {
                assert_eq!(decision, Decision::New { retry_of: Some(target.invocation.clone()) });
            } else {
                assert_eq!(refused(decision), refusal, "{standing:?}");
            }
            let retried = Some(Known { retried: true, ..target });
            let facts = Facts { retry_target: retried, ..Facts::default() };
            assert_eq!(refused(decide(&asked, &facts, NOW)), refusal, "{standing:?}, retried");
        }
        let missing = retrying(&known(Standing::Failed, 'A'));
        assert_eq!(refused(decide(&missing, &Facts::default(), NOW)), refusal);
    }
}
