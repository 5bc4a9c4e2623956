//! One line for each governed request, and what is counted with it. Names, words and times: never a body, never a
//! header's value, never a key.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, StatusCode};
use oncegate_config::model::Action;
use oncegate_policy::action::ActionName;
use oncegate_policy::caller::CallerName;
use oncegate_policy::classify::Verdict;
use oncegate_policy::effect::{Rejection, Stage};
use oncegate_policy::exchange::Exchange;
use oncegate_policy::id::EffectId;
use oncegate_policy::refusal::Refusal;
use oncegate_store::plain::PlainView;
use oncegate_store::view::EffectView;
use serde_json::Value;

use crate::asking::{Asking, Listener};
use crate::metrics::{Metrics, UNDECLARED};
use crate::respond::outcome_word;
use crate::said::Said;
use crate::state::Sidecar;
use crate::traced::{Parent, Span, Traces};

/// Of what was there before.
const A_REPEAT: &str = "a repeat; answered from the record, not sent again";

/// A step of the pipeline whose time is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading the input, the rules and the credential.
    Plan,
    /// The transaction that claims the dispatch.
    Admit,
    /// From the claim to the end of the provider's answer, or to the end of the waiting for it.
    Upstream,
    /// The transaction that records what was seen.
    Record,
}

/// What one request's line will say.
pub struct Line {
    metrics: Arc<Metrics>,
    caller: CallerName,
    action: ActionName,
    listener: &'static str,
    trace: Option<Parent>,
    traces: Option<Traces>,
    came_in: SystemTime,
    began: Instant,
    lap: Instant,
    plan: Option<Duration>,
    admit: Option<Duration>,
    upstream: Option<Duration>,
    record: Option<Duration>,
    wire: Option<Wire>,
}

/// What the wire showed, in words.
struct Wire {
    seen: &'static str,
    status: Option<u16>,
    cause: String,
}

impl Line {
    /// For a request that has just come in.
    #[must_use]
    pub fn new(sidecar: &Sidecar, asking: &Asking) -> Self {
        let trace = parent(&asking.header_map);
        Self::begin(sidecar, &asking.caller, &asking.action, asking.listener.word(), trace)
    }

    /// For the dispatch of what a person let through.
    #[must_use]
    pub fn approved(sidecar: &Sidecar, effect: &EffectView) -> Self {
        Self::begin(sidecar, &effect.caller, &effect.action, "approval", None)
    }

    fn begin(
        sidecar: &Sidecar,
        caller: &CallerName,
        action: &ActionName,
        listener: &'static str,
        trace: Option<Parent>,
    ) -> Self {
        let now = Instant::now();
        Self {
            metrics: Arc::clone(&sidecar.metrics),
            caller: caller.clone(),
            action: action.clone(),
            listener,
            trace,
            traces: sidecar.traces.get().cloned(),
            came_in: sidecar.clock.system(),
            began: now,
            lap: now,
            plan: None,
            admit: None,
            upstream: None,
            record: None,
            wire: None,
        }
    }

    /// A step has ended now.
    pub fn lap(&mut self, step: Step) {
        let now = Instant::now();
        let took = now.duration_since(std::mem::replace(&mut self.lap, now));
        let place = match step {
            Step::Plan => &mut self.plan,
            Step::Admit => &mut self.admit,
            Step::Upstream => &mut self.upstream,
            Step::Record => &mut self.record,
        };
        *place = Some(took);
    }

    /// The provider's side has ended, in this way.
    pub fn saw(&mut self, exchange: &Exchange) {
        self.lap(Step::Upstream);
        self.wire = Some(Wire::of(exchange));
    }

    /// Writes the line and counts, when the request is answered.
    pub fn write(self, said: &Said) {
        let (view, repeat) = match said {
            Said::Refused(_) | Said::Unrecorded(_) => (None, false),
            Said::Provider { view, .. } => (Some(view), false),
            Said::Record { view, repeat } => (Some(view), *repeat),
        };
        let (outcome, code) = match (said, view) {
            (Said::Refused(refusal), _) => ("refused", refusal.code.word()),
            (Said::Provider { .. } | Said::Record { .. }, Some(view)) => {
                (outcome_word(&view.stage), code(view))
            }
            (Said::Provider { .. } | Said::Record { .. } | Said::Unrecorded(_), _) => ("unknown", ""),
        };
        self.count(outcome, code, repeat);
        let effect = match (view, said) {
            (Some(view), _) => Some(&view.id),
            (None, Said::Refused(refusal)) => refusal.effect.as_ref(),
            (None, Said::Unrecorded(effect)) => Some(effect),
            (None, Said::Provider { .. } | Said::Record { .. }) => None,
        };
        let wire = self.wire.as_ref();
        tracing::info!(
            effect.id = effect.map(tracing::field::display),
            invocation.id = view.map(|view| tracing::field::display(&view.invocation)),
            action.name = %self.action,
            caller = %self.caller,
            listener = self.listener,
            outcome,
            code = (!code.is_empty()).then_some(code),
            repeat,
            credential = view.and_then(|view| names(view)),
            provider.status = wire.and_then(|wire| wire.status),
            seen = wire.map(|wire| wire.seen),
            cause = wire.map(|wire| wire.cause.as_str()).filter(|cause| !cause.is_empty()),
            plan_ms = self.plan.map(millis),
            admit_ms = self.admit.map(millis),
            upstream_ms = self.upstream.map(millis),
            record_ms = self.record.map(millis),
            total_ms = millis(self.began.elapsed()),
            trace.id = self.trace.as_ref().map(|parent| parent.trace.as_str()),
            "{}",
            sentence(said, repeat)
        );
        self.span(effect, view.map(|view| &**view), (outcome, code), repeat);
    }

    /// The same for a collector, where there is one.
    fn span(
        self,
        effect: Option<&EffectId>,
        view: Option<&EffectView>,
        (outcome, code): (&'static str, &'static str),
        repeat: bool,
    ) {
        let Some(traces) = self.traces else { return };
        let wire = self.wire.as_ref();
        let text = |text: &dyn std::fmt::Display| Value::String(text.to_string());
        let took = |took: Duration| Value::from(millis(took));
        let named = [
            ("oncegate.effect_id", effect.map(|id| text(id))),
            ("oncegate.invocation_id", view.map(|view| text(&view.invocation))),
            ("oncegate.action", Some(text(&self.action))),
            ("oncegate.caller", Some(text(&self.caller))),
            ("oncegate.listener", Some(self.listener.into())),
            ("oncegate.outcome", Some(outcome.into())),
            ("oncegate.code", (!code.is_empty()).then(|| code.into())),
            ("oncegate.repeat", Some(repeat.into())),
            ("oncegate.seen", wire.map(|wire| wire.seen.into())),
            ("http.response.status_code", wire.and_then(|wire| wire.status).map(Value::from)),
            ("oncegate.plan_ms", self.plan.map(took)),
            ("oncegate.admit_ms", self.admit.map(took)),
            ("oncegate.upstream_ms", self.upstream.map(took)),
            ("oncegate.record_ms", self.record.map(took)),
        ];
        traces.take(Span {
            action: self.action.to_string(),
            parent: self.trace,
            began: self.came_in,
            ended: self.came_in + self.began.elapsed(),
            attributes: named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            outcome,
        });
    }

    fn count(&self, outcome: &'static str, code: &'static str, repeat: bool) {
        let action = self.action.as_str();
        self.metrics.request(action, outcome, code, repeat);
        if let Some(took) = self.admit {
            self.metrics.committed("admit", took);
        }
        if let Some(took) = self.record {
            self.metrics.committed("record", took);
        }
        if let Some(took) = self.upstream {
            self.metrics.upstream(action, took);
        }
    }
}

impl Wire {
    fn of(exchange: &Exchange) -> Self {
        let (seen, status, cause) = match exchange {
            Exchange::NotSent(proof) => (proof.step(), None, proof.cause()),
            Exchange::Answered(answer) => ("answered", Some(answer.status), ""),
            Exchange::Lost(loss) => (loss.phase.word(), loss.status, loss.cause.as_str()),
        };
        Self { seen, status, cause: cause.to_owned() }
    }
}

/// The names of the secrets that it carries.
fn names(view: &EffectView) -> Option<String> {
    let names: Vec<&str> =
        view.credential.iter().flat_map(|placed| placed.values().flatten()).map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// A request that was refused before it could be planned. `action` is `None` where none was recognised.
pub fn refused(
    sidecar: &Sidecar,
    caller: &CallerName,
    action: Option<&ActionName>,
    listener: Listener,
    refusal: &Refusal,
) {
    let code = refusal.code.word();
    sidecar.metrics.request(action.map_or(UNDECLARED, ActionName::as_str), "refused", code, false);
    tracing::info!(
        action.name = action.map(ActionName::as_str),
        caller = %caller,
        listener = listener.word(),
        outcome = "refused",
        code,
        repeat = false,
        "refused; nothing was sent"
    );
}

/// A request that is not governed was passed on, and answered. It has a line where it is one to an action.
pub fn passed_on(sidecar: &Sidecar, caller: &CallerName, action: Option<&Action>, status: StatusCode) {
    sidecar.metrics.passed_on();
    if let Some(action) = action {
        tracing::info!(
            action.name = %action.name,
            %caller,
            listener = Listener::Proxy.word(),
            provider.status = status.as_u16(),
            "passed on, not governed"
        );
    }
}

/// The same, of which no answer came.
pub fn lost(caller: &CallerName, action: Option<&Action>) {
    if let Some(action) = action {
        let listener = Listener::Proxy.word();
        tracing::info!(action.name = %action.name, %caller, listener, outcome = "unknown", "passed on, not governed");
    }
}

/// The same, asked for by name.
pub fn invoked(view: &PlainView, repeat: bool) {
    tracing::info!(
        invocation.id = %view.id,
        action.name = %view.action,
        caller = %view.caller,
        listener = view.listener.as_str(),
        outcome = view.status.word(),
        repeat,
        provider.status = view.response_status,
        "{}",
        if repeat { A_REPEAT } else { "invoked, not governed" }
    );
}

/// What became of a dispatch whose asker had been told that it is unknown.
pub fn late(view: &EffectView, verdict: Verdict, exchange: &Exchange) {
    let wire = Wire::of(exchange);
    tracing::info!(
        effect.id = %view.id,
        action.name = %view.action,
        caller = %view.caller,
        outcome = verdict.word(),
        seen = wire.seen,
        provider.status = wire.status,
        cause = Some(wire.cause.as_str()).filter(|cause| !cause.is_empty()),
        "the provider's side ended after the agent was answered"
    );
}

fn sentence(said: &Said, repeat: bool) -> &'static str {
    match said {
        Said::Refused(_) => "refused; nothing was sent",
        Said::Record { .. } if repeat => A_REPEAT,
        Said::Record { view, .. } => match &view.stage {
            Stage::AwaitingApproval { .. } => "waits for a person; nothing was sent",
            Stage::Ready
            | Stage::Dispatching { .. }
            | Stage::Reconciling { .. }
            | Stage::Settled(_)
            | Stage::Rejected(_) => "dispatched",
        },
        Said::Provider { .. } | Said::Unrecorded(_) => "dispatched",
    }
}

/// Why an effect was refused when it was to be sent; empty for any other.
fn code(view: &EffectView) -> &'static str {
    match &view.stage {
        Stage::Rejected(Rejection::Refused(code)) => code.word(),
        Stage::Rejected(Rejection::Denied | Rejection::Expired)
        | Stage::AwaitingApproval { .. }
        | Stage::Ready
        | Stage::Dispatching { .. }
        | Stage::Reconciling { .. }
        | Stage::Settled(_) => "",
    }
}

/// Milliseconds with three decimals.
fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}

/// The trace that a request belongs to (W3C Trace Context, `traceparent`): 32 hexadecimal digits. Anything that is not
/// well-formed is passed on all the same, and left out here.
fn parent(headers: &HeaderMap) -> Option<Parent> {
    let mut fields = headers.get_all("traceparent").iter();
    let (Some(field), None) = (fields.next(), fields.next()) else { return None };
    let mut parts = field.to_str().ok()?.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let zero = |text: &str| text.bytes().all(|b| b == b'0');
    let fits = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(parent, 16) && hex(flags, 2);
    // Only a later version may say more than these four.
    let fits = fits && (version != "00" || parts.next().is_none());
    (fits && !zero(trace) && !zero(parent))
        .then(|| Parent { trace: trace.to_owned(), span: parent.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_trace_is_named() {
        let read = |field: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", field.parse().unwrap());
            parent(&headers).map(|parent| parent.trace)
        };
        let trace = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(read(&format!("00-{trace}-b7ad6b7169203331-01")).as_deref(), Some(trace));
        assert_eq!(read(&format!("01-{trace}-b7ad6b7169203331-01-more")).as_deref(), Some(trace));
        for bad in [
            format!("00-{trace}-b7ad6b7169203331-01-more"),
            format!("ff-{trace}-b7ad6b7169203331-01"),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()),
            "sk_test_1234".to_owned(),
        ] {
            assert_eq!(read(&bad), None, "{bad}");
        }
    }
}
