//! What the store shows: values to read, none of which changes anything.

use std::collections::BTreeMap;

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::effect::{Outcome, Stage};
use oncegate_policy::exchange::Loss;
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::id::{ApprovalId, AttemptId, EffectId, InvocationId, LimitId, PreviewId};
use oncegate_policy::impact::Impact;
use oncegate_policy::limit::{Limit, Usage};
use oncegate_policy::time::Timestamp;

/// An effect as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectView {
    /// Its id.
    pub id: EffectId,
    /// The invocation that asked for it.
    pub invocation: InvocationId,
    /// Who asked.
    pub caller: CallerName,
    /// For what.
    pub action: ActionName,
    /// `proxy` or `api`.
    pub listener: String,
    /// Where it stands; outcome, grade and status are read off it.
    pub stage: Stage,
    /// What is acted on.
    pub subject: Option<String>,
    /// What limits with a resource prefix look at.
    pub resource: Option<String>,
    /// What it takes of limits.
    pub impact: Option<Impact>,
    /// The key that the provider deduplicates on.
    pub provider_key: String,
    /// The caller's own key, if it sent one.
    pub caller_key: Option<String>,
    /// The other one, if the request that made it carried two: `operationKey` beside `Idempotency-Key`.
    pub second_key: Option<String>,
    /// The rendered `operation_key`, if the action declares one.
    pub declared_key: Option<String>,
    /// What the request says.
    pub fingerprint: Fingerprint,
    /// SHA-256 of the request as it was prepared, 64 hex digits.
    pub request_digest: String,
    /// Method and URL without its query, for people.
    pub target: String,
    /// What the provider answered, or the provider's own record found by a look. `None` in lists, and after
    /// `[store] keep_responses`.
    pub response: Option<StoredResponse>,
    /// The status of that answer, also in lists; where none is kept, the status that the dispatch was answered with.
    pub response_status: Option<u16>,
    /// How the answer to the dispatch was lost, if it was.
    pub last_loss: Option<Loss>,
    /// The proof that the dispatch never left, if it did not.
    pub never_sent: Option<NeverSent>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When its dispatch was claimed.
    pub claimed_at: Option<Timestamp>,
    /// Since when it was not known, also after it was settled.
    pub unknown_since: Option<Timestamp>,
    /// How often the schedule has looked.
    pub looks: u32,
    /// Whether the provider can be asked at all.
    pub can_read_back: bool,
    /// Until when the provider deduplicates on `provider_key`.
    pub replay_until: Option<Timestamp>,
    /// The failed invocation that this one retries.
    pub retry_of: Option<InvocationId>,
    /// The invocation that retries this one.
    pub retried_by: Option<InvocationId>,
    /// The effect that this one undoes.
    pub compensates: Option<EffectId>,
    /// The approval that was asked for.
    pub approval: Option<ApprovalId>,
    /// The preview that it is bound to.
    pub preview: Option<PreviewId>,
    /// The fault drill that it was sent under.
    pub drill: Option<String>,
    /// Which secrets stand where in its request. `None` for effects that are older than this record.
    pub credential: Option<SecretNames>,
}

/// Names of secrets by the place that they stand in, such as `header authorization`. Never a value.
pub type SecretNames = BTreeMap<String, Vec<String>>;

/// Proof that nothing left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverSent {
    /// The step at which it ended: `resolve`, `connect`, `tls`, ….
    pub step: String,
    /// What the system said.
    pub cause: String,
}

/// An answer that is kept for repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// Where it comes from.
    pub source: ResponseSource,
    /// The status code.
    pub status: u16,
    /// The reason phrase, if it was not the usual one.
    pub reason: Option<String>,
    /// The headers worth keeping, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, whole.
    pub body: Vec<u8>,
}

/// Where a kept answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseSource {
    /// The answer to the dispatch.
    Dispatch,
    /// The answer to a replay.
    Replay,
    /// The provider's own record, found by a look.
    ReadBack,
}

impl ResponseSource {
    /// The word in the record.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Replay => "replay",
            Self::ReadBack => "read_back",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Dispatch, Self::Replay, Self::ReadBack].into_iter().find(|source| source.word() == text)
    }
}

/// A request as it would be, or was, sent. Never with a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRequest {
    /// The method.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// In the order they are sent, without the credential.
    pub headers: Vec<(String, String)>,
    /// The exact bytes.
    pub body: Vec<u8>,
}

/// An effect with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectDetail {
    /// The effect.
    pub view: EffectView,
    /// Every contact with the provider, oldest first.
    pub attempts: Vec<AttemptView>,
    /// Every fact about it, oldest first, notes included.
    pub evidence: Vec<EvidenceView>,
    /// The room it took.
    pub reservations: Vec<Reservation>,
    /// What had to be true of other effects.
    pub depends_on: Vec<(EffectId, Outcome)>,
    /// The effects that undo this one.
    pub compensated_by: Vec<EffectId>,
}

/// One contact with the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptView {
    /// Its id.
    pub id: AttemptId,
    /// What it was for.
    pub kind: AttemptKind,
    /// Who asked: `schedule` or a caller; `None` for the dispatch itself.
    pub author: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; `None` while nothing has been seen.
    pub ended_at: Option<Timestamp>,
    /// `succeeded`, `failed` or `unknown`, for dispatches and replays.
    pub verdict: Option<String>,
    /// `not_sent`, `answered`, `lost`, or what a look showed: `matched`, `provider_failed`, `no_match`, `unreadable`.
    pub seen: Option<String>,
    /// The step or the phase at which it ended without an answer.
    pub step: Option<String>,
    /// What the system said, or what a look showed in words.
    pub cause: Option<String>,
    /// The status that was seen.
    pub status: Option<u16>,
    /// SHA-256 of the answer's body, 64 hex digits.
    pub digest: Option<String>,
}

impl AttemptView {
    /// A dispatch of which nothing has been seen.
    pub(crate) fn dispatching(id: AttemptId, started_at: Timestamp) -> Self {
        Self {
            id,
            kind: AttemptKind::Dispatch,
            author: None,
            started_at,
            ended_at: None,
            verdict: None,
            seen: None,
            step: None,
            cause: None,
            status: None,
            digest: None,
        }
    }
}

/// What a contact with the provider was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptKind {
    /// The write; at most one per effect.
    Dispatch,
    /// The same write again, under the provider's key.
    Replay,
    /// A look.
    Reconcile,
}

impl AttemptKind {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Replay => "replay",
            Self::Reconcile => "reconcile",
        }
    }

    /// Reads the public word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Dispatch, Self::Replay, Self::Reconcile].into_iter().find(|kind| kind.word() == text)
    }
}

/// A fact, never edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceView {
    /// Its place in the chain.
    pub seq: i64,
    /// When it was written.
    pub at: Timestamp,
    /// What kind of fact, for example `answered`, `looked`, `note`.
    pub kind: String,
    /// Who says so: `provider`, `schedule`, or a caller.
    pub author: Option<String>,
    /// The fact in words.
    pub text: String,
    /// The fact for programs: a JSON object.
    pub detail: serde_json::Value,
}

/// Room taken on one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The limit.
    pub limit: LimitId,
    /// Its name.
    pub name: String,
    /// How much was reserved.
    pub amount: i64,
    /// `held`, `consumed` or `released`.
    pub state: String,
    /// How much was consumed, once it ended.
    pub consumed: Option<i64>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// A limit and what its counters say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// Its id.
    pub id: LimitId,
    /// The limit.
    pub limit: Limit,
    /// When the current period began.
    pub period_start: Timestamp,
    /// What is used of it.
    pub usage: Usage,
    /// Since when it counts no more.
    pub archived_at: Option<Timestamp>,
}

impl Exposure {
    /// `amount - consumed - reserved`; negative after a limit was lowered.
    #[must_use]
    pub fn available(&self) -> i64 {
        self.usage.available(self.limit.amount)
    }
}
