//! TLS as an agent sees it.

use crate::support::{
    DAY, HOUR, authority, certificates, client, client_by, client_of, connect, leaves, now,
};
use rustls::{CertificateError, CipherSuite, Error, HandshakeKind, ProtocolVersion};
use std::sync::Arc;

#[test]
fn a_client_that_trusts_the_ca_alone_connects() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 8);
    let roots = certificates(authority.certificate_pem());
    for (version, spoken) in [
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
    ] {
        for name in ["api.stripe.com", "127.0.0.1", "::1"] {
            let client = Arc::new(client_of(&roots, now(), &[version]));
            let server = leaves.server_config(name, now()).unwrap();
            let session = connect(&client, &server, name).unwrap();
            assert_eq!(session.version, spoken);
            assert_eq!(session.alpn, None, "a client without ALPN is served too");
        }
    }
}

#[test]
fn http_1_is_all_there_is() {
    let (_dir, authority) = authority();
    let server = leaves(&authority, 8).server_config("api.example", now()).unwrap();
    assert_eq!(server.alpn_protocols, [b"http/1.1", b"http/1.0"]);
    let mut client = client(&certificates(authority.certificate_pem()), now());
    for (offered, taken) in [
        (vec![b"h2".to_vec(), b"http/1.0".to_vec(), b"http/1.1".to_vec()], b"http/1.1"),
        (vec![b"http/1.0".to_vec()], b"http/1.0"),
    ] {
        client.alpn_protocols = offered;
        let session = connect(&Arc::new(client.clone()), &server, "api.example").unwrap();
        assert_eq!(session.alpn.unwrap(), taken);
    }

    client.alpn_protocols = vec![b"h2".to_vec()];
    let error = connect(&Arc::new(client), &server, "api.example").unwrap_err();
    assert_eq!(error, Error::NoApplicationProtocol);
}

#[test]
fn a_leaf_serves_no_other_name_and_no_other_ca() {
    let (_dir, authority_one) = authority();
    let (_other, authority_two) = authority();
    let server = leaves(&authority_one, 8).server_config("api.example", now()).unwrap();
    let of_one = Arc::new(client(&certificates(authority_one.certificate_pem()), now()));
    let of_two = Arc::new(client(&certificates(authority_two.certificate_pem()), now()));
    for other in ["other.example", "sub.api.example", "127.0.0.1"] {
        let error = connect(&of_one, &server, other).unwrap_err();
        assert!(
            matches!(error, Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })),
            "{other}: {error:?}"
        );
    }
    let error = connect(&of_two, &server, "api.example").unwrap_err();
    assert_eq!(error, Error::InvalidCertificate(CertificateError::UnknownIssuer));
}

#[test]
fn a_leaf_is_good_from_an_hour_back_to_its_ninetieth_day() {
    let (_dir, authority) = authority();
    let server = leaves(&authority, 8).server_config("api.example", now()).unwrap();
    let roots = certificates(authority.certificate_pem());
    let at = |now| connect(&Arc::new(client(&roots, now)), &server, "api.example");
    assert!(at(now() - HOUR).is_ok());
    assert!(at(now() + 89 * DAY).is_ok());
    assert!(at(now() - 2 * HOUR).is_err());
    assert!(at(now() + 90 * DAY).is_err());
}

/// Libraries ask for AES-256 first; it costs more, and is spoken with those that know nothing else.
#[test]
fn the_cheaper_suite_is_chosen_where_a_client_has_it() {
    let (_dir, authority) = authority();
    let server = leaves(&authority, 8).server_config("api.example", now()).unwrap();
    let roots = certificates(authority.certificate_pem());
    for (version, chosen, other) in [
        (
            &rustls::version::TLS13,
            CipherSuite::TLS13_AES_128_GCM_SHA256,
            CipherSuite::TLS13_AES_256_GCM_SHA384,
        ),
        (
            &rustls::version::TLS12,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        ),
    ] {
        let client = client_of(&roots, now(), &[version]);
        let session = connect(&Arc::new(client), &server, "api.example").unwrap();
        assert_eq!(session.suite, chosen);
        let mut provider = rustls::crypto::ring::default_provider();
        provider.cipher_suites.retain(|suite| suite.suite() == other);
        let client = client_by(provider, &roots, now(), &[version]);
        assert_eq!(connect(&Arc::new(client), &server, "api.example").unwrap().suite, other);
    }
}

#[test]
fn sessions_are_resumed_even_across_a_new_leaf() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 1);
    let roots = certificates(authority.certificate_pem());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let client = Arc::new(client_of(&roots, now(), &[version]));
        let connect = |name| {
            let server = leaves.server_config(name, now()).unwrap();
            connect(&client, &server, name).unwrap().kind
        };
        assert_eq!(connect("api.example"), HandshakeKind::Full);
        assert_eq!(connect("api.example"), HandshakeKind::Resumed);
        assert_eq!(connect("other.example"), HandshakeKind::Full, "which pushes the first leaf out");
        assert_eq!(connect("api.example"), HandshakeKind::Resumed);
    }
}

#[test]
fn early_data_is_never_taken() {
    let (_dir, authority) = authority();
    let server = leaves(&authority, 8).server_config("api.example", now()).unwrap();
    assert_eq!(server.max_early_data_size, 0);
    assert!(!server.send_half_rtt_data);
}
