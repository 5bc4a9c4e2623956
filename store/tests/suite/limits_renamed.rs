//! What was consumed stays counted, under whatever name (P5).

use oncegate_policy::limit::Period;
use oncegate_policy::refusal::Code;
use oncegate_store::admit::Admitted;

use crate::support::{Memory, NOON, answered, limit};

/// What is declared knows a limit by its name alone: one that is declared for the very scope of one that is declared no
/// more is that one.
#[tokio::test]
async fn p5_a_limit_under_another_name_has_forgotten_nothing() {
    let memory = Memory::new();
    let sync = async |limits: Vec<_>| memory.store.sync_limits(limits, NOON).await.unwrap();
    let [day, month] = [Period::Day, Period::Month];
    sync(vec![limit("daily", day, 10_000), limit("monthly", month, 20_000)]).await;
    let id = memory.exposure("daily", NOON).await.id;
    let (permit, _) = memory.granted(memory.refund("pi_1", 7_000), NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
    memory.unknown(memory.refund("pi_2", 1_000), NOON).await;

    // The two change their names, and one its amount as well.
    let said = sync(vec![limit("per-month", month, 20_000), limit("per-day", day, 9_000)]).await;
    let first = "limit per-month is monthly under another name, and what was consumed still counts: 20000 usd per month";
    assert_eq!((said.len(), said[0].as_str()), (2, first));
    assert_eq!(memory.used("per-day", NOON).await, (7_000, 1_000, 1_000, 1_000));
    assert_eq!(memory.used("per-month", NOON).await, (7_000, 1_000, 1_000, 12_000));
    assert_eq!(memory.exposure("per-day", NOON).await.id, id);
    assert_eq!((memory.count("impact_limit"), memory.count("hold")), (2, 4));
    let over = memory.store.admit(memory.refund("pi_3", 1_001), NOON).await.unwrap();
    assert!(matches!(over, Admitted::Refused(no) if no.code == Code::LimitExceeded));

    // Of two that go, the one with the least left goes on; two may change places.
    sync(vec![limit("per-day", day, 9_000), limit("fresh", day, 9_000), limit("per-month", month, 20_000)])
        .await;
    sync(vec![limit("one", day, 8_000), limit("per-month", month, 20_000)]).await;
    assert_eq!(memory.used("one", NOON).await, (7_000, 1_000, 1_000, 0));
    let mut narrow = limit("per-month", day, 8_000);
    narrow.resource_prefix = Some("acct_1/".to_owned());
    let said = sync(vec![limit("per-month", day, 8_000), limit("one", month, 20_000)]).await;
    assert!(said.len() == 2 && said.iter().all(|line| line.contains(" was ")), "{said:?}");

    // Another scope is another limit.
    narrow.name = "narrow".to_owned();
    sync(vec![narrow, limit("one", month, 20_000)]).await;
    assert_eq!(memory.used("narrow", NOON).await, (0, 1_000, 1_000, 7_000));
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

/// One of this name was there before: what has more against it counts on.
#[tokio::test]
async fn p5_a_name_that_comes_back_brings_what_was_consumed_under_it() {
    let memory = Memory::new();
    let sync = async |limits: Vec<_>| memory.store.sync_limits(limits, NOON).await.unwrap();
    let spend = async |amount| {
        let (permit, _) =
            memory.granted(memory.refund(&format!("pi_{}", memory.fresh()), amount), NOON).await;
        memory.record(permit.spend(), &answered(200), NOON).await;
    };
    sync(vec![limit("a", Period::Day, 10_000)]).await;
    spend(5_000).await;
    sync(vec![]).await;
    sync(vec![limit("b", Period::Day, 10_000)]).await;
    spend(1_000).await;
    sync(vec![limit("a", Period::Day, 10_000)]).await;
    assert_eq!(memory.used("a", NOON).await, (5_000, 0, 0, 5_000));
    // The same, where the one that goes has more against it.
    sync(vec![]).await;
    sync(vec![limit("c", Period::Day, 10_000)]).await;
    spend(6_000).await;
    sync(vec![limit("a", Period::Day, 10_000)]).await;
    let counting = memory.store.exposures(NOON).await.unwrap();
    let counting: Vec<_> = counting.iter().filter(|limit| limit.archived_at.is_none()).collect();
    assert_eq!((counting.len(), counting[0].available()), (1, 4_000));
}
