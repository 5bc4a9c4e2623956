//! The key is never open to others, not for a moment. A process of its own, because the umask is one per
//! process.
#![cfg(test)]

use oncegate_certs::{Authority, write_bundle};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Reads whatever is in `dir` again and again, and counts the keys that others could read.
fn watch(dir: &Path, over: &AtomicBool, looks: &AtomicU64) -> u64 {
    let mut exposed = 0;
    while !over.load(Ordering::Acquire) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let Ok(file) = fs::File::open(entry.path()) else { continue };
            let open = file.metadata().unwrap().permissions().mode() & 0o077 != 0;
            let is_key = std::io::read_to_string(&file).is_ok_and(|text| text.contains("PRIVATE KEY"));
            exposed += u64::from(open && is_key);
        }
        looks.fetch_add(1, Ordering::Release);
    }
    exposed
}

// One test, since both halves set the umask.
#[test]
fn whatever_the_umask_the_key_is_the_owners_alone() {
    rustix::process::umask(rustix::fs::Mode::empty());
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let authority = Authority::load_or_create(&made, now()).unwrap();
    assert_eq!(mode(&made), 0o700);
    assert_eq!(mode(&made.join("ca.key")), 0o600);
    assert_eq!(mode(&made.join("ca.pem")), 0o644);
    assert_eq!(mode(&write_bundle(&made, &authority).unwrap()), 0o644);

    let watched = dir.path().join("watched");
    fs::create_dir(&watched).unwrap();
    assert_eq!(mode(&watched), 0o777, "a directory that was there keeps its mode");
    let (over, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&watched, &over, &looks));
        while looks.load(Ordering::Acquire) < 200 {
            Authority::load_or_create(&watched, now()).unwrap();
            fs::remove_file(watched.join("ca.key")).unwrap();
            fs::remove_file(watched.join("ca.pem")).unwrap();
        }
        over.store(true, Ordering::Release);
        assert_eq!(watcher.join().unwrap(), 0);
    });

    // The tightest umask does not lock agents out of what is meant for them.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let tight = dir.path().join("tight");
    let authority = Authority::load_or_create(&tight, now()).unwrap();
    assert_eq!(mode(&tight.join("ca.key")), 0o600);
    assert_eq!(mode(&tight.join("ca.pem")), 0o644);
    assert_eq!(mode(&write_bundle(&tight, &authority).unwrap()), 0o644);
}
