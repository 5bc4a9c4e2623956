//! Clients that know no proxy: their connections to port 443 are redirected here, and the name that the TLS asks for
//! (SNI) says where they meant to go. From there on all is as inside a `CONNECT` tunnel to that name.
//!
//! The listener belongs to one caller: there is no place for a key before the TLS, and after it the request is the
//! provider's.

use std::sync::Arc;

use oncegate_policy::authority::Authority;
use oncegate_policy::url_template::Scheme;
use tokio::io::AsyncWriteExt;
use tokio_rustls::server::StartHandshake;

use crate::listener::{Seat, stopped};
use crate::peeked::Peeked;
use crate::proof::Proof;
use crate::receive::Via;
use crate::state::Sidecar;
use crate::tunnel::{self, Inside, Way};
use crate::upstream::wire::Stream;

/// The port that was meant: one that is redirected cannot be told from the connection.
const PORT: u16 = 443;
/// A fatal alert `unrecognized_name` in a record of its own (RFC 8446 sections 5.1 and 6, RFC 6066 section 3).
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Serves a connection to its end.
pub async fn serve(sidecar: Arc<Sidecar>, stream: Box<dyn Stream>, proof: Proof, mut seat: Seat) {
    let ended = tokio::select! {
        start = tunnel::hello(Peeked::new(stream)) => match start {
            Ok(start) => named(sidecar, start, proof, seat).await,
            Err(cause) => Err(cause),
        },
        () = stopped(&mut seat.stop) => return,
    };
    if let Err(cause) = ended {
        tracing::debug!(cause, "a transparent connection ended");
    }
}

async fn named(
    sidecar: Arc<Sidecar>,
    start: StartHandshake<Peeked<Box<dyn Stream>>>,
    proof: Proof,
    mut seat: Seat,
) -> Result<(), String> {
    let sni = start.client_hello().server_name().map(str::to_owned);
    let authority = sni.as_deref().and_then(|name| Authority::parse(name, Some(PORT)).ok());
    // Without a name there is no certificate to answer with, and so no place for a sentence.
    let Some(authority) = authority.filter(|authority| authority.port == PORT) else {
        return unnamed(start.io).await;
    };
    let Some(caller) = proof.caller(&sidecar) else {
        // The listener's caller is not declared any more, or has expired; nobody else may come in here.
        return unnamed(start.io).await;
    };
    let via = Via { caller, scheme: Scheme::Https, authority };
    let inside = match tunnel::way(&sidecar, &via.authority) {
        Way::Inside(inside) => inside,
        Way::Blind => match tunnel::reach(&sidecar, &via.authority).await {
            Err(refusal) => Inside::Refused(refusal),
            Ok(upstream) => {
                let _open = sidecar.metrics.tunnel("blind");
                return tokio::select! {
                    ended = tunnel::splice(upstream, start.io.into_parts()) => ended,
                    () = stopped(&mut seat.stop) => Ok(()),
                };
            }
        },
    };
    opened(sidecar, start, (via, proof), inside, seat).await
}

/// Ends the TLS here.
async fn opened(
    sidecar: Arc<Sidecar>,
    mut start: StartHandshake<Peeked<Box<dyn Stream>>>,
    who: (Via, Proof),
    inside: Inside,
    seat: Seat,
) -> Result<(), String> {
    start.io.forget();
    let _open = sidecar.metrics.tunnel(inside.word());
    let name = who.0.authority.host.clone();
    let tls = tunnel::handshake(&sidecar, start, &name).await?;
    tunnel::serve(sidecar, tls, who, inside, seat).await
}

async fn unnamed(stream: Peeked<Box<dyn Stream>>) -> Result<(), String> {
    let (_, mut stream) = stream.into_parts();
    let told = async {
        stream.write_all(&UNRECOGNIZED_NAME).await?;
        stream.shutdown().await
    };
    told.await.map_err(|error: std::io::Error| error.to_string())?;
    Err("the client hello names no host that can be served".to_owned())
}
