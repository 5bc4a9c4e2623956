//! The process stops at each failpoint of an admission and of a record; the next one finds what it must.

use std::process::Command;

use oncegate_store::Store;

use crate::support::{Memory, NOON, answered, options, owner, word};

const FOLDER: &str = "ONCEGATE_TEST_FOLDER";

/// Runs in the process that stops.
#[tokio::test]
async fn the_one_that_stops() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let path = std::path::Path::new(&folder).join("once.db");
    let store = Store::open(options(path), owner(1), NOON).unwrap();
    let prepared = Memory::new();
    let memory = Memory { store, ..prepared };
    let (permit, _) = memory.granted(memory.refund("pi_1", 600), NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
}

#[tokio::test]
async fn what_the_next_one_finds() {
    for (failpoint, found) in [
        ("before_commit", None),
        ("after_commit", Some("unknown")),
        ("before_record_commit", Some("unknown")),
        ("after_record_commit", Some("succeeded")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let stopped = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stops::the_one_that_stops"])
            .env(FOLDER, folder.path())
            .env("ONCEGATE_FAILPOINT", format!("{failpoint}=abort"))
            .output()
            .unwrap();
        assert!(!stopped.status.success(), "{failpoint}: {stopped:?}");
        let store = Store::open(options(folder.path().join("once.db")), owner(2), NOON).unwrap();
        let memory = Memory { store, ..Memory::new() };
        memory.store.sweep(NOON).await.unwrap();
        let listed =
            memory.store.list(oncegate_store::EffectFilter { limit: 9, ..Default::default() }).await.unwrap();
        assert_eq!(listed.effects.first().map(|view| word(view).0), found, "{failpoint}");
        assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
    }
}
