//! The sidecar that the clients are tried behind: the one that runs, or one for this check alone. That one has the CA and
//! the callers of the configuration and nothing else: with hosts and a database it would look at providers.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use oncegate_policy::caller::CallerName;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::desk::{self, Attached, Gate};
use super::super::exit::{Stop, chain};
use super::super::{env, shims};
use crate::load::Loaded;
use crate::peer;
use crate::probe::{self, Stage};
use crate::run_port::RunPort;
use crate::serve::{self, Options, Running};
use crate::task;

/// For the sidecar to say what it has seen.
const TOLD_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of what it says.
const TOLD_BYTES_MAX: usize = 4096;

/// A place behind a sidecar, for as long as this is kept.
pub(super) enum Behind {
    /// One that runs already.
    There(Attached),
    /// One of this process.
    Own(Box<Own>),
}

pub(super) struct Own {
    running: Running,
    gate: Gate,
    _port: Option<RunPort>,
    _directory: TempDir,
}

impl Behind {
    /// Finds or makes it.
    pub(super) async fn open(loaded: &Loaded, caller: &CallerName) -> Result<Self, Stop> {
        // As `oncegate run` decides when nothing is said.
        let own_port = peer::TOLD;
        if let Some(attached) = desk::ask(&loaded.database(), caller, own_port).await? {
            return Ok(Self::There(attached));
        }
        shims::write(&loaded.trust_dir())?;
        let directory = tempfile::tempdir()
            .map_err(|error| Stop::failed(format!("cannot make a temporary directory: {error}")))?;
        let running = serve::start(bare(loaded, &directory), Options::default())
            .await
            .map_err(|error| Stop::usage(chain(&error)))?;
        match desk::gate(&running, caller, own_port).await {
            Some((gate, port)) => {
                Ok(Self::Own(Box::new(Own { running, gate, _port: port, _directory: directory })))
            }
            None => {
                running.stop().await;
                Err(Stop::usage(format!("{caller} may not invoke actions: give it the scope actions:invoke")))
            }
        }
    }

    /// The place itself.
    pub(super) fn gate(&self) -> &Gate {
        match self {
            Self::There(attached) => &attached.gate,
            Self::Own(own) => &own.gate,
        }
    }

    /// For a person.
    pub(super) fn described(&self) -> String {
        match self {
            Self::There(attached) => format!("runs at {}", attached.gate.proxy),
            Self::Own(_) => "does not run; one was started for this check, without hosts".to_owned(),
        }
    }

    /// How far whoever asked for this label came.
    pub(super) async fn seen(&self, caller: &CallerName, label: &str) -> Result<Option<Stage>, Stop> {
        let proxy = env::reachable(self.gate().proxy);
        let failed = |why: String| Stop::failed(format!("the sidecar at {proxy}: {why}"));
        let told = timeout(TOLD_TIMEOUT, ask(proxy, caller, &self.gate().token, label));
        let told = told.await.map_err(|_| failed("it did not answer in time".to_owned()))?.map_err(failed)?;
        let document: serde_json::Value = serde_json::from_slice(&told).unwrap_or_default();
        if document.get("oncegate").is_none() {
            return Err(failed("it knows no doctor: restart it with this version".to_owned()));
        }
        let word = document.get("seen").and_then(serde_json::Value::as_str);
        Ok(word
            .and_then(|word| Stage::ALL.into_iter().find(|(_, known)| *known == word))
            .map(|(stage, _)| stage))
    }

    /// Ends it, if it is ours to end.
    pub(super) async fn close(self) {
        match self {
            Self::There(_) => {}
            Self::Own(own) => {
                let Own { running, _port, _directory, .. } = *own;
                drop(_port);
                running.stop().await;
            }
        }
    }
}

/// The same callers and the same CA, in a directory of its own.
fn bare(loaded: &Loaded, directory: &TempDir) -> Loaded {
    let mut bare = loaded.clone();
    bare.directory = directory.path().to_owned();
    let config = &mut bare.config;
    config.ca_dir = loaded.ca_dir();
    config.trust_dir = Some(loaded.trust_dir());
    config.store.path = directory.path().join("doctor.db");
    config.proxy.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    config.control.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    config.control.tls = None;
    config.otel.endpoint = None;
    config.vault_key = None;
    config.secrets.clear();
    config.secret_uses.clear();
    config.hosts.clear();
    config.actions.clear();
    config.limits.clear();
    for caller in config.callers.values_mut() {
        caller.listen = None;
        caller.transparent_listen = None;
    }
    bare
}

async fn ask(proxy: SocketAddr, caller: &CallerName, token: &str, label: &str) -> Result<Bytes, String> {
    let text = |error: &dyn std::error::Error| chain(error);
    let stream = TcpStream::connect(proxy).await.map_err(|error| text(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    let connection = task::start(connection);
    let request = Request::get(format!("http://{}/{label}", probe::HOST))
        .header(header::HOST, probe::HOST)
        .header(
            header::PROXY_AUTHORIZATION,
            format!("Basic {}", STANDARD.encode(format!("{caller}:{token}"))),
        )
        .body(Empty::<Bytes>::new())
        .map_err(|error| text(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| text(&error))?;
    let body = Limited::new(answer.into_body(), TOLD_BYTES_MAX).collect().await;
    connection.abort();
    Ok(body.map_err(|error| error.to_string())?.to_bytes())
}
