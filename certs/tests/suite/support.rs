//! A CA in a directory of its own, and TLS in memory.

use oncegate_certs::{Authority, Leaves};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, ServerConfig,
    ServerConnection, SupportedProtocolVersion,
};
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// 2027-01-15, whatever the machine's clock says.
pub(crate) fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}
pub(crate) const HOUR: Duration = Duration::from_hours(1);
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// A new CA, and the directory that must outlive the test.
pub(crate) fn authority() -> (TempDir, Arc<Authority>) {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::load_or_create(dir.path(), now()).unwrap();
    (dir, Arc::new(authority))
}

pub(crate) fn leaves(authority: &Arc<Authority>, capacity: usize) -> Leaves {
    Leaves::new(Arc::clone(authority), NonZeroUsize::new(capacity).unwrap())
}

pub(crate) fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect()
}

#[derive(Debug)]
pub(crate) struct At(pub(crate) SystemTime);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(self.0.duration_since(UNIX_EPOCH).unwrap()))
    }
}

/// A client that trusts the certificates of `roots` and nothing else, at `now`.
pub(crate) fn client(roots: &[CertificateDer<'static>], now: SystemTime) -> ClientConfig {
    client_of(roots, now, rustls::ALL_VERSIONS)
}

pub(crate) fn client_of(
    roots: &[CertificateDer<'static>],
    now: SystemTime,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    client_by(rustls::crypto::ring::default_provider(), roots, now, versions)
}

pub(crate) fn client_by(
    provider: CryptoProvider,
    roots: &[CertificateDer<'static>],
    now: SystemTime,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).unwrap();
    }
    let mut config = ClientConfig::builder_with_details(Arc::new(provider), Arc::new(At(now)))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth();
    config.resumption = Resumption::in_memory_sessions(16);
    config
}

/// What a handshake came to.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) alpn: Option<Vec<u8>>,
    pub(crate) version: ProtocolVersion,
    pub(crate) suite: CipherSuite,
    pub(crate) kind: HandshakeKind,
}

/// Shakes hands and passes a byte each way.
pub(crate) fn connect(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
    server_name: &str,
) -> Result<Session, rustls::Error> {
    let name = ServerName::try_from(server_name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    client.writer().write_all(b"?").unwrap();
    server.writer().write_all(b"!").unwrap();
    while client.wants_write() || server.wants_write() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        feed(&wire, |bytes| {
            server.read_tls(bytes).unwrap();
            server.process_new_packets().map(drop)
        })?;
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        feed(&wire, |bytes| {
            client.read_tls(bytes).unwrap();
            client.process_new_packets().map(drop)
        })?;
    }
    let mut byte = [0];
    server.reader().read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"?");
    client.reader().read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"!");
    Ok(Session {
        chain: client.peer_certificates().unwrap().to_vec(),
        alpn: client.alpn_protocol().map(<[u8]>::to_vec),
        version: client.protocol_version().unwrap(),
        suite: client.negotiated_cipher_suite().unwrap().suite(),
        kind: client.handshake_kind().unwrap(),
    })
}

fn feed(
    mut wire: &[u8],
    mut read: impl FnMut(&mut &[u8]) -> Result<(), rustls::Error>,
) -> Result<(), rustls::Error> {
    while !wire.is_empty() {
        read(&mut wire)?;
    }
    Ok(())
}

/// The certificates that a server sends for `server_name`, once a client that trusts only the CA took them.
pub(crate) fn chain(
    authority: &Authority,
    leaves: &Leaves,
    server_name: &str,
    now: SystemTime,
) -> Vec<CertificateDer<'static>> {
    let server = leaves.server_config(server_name, now).unwrap();
    let client = Arc::new(client(&certificates(authority.certificate_pem()), now));
    connect(&client, &server, server_name).unwrap().chain
}
