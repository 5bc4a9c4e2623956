//! Accepts the control listener's clients: bounded, over TLS where the configuration says so, with a graceful end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::descriptors::Shares;
use crate::listener::stopped;
use crate::places::{Place, Places};
use crate::state::Sidecar;
use crate::task;
use crate::upstream::wire::Stream;

/// After a failed accept (descriptors exhausted, for example) the listener waits this long and goes on.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Header fields of a request.
const HEADERS_MAX: usize = 100;
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What one client may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Open connections: 512, or what the descriptors allow. When there are so many, the one that has asked nothing for the longest time is closed for the
    /// next; where each is being answered, more wait to be accepted.
    pub connections: usize,
    /// For the head of a connection's first request to arrive: who connects has something to ask.
    pub first_head: Duration,
    /// For a request's head to arrive, which is also how long an idle connection is kept. Clients that pool
    /// connections give up theirs sooner (httpx after 5 s), so that none is closed under a request.
    pub head: Duration,
    /// For the TLS handshake.
    pub handshake: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: Shares::of_this_process().control,
            first_head: Duration::from_secs(10),
            head: Duration::from_secs(75),
            handshake: Duration::from_secs(10),
        }
    }
}

/// The request came over TLS of ours: the name in its `Host` was proved by the certificate.
#[derive(Clone, Copy)]
pub(crate) struct OverTls;

/// The routes, and how a client of theirs is served.
#[derive(Clone)]
pub struct Api {
    /// What [`super::router`] made.
    pub routes: Router,
    /// What one client may take.
    pub bounds: Bounds,
    /// The sidecar is told to stop.
    pub stop: watch::Receiver<bool>,
}

/// Serves until `stop` says so, then lets open requests end within `grace`. The certificate is that of the
/// configuration of the moment: a renewed one counts for the next connection.
pub async fn serve(sidecar: Arc<Sidecar>, socket: TcpListener, api: Api, grace: Duration) {
    let places = Places::new(api.bounds.connections);
    let mut connections = JoinSet::new();
    let mut stop = api.stop.clone();
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                // Without it an answer may wait for the client's own delay; the answer comes either way.
                stream.set_nodelay(true).ok();
                let place = tokio::select! {
                    Some(place) = places.take() => place,
                    () = stopped(&mut stop) => break,
                };
                let (api, tls) = (api.clone(), sidecar.snapshot().control_tls.clone());
                connections.spawn(task::apart(async move {
                    api.at(place, stream, tls).await;
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection to the API could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    // Closed before the wait: who comes now is turned away, not left in the backlog.
    drop(socket);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(grace, all).await.is_err() {
        tracing::warn!("some connections to the API were still open at the end and were closed");
    }
}

impl Api {
    /// Serves one client, whose connection is bounded elsewhere, to the end of it.
    pub async fn connection(&self, stream: impl Stream + 'static, tls: Option<Arc<ServerConfig>>) {
        self.at(Place::elsewhere(), stream, tls).await;
    }

    async fn at(&self, place: Place, stream: impl Stream + 'static, tls: Option<Arc<ServerConfig>>) {
        let over_tls = tls.is_some();
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(stream),
            Some(config) => {
                let shaken = timeout(self.bounds.handshake, TlsAcceptor::from(config).accept(stream));
                let shaken = tokio::select! {
                    shaken = shaken => shaken,
                    () = place.is_needed() => return,
                };
                match shaken {
                    Ok(Ok(tls)) => Box::new(tls),
                    Ok(Err(error)) => return tracing::debug!(%error, "a client of the API broke off its TLS"),
                    Err(_) => return tracing::debug!("a client of the API did not finish its TLS in time"),
                }
            }
        };
        let place = Arc::new(place);
        let (routes, asking) = (TowerToHyperService::new(self.routes.clone()), Arc::clone(&place));
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            asking.asks();
            if over_tls {
                request.extensions_mut().insert(OverTls);
            }
            let (answered, asking) = (routes.call(request), Arc::clone(&asking));
            async move {
                let answered = answered.await;
                asking.is_silent();
                answered
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.bounds.head)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut stop = self.stop.clone();
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                connection.as_mut().await
            }
            () = asks_nothing(&place, self.bounds.first_head) => {
                return tracing::debug!("a client of the API has connected and asked nothing");
            }
            () = place.is_needed() => {
                // What was never asked anything is not closed by the library at once.
                if !place.has_asked() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                connection.as_mut().await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = crate::upstream::chain(&error), "a client's connection to the API ended");
        }
    }
}

/// Until it is known that nothing was asked within a time; never, once something was.
async fn asks_nothing(place: &Place, within: Duration) {
    tokio::time::sleep(within).await;
    if place.has_asked() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn api(bounds: Bounds) -> (Api, watch::Sender<bool>) {
        let (sender, stop) = watch::channel(false);
        let routes = Router::new().route("/", get(|| async { "here" }));
        (Api { routes, bounds, stop }, sender)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_head_is_closed_in_its_time_and_an_idle_client_is_kept_till_then() {
        let (api, _stop) = api(Bounds::default());
        let (mut client, server) = duplex(4096);
        let served = tokio::spawn(async move { api.connection(server, None).await });
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 512];
        assert!(client.read(&mut answer).await.unwrap() > 0);
        // httpx keeps an idle connection for 5 s: it must be good for that long.
        tokio::time::advance(Duration::from_secs(60)).await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert!(client.read(&mut answer).await.unwrap() > 0);
        let since = tokio::time::Instant::now();
        client.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert!(since.elapsed() <= Duration::from_secs(76), "{:?}", since.elapsed());
        served.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_connects_and_asks_nothing_is_closed_soon() {
        let (api, _stop) = api(Bounds::default());
        let (mut client, server) = duplex(4096);
        client.write_all(b"GET / HT").await.unwrap();
        let since = tokio::time::Instant::now();
        api.connection(server, None).await;
        assert_eq!(since.elapsed(), Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_never_comes_is_given_up() {
        let made = rcgen::generate_simple_self_signed(vec!["control.test".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let tls = oncegate_certs::served_config(certificate.as_bytes(), key.as_bytes()).unwrap();
        let (api, _stop) = api(Bounds::default());
        let (mut client, server) = duplex(4096);
        let since = tokio::time::Instant::now();
        api.connection(server, Some(tls)).await;
        assert_eq!(since.elapsed(), Duration::from_secs(10));
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty());
    }

    #[tokio::test]
    async fn an_idle_client_does_not_hold_up_the_end() {
        let (api, stop) = api(Bounds::default());
        let (mut client, server) = duplex(4096);
        let served = tokio::spawn(async move { api.connection(server, None).await });
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 512];
        assert!(client.read(&mut answer).await.unwrap() > 0);
        stop.send_replace(true);
        served.await.unwrap();
    }
}
