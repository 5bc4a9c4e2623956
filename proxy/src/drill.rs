//! Fault drills: a rehearsal of what breaks, asked for by an operator. The request is sent as it always is; what comes
//! back is then lost in the way that the drill names. Never silent: it stands in the record, the preview and the log.

use std::time::Duration;

use http::HeaderMap;
use oncegate_config::model::{Action, FaultDrill};
use oncegate_policy::caller::{CallerName, Scope};
use oncegate_policy::exchange::{Answer, Exchange, Loss, Phase};
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_store::view::EffectView;

use crate::state::Snapshot;
use crate::{adapting, receive};

/// An operator asks for a drill for one request.
pub const HEADER: &str = "oncegate-fault-drill";

/// What the wire would have shown under the effect's drill, if it has one.
pub async fn under(
    view: &EffectView,
    upstream_timeout: Duration,
    exchange: impl Future<Output = Exchange>,
) -> Exchange {
    let Some(drill) = view.drill.as_deref().and_then(FaultDrill::parse) else { return exchange.await };
    let answer = match exchange.await {
        Exchange::Answered(answer) => answer,
        // It broke by itself.
        broken @ (Exchange::NotSent(_) | Exchange::Lost(_)) => return broken,
    };
    tracing::warn!(effect.id = %view.id, drill = drill.word(), status = answer.status, "a fault drill takes the provider's answer");
    let cause = format!("fault drill {}", drill.word());
    let lost = |phase, status| Exchange::Lost(Loss { phase, cause: cause.clone(), status });
    match drill {
        FaultDrill::DropResponseAfterSend | FaultDrill::ResetAfterSend => lost(Phase::AwaitingHead, None),
        FaultDrill::TruncateAnswer => lost(Phase::ReadingBody, Some(answer.status)),
        FaultDrill::Status500AfterSend => Exchange::Answered(Answer {
            status: 500,
            reason: Some("Internal Server Error".to_owned()),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: format!(r#"{{"error":"{cause}"}}"#).into_bytes(),
        }),
        FaultDrill::Timeout => {
            // The provider has done its part; from here on nothing is heard of it.
            drop(tokio::time::timeout(upstream_timeout, std::future::pending::<()>()).await);
            lost(Phase::AwaitingHead, None)
        }
        FaultDrill::CrashBeforeRecord => {
            tracing::error!(effect.id = %view.id, "a fault drill ends the process before the outcome is recorded");
            std::process::abort();
        }
    }
}

/// The drill that a request asks for in its own field.
///
/// # Errors
/// `invalid_input` for a word that is none, `denied` for who may not, `ambiguous` for a field that stands twice.
pub fn of_request(
    snapshot: &Snapshot,
    caller: &CallerName,
    action: &Action,
    headers: &HeaderMap,
) -> Result<Option<FaultDrill>, Refusal> {
    let named = receive::only(headers, HEADER)?;
    let word = named.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let known = snapshot.config.callers.get(caller);
    let may = known.is_some_and(|caller| caller.scopes.contains(&Scope::ActionsGovern));
    asked(word.as_deref(), may, adapting::is_live(action) && !action.allow_live_drill)
}

/// The drill that a word names. `may` says whether the caller's key may ask; `live` whether the action writes to
/// something real that no drill is allowed on.
///
/// # Errors
/// `invalid_input` for a word that is none, `denied` for who may not.
fn asked(word: Option<&str>, may: bool, live: bool) -> Result<Option<FaultDrill>, Refusal> {
    let Some(word) = word else { return Ok(None) };
    let Some(drill) = FaultDrill::parse(word) else {
        let known = FaultDrill::ALL.map(FaultDrill::word).join(", ");
        let sentence = format!("Oncegate-Fault-Drill has to be one of {known}. Nothing was sent.");
        return Err(Refusal::new(Code::InvalidInput, sentence));
    };
    if !may {
        let sentence =
            "This caller's key may not ask for a fault drill (scope actions:govern). Nothing was sent.";
        return Err(Refusal::new(Code::Denied, sentence));
    }
    if live {
        let sentence = "The action is live and does not allow drills (allow_live_drill). Nothing was sent.";
        return Err(Refusal::new(Code::Denied, sentence));
    }
    Ok(Some(drill))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_ask_for_what() {
        assert_eq!(asked(None, false, true), Ok(None));
        assert_eq!(asked(Some("timeout"), true, false), Ok(Some(FaultDrill::Timeout)));
        let code = |word, may, live| asked(Some(word), may, live).unwrap_err().code;
        assert_eq!(code("nap", true, false), Code::InvalidInput);
        assert_eq!(code("timeout", false, false), Code::Denied);
        assert_eq!(code("timeout", true, true), Code::Denied);
    }
}
