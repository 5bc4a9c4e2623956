//! The table of `cases/identity.toml`, every row through a real admission.

use std::time::Duration;

use oncegate_policy::admission::CallerKey;
use oncegate_policy::exchange::Exchange;
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::form;
use oncegate_policy::identity::is_generated_key;
use oncegate_policy::limit::Period;
use oncegate_policy::refusal::Code;
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::earlier::{Earlier, Operation};
use oncegate_store::view::EffectView;
use serde::Deserialize;

use crate::support::{DAY, HOUR, Memory, NOON, answered, caller, limit, lost, with_key};

#[derive(Deserialize)]
struct Table {
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    operation_key: Option<String>,
    first: Try,
    first_state: String,
    later: Option<String>,
    second: Try,
    expect: String,
}

#[derive(Deserialize)]
struct Try {
    key: Option<String>,
    form: String,
}

fn asked(memory: &Memory, case: &Case, try_: &Try) -> NewEffect {
    let input = form::parse(try_.form.as_bytes()).unwrap();
    let text = |path: &[&str]| {
        let found = path.iter().try_fold(&input, |value, name| value.get(name)).unwrap();
        found.as_str().map_or_else(|| found.to_string(), str::to_owned)
    };
    let subject = text(&["payment_intent"]);
    let mut new = memory.refund(&subject, text(&["amount"]).parse().unwrap());
    new.asked.fingerprint = Fingerprint::of("refund", &input, &[]);
    new.asked.caller_key =
        try_.key.as_ref().map(|key| CallerKey { text: key.clone(), generated: is_generated_key(key) });
    new.asked.declared_key =
        case.operation_key.as_ref().map(|_| format!("refund:{}", text(&["metadata", "order_id"])));
    new
}

fn span(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    let hours = match unit {
        "h" => 1,
        "d" => 24,
        _ => panic!("{text}"),
    };
    HOUR * (number.parse::<u32>().unwrap() * hours)
}

#[tokio::test]
async fn every_row_of_the_table() {
    let table: Table = toml::from_str(include_str!("../cases/identity.toml")).unwrap();
    assert!(table.case.len() >= 16);
    for case in &table.case {
        let memory = Memory::new();
        let first = asked(&memory, case, &case.first);
        let (first_id, first_invocation) = (first.effect.clone(), first.invocation.clone());
        let cap = if case.first_state == "refused" { 0 } else { i64::MAX };
        memory.store.sync_limits(vec![limit("cap", Period::Total, cap)], NOON).await.unwrap();
        match case.first_state.as_str() {
            "refused" => {
                let said = memory.store.admit(first, NOON).await.unwrap();
                assert!(
                    matches!(&said, Admitted::Refused(no) if no.code == Code::LimitExceeded),
                    "{}",
                    case.name
                );
                memory.store.sync_limits(vec![limit("cap", Period::Total, i64::MAX)], NOON).await.unwrap();
            }
            state => {
                let exchange = match state {
                    "unknown" => lost(),
                    "succeeded" => answered(200),
                    "failed" => answered(402),
                    other => panic!("{other}"),
                };
                let (permit, _) = memory.granted(first, NOON).await;
                memory.record(permit.spend(), &exchange, NOON).await;
            }
        }
        let now = NOON.plus(case.later.as_deref().map_or(Duration::from_secs(60), span));
        let second = asked(&memory, case, &case.second);
        let operation = Operation {
            caller: second.caller.clone(),
            action: second.action.clone(),
            asked: second.asked.clone(),
            subject: second.subject.clone(),
            near: second.near.clone(),
            realm: second.realm.clone(),
        };
        let outside = memory.store.earlier(operation, now).await.unwrap();
        let said = memory.store.admit(second.clone(), now).await.unwrap();
        let got = match &said {
            Admitted::Repeat(view) => {
                assert_eq!(view.id, first_id, "{}", case.name);
                "repeat"
            }
            Admitted::Refused(no) if no.code == Code::KeyReuse => "key_reuse",
            Admitted::Refused(no) if no.code == Code::UnresolvedEffect => "unresolved_effect",
            Admitted::Granted { effect, .. } => {
                if case.first_state == "failed" {
                    assert_eq!(effect.retry_of.as_ref(), Some(&first_invocation), "{}", case.name);
                    let failed = memory.view(&first_id).await;
                    assert_eq!(failed.retried_by.as_ref(), Some(&effect.invocation), "{}", case.name);
                }
                "new"
            }
            other => panic!("{}: {other:?}", case.name),
        };
        assert_eq!(got, case.expect, "{}", case.name);
        match (outside, &said) {
            (Earlier::Repeat(seen), Admitted::Repeat(view)) => assert_eq!(seen.id, view.id, "{}", case.name),
            (Earlier::InTheWay(seen), Admitted::Refused(no)) => assert_eq!(&seen, no, "{}", case.name),
            (Earlier::Nothing, Admitted::Granted { .. }) => {}
            (outside, _) => panic!("{}: {outside:?}, and then {said:?}", case.name),
        }
        if let Admitted::Refused(no) = said {
            assert_eq!(no.effect, Some(first_id), "{}", case.name);
        }
    }
}

#[tokio::test]
async fn two_hundred_identical_requests_are_one_dispatch() {
    let memory = Memory::new();
    let mut asking = Vec::new();
    for _ in 0..200 {
        let new = memory.refund("pi_1", 6_000);
        let store = memory.store.clone();
        asking.push(tokio::spawn(async move { store.admit(new, NOON).await.unwrap() }));
    }
    let mut granted = 0;
    for asked in asking {
        match asked.await.unwrap() {
            Admitted::Granted { .. } => granted += 1,
            Admitted::Repeat(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let dispatching = memory.count("effect WHERE stage = 'dispatching'");
    assert_eq!((granted, dispatching, memory.count("effect")), (1, 1, 1));
}

#[tokio::test]
async fn a_callers_key_belongs_to_that_caller() {
    let memory = Memory::new();
    let first = with_key(memory.refund("pi_1", 500), "refund:1");
    memory.unknown(first, NOON).await;
    let mut other = with_key(memory.refund("pi_2", 700), "refund:1");
    other.caller = caller("other-agent");
    let (permit, effect) = memory.granted(other, NOON).await;
    assert_eq!(effect.caller, caller("other-agent"));
    memory.record(permit.spend(), &answered(200), NOON).await;
}

#[tokio::test]
async fn an_unknown_is_not_forgotten_behind_a_later_failure() {
    let memory = Memory::new();
    let mut first = with_key(memory.refund("pi_1", 500), "a-chosen-key");
    first.subject = None;
    let unknown = memory.unknown(first, NOON).await;
    let mut second = with_key(memory.refund("pi_1", 500), "another-chosen-key");
    second.subject = None;
    let (permit, _) = memory.granted(second, NOON).await;
    memory.record(permit.spend(), &answered(402), NOON).await;
    let mut third = memory.refund("pi_1", 500);
    third.subject = None;
    match memory.store.admit(third, NOON).await.unwrap() {
        Admitted::Repeat(view) => assert_eq!(view.id, unknown.id),
        other => panic!("{other:?}"),
    }
}

/// Under a chosen key of its own, so that nothing identical is in its way.
async fn another(memory: &Memory, exchange: &Exchange, at: Timestamp) -> EffectView {
    let mut new = with_key(memory.refund("pi_1", 500), &format!("chosen-{}", memory.fresh()));
    new.subject = None;
    let (permit, _) = memory.granted(new, at).await;
    memory.record(permit.spend(), exchange, at).await
}

fn keyless(memory: &Memory) -> NewEffect {
    let mut new = memory.refund("pi_1", 500);
    new.subject = None;
    new
}

#[tokio::test]
async fn an_unknown_is_found_behind_however_many_failures() {
    let memory = Memory::new();
    let unknown = another(&memory, &lost(), NOON).await;
    // As many as are looked through, and some.
    for _ in 0..40 {
        another(&memory, &answered(402), NOON).await;
    }
    match memory.store.admit(keyless(&memory), NOON).await.unwrap() {
        Admitted::Repeat(view) => assert_eq!(view.id, unknown.id),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_success_counts_behind_a_later_failure_until_it_is_too_long_ago() {
    let memory = Memory::new();
    another(&memory, &answered(200), NOON).await;
    let newer = another(&memory, &answered(200), NOON.plus(HOUR)).await;
    let failed = another(&memory, &answered(402), NOON.plus(2 * HOUR)).await;
    another(&memory, &answered(402), NOON.plus(2 * HOUR)).await;
    let latest = another(&memory, &answered(402), NOON.plus(2 * HOUR)).await;
    assert_ne!(failed.id, latest.id);
    let over = NOON.plus(HOUR + DAY);
    // While both successes count, and while only the newer one does.
    for at in [NOON.plus(3 * HOUR), over.minus(Duration::from_millis(1))] {
        match memory.store.admit(keyless(&memory), at).await.unwrap() {
            Admitted::Repeat(view) => assert_eq!(view.id, newer.id),
            other => panic!("{other:?}"),
        }
    }
    let (_permit, effect) = memory.granted(keyless(&memory), over).await;
    assert_eq!(effect.retry_of, Some(latest.invocation), "of the latest that failed");
}

#[tokio::test]
async fn a_success_is_found_behind_however_many_failures() {
    let memory = Memory::new();
    another(&memory, &answered(200), NOON.minus(HOUR)).await;
    let success = another(&memory, &answered(200), NOON).await;
    // As many as are looked through, and some.
    for _ in 0..40 {
        another(&memory, &answered(402), NOON.plus(HOUR)).await;
    }
    let over = NOON.plus(DAY);
    match memory.store.admit(keyless(&memory), over.minus(Duration::from_millis(1))).await.unwrap() {
        Admitted::Repeat(view) => assert_eq!(view.id, success.id),
        other => panic!("{other:?}"),
    }
    let (_permit, effect) = memory.granted(keyless(&memory), over).await;
    assert!(effect.retry_of.is_some(), "of the latest that failed");
}

#[tokio::test]
async fn a_retry_on_purpose_needs_a_failure_and_happens_once() {
    let memory = Memory::new();
    let unknown = memory.unknown(with_key(memory.refund("pi_1", 500), "k1"), NOON).await;
    let retry = |key: &str, of| {
        let mut new = with_key(memory.refund("pi_2", 500), key);
        new.asked.retry_of = Some(of);
        new
    };
    let said = memory.store.admit(retry("k2", unknown.invocation), NOON).await.unwrap();
    assert!(matches!(said, Admitted::Refused(no) if no.code == Code::RetryRefused));

    let (permit, _) = memory.granted(with_key(memory.refund("pi_3", 500), "k3"), NOON).await;
    let failed = memory.record(permit.spend(), &answered(402), NOON).await;
    let (permit, again) = memory.granted(retry("k4", failed.invocation.clone()), NOON).await;
    assert_eq!(again.retry_of, Some(failed.invocation.clone()));
    memory.record(permit.spend(), &answered(402), NOON).await;
    let said = memory.store.admit(retry("k5", failed.invocation), NOON).await.unwrap();
    assert!(matches!(said, Admitted::Refused(no) if no.code == Code::RetryRefused));
}
