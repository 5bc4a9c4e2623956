//! The JSON shapes of the API, in one place. The command line prints the same ones when it reads the database
//! by itself, so that both show the same. Members are in camelCase, times in ISO 8601, UTC.

use oncegate_store::SecretNames;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectJson {
    /// `eff_…`
    pub id: String,
    /// `inv_…`
    pub invocation_id: String,
    /// The action's name.
    pub action: String,
    /// The same, under the name that invocations have for it.
    #[serde(default)]
    pub action_name: String,
    /// The caller's name.
    pub caller: String,
    /// `proxy` or `api`.
    pub listener: String,
    /// The invocation's status.
    pub status: String,
    /// Where it stands.
    pub stage: String,
    /// What is known of the result.
    pub outcome: String,
    /// The receipt's word.
    pub grade: String,
    /// Who vouches.
    pub verification: String,
    /// The provider may have applied it, and nobody knows.
    pub unresolved_exposure: bool,
    /// What is acted on.
    pub subject: Option<String>,
    /// What it takes of limits.
    pub impact: Option<ImpactJson>,
    /// Method and URL without its query.
    pub target: String,
    /// SHA-256 of the request as it was prepared, without the credential.
    pub request_digest: String,
    /// The key that the provider deduplicates on.
    pub provider_key: String,
    /// The rendered `operation_key`, else the `operationKey` that came beside an `Idempotency-Key`.
    pub operation_key: Option<String>,
    /// The caller's own key.
    pub idempotency_key: Option<String>,
    /// The provider's last answer or record: its status.
    pub response_status: Option<u16>,
    /// How the answer was lost, or why nothing left.
    pub error: Option<String>,
    /// Whether the provider can be asked.
    pub can_read_back: bool,
    /// When it is asked next.
    pub next_look_at: Option<String>,
    /// How often the schedule has asked.
    pub looks: u32,
    /// Until when a replay is possible.
    pub replay_until: Option<String>,
    /// The failed invocation that this one retries.
    pub retry_of: Option<String>,
    /// The invocation that retries this one.
    pub retried_by: Option<String>,
    /// The effect that this one undoes.
    pub compensates: Option<String>,
    /// `apr_…`
    pub approval_id: Option<String>,
    /// `prv_…`: the preview that it was bound to.
    pub preview_id: Option<String>,
    /// The fault drill that it was sent under.
    pub fault_drill: Option<String>,
    /// Which secrets stand where in its request: names only. `null` for effects of before this was kept.
    pub credential: Option<SecretNames>,
    /// When it was asked for.
    pub created_at: String,
    /// When its one dispatch was claimed.
    pub dispatched_at: Option<String>,
    /// Since when it was not known, also after it was settled.
    pub unknown_since: Option<String>,
    /// When it was settled.
    pub settled_at: Option<String>,
    /// What had to be true of other effects. Not in lists, like all that follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<DependencyJson>>,
    /// The effects that undo this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensated_by: Option<Vec<String>>,
    /// Every contact with the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<AttemptJson>>,
    /// Every fact about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Vec<EvidenceJson>>,
    /// The room it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservations: Option<Vec<ReservationJson>>,
}

/// An effect that had to have an outcome first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DependencyJson {
    /// `eff_…`
    pub effect: String,
    /// The outcome that was needed.
    pub outcome: String,
}

/// What an effect takes of limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImpactJson {
    /// What is counted.
    pub dimension: String,
    /// For money only.
    pub currency: Option<String>,
    /// What the amount is counted in.
    pub unit: String,
    /// In minor units or counts; `null` when it could not be established.
    pub amount: Option<i64>,
    /// `exact` or `upper_bound`.
    pub bound: String,
}

/// One contact with the provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptJson {
    /// `att_…`
    pub id: String,
    /// `dispatch`, `replay` or `reconcile`.
    pub kind: String,
    /// Who asked for it.
    pub author: Option<String>,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// `succeeded`, `failed` or `unknown`.
    pub verdict: Option<String>,
    /// What the wire or the look showed.
    pub seen: Option<String>,
    /// Where it ended without an answer.
    pub step: Option<String>,
    /// What the system said.
    pub cause: Option<String>,
    /// The status that was seen.
    pub response_status: Option<u16>,
    /// SHA-256 of the answer's body.
    pub response_digest: Option<String>,
}

/// A fact, never edited.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceJson {
    /// Its place in the chain.
    pub seq: i64,
    /// When it was written.
    pub at: String,
    /// What kind of fact.
    pub kind: String,
    /// Who says so.
    pub source: Option<String>,
    /// The fact in words.
    pub text: String,
    /// The fact for programs.
    pub detail: Value,
}

/// Room taken on one limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservationJson {
    /// `lim_…`
    pub limit_id: String,
    /// The limit's name.
    pub limit: String,
    /// How much was reserved.
    pub amount: i64,
    /// `held`, `consumed` or `released`.
    pub state: String,
    /// How much was consumed.
    pub consumed: Option<i64>,
    /// When it ended.
    pub ended_at: Option<String>,
}

/// A limit and what its counters say.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitJson {
    /// `lim_…`
    pub id: String,
    /// Its name.
    pub name: String,
    /// What is counted.
    pub dimension: String,
    /// For money only.
    pub currency: Option<String>,
    /// What the amounts are counted in.
    pub unit: String,
    /// `day`, `month` or `total`.
    pub period: String,
    /// When the current period began.
    pub period_start: String,
    /// Only effects of this action.
    pub action_name: Option<String>,
    /// Only effects whose resource starts with this.
    pub resource_prefix: Option<String>,
    /// The cap.
    pub amount: i64,
    /// Succeeded in the current period.
    pub consumed: i64,
    /// Held: in flight or unknown.
    pub reserved: i64,
    /// The part of `reserved` whose effect is unknown.
    pub unknown_exposure: i64,
    /// `amount - consumed - reserved`.
    pub available: i64,
    /// Since when it counts no more.
    pub archived_at: Option<String>,
}

/// An invocation: one caller asking for one action.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvocationJson {
    /// `inv_…`; `null` when it was refused, which leaves no invocation.
    pub id: Option<String>,
    /// The same: clients read either name.
    pub invocation_id: Option<String>,
    /// The action's name.
    pub action_name: String,
    /// The caller's name.
    pub caller: String,
    /// `pending_approval`, `running`, `succeeded`, `failed`, `unknown`, `denied` or `expired`.
    pub status: String,
    /// What is known of the result.
    pub outcome: String,
    /// The receipt's word; `null` when the action is not governed.
    pub grade: Option<String>,
    /// `eff_…`; `null` when the action is not governed, or when it was refused.
    pub effect_id: Option<String>,
    /// Whether a person has to decide first.
    pub pending_approval: bool,
    /// `apr_…`
    pub approval_id: Option<String>,
    /// The provider's status; `null` when nothing was sent or nothing came back.
    pub response_status: Option<u16>,
    /// The provider's body: JSON where it is JSON, else text. `null` in lists.
    pub body: Value,
    /// Why it is not a success.
    pub error: Option<String>,
    /// Who or what decided against it.
    pub decision: Option<DecisionJson>,
    /// The failed invocation that this one retries.
    pub retry_of: Option<String>,
    /// The invocation that retries this one.
    pub retried_by: Option<String>,
    /// When it was asked for.
    pub created_at: Option<String>,
    /// Of the answer to an invoke: whether it was there before, so that nothing was sent for this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
}

/// A decision against an invocation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecisionJson {
    /// `human` or `system`.
    pub source: String,
    /// A stable code.
    pub code: String,
    /// Always `denied`.
    pub effect: String,
    /// For a person or a model.
    pub explanation: String,
}

/// A question to a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalJson {
    /// `apr_…`
    pub id: String,
    /// `pending`, `approved`, `denied` or `expired`.
    pub status: String,
    /// What it is about.
    pub title: String,
    /// More about it.
    pub description: Option<String>,
    /// What the agent gave along.
    pub payload: Value,
    /// The effect that waits for it.
    pub effect_id: Option<String>,
    /// Who asks, and may not decide.
    pub requested_by: String,
    /// Since when.
    pub requested_at: String,
    /// When it lapses.
    pub expires_at: String,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When it was decided or lapsed.
    pub decided_at: Option<String>,
    /// What the one who decided said.
    pub decision_note: Option<String>,
    /// `human`; `system` where its time was over; `null` while it is pending.
    #[serde(default)]
    pub decision_origin: Option<String>,
}

/// A decision, and what became of what waited for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecidedJson {
    /// The approval.
    pub approval: ApprovalJson,
    /// What waited for it; `null` when nothing did.
    pub invocation: Option<InvocationJson>,
}

/// Whether writes are halted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentJson {
    /// One sidecar is one environment.
    pub id: String,
    /// `active` or `halted`.
    pub status: String,
    /// The same for programs.
    pub halted: bool,
    /// What the operator said.
    pub halt_reason: Option<String>,
    /// Who halted.
    pub halted_by: Option<String>,
    /// Since when.
    pub halted_at: Option<String>,
    /// After a resume: the effects that were approved meanwhile and are sent now, oldest first, at most 200.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub let_go: Vec<String>,
}
