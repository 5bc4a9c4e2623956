//! What really happened in one schedule, whatever the record says of it: a list, looked through as a whole each time.

use std::time::Duration;

use oncegate_policy::id::EffectId;
use oncegate_policy::time::Timestamp;

use super::actors::CAP;

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Where an effect really stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    Waiting,
    Ready,
    OnTheWire,
    Unknown,
    /// By `confirmed`, `acknowledged` or `failed`, and whose word that is.
    Settled(&'static str, &'static str),
    Rejected,
}

impl Is {
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::OnTheWire | Self::Unknown)
    }

    pub(crate) fn has_succeeded(self) -> bool {
        matches!(self, Self::Settled("confirmed" | "acknowledged", _))
    }

    /// The record's word for it.
    pub(crate) fn stage(self) -> &'static str {
        match self {
            Self::Waiting => "awaiting_approval",
            Self::Ready => "ready",
            Self::OnTheWire => "dispatching",
            Self::Unknown => "reconciling",
            Self::Settled(..) => "settled",
            Self::Rejected => "rejected",
        }
    }
}

/// One effect.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) id: EffectId,
    /// Every key that was answered with it.
    pub(crate) keys: Vec<String>,
    pub(crate) body: String,
    pub(crate) subject: String,
    pub(crate) amount: i64,
    pub(crate) provider_key: String,
    pub(crate) is: Is,
    /// Somebody in this process holds its dispatch.
    pub(crate) held: bool,
    /// The limit counts it.
    pub(crate) counted: bool,
    /// Permits to dispatch it that were handed out: what the provider may have been sent.
    pub(crate) sends: u32,
    /// Permits to replay it.
    pub(crate) replays: u32,
    /// When the provider was last written to.
    pub(crate) written: Timestamp,
    /// And when before the replay that was begun last.
    pub(crate) written_before: Timestamp,
    pub(crate) waits_until: Timestamp,
}

/// Everything of one schedule.
#[derive(Debug)]
pub(crate) struct Ghost {
    pub(crate) known: Vec<Known>,
    pub(crate) cap: Option<i64>,
    pub(crate) halted: bool,
    pub(crate) now: Timestamp,
}

impl Ghost {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { known: vec![], cap: Some(CAP), halted: false, now }
    }

    /// The latest effect on a subject: what operators act on.
    pub(crate) fn latest(&self, subject: &str) -> Option<&Known> {
        self.known.iter().rev().find(|known| known.subject == subject)
    }

    pub(crate) fn of(&mut self, id: &EffectId) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.id == *id)
    }

    /// What the limit has to hold now, and of that what is unknown.
    pub(crate) fn reserved(&self) -> (i64, i64) {
        let sum = |of: fn(Is) -> bool| -> i64 {
            self.known.iter().filter(|known| known.counted && of(known.is)).map(|known| known.amount).sum()
        };
        (sum(Is::is_open), sum(|is| is == Is::Unknown))
    }

    /// What was consumed, on one day or in all.
    pub(crate) fn consumed(&self, on: Option<Timestamp>) -> i64 {
        let that_day = |known: &&Known| on.is_none_or(|day| known.written.day_start() == day.day_start());
        let consumed = self.known.iter().filter(|known| known.counted && known.is.has_succeeded());
        consumed.filter(that_day).map(|known| known.amount).sum()
    }

    /// Whether so much more may be held.
    pub(crate) fn fits(&self, amount: i64, now: Timestamp) -> bool {
        self.cap.is_none_or(|cap| self.reserved().0 + self.consumed(Some(now)) + amount <= cap)
    }

    /// A limit that is there again holds what is open.
    pub(crate) fn declare(&mut self, cap: Option<i64>) {
        self.cap = cap;
        if cap.is_some() {
            self.known.iter_mut().filter(|known| known.is.is_open()).for_each(|known| known.counted = true);
        }
    }

    /// What the next sweep has to find.
    pub(crate) fn abandoned(&self) -> Vec<EffectId> {
        let abandoned = self.known.iter().filter(|known| known.is == Is::OnTheWire && !known.held);
        abandoned.map(|known| known.id.clone()).collect()
    }

    /// Something decisive came to light of an effect that was open; later words do not count.
    pub(crate) fn settle(&mut self, id: &EffectId, result: &'static str, verification: &'static str) {
        if let Some(known) = self.of(id)
            && known.is.is_open()
        {
            known.is = Is::Settled(result, verification);
        }
    }
}
