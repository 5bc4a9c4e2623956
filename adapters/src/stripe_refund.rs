//! `stripe.refund`: POST /v1/refunds (<https://docs.stripe.com/api/refunds/create>).
//!
//! The provider deduplicates on `Idempotency-Key` for at least 24 hours
//! (<https://docs.stripe.com/api/idempotent_requests>), and every refund carries the effect's id in its metadata, by
//! which it is found again.

mod amount;
mod build;
mod look;
mod target;

use oncegate_policy::body::BodyKind;
use oncegate_policy::exchange::Answer;
use oncegate_policy::form;
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::json;
use oncegate_policy::refusal::{Code, Refusal};
use serde_json::Value;

pub(crate) use build::input_schema;

use crate::built::Built;
use crate::form_body;
use crate::look::{Look, LookStep, Memory};
use crate::plan::{Marks, Plan, Planned, Prepared, Read, Request};
use crate::read_back::ReadBack;
use target::Target;

/// The metadata member that carries the effect's id.
pub(crate) const MARK: &str = "oncegate_effect";
/// Stripe's idempotency header, lower case.
pub(crate) const KEY_HEADER: &str = "idempotency-key";
/// Keys may be forgotten once they are 24 hours old (<https://docs.stripe.com/api/idempotent_requests>).
const REPLAY_WINDOW_MS: u64 = 24 * 60 * 60 * 1000;
/// Headers that say where and as what version a request is done: they make it another request, and a read has to
/// repeat them (<https://docs.stripe.com/connect/authentication>, <https://docs.stripe.com/api/versioning>).
const SCOPE_HEADERS: [&str; 3] = ["stripe-account", "stripe-context", "stripe-version"];

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
        build::build(input)
    }

    pub(crate) fn plan(&self, request: &Request<'_>) -> Planned {
        self.try_plan(request).unwrap_or_else(Planned::Refused)
    }

    /// With the answer to the read that [`Self::plan`] asked for. An answer that does not say leaves the amount
    /// open: admission refuses that only where a limit applies.
    pub(crate) fn plan_with(&self, request: &Request<'_>, read: &Answer) -> Planned {
        let planned = self.parts(request).and_then(|parts| {
            let impact = match parts.amount {
                Some(amount) => self.exactly(amount),
                None => amount::left(read).unwrap_or_else(|| self.open()),
            };
            // Counted in another currency, it would slip past every limit of this one.
            if impact.dimension != self.money() {
                return Err(invalid(format!("This action refunds in {} only", self.currency)));
            }
            Ok(Planned::Ready(self.ready(parts, impact)))
        });
        planned.unwrap_or_else(Planned::Refused)
    }

    fn try_plan(&self, request: &Request<'_>) -> Result<Planned, Refusal> {
        let parts = self.parts(request)?;
        if let Some(amount) = parts.amount {
            let impact = self.exactly(amount);
            return Ok(Planned::Ready(self.ready(parts, impact)));
        }
        let read_back = ReadBack::get(parts.target.amount_path(), parts.scope)
            .map_err(|fault| Refusal::new(Code::InvalidRequest, format!("{fault}. Nothing was sent.")))?;
        Ok(Planned::NeedsRead(Read { read_back, why: "the request names no amount: what is left to refund" }))
    }

    /// Reads the request, or says why it cannot be read in one way.
    fn parts(&self, request: &Request<'_>) -> Result<Parts, Refusal> {
        only_expand_in_the_query(request)?;
        let scope = scope(request)?;
        plain_names(request.input)?;
        no_mark_of_its_own(request.input)?;
        self.same_currency(request.input)?;
        Ok(Parts { target: Target::of(request.input)?, amount: amount_asked(request.input)?, scope })
    }

    fn ready(&self, parts: Parts, impact: Impact) -> Plan {
        let Parts { target, scope, amount: _ } = parts;
        let account =
            scope.iter().find(|(name, _)| name != "stripe-version").map(|(_, value)| value.as_str());
        let resource = match account.or(self.account.as_deref()) {
            Some(account) => format!("{account}/{}", target.id),
            None => target.id.clone(),
        };
        Plan {
            subject: Some(target.subject()),
            resource: Some(resource),
            impact: Some(impact),
            fingerprint_scope: scope,
            provider_key: true,
            replay_window_ms: Some(REPLAY_WINDOW_MS),
            drop_headers: vec![KEY_HEADER.to_owned()],
        }
    }

    /// What the agent sent, with the effect's id in the refund's metadata and the effect's own key.
    pub(crate) fn prepare(&self, request: &Request<'_>, marks: &Marks<'_>) -> Result<Prepared, Refusal> {
        // Checked again where the mark is set: two of them, or a cleared `metadata`, and the refund is never found.
        no_mark_of_its_own(request.input)?;
        let name = format!("metadata[{MARK}]");
        let body = match request.body_kind {
            BodyKind::Form => form::append(request.body, &name, marks.effect_id),
            BodyKind::Json | BodyKind::Empty => form::append(&built(request)?, &name, marks.effect_id),
            BodyKind::Opaque => return Err(invalid("A refund must be asked for with a form or JSON")),
        };
        let headers = vec![
            ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()),
            (KEY_HEADER.to_owned(), marks.provider_key.to_owned()),
        ];
        Ok(Prepared { headers, body })
    }

    /// Stripe's keys name their mode: `sk_live_…`, `rk_test_…` (<https://docs.stripe.com/keys>). One that does not
    /// say is believed.
    pub(crate) fn credential_fits(&self, credential: &str) -> bool {
        let other = if self.live { "_test_" } else { "_live_" };
        !["sk", "rk"]
            .iter()
            .any(|kind| credential.strip_prefix(kind).is_some_and(|rest| rest.starts_with(other)))
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

    /// A refund is in the currency of its charge; a request that says another is not the one that was declared.
    fn same_currency(&self, input: &Value) -> Result<(), Refusal> {
        match input.get("currency") {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(named)) if named.eq_ignore_ascii_case(&self.currency) => Ok(()),
            Some(_) => Err(invalid(format!("This action refunds in {} only", self.currency))),
        }
    }
}

/// What a request says, once it was found to say one thing.
struct Parts {
    target: Target,
    amount: Option<i64>,
    scope: Vec<(String, String)>,
}

fn invalid(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::InvalidInput, format!("{what}. Nothing was sent."))
}

fn ambiguous(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::Ambiguous, format!("{what}. Nothing was sent."))
}

/// Stripe reads parameters from the query as well as from the body: what was judged would not be what it reads.
fn only_expand_in_the_query(request: &Request<'_>) -> Result<(), Refusal> {
    let is_expand = |name: &str| name.starts_with("expand[") && name.ends_with(']');
    match request.query.iter().any(|(name, _)| !is_expand(name)) {
        true => Err(ambiguous("A refund's parameters belong in its body; the query may only hold expand[]")),
        false => Ok(()),
    }
}

/// The form for a request that did not come as one. Version 1 of the API takes forms only
/// (<https://docs.stripe.com/api>); Stripe's own clients leave out what is `null`, too.
fn built(request: &Request<'_>) -> Result<Vec<u8>, Refusal> {
    let Value::Object(members) = request.input else { return Err(invalid("The input must be an object")) };
    let mut members = members.clone();
    if !request.query.is_empty() {
        // What stands in the query goes out in the query.
        members.remove("expand");
    }
    form_body::encode(&members).map_err(invalid)
}

fn scope(request: &Request<'_>) -> Result<Vec<(String, String)>, Refusal> {
    let mut scope = Vec::new();
    for name in SCOPE_HEADERS {
        let mut values = request.header_values(name);
        if let Some(value) = values.next() {
            // Counted as an account of no name, it would slip past every limit of the real one.
            if value.trim().is_empty() {
                return Err(ambiguous(format!("The header {name} is empty")));
            }
            scope.push((name.to_owned(), value.to_owned()));
        }
        if values.next().is_some() {
            return Err(ambiguous(format!("The header {name} was sent more than once")));
        }
    }
    Ok(scope)
}

/// Stripe's own parameters are lower-case words. Servers differ in what they make of `[amount]`, `amount]` or
/// ` amount`, and Stripe ignores none of its own.
fn plain_names(input: &Value) -> Result<(), Refusal> {
    let Value::Object(members) = input else { return Err(invalid("The input must be an object")) };
    let plain = |name: &String| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    match members.keys().all(plain) {
        true => Ok(()),
        false => Err(ambiguous("A parameter's name is not one of Stripe's lower-case words")),
    }
}

/// The effect's mark needs `metadata` to be an object, and to be the only one of its name.
fn no_mark_of_its_own(input: &Value) -> Result<(), Refusal> {
    match input.get("metadata") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(members)) if members.contains_key(MARK) => {
            Err(invalid(format!("metadata[{MARK}] is set by Oncegate and may not be sent")))
        }
        Some(Value::Object(_)) => Ok(()),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(invalid("metadata must be an object; Oncegate marks the refund in it"))
        }
    }
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
