//! Unknown leaves by evidence, and by nothing else (P3).

use std::time::Duration;

use oncegate_policy::classify::Verdict;
use oncegate_policy::effect::Stage;
use oncegate_policy::reconcile::{Finding, Looker};
use oncegate_policy::time::Timestamp;
use oncegate_store::Seen;
use oncegate_store::look::Found;
use oncegate_store::resolve::{Resolution, ResolvedAs};
use oncegate_store::view::ResponseSource;

use crate::support::{
    DAY, HOUR, Memory, NOON, answered, caller, lost, matched, no_match, provider_failed, word,
};

fn next_look(stage: &Stage) -> Option<Timestamp> {
    match stage {
        Stage::Reconciling { next_look_at, .. } => *next_look_at,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_match_settles_and_its_record_answers_repeats() {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 100), NOON).await;
    assert_eq!(word(&unknown), ("unknown", "unknown", "unverified"));
    assert_eq!(unknown.last_loss.as_ref().unwrap().cause, "connection reset");
    let first = NOON.plus(Duration::from_secs(30));
    assert_eq!(memory.store.next_look(NOON).await.unwrap(), Some(first));
    assert_eq!(memory.store.next_look(first).await.unwrap(), None, "it had its turn");
    assert!(memory.store.due(NOON, 10, &[]).await.unwrap().is_empty());
    let due = memory.store.due(NOON.plus(HOUR), 10, &[]).await.unwrap();
    assert_eq!((due.len(), due[0].memory.contains("pi_1")), (1, true));

    let found =
        memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, NOON.plus(HOUR)).await.unwrap();
    let Found::Settled(view) = found else { panic!("{found:?}") };
    assert_eq!(word(&view), ("succeeded", "confirmed", "provider"));
    let kept = view.response.unwrap();
    assert_eq!(
        (kept.status, kept.source, kept.body.as_slice()),
        (200, ResponseSource::ReadBack, &br#"{"id":"re_1","object":"refund"}"#[..])
    );
    assert_eq!(memory.store.next_look(NOON).await.unwrap(), None);
    assert_eq!(memory.store.memory(&view.id).await.unwrap().unwrap().memory, "");
}

#[tokio::test]
async fn nothing_found_settles_nothing_whatever_the_age() {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 100), NOON).await;
    let mut at = NOON;
    for look in 1..=20_u32 {
        at = at.plus(9 * DAY);
        let finding = if look % 2 == 0 { no_match() } else { Finding::Unreadable { what: "503".into() } };
        let found = memory.store.apply_finding(&unknown.id, finding, Looker::Schedule, at).await.unwrap();
        let Found::StillUnknown(view) = found else { panic!("{found:?}") };
        assert_eq!(view.looks, look);
    }
    assert_eq!(next_look(&memory.view(&unknown.id).await.stage), Some(at.plus(HOUR)));
}

#[tokio::test]
async fn the_one_who_asked_never_frees_its_own_hold_nor_puts_a_look_off() {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 100), NOON).await;
    let before = next_look(&unknown.stage);
    for finding in [provider_failed(), no_match(), provider_failed()] {
        let looker = Looker::Caller("agent".into());
        let found = memory.store.apply_finding(&unknown.id, finding, looker, NOON.plus(DAY)).await.unwrap();
        let Found::StillUnknown(view) = found else { panic!("{found:?}") };
        assert_eq!(next_look(&view.stage), before);
    }
    let found = memory
        .store
        .apply_finding(&unknown.id, provider_failed(), Looker::Schedule, NOON.plus(DAY))
        .await
        .unwrap();
    let Found::Settled(view) = found else { panic!("{found:?}") };
    assert_eq!(word(&view), ("failed", "failed", "provider"));
    let detail = memory.store.effect(&view.id).await.unwrap().unwrap();
    assert_eq!(detail.attempts.iter().filter(|look| look.author.as_deref() == Some("agent")).count(), 3);
}

#[tokio::test]
async fn what_is_planned_while_a_pass_is_on_its_way_is_not_due_in_it() {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 100), NOON).await;
    for _ in 0..20 {
        memory.store.apply_finding(&unknown.id, no_match(), Looker::Schedule, NOON).await.unwrap();
    }
    assert_eq!(next_look(&memory.view(&unknown.id).await.stage), Some(NOON.plus(HOUR)));
    let pass_began = NOON.minus(Duration::from_secs(1));
    assert!(memory.store.due(pass_began, 10, &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_clock_that_was_set_back_puts_no_look_off() {
    let memory = Memory::new();
    memory.unknown(memory.refund("pi_1", 100), NOON).await;
    assert!(
        memory.store.due(NOON.minus(HOUR / 2), 10, &[]).await.unwrap().is_empty(),
        "half an hour is nothing"
    );
    assert_eq!(memory.store.due(NOON.minus(6 * HOUR), 10, &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_asked_waits_for_a_person() {
    let memory = Memory::new();
    let mut new = memory.refund("pi_1", 100);
    new.can_read_back = false;
    let unknown = memory.unknown(new, NOON).await;
    assert_eq!(next_look(&unknown.stage), None);
    assert!(memory.store.due(NOON.plus(300 * DAY), 10, &[]).await.unwrap().is_empty());
}

/// The server was busy, or the action was not declared for a minute: that is no look, and costs nobody a confirmation. It is
/// tried again, each time after twice as long.
#[tokio::test]
async fn a_look_that_could_not_be_completed_is_made_again() {
    let memory = Memory::new();
    let (permit, _) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let id = memory.record(permit.spend(), &answered(200), NOON).await.id;
    let first_after = Duration::from_secs(30);
    let is_due = async |at: Timestamp| {
        let due = memory.store.unconfirmed(at.minus(first_after), 10, &[]).await.unwrap();
        assert!(due.iter().all(|due| due.memory.contains("pi_1")));
        !due.is_empty()
    };
    let moment = Duration::from_millis(1);
    let mut at = NOON.plus(first_after);
    for wait in [1, 2, 4, 8] {
        assert!(!is_due(at.minus(moment)).await && is_due(at).await, "{wait}");
        let busy = Finding::Unreadable { what: "503".into() };
        memory.store.confirm(&id, busy, at).await.unwrap();
        at = at.plus(first_after * wait);
    }
    let found = memory.store.confirm(&id, matched(), at).await.unwrap();
    assert!(matches!(&found, Found::Settled(view) if word(view).1 == "confirmed"), "{found:?}");
    assert!(!is_due(at.plus(DAY)).await);
}

#[tokio::test]
async fn an_acknowledged_effect_may_be_confirmed_and_nothing_else() {
    let memory = Memory::new();
    let (permit, _) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let acknowledged = memory.record(permit.spend(), &answered(200), NOON).await;
    assert_eq!(word(&acknowledged), ("succeeded", "acknowledged", "unverified"));
    assert_eq!(memory.store.unconfirmed(NOON, 10, &[]).await.unwrap().len(), 1);
    assert!(memory.store.unconfirmed(NOON.minus(HOUR), 10, &[]).await.unwrap().is_empty());
    let found = memory.store.confirm(&acknowledged.id, matched(), NOON).await.unwrap();
    let Found::Settled(view) = found else { panic!("{found:?}") };
    assert_eq!(word(&view), ("succeeded", "confirmed", "provider"));
    assert_eq!(view.response.unwrap().source, ResponseSource::Dispatch);
    assert!(memory.store.unconfirmed(NOON, 10, &[]).await.unwrap().is_empty());

    let (permit, _) = memory.granted(memory.refund("pi_2", 100), NOON).await;
    let acknowledged = memory.record(permit.spend(), &answered(200), NOON).await;
    let found = memory.store.confirm(&acknowledged.id, provider_failed(), NOON).await.unwrap();
    let Found::AlreadySettled(view) = found else { panic!("{found:?}") };
    assert_eq!(word(&view), ("succeeded", "acknowledged", "unverified"));
    let detail = memory.store.effect(&view.id).await.unwrap().unwrap();
    assert!(detail.evidence.last().unwrap().text.contains("CONTRADICTS"));

    let unknown = memory.unknown(memory.refund("pi_3", 100), NOON).await;
    assert!(matches!(
        memory.store.confirm(&unknown.id, matched(), NOON).await.unwrap(),
        Found::StillUnknown(_)
    ));
}

#[tokio::test]
async fn a_late_answer_settles_and_says_that_it_was_late() {
    let memory = Memory::new();
    for (exchange, outcome) in [(answered(200), "succeeded"), (answered(402), "failed"), (lost(), "unknown")]
    {
        let subject = format!("pi_{}", memory.fresh());
        let (permit, effect) = memory.granted(memory.refund(&subject, 100), NOON).await;
        let claim = permit.spend();
        let told = memory
            .store
            .mark_unknown(&claim, "no answer within 12 s", NOON.plus(12 * HOUR / 3_600))
            .await
            .unwrap();
        assert_eq!(told.stage.outcome().word(), "unknown");
        // Nobody sweeps what somebody still holds.
        assert_eq!(memory.store.sweep(NOON.plus(HOUR)).await.unwrap(), []);
        let view = memory.record(claim, &exchange, NOON.plus(HOUR)).await;
        assert_eq!(view.stage.outcome().word(), outcome);
        let detail = memory.store.effect(&effect.id).await.unwrap().unwrap();
        let last = detail.evidence.last().unwrap();
        assert!(last.text.starts_with("late, 3588 s after"), "{}", last.text);
    }
}

#[tokio::test]
async fn a_late_answer_never_changes_what_was_settled() {
    let memory = Memory::new();
    let (permit, effect) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let claim = permit.spend();
    memory.store.mark_unknown(&claim, "no answer", NOON).await.unwrap();
    memory.store.apply_finding(&effect.id, provider_failed(), Looker::Schedule, NOON).await.unwrap();
    let view = memory.record(claim, &answered(200), NOON).await;
    assert_eq!(word(&view), ("failed", "failed", "provider"));
    assert_eq!(view.response, None);
    let detail = memory.store.effect(&effect.id).await.unwrap().unwrap();
    assert!(detail.evidence.last().unwrap().text.contains("CONTRADICTS"));
    assert_eq!(detail.attempts[0].status, Some(200));
}

#[tokio::test]
async fn an_answer_that_said_nothing_is_not_given_as_if_it_had() {
    let memory = Memory::new();
    let (permit, effect) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let unknown = memory.record(permit.spend(), &answered(500), NOON).await;
    assert_eq!(unknown.response.unwrap().status, 500);
    let bare = Finding::Matched { what: "refund".into(), reference: None, record: None };
    memory.store.apply_finding(&effect.id, bare, Looker::Schedule, NOON).await.unwrap();
    assert_eq!(memory.view(&effect.id).await.response, None);
}

#[tokio::test]
async fn what_is_kept_of_an_answer() {
    let memory = Memory::new();
    let (permit, _) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let view = memory.record(permit.spend(), &answered(200), NOON).await;
    let kept = view.response.unwrap();
    let names: Vec<_> = kept.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((kept.status, names), (200, vec!["content-type", "request-id"]));
    assert_eq!(kept.body, br#"{"status":200}"#);
}

#[tokio::test]
async fn never_sent_is_failed_with_its_proof() {
    let memory = Memory::new();
    let (permit, _) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let view = memory.record(permit.spend(), &crate::support::not_sent(), NOON).await;
    assert_eq!(word(&view), ("failed", "failed", "unverified"));
    assert_eq!(view.never_sent.unwrap().step, "connect");
}

/// A 2xx that did not say that it was done is no answer for repeats, whoever settles the effect.
#[tokio::test]
async fn what_proved_nothing_is_not_given_as_a_success() {
    for by_a_person in [false, true] {
        let memory = Memory::new();
        let (permit, effect) = memory.granted(memory.refund("pi_1", 100), NOON).await;
        let unclear = Seen::of(Verdict::Unknown, &answered(200));
        let view = memory.store.record(permit.spend(), unclear, NOON).await.unwrap();
        assert!(view.response.is_some(), "it is shown as what it is");
        if by_a_person {
            let resolution = Resolution {
                outcome: ResolvedAs::Succeeded,
                reason: "seen in the dashboard".into(),
                partial_effect: None,
                actual_impact: vec![],
                external_reference: None,
            };
            memory.store.resolve(&effect.id, &caller("ops"), resolution, NOON).await.unwrap();
        } else {
            let found = Finding::Matched { what: "a search".into(), reference: None, record: None };
            memory.store.apply_finding(&effect.id, found, Looker::Schedule, NOON).await.unwrap();
        }
        let view = memory.view(&effect.id).await;
        assert_eq!((view.stage.outcome().word(), view.response), ("succeeded", None));
    }
}
