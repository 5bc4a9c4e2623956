//! What a replay leaves in the record, and what may still refuse it when it is claimed.

use oncegate_policy::exchange::Exchange;
use oncegate_policy::reconcile::Looker;
use oncegate_store::ready::PreparedRequest;
use oncegate_store::replay::{ReplayRefusal, Replaying};
use oncegate_store::view::{AttemptKind, EffectDetail};

use crate::support::{Memory, NOON, answered, caller, lost, matched, not_sent, seen};

/// One replay of an unknown effect, and everything that is known of the effect then. `None`: its permit is dropped.
async fn replayed(exchange: Option<&Exchange>) -> EffectDetail {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 100), NOON).await;
    let begun = memory.store.begin_replay(&unknown.id, &caller("ops"), |_| Ok(()), NOON).await.unwrap();
    let Replaying::Granted { permit, .. } = begun else { panic!("{begun:?}") };
    match exchange {
        Some(exchange) => {
            drop(memory.store.record_replay(permit.spend(), seen(exchange), NOON).await.unwrap())
        }
        None => {
            drop(permit);
            memory.store.sweep(NOON).await.unwrap();
        }
    }
    memory.store.effect(&unknown.id).await.unwrap().unwrap()
}

/// What is declared of the provider may have changed since it was read, and only the record knows how the effect stands now.
/// Whoever may not have it at all is told so first; what is refused leaves nothing behind.
#[tokio::test]
async fn p2_a_replay_is_judged_inside_its_claim() {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 100), NOON).await;
    let events = memory.count("event");
    for (by, refused) in [("agent", ReplayRefusal::OwnEffect), ("ops", ReplayRefusal::WindowClosed)] {
        let seen = unknown.clone();
        let judge = move |prepared: &PreparedRequest| {
            assert_eq!(prepared.view, seen);
            assert!(String::from_utf8_lossy(&prepared.request.body).contains("BODYMARK"));
            Err(ReplayRefusal::WindowClosed)
        };
        let begun = memory.store.begin_replay(&unknown.id, &caller(by), judge, NOON).await.unwrap();
        assert!(
            matches!(&begun, Replaying::Refused(why, view) if *why == refused && *view == unknown),
            "{begun:?}"
        );
    }
    assert_eq!((memory.count("event"), memory.count("attempt WHERE kind = 'replay'")), (events, 0));
    // Of what is not unknown nothing is asked.
    memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, NOON).await.unwrap();
    let begun =
        memory.store.begin_replay(&unknown.id, &caller("ops"), |_| panic!("it is settled"), NOON).await;
    assert!(matches!(begun, Ok(Replaying::Refused(ReplayRefusal::NotUnknown, _))), "{begun:?}");
}

/// Evidence is the provider's only where the provider has said something.
#[tokio::test]
async fn p3_a_replay_without_an_answer_is_no_word_of_the_provider() {
    let silence = "this says nothing of the first try";
    for (exchange, author, text) in [
        (not_sent(), "dispatch", format!("replay: never sent: connect: refused; {silence}")),
        (lost(), "dispatch", format!("replay: answer lost (awaiting_head): connection reset; {silence}")),
        (answered(401), "provider", format!("replay: the provider answered 401; {silence}")),
        (answered(200), "provider", "replay: the provider answered 200".to_owned()),
    ] {
        let fact = replayed(Some(&exchange)).await.evidence.pop().unwrap();
        assert_eq!((fact.kind.as_str(), fact.author.as_deref()), ("replayed", Some(author)), "{}", fact.text);
        assert_eq!(fact.text, text);
    }
}

/// Whoever was to send it is gone, and had not begun: no answer can have been lost.
#[tokio::test]
async fn a_replay_that_nobody_began_to_send_is_said_to_be_unsent() {
    let mut detail = replayed(None).await;
    let attempt = detail.attempts.pop().unwrap();
    assert_eq!((attempt.kind, attempt.seen.as_deref()), (AttemptKind::Replay, Some("not_sent")));
    let fact = detail.evidence.pop().unwrap();
    assert_eq!(fact.text, "never sent: given_up: the task that was to send it ended");
    assert_eq!(detail.view.stage.outcome().word(), "unknown");
}
