//! What a person settled as failed, and applied in part.

use oncegate_store::admit::Admitted;
use oncegate_store::resolve::{PartialEffect, Resolution, Resolved, ResolvedAs};

use crate::law::word_of_a_person;
use crate::support::{Memory, NOON, caller, usd};

/// `failed` is proof that nothing was applied, unless who says so says that something was.
#[tokio::test]
async fn p6_what_was_applied_in_part_is_not_asked_for_once_more() {
    let memory = Memory::new();
    for (partial, actual, guards) in [
        (Some(PartialEffect::Confirmed), Some(300), true),
        (Some(PartialEffect::Confirmed), None, true),
        (Some(PartialEffect::Possible), None, true),
        (None, Some(300), true),
        (Some(PartialEffect::None), None, false),
        (None, Some(0), false),
        (None, None, false),
    ] {
        let subject = format!("pi_{}", memory.fresh());
        let unknown = memory.unknown(memory.refund(&subject, 1_000), NOON).await;
        let partly = Resolution {
            partial_effect: partial,
            actual_impact: actual.map(|amount| (usd(), amount)).into_iter().collect(),
            ..word_of_a_person(ResolvedAs::Failed)
        };
        let settled = memory.store.resolve(&unknown.id, &caller("ops"), partly, NOON).await.unwrap();
        assert!(matches!(settled, Resolved::Done(_)));
        let again = memory.store.admit(memory.refund(&subject, 1_000), NOON).await.unwrap();
        match again {
            Admitted::Repeat(view) => assert!(guards && view.id == unknown.id, "{partial:?} {actual:?}"),
            Admitted::Granted { .. } => assert!(!guards, "{partial:?} {actual:?}"),
            Admitted::Refused(_) | Admitted::Parked(_) => panic!("{partial:?} {actual:?}: {again:?}"),
        }
    }
}
