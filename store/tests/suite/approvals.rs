//! From a question to a claim: what a person's yes and no move, and what stands in the record afterwards.

use oncegate_policy::effect::Outcome;
use oncegate_policy::id::{ApprovalId, EffectId};
use oncegate_policy::limit::Period;
use oncegate_policy::reconcile::Looker;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::approval::{Decided, PARKED_BYTES_MAX, PARKED_MAX};
use oncegate_store::ready::ReadyClaim;
use oncegate_store::view::EffectView;

use crate::support::{DAY, HOUR, Memory, NOON, caller, limit, matched};

async fn park(memory: &Memory, mut new: NewEffect) -> (EffectView, ApprovalId) {
    new.approval = Some(DAY);
    match memory.store.admit(new, NOON).await.unwrap() {
        Admitted::Parked(view) => {
            assert_eq!(view, memory.view(&view.id).await);
            let approval = view.approval.clone().unwrap();
            (view, approval)
        }
        other => panic!("{other:?}"),
    }
}

async fn approved(memory: &Memory, new: NewEffect) -> EffectId {
    let (view, approval) = park(memory, new).await;
    let decided = memory.store.approve(&approval, &caller("ops"), None, NOON).await.unwrap();
    assert!(matches!(decided, Decided::Done(_)), "{decided:?}");
    view.id
}

/// Author and text of each fact, in order.
async fn facts(memory: &Memory, effect: &EffectId) -> Vec<(String, String)> {
    let evidence = memory.store.effect(effect).await.unwrap().unwrap().evidence;
    evidence.into_iter().map(|fact| (fact.author.unwrap_or_default(), fact.text)).collect()
}

/// Kind and stage of each event, in order: what the chain says.
fn moves(memory: &Memory, effect: &EffectId) -> Vec<(String, String)> {
    let shell = memory.shell();
    let mut events = shell
        .prepare("SELECT kind, stage FROM event WHERE effect = ?1 AND stage IS NOT NULL ORDER BY seq")
        .unwrap();
    let rows = events.query_map([effect.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn a_decision_says_who_and_why() {
    let memory = Memory::new();
    let ops = caller("ops");
    let moment = Timestamp(NOON.plus(DAY).0 - 1);
    let fact = |author: &str, text: &str| (author.to_owned(), text.to_owned());
    let (yes, approval) = park(&memory, memory.refund("pi_1", 1)).await;
    // A moment before it lapses is in time.
    assert_eq!(memory.store.expire_approvals(moment).await.unwrap(), []);
    let Decided::Done(view) = memory.store.approve(&approval, &ops, Some("go".into()), moment).await.unwrap()
    else {
        panic!("in time")
    };
    assert_eq!((view.status.as_str(), view.effect), ("approved", Some(yes.id.clone())));
    assert_eq!((view.decided_by, view.decided_at), (Some(ops.clone()), Some(moment)));
    assert_eq!(view.title, "refund: 0.01 USD on pi_1");
    assert_eq!(facts(&memory, &yes.id).await, [fact("ops", "approved by ops: go")]);

    let (no, approval) = park(&memory, memory.refund("pi_2", 1)).await;
    memory.store.deny(&approval, &ops, None, NOON).await.unwrap();
    assert_eq!(facts(&memory, &no.id).await, [fact("ops", "denied by ops")]);

    let (lapsed, _) = park(&memory, memory.refund("pi_3", 1)).await;
    let expired = memory.store.expire_approvals(NOON.plus(DAY)).await.unwrap();
    assert_eq!(expired, std::slice::from_ref(&lapsed.id));
    assert_eq!(facts(&memory, &lapsed.id).await, [fact("schedule", "nobody decided in time")]);

    for (effect, last, stage) in
        [(&yes, "approved", "ready"), (&no, "denied", "rejected"), (&lapsed, "expired", "rejected")]
    {
        let parked = ("parked".to_owned(), "awaiting_approval".to_owned());
        assert_eq!(moves(&memory, &effect.id), [parked, (last.to_owned(), stage.to_owned())]);
        assert_eq!(memory.view(&effect.id).await.stage.word(), stage);
    }
    let missing = ApprovalId::from_ulid(&crate::support::ulid(9_999));
    assert_eq!(memory.store.approve(&missing, &ops, None, NOON).await.unwrap(), Decided::Missing);
    assert_eq!(memory.store.approval(&missing).await.unwrap(), None);
}

#[tokio::test]
async fn a_question_that_cannot_be_ended_keeps_no_other_from_its_end() {
    let memory = Memory::new();
    let (_, spoilt) = park(&memory, memory.refund("pi_1", 1)).await;
    let (other, _) = park(&memory, memory.refund("pi_2", 1)).await;
    let shell = memory.shell();
    shell.execute_batch("DROP TRIGGER approval_decided_once").unwrap();
    shell.execute("UPDATE approval SET payload = '{' WHERE id = ?1", [spoilt.as_str()]).unwrap();
    let expired = memory.store.expire_approvals(NOON.plus(DAY)).await.unwrap();
    assert_eq!(expired, [other.id]);
    assert_eq!(memory.store.expire_approvals(NOON.plus(DAY)).await.unwrap(), []);
}

#[tokio::test]
async fn what_it_depends_on_must_still_be_so_when_it_is_claimed() {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 1), NOON).await;
    let dependent = |subject: &str| {
        let mut new = memory.refund(subject, 1);
        new.depends_on = vec![(unknown.id.clone(), Outcome::Unknown)];
        new
    };
    let first = approved(&memory, dependent("pi_2")).await;
    let claimed = memory.store.claim_ready(&first, NOON).await.unwrap();
    assert!(matches!(&claimed, ReadyClaim::Granted { .. }), "{claimed:?}");
    let second = approved(&memory, dependent("pi_3")).await;
    memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, NOON).await.unwrap();
    let claimed = memory.store.claim_ready(&second, NOON).await.unwrap();
    let ReadyClaim::Rejected(refusal, view) = claimed else { panic!("{claimed:?}") };
    assert_eq!((refusal.code, &refusal.effect), (Code::DependencyUnmet, &Some(unknown.id)));
    assert_eq!(view, memory.view(&second).await);
    assert_eq!(facts(&memory, &second).await.last().unwrap().1, refusal.sentence);
    assert_eq!(moves(&memory, &second).last().unwrap().1, "rejected");
    assert_eq!(memory.store.prepared(&second).await.unwrap(), None);
}

#[tokio::test]
async fn a_claim_takes_room_and_sends_what_was_prepared() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 1_000)], NOON).await.unwrap();
    let id = approved(&memory, memory.refund("pi_1", 600)).await;
    let prepared = memory.store.prepared(&id).await.unwrap().unwrap();
    assert_eq!(prepared.request.method, "POST");
    assert_eq!(prepared.request.url, "https://api.stripe.com/v1/refunds?expand=charge");
    assert!(prepared.memory.contains("pi_1"), "{}", prepared.memory);
    let at = NOON.plus(HOUR);
    let claimed = memory.store.claim_ready(&id, at).await.unwrap();
    let ReadyClaim::Granted { permit, effect } = claimed else { panic!("{claimed:?}") };
    assert_eq!((permit.effect(), &effect), (&id, &memory.view(&id).await));
    assert_eq!((effect.claimed_at, memory.used("cap", NOON).await), (Some(at), (0, 600, 0, 400)));
    assert_eq!(moves(&memory, &id).last().unwrap(), &("claimed".to_owned(), "dispatching".to_owned()));
    // Nobody rejects what is on its way.
    let gone = || Refusal::new(Code::CredentialUnavailable, "The credential is gone.");
    assert_eq!(memory.store.reject_ready(&id, gone(), NOON).await.unwrap(), None);
    assert_eq!(memory.view(&id).await.stage.word(), "dispatching");
    let missing = EffectId::from_ulid(&crate::support::ulid(9_999));
    assert_eq!(memory.store.reject_ready(&missing, gone(), NOON).await.unwrap(), None);
    assert!(matches!(memory.store.claim_ready(&missing, NOON).await.unwrap(), ReadyClaim::Missing));
}

#[tokio::test]
async fn what_is_approved_can_be_denied_until_it_is_claimed() {
    let memory = Memory::new();
    let (view, approval) = park(&memory, memory.refund("pi_1", 600)).await;
    let yes = memory.store.approve(&approval, &caller("ops"), None, NOON).await.unwrap();
    assert!(matches!(yes, Decided::Done(_)));
    let own = memory.store.deny(&approval, &caller("agent"), None, NOON).await.unwrap();
    assert!(matches!(own, Decided::OwnRequest(_)));
    let stopped = memory.store.deny(&approval, &caller("ops2"), Some("no".into()), NOON).await.unwrap();
    assert!(
        matches!(stopped, Decided::Done(asked) if asked.decided_by == Some(caller("ops"))),
        "the yes stays"
    );
    assert!(matches!(memory.store.claim_ready(&view.id, NOON).await.unwrap(), ReadyClaim::NotReady(denied)
        if denied.stage.invocation_status() == "denied"));
    assert_eq!((memory.count("request"), memory.count("hold")), (0, 0));
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

/// A caller's requests are kept until somebody decides: so many, and so many bytes of them, and no more.
#[tokio::test]
async fn what_one_caller_parks_is_bounded() {
    let memory = Memory::new();
    let mut first = None;
    for count in 0..PARKED_MAX {
        let (_, approval) = park(&memory, memory.refund(&format!("pi_{count}"), 1)).await;
        first.get_or_insert(approval);
    }
    let parks = |mut new: NewEffect, at| {
        new.approval = Some(DAY);
        memory.store.admit(new, at)
    };
    let refused = |admitted| match admitted {
        Admitted::Refused(refusal) => assert_eq!(refusal.code, Code::Overloaded),
        other => panic!("{other:?}"),
    };
    refused(parks(memory.refund("pi_more", 1), NOON).await.unwrap());
    // A repeat of what waits is still one, and another caller has its own.
    assert!(matches!(parks(memory.refund("pi_0", 1), NOON).await.unwrap(), Admitted::Repeat(_)));
    let other = NewEffect { caller: caller("other-agent"), ..memory.refund("pi_other", 1) };
    park(&memory, other).await;
    memory.store.deny(&first.unwrap(), &caller("ops"), None, NOON).await.unwrap();
    park(&memory, memory.refund("pi_more", 1)).await;
    refused(parks(memory.refund("pi_most", 1), NOON).await.unwrap());
    // What has lapsed counts no more, swept or not.
    assert!(matches!(parks(memory.refund("pi_most", 1), NOON.plus(DAY)).await.unwrap(), Admitted::Parked(_)));
}

#[tokio::test]
async fn so_are_the_bytes_of_it() {
    let memory = Memory::new();
    let of = |subject: &str, bytes: usize| {
        let mut new = memory.refund(subject, 1);
        new.request.body = vec![b'x'; bytes];
        new
    };
    let max = usize::try_from(PARKED_BYTES_MAX).unwrap();
    park(&memory, of("pi_1", max - 10)).await;
    park(&memory, of("pi_2", 10)).await;
    let one_more = NewEffect { approval: Some(DAY), ..of("pi_3", 1) };
    match memory.store.admit(one_more, NOON).await.unwrap() {
        Admitted::Refused(refusal) => assert_eq!(refusal.code, Code::Overloaded),
        other => panic!("{other:?}"),
    }
    assert!(matches!(memory.store.admit(of("pi_3", 1), NOON).await.unwrap(), Admitted::Granted { .. }));
}
