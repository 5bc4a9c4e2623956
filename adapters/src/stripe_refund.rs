//! `stripe.refund`: POST /v1/refunds (<https://docs.stripe.com/api/refunds/create>).
//!
//! Every refund carries the effect's id in its metadata, by which it is found again, and an amount: where the agent named
//! none, what was left when it was planned.

mod amount;
mod build;
mod look;
mod target;

use oncegate_policy::exchange::Answer;
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::json;
use oncegate_policy::refusal::{Code, Refusal};
use serde_json::Value;

pub(crate) use build::{input_schema, spelled};

use crate::built::Built;
use crate::look::{Look, LookStep, Memory};
use crate::plan::{Marks, Plan, Planned, Prepared, Read, Request};
use crate::read_back::ReadBack;
use crate::stripe::{
    self, Adds, KEY_HEADER, REPLAY_WINDOW_MS, account, invalid, no_mark_of_its_own, only_expand_in_the_query,
    plain_names, same_currency, version,
};
use target::{Target, TargetKind};

/// Refunds of one account, in one currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeRefund {
    /// The account, for the limits' `resource_prefix`; a request that names another in `Stripe-Account` is counted
    /// there.
    pub account: Option<String>,
    /// What amounts are counted in: lower-case ISO 4217.
    pub currency: String,
    /// `live` or `test` mode.
    pub live: bool,
}

impl StripeRefund {
    pub(crate) fn build(&self, input: &Value) -> Result<Built, Refusal> {
        build::build(input, &self.currency)
    }

    pub(crate) fn plan(&self, request: &Request<'_>) -> Planned {
        self.try_plan(request).unwrap_or_else(Planned::Refused)
    }

    /// With the answer to the read that [`Self::plan`] asked for. An answer that does not say leaves an amount that was
    /// not named open: admission refuses that only where a limit applies.
    pub(crate) fn plan_with(&self, request: &Request<'_>, read: Option<&Answer>) -> Planned {
        let planned = self.parts(request).and_then(|parts| {
            let impact = match parts.amount {
                Some(amount) => self.exactly(amount),
                None => read.and_then(amount::left).unwrap_or_else(|| self.open()),
            };
            // Counted in another currency, it would slip past every limit of this one.
            if impact.dimension != self.money() {
                return Err(invalid(format!("This action refunds in {} only", self.currency)));
            }
            Ok(Planned::Ready(self.ready(parts, impact, read)))
        });
        planned.unwrap_or_else(Planned::Refused)
    }

    fn try_plan(&self, request: &Request<'_>) -> Result<Planned, Refusal> {
        let parts = self.parts(request)?;
        let why = match (parts.amount, parts.target.kind) {
            (Some(amount), TargetKind::PaymentIntent) => {
                let impact = self.exactly(amount);
                return Ok(Planned::Ready(self.ready(parts, impact, None)));
            }
            (Some(_), TargetKind::Charge) => "the request names a charge: which payment it is of",
            (None, _) => "the request names no amount: what is left to refund",
        };
        let read_back = ReadBack::get(parts.target.amount_path(), [parts.account, parts.version].concat())
            .map_err(|fault| Refusal::new(Code::InvalidRequest, format!("{fault}. Nothing was sent.")))?;
        Ok(Planned::NeedsRead(Read { read_back, why }))
    }

    /// Reads the request, or says why it cannot be read in one way.
    fn parts(&self, request: &Request<'_>) -> Result<Parts, Refusal> {
        only_expand_in_the_query(request)?;
        let (account, version) = (account(request)?, version(request)?);
        plain_names(request.input)?;
        no_mark_of_its_own(request.input)?;
        // A refund is in the currency of its charge.
        same_currency(request.input, &self.currency)?;
        Ok(Parts {
            target: Target::of(request.input)?,
            amount: amount_asked(request.input)?,
            account,
            version,
        })
    }

    fn ready(&self, parts: Parts, impact: Impact, read: Option<&Answer>) -> Plan {
        let Parts { target, account, version, amount: _ } = parts;
        let named = account.first().map(|(_, value)| value.as_str());
        let payment = target.payment(read);
        let resource = target.resource(&payment, named.or(self.account.as_deref()));
        let (subject, near) = target.fences(&payment);
        Plan {
            subject: Some(subject),
            near,
            resource: Some(resource),
            impact: Some(impact),
            fingerprint_scope: account,
            read_scope: version,
            provider_key: true,
            replay_window_ms: Some(REPLAY_WINDOW_MS),
            drop_headers: vec![KEY_HEADER.to_owned()],
        }
    }

    /// What the agent sent, with the amount that was planned where it named none: by the time that it arrives, more may be
    /// left than was approved and held.
    pub(crate) fn prepare(
        &self,
        request: &Request<'_>,
        plan: &Plan,
        marks: &Marks<'_>,
    ) -> Result<Prepared, Refusal> {
        let open = amount_asked(request.input)?.is_none();
        // Of an upper bound less may be left, and of nothing Stripe says itself that it is refunded already.
        let exact = plan.impact.as_ref().filter(|impact| open && impact.bound == Bound::Exact);
        let planned = exact.and_then(|impact| impact.amount).filter(|amount| *amount > 0);
        stripe::prepare(request, marks, Adds { amount: planned, mark: true })
    }

    pub(crate) fn look(&self, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
        look::look(memory, step)
    }

    fn money(&self) -> Dimension {
        Dimension::Money { currency: self.currency.clone() }
    }

    fn exactly(&self, amount: i64) -> Impact {
        Impact { dimension: self.money(), amount: Some(amount), bound: Bound::Exact }
    }

    fn open(&self) -> Impact {
        Impact { dimension: self.money(), amount: None, bound: Bound::UpperBound }
    }
}

/// What a request says, once it was found to say one thing.
struct Parts {
    target: Target,
    amount: Option<i64>,
    account: Vec<(String, String)>,
    version: Vec<(String, String)>,
}

/// The amount that the request names, in minor units.
fn amount_asked(input: &Value) -> Result<Option<i64>, Refusal> {
    let value = match input.get("amount") {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let amount = json::amount(value).map_err(|fault| invalid(format!("amount: {fault}")))?;
    i64::try_from(amount).map(Some).map_err(|_| invalid("amount: it is too large"))
}

#[cfg(test)]
mod tests;
