//! What the log says of an effect: names and words, never a body.

use oncegate_policy::caller::CallerName;
use oncegate_policy::classify::Verdict;
use oncegate_policy::exchange::{Exchange, NotSent};
use oncegate_store::view::EffectView;

/// An answer from the record, to whoever asked.
pub fn repeat(view: &EffectView, caller: &CallerName) {
    tracing::info!(
        effect.id = %view.id,
        action.name = %view.action,
        caller = %caller,
        outcome = view.stage.outcome().word(),
        "a repeat; answered from the record, not sent again"
    );
}

/// What became of a dispatch.
pub fn dispatched(view: &EffectView, verdict: Verdict, exchange: &Exchange) {
    let (seen, status) = match exchange {
        Exchange::NotSent(proof) => (proof.step(), None),
        Exchange::Answered(answer) => ("answered", Some(answer.status)),
        Exchange::Lost(loss) => (loss.phase.word(), loss.status),
    };
    let cause = match exchange {
        Exchange::NotSent(
            NotSent::Resolve(cause)
            | NotSent::AddressRefused(cause)
            | NotSent::Connect(cause)
            | NotSent::Tls(cause)
            | NotSent::HandedBack(cause),
        ) => cause.as_str(),
        Exchange::Lost(loss) => loss.cause.as_str(),
        Exchange::Answered(_) => "",
    };
    tracing::info!(
        effect.id = %view.id,
        action.name = %view.action,
        caller = %view.caller,
        outcome = verdict.word(),
        seen,
        status,
        cause,
        "dispatched"
    );
}
