//! An ordinary HTTP client behind the proxy: CONNECT, TLS, one request. It knows its own key for the proxy and a
//! placeholder where the provider's key would be.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::task;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::client::conn::http1;
use hyper::ext::ReasonPhrase;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The provider as the agent knows it.
const HOST: &str = "api.stripe.com";
/// What stands in the agent's configuration instead of a key.
const PLACEHOLDER: &str = "sk_test_placeholder";
/// For one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// The client.
pub(crate) struct Agent {
    proxy: SocketAddr,
    credentials: String,
    trust: Arc<ClientConfig>,
    /// Everything it was ever told, to show what it was not.
    heard: Mutex<Vec<u8>>,
}

/// What the agent reads.
pub(crate) struct Heard {
    /// The status code.
    pub(crate) status: u16,
    /// The reason phrase.
    pub(crate) reason: String,
    /// `error.code`, as the provider's clients show it.
    pub(crate) code: Option<String>,
    /// `error.message`.
    pub(crate) message: Option<String>,
    /// The refund's id.
    pub(crate) id: Option<String>,
    /// `Oncegate-Effect`.
    pub(crate) effect: Option<String>,
    /// From the record, and said so.
    pub(crate) replayed: bool,
}

impl Agent {
    /// An agent that connects to `proxy` as `caller` and trusts what `trust` says.
    pub(crate) fn new(proxy: SocketAddr, caller: &str, key: &str, trust: Arc<ClientConfig>) -> Self {
        let credentials = format!("Basic {}", STANDARD.encode(format!("{caller}:{key}")));
        Self { proxy, credentials, trust, heard: Mutex::default() }
    }

    /// Refunds a payment.
    pub(crate) async fn refund(
        &self,
        payment: &str,
        order: &str,
        amount: i64,
        key: &str,
    ) -> Result<Heard, String> {
        let form = format!("payment_intent={payment}&amount={amount}&metadata[order_id]={order}");
        tokio::time::timeout(CALL_TIMEOUT, self.post("/v1/refunds", form, key))
            .await
            .map_err(|_| "the proxy did not answer".to_owned())?
    }

    async fn post(&self, path: &str, form: String, key: &str) -> Result<Heard, String> {
        let broken = |error: hyper::Error| format!("the proxy broke off: {error}");
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(self.tunnel().await?)).await.map_err(broken)?;
        let connection = task::start(connection);
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, HOST)
            .header(header::AUTHORIZATION, format!("Bearer {PLACEHOLDER}"))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header("idempotency-key", key)
            .body(Full::new(Bytes::from(form)))
            .map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(broken)?;
        let heard = self.read(response).await;
        connection.abort();
        heard
    }

    /// A TLS session with whoever the proxy says is the provider.
    async fn tunnel(&self) -> Result<TlsStream<TokioIo<Upgraded>>, String> {
        let stream = TcpStream::connect(self.proxy).await.map_err(|error| format!("no proxy: {error}"))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        task::start(connection.with_upgrades());
        let request = Request::builder()
            .method(Method::CONNECT)
            .uri(format!("{HOST}:443"))
            .header(header::HOST, format!("{HOST}:443"))
            .header(header::PROXY_AUTHORIZATION, &self.credentials)
            .body(Empty::<Bytes>::new())
            .map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            return Err(format!("the proxy answered CONNECT with {}", response.status()));
        }
        let tunnel = hyper::upgrade::on(response).await.map_err(|error| error.to_string())?;
        let name = ServerName::try_from(HOST).map_err(|error| error.to_string())?;
        TlsConnector::from(Arc::clone(&self.trust))
            .connect(name, TokioIo::new(tunnel))
            .await
            .map_err(|error| format!("no TLS with the proxy: {error}"))
    }

    async fn read(&self, response: Response<hyper::body::Incoming>) -> Result<Heard, String> {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| format!("the answer broke off: {error}"))?
            .to_bytes();
        let text =
            |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.extend_from_slice(format!("{:?}", parts.headers).as_bytes());
        heard.extend_from_slice(&body);
        let document: Value = serde_json::from_slice(&body).unwrap_or_default();
        let member = |value: &Value| value.as_str().map(str::to_owned);
        let reason = match parts.extensions.get::<ReasonPhrase>() {
            Some(phrase) => String::from_utf8_lossy(phrase.as_bytes()).into_owned(),
            None => parts.status.canonical_reason().unwrap_or_default().to_owned(),
        };
        Ok(Heard {
            status: parts.status.as_u16(),
            reason,
            code: member(&document["error"]["code"]),
            message: member(&document["error"]["message"]),
            id: member(&document["id"]),
            effect: text("oncegate-effect"),
            replayed: text("x-idempotent-replay").as_deref() == Some("current-state"),
        })
    }

    /// Whether anything that the agent ever read holds this text.
    pub(crate) fn ever_heard(&self, text: &str) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.windows(text.len().max(1)).any(|window| window == text.as_bytes())
    }
}
