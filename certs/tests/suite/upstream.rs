//! How providers are judged.

use crate::support::{At, authority, connect, leaves, now};
use oncegate_certs::{TrustError, upstream_config};
use rustls::{CertificateError, Error, ProtocolVersion, ServerConfig};
use std::sync::Arc;

#[test]
fn an_extra_ca_is_trusted_when_given_and_only_then() {
    let (_dir, authority) = authority();
    let server = leaves(&authority, 2).server_config("api.example", now()).unwrap();
    for (extra, trusted) in [(Some(authority.certificate_pem().as_bytes()), true), (None, false)] {
        let mut config = (*upstream_config(extra, &[b"http/1.1"]).unwrap()).clone();
        config.time_provider = Arc::new(At(now()));
        match connect(&Arc::new(config), &server, "api.example") {
            Ok(session) => {
                assert!(trusted);
                assert_eq!(session.alpn.unwrap(), b"http/1.1");
            }
            Err(error) => {
                assert!(!trusted, "{error:?}");
                assert_eq!(error, Error::InvalidCertificate(CertificateError::UnknownIssuer));
            }
        }
    }
}

#[test]
fn a_provider_may_speak_tls_1_2_or_1_3_alone() {
    let (_dir, authority) = authority();
    let mut client = (*upstream_config(Some(authority.certificate_pem().as_bytes()), &[]).unwrap()).clone();
    client.time_provider = Arc::new(At(now()));
    let client = Arc::new(client);
    for (version, spoken) in [
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let resolver =
            leaves(&authority, 2).server_config("api.example", now()).unwrap().cert_resolver.clone();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        let session = connect(&client, &Arc::new(server), "api.example").unwrap();
        assert_eq!(session.version, spoken);
    }
}

#[test]
fn alpn_is_as_asked_and_early_data_is_never_sent() {
    let config = upstream_config(None, &[b"h2", b"http/1.1"]).unwrap();
    assert_eq!(config.alpn_protocols, [&b"h2"[..], b"http/1.1"]);
    assert!(!config.enable_early_data);
    assert!(!config.client_auth_cert_resolver.has_certs());
    assert!(upstream_config(None, &[]).unwrap().alpn_protocols.is_empty());
}

#[test]
fn a_faulty_extra_ca_is_an_error() {
    assert!(matches!(upstream_config(Some(b""), &[]), Err(TrustError::NoCertificate)));
    assert!(matches!(upstream_config(Some(b"text"), &[]), Err(TrustError::NoCertificate)));
    let cut = upstream_config(Some(b"-----BEGIN CERTIFICATE-----\nAAAA"), &[]);
    assert!(matches!(cut, Err(TrustError::Pem { .. })));
    let (_dir, authority) = authority();
    let second_bad = format!(
        "{}-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n",
        authority.certificate_pem()
    );
    let error = upstream_config(Some(second_bad.as_bytes()), &[]).unwrap_err();
    assert!(matches!(error, TrustError::Root { number: 2, .. }));
}
