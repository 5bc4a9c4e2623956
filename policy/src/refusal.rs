//! Saying no before anything is sent. A refusal is an ordinary value with a stable code, a sentence for the
//! model and a page under `docs/refusals/`.

use crate::id::EffectId;

/// Every code that an answer of our own carries. `word()` is stable for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The provider may have applied the effect.
    OutcomeUnknown,
    /// Nothing left: resolve, connect or TLS failed.
    NotSent,
    /// Settled as failed, and no answer of the provider's is left to show.
    Failed,
    /// One key names two different requests.
    KeyReuse,
    /// Another write on the same subject is not settled.
    UnresolvedEffect,
    /// A person has to approve first.
    ApprovalRequired,
    /// A person or a rule said no.
    Denied,
    /// A limit has no room.
    LimitExceeded,
    /// A limit applies and the amount cannot be established.
    AmountUnbounded,
    /// The operator has stopped all writes.
    Halted,
    /// No declared action or host.
    Undeclared,
    /// Two parsers could read the request differently.
    Ambiguous,
    /// The input does not fit the action.
    InvalidInput,
    /// Broken or forbidden HTTP.
    InvalidRequest,
    /// The agent's own request did not arrive whole in time.
    IncompleteRequest,
    /// The body is over the bound.
    BodyTooLarge,
    /// The first of two identical requests is still running.
    InFlight,
    /// The credential could not be had or placed.
    CredentialUnavailable,
    /// `retryOf` names something that may not be retried.
    RetryRefused,
    /// An effect that this one depends on has not the outcome it needs.
    DependencyUnmet,
    /// The preview that this call is bound to is no longer true.
    StalePreview,
    /// The record cannot be written: nothing is sent without it.
    StoreUnavailable,
    /// Too much is waiting to be recorded.
    Overloaded,
    /// The provider's answer cannot be searched for the credential.
    AnswerWithheld,
}

impl Code {
    /// Every code, in the order of the documentation.
    pub const ALL: [Self; 24] = [
        Self::OutcomeUnknown,
        Self::NotSent,
        Self::Failed,
        Self::KeyReuse,
        Self::UnresolvedEffect,
        Self::ApprovalRequired,
        Self::Denied,
        Self::LimitExceeded,
        Self::AmountUnbounded,
        Self::Halted,
        Self::Undeclared,
        Self::Ambiguous,
        Self::InvalidInput,
        Self::InvalidRequest,
        Self::IncompleteRequest,
        Self::BodyTooLarge,
        Self::InFlight,
        Self::CredentialUnavailable,
        Self::RetryRefused,
        Self::DependencyUnmet,
        Self::StalePreview,
        Self::StoreUnavailable,
        Self::Overloaded,
        Self::AnswerWithheld,
    ];

    /// The public word, without the `oncegate_` that the proxy listener puts before it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::OutcomeUnknown => "outcome_unknown",
            Self::NotSent => "not_sent",
            Self::Failed => "failed",
            Self::KeyReuse => "key_reuse",
            Self::UnresolvedEffect => "unresolved_effect",
            Self::ApprovalRequired => "approval_required",
            Self::Denied => "denied",
            Self::LimitExceeded => "limit_exceeded",
            Self::AmountUnbounded => "amount_unbounded",
            Self::Halted => "halted",
            Self::Undeclared => "undeclared",
            Self::Ambiguous => "ambiguous",
            Self::InvalidInput => "invalid_input",
            Self::InvalidRequest => "invalid_request",
            Self::IncompleteRequest => "incomplete_request",
            Self::BodyTooLarge => "body_too_large",
            Self::InFlight => "in_flight",
            Self::CredentialUnavailable => "credential_unavailable",
            Self::RetryRefused => "retry_refused",
            Self::DependencyUnmet => "dependency_unmet",
            Self::StalePreview => "stale_preview",
            Self::StoreUnavailable => "store_unavailable",
            Self::Overloaded => "overloaded",
            Self::AnswerWithheld => "answer_withheld",
        }
    }

    /// The status at the proxy listener. Only 400, 403 and 422: no client tested re-sends on those
    /// (reference: 34 client configurations).
    #[must_use]
    pub fn proxy_status(self) -> u16 {
        match self {
            Self::OutcomeUnknown
            | Self::NotSent
            | Self::Failed
            | Self::KeyReuse
            | Self::UnresolvedEffect
            | Self::InFlight
            | Self::AnswerWithheld => 422,
            Self::ApprovalRequired
            | Self::Denied
            | Self::LimitExceeded
            | Self::AmountUnbounded
            | Self::Halted
            | Self::Undeclared
            | Self::Ambiguous
            | Self::CredentialUnavailable
            | Self::RetryRefused
            | Self::DependencyUnmet
            | Self::StalePreview
            | Self::StoreUnavailable
            | Self::Overloaded => 403,
            Self::InvalidInput | Self::InvalidRequest | Self::IncompleteRequest | Self::BodyTooLarge => 400,
        }
    }
}

/// A no, said before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// One or two sentences for a model or a person: what is in the way and what to do. Never a secret.
    pub sentence: String,
    /// The effect that is in the way, if one is.
    pub effect: Option<EffectId>,
}

impl Refusal {
    /// A refusal that no effect stands behind.
    #[must_use]
    pub fn new(code: Code, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into(), effect: None }
    }

    /// The same, naming the effect that is in the way.
    #[must_use]
    pub fn naming(code: Code, effect: EffectId, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into(), effect: Some(effect) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_status_of_ours_makes_a_client_send_again() {
        for code in Code::ALL {
            assert!([400, 403, 422].contains(&code.proxy_status()), "{code:?}");
        }
    }

    #[test]
    fn every_code_has_its_own_word() {
        assert_eq!(Code::ALL.iter().map(|code| code.word()).collect::<BTreeSet<_>>().len(), Code::ALL.len());
    }

    /// Stable for ever: agents and their operators branch on these.
    #[test]
    fn the_words_and_statuses_are_those_of_the_documentation() {
        let said: Vec<_> = Code::ALL.iter().map(|code| (code.word(), code.proxy_status())).collect();
        let documented = [
            ("outcome_unknown", 422),
            ("not_sent", 422),
            ("failed", 422),
            ("key_reuse", 422),
            ("unresolved_effect", 422),
            ("approval_required", 403),
            ("denied", 403),
            ("limit_exceeded", 403),
            ("amount_unbounded", 403),
            ("halted", 403),
            ("undeclared", 403),
            ("ambiguous", 403),
            ("invalid_input", 400),
            ("invalid_request", 400),
            ("incomplete_request", 400),
            ("body_too_large", 400),
            ("in_flight", 422),
            ("credential_unavailable", 403),
            ("retry_refused", 403),
            ("dependency_unmet", 403),
            ("stale_preview", 403),
            ("store_unavailable", 403),
            ("overloaded", 403),
            ("answer_withheld", 422),
        ];
        assert_eq!(said, documented);
    }
}
