//! hudsucker as its users write it, with a handler that puts one header in: a child of `oncegate-bench`, which
//! starts it as `oncegate-bench-hudsucker DIR ORIGIN`.
//!
//! It dials ORIGIN whatever the host, trusts `DIR/origin-ca.pem` there, and leaves its own CA in `DIR/ca/ca.pem`. The
//! credential comes from the environment. It says on one line where it listens, and ends when its standard input does.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use hudsucker::certificate_authority::RcgenAuthority;
use hudsucker::hyper::header::{AUTHORIZATION, HeaderValue};
use hudsucker::hyper::{Method, Request, Uri};
use hudsucker::rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use hudsucker::{Body, HttpContext, HttpHandler, Proxy, RequestOrResponse};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tracing_subscriber::filter::LevelFilter;

/// Where the rig puts the credential.
const CREDENTIAL_ENV: &str = "ONCEGATE_BENCH_KEY";
/// Leaves that are kept, as in hudsucker's examples.
const LEAVES_MAX: u64 = 1_000;
/// Connections that wait to be accepted, as of a listener that the standard library makes.
const BACKLOG: u32 = 128;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Faults alone: with its spans on, each request would cost hudsucker more.
    tracing_subscriber::fmt().with_max_level(LevelFilter::ERROR).with_writer(io::stderr).init();
    let mut arguments = std::env::args_os().skip(1);
    let dir = PathBuf::from(arguments.next().context("no directory")?);
    let origin = arguments.next().and_then(|text| text.into_string().ok()).context("no origin")?;
    let origin: SocketAddr = origin.parse().context("the origin is no address")?;
    let key = std::env::var(CREDENTIAL_ENV).context("no credential in the environment")?;
    let credential =
        HeaderValue::from_str(&format!("Bearer {key}")).context("the credential is no header")?;

    let listener = listen().context("cannot listen")?;
    let serves = listener.local_addr().context("cannot listen")?;
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(trusting(&dir.join("origin-ca.pem"))?)
        .https_only()
        .enable_http1()
        .wrap_connector(tower::service_fn(move |_: Uri| dial(origin)));
    let proxy = Proxy::builder()
        .with_listener(listener)
        .with_ca(authority(&dir.join("ca"))?)
        .with_http_connector(connector)
        .with_http_handler(PutIn { credential })
        .with_graceful_shutdown(until_told())
        .build()
        .context("cannot build the proxy")?;
    let mut out = io::stdout().lock();
    writeln!(out, "{serves}").and_then(|()| out.flush()).context("cannot say where this listens")?;
    drop(out);
    proxy.start().await.context("cannot serve")
}

/// Puts the credential in.
#[derive(Clone)]
struct PutIn {
    credential: HeaderValue,
}

impl HttpHandler for PutIn {
    async fn handle_request(&mut self, _: &HttpContext, mut request: Request<Body>) -> RequestOrResponse {
        if request.method() != Method::CONNECT {
            request.headers_mut().insert(AUTHORIZATION, self.credential.clone());
        }
        request.into()
    }
}

/// hudsucker leaves `TCP_NODELAY` to its user. What is accepted inherits it from the listener.
fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_nodelay(true)?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    socket.listen(BACKLOG)
}

async fn dial(origin: SocketAddr) -> io::Result<TokioIo<TcpStream>> {
    let stream = TcpStream::connect(origin).await?;
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(stream))
}

fn trusting(ca: &Path) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).context("cannot read the origin's CA")? {
        roots.add(certificate.context("cannot read the origin's CA")?).context("cannot trust the origin")?;
    }
    Ok(ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .context("cannot speak TLS")?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// A new CA; its certificate goes to `dir`.
fn authority(dir: &Path) -> anyhow::Result<RcgenAuthority> {
    const STEP: &str = "cannot make a CA";
    let key = KeyPair::generate().context(STEP)?;
    let mut params = CertificateParams::new(Vec::new()).context(STEP)?;
    params.distinguished_name.push(DnType::CommonName, "the bench's hudsucker");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let pem = params.self_signed(&key).context(STEP)?.pem();
    std::fs::create_dir_all(dir).context("cannot make a directory for the CA")?;
    std::fs::write(dir.join("ca.pem"), pem).context("cannot write the CA")?;
    Ok(RcgenAuthority::new(Issuer::new(params, key), LEAVES_MAX, ring::default_provider()))
}

/// Until the parent closes our input, or is gone.
async fn until_told() {
    // Nothing is ever written to it; an error is an end as well.
    drop(tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await);
}
