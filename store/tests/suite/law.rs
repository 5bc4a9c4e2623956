//! Approvals, replay, resolve, halt, retention: the rest of what may run, wait and settle.

use oncegate_policy::id::ApprovalId;
use oncegate_policy::limit::Period;
use oncegate_policy::reconcile::Looker;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::approval::{Decided, NewApproval};
use oncegate_store::prune::Pruned;
use oncegate_store::ready::ReadyClaim;
use oncegate_store::replay::{ReplayRefusal, Replaying};
use oncegate_store::resolve::{PartialEffect, Resolution, Resolved, ResolvedAs};
use oncegate_store::view::{EffectView, ResponseSource};

use crate::support::{
    DAY, HOUR, Memory, NOON, answered, caller, limit, lost, matched, not_sent, seen, usd, with_key, word,
};

pub(crate) fn parked(memory: &Memory, subject: &str, amount: i64) -> NewEffect {
    let mut new = memory.refund(subject, amount);
    new.approval = Some(DAY);
    new
}

pub(crate) async fn park(memory: &Memory, new: NewEffect) -> (EffectView, ApprovalId) {
    match memory.store.admit(new, NOON).await.unwrap() {
        Admitted::Parked(view) => {
            let approval = view.approval.clone().unwrap();
            (view, approval)
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn approve(memory: &Memory, approval: &ApprovalId, at: Timestamp) {
    let decided = memory.store.approve(approval, &caller("ops"), None, at).await.unwrap();
    assert!(matches!(&decided, Decided::Done(view) if view.status == "approved"), "{decided:?}");
}

#[tokio::test]
async fn an_approved_effect_is_dispatched_once_and_survives_restarts() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Total, 1_000)], NOON).await.unwrap();
    let (view, approval) = park(&memory, parked(&memory, "pi_1", 600)).await;
    assert_eq!(
        (word(&view), view.stage.invocation_status()),
        (("not_dispatched", "pending", "unverified"), "pending_approval")
    );
    assert_eq!((memory.used("cap", NOON).await.1, memory.count("attempt"), memory.count("hold")), (0, 0, 0));
    // The identical call joins it; nothing that is not approved is claimed.
    assert!(
        matches!(memory.store.admit(parked(&memory, "pi_1", 600), NOON).await.unwrap(), Admitted::Repeat(same) if same.id == view.id)
    );
    assert!(matches!(memory.store.claim_ready(&view.id, NOON).await.unwrap(), ReadyClaim::NotReady(_)));
    let decided = memory.store.approve(&approval, &caller("agent"), None, NOON).await.unwrap();
    assert!(matches!(decided, Decided::OwnRequest(_)));

    let memory = memory.restarted(NOON.plus(HOUR));
    approve(&memory, &approval, NOON.plus(HOUR)).await;
    let again = memory.store.approve(&approval, &caller("ops2"), None, NOON.plus(HOUR)).await.unwrap();
    assert!(matches!(again, Decided::AlreadyDecided(view) if view.decided_by == Some(caller("ops"))));
    let memory = memory.restarted(NOON.plus(2 * HOUR));
    assert_eq!(memory.store.ready(10).await.unwrap(), std::slice::from_ref(&view.id));
    let prepared = memory.store.prepared(&view.id).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&prepared.request.body).contains("BODYMARK"));

    let ReadyClaim::Granted { permit, effect } =
        memory.store.claim_ready(&view.id, NOON.plus(2 * HOUR)).await.unwrap()
    else {
        panic!("not granted")
    };
    // The provider's window begins when the key is first used.
    assert_eq!(effect.replay_until, Some(NOON.plus(DAY + 2 * HOUR)));
    assert_eq!(memory.used("cap", NOON).await.1, 600);
    assert!(matches!(memory.store.claim_ready(&view.id, NOON).await.unwrap(), ReadyClaim::NotReady(_)));
    let late = memory.store.deny(&approval, &caller("ops2"), None, NOON.plus(2 * HOUR)).await.unwrap();
    assert!(matches!(late, Decided::AlreadyDecided(view) if view.decided_by == Some(caller("ops"))));
    let settled = memory.record(permit.spend(), &answered(200), NOON.plus(2 * HOUR)).await;
    assert_eq!(word(&settled), ("succeeded", "acknowledged", "unverified"));
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

#[tokio::test]
async fn what_is_denied_or_lapses_is_over_and_its_body_is_erased() {
    let memory = Memory::new();
    let (denied, approval) = park(&memory, parked(&memory, "pi_1", 1)).await;
    memory.store.deny(&approval, &caller("ops"), Some("not today".into()), NOON).await.unwrap();
    let view = memory.view(&denied.id).await;
    assert_eq!((word(&view).1, view.stage.invocation_status()), ("denied", "denied"));
    let (lapsed, approval) = park(&memory, parked(&memory, "pi_2", 1)).await;
    assert_eq!(memory.store.expire_approvals(NOON.plus(HOUR)).await.unwrap(), []);
    assert_eq!(
        memory.store.expire_approvals(NOON.plus(DAY)).await.unwrap(),
        std::slice::from_ref(&lapsed.id)
    );
    assert_eq!(memory.view(&lapsed.id).await.stage.invocation_status(), "expired");
    let decided = memory.store.approve(&approval, &caller("ops"), None, NOON.plus(DAY)).await.unwrap();
    assert!(matches!(decided, Decided::AlreadyDecided(_)));
    // A yes that comes too late is none, even if nobody swept.
    let (late, approval) = park(&memory, parked(&memory, "pi_3", 1)).await;
    let decided = memory.store.approve(&approval, &caller("ops"), None, NOON.plus(2 * DAY)).await.unwrap();
    assert!(matches!(decided, Decided::AlreadyDecided(view) if view.status == "expired"));
    assert_eq!(memory.view(&late.id).await.stage.word(), "rejected");
    assert_eq!(memory.count("request"), 0);
    // None of them is in the way of a new question.
    park(&memory, parked(&memory, "pi_1", 1)).await;
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

#[tokio::test]
async fn every_control_is_passed_again_when_an_approved_effect_is_claimed() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Total, 1_000)], NOON).await.unwrap();
    let (view, approval) = park(&memory, parked(&memory, "pi_1", 600)).await;
    approve(&memory, &approval, NOON).await;
    memory.store.halt("drill", &caller("ops"), NOON).await.unwrap();
    assert!(
        matches!(memory.store.claim_ready(&view.id, NOON).await.unwrap(), ReadyClaim::Halted(no, _) if no.code == Code::Halted)
    );
    memory.store.resume(&caller("ops"), NOON).await.unwrap();
    let other = memory.unknown(memory.refund("pi_9", 600), NOON).await;
    assert!(
        matches!(memory.store.claim_ready(&view.id, NOON).await.unwrap(), ReadyClaim::Rejected(no, _) if no.code == Code::LimitExceeded)
    );
    assert_eq!(word(&memory.view(&view.id).await).1, "refused");

    let mut first = parked(&memory, "pi_9", 100);
    first.asked.fingerprint = oncegate_policy::fingerprint::Fingerprint::of("x", &serde_json::json!(1), &[]);
    assert!(
        matches!(memory.store.admit(first, NOON).await.unwrap(), Admitted::Refused(no) if no.effect == Some(other.id))
    );
    let (one, approval_one) = park(&memory, parked(&memory, "pi_5", 1)).await;
    let (two, approval_two) = park(&memory, parked(&memory, "pi_5", 2)).await;
    approve(&memory, &approval_one, NOON).await;
    approve(&memory, &approval_two, NOON).await;
    let ReadyClaim::Granted { permit, .. } = memory.store.claim_ready(&one.id, NOON).await.unwrap() else {
        panic!("not granted")
    };
    memory.record(permit.spend(), &lost(), NOON).await;
    assert!(
        matches!(memory.store.claim_ready(&two.id, NOON).await.unwrap(), ReadyClaim::Rejected(no, _) if no.effect == Some(one.id))
    );

    let (gone, approval) = park(&memory, parked(&memory, "pi_6", 1)).await;
    approve(&memory, &approval, NOON).await;
    let refusal = Refusal::new(Code::CredentialUnavailable, "The credential is gone. Nothing was sent.");
    let view = memory.store.reject_ready(&gone.id, refusal, NOON).await.unwrap().unwrap();
    assert_eq!(view.stage.invocation_status(), "failed");
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

#[tokio::test]
async fn an_agent_asks_on_its_own_account() {
    let memory = Memory::new();
    let asked = memory
        .store
        .request_approval(
            NewApproval {
                caller: caller("agent"),
                title: "May I?".into(),
                description: None,
                payload: Some(serde_json::json!({ "a": 1 })),
                expires_at: NOON.plus(HOUR),
            },
            NOON,
        )
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(
        memory.store.approve(&asked.id, &caller("agent"), None, NOON).await.unwrap(),
        Decided::OwnRequest(_)
    ));
    assert!(matches!(
        memory.store.deny(&asked.id, &caller("ops"), Some("no".into()), NOON).await.unwrap(),
        Decided::Done(_)
    ));
    let (page, total) = memory.store.approvals(Some(vec!["denied"]), 10, 0).await.unwrap();
    assert_eq!((page.len(), total, page[0].note.as_deref()), (1, 1, Some("no")));
    assert_eq!(memory.store.approval(&asked.id).await.unwrap().unwrap(), page[0]);
}

async fn replay(
    memory: &Memory,
    view: &EffectView,
    exchange: &oncegate_policy::exchange::Exchange,
) -> EffectView {
    let Replaying::Granted { permit, prepared } =
        memory.store.begin_replay(&view.id, &caller("ops"), |_| Ok(()), NOON).await.unwrap()
    else {
        panic!("no replay")
    };
    assert_eq!(prepared.view.provider_key, view.provider_key);
    assert!(String::from_utf8_lossy(&prepared.request.body).contains("BODYMARK"));
    memory.store.record_replay(permit.spend(), seen(exchange), NOON).await.unwrap()
}

#[tokio::test]
async fn a_replay_settles_by_the_providers_word_only() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Total, 100_000)], NOON).await.unwrap();
    for (exchange, outcome) in [
        (answered(200), "succeeded"),
        (answered(402), "failed"),
        (answered(401), "unknown"),
        (answered(429), "unknown"),
        (answered(409), "unknown"),
        (answered(500), "unknown"),
        (not_sent(), "unknown"),
        (lost(), "unknown"),
    ] {
        let unknown = memory.unknown(memory.refund(&format!("pi_{}", memory.fresh()), 10), NOON).await;
        let view = replay(&memory, &unknown, &exchange).await;
        assert_eq!(view.stage.outcome().word(), outcome, "{exchange:?}");
        if outcome == "succeeded" {
            assert_eq!(view.response.unwrap().source, ResponseSource::Replay);
        } else if outcome == "unknown" {
            // It may be tried again.
            assert_eq!(word(&replay(&memory, &unknown, &answered(200)).await).0, "succeeded");
        }
    }
    assert_eq!(memory.used("cap", NOON).await, (70, 0, 0, 99_930));
    assert_eq!(memory.count("attempt WHERE kind = 'dispatch'"), memory.count("effect"));
}

#[tokio::test]
async fn who_may_replay_what_and_until_when() {
    let memory = Memory::new();
    let ops = caller("ops");
    let refused = async |view: &EffectView, by: &oncegate_policy::caller::CallerName, at| match memory
        .store
        .begin_replay(&view.id, by, |_| Ok(()), at)
        .await
        .unwrap()
    {
        Replaying::Refused(why, _) => why,
        other => panic!("{other:?}"),
    };
    let unknown = memory.unknown(memory.refund("pi_1", 10), NOON).await;
    assert_eq!(refused(&unknown, &caller("agent"), NOON).await, ReplayRefusal::OwnEffect);
    assert_eq!(refused(&unknown, &ops, NOON.plus(DAY)).await, ReplayRefusal::WindowClosed);
    memory.store.halt("stop", &ops, NOON).await.unwrap();
    assert_eq!(refused(&unknown, &ops, NOON).await, ReplayRefusal::Halted("stop".into()));
    memory.store.resume(&ops, NOON).await.unwrap();
    let mut new = memory.refund("pi_2", 10);
    new.replay_until = None;
    let declared = memory.unknown(new, NOON).await;
    assert_eq!(refused(&declared, &ops, NOON).await, ReplayRefusal::Unsupported);
    let (permit, flying) = memory.granted(memory.refund("pi_3", 10), NOON).await;
    assert_eq!(refused(&flying, &ops, NOON).await, ReplayRefusal::NotUnknown);
    let claim = permit.spend();
    memory.store.mark_unknown(&claim, "no answer", NOON).await.unwrap();
    assert_eq!(refused(&flying, &ops, NOON).await, ReplayRefusal::InFlight);

    // One at a time; a dropped one is closed by the sweep, and the effect is as unknown as before.
    let Replaying::Granted { permit, .. } =
        memory.store.begin_replay(&unknown.id, &ops, |_| Ok(()), NOON).await.unwrap()
    else {
        panic!("no replay")
    };
    assert_eq!(refused(&unknown, &ops, NOON).await, ReplayRefusal::InFlight);
    drop(permit);
    memory.store.sweep(NOON).await.unwrap();
    assert_eq!(word(&memory.view(&unknown.id).await).0, "unknown");
    assert_eq!(word(&replay(&memory, &unknown, &answered(200)).await).0, "succeeded");
    assert_eq!(refused(&unknown, &ops, NOON).await, ReplayRefusal::NotUnknown);
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

pub(crate) fn word_of_a_person(outcome: ResolvedAs) -> Resolution {
    Resolution {
        outcome,
        reason: "looked it up in the dashboard".into(),
        partial_effect: None,
        actual_impact: vec![],
        external_reference: Some("re_9".into()),
    }
}

#[tokio::test]
async fn a_person_resolves_what_is_unknown_and_never_their_own() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Total, 10_000)], NOON).await.unwrap();
    let unknown = memory.unknown(memory.refund("pi_1", 1_000), NOON).await;
    let resolve = async |view: &EffectView, by: &str, resolution: Resolution| {
        memory.store.resolve(&view.id, &caller(by), resolution, NOON).await.unwrap()
    };
    assert!(matches!(
        resolve(&unknown, "agent", word_of_a_person(ResolvedAs::Failed)).await,
        Resolved::OwnEffect(_)
    ));
    let short = Resolution { reason: "  because  ".into(), ..word_of_a_person(ResolvedAs::Failed) };
    assert_eq!(resolve(&unknown, "ops", short).await, Resolved::ReasonTooShort);
    let Resolved::Done(view) = resolve(&unknown, "ops", word_of_a_person(ResolvedAs::Succeeded)).await else {
        panic!("not done")
    };
    assert_eq!(word(&view), ("succeeded", "acknowledged", "manual"));
    assert_eq!(memory.used("cap", NOON).await, (1_000, 0, 0, 9_000));
    assert!(matches!(
        resolve(&unknown, "ops", word_of_a_person(ResolvedAs::Failed)).await,
        Resolved::NotUnknown(_)
    ));
    // A person's word is not confirmed behind their back.
    memory.store.confirm(&view.id, matched(), NOON).await.unwrap();
    assert_eq!(word(&memory.view(&view.id).await).2, "manual");

    let unknown = memory.unknown(memory.refund("pi_2", 1_000), NOON).await;
    let Resolved::Done(view) = resolve(&unknown, "ops", word_of_a_person(ResolvedAs::Failed)).await else {
        panic!("not done")
    };
    assert_eq!(word(&view), ("failed", "failed", "manual"));
    assert_eq!(memory.used("cap", NOON).await, (1_000, 0, 0, 9_000));

    // Failed, but 300 of it had gone; succeeded, but only 400 of it.
    for (outcome, actual, consumed) in [(ResolvedAs::Failed, 300, 1_300), (ResolvedAs::Succeeded, 400, 1_700)]
    {
        let unknown = memory.unknown(memory.refund(&format!("pi_{}", memory.fresh()), 1_000), NOON).await;
        let partly = Resolution {
            partial_effect: Some(PartialEffect::Confirmed),
            actual_impact: vec![(usd(), actual)],
            ..word_of_a_person(outcome)
        };
        assert!(matches!(resolve(&unknown, "ops", partly).await, Resolved::Done(_)));
        assert_eq!(memory.used("cap", NOON).await, (consumed, 0, 0, 10_000 - consumed));
    }
    memory.store.note(&view.id, &caller("ops"), "called the bank", NOON).await.unwrap().unwrap();
    let detail = memory.store.effect(&view.id).await.unwrap().unwrap();
    let last = detail.evidence.last().unwrap();
    assert_eq!((last.kind.as_str(), last.text.as_str()), ("note", "called the bank"));
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

#[tokio::test]
async fn a_halt_stops_dispatches_and_nothing_else_and_survives_a_restart() {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 1), NOON).await;
    memory.store.halt("incident 7", &caller("ops"), NOON).await.unwrap();
    let memory = memory.restarted(NOON);
    assert_eq!(memory.store.halted().await.unwrap().unwrap().reason, "incident 7");
    let said = memory.store.admit(memory.refund("pi_2", 1), NOON).await.unwrap();
    assert!(
        matches!(said, Admitted::Refused(no) if no.code == Code::Halted && no.sentence.contains("incident 7"))
    );
    // A repeat is answered, a look is made.
    assert!(matches!(memory.store.admit(memory.refund("pi_1", 1), NOON).await.unwrap(), Admitted::Repeat(_)));
    memory.store.apply_finding(&unknown.id, matched(), Looker::Schedule, NOON).await.unwrap();
    assert_eq!(word(&memory.view(&unknown.id).await).0, "succeeded");
    assert_eq!(memory.store.halt("again", &caller("ops"), NOON).await.unwrap().reason, "incident 7");
    memory.store.resume(&caller("ops"), NOON).await.unwrap().unwrap();
    assert_eq!(memory.store.resume(&caller("ops"), NOON).await.unwrap(), None);
    let (_permit, _) = memory.granted(memory.refund("pi_2", 1), NOON).await;
}

#[tokio::test]
async fn pruning_frees_no_key_breaks_no_chain_and_leaves_the_unknown() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Total, 10_000)], NOON).await.unwrap();
    let (permit, keyed) = memory.granted(with_key(memory.refund("pi_1", 1_000), "refund:1"), NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
    let (permit, keyless) = memory.granted(memory.refund("pi_2", 1_000), NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
    let unknown = memory.unknown(memory.refund("pi_3", 1_000), NOON).await;

    let month_on = NOON.plus(31 * DAY);
    assert_eq!(memory.store.prune(None, NOON.plus(29 * DAY)).await.unwrap(), Pruned::default());
    assert_eq!(
        memory.store.prune(None, month_on).await.unwrap(),
        Pruned { responses: 2, ..Pruned::default() }
    );
    assert_eq!(memory.view(&keyed.id).await.response, None);

    let year_on = NOON.plus(365 * DAY);
    let pruned = memory.store.prune(Some(year_on), year_on).await.unwrap();
    assert_eq!(pruned, Pruned { shortened: 1, removed: 1, ..Pruned::default() });
    assert_eq!(memory.store.prune(Some(year_on), year_on).await.unwrap(), Pruned::default());
    assert_eq!(memory.store.effect(&keyless.id).await.unwrap(), None);
    let varied = with_key(memory.refund("pi_1", 5), "refund:1");
    assert!(
        matches!(memory.store.admit(varied, year_on).await.unwrap(), Admitted::Refused(no) if no.code == Code::KeyReuse)
    );
    let same = with_key(memory.refund("pi_1", 1_000), "refund:1");
    assert!(
        matches!(memory.store.admit(same, year_on).await.unwrap(), Admitted::Repeat(view) if view.id == keyed.id)
    );
    assert_eq!(word(&memory.view(&unknown.id).await).0, "unknown");
    assert_eq!(
        memory.store.prepared(&unknown.id).await.unwrap().map(|found| found.view.id),
        Some(unknown.id)
    );
    assert_eq!(memory.used("cap", NOON).await, (2_000, 1_000, 1_000, 7_000));
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}
