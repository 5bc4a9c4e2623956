//! A database of an earlier version keeps what it holds.

use oncegate_policy::admission::CallerKey;
use oncegate_policy::id::{EffectId, InvocationId};
use oncegate_policy::limit::Period;
use oncegate_policy::reconcile::Looker;
use oncegate_store::Store;
use oncegate_store::admit::Admitted;
use oncegate_store::look::Found;
use oncegate_store::read::Reader;
use rusqlite::Connection;

use crate::support::{DAY, Memory, NOON, limit, matched, options, owner, ulid, with_key, word};

/// A dump of a database that version 1 wrote: one effect that succeeded under the key `refund:1`, one unknown, one
/// failed, one waiting for approval, one whose process ended.
const VERSION_1: &str = include_str!("../cases/0001.sql");

fn version_1() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let shell = Connection::open(folder.path().join("once.db")).unwrap();
    shell.execute_batch(VERSION_1).unwrap();
    shell.pragma_update(None, "user_version", 1).unwrap();
    shell.pragma_update(None, "application_id", 0x6f6e_6365).unwrap();
    folder
}

/// A dispatch that version 1 had under way has a row, with an id of its own, and keeps it.
#[tokio::test]
async fn version_1_keeps_the_id_of_an_attempt_that_is_open() {
    let folder = version_1();
    let path = folder.path().join("once.db");
    let own = "att_01ARZ3NDEKTSV4RR0000000099";
    Connection::open(&path)
        .unwrap()
        .execute_batch(&format!(
            "DROP TRIGGER attempt_ends_once; UPDATE attempt SET id = '{own}' WHERE key = 4;
             CREATE TRIGGER attempt_ends_once BEFORE UPDATE ON attempt WHEN OLD.ended_at IS NOT NULL
             BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END"
        ))
        .unwrap();
    let store = Store::open(options(path), owner(9), NOON).unwrap();
    let memory = Memory { store, folder, ids: std::cell::Cell::new(100) };
    let shown = async |effect| {
        let attempts = memory.store.effect(effect).await.unwrap().unwrap().attempts;
        attempts.iter().map(|attempt| (attempt.id.to_string(), attempt.ended_at)).collect::<Vec<_>>()
    };
    let all = oncegate_store::EffectFilter { limit: 10, ..Default::default() };
    let dispatching = memory.store.list(all).await.unwrap().effects[0].id.clone();
    assert_eq!(shown(&dispatching).await, [(own.to_owned(), None)]);
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), std::slice::from_ref(&dispatching));
    assert_eq!(shown(&dispatching).await, [(own.to_owned(), Some(NOON))]);
}

#[tokio::test]
async fn version_1_keeps_its_effects_and_its_chain() {
    let folder = version_1();
    let path = folder.path().join("once.db");
    assert!(Reader::open(&path).is_err(), "a reader does not upgrade");
    // Its chain is checked as it is: so a backup of before an upgrade is known to be whole.
    let chain = Reader::open_chain(&path).unwrap().verify_chain().await.unwrap();
    assert!(chain.fault.is_none() && chain.rows > 0, "{chain:?}");
    let store = Store::open(options(path.clone()), owner(9), NOON).unwrap();
    let log = std::fs::metadata(folder.path().join("once.db-wal")).unwrap().len();
    assert!(log < 32 * 1_024, "what was rebuilt is folded: {log}");
    let memory = Memory { store, folder, ids: std::cell::Cell::new(100) };
    let checked = memory.store.verify_chain().await.unwrap();
    assert_eq!((checked.rows, checked.fault), (9, None));

    let page =
        memory.store.list(oncegate_store::EffectFilter { limit: 10, ..Default::default() }).await.unwrap();
    let stages: Vec<_> =
        page.effects.iter().rev().map(|view| (view.stage.word(), view.preview.clone())).collect();
    let expected = ["settled", "reconciling", "settled", "awaiting_approval", "dispatching"];
    assert_eq!(stages, expected.map(|stage| (stage, None)));
    assert!(page.effects.iter().all(|view| view.credential.is_none()), "nobody wrote it down then");
    assert_eq!(memory.used("cap", NOON).await, (600, 1_700, 700, 97_700));
    assert_eq!(
        memory.store.sync_limits(vec![limit("cap", Period::Day, 100_000)], NOON).await.unwrap(),
        [""; 0]
    );

    // And goes on from there.
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), [page.effects[0].id.clone()]);
    let unknown = &page.effects[3].id;
    let found = memory.store.apply_finding(unknown, matched(), Looker::Schedule, NOON).await.unwrap();
    assert!(matches!(&found, Found::Settled(view) if word(view).0 == "succeeded"), "{found:?}");
    assert_eq!(memory.used("cap", NOON).await, (1_300, 1_000, 1_000, 97_700));
    memory.ids.set(0);
    let repeat = with_key(memory.refund("pi_1", 600), "refund:1");
    let repeat = memory.store.admit(repeat, NOON.plus(DAY)).await.unwrap();
    assert!(matches!(repeat, Admitted::Repeat(_)), "{repeat:?}");
    // A key that comes with a repeat from now on is bound to what version 1 wrote.
    let mut joining = with_key(memory.refund("pi_1", 600), "refund:1");
    joining.asked.second_key = Some(CallerKey { text: "op-1".into(), generated: false });
    for new in [joining, with_key(memory.refund("pi_1", 600), "op-1")] {
        let repeat = memory.store.admit(new, NOON.plus(2 * DAY)).await.unwrap();
        assert!(matches!(&repeat, Admitted::Repeat(view) if view.id == page.effects[4].id), "{repeat:?}");
    }
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
    drop(memory.store);
    assert!(Reader::open(&path).is_ok());
}

/// A hold has no end of its own any more: it follows from its effect's, but for what a person has said. An invocation that
/// is not called as its effect is found all the same.
#[tokio::test]
async fn version_1_keeps_how_holds_ended_and_what_invocations_are_called() {
    let folder = version_1();
    let path = folder.path().join("once.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "DROP TRIGGER hold_ends_once; DROP TRIGGER hold_ends_with_its_effect; DROP TRIGGER effect_identity;
             DROP TRIGGER effect_ended;
             UPDATE effect SET verification = 'manual' WHERE key = 3;
             UPDATE hold SET state = 'consumed', consumed = 40 WHERE effect = 3;
             UPDATE effect SET invocation = 'inv_01ARZ3NDEKTSV4RR0000000077' WHERE key = 2;
             CREATE TRIGGER effect_identity BEFORE UPDATE ON effect BEGIN SELECT 1; END;
             CREATE TRIGGER effect_ended BEFORE UPDATE ON effect BEGIN SELECT 1; END",
        )
        .unwrap();
    let store = Store::open(options(path), owner(9), NOON).unwrap();
    for (number, stands) in [
        (1, Some((600, "consumed", Some(600), Some(NOON)))),
        (2, Some((700, "held", None, None))),
        (3, Some((800, "consumed", Some(40), Some(NOON)))),
        (4, None),
        (5, Some((1_000, "held", None, None))),
    ] {
        let invocation = if number == 2 { 77 } else { number };
        let detail = store.effect_of(&InvocationId::from_ulid(&ulid(invocation))).await.unwrap().unwrap();
        assert_eq!(detail.view.id, EffectId::from_ulid(&ulid(number)));
        let holds: Vec<_> = detail
            .reservations
            .iter()
            .map(|hold| (hold.amount, hold.state.as_str(), hold.consumed, hold.ended_at))
            .collect();
        assert_eq!(holds, Vec::from_iter(stands), "effect {number}");
    }
    let gone = InvocationId::from_ulid(&ulid(2));
    assert!(store.effect_of(&gone).await.unwrap().is_none());
}

#[test]
fn an_upgraded_database_is_as_a_new_one() {
    let schema = |folder: &tempfile::TempDir| {
        drop(Store::open(options(folder.path().join("once.db")), owner(9), NOON).unwrap());
        let shell = Connection::open(folder.path().join("once.db")).unwrap();
        let mut statement =
            shell.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").unwrap();
        let rows = statement.query_map([], |row| {
            let sql: Option<String> = row.get(2)?;
            let words = |sql: String| sql.split_whitespace().collect::<Vec<_>>().join(" ");
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, sql.map(words)))
        });
        rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    assert_eq!(schema(&version_1()), schema(&tempfile::tempdir().unwrap()));
}
