//! What Java trusts: it reads no PEM, and no variable names its roots. A property names a key store instead.
//!
//! Written as PKCS#12 (RFC 7292), which Java has read since version 6 and has made by default since 9; its own JKS is
//! on its way out. The file is neither encrypted nor under a MAC. It holds nothing but public certificates, a MAC under
//! a password that everybody knows would protect nothing, and so there is no password that Java would have to be told.

use rustls_pki_types::CertificateDer;
use yasna::models::ObjectIdentifier;
use yasna::tags::TAG_BMPSTRING;
use yasna::{DERWriter, Tag, construct_der};

/// The only version there is (RFC 7292 section 4).
const VERSION: u8 = 3;
/// `id-data` of PKCS#7.
const DATA: &[u64] = &[1, 2, 840, 113_549, 1, 7, 1];
/// `certBag`.
const CERT_BAG: &[u64] = &[1, 2, 840, 113_549, 1, 12, 10, 1, 3];
/// `x509Certificate`, a kind of `certBag`.
const X509: &[u64] = &[1, 2, 840, 113_549, 1, 9, 22, 1];
/// `friendlyName` of PKCS#9: Java's alias, one for each entry.
const FRIENDLY_NAME: &[u64] = &[1, 2, 840, 113_549, 1, 9, 20];
/// Oracle's `trustedKeyUsage`: without it Java takes no certificate of a PKCS#12 file for one to trust.
const TRUSTED_KEY_USAGE: &[u64] = &[2, 16, 840, 1, 113_894, 746_875, 1, 1];
/// `anyExtendedKeyUsage`: trusted for whatever it says itself.
const ANY_USAGE: &[u64] = &[2, 5, 29, 37, 0];

/// The file's bytes.
pub(crate) fn contents(certificates: &[&CertificateDer<'_>]) -> Vec<u8> {
    let bags = construct_der(|writer| {
        writer.write_sequence_of(|writer| {
            for (number, certificate) in certificates.iter().enumerate() {
                bag(writer.next(), number, certificate);
            }
        });
    });
    let safes = construct_der(|writer| {
        writer.write_sequence_of(|writer| data(writer.next(), &bags));
    });
    construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_u8(VERSION);
            data(writer.next(), &safes);
        });
    })
}

/// A `ContentInfo` that holds bytes as they are.
fn data(writer: DERWriter<'_>, bytes: &[u8]) {
    writer.write_sequence(|writer| {
        writer.next().write_oid(&oid(DATA));
        writer.next().write_tagged(Tag::context(0), |writer| writer.write_bytes(bytes));
    });
}

/// A `SafeBag` with one certificate to trust.
fn bag(writer: DERWriter<'_>, number: usize, certificate: &[u8]) {
    writer.write_sequence(|writer| {
        writer.next().write_oid(&oid(CERT_BAG));
        writer.next().write_tagged(Tag::context(0), |writer| {
            writer.write_sequence(|writer| {
                writer.next().write_oid(&oid(X509));
                writer.next().write_tagged(Tag::context(0), |writer| writer.write_bytes(certificate));
            });
        });
        writer.next().write_set_of(|writer| {
            attribute(writer.next(), FRIENDLY_NAME, |writer| {
                let name: Vec<u8> =
                    format!("oncegate-{number}").encode_utf16().flat_map(u16::to_be_bytes).collect();
                writer.write_tagged_implicit(TAG_BMPSTRING, |writer| writer.write_bytes(&name));
            });
            attribute(writer.next(), TRUSTED_KEY_USAGE, |writer| writer.write_oid(&oid(ANY_USAGE)));
        });
    });
}

/// An attribute with one value.
fn attribute(writer: DERWriter<'_>, name: &[u64], value: impl FnOnce(DERWriter<'_>)) {
    writer.write_sequence(|writer| {
        writer.next().write_oid(&oid(name));
        writer.next().write_set(|writer| value(writer.next()));
    });
}

fn oid(components: &[u64]) -> ObjectIdentifier {
    ObjectIdentifier::from_slice(components)
}
