//! What is open on a subject keeps other writes from it, by whatever name they come, and when they are claimed as well.

use oncegate_policy::action::ActionName;
use oncegate_policy::near::NearSubject;
use oncegate_policy::refusal::Code;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::ready::ReadyClaim;

use crate::law::{approve, park, parked};
use crate::support::{DAY, Memory, NOON};

/// A charge that could not be read, and a payment intent: they may be the same payment, whichever is asked for first.
#[tokio::test]
async fn p6_what_is_approved_is_fenced_by_every_name_of_its_subject() {
    let intent =
        || (NearSubject::Beginning("unread_charge/".into()), "payment_intent/pi_9", "unread_charge/ch_9");
    let charge =
        || (NearSubject::Beginning("payment_intent/".into()), "unread_charge/ch_9", "payment_intent/pi_9");
    let named = || (NearSubject::Named("charge/ch_9".into()), "payment_intent/pi_9", "charge/ch_9");
    for (near, subject, other) in [intent(), charge(), named()] {
        let memory = Memory::new();
        let new = NewEffect { near: vec![near], ..parked(&memory, subject, 600) };
        let (view, approval) = park(&memory, new).await;
        let open = memory.unknown(memory.refund(other, 100), NOON).await;
        approve(&memory, &approval, NOON).await;
        let claimed = memory.store.claim_ready(&view.id, NOON).await.unwrap();
        let ReadyClaim::Rejected(no, _) = claimed else { panic!("claimed on {subject}") };
        assert_eq!((no.code, no.effect), (Code::UnresolvedEffect, Some(open.id)), "{subject}");
    }
}

/// An action that has got another name, or that another one takes over from, is asked for the same things.
#[tokio::test]
async fn p6_the_fence_holds_in_a_realm_whatever_an_action_is_called() {
    let memory = Memory::new();
    let called = |name: &str, realm: Option<&str>, amount| NewEffect {
        action: ActionName::parse(name).unwrap(),
        realm: realm.map(str::to_owned),
        ..memory.refund("pi_1", amount)
    };
    let open = memory.unknown(called("refund", Some("stripe.refund"), 600), NOON).await;
    let varied = memory.store.admit(called("refunds", Some("stripe.refund"), 500), NOON).await.unwrap();
    let Admitted::Refused(no) = varied else { panic!("{varied:?}") };
    assert_eq!((no.code, no.effect), (Code::UnresolvedEffect, Some(open.id)));
    // Elsewhere the same word means another thing.
    for (name, realm) in [("refunds", Some("route/1")), ("orders", None)] {
        drop(memory.granted(called(name, realm, 500), NOON).await);
    }
    // When it is claimed, too.
    let new = NewEffect { approval: Some(DAY), ..called("later", Some("stripe.refund"), 1) };
    assert!(matches!(memory.store.admit(new, NOON).await.unwrap(), Admitted::Refused(_)));
    let new = NewEffect {
        approval: Some(DAY),
        subject: Some("pi_2".into()),
        ..called("later", Some("stripe.refund"), 1)
    };
    let (view, approval) = park(&memory, new).await;
    let begun = NewEffect { subject: Some("pi_2".into()), ..called("refund", Some("stripe.refund"), 2) };
    memory.unknown(begun, NOON).await;
    approve(&memory, &approval, NOON).await;
    let claimed = memory.store.claim_ready(&view.id, NOON).await.unwrap();
    assert!(matches!(claimed, ReadyClaim::Rejected(no, _) if no.code == Code::UnresolvedEffect));
}
