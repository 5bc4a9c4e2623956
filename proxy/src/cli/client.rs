//! A small client of the control API: one request, one connection, never a second try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use oncegate_policy::authority::Authority;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::Common;
use super::beside::{control_file, is_abandoned};
use super::exit::{Exit, Stop, chain};
use super::source::shaped;
use crate::task;
use crate::upstream::wire::Stream;

/// To reach the sidecar, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For one whole exchange; a look at the provider may take most of it.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// A file of roots that the sidecar's certificate is judged by, beside the system's.
const CA_ENV: &str = "ONCEGATE_CA";
/// Most bytes of one answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Where the API is, and the key for it.
pub(crate) struct Api {
    authority: Authority,
    /// How the sidecar is judged; `None` for plain HTTP.
    tls: Option<Arc<ClientConfig>>,
    /// What stands before `/api/v2`, without a trailing slash.
    prefix: String,
    key: String,
}

/// An answer of the API, as far as commands care.
pub(crate) enum Answer {
    /// The `data`, and of how many it is a page where it is one.
    Data(Value, Option<u64>),
    /// An error object.
    Refused {
        /// The HTTP status.
        status: u16,
        /// `code`, `message` and `details`.
        error: Value,
    },
}

/// Why there is no answer that can be read.
enum Unheard {
    /// The request never left.
    Before(Stop),
    /// It was handed to the socket: it may have been served.
    After(String),
}

/// What a call is for, as far as it matters when its answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Nothing at a provider comes of it.
    House,
    /// Something may have been written at a provider, or an effect settled.
    Effect,
}

impl Api {
    /// The API that `ONCEGATE_URL` names, or else the one of the configuration.
    pub(crate) fn new(common: &Common, key: String) -> Result<Self, Stop> {
        let named = std::env::var_os(CA_ENV).map(PathBuf::from);
        let (secure, authority, prefix, ca) = match std::env::var("ONCEGATE_URL") {
            Ok(url) => {
                let (secure, authority, prefix) =
                    parse_url(&url).map_err(|fault| Stop::usage(format!("ONCEGATE_URL: {fault}")))?;
                (secure, authority, prefix, named)
            }
            Err(_) => {
                let (authority, certificate) = configured(common)?;
                // One that nobody else has signed vouches for itself.
                (certificate.is_some(), authority, String::new(), named.or(certificate))
            }
        };
        let tls = if secure { Some(trust(ca.as_deref())?) } else { None };
        Ok(Self { authority, tls, prefix, key })
    }

    /// Makes one call without a body; `path` begins with a slash and stands below `/api/v2`.
    pub(crate) async fn call(&self, method: Method, path: &str) -> Result<Answer, Stop> {
        self.house(method, &format!("/api/v2{path}"), Bytes::new()).await
    }

    /// One page of a list, and how many there are in all. `filters` are further parameters, each behind its `&`.
    pub(crate) async fn page(
        &self,
        path: &str,
        filters: &str,
        limit: u32,
        offset: u32,
    ) -> Result<(Value, u64), Stop> {
        let path = format!("/api/v2{path}?limit={limit}&offset={offset}{filters}");
        match self.house(Method::GET, &path, Bytes::new()).await? {
            Answer::Data(data, total) => {
                let total =
                    total.ok_or_else(|| Stop::failed("the sidecar's list does not say how long it is"))?;
                Ok((data, total))
            }
            refused @ Answer::Refused { .. } => expect_data(refused).map(|data| (data, 0)),
        }
    }

    /// Makes one call with a JSON document.
    pub(crate) async fn post(&self, path: &str, document: &Value) -> Result<Answer, Stop> {
        self.house(Method::POST, &format!("/api/v2{path}"), Bytes::from(document.to_string())).await
    }

    /// Makes a call that a write at a provider may come of, or that settles one, and reads its answer. Where there is
    /// none that can be read, the command must not end as if it had failed: it is unknown, and `look` says how to see.
    pub(crate) async fn effect<T: DeserializeOwned>(
        &self,
        path: &str,
        document: &Value,
        look: &str,
    ) -> Result<(Value, T), Stop> {
        let lost = |why: &str| {
            let message =
                format!("{why}\nIt may have been done. Do not repeat it; {look} says what became of it.");
            let error = json!({ "code": "ANSWER_LOST", "message": message });
            let document = Some(json!({ "status": "unknown", "error": error }));
            Stop { exit: Exit::Unknown, message, document }
        };
        let body = Bytes::from(document.to_string());
        match self.ask(Method::POST, &format!("/api/v2{path}"), body).await {
            Ok(Answer::Data(data, _)) => match shaped(&data) {
                Ok(shape) => Ok((data, shape)),
                Err(stop) => Err(lost(&stop.message)),
            },
            // It is on its way: what became of it is not known yet.
            Ok(Answer::Refused { error, .. }) if error["code"] == "idempotency_request_in_progress" => {
                Err(refused(Exit::Unknown, error))
            }
            Ok(Answer::Refused { status, error }) => {
                let exit = exit_of(status, Purpose::Effect);
                Err(if exit == Exit::Unknown { lost(&told(&error)) } else { refused(exit, error) })
            }
            Err(Unheard::Before(stop)) => Err(stop),
            Err(Unheard::After(why)) => Err(lost(&why)),
        }
    }

    /// Asks whether the sidecar can do its work; no key is needed for that.
    pub(crate) async fn ready(&self) -> Result<Answer, Stop> {
        self.house(Method::GET, "/readyz", Bytes::new()).await
    }

    async fn house(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, Stop> {
        self.ask(method, path, body).await.map_err(|unheard| match unheard {
            Unheard::Before(stop) => stop,
            Unheard::After(why) => Stop::failed(why),
        })
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, Unheard> {
        let until = Instant::now() + CALL_TIMEOUT;
        let silent = || format!("the sidecar at {} did not answer", self.authority);
        let stream = match timeout_at(Instant::now() + CONNECT_TIMEOUT, self.connect()).await {
            Ok(stream) => stream.map_err(Unheard::Before)?,
            Err(_) => return Err(Unheard::Before(Stop::usage(silent()))),
        };
        let request = self.request(method, path, body).map_err(Unheard::Before)?;
        let (status, body) = match timeout_at(until, exchange(stream, request)).await {
            Ok(answered) => answered.map_err(|error| {
                let error = chain(error.as_ref());
                Unheard::After(format!("the sidecar at {} broke off: {error}", self.authority))
            })?,
            Err(_) => return Err(Unheard::After(silent())),
        };
        read(status, &body).ok_or_else(|| {
            Unheard::After(format!("{} answered {status}, but not as Oncegate's API does", self.authority))
        })
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, Stop> {
        let stream = TcpStream::connect((self.authority.host.as_str(), self.authority.port)).await.map_err(|error| {
            Stop::usage(format!(
                "no sidecar at {}: {error}\nStart one with `oncegate serve`, or read its database with --db.",
                self.authority
            ))
        })?;
        let Some(config) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(self.authority.host.clone())
            .map_err(|_| Stop::usage("ONCEGATE_URL names no host that a certificate can prove"))?;
        let connected = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
        Ok(Box::new(connected.map_err(|error| {
            Stop::failed(format!("the sidecar at {} broke off: {}", self.authority, chain(&error)))
        })?))
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, Stop> {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(header::HOST, self.authority.to_string())
            .header(header::AUTHORIZATION, format!("Bearer {}", self.key))
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|_| {
                Stop::usage("ONCEGATE_KEY or ONCEGATE_URL holds a character that HTTP does not allow")
            })
    }
}

/// Sends one request and reads its whole answer: from here on it may have been served.
async fn exchange(
    stream: Box<dyn Stream>,
    request: Request<Full<Bytes>>,
) -> Result<(u16, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = task::start(connection);
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
    connection.abort();
    Ok((status, body))
}

/// The data of an answer, or the end of the command.
pub(crate) fn expect_data(answer: Answer) -> Result<Value, Stop> {
    match answer {
        Answer::Data(data, _) => Ok(data),
        Answer::Refused { status, error } => Err(refused(exit_of(status, Purpose::House), error)),
    }
}

fn refused(exit: Exit, error: Value) -> Stop {
    Stop { exit, message: told(&error), document: Some(json!({ "error": error })) }
}

/// `CODE: message`.
fn told(error: &Value) -> String {
    let text = |member: &str| error[member].as_str().unwrap_or_default();
    format!("{}: {}", text("code"), text("message"))
}

/// How a command ends that the API did not serve.
fn exit_of(status: u16, purpose: Purpose) -> Exit {
    match (status, purpose) {
        // A wrong key, a parameter that the API does not know, or a name or an id of nothing: wrong usage.
        (400 | 401 | 404 | 405 | 413, _) => Exit::Usage,
        (402 | 403 | 409, _) => Exit::Refused,
        // It is given only before anything is admitted.
        (503, Purpose::Effect) => Exit::Refused,
        (_, Purpose::Effect) => Exit::Unknown,
        (_, Purpose::House) => Exit::Failed,
    }
}

fn read(status: u16, body: &[u8]) -> Option<Answer> {
    let mut envelope: Value = serde_json::from_slice(body).ok()?;
    if envelope.get("success")?.as_bool()? {
        let total = envelope.pointer("/pagination/total").and_then(Value::as_u64);
        return Some(Answer::Data(envelope.get_mut("data")?.take(), total));
    }
    let error = envelope.get_mut("error")?.take();
    (error.get("code")?.is_string() && error.get("message")?.is_string())
        .then_some(Answer::Refused { status, error })
}

/// The system's roots, and those of a file.
fn trust(ca: Option<&Path>) -> Result<Arc<ClientConfig>, Stop> {
    let unusable = |path: &Path, why: &dyn std::error::Error| {
        Stop::usage(format!("the roots in {} cannot be used: {}", path.display(), chain(why)))
    };
    let pem = match ca {
        Some(path) => Some(std::fs::read(path).map_err(|error| unusable(path, &error))?),
        None => None,
    };
    let ca = ca.unwrap_or(Path::new("the system's store"));
    oncegate_certs::upstream_config(pem.as_deref(), &[b"http/1.1"]).map_err(|error| unusable(ca, &error))
}

/// Where the configuration says that the API is, and its certificate's file where it speaks TLS.
fn configured(common: &Common) -> Result<(Authority, Option<PathBuf>), Stop> {
    let loaded = super::load(common)?;
    let mut listen = match running_address(&loaded.database())? {
        Some(running) => running,
        None => loaded.config.control.listen,
    };
    if listen.port() == 0 {
        return Err(nobody("none says where"));
    }
    if listen.ip().is_unspecified() {
        listen.set_ip(if listen.is_ipv4() {
            IpAddr::from(Ipv4Addr::LOCALHOST)
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    let certificate = loaded.config.control.tls.as_ref().map(|tls| loaded.resolve(&tls.cert));
    Ok((Authority { host: listen.ip().to_string(), port: listen.port() }, certificate))
}

/// Where the sidecar that holds this database says that its API listens. `None` where that cannot be seen: the database
/// is not there to be read.
fn running_address(database: &Path) -> Result<Option<SocketAddr>, Stop> {
    let file = control_file(database);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        // Whoever listens where the configuration says holds another one.
        Err(_) if database.exists() => return Err(nobody("none holds its database")),
        Err(_) => return Ok(None),
    };
    if is_abandoned(database) {
        return Err(nobody("the one that held its database ended without a word"));
    }
    let address = text.trim().parse();
    address.map(Some).map_err(|_| Stop::usage(format!("{} holds no address", file.display())))
}

fn nobody(why: &str) -> Stop {
    Stop::usage(format!(
        "no sidecar of this configuration runs ({why})\nStart one with `oncegate serve`, or set ONCEGATE_URL."
    ))
}

/// `http://host:port/prefix`, or `https`: whether it is, the authority and the prefix.
fn parse_url(url: &str) -> Result<(bool, Authority, String), String> {
    let (secure, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
        Some((scheme, _)) => return Err(format!("{scheme} is not spoken here: write http://host:port")),
        None => return Err("write it as http://host:port".to_owned()),
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let port = if secure { 443 } else { 80 };
    let authority = Authority::parse(authority, Some(port)).map_err(|fault| fault.to_string())?;
    Ok((secure, authority, path.trim_end_matches('/').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_the_api() {
        let read = |url: &str| parse_url(url).map(|(_, authority, prefix)| (authority.to_string(), prefix));
        assert_eq!(read("http://127.0.0.1:8081"), Ok(("127.0.0.1:8081".into(), String::new())));
        assert_eq!(read("http://127.0.0.1:8081/"), Ok(("127.0.0.1:8081".into(), String::new())));
        assert_eq!(read("http://[::1]:1/og/"), Ok(("[::1]:1".into(), "/og".into())));
        assert_eq!(
            read("https://sidecar.internal:8081/"),
            Ok(("sidecar.internal:8081".into(), String::new()))
        );
        assert!(parse_url("https://127.0.0.1:8081").unwrap().0 && !parse_url("http://127.0.0.1").unwrap().0);
        for bad in ["127.0.0.1:8081", "ftp://127.0.0.1", "http://user@x", "http://"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn statuses_become_exit_codes() {
        let statuses = [400, 401, 404, 413, 402, 403, 409, 503, 500, 502];
        let ends = |purpose| statuses.map(|status| exit_of(status, purpose).number());
        assert_eq!(ends(Purpose::House), [2, 2, 2, 2, 15, 15, 15, 1, 1, 1]);
        // 1 says that nothing was applied: no answer of the API to such a call proves that.
        assert_eq!(ends(Purpose::Effect), [2, 2, 2, 2, 15, 15, 15, 15, 13, 13]);
    }

    #[test]
    fn both_envelopes_are_read() {
        let data = read(200, br#"{"success":true,"data":{"id":"x"}}"#).unwrap();
        assert!(matches!(data, Answer::Data(value, None) if value["id"] == "x"));
        let refused =
            read(409, br#"{"success":false,"error":{"code":"CONFLICT","message":"settled"}}"#).unwrap();
        assert!(
            matches!(refused, Answer::Refused { status: 409, error } if told(&error) == "CONFLICT: settled")
        );
        assert!(read(200, b"<html>").is_none());
        assert!(read(200, br#"{"success":false,"error":"text"}"#).is_none());
    }
}
