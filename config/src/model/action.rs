//! `[actions.NAME]`, as it was read.

use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::check::Check;
use oncegate_policy::classify::ResponseRules;
use oncegate_policy::impact::{AmountRule, Bound, Dimension};
use oncegate_policy::template::Template;
use oncegate_policy::url_template::UrlTemplate;

/// `[actions.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Its name.
    pub name: ActionName,
    /// `description`, for the API's listing.
    pub description: Option<String>,
    /// `enabled`; a disabled action is refused as undeclared.
    pub enabled: bool,
    /// What it means.
    pub kind: ActionKind,
    /// `operation_key`
    pub operation_key: Option<Template>,
    /// `subject`, for declared actions.
    pub subject: Option<Template>,
    /// `requires_approval`
    pub requires_approval: bool,
    /// `approval_when`, over the impact.
    pub approval_when: Option<ApprovalWhen>,
    /// `approval_expires`. Default 24 h.
    pub approval_expires: Duration,
    /// `identical_within`. Default 24 h for money and for adapters, 10 min for other declared actions.
    pub identical_within: Duration,
    /// JSON Schema of the input, as it was declared (`input_schema`).
    pub input_schema: Option<serde_json::Value>,
    /// `when`: told apart from other actions on the same route. Paths begin with `input.` in the file; here without it.
    pub when: Vec<Check>,
    /// `fault_drill`
    pub fault_drill: Option<FaultDrill>,
    /// Whether a drill is allowed although the action is live (`allow_live_drill`).
    pub allow_live_drill: bool,
}

/// `approval_when = "amount > 5000"`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalWhen {
    /// Approval is needed when the amount is above this, or is not known.
    pub amount_above: i64,
}

/// What an action means.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionKind {
    /// `adapter = { type = "stripe.refund", account, mode, currency }`
    StripeRefund(StripeRefund),
    /// `adapter = { type = "stripe.write", mode, path }`
    StripeWrite(Box<StripeWrite>),
    /// `adapter = { type = "resend.email_send", fence, read_secret }`
    ResendEmail(ResendEmail),
    /// `adapter = { type = "github.file_update", repository, branch }`
    GithubFile(GithubFile),
    /// `adapter = { type = "github.write", method, path, mark_body }`
    GithubWrite(Box<GithubWrite>),
    /// A declared route.
    Declared(Box<Declared>),
}

impl ActionKind {
    /// The secret that its requests carry, if it is not the host's credential.
    #[must_use]
    pub fn credential_secret(&self) -> Option<&str> {
        match self {
            Self::StripeRefund(refund) => Some(&refund.credential_secret),
            Self::StripeWrite(write) => write.route.credential_secret.as_deref(),
            Self::ResendEmail(email) => Some(&email.credential_secret),
            Self::GithubFile(file) => Some(&file.credential_secret),
            Self::GithubWrite(write) => write.route.credential_secret.as_deref(),
            Self::Declared(declared) => declared.credential_secret.as_deref(),
        }
    }

    /// The secret that its reads carry instead, if it is another one.
    #[must_use]
    pub fn read_secret(&self) -> Option<&str> {
        match self {
            Self::ResendEmail(email) => email.read_secret.as_deref(),
            Self::StripeRefund(_)
            | Self::StripeWrite(_)
            | Self::GithubFile(_)
            | Self::GithubWrite(_)
            | Self::Declared(_) => None,
        }
    }

    /// The declared route, where there is one.
    #[must_use]
    pub fn declared(&self) -> Option<&Declared> {
        match self {
            Self::StripeRefund(_)
            | Self::StripeWrite(_)
            | Self::ResendEmail(_)
            | Self::GithubFile(_)
            | Self::GithubWrite(_) => None,
            Self::Declared(declared) => Some(declared),
        }
    }

    /// What an operator says of the request, of an adapter's own writes too.
    #[must_use]
    pub fn route(&self) -> Option<&Declared> {
        match self {
            Self::StripeWrite(write) => Some(&write.route),
            Self::GithubWrite(write) => Some(&write.route),
            Self::Declared(declared) => Some(declared),
            Self::StripeRefund(_) | Self::ResendEmail(_) | Self::GithubFile(_) => None,
        }
    }

    /// Whether its requests go through the pipeline.
    #[must_use]
    pub fn is_governed(&self) -> bool {
        self.declared().is_none_or(|declared| declared.governed)
    }
}

/// The configuration of `stripe.refund`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeRefund {
    /// The account, for subjects and resource prefixes.
    pub account: Option<String>,
    /// `test` or `live`.
    pub live: bool,
    /// Lower-case ISO 4217.
    pub currency: String,
    /// The secret that reads and writes (`credential_secret`).
    pub credential_secret: String,
}

/// The configuration of `stripe.write`.
#[derive(Clone, Debug, PartialEq)]
pub struct StripeWrite {
    /// `test` or `live`.
    pub live: bool,
    /// `POST` of `path`, with `impact`, `verify` and `credential_secret` of the action.
    pub route: Declared,
}

/// The configuration of `github.write`.
#[derive(Clone, Debug, PartialEq)]
pub struct GithubWrite {
    /// Whether the text that people read may carry the effect's mark.
    pub mark_body: bool,
    /// `method` of `path`, with `impact`, `verify` and `credential_secret` of the action.
    pub route: Declared,
}

/// The configuration of `resend.email_send`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResendEmail {
    /// What a varied retry is recognised by.
    pub fence: EmailFence,
    /// The secret that writes (`credential_secret`).
    pub credential_secret: String,
    /// The secret that reads, if the other one may only send.
    pub read_secret: Option<String>,
}

/// What makes two mails the same while one of them is unresolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmailFence {
    /// The recipients and the words of the subject line.
    RecipientsAndSubject,
    /// The recipients alone.
    Recipients,
}

impl EmailFence {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::RecipientsAndSubject => "recipients_and_subject",
            Self::Recipients => "recipients",
        }
    }
}

/// The configuration of `github.file_update`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GithubFile {
    /// The one repository that may be written to; any without it.
    pub repository: Option<Repository>,
    /// The one branch that may be written to; any without it.
    pub branch: Option<String>,
    /// The secret that reads and writes (`credential_secret`).
    pub credential_secret: String,
}

/// `owner/name`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// A user or an organisation.
    pub owner: String,
    /// The repository's own name.
    pub name: String,
}

/// A declared route.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// `method`, upper case.
    pub method: String,
    /// `url`: builds, and matches.
    pub url: UrlTemplate,
    /// `headers`, names in lower case.
    pub headers: Vec<(String, Template)>,
    /// `scope_headers`, in lower case and sorted: the agent's own headers that make another request of the same input.
    pub scope_headers: Vec<String>,
    /// `body`: a JSON value whose strings are templates.
    pub body: Option<serde_json::Value>,
    /// `governed`. Default true for everything but GET, HEAD and OPTIONS.
    pub governed: bool,
    /// Whether its provider takes the same write as a GET, as far as a `preset` knows it.
    pub writes_by_get: bool,
    /// `impact`
    pub impact: Option<ImpactRule>,
    /// `idempotency`
    pub idempotency: Option<Idempotency>,
    /// `verify`
    pub verify: Option<Verify>,
    /// `response`
    pub response: ResponseRules,
    /// `credential_secret`, if it is not the host's credential that is used.
    pub credential_secret: Option<String>,
}

/// `impact = { dimension, amount, bound, currency/unit }`
#[derive(Clone, Debug, PartialEq)]
pub struct ImpactRule {
    /// What is counted.
    pub dimension: Dimension,
    /// How much.
    pub amount: AmountRule,
    /// Exact, or the most it can be.
    pub bound: Bound,
}

/// `idempotency = { header = "Idempotency-Key", window = "24h" }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// Where the provider reads its key.
    pub place: KeyPlace,
    /// For how long the provider remembers it.
    pub window: Duration,
    /// Whether a repeat of what failed is answered with that failure, as far as a `preset` knows it.
    pub failures_kept: Option<bool>,
}

/// Where a provider reads its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// A header, name in lower case.
    Header(String),
    /// A top-level member of the body (`body = "idempotency_key"`).
    Body(String),
}

/// What is known of a provider, taken over by `preset = "…"`.
#[derive(Clone, Debug, Default)]
pub struct Preset {
    /// Where the provider is: exact, or all below a leading dot.
    pub hosts: Vec<String>,
    /// Where its key goes, if a replay is possible.
    pub idempotency: Option<Idempotency>,
    /// How its answers are to be read.
    pub response: ResponseRules,
    /// Whether it takes its writes as GETs too: then no GET is a mere read there.
    pub writes_by_get: bool,
}

/// `verify = { url, status, match }`
#[derive(Clone, Debug, PartialEq)]
pub struct Verify {
    /// A GET on the action's own host.
    pub url: UrlTemplate,
    /// The status that a match needs. Default 200.
    pub status: u16,
    /// All must hold; at most 10.
    pub checks: Vec<Check>,
}

/// A fault that an operator asks for. The request is sent as always; what comes back is lost in one of these ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultDrill {
    /// The answer is thrown away.
    DropResponseAfterSend,
    /// The connection breaks before the answer.
    ResetAfterSend,
    /// Nothing is heard until `upstream_timeout`.
    Timeout,
    /// The answer is a 500.
    Status500AfterSend,
    /// The answer breaks off in its body.
    TruncateAnswer,
    /// The process ends before the outcome is recorded.
    CrashBeforeRecord,
}

impl FaultDrill {
    /// Every one.
    pub const ALL: [Self; 6] = [
        Self::DropResponseAfterSend,
        Self::ResetAfterSend,
        Self::Timeout,
        Self::Status500AfterSend,
        Self::TruncateAnswer,
        Self::CrashBeforeRecord,
    ];

    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::DropResponseAfterSend => "drop_response_after_send",
            Self::ResetAfterSend => "reset_after_send",
            Self::Timeout => "timeout",
            Self::Status500AfterSend => "status_500_after_send",
            Self::TruncateAnswer => "truncate_answer",
            Self::CrashBeforeRecord => "crash_before_record",
        }
    }

    /// Reads the public word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|drill| drill.word() == word)
    }
}
