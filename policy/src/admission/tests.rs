//! Each row of the decision.

use super::*;

const NOW: Timestamp = Timestamp(1_000_000_000);
const WITHIN: Duration = Duration::from_secs(600);
const STANDINGS: [Standing; 8] = [
    Standing::AwaitingApproval,
    Standing::Ready,
    Standing::InFlight,
    Standing::Unknown,
    Standing::Succeeded(NOW),
    Standing::Failed,
    Standing::PartlyApplied(NOW),
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
        second_key: None,
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

/// A match on either of two keys is a match, and neither may name something else.
#[test]
fn each_of_two_keys_names_one_request_for_life() {
    let second = Some(CallerKey { text: "second".into(), generated: false });
    let both = |asked: Asked| Asked { second_key: second.clone(), ..asked };
    let (one, other) = (known(Standing::Succeeded(NOW), 'A'), known(Standing::Failed, 'B'));
    let varied = Known { fingerprint: fingerprint("other"), ..other.clone() };
    let key_reuse = |of: &Known| Err(Some((Code::KeyReuse, Some(of.effect.clone()))));
    for (first, second, expected, unbound) in [
        (None, None, Err(None), 2),
        (Some(&one), None, Ok(one.effect.clone()), 1),
        (None, Some(&one), Ok(one.effect.clone()), 1),
        (Some(&one), Some(&one), Ok(one.effect.clone()), 0),
        (Some(&varied), None, key_reuse(&varied), 1),
        (None, Some(&varied), key_reuse(&varied), 1),
        (Some(&one), Some(&varied), key_reuse(&varied), 0),
        (Some(&varied), Some(&one), key_reuse(&varied), 0),
        (Some(&one), Some(&other), Err(Some((Code::Ambiguous, Some(one.effect.clone())))), 0),
    ] {
        let facts =
            Facts { by_caller_key: first.cloned(), by_second_key: second.cloned(), ..Facts::default() };
        let asked = both(with_key(true));
        let got = match decide(&asked, &facts, NOW) {
            Decision::Repeat(effect) => Ok(effect),
            decision @ (Decision::New { .. } | Decision::Refuse(_)) => Err(refused(decision)),
        };
        assert_eq!((got, facts.unbound(&asked).count()), (expected, unbound), "{first:?} {second:?}");
    }
    let plain = Some(InvocationId::from_ulid("01J0000000000000000000000A"));
    let facts = Facts { plain_under_second_key: plain, ..Facts::default() };
    assert_eq!(refused(decide(&both(with_key(true)), &facts, NOW)), Some((Code::KeyReuse, None)));
    assert_eq!(facts.unbound(&both(with_key(true))).count(), 1);
    // A library's key beside a chosen one: somebody has named the operation.
    let facts = Facts { by_fingerprint: Some(one.clone()), ..Facts::default() };
    assert_eq!(decide(&with_key(true), &facts, NOW), Decision::Repeat(one.effect));
    assert!(matches!(decide(&both(with_key(true)), &facts, NOW), Decision::New { .. }));
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
            | Standing::Ready
            | Standing::InFlight
            | Standing::Unknown
            | Standing::Succeeded(_)
            | Standing::PartlyApplied(_) => {
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
        (Standing::Ready, true, true),
        (Standing::InFlight, true, true),
        (Standing::Unknown, true, true),
        (ago(0), true, false),
        (ago(599_999), true, false),
        (ago(600_000), false, false),
        (Standing::PartlyApplied(NOW), true, false),
        (Standing::PartlyApplied(NOW.minus(WITHIN)), false, false),
        (Standing::Failed, false, false),
        (Standing::Rejected, false, false),
    ] {
        let there = known(standing, 'A');
        let target = Some(known(Standing::Failed, 'B'));
        let facts = Facts { by_fingerprint: Some(there.clone()), retry_target: target, ..Facts::default() };
        let is_repeat = |asked: &Asked| decide(asked, &facts, NOW) == Decision::Repeat(there.effect.clone());
        assert_eq!(is_repeat(&asked()), bare, "{standing:?}");
        assert_eq!(is_repeat(&with_key(true)), bare, "{standing:?}, a library's key");
        assert!(!is_repeat(&with_key(false)), "{standing:?}, a chosen key");
        assert_eq!(is_repeat(&retry), on_purpose, "{standing:?}, a retry on purpose");
        let other = Known { fingerprint: fingerprint("other"), ..known(Standing::Failed, 'B') };
        let facts = Facts { retry_target: Some(other), ..facts.clone() };
        let elsewhere = decide(&retry, &facts, NOW) == Decision::Repeat(there.effect.clone());
        assert_eq!(elsewhere, bare, "{standing:?}, a retry of something else");
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
        if [Standing::Failed, Standing::PartlyApplied(NOW)].contains(&standing) {
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

/// Of what is approved and waits, nothing has left.
#[test]
fn what_was_never_sent_is_not_said_to_be_applied() {
    for (standing, may_be_applied) in
        [(Standing::Ready, false), (Standing::InFlight, true), (Standing::Unknown, true)]
    {
        let facts = Facts { open_on_subject: Some(known(standing, 'A')), ..Facts::default() };
        let Decision::Refuse(refusal) = decide(&of_something_else(), &facts, NOW) else {
            panic!("{standing:?}")
        };
        let said = refusal.sentence;
        assert_eq!(said.contains("may have applied"), may_be_applied, "{standing:?}: {said}");
        assert_eq!(said.contains("has not been sent yet"), !may_be_applied, "{standing:?}: {said}");
    }
}
