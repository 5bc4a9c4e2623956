//! What the histories are held against: a list, looked through as a whole each time.

use std::collections::HashMap;

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::id::EffectId;
use oncegate_policy::refusal::Code;
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::NewEffect;

use crate::support::DAY;

pub(super) const CAP: i64 = 1_000;

pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let sides = from.len() as u64;
        (sides > 0).then(|| &from[usize::try_from(self.roll(sides)).unwrap()])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Is {
    Waiting,
    Ready,
    Dispatching,
    Unknown,
    Succeeded(Timestamp),
    Failed,
    Rejected,
}

/// One effect, as the reference has it.
pub(super) struct Known {
    pub(super) id: EffectId,
    pub(super) caller: CallerName,
    pub(super) action: ActionName,
    /// Every key that was answered with it, and whose it is.
    pub(super) keys: Vec<(CallerName, String)>,
    pub(super) fingerprint: String,
    pub(super) subject: String,
    pub(super) amount: i64,
    pub(super) is: Is,
    pub(super) written: Timestamp,
    /// Before the replay that was begun last.
    pub(super) written_before: Timestamp,
    pub(super) waits_until: Timestamp,
}

#[derive(Default)]
pub(super) struct Reference {
    pub(super) known: Vec<Known>,
    pub(super) halted: bool,
    pub(super) settled: HashMap<EffectId, (String, String)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    New,
    Parked,
    Repeat(EffectId),
    Refused(Code),
}

impl Reference {
    pub(super) fn expects(&self, new: &NewEffect, now: Timestamp) -> Expected {
        let fingerprint = new.asked.fingerprint.to_string();
        let keys = keys(new);
        let named: Vec<_> = self
            .known
            .iter()
            .filter(|known| known.action == new.action && keys.iter().any(|key| known.keys.contains(key)))
            .collect();
        if named.iter().any(|known| known.fingerprint != fingerprint) {
            return Expected::Refused(Code::KeyReuse);
        }
        match named.as_slice() {
            [] => {}
            [known] => return Expected::Repeat(known.id.clone()),
            _ => return Expected::Refused(Code::Ambiguous),
        }
        let sent = [&new.asked.caller_key, &new.asked.second_key];
        let by_content = sent.into_iter().flatten().all(|key| key.generated);
        if by_content {
            let identical = || self.known.iter().filter(|known| known.fingerprint == fingerprint);
            let open = identical()
                .find(|known| matches!(known.is, Is::Waiting | Is::Ready | Is::Dispatching | Is::Unknown));
            let recent =
                || identical().rfind(|known| matches!(known.is, Is::Succeeded(at) if now.since(at) < DAY));
            if let Some(known) = open.or_else(recent) {
                return Expected::Repeat(known.id.clone());
            }
        }
        let fenced = |known: &Known| {
            known.subject == *new.subject.as_ref().unwrap()
                && matches!(known.is, Is::Ready | Is::Dispatching | Is::Unknown)
        };
        if self.known.iter().any(fenced) {
            return Expected::Refused(Code::UnresolvedEffect);
        }
        // Subject and amount are all that a refund says.
        let elsewhere = |known: &Known| {
            known.action != new.action
                && (known.subject == *new.subject.as_ref().unwrap() && known.amount == amount(new))
                && matches!(known.is, Is::Waiting | Is::Ready | Is::Dispatching | Is::Unknown)
        };
        if by_content && self.known.iter().any(elsewhere) {
            return Expected::Refused(Code::UnresolvedEffect);
        }
        if self.halted {
            return Expected::Refused(Code::Halted);
        }
        if new.approval.is_some() {
            return Expected::Parked;
        }
        if self.free(now) < amount(new) {
            return Expected::Refused(Code::LimitExceeded);
        }
        Expected::New
    }

    pub(super) fn free(&self, now: Timestamp) -> i64 {
        let taken = |known: &Known| match known.is {
            Is::Dispatching | Is::Unknown => known.amount,
            Is::Succeeded(_) if known.written.day_start() == now.day_start() => known.amount,
            Is::Succeeded(_) | Is::Waiting | Is::Ready | Is::Failed | Is::Rejected => 0,
        };
        CAP - self.known.iter().map(taken).sum::<i64>()
    }

    pub(super) fn of(&mut self, id: &EffectId) -> &mut Known {
        self.known.iter_mut().find(|known| known.id == *id).unwrap()
    }

    pub(super) fn ids(&self, is: impl Fn(Is) -> bool) -> Vec<EffectId> {
        self.known.iter().filter(|known| is(known.is)).map(|known| known.id.clone()).collect()
    }
}

/// What the caller sent as keys, as its own.
pub(super) fn keys(new: &NewEffect) -> Vec<(CallerName, String)> {
    let sent = [&new.asked.caller_key, &new.asked.second_key];
    sent.into_iter().flatten().map(|key| (new.caller.clone(), key.text.clone())).collect()
}

pub(super) fn amount(new: &NewEffect) -> i64 {
    new.impact.as_ref().unwrap().amount.unwrap()
}
