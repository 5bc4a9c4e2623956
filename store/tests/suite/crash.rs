//! What a stop of the process leaves behind, and what the next one finds.

use oncegate_policy::limit::Period;
use oncegate_policy::reconcile::Looker;
use oncegate_store::admit::Admitted;
use oncegate_store::approval::NewApproval;
use oncegate_store::error::{OpenError, StoreError};
use oncegate_store::look::Found;
use oncegate_store::read::{EffectFilter, Reader};
use oncegate_store::{Store, StoreOptions};

use crate::plain::ping;
use crate::support::{HOUR, Memory, NOON, answered, caller, limit, matched, options, owner, with_key, word};

#[tokio::test]
async fn an_interrupted_dispatch_is_unknown_after_a_restart() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 1_000)], NOON).await.unwrap();
    let (permit, effect) = memory.granted(memory.refund("pi_1", 600), NOON).await;
    let claim = permit.spend();
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), []);
    drop(claim);
    let memory = memory.restarted(NOON.plus(HOUR));
    assert_eq!(word(&memory.view(&effect.id).await), ("pending", "pending", "unverified"));
    assert_eq!(memory.store.sweep(NOON.plus(HOUR)).await.unwrap(), std::slice::from_ref(&effect.id));
    assert_eq!(memory.store.sweep(NOON.plus(HOUR)).await.unwrap(), []);
    let view = memory.view(&effect.id).await;
    assert_eq!(word(&view), ("unknown", "unknown", "unverified"));
    assert_eq!(view.last_loss.unwrap().phase.word(), "interrupted");
    assert_eq!(memory.used("cap", NOON).await, (0, 600, 600, 400));
    // It is in the way as any unknown is.
    let said = memory.store.admit(memory.refund("pi_1", 500), NOON.plus(HOUR)).await.unwrap();
    assert!(matches!(said, Admitted::Refused(_)));
}

#[tokio::test]
async fn a_claim_that_is_dropped_is_swept_in_the_same_run() {
    let memory = Memory::new();
    let (permit, first) = memory.granted(memory.refund("pi_1", 600), NOON).await;
    let (kept, _) = memory.granted(memory.refund("pi_2", 600), NOON).await;
    drop(permit);
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), [first.id]);
    // A late mark leaves an attempt that is closed as well, and the effect as it was.
    let claim = kept.spend();
    let told = memory.store.mark_unknown(&claim, "no answer", NOON).await.unwrap();
    drop(claim);
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), []);
    let detail = memory.store.effect(&told.id).await.unwrap().unwrap();
    assert_eq!(detail.attempts[0].seen.as_deref(), Some("lost"));
}

/// As by a second sidecar that took the first one for ended.
#[tokio::test]
async fn p3_an_answer_counts_although_somebody_has_called_its_dispatch_interrupted() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 1_000)], NOON).await.unwrap();
    let (permit, effect) = memory.granted(memory.refund("pi_1", 600), NOON).await;
    let claim = permit.spend();
    memory.store.mark_unknown(&claim, "no answer", NOON).await.unwrap();
    let interrupted = "UPDATE attempt SET ended_at = started_at + 1, verdict = 'unknown', seen = 'lost',
        step = 'interrupted', cause = 'the process that sent it ended' WHERE ended_at IS NULL";
    assert_eq!(memory.shell().execute(interrupted, []).unwrap(), 1);
    memory.record(claim, &answered(200), NOON.plus(HOUR)).await;
    let detail = memory.store.effect(&effect.id).await.unwrap().unwrap();
    assert_eq!(word(&detail.view), ("succeeded", "acknowledged", "unverified"));
    assert_eq!(detail.attempts[0].seen.as_deref(), Some("lost"), "what stood of the attempt stands");
    let last = detail.evidence.last().unwrap();
    assert!(last.text.contains("late, 3600 s after") && last.text.contains("answered 200"), "{last:?}");
    assert_eq!(memory.used("cap", NOON).await, (600, 0, 0, 400));
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_no_dispatch_behind() {
    let memory = Memory::new();
    let store = memory.store.clone();
    let new = memory.refund("pi_1", 600);
    let effect = new.effect.clone();
    let asking = tokio::spawn(async move { store.admit(new, NOON).await.map(drop) });
    tokio::task::yield_now().await;
    asking.abort();
    drop(asking.await);
    // Either it was never queued, or its claim has no holder; the first sweep may still share its commit.
    memory.store.sweep(NOON).await.unwrap();
    let swept = memory.store.sweep(NOON).await.unwrap();
    match memory.store.effect(&effect).await.unwrap() {
        None => assert_eq!(swept, []),
        Some(detail) => assert_eq!(word(&detail.view).0, "unknown"),
    }
}

#[tokio::test]
async fn one_sidecar_per_database_and_readers_are_welcome() {
    let memory = Memory::new();
    memory.unknown(memory.refund("pi_1", 600), NOON).await;
    let second = Store::open(options(memory.path()), owner(77), NOON);
    let Err(locked @ OpenError::Locked { .. }) = second else { panic!("opened twice") };
    assert!(locked.to_string().contains("another oncegate already runs on"));
    let reader = Reader::open(&memory.path()).unwrap();
    assert_eq!(reader.list(EffectFilter { limit: 10, ..EffectFilter::default() }).await.unwrap().total, 1);

    let path = memory.path();
    let Memory { store, folder, .. } = memory;
    drop(store);
    // Nobody runs: the file is read all the same, and can be opened again.
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.list(EffectFilter { limit: 10, ..EffectFilter::default() }).await.unwrap().total, 1);
    Store::open(options(path), owner(78), NOON).unwrap();
    drop(folder);
}

#[tokio::test]
async fn the_files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let memory = Memory::new();
    memory.unknown(memory.refund("pi_1", 600), NOON).await;
    for file in std::fs::read_dir(memory.folder.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.file_name());
    }
}

#[tokio::test]
async fn files_that_are_not_ours_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("once.db");
    assert!(matches!(Reader::open(&path), Err(OpenError::NotADatabase { .. })));
    std::fs::write(&path, "hello, this is a text and no database at all").unwrap();
    assert!(Store::open(options(path.clone()), owner(1), NOON).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"hello, this is a text and no database at all");
    let missing = folder.path().join("no-such-folder/once.db");
    assert!(matches!(Store::open(options(missing), owner(1), NOON), Err(OpenError::File { .. })));

    let newer = folder.path().join("newer.db");
    drop(Store::open(options(newer.clone()), owner(1), NOON).unwrap());
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(
        Store::open(options(newer.clone()), owner(1), NOON),
        Err(OpenError::Newer { found: 99, .. })
    ));
    assert!(matches!(Reader::open(&newer), Err(OpenError::Newer { found: 99, .. })));
}

#[tokio::test]
async fn a_failing_job_does_not_undo_its_neighbours() {
    let memory = Memory::new();
    let mut asking = Vec::new();
    for number in 0..40 {
        let mut new = memory.refund(&format!("pi_{number}"), 100);
        if number % 4 == 1 {
            // The database refuses this one: an effect's id is there already.
            new.effect = oncegate_policy::id::EffectId::from_ulid(&crate::support::ulid(1));
            new.invocation = oncegate_policy::id::InvocationId::from_ulid(&crate::support::ulid(1));
        }
        let store = memory.store.clone();
        asking.push(tokio::spawn(async move { store.admit(new, NOON).await }));
    }
    let (mut granted, mut failed) = (0, 0);
    for asked in asking {
        match asked.await.unwrap() {
            Ok(Admitted::Granted { .. }) => granted += 1,
            Err(StoreError::Failed { .. }) => failed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((granted, failed), (30, 10));
    let dispatching = memory.count("effect WHERE stage = 'dispatching'");
    assert_eq!((memory.count("effect"), dispatching, memory.count("request")), (30, 30, 30));
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

/// It has written an effect when the database refuses the rest of it.
#[tokio::test]
async fn a_job_that_fails_half_way_leaves_nothing_and_its_neighbours_whole() {
    let memory = Memory::new();
    memory.store.sync_limits(vec![limit("cap", Period::Day, 10_000)], NOON).await.unwrap();
    memory
        .shell()
        .execute_batch(
            "CREATE TRIGGER no BEFORE INSERT ON request WHEN NEW.memory GLOB '*bad*' BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .unwrap();
    let mut asking = Vec::new();
    for number in 0..40 {
        let mut new = memory.refund(&format!("pi_{number}"), 100);
        if number % 4 == 1 {
            new.memory = r#"{"bad":true}"#.to_owned();
        }
        let store = memory.store.clone();
        asking.push(tokio::spawn(async move { store.admit(new, NOON).await }));
    }
    let (mut permits, mut failed) = (Vec::new(), 0);
    for asked in asking {
        match asked.await.unwrap() {
            Ok(Admitted::Granted { permit, .. }) => permits.push(permit),
            Err(StoreError::Failed { .. }) => failed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((permits.len(), failed), (30, 10));
    let dispatching = memory.count("effect WHERE stage = 'dispatching'");
    assert_eq!((memory.count("effect"), dispatching, memory.count("hold")), (30, 30, 30));
    assert_eq!(memory.used("cap", NOON).await, (0, 3_000, 0, 7_000));
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
    // Each of them was claimed once, and none twice: what is left of it is what somebody holds.
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), []);
    for permit in permits {
        memory.record(permit.spend(), &answered(200), NOON).await;
    }
    assert_eq!(memory.used("cap", NOON).await, (3_000, 0, 0, 7_000));
}

#[tokio::test]
async fn what_a_sweep_could_not_end_is_ended_by_the_next() {
    let memory = Memory::new();
    let (permit, effect) = memory.granted(memory.refund("pi_1", 600), NOON).await;
    drop(permit);
    let refusing = "CREATE TRIGGER no BEFORE INSERT ON attempt BEGIN SELECT RAISE(ABORT, 'no'); END";
    memory.shell().execute_batch(refusing).unwrap();
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), []);
    assert_eq!(word(&memory.view(&effect.id).await), ("pending", "pending", "unverified"));
    memory.shell().execute_batch("DROP TRIGGER no").unwrap();
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), [effect.id]);

    // The same for what an earlier run has left.
    let (permit, effect) = memory.granted(memory.refund("pi_2", 600), NOON).await;
    drop(permit);
    memory.shell().execute_batch(refusing).unwrap();
    let memory = memory.restarted(NOON.plus(HOUR));
    assert_eq!(memory.store.sweep(NOON.plus(HOUR)).await.unwrap(), []);
    memory.shell().execute_batch("DROP TRIGGER no").unwrap();
    assert_eq!(memory.store.sweep(NOON.plus(HOUR)).await.unwrap(), [effect.id]);
    assert_eq!(memory.store.sweep(NOON.plus(HOUR)).await.unwrap(), []);
}

/// One that cannot be ended keeps neither others nor effects from it.
#[tokio::test]
async fn an_invocation_that_cannot_be_ended_keeps_no_other_from_the_sweep() {
    let memory = Memory::new();
    let mut begun = Vec::new();
    for text in ["a", "b"] {
        let new = ping(&memory, text);
        begun.push(new.invocation.clone());
        drop(memory.store.begin_plain(new, NOON).await.unwrap());
    }
    let (permit, effect) = memory.granted(memory.refund("pi_1", 600), NOON).await;
    drop(permit);
    let refusing = format!(
        "CREATE TRIGGER no BEFORE UPDATE ON plain_invocation WHEN NEW.id = '{}' BEGIN SELECT RAISE(ABORT, 'no'); END",
        begun[0]
    );
    memory.shell().execute_batch(&refusing).unwrap();
    let stands = async || {
        let mut words = Vec::new();
        for id in &begun {
            words.push(memory.store.plain(id).await.unwrap().unwrap().status.word());
        }
        words
    };
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), [effect.id]);
    assert_eq!(stands().await, ["running", "unknown"]);
    memory.shell().execute_batch("DROP TRIGGER no").unwrap();
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), []);
    assert_eq!(stands().await, ["unknown", "unknown"]);
}

#[tokio::test]
async fn a_dispatch_under_way_is_an_open_attempt() {
    let memory = Memory::new();
    let (permit, effect) = memory.granted(memory.refund("pi_1", 600), NOON).await;
    let of = async || memory.store.effect(&effect.id).await.unwrap().unwrap().attempts;
    let open = of().await;
    let [dispatch] = open.as_slice() else { panic!("{open:?}") };
    assert_eq!((dispatch.started_at, dispatch.ended_at, &dispatch.seen), (NOON, None, &None));
    memory.record(permit.spend(), &answered(200), NOON.plus(HOUR)).await;
    let ended = of().await;
    let [same] = ended.as_slice() else { panic!("{ended:?}") };
    assert_eq!((&same.id, same.started_at, same.ended_at), (&dispatch.id, NOON, Some(NOON.plus(HOUR))));
}

#[tokio::test]
async fn a_full_queue_refuses_what_agents_ask_for_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("once.db");
    let store = Store::open(StoreOptions { queue_capacity: 0, ..options(path) }, owner(1), NOON).unwrap();
    let memory = Memory::new();
    assert!(matches!(store.admit(memory.refund("pi_1", 1), NOON).await, Err(StoreError::Overloaded)));
    let (id, ops) = (memory.refund("pi_1", 1).effect, caller("ops"));
    assert!(matches!(store.note(&id, &ops, "seen", NOON).await, Err(StoreError::Overloaded)));
    let question = NewApproval {
        caller: caller("agent"),
        title: "may I?".into(),
        description: None,
        payload: None,
        expires_at: NOON.plus(HOUR),
    };
    assert!(matches!(store.request_approval(question, NOON).await, Err(StoreError::Overloaded)));
    // What a look has found is evidence, whoever asked for it.
    for looker in [Looker::Caller("agent".into()), Looker::Schedule] {
        let found = store.apply_finding(&id, matched(), looker, NOON).await;
        assert!(matches!(found, Ok(Found::Missing)), "{found:?}");
    }
    store.sync_limits(vec![limit("cap", Period::Day, 1)], NOON).await.unwrap();
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let memory = Memory::new();
    let (permit, _) = memory.granted(with_key(memory.refund("pi_1", 600), "k1"), NOON).await;
    let settled = memory.record(permit.spend(), &answered(200), NOON).await;
    let before = memory.store.effect(&settled.id).await.unwrap().unwrap();
    let memory = memory.restarted(NOON);
    assert_eq!(memory.store.effect(&settled.id).await.unwrap().unwrap(), before);
    assert_eq!(memory.store.effect_of(&settled.invocation).await.unwrap().unwrap(), before);
}

#[tokio::test]
async fn the_log_is_folded_and_stays_small() {
    let memory = Memory::new();
    for number in 0..600 {
        let mut new = memory.refund(&format!("pi_{number}"), 1);
        new.request.body = vec![b'x'; 64 * 1024];
        memory.unknown(new, NOON).await;
    }
    let log = std::fs::metadata(memory.folder.path().join("once.db-wal")).unwrap().len();
    assert!(log < 40 * 1024 * 1024, "{log}");
}

/// SQLite throws the log away that stands beside a database which is missing or empty, and it may be all that is left of
/// what was sent.
#[tokio::test]
async fn a_log_without_its_database_is_kept_and_nothing_is_begun_beside_it() {
    let memory = Memory::new();
    let (_permit, effect) = memory.granted(memory.refund("pi_1", 600), NOON).await;
    let kept = tempfile::tempdir().unwrap();
    let (file, log) = (kept.path().join("once.db"), kept.path().join("once.db-wal"));
    std::fs::copy(memory.path(), kept.path().join("whole")).unwrap();
    std::fs::copy(memory.path().with_file_name("once.db-wal"), &log).unwrap();
    let bytes = std::fs::read(&log).unwrap();
    for emptied in [false, true] {
        if emptied {
            std::fs::write(&file, "").unwrap();
        }
        let opened = Store::open(options(file.clone()), owner(7), NOON).err();
        assert!(matches!(opened, Some(OpenError::LogAlone { .. })), "{opened:?}");
        let read = Reader::open(&file).err();
        assert!(matches!(read, Some(OpenError::LogAlone { .. })), "{read:?}");
        let examined = oncegate_store::examine::examine(&file);
        assert!(matches!(examined, Err(OpenError::LogAlone { .. })), "{examined:?}");
        assert_eq!(std::fs::read(&log).unwrap(), bytes);
    }
    std::fs::rename(kept.path().join("whole"), &file).unwrap();
    let store = Store::open(options(file.clone()), owner(7), NOON).unwrap();
    assert!(store.effect(&effect.id).await.unwrap().is_some());
}
