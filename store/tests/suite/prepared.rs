//! What was prepared and approved is what is sent: the database refuses anything else by itself.

use oncegate_store::ready::ReadyClaim;
use rusqlite::Connection;

use crate::law::{approve, park, parked};
use crate::support::{Memory, NOON};

#[track_caller]
fn refuses(shell: &Connection, statement: &str, because: &str) {
    let said = shell.execute_batch(statement).map_err(|error| error.to_string());
    assert!(said.as_ref().is_err_and(|said| said.contains(because)), "{statement}: {said:?}");
}

#[tokio::test]
async fn a_second_dispatch_is_none_by_its_key() {
    let memory = Memory::new();
    let (permit, view) = memory.granted(memory.refund("pi_1", 1), NOON).await;
    let (other, _) = memory.granted(memory.refund("pi_2", 1), NOON).await;
    memory.record(other.spend(), &crate::support::lost(), NOON).await;
    let shell = memory.shell();
    let attempt = |key: &str, effect: i64| {
        format!(
            "INSERT INTO attempt (key, effect, kind, run, started_at) VALUES ({key}, {effect}, 'dispatch', 1, {})",
            NOON.0
        )
    };
    // The one that it can have may be noted, once.
    let twice = format!("BEGIN; {}; {}", attempt("1 << 20", 1), attempt("1 << 20", 1));
    refuses(&shell, &twice, "UNIQUE constraint failed: attempt.key");
    shell.execute_batch("ROLLBACK").unwrap();
    for key in ["(1 << 20) + 1", "2 << 20", "3 << 20", "7"] {
        refuses(&shell, &attempt(key, 1), "CHECK constraint failed: effect = key >> 20");
    }
    drop(permit);
    assert_eq!(memory.view(&view.id).await.stage.word(), "dispatching");
}

#[tokio::test]
async fn what_waits_for_a_person_goes_on_with_a_yes() {
    let memory = Memory::new();
    let (view, approval) = park(&memory, parked(&memory, "pi_1", 1)).await;
    let shell = memory.shell();
    let because = "nor on without its approval";
    refuses(&shell, "UPDATE effect SET stage = 'ready', expires_at = NULL", because);
    refuses(&shell, "UPDATE effect SET approval = 'apr_other'", because);
    approve(&memory, &approval, NOON).await;
    refuses(&shell, "UPDATE effect SET approval = 'apr_other'", because);
    for change in [
        "subject = 'pi_2'",
        "listener = 'api'",
        "resource = NULL",
        "target = 'x'",
        "drill = 'x'",
        "unit = 'eur'",
        "dimension = 'x'",
        "bound = 'upper_bound'",
        "can_read_back = 0",
    ] {
        refuses(&shell, &format!("UPDATE effect SET {change}"), "what an effect is does not change");
    }
    assert!(matches!(memory.store.claim_ready(&view.id, NOON).await.unwrap(), ReadyClaim::Granted { .. }));
}

#[tokio::test]
async fn what_was_approved_is_not_altered() {
    let memory = Memory::new();
    let (view, approval) = park(&memory, parked(&memory, "pi_1", 1)).await;
    approve(&memory, &approval, NOON).await;
    let shell = memory.shell();
    for change in [
        "url = 'https://other'",
        "method = 'PUT'",
        "headers = '[]'",
        "memory = '{}'",
        "near = '[]'",
        "realm = 'x'",
        "body = x'00'",
        "headers = '[]', body = x''",
    ] {
        refuses(&shell, &format!("UPDATE request SET {change}"), "a prepared request does not change");
    }
    refuses(&shell, "DELETE FROM request", "a prepared request stays");
    // Somebody who takes the rule away first: it is not sent, and nothing else becomes of it.
    assert!(memory.store.prepared(&view.id).await.unwrap().is_some());
    shell.execute_batch("DROP TRIGGER request_fixed; UPDATE request SET body = x'01'").unwrap();
    let error = memory.store.prepared(&view.id).await.unwrap_err();
    let said = std::error::Error::source(&error).unwrap().to_string();
    assert!(said.contains("is not the one that was recorded") && error.concerns_one(), "{said}");
    assert_eq!(memory.view(&view.id).await.stage.word(), "ready");
}
