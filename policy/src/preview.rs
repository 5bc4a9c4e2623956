//! Whether a call may still be bound to what was shown of it before (API: previews).

use crate::action::ActionName;
use crate::caller::CallerName;
use crate::id::PreviewId;
use crate::refusal::{Code, Refusal};
use crate::time::Timestamp;

/// SHA-256 over everything that must not have changed between the preview and the call: the fingerprint, the
/// definition of the action, what the provider was asked.
pub type Basis = [u8; 32];

/// The preview that a call names, and the basis of the call itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundPreview {
    /// Which preview.
    pub id: PreviewId,
    /// What is true now; it must be what was true then.
    pub basis: Basis,
}

/// A preview, as far as binding to it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPreview {
    /// Whom it was made for.
    pub caller: CallerName,
    /// Of what.
    pub action: ActionName,
    /// What was true when it was made.
    pub basis: Basis,
    /// From when on it may not be used.
    pub expires_at: Timestamp,
    /// Whether it was refreshed: only the newer one counts.
    pub superseded: bool,
    /// Whether an effect is bound to it.
    pub used: bool,
}

/// Why a call by `caller` for `action` may not be bound to this preview; `None` when it may. A preview is good for
/// one effect of the caller and action that it was made for, until it expires or is refreshed, and only while
/// nothing that it showed has changed.
#[must_use]
pub fn stale(
    bound: &BoundPreview,
    known: Option<&KnownPreview>,
    (caller, action): (&CallerName, &ActionName),
    now: Timestamp,
) -> Option<Refusal> {
    let why = match known {
        None => "is not in the record (it may have expired long ago)".to_owned(),
        Some(known) if known.caller != *caller => "was made for another caller".to_owned(),
        Some(known) if known.action != *action => format!("is one of action {}", known.action),
        Some(known) if known.used => "has been used for another invocation".to_owned(),
        Some(known) if known.superseded => "was refreshed, and only the newer one counts".to_owned(),
        Some(known) if known.expires_at <= now => "has expired".to_owned(),
        Some(known) if known.basis != bound.basis => {
            "is no longer true: something that it showed has changed".to_owned()
        }
        Some(_) => return None,
    };
    let sentence = format!("Preview {} {why}. Nothing was sent. Make a new preview.", bound.id);
    Some(Refusal::new(Code::StalePreview, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_being_stale_is_named() {
        let (caller, action) = (CallerName::parse("agent").unwrap(), ActionName::parse("refund").unwrap());
        let bound = BoundPreview { id: PreviewId::from_ulid("01J0000000000000000000000A"), basis: [1; 32] };
        let good = KnownPreview {
            caller: caller.clone(),
            action: action.clone(),
            basis: [1; 32],
            expires_at: Timestamp(10),
            superseded: false,
            used: false,
        };
        let said = |known: Option<&KnownPreview>, now| {
            let refusal = stale(&bound, known, (&caller, &action), Timestamp(now));
            refusal.map(|refusal| {
                assert_eq!(refusal.code, Code::StalePreview);
                refusal.sentence
            })
        };
        assert_eq!(said(Some(&good), 9), None);
        for (known, now, why) in [
            (None, 9, "not in the record"),
            (
                Some(KnownPreview { caller: CallerName::parse("ops").unwrap(), ..good.clone() }),
                9,
                "another caller",
            ),
            (
                Some(KnownPreview { action: ActionName::parse("pay").unwrap(), ..good.clone() }),
                9,
                "action pay",
            ),
            (Some(KnownPreview { used: true, ..good.clone() }), 9, "been used"),
            (Some(KnownPreview { superseded: true, ..good.clone() }), 9, "refreshed"),
            (Some(good.clone()), 10, "expired"),
            (Some(KnownPreview { basis: [2; 32], ..good.clone() }), 9, "has changed"),
        ] {
            let sentence = said(known.as_ref(), now).unwrap();
            assert!(sentence.contains(why), "{sentence}");
        }
    }
}
