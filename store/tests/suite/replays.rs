//! What a replay leaves in the record, and what may still refuse it when it is claimed.

use oncegate_policy::exchange::Exchange;
use oncegate_store::replay::Replaying;
use oncegate_store::view::{AttemptKind, EffectDetail};

use crate::support::{Memory, NOON, answered, caller, lost, not_sent, seen};

/// One replay of an unknown effect, and everything that is known of the effect then. `None`: its permit is dropped.
async fn replayed(exchange: Option<&Exchange>) -> EffectDetail {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 100), NOON).await;
    let begun = memory.store.begin_replay(&unknown.id, &caller("ops"), NOON).await.unwrap();
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
