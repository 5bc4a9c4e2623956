//! The real binary, built once and kept where no later build replaces it under a running test.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, id},
    sync::{Mutex, OnceLock},
};

/// Which build of `oncegate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// As it is shipped.
    Plain,
    /// With the feature `failpoints`.
    Failpoints,
}

/// Where it is. `ONCEGATE_BIN` and `ONCEGATE_FAILPOINTS_BIN` name ready ones; else cargo builds them.
pub fn oncegate(build: Build) -> &'static Path {
    static PLAIN: OnceLock<PathBuf> = OnceLock::new();
    static FAILPOINTS: OnceLock<PathBuf> = OnceLock::new();
    match build {
        Build::Plain => PLAIN.get_or_init(|| find("ONCEGATE_BIN", build)),
        Build::Failpoints => FAILPOINTS.get_or_init(|| find("ONCEGATE_FAILPOINTS_BIN", build)),
    }
}

fn find(variable: &str, build: Build) -> PathBuf {
    match env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => make(build),
    }
}

/// Both builds share all that they depend on, and so one target folder, where they take the same place: each is
/// copied away, and the shipped one is left there at the end. The one with failpoints is never optimised: that takes
/// long, and nobody ships it.
fn make(build: Build) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap();
    let ours = env::current_exe().unwrap();
    // A test lies in target/<profile>/deps, a program in target/<profile>.
    let folder = ours.parent().expect("target/<profile>");
    let profile = if folder.ends_with("deps") { folder.parent().expect("target/<profile>") } else { folder };
    if build == Build::Failpoints {
        let profile = profile.with_file_name("debug");
        let kept = kept(&profile);
        cargo(&profile, &["--features", "oncegate/failpoints"]);
        let path = keep(&profile, &kept.join("oncegate-failpoints"));
        cargo(&profile, &[]);
        return path;
    }
    cargo(profile, &[]);
    keep(profile, &kept(profile).join("oncegate"))
}

fn kept(profile: &Path) -> PathBuf {
    let kept = profile.join("under-test");
    fs::create_dir_all(&kept).unwrap();
    kept
}

fn cargo(profile: &Path, more: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Of the whole workspace: with the features that its tests were built with, so that nothing is compiled twice.
    build.args(["build", "--quiet", "--workspace", "--bin", "oncegate"]).args(more);
    build.arg("--target-dir").arg(profile.parent().unwrap()).current_dir(root);
    if profile.ends_with("release") {
        build.arg("--release");
    }
    // What cargo tells a test about its own package: ring's build script asks for such variables, and would be run again for
    // others, with all that depends on it compiled anew, now and by the next `cargo test` once more.
    let of_this_package = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|start| name.starts_with(start))
            || ["CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"].contains(&name)
    };
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(of_this_package) {
            build.env_remove(name);
        }
    }
    let done = build.output().expect("cargo runs");
    assert!(done.status.success(), "cannot build oncegate: {}", String::from_utf8_lossy(&done.stderr));
}

/// Copied aside and renamed: never seen half-written, and a running one keeps its own file.
fn keep(profile: &Path, place: &Path) -> PathBuf {
    let aside = place.with_extension(id().to_string());
    fs::copy(profile.join("oncegate"), &aside).unwrap();
    fs::rename(&aside, place).unwrap();
    place.to_owned()
}
