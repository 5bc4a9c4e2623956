//! What is open on a subject keeps other writes from it, by whatever name they come, and when they are claimed as well.

use oncegate_policy::action::ActionName;
use oncegate_policy::admission::CallerKey;
use oncegate_policy::fingerprint::Said;
use oncegate_policy::near::NearSubject;
use oncegate_policy::refusal::Code;
use oncegate_store::admit::{Admitted, NewEffect, Realm};
use oncegate_store::ready::ReadyClaim;
use serde_json::json;

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
        realm: realm.map(|name| Realm {
            name: name.to_owned(),
            said: Said::of(&json!({ "amount": amount }), &[]),
            apart: vec![],
        }),
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

/// What is open is known under another name of its action by its key and by what it says, whether it has a subject or not.
#[tokio::test]
async fn p6_what_is_open_is_not_asked_for_again_under_another_name() {
    let memory = Memory::new();
    let called = |name: &str, realm: &str, key: Option<&str>, amount: i64| {
        let said = Said::of(&json!({ "amount": amount }), &[]);
        let mut new = memory.refund("pi_1", amount);
        new.action = ActionName::parse(name).unwrap();
        new.subject = None;
        new.asked.caller_key = None;
        new.asked.declared_key = key.map(str::to_owned);
        new.asked.fingerprint = said.of_action(name);
        new.realm = Some(Realm { name: realm.to_owned(), said, apart: vec![] });
        new
    };
    let open = memory.unknown(called("refund", "route/1", Some("refund:7"), 600), NOON).await;
    for (key, amount) in [(None, 600), (Some("refund:8"), 600), (Some("refund:7"), 500)] {
        let again = memory.store.admit(called("refunds", "route/1", key, amount), NOON).await.unwrap();
        let Admitted::Refused(no) = again else { panic!("{key:?} {amount} {again:?}") };
        assert_eq!(
            (no.code, no.effect.as_ref()),
            (Code::UnresolvedEffect, Some(&open.id)),
            "{key:?} {amount}"
        );
    }
    // Under its own name it is the repeat that it is.
    let own = memory.store.admit(called("refund", "route/1", Some("refund:7"), 600), NOON).await.unwrap();
    assert!(matches!(own, Admitted::Repeat(view) if view.id == open.id));
    // A key that somebody chose is taken at its word, and elsewhere the same words mean another thing.
    let mut chosen = called("refunds", "route/1", None, 600);
    chosen.asked.caller_key = Some(CallerKey { text: "another".into(), generated: false });
    for new in [
        chosen,
        called("refunds", "route/1", Some("refund:9"), 700),
        called("orders", "route/2", Some("refund:7"), 600),
    ] {
        drop(memory.granted(new, NOON).await);
    }
    // What waits for a person is asked for once as well.
    let parked = NewEffect { approval: Some(DAY), ..called("refund", "route/1", None, 900) };
    let (waiting, _) = park(&memory, parked).await;
    let again = memory.store.admit(called("refunds", "route/1", None, 900), NOON).await.unwrap();
    assert!(matches!(again, Admitted::Refused(no) if no.effect == Some(waiting.id)));
}
