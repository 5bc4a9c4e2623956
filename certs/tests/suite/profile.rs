//! The certificates as another parser reads them, item by item (reference/clients.md 2.3).

use crate::support::{DAY, HOUR, authority, certificates, chain, leaves, now};
use std::collections::HashSet;
use std::net::IpAddr;
use std::time::{Duration, UNIX_EPOCH};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

/// id-ecPublicKey on prime256v1.
fn assert_p256(certificate: &X509Certificate<'_>) {
    let algorithm = &certificate.public_key().algorithm;
    assert_eq!(algorithm.algorithm.to_id_string(), "1.2.840.10045.2.1");
    let curve = algorithm.parameters.as_ref().unwrap().as_oid().unwrap();
    assert_eq!(curve.to_id_string(), "1.2.840.10045.3.1.7");
}

fn subject_key_identifier<'a>(certificate: &'a X509Certificate<'_>) -> &'a [u8] {
    for extension in certificate.iter_extensions() {
        if let ParsedExtension::SubjectKeyIdentifier(identifier) = extension.parsed_extension() {
            return identifier.0;
        }
    }
    panic!("no subject key identifier");
}

fn authority_key_identifier<'a>(certificate: &'a X509Certificate<'_>) -> &'a [u8] {
    for extension in certificate.iter_extensions() {
        if let ParsedExtension::AuthorityKeyIdentifier(identifier) = extension.parsed_extension() {
            return identifier.key_identifier.as_ref().unwrap().0;
        }
    }
    panic!("no authority key identifier");
}

fn seconds(after_now: i64) -> i64 {
    i64::try_from(now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap() + after_now
}

#[test]
fn the_ca_has_its_profile() {
    let (_dir, authority) = authority();
    let der = certificates(authority.certificate_pem());
    assert_eq!(der.len(), 1);
    let (rest, ca) = X509Certificate::from_der(&der[0]).unwrap();
    assert!(rest.is_empty());

    assert_p256(&ca);
    assert_eq!(ca.version().0, 2, "v3");
    assert_eq!(ca.subject(), ca.issuer());
    ca.verify_signature(None).unwrap();
    let name = ca.subject().iter_common_name().next().unwrap().as_str().unwrap();
    let mark = name.strip_prefix("Oncegate local CA ").unwrap();
    assert!(mark.len() == 8 && mark.bytes().all(|byte| byte.is_ascii_hexdigit()));

    let constraints = ca.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && constraints.value.ca);
    assert_eq!(constraints.value.path_len_constraint, Some(0));
    let usage = ca.key_usage().unwrap().unwrap();
    assert!(usage.critical);
    assert_eq!(usage.value.flags, (1 << 5) | (1 << 6), "keyCertSign and cRLSign alone");
    assert!(!subject_key_identifier(&ca).is_empty());

    assert_eq!(ca.validity().not_before.timestamp(), seconds(-3600));
    assert_eq!(ca.validity().not_after.timestamp(), seconds(3650 * 24 * 3600));
}

#[test]
fn a_leaf_has_its_profile() {
    let (_dir, authority) = authority();
    let sent = chain(&authority, &leaves(&authority, 4), "api.stripe.com", now());
    assert_eq!(sent.len(), 1, "the root is not sent");
    let ca_der = certificates(authority.certificate_pem());
    let (_, ca) = X509Certificate::from_der(&ca_der[0]).unwrap();
    let (rest, leaf) = X509Certificate::from_der(&sent[0]).unwrap();
    assert!(rest.is_empty());

    assert_p256(&leaf);
    assert_ne!(leaf.public_key().raw, ca.public_key().raw);
    assert_eq!(leaf.version().0, 2, "v3");
    assert_eq!(leaf.signature_algorithm, leaf.tbs_certificate.signature);
    leaf.verify_signature(Some(ca.public_key())).unwrap();
    assert_eq!(leaf.issuer().as_raw(), ca.subject().as_raw());
    assert_eq!(authority_key_identifier(&leaf), subject_key_identifier(&ca));
    assert!(!subject_key_identifier(&leaf).is_empty());
    assert_ne!(subject_key_identifier(&leaf), subject_key_identifier(&ca));

    let names = leaf.subject_alternative_name().unwrap().unwrap();
    assert!(!names.critical);
    assert_eq!(names.value.general_names, [GeneralName::DNSName("api.stripe.com")]);
    let common_name = leaf.subject().iter_common_name().next().unwrap();
    assert_eq!(common_name.as_str().unwrap(), "api.stripe.com");

    let extended = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.server_auth && !extended.any && !extended.client_auth && extended.other.is_empty());
    let usage = leaf.key_usage().unwrap().unwrap();
    assert!(usage.critical);
    assert_eq!(usage.value.flags, 1, "digitalSignature alone");
    assert!(!leaf.basic_constraints().unwrap().unwrap().value.ca);

    let validity = leaf.validity();
    assert_eq!(validity.not_before.timestamp(), seconds(-3600));
    // The last second counts too.
    let lifetime = validity.not_after.timestamp() - validity.not_before.timestamp() + 1;
    assert_eq!(lifetime, 90 * 24 * 3600);
}

#[test]
fn an_address_stands_as_an_address() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 4);
    for text in ["127.0.0.1", "2001:db8::7"] {
        let sent = chain(&authority, &leaves, text, now());
        let (_, leaf) = X509Certificate::from_der(&sent[0]).unwrap();
        let octets = match text.parse::<IpAddr>().unwrap() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let names = leaf.subject_alternative_name().unwrap().unwrap();
        assert_eq!(names.value.general_names, [GeneralName::IPAddress(&octets)]);
    }
}

#[test]
fn a_name_too_long_for_a_common_name_stands_in_a_critical_san() {
    let (_dir, authority) = authority();
    let name = format!("{}.{}.example", "a".repeat(60), "b".repeat(60));
    let sent = chain(&authority, &leaves(&authority, 4), &name, now());
    let (_, leaf) = X509Certificate::from_der(&sent[0]).unwrap();
    assert_eq!(leaf.subject().iter().count(), 0);
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    assert!(names.critical);
    assert_eq!(names.value.general_names, [GeneralName::DNSName(&name)]);
}

#[test]
fn every_leaf_has_a_serial_and_a_key_of_its_own() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 64);
    let (mut serials, mut keys) = (HashSet::new(), HashSet::new());
    for number in 0..32 {
        let sent = chain(&authority, &leaves, &format!("host{number}.example"), now());
        let (_, leaf) = X509Certificate::from_der(&sent[0]).unwrap();
        let serial = leaf.raw_serial();
        assert!(serial.len() == 16 && serial[0] < 0x80, "positive, and at most 20 bytes: {serial:02x?}");
        serials.insert(serial.to_vec());
        keys.insert(leaf.public_key().raw.to_vec());
    }
    assert_eq!((serials.len(), keys.len()), (32, 32));
}

#[test]
fn no_leaf_outlives_its_ca() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 4);
    let last_day = now() + 3650 * DAY - HOUR;
    let sent = chain(&authority, &leaves, "api.example", last_day);
    let (_, leaf) = X509Certificate::from_der(&sent[0]).unwrap();
    assert_eq!(leaf.validity().not_after.timestamp(), seconds(3650 * 24 * 3600));

    leaves.server_config("api.example", last_day + Duration::from_secs(60)).unwrap();
    assert_eq!(leaves.minted(), 1, "a leaf that cannot be bettered is kept");
    let over = leaves.server_config("api.example", now() + 3651 * DAY).unwrap_err();
    assert!(matches!(over, oncegate_certs::MintError::AuthorityExpired));
}
