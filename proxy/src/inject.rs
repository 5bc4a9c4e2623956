//! Inject: fetch the secret and place it. Whatever the agent sent in that place is overwritten.

use std::sync::Arc;
use std::time::SystemTime;

use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use oncegate_config::model::{Action, Credential, Host};
use oncegate_policy::authority::Authority;
use oncegate_policy::exchange::NotSent;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::template::Scope;
use oncegate_policy::url_template::{Scheme, percent_encode};

use crate::adapting;
use crate::receive::{Head, host_value, is_read_as, set_field};
use crate::scrub::Scrubber;
use crate::secrets::{self, Placed, SecretError, Wanted};
use crate::sigv4::{self, Payload, Signer};
use crate::state::{Sidecar, Snapshot};

/// Fetches the credential of a host or an action, and the secrets that a declared action's headers name.
/// `scope` fills the other places of those headers; without one (a read), headers that need it are left out.
///
/// An access token that could not be minted is no refusal: [`Placed::unminted`] is the proof that the request did not
/// leave, and a governed write is recorded with it as failed.
///
/// # Errors
/// `credential_unavailable`. The cause goes to the log, not to the agent.
pub async fn placed(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    host: &Host,
    action: Option<&Action>,
    authority: &Authority,
    scope: Option<Scope<'_>>,
) -> Result<Placed, Refusal> {
    // A read without an action carries what its host declares, and nothing else; a write what its action does.
    let (named, comes_again) = (action.map(|action| &action.name), action.is_some() == scope.is_some());
    if comes_again && let Some(kept) = snapshot.credentials.get(named, authority) {
        return Ok(kept);
    }
    let wanted = Wanted {
        credential: adapting::credential(host, action, scope.is_none()),
        headers: action.map(|action| adapting::secret_headers(action, scope.is_some())).unwrap_or_default(),
        scope,
        fits: action.and_then(|action| snapshot.adapters.get(&action.name)),
    };
    if wanted.credential.is_none() && wanted.headers.is_empty() {
        return Ok(Placed::nothing());
    }
    match Box::pin(secrets::place(sidecar, snapshot, &wanted, &authority.host)).await {
        Ok(placed) => {
            if comes_again {
                snapshot.credentials.keep(&snapshot.config, named, authority, &wanted, &placed);
            }
            Ok(placed)
        }
        Err(SecretError::Mint { name, cause }) => {
            Ok(Placed::unminted(NotSent::Credential(format!("{name}: {cause}"))))
        }
        Err(error) => {
            tracing::error!(error = crate::upstream::chain(&error), host = %authority.host, "a credential could not be had");
            Err(Refusal::from(&error))
        }
    }
}

/// The head of a request as it leaves: the agent's fields, what the adapter sets, then the credential, last.
///
/// # Errors
/// `invalid_request` for a path that is no URI.
pub fn outgoing(
    request: Request<()>,
    agent: &HeaderMap,
    set: &[(String, String)],
    drop: &[String],
    to: (&Authority, Scheme),
    placed: Placed,
) -> Result<Request<()>, Refusal> {
    with_credential(request, marked(agent.clone(), set, drop)?, to, placed)
}

/// The agent's fields with what the adapter sets.
fn marked(mut headers: HeaderMap, set: &[(String, String)], drop: &[String]) -> Result<HeaderMap, Refusal> {
    if !drop.is_empty() {
        let dropped = |there: &&HeaderName| drop.iter().any(|name| is_read_as(there.as_str(), name));
        for name in headers.keys().filter(dropped).cloned().collect::<Vec<_>>() {
            headers.remove(name);
        }
    }
    for (name, value) in set {
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        else {
            return Err(Refusal::new(
                Code::InvalidInput,
                "A header's value has characters that cannot be sent. Nothing was sent.",
            ));
        };
        set_field(&mut headers, name, value);
    }
    Ok(headers)
}

/// The head of a request that nothing but the credential is put into.
///
/// # Errors
/// As [`outgoing`].
pub fn with_credential(
    mut request: Request<()>,
    mut headers: HeaderMap,
    to: (&Authority, Scheme),
    placed: Placed,
) -> Result<Request<()>, Refusal> {
    if let Some(host) = host_value(to.0, to.1) {
        headers.insert(HOST, host);
    }
    if !placed.scrubber.is_empty() {
        // So that a reflected credential can be found in the answer.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    if !placed.query.is_empty() {
        let uri = with_query(request.uri(), &placed)?;
        *request.uri_mut() = uri;
    }
    for (name, value) in placed.headers {
        set_field(&mut headers, name, value);
    }
    *request.headers_mut() = headers;
    Ok(request)
}

/// Makes a request whole that was judged with its body: unpacked answers are asked for (we read them first, and unpack
/// nothing), the length is that of the bytes, and the signature is over all of it.
///
/// # Errors
/// As [`Signer::sign`].
pub fn finish(
    head: &mut Request<()>,
    body: &[u8],
    to: (&Authority, Scheme),
    (signer, scrubber): (Option<&Signer>, &mut Scrubber),
    now: SystemTime,
) -> Result<(), Refusal> {
    head.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    set_length(head, body.len());
    if let Some(signer) = signer {
        hide(scrubber, &signer.sign(head, to, Payload::Whole(body), now)?)?;
    }
    Ok(())
}

/// A signature is looked for in the answer, too.
///
/// # Errors
/// `credential_unavailable`.
pub fn hide(scrubber: &mut Scrubber, signature: &str) -> Result<(), Refusal> {
    scrubber.also("signature", signature).map_err(|_| Refusal::from(&SecretError::Unsearchable))
}

/// What was judged is what is sent: the length is that of the buffered bytes.
pub fn set_length(request: &mut Request<()>, bytes: usize) {
    request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes));
}

/// Replaces the agent's parameters of the credential's name.
fn with_query(uri: &Uri, placed: &Placed) -> Result<Uri, Refusal> {
    let kept = without_parameters(uri, |name| placed.query.iter().any(|(ours, _)| ours == name))?;
    let ours = placed
        .query
        .iter()
        .map(|(name, value)| format!("{}={}", percent_encode(name), percent_encode(value)));
    let query = kept.query().map(str::to_owned).into_iter().chain(ours).collect::<Vec<_>>().join("&");
    format!("{}?{query}", kept.path()).parse().map_err(|_| unsendable())
}

/// Takes what the host's credential replaces off the query, before the request is judged: it never leaves, so it is no
/// part of what is asked, and another one makes no other request.
///
/// # Errors
/// `invalid_request` for a target that is no URI.
pub fn take_off(host: &Host, head: &mut Head) -> Result<(), Refusal> {
    let gone = |name: &str| match &host.credential {
        Some(Credential::Query { name: ours, .. }) => ours == name,
        Some(Credential::Sigv4(_)) => sigv4::is_theirs_in_query(name),
        Some(Credential::Header { .. } | Credential::Basic { .. }) | None => false,
    };
    if head.query.iter().any(|(name, _)| gone(name)) {
        let target = without_parameters(&Uri::from(head.raw_path_and_query.clone()), gone)?;
        head.raw_path_and_query = target.path_and_query().cloned().ok_or_else(unsendable)?;
        head.query.retain(|(name, _)| !gone(name));
    }
    Ok(())
}

/// A target without the parameters that `gone` names, however often and in whatever spelling they stand. What stays is
/// not written anew.
///
/// # Errors
/// `invalid_request` for a target that is no URI.
pub(crate) fn without_parameters(uri: &Uri, gone: impl Fn(&str) -> bool) -> Result<Uri, Refusal> {
    let is_gone = |pair: &str| {
        let name = pair.split('=').next().unwrap_or("").replace('+', " ");
        gone(&percent_encoding::percent_decode_str(&name).decode_utf8_lossy())
    };
    let pairs = || uri.query().unwrap_or("").split('&').filter(|pair| !pair.is_empty());
    if !pairs().any(is_gone) {
        return Ok(uri.clone());
    }
    let kept = pairs().filter(|pair| !is_gone(pair)).collect::<Vec<_>>().join("&");
    let target = if kept.is_empty() { uri.path().to_owned() } else { format!("{}?{kept}", uri.path()) };
    target.parse().map_err(|_| unsendable())
}

fn unsendable() -> Refusal {
    Refusal::new(Code::InvalidRequest, "The URL cannot be sent. Nothing was sent.")
}
