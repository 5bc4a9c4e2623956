//! What keeps the file in shape beside the writes: counters, the log, retention.

use std::os::unix::fs::FileExt;

use oncegate_store::error::Fault;
use oncegate_store::examine::examine;
use oncegate_store::found::Found;
use oncegate_store::plain::Begun;
use oncegate_store::stats::COMMIT_BOUNDS;
use oncegate_store::{OpenError, Store, StoreError, Trouble};
use rusqlite::Connection;

use crate::plain::ping;
use crate::support::{DAY, Memory, NOON, answered, caller, options, owner, seen};

async fn write(memory: &Memory, subject: &str, bytes: usize) {
    let mut new = memory.refund(subject, 1);
    new.can_read_back = false;
    new.request.body = vec![b'x'; bytes];
    let (permit, _) = memory.granted(new, NOON).await;
    memory.record(permit.spend(), &answered(402), NOON).await;
}

#[tokio::test]
async fn commits_are_counted() {
    let memory = Memory::new();
    let before = memory.store.stats();
    write(&memory, "pi_1", 100).await;
    let after = memory.store.stats();
    assert_eq!((after.commits - before.commits, after.jobs - before.jobs), (2, 2));
    assert_eq!((after.last_batch, after.queue_depth, after.failed_commits), (1, 0, 0));
    assert_eq!(after.commit_times.buckets.iter().sum::<u64>(), after.commits);
    assert!(
        after.commit_times.max <= after.commit_times.sum && after.commit_times.max > COMMIT_BOUNDS[0] / 100
    );
    assert!(after.log_pages > 0 && !after.log_held);
}

/// As the documentation of the database says: whoever copies the file of a sidecar that was stopped has everything.
#[tokio::test]
async fn an_orderly_end_leaves_one_file() {
    let memory = Memory::new();
    write(&memory, "pi_1", 100).await;
    let Memory { store, folder, .. } = memory;
    drop(store);
    let mut left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["once.db", "once.db-lock"]);
}

#[tokio::test]
async fn a_verb_that_fails_alone_leaves_nothing_and_the_next_one_works() {
    let memory = Memory::new();
    memory
        .shell()
        .execute_batch("CREATE TRIGGER no BEFORE INSERT ON room BEGIN SELECT RAISE(ABORT, 'no'); END")
        .unwrap();
    let cap = crate::support::limit("cap", oncegate_policy::limit::Period::Day, 10);
    memory.store.sync_limits(vec![cap], NOON).await.unwrap();
    let commits = memory.store.stats().commits;
    assert!(memory.store.admit(memory.refund("pi_1", 1), NOON).await.is_err());
    assert_eq!((memory.count("effect"), memory.count("request"), memory.count("attempt")), (0, 0, 0));
    assert_eq!(memory.store.stats().commits, commits);
    memory.shell().execute_batch("DROP TRIGGER no").unwrap();
    let (_permit, _) = memory.granted(memory.refund("pi_1", 1), NOON).await;
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

/// While somebody holds a snapshot, SQLite's log cannot start over: writes go on, it is said, and it ends with the read.
#[tokio::test]
async fn a_long_read_makes_the_log_grow_and_is_told() {
    let memory = Memory::new();
    write(&memory, "pi_0", 100).await;
    let shell = Connection::open(memory.path()).unwrap();
    shell.execute_batch("BEGIN; SELECT count(*) FROM effect").unwrap();
    let seen = |shell: &Connection| -> i64 {
        shell.query_row("SELECT count(*) FROM effect", [], |row| row.get(0)).unwrap()
    };
    let mut writes = 0;
    while !memory.store.stats().log_held {
        writes += 1;
        assert!(writes < 200, "{:?}", memory.store.stats());
        write(&memory, &format!("pi_{writes}"), 1024 * 1024).await;
    }
    assert!(memory.store.stats().log_pages >= 16_000);
    assert_eq!(seen(&shell), 1, "the reader keeps its snapshot");
    shell.execute_batch("COMMIT").unwrap();
    assert_eq!(seen(&shell), 1 + writes);
    for more in 0..3 {
        write(&memory, &format!("pi_more_{more}"), 100).await;
    }
    let after = memory.store.stats();
    assert!(!after.log_held && after.log_pages < 4_000, "{after:?}");
}

/// A prune is many small transactions: what comes meanwhile waits for one of them and not for all.
#[tokio::test]
async fn a_prune_lets_admissions_in_between() {
    let memory = Memory::new();
    for number in 0..200 {
        write(&memory, &format!("pi_{number}"), 100).await;
    }
    let before = memory.store.stats();
    let year_on = NOON.plus(400 * DAY);
    let pruned = memory.store.prune(Some(year_on), year_on).await.unwrap();
    assert_eq!((pruned.responses, pruned.removed), (200, 200));
    let after = memory.store.stats();
    // 200 answers and 200 effects, at most 32 of them at a time.
    assert!(after.commits - before.commits >= 14, "{} commits", after.commits - before.commits);
    assert_eq!(memory.count("effect") + memory.count("attempt") + memory.count("response"), 0);
}

/// The same memory, opened anew after a page of `table` has gone bad.
fn damaged(memory: Memory, table: &str) -> Memory {
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: i64 = memory.shell().query_row(sql, [table], |row| row.get(0)).unwrap();
    let (path, Memory { store, folder, ids }) = (memory.path(), memory);
    drop(store);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0xa5; 4096], u64::try_from(page - 1).unwrap() * 4096).unwrap();
    let store = Store::open(options(path), owner(2_000), NOON).unwrap();
    Memory { store, folder, ids }
}

/// What was sent may be missing where the file is damaged. An admission does not read the page of this test; still
/// nothing is sent any more once it was found, and what is on its way is recorded.
#[tokio::test]
async fn a_record_that_was_found_damaged_gives_no_right_to_send() {
    let memory = Memory::new();
    let unknown = memory.unknown(memory.refund("pi_1", 1), NOON).await;
    let memory = damaged(memory, "preview");
    let (permit, effect) = memory.granted(memory.refund("pi_2", 2), NOON).await;
    let Begun::Fresh { permit: plain, .. } =
        memory.store.begin_plain(ping(&memory, "one"), NOON).await.unwrap()
    else {
        panic!("it is new");
    };

    assert!(memory.store.create_preview(crate::previews::new(None), NOON).await.is_err());
    assert_eq!(memory.store.stats().trouble, Some(Trouble::Damaged));

    let ops = caller("ops");
    for no in [
        memory.store.admit(memory.refund("pi_3", 3), NOON).await.err(),
        memory.store.begin_plain(ping(&memory, "two"), NOON).await.err(),
        memory.store.claim_ready(&effect.id, NOON).await.err(),
        memory.store.begin_replay(&unknown.id, &ops, |_| Ok(()), NOON).await.err(),
    ] {
        assert!(matches!(no, Some(StoreError::Failed { fault: Fault::Damaged, .. })), "{no:?}");
    }
    assert_eq!(memory.count("effect"), 2);

    memory.record(permit.spend(), &answered(200), NOON).await;
    memory.store.end_plain(plain.spend(), seen(&answered(200)), NOON).await.unwrap();
    assert_eq!(memory.view(&unknown.id).await, unknown);
    assert_eq!(memory.store.trouble().await, Some(Trouble::Damaged));
}

/// Here only a look for what is due reads the page, and no write ever.
#[tokio::test]
async fn damage_that_only_a_read_meets_gives_no_right_to_send() {
    let memory = Memory::new();
    memory.unknown(memory.refund("pi_1", 1), NOON).await;
    let memory = damaged(memory, "effect_due");
    assert!(memory.store.next_look(NOON).await.is_err());
    assert_eq!(memory.store.trouble().await, Some(Trouble::Damaged));
    let no = memory.store.admit(memory.refund("pi_2", 2), NOON).await.err();
    assert!(matches!(no, Some(StoreError::Failed { fault: Fault::Damaged, .. })), "{no:?}");
}

/// In the words of `ready`, before a start: what it reads must be there, and nobody else may keep the lock.
#[tokio::test]
async fn what_is_in_the_way_of_a_start_is_found_without_one() {
    let memory = Memory::new();
    memory.unknown(memory.refund("pi_1", 1), NOON).await;
    let path = memory.path();
    assert_eq!(examine(&path).unwrap(), Found::Record);
    let other = memory.shell();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let held = examine(&path).unwrap_err();
    assert!(matches!(held, OpenError::Unusable { trouble: Trouble::Locked, .. }), "{held:?}");
    assert!(held.to_string().contains(Trouble::Locked.sentence()), "{held}");
    drop(other);
    let memory = damaged(memory, "request");
    let no = examine(&path).unwrap_err();
    assert!(matches!(no, OpenError::Damaged { .. }), "{no:?}");
    drop(memory);
}
