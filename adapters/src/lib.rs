//! What each provider means: builds requests and reads answers. Sends nothing, reads no clock, keeps nothing.
//!
//! An [`Adapter`] is asked, in this order: for an input that came without one, the request ([`Adapter::build`]); what a
//! request means ([`Adapter::plan`]), what goes out in its place
//! ([`Adapter::prepare`]), how the answer is to be judged ([`Adapter::response_rules`]), and, when the answer was
//! lost, how to look for the effect ([`Adapter::look`]).

mod built;
pub mod catalog;
pub mod declared;
mod error_shape;
mod form_body;
mod github;
pub mod github_file;
pub mod github_write;
mod kept_failure;
mod look;
mod own_marks;
mod plan;
mod read_back;
pub mod resend_email;
mod stripe;
pub mod stripe_refund;
pub mod stripe_write;

pub use built::Built;
pub use error_shape::{OwnError, no_adapter_error_body};
pub use look::{Look, LookStep, Memory};
pub use own_marks::{holds_a_key, no_other_effect, only_of};
pub use plan::{Marks, Plan, Planned, Prepared, Read, Request};
pub use read_back::{ReadBack, ReadBackFault};

use std::borrow::Cow;

use oncegate_policy::classify::ResponseRules;
use oncegate_policy::exchange::Answer;
use oncegate_policy::refusal::Refusal;
use oncegate_policy::template::Scope;
use serde_json::Value;

/// Where the usual table is not departed from.
static USUAL: ResponseRules = ResponseRules {
    failed_statuses: Vec::new(),
    succeeded_when: Vec::new(),
    failed_when: Vec::new(),
    failed_states: &[],
};
/// Stripe answers 200 with a new object that failed at once: a refund, a payout, a charge
/// (<https://docs.stripe.com/api/refunds/object#refund_object-status>, <https://docs.stripe.com/api/payouts/object#payout_object-status>).
static OF_STRIPE: ResponseRules = ResponseRules {
    failed_statuses: Vec::new(),
    succeeded_when: Vec::new(),
    failed_when: Vec::new(),
    failed_states: &["failed"],
};

/// What one action means at its provider.
#[expect(
    clippy::large_enum_variant,
    reason = "one for each declared action, made once when the configuration is read"
)]
#[derive(Clone, Debug)]
pub enum Adapter {
    /// `adapter = { type = "stripe.refund", … }`
    StripeRefund(stripe_refund::StripeRefund),
    /// `adapter = { type = "resend.email_send", … }`
    ResendEmail(resend_email::ResendEmail),
    /// `adapter = { type = "github.file_update", … }`
    GithubFile(github_file::GithubFile),
    /// `adapter = { type = "github.write", … }`
    GithubWrite(Box<github_write::GithubWrite>),
    /// `adapter = { type = "stripe.write", … }`
    StripeWrite(Box<stripe_write::StripeWrite>),
    /// A declared route.
    Declared(declared::Declared),
}

impl Adapter {
    /// The request for an input that came without one, through the API listener: what an agent would have sent through
    /// the proxy, before the effect's marks and the credential.
    ///
    /// `scope` names the effect, where a declared template needs it; its `input` is not read.
    ///
    /// # Errors
    /// The input lacks what the request needs, or holds what cannot stand there.
    pub fn build(&self, input: &Value, scope: &Scope<'_>) -> Result<Built, Refusal> {
        match self {
            Self::StripeRefund(refund) => refund.build(input),
            Self::ResendEmail(email) => email.build(input),
            Self::GithubFile(file) => file.build(input),
            Self::GithubWrite(write) => write.build(input, scope),
            Self::StripeWrite(write) => write.build(input, scope),
            Self::Declared(declared) => declared.build(input, scope),
        }
    }

    /// The input of an invocation as its provider spells it: what the published API's clients call otherwise has one name
    /// before anything is judged.
    ///
    /// # Errors
    /// `invalid_input`: one member in two spellings.
    pub fn spelled(&self, input: Value) -> Result<Value, Refusal> {
        match self {
            Self::StripeRefund(_) => stripe_refund::spelled(input),
            Self::ResendEmail(_)
            | Self::GithubFile(_)
            | Self::GithubWrite(_)
            | Self::StripeWrite(_)
            | Self::Declared(_) => Ok(input),
        }
    }

    /// The JSON Schema of the input that [`Self::build`] takes, for listings; `None` where only an operator can say.
    #[must_use]
    pub fn input_schema(&self) -> Option<Value> {
        match self {
            Self::StripeRefund(_) => Some(stripe_refund::input_schema()),
            Self::ResendEmail(_) => Some(resend_email::input_schema()),
            Self::GithubFile(_) => Some(github_file::input_schema()),
            // Which parameters an endpoint takes, its provider's reference says.
            Self::StripeWrite(_) | Self::GithubWrite(_) | Self::Declared(_) => None,
        }
    }

    /// Whether a proxied request, whose body goes as it came, says what the action is judged by (`judged`, dotted input
    /// paths) where its declared body and fields put it, and only there. Asked before [`Self::plan`].
    ///
    /// # Errors
    /// `invalid_input`: it says something else there.
    pub fn fits(&self, request: &Request<'_>, judged: &[&str]) -> Result<(), Refusal> {
        match self {
            Self::Declared(declared) => declared.fits(request, judged),
            // What these send is made of what they have judged.
            Self::StripeRefund(_)
            | Self::StripeWrite(_)
            | Self::ResendEmail(_)
            | Self::GithubFile(_)
            | Self::GithubWrite(_) => Ok(()),
        }
    }

    /// Whether what it did is looked for by the effect's id or key, as an operator's `verify` says.
    #[must_use]
    pub fn is_read_by_effect(&self) -> bool {
        let verify = match self {
            Self::StripeRefund(_) | Self::ResendEmail(_) | Self::GithubFile(_) => None,
            Self::StripeWrite(write) => write.route.verify.as_ref(),
            Self::GithubWrite(write) => write.verify(),
            Self::Declared(declared) => declared.verify.as_ref(),
        };
        verify.is_some_and(declared::Verify::names_the_effect)
    }

    /// What a request means; may need a read first.
    #[must_use]
    pub fn plan(&self, request: &Request<'_>) -> Planned {
        match self {
            Self::StripeRefund(refund) => refund.plan(request),
            Self::ResendEmail(email) => email.plan(request),
            Self::GithubFile(file) => file.plan(request),
            Self::GithubWrite(write) => write.plan(request),
            Self::StripeWrite(write) => write.plan(request),
            Self::Declared(declared) => declared.plan(request),
        }
    }

    /// The same, with the complete answer to the read that [`Self::plan`] asked for, if one came. Never asks for another.
    #[must_use]
    pub fn plan_with(&self, request: &Request<'_>, read: Option<&Answer>) -> Planned {
        match self {
            Self::StripeRefund(refund) => refund.plan_with(request, read),
            Self::ResendEmail(email) => email.plan(request),
            Self::GithubFile(file) => file.plan_with(request, read),
            Self::GithubWrite(write) => write.plan(request),
            Self::StripeWrite(write) => write.plan(request),
            Self::Declared(declared) => declared.plan(request),
        }
    }

    /// What goes out: what the agent sent plus the effect's marks, and what `plan` found out that the request left open.
    ///
    /// # Errors
    /// What was sent cannot carry the marks.
    pub fn prepare(
        &self,
        request: &Request<'_>,
        plan: &Plan,
        marks: &Marks<'_>,
    ) -> Result<Prepared, Refusal> {
        match self {
            Self::StripeRefund(refund) => refund.prepare(request, plan, marks),
            Self::ResendEmail(email) => email.prepare(request, marks),
            Self::GithubFile(file) => file.prepare(request, marks),
            Self::GithubWrite(write) => write.prepare(request, marks),
            Self::StripeWrite(write) => write.prepare(request, marks),
            Self::Declared(declared) => declared.prepare(request, marks),
        }
    }

    /// Where the provider's answers depart from the usual table.
    #[must_use]
    pub fn response_rules(&self) -> &ResponseRules {
        match self {
            // Stripe's statuses mean what the table says, 409 included: it is also the answer to a request whose
            // first try is still running (<https://docs.stripe.com/api/errors>).
            Self::StripeRefund(_) => &OF_STRIPE,
            Self::StripeWrite(write) if write.makes_what_can_fail() => &OF_STRIPE,
            Self::StripeWrite(_) => &USUAL,
            // 409 says that the key was seen before, which may have been ourselves.
            Self::ResendEmail(_) => &USUAL,
            Self::GithubFile(file) => file.response_rules(),
            Self::GithubWrite(write) => write.response_rules(),
            Self::Declared(declared) => &declared.response,
        }
    }

    /// One step of looking for an effect.
    #[must_use]
    pub fn look(&self, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
        match self {
            Self::StripeRefund(refund) => refund.look(memory, step),
            Self::ResendEmail(email) => email.look(memory, step),
            Self::GithubFile(file) => file.look(memory, step),
            Self::GithubWrite(write) => write.look(memory, step),
            Self::StripeWrite(write) => write.look(memory, step),
            Self::Declared(declared) => declared.look(memory, step),
        }
    }

    /// An answer of our own, in the provider's error format.
    #[must_use]
    pub fn error_body(&self, error: &OwnError<'_>) -> Vec<u8> {
        match self {
            Self::StripeRefund(_) | Self::StripeWrite(_) => error_shape::stripe(error),
            Self::ResendEmail(_) => error_shape::resend(error),
            Self::GithubFile(_) | Self::GithubWrite(_) => error_shape::github(error),
            Self::Declared(_) => no_adapter_error_body(error),
        }
    }

    /// The status at the proxy listener for one key that names two requests.
    #[must_use]
    pub fn key_reuse_status(&self) -> u16 {
        match self {
            Self::StripeRefund(_) | Self::StripeWrite(_) => 400,
            Self::ResendEmail(_) | Self::GithubFile(_) | Self::GithubWrite(_) | Self::Declared(_) => 422,
        }
    }

    /// The provider's own idempotency header, lower case, in which an agent's key may come too.
    #[must_use]
    pub fn key_header(&self) -> Option<&str> {
        match self {
            Self::StripeRefund(_) | Self::StripeWrite(_) => Some(stripe::KEY_HEADER),
            Self::ResendEmail(_) => Some(resend_email::KEY_HEADER),
            Self::GithubFile(_) | Self::GithubWrite(_) => None,
            Self::Declared(declared) => declared.key_header(),
        }
    }

    /// The top-level member of the body that is the provider's idempotency key: an agent's key may come in it, and
    /// it is no part of what the request says.
    #[must_use]
    pub fn key_member(&self) -> Option<&str> {
        match self {
            Self::StripeRefund(_)
            | Self::StripeWrite(_)
            | Self::ResendEmail(_)
            | Self::GithubFile(_)
            | Self::GithubWrite(_) => None,
            Self::Declared(declared) => declared.key_member(),
        }
    }

    /// For how long the provider deduplicates on the effect's own key, as the action says it now, in milliseconds.
    #[must_use]
    pub fn key_window_ms(&self) -> Option<u64> {
        match self {
            Self::StripeRefund(_) | Self::StripeWrite(_) => Some(stripe::REPLAY_WINDOW_MS),
            Self::ResendEmail(_) => Some(resend_email::REPLAY_WINDOW_MS),
            Self::GithubFile(_) | Self::GithubWrite(_) => None,
            Self::Declared(declared) => declared.idempotency.as_ref().map(|(_, window_ms)| *window_ms),
        }
    }

    /// Top-level members that only shape the answer: with or without them, it is the same request.
    #[must_use]
    pub fn answer_members(&self) -> &'static [&'static str] {
        match self {
            // <https://docs.stripe.com/api/expanding_objects>
            Self::StripeRefund(_) | Self::StripeWrite(_) => &["expand"],
            Self::ResendEmail(_) | Self::GithubFile(_) | Self::GithubWrite(_) | Self::Declared(_) => &[],
        }
    }

    /// What a request says, as the proxy reads it, without the places where the action's own body names the effect.
    #[must_use]
    pub fn without_marks<'a>(&self, said: &'a Value) -> Cow<'a, Value> {
        match self {
            Self::Declared(declared) => declared.without_marks(said),
            // None of these declares a body.
            Self::StripeRefund(_)
            | Self::StripeWrite(_)
            | Self::ResendEmail(_)
            | Self::GithubFile(_)
            | Self::GithubWrite(_) => Cow::Borrowed(said),
        }
    }

    /// What declared fields say that `said`, what the request says as the proxy reads it, does not.
    ///
    /// # Errors
    /// `ambiguous`: one of them is empty, or stands there more than once.
    pub fn said_in_fields(
        &self,
        request: &Request<'_>,
        said: &Value,
    ) -> Result<Vec<(String, String)>, Refusal> {
        match self {
            Self::Declared(declared) => declared.said_in_fields(request, said),
            Self::StripeRefund(_)
            | Self::StripeWrite(_)
            | Self::ResendEmail(_)
            | Self::GithubFile(_)
            | Self::GithubWrite(_) => Ok(Vec::new()),
        }
    }

    /// What makes the same words another request, beside the headers of a plan: what was done in Stripe's test mode was not
    /// done, and the first live request is no repeat of it (<https://docs.stripe.com/keys>). Test mode has the word, so that
    /// a live effect of an earlier version is still known by what it says.
    #[must_use]
    pub fn world(&self) -> Option<(&'static str, &'static str)> {
        let test = match self {
            Self::StripeRefund(refund) => !refund.live,
            Self::StripeWrite(write) => !write.live,
            Self::ResendEmail(_) | Self::GithubFile(_) | Self::GithubWrite(_) | Self::Declared(_) => false,
        };
        test.then_some(("mode", "test"))
    }

    /// The same action in its provider's other mode, live for test and test for live, where there are two.
    #[must_use]
    pub fn in_the_other_mode(&self) -> Option<Self> {
        match self {
            Self::StripeRefund(refund) => {
                let live = !refund.live;
                Some(Self::StripeRefund(stripe_refund::StripeRefund { live, ..refund.clone() }))
            }
            Self::StripeWrite(write) => {
                let live = !write.live;
                Some(Self::StripeWrite(Box::new(stripe_write::StripeWrite { live, ..(**write).clone() })))
            }
            Self::ResendEmail(_) | Self::GithubFile(_) | Self::GithubWrite(_) | Self::Declared(_) => None,
        }
    }

    /// Whether an effect can be looked for at all.
    #[must_use]
    pub fn can_read_back(&self) -> bool {
        match self {
            Self::StripeRefund(_) | Self::ResendEmail(_) | Self::GithubFile(_) => true,
            Self::StripeWrite(write) => write.can_read_back(),
            Self::GithubWrite(write) => write.can_read_back(),
            Self::Declared(declared) => declared.verify.is_some(),
        }
    }

    /// Whether a credential may be of the declared mode: a key that says `live` where `test` is declared, or the
    /// other way round, is not.
    #[must_use]
    pub fn credential_fits(&self, credential: &str) -> bool {
        match self {
            Self::StripeRefund(refund) => stripe::credential_fits(refund.live, credential),
            Self::StripeWrite(write) => stripe::credential_fits(write.live, credential),
            Self::ResendEmail(_) | Self::GithubFile(_) | Self::GithubWrite(_) | Self::Declared(_) => true,
        }
    }
}
