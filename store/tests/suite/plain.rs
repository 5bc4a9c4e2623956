//! Invocations of actions that are not governed: recorded before they are sent, sent once, unknown until a person
//! settles them.

use oncegate_policy::action::ActionName;
use oncegate_policy::exchange::Exchange;
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::id::InvocationId;
use oncegate_policy::plain::PlainStatus;
use oncegate_policy::refusal::Code;
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::claim::PlainPermit;
use oncegate_store::list::{EffectFilter, InvocationView};
use oncegate_store::plain::resolve::ResolvedPlain;
use oncegate_store::plain::{Begun, NewPlain, PlainView};
use oncegate_store::resolve::ResolvedAs;
use serde_json::json;

use crate::support::{DAY, HOUR, Memory, NOON, answered, caller, lost, not_sent, seen, ulid, with_key};

pub(crate) fn ping(memory: &Memory, text: &str) -> NewPlain {
    NewPlain {
        invocation: InvocationId::from_ulid(&ulid(memory.fresh())),
        caller: caller("agent"),
        action: ActionName::parse("ping").unwrap(),
        listener: "api",
        caller_key: None,
        second_key: None,
        fingerprint: Fingerprint::of("ping", &json!({ "text": text }), &[]),
        retry_of: None,
        method: "POST".into(),
        url: "https://api.example/v1/pings?secret=QUERYMARK".into(),
    }
}

fn under(key: &str, new: NewPlain) -> NewPlain {
    NewPlain { caller_key: Some(key.into()), ..new }
}

async fn fresh(memory: &Memory, new: NewPlain, at: Timestamp) -> PlainPermit {
    match memory.store.begin_plain(new, at).await.unwrap() {
        Begun::Fresh { permit, .. } => permit,
        other => panic!("not fresh: {other:?}"),
    }
}

pub(crate) async fn ended(memory: &Memory, new: NewPlain, exchange: &Exchange, at: Timestamp) -> PlainView {
    let claim = fresh(memory, new, at).await.spend();
    memory.store.end_plain(claim, seen(exchange), at).await.unwrap()
}

async fn refused(memory: &Memory, new: NewPlain) -> Code {
    match memory.store.begin_plain(new, NOON).await.unwrap() {
        Begun::Refused(refusal) => refusal.code,
        other => panic!("not refused: {other:?}"),
    }
}

async fn resolved(memory: &Memory, id: &InvocationId, by: &str, evidence: &str) -> ResolvedPlain {
    let (by, reference) = (caller(by), Some("ping_1".to_owned()));
    let store = &memory.store;
    store.resolve_plain(id, ResolvedAs::Succeeded, &by, evidence.to_owned(), reference, NOON).await.unwrap()
}

#[tokio::test]
async fn it_is_recorded_before_it_may_be_sent_and_ends_once() {
    let memory = Memory::new();
    let Begun::Fresh { permit, invocation } =
        memory.store.begin_plain(under("k1", ping(&memory, "a")), NOON).await.unwrap()
    else {
        panic!("not fresh")
    };
    let committed = memory.store.plain(&invocation.id).await.unwrap();
    assert_eq!(committed, Some(invocation.clone()));
    assert_eq!(
        (invocation.status, invocation.target.as_str()),
        (PlainStatus::Running, "POST https://api.example/v1/pings")
    );
    let view = memory.store.end_plain(permit.spend(), seen(&answered(200)), NOON.plus(HOUR)).await.unwrap();
    assert_eq!((view.status, view.ended_at), (PlainStatus::Succeeded, Some(NOON.plus(HOUR))));
    let response = view.response.clone().unwrap();
    assert_eq!((response.status, response.body.as_slice()), (200, br#"{"status":200}"#.as_slice()));
    assert_eq!(memory.store.plain(&view.id).await.unwrap(), Some(view));
    assert_eq!(memory.count("effect"), 0);
    assert_eq!(memory.count("event WHERE kind IN ('plain_begun', 'plain_ended')"), 2);
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

#[tokio::test]
async fn what_the_wire_showed_is_what_it_comes_to() {
    let memory = Memory::new();
    for (exchange, status) in [
        (answered(200), PlainStatus::Succeeded),
        (answered(404), PlainStatus::Failed),
        (answered(500), PlainStatus::Unknown),
        (not_sent(), PlainStatus::Failed),
        (lost(), PlainStatus::Unknown),
    ] {
        let view = ended(&memory, ping(&memory, "a"), &exchange, NOON).await;
        assert_eq!(view.status, status, "{exchange:?}");
        assert_eq!(view.response.is_some(), matches!(exchange, Exchange::Answered(_)));
        assert_eq!(view.never_sent.is_some(), matches!(exchange, Exchange::NotSent(_)));
        assert_eq!(view.last_loss.is_some(), matches!(exchange, Exchange::Lost(_)));
    }
}

#[tokio::test]
async fn a_key_names_one_request_for_life() {
    let memory = Memory::new();
    for (exchange, status) in [(answered(200), PlainStatus::Succeeded), (answered(404), PlainStatus::Failed)]
    {
        let key = format!("key-{}", status.word());
        let first = ended(&memory, under(&key, ping(&memory, "a")), &exchange, NOON).await;
        let again =
            memory.store.begin_plain(under(&key, ping(&memory, "a")), NOON.plus(400 * DAY)).await.unwrap();
        let Begun::Repeat(known) = again else { panic!("not a repeat: {again:?}") };
        assert_eq!(known, first);
        assert_eq!(refused(&memory, under(&key, ping(&memory, "b"))).await, Code::KeyReuse);
        // Another caller's key is another key.
        let other = NewPlain { caller: caller("other"), ..under(&key, ping(&memory, "b")) };
        assert_eq!(ended(&memory, other, &answered(200), NOON).await.status, PlainStatus::Succeeded);
    }
    // While the first is on its way, too.
    let _permit = fresh(&memory, under("open", ping(&memory, "a")), NOON).await;
    let again = memory.store.begin_plain(under("open", ping(&memory, "a")), NOON).await.unwrap();
    assert!(matches!(&again, Begun::Repeat(known) if known.status == PlainStatus::Running), "{again:?}");
}

#[tokio::test]
async fn a_key_keeps_its_request_when_the_action_becomes_governed_or_is_no_more() {
    let memory = Memory::new();
    ended(&memory, under("k1", ping(&memory, "a")), &answered(200), NOON).await;
    let governed = |key: &str| NewEffect {
        action: ActionName::parse("ping").unwrap(),
        ..with_key(memory.refund("pi_1", 1), key)
    };
    let refused_as = memory.store.admit(governed("k1"), NOON).await.unwrap();
    assert!(matches!(&refused_as, Admitted::Refused(no) if no.code == Code::KeyReuse), "{refused_as:?}");
    let (permit, _) = memory.granted(governed("k2"), NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
    assert_eq!(refused(&memory, under("k2", ping(&memory, "a"))).await, Code::KeyReuse);
}

#[tokio::test]
async fn an_open_effect_of_the_same_request_is_not_sent_past_when_its_action_is_no_more_governed() {
    let memory = Memory::new();
    let mut governed =
        NewEffect { action: ActionName::parse("ping").unwrap(), ..with_key(memory.refund("pi_1", 1), "k1") };
    governed.asked.fingerprint = ping(&memory, "a").fingerprint;
    let (permit, _) = memory.granted(governed, NOON).await;
    memory.record(permit.spend(), &lost(), NOON).await;
    for new in [ping(&memory, "a"), under("k2", ping(&memory, "a"))] {
        assert_eq!(refused(&memory, new).await, Code::UnresolvedEffect);
    }
    ended(&memory, ping(&memory, "b"), &answered(200), NOON).await;
    let read = NewPlain { method: "GET".into(), ..ping(&memory, "a") };
    ended(&memory, read, &answered(200), NOON).await;
}

#[tokio::test]
async fn a_halt_stops_what_writes_and_not_what_reads() {
    let memory = Memory::new();
    memory.store.halt("drill", &caller("ops"), NOON).await.unwrap();
    assert_eq!(refused(&memory, ping(&memory, "a")).await, Code::Halted);
    assert_eq!(memory.count("event WHERE kind = 'refused'"), 1);
    let read = NewPlain { method: "GET".into(), ..ping(&memory, "a") };
    assert_eq!(ended(&memory, read, &answered(200), NOON).await.status, PlainStatus::Succeeded);
}

#[tokio::test]
async fn one_that_nobody_will_finish_is_unknown() {
    let memory = Memory::new();
    let (left, held) = (ping(&memory, "a"), ping(&memory, "b"));
    let (left_id, held_id) = (left.invocation.clone(), held.invocation.clone());
    drop(fresh(&memory, left, NOON).await);
    let claim = fresh(&memory, held, NOON).await.spend();
    memory.store.sweep(NOON).await.unwrap();
    let status = async |memory: &Memory, id| memory.store.plain(id).await.unwrap().unwrap().status;
    assert_eq!(status(&memory, &left_id).await, PlainStatus::Unknown);
    assert_eq!(status(&memory, &held_id).await, PlainStatus::Running);
    // The process ends. Its claim means nothing any more.
    let memory = memory.restarted(NOON);
    memory.store.sweep(NOON.plus(HOUR)).await.unwrap();
    let view = memory.store.plain(&held_id).await.unwrap().unwrap();
    assert_eq!((view.status, view.ended_at), (PlainStatus::Unknown, Some(NOON.plus(HOUR))));
    assert!(view.last_loss.unwrap().cause.contains("process"));
    drop(claim);
}

#[tokio::test]
async fn only_another_person_settles_an_unknown_one_once() {
    let memory = Memory::new();
    let unknown = ended(&memory, under("k1", ping(&memory, "a")), &lost(), NOON).await;
    let id = &unknown.id;
    let own = resolved(&memory, id, "agent", "I have seen it").await;
    assert_eq!(own, ResolvedPlain::OwnInvocation(unknown.clone()));
    assert_eq!(resolved(&memory, id, "ops", "  ").await, ResolvedPlain::NoEvidence);
    let missing = InvocationId::from_ulid(&ulid(99));
    assert_eq!(resolved(&memory, &missing, "ops", "seen").await, ResolvedPlain::Missing);

    let ResolvedPlain::Done(view) = resolved(&memory, id, "ops", "seen in the log").await else { panic!() };
    assert_eq!(view.status, PlainStatus::Succeeded);
    let resolution = view.resolution.clone().unwrap();
    assert_eq!(
        (
            resolution.outcome,
            resolution.by,
            resolution.evidence.as_str(),
            resolution.external_reference,
            resolution.at
        ),
        (ResolvedAs::Succeeded, caller("ops"), "seen in the log", Some("ping_1".to_owned()), NOON)
    );
    assert_eq!(memory.count("event WHERE kind = 'plain_resolved' AND author = 'ops'"), 1);
    assert_eq!(resolved(&memory, id, "ops", "again").await, ResolvedPlain::NotUnknown(view.clone()));
    // The key stays with it.
    let again = memory.store.begin_plain(under("k1", ping(&memory, "a")), NOON).await.unwrap();
    assert!(matches!(&again, Begun::Repeat(known) if *known == view), "{again:?}");
}

#[tokio::test]
async fn only_what_failed_is_retried_and_only_once() {
    let memory = Memory::new();
    let retry = |of: &InvocationId| NewPlain { retry_of: Some(of.clone()), ..ping(&memory, "a") };
    let unknown = ended(&memory, ping(&memory, "a"), &lost(), NOON).await;
    let succeeded = ended(&memory, ping(&memory, "a"), &answered(200), NOON).await;
    for of in [&unknown.id, &succeeded.id, &InvocationId::from_ulid(&ulid(99))] {
        assert_eq!(refused(&memory, retry(of)).await, Code::RetryRefused);
    }
    let failed = ended(&memory, ping(&memory, "a"), &answered(404), NOON).await;
    let other = NewPlain { action: ActionName::parse("pong").unwrap(), ..retry(&failed.id) };
    assert_eq!(refused(&memory, other).await, Code::RetryRefused);
    let retried = ended(&memory, retry(&failed.id), &answered(200), NOON).await;
    assert_eq!(retried.retry_of, Some(failed.id.clone()));
    let failed = memory.store.plain(&failed.id).await.unwrap().unwrap();
    assert_eq!(failed.retried_by, Some(retried.id));
    assert_eq!(refused(&memory, retry(&failed.id)).await, Code::RetryRefused);
}

fn ids(items: &[InvocationView]) -> Vec<InvocationId> {
    let id = |item: &InvocationView| match item {
        InvocationView::Governed(view) => view.invocation.clone(),
        InvocationView::Plain(view) => view.id.clone(),
    };
    items.iter().map(id).collect()
}

#[tokio::test]
async fn both_kinds_are_listed_in_one_order_with_one_total() {
    let memory = Memory::new();
    let mut expected = Vec::new();
    for hour in 0..12 {
        let at = NOON.plus(hour * HOUR);
        let id = if hour % 3 == 0 {
            let (permit, view) = memory.granted(memory.refund(&format!("pi_{hour}"), 1), at).await;
            memory.record(permit.spend(), &answered(200), at).await;
            view.invocation
        } else {
            let exchange = if hour % 3 == 1 { answered(200) } else { lost() };
            ended(&memory, ping(&memory, "a"), &exchange, at).await.id
        };
        expected.insert(0, id);
    }
    let list = async |filter: EffectFilter| memory.store.invocations(filter).await.unwrap();
    let mut paged = Vec::new();
    for offset in (0..15).step_by(5) {
        let page = list(EffectFilter { limit: 5, offset, ..EffectFilter::default() }).await;
        assert_eq!(page.total, 12);
        paged.extend(ids(&page.items));
    }
    assert_eq!(paged, expected);
    for (status, governed, plain) in
        [("succeeded", 4, 4), ("unknown", 0, 4), ("running", 0, 0), ("denied", 0, 0)]
    {
        let filter = EffectFilter { status: Some(status.into()), limit: 50, ..EffectFilter::default() };
        let page = list(filter).await;
        let of_effects = page.items.iter().filter(|item| matches!(item, InvocationView::Governed(_))).count();
        assert_eq!((of_effects, page.items.len() - of_effects), (governed, plain), "{status}");
        assert_eq!(page.total, (governed + plain) as u64);
    }
    for (unresolved, total) in [(true, 4), (false, 8)] {
        let filter = EffectFilter { unresolved: Some(unresolved), limit: 1, ..EffectFilter::default() };
        assert_eq!(list(filter).await.total, total);
    }
    let of_action = EffectFilter { action: ActionName::parse("ping"), limit: 50, ..EffectFilter::default() };
    assert_eq!(list(of_action).await.total, 8);
    let staged = EffectFilter { stage: Some("settled".into()), limit: 50, ..EffectFilter::default() };
    assert_eq!(list(staged).await.total, 4);
}

#[tokio::test]
async fn answers_and_ended_ones_go_after_their_time_and_keys_stay() {
    let memory = Memory::new();
    let keyed = ended(&memory, under("k1", ping(&memory, "a")), &answered(200), NOON).await;
    let loose = ended(&memory, ping(&memory, "a"), &answered(404), NOON).await;
    let unknown = ended(&memory, ping(&memory, "a"), &answered(500), NOON).await;
    let read = async |view: &PlainView| memory.store.plain(&view.id).await.unwrap();
    let month_on = NOON.plus(31 * DAY);
    assert_eq!(memory.store.prune(None, month_on).await.unwrap().responses, 2);
    assert_eq!(read(&keyed).await, Some(PlainView { response: None, ..keyed.clone() }));
    assert_eq!(read(&unknown).await.as_ref(), Some(&unknown));

    assert_eq!(memory.store.prune(Some(month_on), month_on).await.unwrap().invocations, 2);
    assert_eq!(read(&loose).await, None);
    assert_eq!(read(&keyed).await, Some(PlainView { response: None, ..keyed }));
    assert_eq!(read(&unknown).await, Some(unknown));
    let again = memory.store.begin_plain(under("k1", ping(&memory, "a")), month_on).await.unwrap();
    assert!(matches!(again, Begun::Repeat(_)), "{again:?}");
    assert_eq!(memory.store.prune(Some(month_on), month_on).await.unwrap().invocations, 0);
}
