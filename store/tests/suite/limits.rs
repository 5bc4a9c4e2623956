//! The hold holds (P5).

use oncegate_policy::action::ActionName;
use oncegate_policy::effect::Outcome;
use oncegate_policy::impact::Dimension;
use oncegate_policy::limit::Period;
use oncegate_policy::reconcile::Looker;
use oncegate_policy::refusal::Code;
use oncegate_store::admit::Admitted;
use oncegate_store::limits::{ChangedLimit, CreatedLimit};

use crate::support::{
    DAY, HOUR, Memory, NOON, answered, limit, lost, matched, not_sent, provider_failed, usd,
};

#[tokio::test]
async fn ten_refunds_of_60_under_100_are_one() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    let mut asking = Vec::new();
    for number in 0..10 {
        let new = memory.refund(&format!("pi_{number}"), 6_000);
        let store = memory.store.clone();
        asking.push(tokio::spawn(async move { store.admit(new, NOON).await.unwrap() }));
    }
    let (mut granted, mut refused) = (0, 0);
    for asked in asking {
        match asked.await.unwrap() {
            Admitted::Granted { .. } => granted += 1,
            Admitted::Refused(no) => {
                assert_eq!(no.code, Code::LimitExceeded);
                assert!(
                    no.sentence.contains("cap has 4000 usd available of 10000 and this needs 6000"),
                    "{}",
                    no.sentence
                );
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((granted, refused), (1, 9));
    assert_eq!(memory.used("cap", NOON).await, (0, 6_000, 0, 4_000));
    assert_eq!((memory.count("effect"), memory.count("event WHERE kind = 'refused'")), (1, 9));
}

/// A limit that is declared later, under another name or for more, holds what is open already.
#[tokio::test]
async fn what_is_open_is_held_by_a_limit_that_is_declared_anew() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    let unknown = memory.unknown(memory.refund("pi_1", 6_000), NOON).await;
    let (permit, _) = memory.granted(memory.refund("pi_2", 1_000), NOON).await;
    let (settled, _) = memory.granted(memory.refund("pi_3", 500), NOON).await;
    memory.record(settled.spend(), &answered(200), NOON).await;
    let mut waiting = memory.refund("pi_4", 100);
    waiting.approval = Some(DAY);
    memory.store.admit(waiting, NOON).await.unwrap();

    // Declared beside it: it does not start at zero.
    let both = || vec![limit("cap", Period::Day, 20_000), limit("other-name", Period::Day, 10_000)];
    let said = memory.store.sync_limits(both(), NOON).await.unwrap();
    assert!(said.contains(&"limit other-name holds 7000 usd of 2 open effects".to_owned()), "{said:?}");
    assert_eq!(memory.used("other-name", NOON).await, (0, 7_000, 6_000, 3_000));
    assert_eq!(memory.used("cap", NOON).await, (500, 7_000, 6_000, 12_500));
    assert_eq!(memory.store.sync_limits(both(), NOON).await.unwrap(), [""; 0]);
    let refused = memory.store.admit(memory.refund("pi_5", 3_001), NOON).await.unwrap();
    assert!(matches!(&refused, Admitted::Refused(no) if no.code == Code::LimitExceeded), "{refused:?}");

    // One that is made through the API, and one that applies to more than before.
    let mut narrow = limit("narrow", Period::Total, 100);
    narrow.resource_prefix = Some("acct_2/".to_owned());
    let made = memory.store.create_limit(narrow.clone(), NOON).await.unwrap();
    assert!(matches!(&made, CreatedLimit::Created(made) if made.usage.reserved == 0), "{made:?}");
    narrow.resource_prefix = Some("acct_1/".to_owned());
    memory.store.sync_limits([both(), vec![narrow]].concat(), NOON).await.unwrap();
    assert_eq!(memory.used("narrow", NOON).await, (0, 7_000, 6_000, -6_900));

    // Each hold ends with its effect, on every limit.
    memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, NOON).await.unwrap();
    memory.record(permit.spend(), &answered(402), NOON).await;
    assert_eq!(memory.used("other-name", NOON).await, (6_000, 0, 0, 4_000));
    assert_eq!(memory.used("narrow", NOON).await, (6_000, 0, 0, -5_900));
    assert_eq!(memory.used("cap", NOON).await, (6_500, 0, 0, 13_500));
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

#[tokio::test]
async fn a_success_consumes_and_a_failure_releases() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    for (exchange, used) in [
        (not_sent(), (0, 0, 0, 10_000)),
        (answered(402), (0, 0, 0, 10_000)),
        (answered(200), (1_000, 0, 0, 9_000)),
        (lost(), (1_000, 1_000, 1_000, 8_000)),
        (answered(500), (1_000, 2_000, 2_000, 7_000)),
        (answered(201), (2_000, 2_000, 2_000, 6_000)),
    ] {
        let subject = format!("pi_{}", memory.fresh());
        let (permit, _) = memory.granted(memory.refund(&subject, 1_000), NOON).await;
        memory.record(permit.spend(), &exchange, NOON).await;
        assert_eq!(memory.used("cap", NOON).await, used, "{exchange:?}");
    }
}

#[tokio::test]
async fn a_hold_outlives_restart_and_period_end_and_counts_where_the_write_was() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    let unknown = memory.unknown(memory.refund("pi_1", 6_000), NOON).await;
    let two_days_on = NOON.plus(2 * DAY);
    let memory = memory.restarted(two_days_on);
    assert_eq!(memory.used("cap", two_days_on).await, (0, 6_000, 6_000, 4_000));
    let said = memory.store.admit(memory.refund("pi_2", 6_000), two_days_on).await.unwrap();
    assert!(matches!(said, Admitted::Refused(no) if no.code == Code::LimitExceeded));

    memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, two_days_on).await.unwrap();
    assert_eq!(memory.used("cap", two_days_on).await, (0, 0, 0, 10_000));
    assert_eq!(memory.used("cap", NOON).await, (6_000, 0, 0, 4_000));
}

#[tokio::test]
async fn the_providers_failed_record_releases() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Total, 10_000)], NOON).await.unwrap();
    let unknown = memory.unknown(memory.refund("pi_1", 6_000), NOON).await;
    memory.store.apply_finding(&unknown.id, provider_failed(), Looker::Schedule, NOON).await.unwrap();
    assert_eq!(memory.used("cap", NOON).await, (0, 0, 0, 10_000));
}

#[tokio::test]
async fn every_applicable_limit_is_reserved_or_none() {
    let memory = Memory::new();
    let narrow = |name: &str, amount| {
        let mut narrow = limit(name, Period::Month, amount);
        narrow.resource_prefix = Some("acct_1/".into());
        narrow
    };
    let mut other = limit("other-action", Period::Day, 0);
    other.action = ActionName::parse("charge");
    let limits = vec![limit("wide", Period::Day, 10_000), narrow("narrow", 5_000), other];
    memory.store.sync_limits(limits, NOON).await.unwrap();
    let (_permit, effect) = memory.granted(memory.refund("pi_1", 4_000), NOON).await;
    let detail = memory.store.effect(&effect.id).await.unwrap().unwrap();
    assert_eq!(
        detail.reservations.iter().map(|held| held.name.as_str()).collect::<Vec<_>>(),
        ["wide", "narrow"]
    );

    let said = memory.store.admit(memory.refund("pi_2", 4_000), NOON).await.unwrap();
    assert!(matches!(said, Admitted::Refused(no) if no.sentence.contains("narrow")));
    assert_eq!(memory.used("wide", NOON).await, (0, 4_000, 0, 6_000));
    assert_eq!(memory.used("other-action", NOON).await, (0, 0, 0, 0));
}

#[tokio::test]
async fn an_amount_that_nobody_knows_is_refused_under_a_limit_only() {
    let memory = Memory::new();
    let unbounded = || {
        let mut new = memory.refund(&format!("pi_{}", memory.fresh()), 1);
        new.impact.as_mut().unwrap().amount = None;
        new
    };
    let (permit, _) = memory.granted(unbounded(), NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    let said = memory.store.admit(unbounded(), NOON).await.unwrap();
    assert!(matches!(said, Admitted::Refused(no) if no.code == Code::AmountUnbounded));
}

#[tokio::test]
async fn the_declared_limits_are_the_limits() {
    let memory = Memory::new();
    let sync = |limits| memory.store.sync_limits(limits, NOON);
    assert_eq!(sync(vec![limit("cap", Period::Day, 10_000)]).await.unwrap().len(), 1);
    assert_eq!(sync(vec![limit("cap", Period::Day, 10_000)]).await.unwrap(), Vec::<String>::new());
    let (permit, _) = memory.granted(memory.refund("pi_1", 6_000), NOON).await;

    // Lowering frees nothing.
    let lowered = sync(vec![limit("cap", Period::Day, 5_000)]).await.unwrap();
    assert_eq!(lowered, ["limit cap was 10000 usd per day, is 5000 usd per day"]);
    assert_eq!(memory.used("cap", NOON).await, (0, 6_000, 0, -1_000));

    // What is declared no more counts no more, and its hold still settles.
    let archived = sync(vec![]).await.unwrap();
    assert_eq!(archived, ["limit cap is archived; 6000 is still held on it"]);
    assert!(memory.exposure("cap", NOON).await.archived_at.is_some());
    memory.record(permit.spend(), &answered(200), NOON).await;
    assert_eq!(memory.used("cap", NOON).await, (6_000, 0, 0, -1_000));

    // Declared again, with what was consumed; in another period, counted from the same days.
    sync(vec![limit("cap", Period::Month, 9_000)]).await.unwrap();
    assert_eq!(memory.used("cap", NOON).await, (6_000, 0, 0, 3_000));
    assert_eq!(memory.store.exposures(NOON).await.unwrap().len(), 1);

    // Another dimension is another limit.
    let mut euros = limit("cap", Period::Month, 9_000);
    euros.dimension = Dimension::Money { currency: "eur".into() };
    sync(vec![euros]).await.unwrap();
    assert_eq!(memory.store.exposures(NOON).await.unwrap().len(), 2);
}

#[tokio::test]
async fn limits_through_the_api() {
    let memory = Memory::new();
    let created = memory.store.create_limit(limit("cap", Period::Day, 100), NOON).await.unwrap();
    let CreatedLimit::Created(made) = created else { panic!("{created:?}") };
    let again = memory.store.create_limit(limit("cap", Period::Day, 100), NOON).await.unwrap();
    assert_eq!(again, CreatedLimit::Exists(made.clone()));
    let taken = memory.store.create_limit(limit("cap", Period::Day, 200), NOON).await.unwrap();
    assert!(matches!(taken, CreatedLimit::NameTaken(_)));
    let changed = memory.store.change_limit(&made.id, Some("lid".into()), Some(50), NOON).await.unwrap();
    assert!(
        matches!(changed, ChangedLimit::Changed(changed) if changed.limit.name == "lid" && changed.limit.amount == 50)
    );
    let archived = memory.store.archive_limit(&made.id, NOON).await.unwrap().unwrap();
    assert_eq!(archived.archived_at, Some(NOON));
    let changed = memory.store.change_limit(&made.id, None, Some(60), NOON).await.unwrap();
    assert_eq!(changed, ChangedLimit::Missing);
    assert_eq!(usd().unit(), "usd");
}

#[tokio::test]
async fn a_limit_that_is_made_again_has_forgotten_nothing() {
    let memory = Memory::new();
    let create = async || {
        let created = memory.store.create_limit(limit("cap", Period::Day, 10_000), NOON).await.unwrap();
        let CreatedLimit::Created(made) = created else { panic!("{created:?}") };
        made
    };
    let made = create().await;
    let (permit, _) = memory.granted(memory.refund("pi_1", 7_000), NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
    memory.store.archive_limit(&made.id, NOON).await.unwrap().unwrap();
    let again = create().await;
    assert_eq!((again.id.clone(), again.available()), (made.id, 3_000));
    let over = memory.store.admit(memory.refund("pi_2", 3_001), NOON).await.unwrap();
    assert!(matches!(over, Admitted::Refused(no) if no.code == Code::LimitExceeded));
}

#[tokio::test]
async fn a_change_keeps_what_it_does_not_name_and_takes_nobodys_name() {
    let memory = Memory::new();
    let mut made = Vec::new();
    for name in ["cap", "lid"] {
        let created = memory.store.create_limit(limit(name, Period::Day, 100), NOON).await.unwrap();
        let CreatedLimit::Created(new) = created else { panic!("{created:?}") };
        made.push(new.id);
    }
    let change = async |name: Option<&str>, amount| {
        memory.store.change_limit(&made[0], name.map(str::to_owned), amount, NOON).await.unwrap()
    };
    for (name, amount, so) in [
        (None, Some(60), ("cap", 60)),
        (Some("cap"), None, ("cap", 60)),
        (None, None, ("cap", 60)),
        (Some("roof"), Some(70), ("roof", 70)),
    ] {
        let changed = change(name, amount).await;
        let ChangedLimit::Changed(changed) = changed else { panic!("{changed:?}") };
        assert_eq!((changed.limit.name.as_str(), changed.limit.amount), so);
    }
    assert_eq!(memory.count("event WHERE kind = 'limit_changed'"), 2, "a change of nothing is none");
    assert_eq!(change(Some("lid"), None).await, ChangedLimit::NameTaken);
    assert_eq!(memory.exposure("roof", NOON).await.limit.amount, 70);
    for _ in 0..2 {
        memory.store.archive_limit(&made[0], NOON).await.unwrap().unwrap();
    }
    assert_eq!(memory.count("event WHERE kind = 'limit_archived'"), 1);
    assert_eq!(change(None, Some(5)).await, ChangedLimit::Missing);
}

#[tokio::test]
async fn another_period_is_counted_from_the_same_days_and_back() {
    let memory = Memory::new();
    // 2026-11-28 and 2026-11-29, and 2026-10-29.
    for at in [NOON.minus(31 * DAY), NOON.minus(DAY), NOON] {
        memory.store.sync_limits(vec![limit("cap", Period::Day, 1_000)], at).await.unwrap();
        let (permit, _) = memory.granted(memory.refund(&format!("pi_{}", memory.fresh()), 100), at).await;
        memory.record(permit.spend(), &answered(200), at).await;
    }
    for (period, amount, consumed) in [
        (Period::Month, 1_000, 200),
        (Period::Total, 1_000, 300),
        (Period::Total, 2_000, 300),
        (Period::Day, 2_000, 100),
        (Period::Day, 1_000, 100),
        (Period::Month, 1_000, 200),
    ] {
        memory.store.sync_limits(vec![limit("cap", period, amount)], NOON).await.unwrap();
        assert_eq!(memory.used("cap", NOON).await, (consumed, 0, 0, amount - consumed), "{period:?}");
    }
}

/// Every change of a limit is in the chain, with what it covered.
#[tokio::test]
async fn what_is_written_of_a_limit() {
    let memory = Memory::new();
    memory.unknown(memory.refund("pi_1", 100), NOON).await;
    let mut narrow = limit("cap", Period::Month, 1_000);
    narrow.action = ActionName::parse("refund");
    narrow.resource_prefix = Some("acct_1/".into());
    let said = memory.store.sync_limits(vec![narrow.clone()], NOON).await.unwrap();
    let new = "limit cap is new: 1000 usd per month for refund under acct_1/";
    assert_eq!(said, [new, "limit cap holds 100 usd of 1 open effects"]);
    let id = memory.exposure("cap", NOON).await.id;
    narrow.amount = 2_000;
    memory.store.sync_limits(vec![narrow], NOON).await.unwrap();
    memory.store.sync_limits(vec![], NOON).await.unwrap();
    let shell = memory.shell();
    let mut events =
        shell.prepare("SELECT kind, detail FROM event WHERE kind LIKE 'limit%' ORDER BY seq").unwrap();
    let written = events
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .unwrap()
        .map(|event| event.map(|(kind, detail)| (kind, serde_json::from_str(&detail).unwrap())))
        .collect::<Result<Vec<(String, serde_json::Value)>, _>>()
        .unwrap();
    let declared = |amount: i64, effects: u64, held: i64| {
        serde_json::json!({
            "limit": id.as_str(), "name": "cap", "dimension": "money", "unit": "usd", "period": "month",
            "amount": amount, "action": "refund", "resource_prefix": "acct_1/", "held_effects": effects,
            "held_amount": held,
        })
    };
    let archived = serde_json::json!({ "limit": id.as_str(), "name": "cap", "reserved": 100 });
    let wanted = [
        ("limit_made".to_owned(), declared(1_000, 1, 100)),
        ("limit_changed".to_owned(), declared(2_000, 0, 0)),
        ("limit_archived".to_owned(), archived),
    ];
    assert_eq!(written, wanted);
}

#[tokio::test]
async fn a_dependency_is_met_by_its_outcome_only() {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 100), NOON).await;
    let dependent = || {
        let mut new = memory.refund("pi_2", 100);
        new.depends_on = vec![(unknown.id.clone(), Outcome::Succeeded)];
        new
    };
    let said = memory.store.admit(dependent(), NOON).await.unwrap();
    assert!(
        matches!(said, Admitted::Refused(no) if no.code == Code::DependencyUnmet && no.effect == Some(unknown.id.clone()))
    );
    memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, NOON.plus(HOUR)).await.unwrap();
    let (_permit, effect) = memory.granted(dependent(), NOON.plus(HOUR)).await;
    let detail = memory.store.effect(&effect.id).await.unwrap().unwrap();
    assert_eq!(detail.depends_on, [(unknown.id, Outcome::Succeeded)]);
}
