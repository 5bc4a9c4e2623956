//! CAs that an operator brought along.

use crate::support::{DAY, certificates, chain, client, connect, leaves, now};
use oncegate_certs::{Authority, AuthorityError};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use tempfile::TempDir;
use x509_parser::prelude::{FromDer, X509Certificate};

/// RSA; its subject is `DC=example, DC=corp, OU=Security, OU=Egress, CN=… + O=…`. Made with openssl.
const RSA: (&str, &str) =
    (include_str!("../fixtures/operator-rsa.pem"), include_str!("../fixtures/operator-rsa.key"));

fn put(certificate: &str, key: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ca.pem"), certificate).unwrap();
    fs::write(dir.path().join("ca.key"), key).unwrap();
    fs::set_permissions(dir.path().join("ca.key"), fs::Permissions::from_mode(0o600)).unwrap();
    dir
}

fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

/// Loads it, and lets a client that trusts it connect.
fn assert_works(certificate: &str, key: &str) {
    let dir = put(certificate, key);
    let authority = Arc::new(Authority::load_or_create(dir.path(), now()).unwrap());
    let sent = chain(&authority, &leaves(&authority, 2), "api.example", now());
    let of_ca = certificates(certificate);
    let (_, ca) = X509Certificate::from_der(&of_ca[0]).unwrap();
    let (_, leaf) = X509Certificate::from_der(&sent[0]).unwrap();
    assert_eq!(leaf.issuer().as_raw(), ca.subject().as_raw());
    leaf.verify_signature(Some(ca.public_key())).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("ca.pem")).unwrap(), certificate, "it is not rewritten");
}

#[test]
fn rsa_under_a_subject_with_repeated_and_multi_valued_parts() {
    assert_works(RSA.0, RSA.1);
}

#[test]
fn other_kinds_of_key() {
    for algorithm in [&PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = ca_params("Operator").self_signed(&key).unwrap();
        assert_works(&certificate.pem(), &key.serialize_pem());
    }
}

#[test]
fn text_around_the_certificate_does_no_harm() {
    let text = format!("subject=Operator's own\n{}\n# end\n", RSA.0);
    assert_works(&text, RSA.1);
}

#[test]
fn a_subordinate_ca_is_sent_along_for_those_who_trust_its_root() {
    let root = CertifiedIssuer::self_signed(ca_params("Root"), KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = ca_params("Subordinate");
    params.use_authority_key_identifier_extension = true;
    let subordinate = params.signed_by(&key, &root).unwrap();
    let both = format!("{}{}", subordinate.pem(), root.pem());

    for text in [subordinate.pem(), both] {
        let dir = put(&text, &key.serialize_pem());
        let authority = Arc::new(Authority::load_or_create(dir.path(), now()).unwrap());
        let server = leaves(&authority, 2).server_config("api.example", now()).unwrap();
        let client = Arc::new(client(&[root.der().clone()], now()));
        let sent = connect(&client, &server, "api.example").unwrap().chain;
        assert_eq!(sent.len(), 2, "the leaf and the subordinate, not the root");
        assert_eq!(&sent[1], subordinate.der());
        assert_eq!(certificates(authority.certificate_pem()), certificates(&text));
    }
}

#[test]
fn a_key_left_in_the_certificate_file_goes_no_further() {
    let dir = put(&format!("{}{}", RSA.1, RSA.0), RSA.1);
    let authority = Authority::load_or_create(dir.path(), now()).unwrap();
    assert!(!authority.certificate_pem().contains("PRIVATE"));
    let bundle = oncegate_certs::write_bundle(dir.path(), &authority).unwrap();
    assert!(!fs::read_to_string(bundle).unwrap().contains("PRIVATE"));
}

#[test]
fn what_is_no_ca_is_refused() {
    let key = KeyPair::generate().unwrap();
    let mut plain = CertificateParams::default();
    plain.distinguished_name.push(DnType::CommonName, "No CA");
    let mut cannot_sign = ca_params("Cannot sign");
    cannot_sign.key_usages = vec![KeyUsagePurpose::CrlSign];
    for params in [plain, cannot_sign] {
        let dir = put(&params.self_signed(&key).unwrap().pem(), &key.serialize_pem());
        let error = Authority::load_or_create(dir.path(), now()).unwrap_err();
        assert!(matches!(error, AuthorityError::NotCa { .. }), "{error:?}");
    }
}

#[test]
fn an_expired_one_is_refused() {
    let key = KeyPair::generate().unwrap();
    let mut params = ca_params("Expired");
    params.not_after = time::OffsetDateTime::from(now() - DAY);
    let dir = put(&params.self_signed(&key).unwrap().pem(), &key.serialize_pem());
    let error = Authority::load_or_create(dir.path(), now()).unwrap_err();
    assert!(matches!(error, AuthorityError::Expired { .. }));
    assert!(error.to_string().contains("2027-01-14"));
}
