//! One look at the provider: what the adapter asks for, asked and judged. It can only read: [`oncegate_adapters::ReadBack`]
//! has no method and no body to set.

use std::sync::Arc;
use std::time::Duration;

use oncegate_adapters::{Adapter, Look, LookStep, Memory, ReadBack};
use oncegate_config::model::{Action, Host};
use oncegate_policy::exchange::{Answer, Exchange};
use oncegate_policy::reconcile::{Finding, Looker};
use oncegate_store::look::LookDue;
use serde_json::Value;
use tokio::time::Instant;

use crate::state::{Sidecar, Snapshot};
use crate::{adapting, as_prepared, read, reconciler};

/// Questions in one look; the adapters have bounds of their own below it.
const QUESTIONS_MAX: usize = 128;

/// How a server took a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// It answered, or was not asked.
    Answers,
    /// It kept the look waiting until its time was over.
    Silent,
    /// It asks for a pause (429, 503), for so long if it says so.
    Busy(Option<Duration>),
}

/// One look, as many questions as it takes. Always ends in a finding. A server that rests is asked nothing, whoever wants the
/// look; one that does not answer a look of the schedule, or asks for a pause, rests from now on. A key that asks again and again
/// puts off nobody else's look (P8): it makes a server rest only for as long as that says itself.
pub async fn look(sidecar: &Arc<Sidecar>, snapshot: &Snapshot, due: &LookDue, looker: &Looker) -> Finding {
    let action = snapshot.declared(due.view.action.as_str());
    let authority = action.map(|(action, _)| adapting::authority(action));
    if authority.as_ref().is_some_and(|authority| sidecar.unasked.rests(authority)) {
        return Finding::Unreadable {
            what: "the provider did not answer, or asks for a pause, and is asked nothing for a while".into(),
        };
    }
    let mut server = Server::Answers;
    let begun = Instant::now();
    let finding = found(sidecar, snapshot, due, &mut server).await;
    sidecar.metrics.looked(&finding);
    // What is asked has as long as the whole look: whichever of the two ends first, the time was used up.
    let waited = begun.elapsed() * 10 >= snapshot.config.reconcile.timeout * 9;
    let unread = match &finding {
        Finding::Unreadable { .. } => true,
        Finding::Matched { .. } | Finding::ProviderSaysFailed { .. } | Finding::NoMatch { .. } => false,
    };
    if unread && waited && server == Server::Answers {
        server = Server::Silent;
    }
    let pause = match (server, looker) {
        (Server::Answers, _) | (Server::Silent | Server::Busy(None), Looker::Caller(_)) => return finding,
        (Server::Silent | Server::Busy(None), Looker::Schedule) => reconciler::longest_wait(sidecar),
        (Server::Busy(Some(pause)), _) => pause.min(snapshot.config.reconcile.schedule.max_interval),
    };
    if let Some(server) = authority
        && sidecar.unasked.rest(server.clone(), pause)
    {
        tracing::warn!(host = %server.host, pause_s = pause.as_secs(), "a provider does not answer looks, or asks for a pause: it is asked nothing for a while");
    }
    finding
}

async fn found(sidecar: &Arc<Sidecar>, snapshot: &Snapshot, due: &LookDue, server: &mut Server) -> Finding {
    let unreadable = |what: &str| Finding::Unreadable { what: what.into() };
    // One that is not enabled sends nothing more, and what it has sent is looked for all the same.
    let Some((action, adapter)) = snapshot.declared(due.view.action.as_str()) else {
        return unreadable("the action is no longer declared");
    };
    let authority = adapting::authority(action);
    let Some(host) = snapshot.host(&authority) else { return unreadable("its host is no longer declared") };
    let Ok(memory) = serde_json::from_str::<Value>(&due.memory) else {
        return unreadable("what was remembered of it cannot be read");
    };
    if let Err(elsewhere) = as_prepared::still_there(action, adapter, &due.view, &memory) {
        return unreadable(elsewhere.what());
    }
    let headers: Vec<(String, String)> =
        serde_json::from_value(memory["headers"].clone()).unwrap_or_default();
    // What a refusal names is somebody else's, such as the object that was there already.
    let answer = due.view.response.as_ref().filter(|kept| (200..=299).contains(&kept.status));
    let response = answer.and_then(|kept| serde_json::from_slice(&kept.body).ok());
    let remembered = Memory {
        effect_id: due.view.id.as_str(),
        provider_key: &due.view.provider_key,
        input: &memory["input"],
        headers: &headers,
        response: response.as_ref(),
        sent_at_ms: due.view.claimed_at.unwrap_or(due.view.created_at).0,
    };
    let timed = tokio::time::timeout(
        snapshot.config.reconcile.timeout,
        questions(sidecar, snapshot, (host, action, adapter), &remembered, server),
    );
    timed.await.unwrap_or_else(|_| unreadable("the look took too long"))
}

async fn questions(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    (host, action, adapter): (&Host, &Action, &Adapter),
    memory: &Memory<'_>,
    server: &mut Server,
) -> Finding {
    let mut next = adapter.look(memory, LookStep::First);
    for page in 1..=QUESTIONS_MAX {
        let request = match next {
            Look::Found(finding) => return finding,
            Look::Impossible(why) => return Finding::Unreadable { what: why.into() },
            Look::Ask(request) => request,
        };
        let answer = match ask(sidecar, snapshot, host, action, &request).await {
            Ok(answer) => answer,
            Err(what) => return Finding::Unreadable { what: what.into() },
        };
        if matches!(answer.status, 429 | 503) {
            *server = Server::Busy(retry_after(&answer));
        }
        next = adapter.look(memory, LookStep::Next { request: &request, answer: &answer, page });
    }
    Finding::Unreadable { what: "the look asked too many questions".into() }
}

/// One question, with the credential of the action.
async fn ask(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    host: &Host,
    action: &Action,
    read_back: &ReadBack,
) -> Result<Answer, String> {
    let authority = adapting::authority(action);
    let to = (&authority, adapting::scheme(action));
    let within = snapshot.config.reconcile.timeout;
    match read::ask(sidecar, snapshot, (host, action), to, read_back, within).await? {
        Exchange::Answered(answer) => Ok(answer),
        Exchange::NotSent(proof) => Err(format!("{}: {}", proof.step(), proof.cause())),
        Exchange::Lost(loss) => Err(loss.cause),
    }
}

/// `Retry-After` in seconds (RFC 9110 section 10.2.3). A date is left to the usual pause.
fn retry_after(answer: &Answer) -> Option<Duration> {
    let said = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
    said.and_then(|(_, value)| value.trim().parse().ok()).map(Duration::from_secs)
}
