//! Upstream trust: no byte of a request goes to a provider whose certificate does not prove it, the effect is failed
//! with its proof, and what it held is free again; good ones are taken.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
};

use oncegate_tests::{
    agent::Ask,
    conf::Conf,
    provider::Provider,
    sidecar::{Home, Sidecar},
    wait::PATIENCE,
};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring::default_provider,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::Value;

use crate::{
    chains::{Row, rows},
    random::figure,
};

/// The fewest rows that the matrix may come down to.
const ROWS_MIN: usize = 40;
/// Ports of the declared hosts begin here: they tell apart the rows that share a name, and nothing listens there.
const PORT: usize = 8400;

/// A row with its provider.
struct Stand {
    row: Row,
    authority: String,
    provider: Provider,
}

fn stands() -> Vec<Stand> {
    let stand = |(at, row): (usize, Row)| Stand {
        authority: format!("{}:{}", row.host, PORT + at),
        provider: Provider::serving(Arc::clone(&row.tls)),
        row,
    };
    rows().into_iter().enumerate().map(stand).collect()
}

/// What became of one request to a row.
#[derive(Debug)]
struct Seen {
    /// What the one who asked was told.
    told: String,
    /// Outcome, and where its one attempt ended, as they are recorded.
    recorded: (String, Option<String>),
}

/// What is wrong about it.
fn judge(stand: &Stand, seen: &Seen) -> Vec<String> {
    let bytes = stand.provider.record().all_bytes();
    let writes = stand.provider.record().writes().len();
    let mut faults = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            faults.push(format!("{}: {what}: {seen:?}", stand.row.name));
        }
    };
    if stand.row.good {
        must(writes == 1, "one write");
        must(seen.told == "succeeded" && seen.recorded == ("succeeded".into(), None), "it was taken");
        return faults;
    }
    must(bytes.is_empty(), "no byte of the request reached it");
    must(writes == 0, "no write");
    must(seen.told == "failed", "told that nothing was applied");
    must(seen.recorded == ("failed".into(), Some("tls".into())), "recorded as never sent, with its proof");
    faults
}

fn conf(stands: &[Stand]) -> Conf {
    let limit = "[limits.tickets]\ndimension = \"resource_mutations\"\nperiod = \"total\"\namount = 1000\n";
    stands.iter().enumerate().fold(Conf::default().with(limit), |conf, (at, stand)| {
        let (authority, to) = (&stand.authority, stand.provider.addr());
        conf.with(&format!(
            r#"
[hosts."{authority}"]
connect_to = "{to}"
ca_file = "row-{at}.pem"

[actions.row-{at}]
method = "POST"
url = "https://{authority}/v1/tickets"
subject = "{{{{input.title}}}}"
impact = {{ dimension = "resource_mutations", amount = "1", bound = "exact" }}
"#
        ))
    })
}

fn through(home: &Home, sidecar: &Sidecar, at: usize, stand: &Stand) -> Seen {
    let mut tunnel = sidecar.billing().tunnel_to(&stand.authority, &stand.row.host).expect("a declared host");
    let answer = tunnel.ask(&Ask::json("/v1/tickets", &format!(r#"{{"title":"row {at}"}}"#)));
    assert!(answer.complete, "{answer:?}");
    if !stand.row.good {
        answer.assert_own(422, "oncegate_not_sent");
    }
    let sql =
        "select a.verdict, a.seen, a.step from attempt a join effect e on e.key = a.effect where e.id = ";
    let rows = home.query(&format!("{sql}'{}'", answer.effect()));
    assert_eq!(rows.len(), 1, "one attempt: {rows:?}");
    let step = rows[0]["step"].as_str().filter(|_| rows[0]["seen"] == "not_sent");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Seen { told: answer.outcome().to_owned(), recorded: (text(&rows[0]["verdict"]), step.map(str::to_owned)) }
}

#[test]
fn no_byte_goes_to_a_provider_that_does_not_prove_its_name() {
    let stands = stands();
    assert!(stands.len() >= ROWS_MIN, "only {} rows", stands.len());
    let home = Home::new(&Conf::default());
    for (at, stand) in stands.iter().enumerate() {
        std::fs::write(home.path(&format!("row-{at}.pem")), &stand.row.root).unwrap();
    }
    home.write(&conf(&stands).text());
    let sidecar = home.serve();
    let faults: Vec<String> = stands
        .iter()
        .enumerate()
        .flat_map(|(at, stand)| judge(stand, &through(&home, &sidecar, at, stand)))
        .collect();
    assert!(faults.is_empty(), "{} of {} rows:\n{}", faults.len(), stands.len(), faults.join("\n"));
    let row = home.exposure("tickets");
    let good = u64::try_from(stands.iter().filter(|stand| stand.row.good).count()).unwrap();
    assert_eq!((row["consumed"].as_u64(), row["reserved"].as_u64()), (Some(good), Some(0)), "{row}");
    figure(&format!("upstream trust: {} rows, {good} of them good", stands.len()));
}

/// The planted defect: a proxy whose TLS takes every certificate.
#[derive(Debug)]
struct Blind;

impl ServerCertVerifier for Blind {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn blindly(config: &Arc<ClientConfig>, stand: &Stand) -> Seen {
    let name = ServerName::try_from(stand.row.host.clone()).unwrap();
    let tcp = TcpStream::connect(stand.provider.addr()).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut tls = StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), tcp);
    let ask = Ask::json("/v1/tickets", r#"{"title":"blind"}"#);
    tls.write_all(&ask.bytes(&stand.authority)).unwrap();
    let mut head = [0; 15];
    tls.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    Seen { told: "succeeded".into(), recorded: ("succeeded".into(), None) }
}

#[test]
fn a_client_that_takes_every_certificate_is_caught() {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Blind))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let config = Arc::new(config);
    for stand in stands() {
        let faults = judge(&stand, &blindly(&config, &stand));
        assert_eq!(faults.is_empty(), stand.row.good, "{}: {faults:?}", stand.row.name);
    }
}
