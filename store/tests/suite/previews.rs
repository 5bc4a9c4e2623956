//! Previews: bound once, by whom they were made for, while nothing has changed.

use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::id::PreviewId;
use oncegate_policy::limit::Period;
use oncegate_policy::preview::{Basis, BoundPreview};
use oncegate_policy::refusal::Code;
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::preview::{
    CreatedPreview, DOCUMENT_BYTES_MAX, INPUT_BYTES_MAX, NewPreview, PreviewView, UNUSED_MAX,
};
use oncegate_store::prune::Pruned;
use serde_json::json;

use crate::support::{DAY, HOUR, Memory, NOON, answered, caller, limit, ulid, with_key};

const BASIS: Basis = [7; 32];

pub(crate) fn new(refreshed_from: Option<PreviewId>) -> NewPreview {
    NewPreview {
        caller: caller("agent"),
        action: ActionName::parse("refund").unwrap(),
        basis: BASIS,
        fingerprint: Fingerprint::of("refund", &json!({}), &[]),
        input: json!({ "payment_intent": "pi_1" }),
        document: json!({ "change": "refund 6.00 usd" }),
        expires_at: NOON.plus(HOUR),
        refreshed_from,
    }
}

async fn created(memory: &Memory, new: NewPreview, at: Timestamp) -> PreviewView {
    match memory.store.create_preview(new, at).await.unwrap() {
        CreatedPreview::Created(view) => *view,
        other => panic!("not made: {other:?}"),
    }
}

fn bound(mut new: NewEffect, id: &PreviewId, basis: Basis) -> NewEffect {
    new.preview = Some(BoundPreview { id: id.clone(), basis });
    new
}

async fn refusal(memory: &Memory, new: NewEffect, at: Timestamp) -> (Code, String) {
    match memory.store.admit(new, at).await.unwrap() {
        Admitted::Refused(refusal) => (refusal.code, refusal.sentence),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn it_is_read_as_it_was_made() {
    let memory = Memory::new();
    let made = created(&memory, new(None), NOON).await;
    assert_eq!(memory.store.preview(&made.id).await.unwrap(), Some(made.clone()));
    assert_eq!(made.document, json!({ "change": "refund 6.00 usd" }));
    assert_eq!(memory.store.preview(&PreviewId::from_ulid(&ulid(9))).await.unwrap(), None);
}

#[tokio::test]
async fn an_effect_is_bound_to_it_once() {
    let memory = Memory::new();
    let made = created(&memory, new(None), NOON).await;
    let first = bound(with_key(memory.refund("pi_1", 600), "order:1"), &made.id, BASIS);
    let (permit, effect) = memory.granted(first.clone(), NOON).await;
    assert_eq!(effect.preview.as_ref(), Some(&made.id));
    memory.record(permit.spend(), &answered(200), NOON).await;
    assert_eq!(memory.view(&effect.id).await.preview.as_ref(), Some(&made.id));
    let used = memory.store.preview(&made.id).await.unwrap().unwrap();
    assert_eq!(used.used_by, Some(effect.id.clone()));
    let detail: String = memory
        .shell()
        .query_row("SELECT detail FROM event WHERE kind = 'admitted'", [], |row| row.get(0))
        .unwrap();
    assert!(detail.contains(made.id.as_str()), "{detail}");

    // The same call again is a repeat, however stale its preview is by now.
    let again = NewEffect {
        invocation: memory.refund("x", 1).invocation,
        effect: memory.refund("x", 1).effect,
        ..first
    };
    let repeat = memory.store.admit(again, NOON.plus(DAY)).await.unwrap();
    assert!(matches!(&repeat, Admitted::Repeat(view) if view.id == effect.id), "{repeat:?}");
    // Another one is refused.
    let other = bound(memory.refund("pi_2", 600), &made.id, BASIS);
    let (code, sentence) = refusal(&memory, other, NOON).await;
    assert!(code == Code::StalePreview && sentence.contains("used"), "{sentence}");
}

#[tokio::test]
async fn a_stale_one_makes_no_invocation_and_leaves_the_key_free() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 1_000)], NOON).await.unwrap();
    let made = created(&memory, new(None), NOON).await;
    let refreshed = created(&memory, new(Some(made.id.clone())), NOON).await;
    assert_eq!(refreshed.refreshed_from.as_ref(), Some(&made.id));
    let earlier = memory.store.preview(&made.id).await.unwrap().unwrap();
    assert_eq!(earlier.superseded_at, Some(NOON));
    let missing = PreviewId::from_ulid(&ulid(99));
    let by_other = |mut new: NewEffect| {
        new.caller = caller("other");
        new
    };
    let of_other = |mut new: NewEffect| {
        new.action = ActionName::parse("charge").unwrap();
        new
    };
    let call = || with_key(memory.refund("pi_1", 600), "order:1");
    for (new, at, why) in [
        (bound(call(), &made.id, BASIS), NOON, "refreshed"),
        (bound(call(), &refreshed.id, [8; 32]), NOON, "has changed"),
        (bound(call(), &refreshed.id, BASIS), NOON.plus(HOUR), "expired"),
        (bound(call(), &missing, BASIS), NOON, "not in the record"),
        (by_other(bound(call(), &refreshed.id, BASIS)), NOON, "another caller"),
        (of_other(bound(call(), &refreshed.id, BASIS)), NOON, "action refund"),
    ] {
        let (code, sentence) = refusal(&memory, new, at).await;
        assert!(code == Code::StalePreview && sentence.contains(why), "{why}: {sentence}");
    }
    assert_eq!(memory.count("effect"), 0);
    assert_eq!(memory.used("cap", NOON).await, (0, 0, 0, 1_000));
    let (_permit, effect) = memory.granted(bound(call(), &refreshed.id, BASIS), NOON).await;
    assert_eq!(effect.preview, Some(refreshed.id));
}

#[tokio::test]
async fn two_calls_at_once_share_one_preview_as_one_effect() {
    let memory = Memory::new();
    let made = created(&memory, new(None), NOON).await;
    let one = bound(memory.refund("pi_1", 600), &made.id, BASIS);
    let two = bound(memory.refund("pi_2", 600), &made.id, BASIS);
    let (one, two) = tokio::join!(memory.store.admit(one, NOON), memory.store.admit(two, NOON));
    let granted = [one.unwrap(), two.unwrap()];
    let granted = granted.iter().filter(|admitted| matches!(admitted, Admitted::Granted { .. }));
    assert_eq!(granted.count(), 1);
}

#[tokio::test]
async fn a_parked_effect_is_bound_to_it_too() {
    let memory = Memory::new();
    let made = created(&memory, new(None), NOON).await;
    let mut call = bound(memory.refund("pi_1", 600), &made.id, BASIS);
    call.approval = Some(DAY);
    let Admitted::Parked(effect) = memory.store.admit(call, NOON).await.unwrap() else {
        panic!("not parked")
    };
    assert_eq!(effect.preview, Some(made.id.clone()));
    assert_eq!(memory.store.preview(&made.id).await.unwrap().unwrap().used_by, Some(effect.id));
}

#[tokio::test]
async fn bounds() {
    let memory = Memory::new();
    let long = NewPreview { input: json!("x".repeat(INPUT_BYTES_MAX)), ..new(None) };
    let refused = memory.store.create_preview(long, NOON).await.unwrap();
    assert_eq!(refused, CreatedPreview::TooLarge { what: "input", bytes_max: INPUT_BYTES_MAX });
    let long = NewPreview { document: json!("x".repeat(DOCUMENT_BYTES_MAX)), ..new(None) };
    let refused = memory.store.create_preview(long, NOON).await.unwrap();
    assert_eq!(refused, CreatedPreview::TooLarge { what: "document", bytes_max: DOCUMENT_BYTES_MAX });

    let theirs = created(&memory, NewPreview { caller: caller("other"), ..new(None) }, NOON).await;
    let refused = memory.store.create_preview(new(Some(theirs.id.clone())), NOON).await.unwrap();
    assert_eq!(refused, CreatedPreview::NothingToRefresh);
    assert_eq!(memory.store.preview(&theirs.id).await.unwrap(), Some(theirs));

    for _ in 0..UNUSED_MAX {
        created(&memory, new(None), NOON).await;
    }
    assert_eq!(memory.store.create_preview(new(None), NOON).await.unwrap(), CreatedPreview::TooMany);
    // Those that expired do not count.
    let later = NewPreview { expires_at: NOON.plus(2 * HOUR), ..new(None) };
    created(&memory, later, NOON.plus(HOUR)).await;
}

#[tokio::test]
async fn expired_ones_go_and_used_ones_stay_with_their_effect() {
    let memory = Memory::new();
    let used = created(&memory, new(None), NOON).await;
    let unused = created(&memory, new(None), NOON).await;
    let (permit, effect) = memory.granted(bound(memory.refund("pi_1", 600), &used.id, BASIS), NOON).await;
    memory.record(permit.spend(), &answered(402), NOON).await;

    let soon = NOON.plus(HOUR + Duration::from_secs(1));
    assert_eq!(memory.store.prune(None, soon).await.unwrap(), Pruned::default());
    let later = NOON.plus(HOUR + DAY + Duration::from_secs(1));
    assert_eq!(memory.store.prune(None, later).await.unwrap().previews, 1);
    assert_eq!(memory.store.preview(&unused.id).await.unwrap(), None);
    assert_eq!(memory.store.preview(&used.id).await.unwrap().unwrap().document, used.document);

    // What was shown goes with the bulk of the effect, the rest with the effect itself.
    let month_on = NOON.plus(31 * DAY);
    assert_eq!(memory.store.prune(Some(month_on), month_on).await.unwrap().shortened, 1);
    let kept = memory.store.preview(&used.id).await.unwrap().unwrap();
    assert_eq!((kept.document, kept.used_by), (json!(null), Some(effect.id.clone())));
    assert_eq!(memory.view(&effect.id).await.preview, Some(used.id));

    let old = created(&memory, NewPreview { expires_at: NOON.plus(32 * DAY), ..new(None) }, month_on).await;
    let (permit, effect) = memory.granted(bound(memory.refund("pi_2", 1), &old.id, BASIS), month_on).await;
    memory.record(permit.spend(), &answered(402), month_on).await;
    let year_on = NOON.plus(400 * DAY);
    assert_eq!(memory.store.prune(Some(year_on), year_on).await.unwrap().removed, 1);
    assert_eq!(memory.store.preview(&old.id).await.unwrap(), None);
    assert!(memory.store.effect(&effect.id).await.unwrap().is_none());
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}
