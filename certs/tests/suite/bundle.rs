//! The bundle that agents are given.

use crate::support::{authority, certificates};
use oncegate_certs::{BundleError, write_bundle};
use std::fs;
use std::os::unix::fs::PermissionsExt;

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
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "ca.key, ca.pem and bundle.pem alone");
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
