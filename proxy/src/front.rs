//! A request from an agent, from its head to its answer: receive, match, then the pipeline or passthrough.

use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, header};
use oncegate_config::model::Credential;
use oncegate_policy::admission;
use oncegate_policy::caller::{CallerName, Scope};
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::url_template::Scheme;

use crate::arriving::Arriving;
use crate::asking::{Asking, Listener};
use crate::carried::Carried;
use crate::drill;
use crate::links::Links;
use crate::listener::Seat;
use crate::meaning::{self, ByUrl, Meaning};
use crate::passthrough::{self, Passing, websocket};
use crate::proof::Proof;
use crate::receive::{self, Head, Via};
use crate::state::{Sidecar, Snapshot};
use crate::upstream::Body;
use crate::{adapting, git, inject, pipeline, respond, sigv4};

/// What an agent's connection stands on, for what outlives a request.
#[derive(Clone)]
pub struct Standing {
    /// Shows who is on the other side.
    pub proof: Proof,
    /// Its place among the connections.
    pub seat: Seat,
}

/// Answers one request on a declared host. The configuration is the one of this moment, also inside an open
/// tunnel; the request keeps it to its end.
pub async fn answer(
    sidecar: &Arc<Sidecar>,
    request: Request<Arriving>,
    via: Arc<Via>,
    standing: Arc<Standing>,
) -> Response<Body> {
    let edition = sidecar.editions.latest();
    let snapshot = sidecar.snapshot();
    let git = git::Asked::of(&request);
    let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let response = match read(sidecar, &snapshot, edition, request, (&via, standing)).await {
        Ok(response) => response,
        Err(refusal) => {
            Box::pin(pipeline::audit(sidecar, Listener::Proxy, &via.caller, None, &refusal)).await;
            let mut refused = respond::refused(&refusal, snapshot.shape(&via.authority));
            if chunked {
                // Its body was not read, and where it ends is the parser's guess.
                refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            refused
        }
    };
    git::worded(git, response)
}

async fn read(
    sidecar: &Arc<Sidecar>,
    snapshot: &Arc<Snapshot>,
    edition: u64,
    mut request: Request<Arriving>,
    (via, standing): (&Arc<Via>, Arc<Standing>),
) -> Result<Response<Body>, Refusal> {
    may_invoke(snapshot, &via.caller)?;
    let websocket = websocket::is_asked(&request).then(|| hyper::upgrade::on(&mut request));
    let (parts, arriving) = request.into_parts();
    // It may be declared in another way since the tunnel was opened.
    let host = snapshot.host(&via.authority).filter(|host| host.plain == (via.scheme == Scheme::Http));
    let host = host.ok_or_else(|| undeclared_host(&via.authority.host))?;
    // In a box: many hands take it on, and each would make room for all of it.
    let mut head = Box::new(receive::head(parts, Arc::clone(via))?);
    inject::take_off(host, &mut head)?;
    if websocket.is_some() {
        websocket::allowed(host, &head.via)?;
    }
    let candidates = match meaning::by_url(snapshot, host, &head)? {
        ByUrl::Read => {
            if let Some(agent) = websocket {
                let opening = websocket::open(sidecar, snapshot, host, head, (agent, arriving), standing);
                return Box::pin(opening).await;
            }
            not_halted(sidecar, snapshot, &head).await?;
            let forward = passthrough::forward(
                sidecar,
                snapshot,
                host,
                None,
                head,
                Passing::Stream(arriving, standing),
            );
            return Box::pin(forward).await;
        }
        ByUrl::Actions(candidates) => candidates,
    };
    if let Some(action) = meaning::streamed(snapshot, &head, &candidates) {
        not_halted(sidecar, snapshot, &head).await?;
        let body = Passing::Stream(arriving, standing);
        return Box::pin(passthrough::forward(sidecar, snapshot, host, Some(action), head, body)).await;
    }
    let bounds = &snapshot.config.proxy;
    let body = Box::pin(receive::body(arriving, bounds.max_request_body, bounds.request_timeout)).await?;
    match meaning::with_body(snapshot, host, &head, &candidates, body)? {
        Meaning::Passthrough { body, action } => {
            not_halted(sidecar, snapshot, &head).await?;
            let action = action.and_then(|name| snapshot.action(name.as_str())).map(|(action, _)| action);
            let body = Passing::Whole(body.unwrap_or_default());
            Box::pin(passthrough::forward(sidecar, snapshot, host, action, head, body)).await
        }
        Meaning::Governed(named) if git::is_probe(&head, &named.body) => Ok(git::probed()),
        Meaning::Governed(named) => {
            receive::readable(&head.headers)?;
            let links = Links::of_headers(&head.own)?;
            let (action, _) =
                snapshot.action(named.action.as_str()).ok_or_else(|| undeclared_host(&via.authority.host))?;
            let credential = adapting::credential(host, Some(action), false);
            if matches!(credential.as_deref(), Some(Credential::Sigv4(_))) {
                sigv4::declared(&head.headers, &head.query, action, &named.input)?;
            }
            let drill = drill::of_request(snapshot, &via.caller, action, &head.own)?;
            let asking = Asking { edition, drill, ..Asking::proxied(*head, links, named) };
            Ok(Box::pin(govern(sidecar, snapshot, asking)).await)
        }
    }
}

/// The pipeline runs to its end, whether or not this connection still waits for what it says (P9).
async fn govern(sidecar: &Arc<Sidecar>, snapshot: &Arc<Snapshot>, asking: Asking) -> Response<Body> {
    let (authority, action) = (asking.authority.clone(), asking.action.clone());
    let (sharing, keeping) = (Arc::clone(sidecar), Arc::clone(snapshot));
    let said = Carried::new(|answering| pipeline::govern(sharing, keeping, asking, answering)).await;
    let shape = snapshot
        .action(action.as_str())
        .map(|(_, adapter)| adapter)
        .filter(|adapter| crate::adapting::is_provider(adapter))
        .or_else(|| snapshot.shape(&authority));
    match said {
        Some(said) => respond::proxied(&said, shape),
        // It ended without a word, which only a defect can bring about. It may have sent: say so.
        None => {
            let sentence = "The provider may have applied this; Oncegate could not finish its record. Do not retry; ask the operator.";
            respond::unknown(sentence, shape)
        }
    }
}

/// A halt stops every write, also one that is not governed and leaves no record; and reads where the operator wants that.
async fn not_halted(sidecar: &Arc<Sidecar>, snapshot: &Snapshot, head: &Head) -> Result<(), Refusal> {
    let read = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&head.method);
    if read && snapshot.config.proxy.reads_while_halted {
        return Ok(());
    }
    match Box::pin(sidecar.store.halted()).await {
        Ok(None) => Ok(()),
        Ok(Some(halt)) => Err(admission::halted(&halt.reason)),
        Err(error) => Err(pipeline::unrecordable(&error)),
    }
}

/// Whoever writes, or reads with the operator's credential, needs the scope for it.
fn may_invoke(snapshot: &Snapshot, caller: &CallerName) -> Result<(), Refusal> {
    let known = snapshot.config.callers.get(caller);
    if known.is_some_and(|caller| caller.scopes.contains(&Scope::ActionsInvoke)) {
        return Ok(());
    }
    let sentence = "This caller's key may not ask for actions (scope actions:invoke). Nothing was sent.";
    Err(Refusal::new(Code::Denied, sentence))
}

/// The refusal of a host that nobody declared.
#[must_use]
pub fn undeclared_host(host: &str) -> Refusal {
    let shown: String = host.chars().take(253).collect();
    let sentence = format!(
        "The host {shown} is not declared for this way. Nothing was sent. Ask the operator to declare it."
    );
    Refusal::new(Code::Undeclared, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_bytes<A, B, C, D, F: Future>(_: impl FnOnce(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// Room for it is kept in every tunnel, an idle one too: what is large lies elsewhere while it is needed.
    #[test]
    fn what_a_request_holds_is_small() {
        let whole =
            |sidecar: &'static Arc<Sidecar>, request, via, standing| answer(sidecar, request, via, standing);
        assert!(future_bytes(whole) <= 3072, "{} bytes", future_bytes(whole));
    }
}
