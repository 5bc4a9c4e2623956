//! How the program is linked.
//!
//! A relocation of a position-independent program takes 24 bytes, and there are tens of thousands of them: the loader reads
//! them all, and they stay among the resident memory of an idle sidecar. Packed they take a hundredth of that. The loader of
//! glibc knows packed ones from 2.36 on, and refuses a program that has them before: so they are packed where the program
//! is built for the machine that builds it, and that machine's glibc is new enough.

use std::env::var;
use std::process::Command;

/// The first glibc that starts a program with packed relocations (its release notes, `DT_RELR`).
const GLIBC_MIN: (u32, u32) = (2, 36);

fn main() {
    // Nothing else that this depends on changes between two builds.
    println!("cargo::rerun-if-env-changed=CARGO_CFG_TARGET_ENV");
    let here = var("HOST").ok().is_some_and(|host| var("TARGET").is_ok_and(|target| target == host));
    let glibc = var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux")
        && var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    if here && glibc && glibc_version().is_some_and(|version| version >= GLIBC_MIN) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Of this machine: `glibc 2.36`.
fn glibc_version() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let (major, minor) = std::str::from_utf8(&said).ok()?.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
