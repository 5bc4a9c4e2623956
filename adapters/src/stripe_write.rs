//! `stripe.write`: any other POST of version 1 of Stripe's API that an operator declares.
//!
//! The effect's own key goes out as `Idempotency-Key`. Where the endpoint takes metadata, the effect's id goes there, and
//! is looked for in the object or in the list of its kind. Subject and impact are as declared.

mod look;
mod shape;

use oncegate_policy::impact::Dimension;
use oncegate_policy::refusal::Refusal;
use oncegate_policy::template::Scope;
use serde_json::Value;

use crate::built::Built;
use crate::declared::Declared;
use crate::look::{Look, LookStep, Memory};
use crate::plan::{Marks, Plan, Planned, Prepared, Request};
use crate::stripe::{self, Adds};
use shape::Shape;

/// One declared write.
#[derive(Clone, Debug)]
pub struct StripeWrite {
    /// `live` or `test` mode.
    pub live: bool,
    /// Where it goes, what it acts on, what it changes, and how else it can be looked for. Its `idempotency` is
    /// Stripe's.
    pub route: Declared,
}

impl StripeWrite {
    pub(crate) fn build(&self, input: &Value, scope: &Scope<'_>) -> Result<Built, Refusal> {
        let (members, headers) = stripe::apart(input)?;
        let form = Declared { headers, ..self.route.clone() };
        form.build(&Value::Object(members), scope)
    }

    pub(crate) fn plan(&self, request: &Request<'_>) -> Planned {
        match self.try_plan(request) {
            Ok(plan) => Planned::Ready(plan),
            Err(refusal) => Planned::Refused(refusal),
        }
    }

    fn try_plan(&self, request: &Request<'_>) -> Result<Plan, Refusal> {
        stripe::only_expand_in_the_query(request)?;
        let (account, version) = (stripe::account(request)?, stripe::version(request)?);
        stripe::plain_names(request.input)?;
        // Where no mark of ours goes, too: `/v1/refunds/re_1` changes what another effect made.
        stripe::no_mark_of_its_own(request.input)?;
        if let Some((Dimension::Money { currency }, _, _)) = &self.route.impact {
            // Counted in another currency, it would slip past every limit of this one.
            stripe::same_currency(request.input, currency)?;
        }
        let plan = self.route.try_plan(request)?;
        Ok(Plan {
            fingerprint_scope: account,
            read_scope: version,
            provider_key: true,
            replay_window_ms: Some(stripe::REPLAY_WINDOW_MS),
            drop_headers: vec![stripe::KEY_HEADER.to_owned()],
            ..plan
        })
    }

    pub(crate) fn prepare(&self, request: &Request<'_>, marks: &Marks<'_>) -> Result<Prepared, Refusal> {
        stripe::prepare(request, marks, Adds { amount: None, mark: self.shape().takes_metadata() })
    }

    pub(crate) fn can_read_back(&self) -> bool {
        self.route.verify.is_some() || self.shape().takes_metadata()
    }

    /// The operator's own rule goes first: it was written for this very endpoint.
    pub(crate) fn look(&self, memory: &Memory<'_>, step: LookStep<'_>) -> Look {
        if self.route.verify.is_some() {
            return self.route.look(memory, step);
        }
        let scope = Scope::of_input(memory.input);
        match self.route.url.build(&scope).ok().and_then(|url| Shape::of_url(&url)) {
            Some(shape) => look::look(&shape, memory, step),
            None => Look::Impossible("the URL cannot be built from what was asked"),
        }
    }

    /// Whether the answer is a new object whose state may be `failed`. An older one in that state can be written to all the
    /// same.
    pub(crate) fn makes_what_can_fail(&self) -> bool {
        match self.shape() {
            Shape::Create(kind) => kind.failed.contains(&"failed"),
            Shape::Update(..) | Shape::MarkedVerb(..) | Shape::Other => false,
        }
    }

    /// By the template: which endpoint it is does not depend on the ids in it.
    fn shape(&self) -> Shape {
        Shape::of_url(&self.route.url.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
