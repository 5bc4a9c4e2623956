//! Making, loading and refusing the CA's two files.

use crate::support::{DAY, HOUR, authority, now};
use oncegate_certs::{Authority, AuthorityError};
use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn load(dir: &tempfile::TempDir) -> AuthorityError {
    Authority::load_or_create(dir.path(), now()).unwrap_err()
}

#[test]
fn a_second_start_finds_the_same_ca() {
    let (dir, first) = authority();
    let second = Authority::load_or_create(dir.path(), now() + DAY).unwrap();
    assert_eq!(first.certificate_pem(), second.certificate_pem());
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["ca.key", "ca.pem"], "and nothing is left lying about");
}

#[test]
fn two_new_cas_are_told_apart() {
    let (_one, first) = authority();
    let (_two, second) = authority();
    assert_ne!(first.certificate_pem(), second.certificate_pem());
}

#[test]
fn one_of_two_files_is_not_enough() {
    for (gone, left) in [("ca.key", "ca.pem"), ("ca.pem", "ca.key")] {
        let (dir, _) = authority();
        let kept = fs::read(dir.path().join(left)).unwrap();
        fs::remove_file(dir.path().join(gone)).unwrap();
        let error = load(&dir);
        assert!(matches!(&error, AuthorityError::Half { present, missing }
            if present.ends_with(left) && missing.ends_with(gone)));
        assert!(error.to_string().contains(gone) && error.to_string().contains(left));
        assert_eq!(fs::read(dir.path().join(left)).unwrap(), kept, "what is there is left alone");
        assert!(!dir.path().join(gone).exists());
    }
}

#[test]
fn a_key_open_to_others_is_refused() {
    for mode in [0o640, 0o604, 0o644, 0o620, 0o666] {
        let (dir, _) = authority();
        fs::set_permissions(dir.path().join("ca.key"), fs::Permissions::from_mode(mode)).unwrap();
        let error = load(&dir);
        assert!(matches!(error, AuthorityError::KeyExposed { mode: found, .. } if found == mode));
        assert!(error.to_string().contains("ca.key") && error.to_string().contains("0600"));
    }
    let (dir, _) = authority();
    fs::set_permissions(dir.path().join("ca.key"), fs::Permissions::from_mode(0o400)).unwrap();
    assert!(Authority::load_or_create(dir.path(), now()).is_ok());
}

#[test]
fn garbled_files_are_named() {
    let (dir, _) = authority();
    let (certificate, key) = (dir.path().join("ca.pem"), dir.path().join("ca.key"));
    let whole = fs::read_to_string(&certificate).unwrap();

    for text in ["", "no PEM at all", "-----BEGIN CERTIFICATE-----\nAAAA"] {
        fs::write(&certificate, text).unwrap();
        let error = load(&dir);
        assert!(matches!(error, AuthorityError::CertificatePem { .. }), "{text:?}: {error:?}");
        assert!(error.to_string().contains("ca.pem") && error.source().is_some());
    }
    fs::write(&certificate, "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n").unwrap();
    assert!(matches!(load(&dir), AuthorityError::CertificateDer { .. }));
    fs::write(&certificate, [0xFF, 0xFE, 0]).unwrap();
    assert!(matches!(load(&dir), AuthorityError::CertificatePem { .. }));
    fs::write(&certificate, whole).unwrap();

    for text in ["", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"] {
        fs::write(&key, text).unwrap();
        let error = load(&dir);
        assert!(matches!(error, AuthorityError::KeyPem { .. }), "{text:?}: {error:?}");
        assert!(error.to_string().contains("ca.key") && error.to_string().contains("PKCS#8"));
    }
    fs::write(&key, "-----BEGIN PRIVATE KEY-----\nMAMCAQE=\n-----END PRIVATE KEY-----\n").unwrap();
    assert!(matches!(load(&dir), AuthorityError::Key { .. }));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let (dir, _) = authority();
    // A directory in its place: permissions do not keep root out, and tests run as root.
    fs::remove_file(dir.path().join("ca.pem")).unwrap();
    fs::create_dir(dir.path().join("ca.pem")).unwrap();
    let error = load(&dir);
    assert!(matches!(&error, AuthorityError::Read { path, .. } if path.ends_with("ca.pem")), "{error:?}");
}

#[test]
fn a_directory_that_cannot_be_made_or_looked_into_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    // Below a file there is nothing, neither to find nor to make.
    let error = Authority::load_or_create(&file.join("ca"), now()).unwrap_err();
    assert!(
        matches!(error, AuthorityError::CreateDirectory { .. } | AuthorityError::Inspect { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("file/ca"));
}

#[test]
fn another_ones_key_is_refused() {
    let (dir, _) = authority();
    let (other, _) = authority();
    fs::copy(other.path().join("ca.key"), dir.path().join("ca.key")).unwrap();
    assert!(matches!(load(&dir), AuthorityError::Mismatch { .. }));
}

#[test]
fn a_ca_out_of_its_time_is_refused() {
    let (dir, _) = authority();
    let early = Authority::load_or_create(dir.path(), now() - 2 * HOUR).unwrap_err();
    assert!(matches!(early, AuthorityError::NotYetValid { .. }));
    let late = Authority::load_or_create(dir.path(), now() + 3651 * DAY).unwrap_err();
    assert!(matches!(late, AuthorityError::Expired { .. }));
    assert!(Authority::load_or_create(dir.path(), now() - HOUR).is_ok());
    assert!(Authority::load_or_create(dir.path(), now() + 3649 * DAY).is_ok());
}

#[test]
fn a_clock_no_certificate_can_say_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let before_time = std::time::UNIX_EPOCH - DAY;
    let error = Authority::load_or_create(&dir.path().join("ca"), before_time).unwrap_err();
    assert!(matches!(error, AuthorityError::Clock));
}

#[test]
fn an_authority_shows_no_key() {
    let (dir, authority) = authority();
    let key = fs::read_to_string(dir.path().join("ca.key")).unwrap();
    let shown = format!("{authority:?}");
    assert!(shown.starts_with("Authority {"));
    for line in key.lines() {
        assert!(!shown.contains(line) && !authority.certificate_pem().contains(line));
    }
}
