//! One read of our own at a provider: a GET with the credential of the action, for a plan or for a look.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use oncegate_adapters::ReadBack;
use oncegate_config::model::{Action, Host};
use oncegate_policy::authority::Authority;
use oncegate_policy::exchange::Exchange;
use oncegate_policy::url_template::Scheme;

use crate::sigv4::Payload;
use crate::state::{Sidecar, Snapshot};
use crate::{inject, upstream};

/// Asks once, within `within`.
///
/// # Errors
/// Why nothing was asked: the credential, or a path that is no URI.
pub async fn ask(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    (host, action): (&Host, &Action),
    to: (&Authority, Scheme),
    read_back: &ReadBack,
    within: Duration,
) -> Result<Exchange, String> {
    let mut placed = inject::placed(sidecar, snapshot, host, Some(action), to.0, None)
        .await
        .map_err(|refusal| refusal.sentence)?;
    if let Some(proof) = placed.unminted {
        return Ok(Exchange::NotSent(proof));
    }
    let mut scrubber = std::mem::take(&mut placed.scrubber);
    let (lent, signer) = (std::mem::take(&mut placed.lent), placed.signer.take());
    let request =
        Request::builder().uri(read_back.path_and_query()).body(()).map_err(|error| error.to_string())?;
    let none = http::HeaderMap::new();
    let mut head = inject::outgoing(request, &none, read_back.headers(), &[], to, placed)
        .map_err(|refusal| refusal.sentence)?;
    if let Some(signer) = signer {
        let signature = signer.sign(&mut head, to, Payload::Whole(b""), sidecar.clock.system());
        let signature = signature.map_err(|refusal| refusal.sentence)?;
        inject::hide(&mut scrubber, &signature).map_err(|refusal| refusal.sentence)?;
    }
    let destination = snapshot.destination(to.0, host);
    let mut bounds = snapshot.bounds();
    bounds.upstream_timeout = within;
    Ok(upstream::read(&sidecar.pool, &destination, head, (scrubber, lent), bounds).await)
}
