//! The bundle that agents are given.

use crate::support::{authority, certificates};
use oncegate_certs::{BundleError, TRUSTSTORE, write_bundle};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use yasna::models::ObjectIdentifier;
use yasna::tags::TAG_BMPSTRING;
use yasna::{ASN1Result, BERReader, Tag, parse_der};

#[test]
fn our_ca_and_public_roots_are_in_one_file() {
    let (dir, authority) = authority();
    let path = write_bundle(dir.path(), &authority).unwrap();
    assert_eq!(path, dir.path().join("bundle.pem"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);

    let text = fs::read_to_string(&path).unwrap();
    let all = certificates(&text);
    assert_eq!(all[0], certificates(authority.certificate_pem())[0]);
    assert!(all.len() > 1, "with the roots of the system, or Mozilla's");
    assert_eq!(all.iter().filter(|one| **one == all[0]).count(), 1);
    assert!(text.lines().all(|line| line.len() <= 64) && text.ends_with("-----END CERTIFICATE-----\n"));
}

#[test]
fn a_new_bundle_takes_the_old_ones_place_whole() {
    let (dir, authority) = authority();
    let path = dir.path().join("bundle.pem");
    fs::write(&path, "an older bundle").unwrap();
    let mut old = fs::File::open(&path).unwrap();
    write_bundle(dir.path(), &authority).unwrap();
    // Whoever had it open reads the old one to its end.
    let mut text = String::new();
    std::io::Read::read_to_string(&mut old, &mut text).unwrap();
    assert_eq!(text, "an older bundle");
    assert!(fs::read_to_string(&path).unwrap().starts_with(authority.certificate_pem()));
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        4,
        "ca.key, ca.pem, bundle.pem and {TRUSTSTORE} alone"
    );
}

#[test]
fn a_bundle_that_cannot_be_written_is_named() {
    let (dir, authority) = authority();
    let error = write_bundle(&dir.path().join("gone"), &authority).unwrap_err();
    assert!(matches!(&error, BundleError::Write { .. }) && error.to_string().contains("gone"));
    fs::create_dir(dir.path().join("bundle.pem")).unwrap();
    let error = write_bundle(dir.path(), &authority).unwrap_err();
    assert!(matches!(error, BundleError::Replace { .. }));
}

#[test]
fn java_is_given_the_same_certificates() {
    let (dir, authority) = authority();
    let bundle = fs::read(write_bundle(dir.path(), &authority).unwrap()).unwrap();
    let bundle: Vec<_> =
        CertificateDer::pem_slice_iter(&bundle).map(|one| one.unwrap().as_ref().to_vec()).collect();
    let path = dir.path().join(TRUSTSTORE);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);

    let (names, certificates): (Vec<_>, Vec<_>) = trusted(&fs::read(&path).unwrap()).into_iter().unzip();
    assert_eq!(certificates, bundle);
    // Java keeps one certificate for each name, and takes no notice of case.
    assert!(
        names.iter().enumerate().all(|(number, name)| *name == format!("oncegate-{number}")),
        "{names:?}"
    );
}

/// The names and certificates of a PKCS#12 file, as RFC 7292 describes one without encryption and MAC. Each has to
/// be marked as Java wants it.
fn trusted(file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let safes = parse_der(file, |reader| {
        reader.read_sequence(|reader| {
            assert_eq!(reader.next().read_u8()?, 3);
            data(reader.next())
        })
    });
    let bags = parse_der(&safes.unwrap(), |reader| reader.read_sequence(|reader| data(reader.next())));
    parse_der(&bags.unwrap(), |reader| reader.collect_sequence_of(bag)).unwrap()
}

fn data(reader: BERReader<'_, '_>) -> ASN1Result<Vec<u8>> {
    reader.read_sequence(|reader| {
        assert_eq!(reader.next().read_oid()?, oid("1.2.840.113549.1.7.1"));
        reader.next().read_tagged(Tag::context(0), |reader| reader.read_bytes())
    })
}

fn bag(reader: BERReader<'_, '_>) -> ASN1Result<(String, Vec<u8>)> {
    reader.read_sequence(|reader| {
        assert_eq!(reader.next().read_oid()?, oid("1.2.840.113549.1.12.10.1.3"));
        let certificate = reader.next().read_tagged(Tag::context(0), |reader| {
            reader.read_sequence(|reader| {
                assert_eq!(reader.next().read_oid()?, oid("1.2.840.113549.1.9.22.1"));
                reader.next().read_tagged(Tag::context(0), |reader| reader.read_bytes())
            })
        })?;
        let (mut name, mut marked) = (None, false);
        reader.next().read_set_of(|reader| {
            reader.read_sequence(|reader| {
                let attribute = reader.next().read_oid()?;
                reader.next().read_set_of(|reader| {
                    if attribute == oid("1.2.840.113549.1.9.20") {
                        let bytes =
                            reader.read_tagged_implicit(TAG_BMPSTRING, |reader| reader.read_bytes())?;
                        let units: Vec<_> =
                            bytes.chunks(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]])).collect();
                        name = Some(String::from_utf16(&units).unwrap());
                    } else {
                        assert_eq!(attribute, oid("2.16.840.1.113894.746875.1.1"));
                        marked = reader.read_oid()? == oid("2.5.29.37.0");
                    }
                    Ok(())
                })
            })
        })?;
        assert!(marked, "{name:?}");
        Ok((name.unwrap(), certificate))
    })
}

fn oid(text: &str) -> ObjectIdentifier {
    text.parse().unwrap()
}
