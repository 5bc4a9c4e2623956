//! The effect: where it stands, and what is derived from that.
//!
//! Stage is the only stored fact. Outcome, grade and the invocation's status are read off it, so that they can
//! never disagree with each other.

use crate::id::{ApprovalId, OwnerId};
use crate::refusal::Code;
use crate::time::Timestamp;

/// Where an effect stands. Each variant owns what is true only then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Parked until a person decides.
    AwaitingApproval {
        /// The approval that is asked for.
        approval: ApprovalId,
        /// When the question lapses.
        expires_at: Timestamp,
    },
    /// Approved, not yet claimed: provably nothing was sent.
    Ready,
    /// The one dispatch is claimed: from here on a byte may have left.
    Dispatching {
        /// When it was claimed.
        claimed_at: Timestamp,
        /// The run of the process that claimed it.
        owner: OwnerId,
    },
    /// The answer was lost: the provider may have applied it.
    Reconciling {
        /// Since when it is not known.
        since: Timestamp,
        /// When the provider is asked next; `None` when it cannot be asked and only a person settles it.
        next_look_at: Option<Timestamp>,
        /// How often it was asked.
        looks: u32,
    },
    /// The end.
    Settled(Settlement),
    /// The end, without a dispatch.
    Rejected(Rejection),
}

/// How an effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// What happened.
    pub result: SettledResult,
    /// Who vouches.
    pub verification: Verification,
    /// When it was settled.
    pub at: Timestamp,
}

/// What happened in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettledResult {
    /// Applied, and a read-back or the provider's record shows it.
    Confirmed,
    /// Applied, by the provider's answer or a person's word alone.
    Acknowledged,
    /// Not applied.
    Failed,
}

/// Why an effect ended without a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// By a rule, when it was to be dispatched.
    Refused(Code),
    /// By a person.
    Denied,
    /// Nobody decided in time.
    Expired,
}

/// Who vouches for an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// Nobody beyond the answer itself.
    Unverified,
    /// The provider's own record.
    Provider,
    /// A person.
    Manual,
}

/// What is known of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing was sent, and nothing is being sent.
    NotDispatched,
    /// On its way.
    Pending,
    /// Applied.
    Succeeded,
    /// Not applied.
    Failed,
    /// May have been applied.
    Unknown,
}

/// The receipt's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grade {
    /// Applied, and seen at the provider.
    Confirmed,
    /// Applied, by its answer or a person.
    Acknowledged,
    /// Not known.
    Unknown,
    /// Not applied.
    Failed,
    /// A rule said no.
    Refused,
    /// A person said no.
    Denied,
    /// Not decided yet.
    Pending,
}

impl Stage {
    /// The public word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::AwaitingApproval { .. } => "awaiting_approval",
            Self::Ready => "ready",
            Self::Dispatching { .. } => "dispatching",
            Self::Reconciling { .. } => "reconciling",
            Self::Settled(_) => "settled",
            Self::Rejected(_) => "rejected",
        }
    }

    /// What is known of the result.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::AwaitingApproval { .. } | Self::Rejected(_) => Outcome::NotDispatched,
            Self::Ready | Self::Dispatching { .. } => Outcome::Pending,
            Self::Reconciling { .. } => Outcome::Unknown,
            Self::Settled(settlement) => match settlement.result {
                SettledResult::Confirmed | SettledResult::Acknowledged => Outcome::Succeeded,
                SettledResult::Failed => Outcome::Failed,
            },
        }
    }

    /// The receipt's word.
    #[must_use]
    pub fn grade(&self) -> Grade {
        match self {
            Self::AwaitingApproval { .. } | Self::Ready | Self::Dispatching { .. } => Grade::Pending,
            Self::Reconciling { .. } => Grade::Unknown,
            Self::Settled(settlement) => match settlement.result {
                SettledResult::Confirmed => Grade::Confirmed,
                SettledResult::Acknowledged => Grade::Acknowledged,
                SettledResult::Failed => Grade::Failed,
            },
            Self::Rejected(Rejection::Refused(_) | Rejection::Expired) => Grade::Refused,
            Self::Rejected(Rejection::Denied) => Grade::Denied,
        }
    }

    /// Who vouches.
    #[must_use]
    pub fn verification(&self) -> Verification {
        match self {
            Self::Settled(settlement) => settlement.verification,
            Self::AwaitingApproval { .. }
            | Self::Ready
            | Self::Dispatching { .. }
            | Self::Reconciling { .. }
            | Self::Rejected(_) => Verification::Unverified,
        }
    }

    /// The invocation's public status.
    #[must_use]
    pub fn invocation_status(&self) -> &'static str {
        match self {
            Self::AwaitingApproval { .. } => "pending_approval",
            Self::Ready | Self::Dispatching { .. } => "running",
            Self::Reconciling { .. } => "unknown",
            Self::Settled(settlement) => match settlement.result {
                SettledResult::Confirmed | SettledResult::Acknowledged => "succeeded",
                SettledResult::Failed => "failed",
            },
            Self::Rejected(Rejection::Refused(_)) => "failed",
            Self::Rejected(Rejection::Denied) => "denied",
            Self::Rejected(Rejection::Expired) => "expired",
        }
    }
}

impl Outcome {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NotDispatched => "not_dispatched",
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl Grade {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Acknowledged => "acknowledged",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Pending => "pending",
        }
    }
}

impl Verification {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unverified => "unverified",
            Self::Provider => "provider",
            Self::Manual => "manual",
        }
    }

    /// Reads the public word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Unverified, Self::Provider, Self::Manual].into_iter().find(|word| word.word() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(result: SettledResult, verification: Verification) -> Stage {
        Stage::Settled(Settlement { result, verification, at: Timestamp(3) })
    }

    /// The words of the API, the database and the receipts.
    #[test]
    fn everything_that_is_said_of_an_effect_follows_from_its_stage() {
        use SettledResult::{Acknowledged, Confirmed, Failed};
        use Verification::{Manual, Provider, Unverified};
        let approval = ApprovalId::from_ulid("01J0000000000000000000000A");
        let owner = OwnerId::from_ulid("01J0000000000000000000000A");
        let reconciling = Stage::Reconciling { since: Timestamp(2), next_look_at: None, looks: 0 };
        for (stage, word, outcome, grade, verification, status) in [
            (
                Stage::AwaitingApproval { approval, expires_at: Timestamp(9) },
                "awaiting_approval",
                "not_dispatched",
                "pending",
                "unverified",
                "pending_approval",
            ),
            (Stage::Ready, "ready", "pending", "pending", "unverified", "running"),
            (
                Stage::Dispatching { claimed_at: Timestamp(1), owner },
                "dispatching",
                "pending",
                "pending",
                "unverified",
                "running",
            ),
            (reconciling, "reconciling", "unknown", "unknown", "unverified", "unknown"),
            (settled(Confirmed, Provider), "settled", "succeeded", "confirmed", "provider", "succeeded"),
            (
                settled(Acknowledged, Unverified),
                "settled",
                "succeeded",
                "acknowledged",
                "unverified",
                "succeeded",
            ),
            (settled(Failed, Manual), "settled", "failed", "failed", "manual", "failed"),
            (
                Stage::Rejected(Rejection::Refused(Code::LimitExceeded)),
                "rejected",
                "not_dispatched",
                "refused",
                "unverified",
                "failed",
            ),
            (
                Stage::Rejected(Rejection::Denied),
                "rejected",
                "not_dispatched",
                "denied",
                "unverified",
                "denied",
            ),
            (
                Stage::Rejected(Rejection::Expired),
                "rejected",
                "not_dispatched",
                "refused",
                "unverified",
                "expired",
            ),
        ] {
            let said = (stage.word(), stage.outcome().word(), stage.grade().word());
            assert_eq!(said, (word, outcome, grade), "{stage:?}");
            let said = (stage.verification().word(), stage.invocation_status());
            assert_eq!(said, (verification, status), "{stage:?}");
            assert_eq!(Verification::parse(verification), Some(stage.verification()));
        }
        assert_eq!(Verification::parse("nobody"), None);
    }
}
