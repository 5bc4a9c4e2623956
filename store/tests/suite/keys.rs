//! Each key of a caller that was answered with an invocation names it for life: its own, the second of a request that
//! carried two, and those of its repeats.

use oncegate_policy::admission::CallerKey;
use oncegate_policy::identity::is_generated_key;
use oncegate_policy::refusal::Code;
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::list::EffectFilter;
use oncegate_store::plain::{Begun, NewPlain};

use crate::plain::{ended, ping};
use crate::support::{DAY, Memory, NOON, answered, caller, lost, with_key};

const LIBRARYS: [&str; 3] = [
    "0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c40",
    "7d0f6a52-91c1-4f0c-8f1e-2f6f7f0a9e11",
    "11111111-91c1-4f0c-8f1e-2f6f7f0a9e22",
];

/// Long after `identical_within`.
fn later() -> Timestamp {
    NOON.plus(2 * DAY)
}

/// The second key is an `operationKey`: chosen, whatever it looks like.
fn with_both(new: NewEffect, field: &str, operation: &str) -> NewEffect {
    let mut new = with_key(new, field);
    new.asked.second_key = Some(CallerKey { text: operation.into(), generated: false });
    new
}

/// What became of it: the number of the effect that it repeats, or the code of the refusal.
async fn becomes(memory: &Memory, new: NewEffect, at: Timestamp) -> Result<String, Option<Code>> {
    match memory.store.admit(new, at).await.unwrap() {
        Admitted::Repeat(view) => Ok(view.id.to_string()),
        Admitted::Refused(refusal) => Err(Some(refusal.code)),
        Admitted::Granted { .. } | Admitted::Parked(_) => Err(None),
    }
}

async fn succeeded(memory: &Memory, new: NewEffect) -> String {
    let (permit, effect) = memory.granted(new, NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
    effect.id.to_string()
}

#[tokio::test]
async fn a_key_that_came_with_a_repeat_names_what_it_was_answered_with() {
    let memory = Memory::new();
    let first = succeeded(&memory, with_key(memory.refund("pi_1", 600), LIBRARYS[0])).await;
    assert_eq!(memory.count("further_key"), 0, "its own key stands in its own row");
    let again = |key: &str| with_key(memory.refund("pi_1", 600), key);
    assert_eq!(becomes(&memory, again(LIBRARYS[0]), NOON).await, Ok(first.clone()));
    assert_eq!(becomes(&memory, memory.refund("pi_1", 600), NOON).await, Ok(first.clone()));
    assert_eq!(memory.count("further_key"), 0, "no key that was new");
    let events = memory.count("event");
    assert_eq!(becomes(&memory, again(LIBRARYS[1]), NOON).await, Ok(first.clone()));
    assert_eq!((memory.count("further_key"), memory.count("event")), (1, events));
    for key in [LIBRARYS[0], LIBRARYS[1]] {
        assert_eq!(becomes(&memory, again(key), later()).await, Ok(first.clone()), "{key}");
        let other = with_key(memory.refund("pi_1", 700), key);
        assert_eq!(becomes(&memory, other, later()).await, Err(Some(Code::KeyReuse)), "{key}");
    }
    assert_eq!(memory.count("further_key"), 1);
    // Of this caller alone, and what nobody has asked under names nothing.
    let theirs = NewEffect { caller: caller("other"), ..with_key(memory.refund("pi_9", 1), LIBRARYS[1]) };
    assert_eq!(becomes(&memory, theirs, later()).await, Err(None));
    assert_eq!(becomes(&memory, again(LIBRARYS[2]), later()).await, Err(None));
    // Whoever it is that repeats.
    let mut shared = NewEffect { caller: caller("other"), ..again("theirs") };
    shared.asked.caller_key = Some(CallerKey { text: "theirs".into(), generated: true });
    let Ok(newest) = becomes(&memory, shared.clone(), later()).await else { panic!("no repeat") };
    assert_ne!(newest, first);
    assert_eq!(becomes(&memory, shared, later().plus(2 * DAY)).await, Ok(newest));
}

#[tokio::test]
async fn what_joined_a_write_that_then_failed_is_a_repeat_of_it() {
    let memory = Memory::new();
    let (permit, first) = memory.granted(with_key(memory.refund("pi_1", 600), LIBRARYS[0]), NOON).await;
    let again = |key: &str| with_key(memory.refund("pi_1", 600), key);
    assert_eq!(becomes(&memory, again(LIBRARYS[1]), NOON).await, Ok(first.id.to_string()));
    memory.record(permit.spend(), &answered(429), NOON).await;
    for key in [LIBRARYS[0], LIBRARYS[1]] {
        assert_eq!(becomes(&memory, again(key), NOON).await, Ok(first.id.to_string()), "{key}");
    }
    assert_eq!(becomes(&memory, again(LIBRARYS[2]), NOON).await, Err(None), "a new try");
}

#[tokio::test]
async fn a_key_beside_a_declared_one_names_what_that_one_found() {
    let memory = Memory::new();
    let declared = |amount: i64, key: &str, order: &str| {
        let mut new = with_key(memory.refund("pi_1", amount), key);
        new.asked.declared_key = Some(format!("refund:{order}"));
        new
    };
    let first = succeeded(&memory, declared(600, "y", "1")).await;
    assert_eq!(becomes(&memory, declared(600, "z", "1"), NOON).await, Ok(first.clone()));
    assert_eq!(becomes(&memory, declared(700, "z", "2"), later()).await, Err(Some(Code::KeyReuse)));
    assert_eq!(becomes(&memory, declared(600, "z", "1"), later()).await, Ok(first));
}

#[tokio::test]
async fn a_match_on_either_of_two_keys_is_a_match_and_both_are_bound() {
    let memory = Memory::new();
    let of = |amount: i64| memory.refund("pi_1", amount);
    let first = succeeded(&memory, with_both(of(500), "refund:42", "op-1")).await;
    assert_eq!(memory.count("further_key"), 1);
    let shown = memory.store.list(EffectFilter { limit: 1, ..Default::default() }).await.unwrap();
    let shown = &shown.effects[0];
    let keys = (shown.caller_key.as_deref(), shown.second_key.as_deref());
    assert_eq!(keys, (Some("refund:42"), Some("op-1")));
    for new in [
        with_both(of(500), "refund:42", "op-1"),
        with_key(of(500), "refund:42"),
        with_key(of(500), "op-1"),
        with_both(of(500), "refund:42", "op-2"),
        with_both(of(500), LIBRARYS[0], "op-1"),
    ] {
        let keys = format!("{:?} {:?}", new.asked.caller_key, new.asked.second_key);
        assert_eq!(becomes(&memory, new, later()).await, Ok(first.clone()), "{keys}");
    }
    // Each of them is bound by now.
    for key in ["refund:42", "op-1", "op-2", LIBRARYS[0]] {
        assert_eq!(becomes(&memory, with_key(of(500), key), later()).await, Ok(first.clone()), "{key}");
        for new in [with_key(of(700), key), with_both(of(700), key, "n"), with_both(of(700), "n", key)] {
            assert_eq!(becomes(&memory, new, later()).await, Err(Some(Code::KeyReuse)), "{key}");
        }
        let filter = EffectFilter { limit: 9, key: Some(key.into()), ..Default::default() };
        let found = memory.store.list(filter).await.unwrap();
        assert_eq!(
            found.effects.iter().map(|view| view.id.to_string()).collect::<Vec<_>>(),
            std::slice::from_ref(&first)
        );
    }
    // A key of each of two operations names neither.
    let other = succeeded(&memory, with_key(of(500), "refund:43")).await;
    assert_ne!(first, other);
    let bound = memory.count("further_key");
    for new in [with_both(of(500), "refund:43", "op-1"), with_both(of(500), "op-1", "refund:43")] {
        assert_eq!(becomes(&memory, new, later()).await, Err(Some(Code::Ambiguous)));
    }
    assert_eq!((memory.count("further_key"), memory.count("effect")), (bound, 2));
}

/// Somebody named the operation: that a library filled the field beside it says nothing of the content.
#[tokio::test]
async fn a_librarys_key_beside_a_chosen_one_does_not_make_content_count() {
    let memory = Memory::new();
    let of = |field: &str, operation: &str| with_both(memory.refund("pi_1", 500), field, operation);
    let first = succeeded(&memory, of(LIBRARYS[0], "op-1")).await;
    let second = succeeded(&memory, of(LIBRARYS[1], "op-2")).await;
    assert_ne!(first, second);
    assert_eq!(becomes(&memory, of(LIBRARYS[2], "op-1"), NOON).await, Ok(first.clone()));
    assert_eq!(becomes(&memory, with_key(memory.refund("pi_1", 500), LIBRARYS[2]), later()).await, Ok(first));
}

/// As a caller's key in the row itself.
#[tokio::test]
async fn what_a_further_key_names_is_not_pruned_away() {
    let memory = Memory::new();
    let first = succeeded(&memory, memory.refund("pi_1", 600)).await;
    succeeded(&memory, memory.refund("pi_2", 600)).await;
    let again = |amount: i64| with_key(memory.refund("pi_1", amount), LIBRARYS[0]);
    assert_eq!(becomes(&memory, again(600), NOON).await, Ok(first.clone()));
    let year_on = NOON.plus(400 * DAY);
    let pruned = memory.store.prune(Some(year_on), year_on).await.unwrap();
    assert_eq!((pruned.shortened, pruned.removed), (1, 1));
    assert_eq!(becomes(&memory, again(600), year_on).await, Ok(first));
    assert_eq!(becomes(&memory, again(700), year_on).await, Err(Some(Code::KeyReuse)));
}

#[tokio::test]
async fn an_invocation_without_an_effect_has_both_its_keys() {
    let memory = Memory::new();
    let of = |text: &str, field: &str, operation: Option<&str>| NewPlain {
        caller_key: Some(field.into()),
        second_key: operation.map(str::to_owned),
        ..ping(&memory, text)
    };
    let first = ended(&memory, of("a", LIBRARYS[0], Some("op-1")), &answered(200), NOON).await.id;
    let becomes = async |new: NewPlain| match memory.store.begin_plain(new, NOON).await.unwrap() {
        Begun::Repeat(view) => Ok(view.id),
        Begun::Refused(refusal) => Err(Some(refusal.code)),
        Begun::Fresh { .. } => Err(None),
    };
    assert_eq!(becomes(of("a", LIBRARYS[1], Some("op-1"))).await, Ok(first.clone()));
    for key in [LIBRARYS[0], LIBRARYS[1], "op-1"] {
        assert_eq!(becomes(of("a", key, None)).await, Ok(first.clone()), "{key}");
        assert_eq!(becomes(of("b", key, None)).await, Err(Some(Code::KeyReuse)), "{key}");
        assert_eq!(becomes(of("b", "new", Some(key))).await, Err(Some(Code::KeyReuse)), "{key}");
    }
    let other = ended(&memory, of("a", "op-2", None), &answered(200), NOON).await.id;
    assert_ne!(first, other);
    assert_eq!(becomes(of("a", "op-1", Some("op-2"))).await, Err(Some(Code::Ambiguous)));
    assert_eq!(memory.count("further_key"), 2);
    let year_on = NOON.plus(400 * DAY);
    ended(&memory, of("c", "own", None), &answered(200), NOON).await;
    memory.store.prune(Some(year_on), year_on).await.unwrap();
    assert_eq!(becomes(of("a", "op-1", None)).await, Ok(first));
}

/// That the action is governed, or is not any more, frees no key.
#[tokio::test]
async fn a_further_key_stays_with_its_kind_of_invocation() {
    let memory = Memory::new();
    let ping_under = |key: &str| NewPlain { caller_key: Some(key.into()), ..ping(&memory, "a") };
    let governed = |key: &str| {
        let mut new = with_key(memory.refund("pi_1", 500), key);
        new.action = ping(&memory, "a").action;
        new
    };
    let mut both = governed("g");
    both.asked.second_key = Some(CallerKey { text: "g-op".into(), generated: false });
    let (permit, _) = memory.granted(both, NOON).await;
    memory.record(permit.spend(), &lost(), NOON).await;
    let plain = NewPlain { second_key: Some("p-op".into()), ..ping_under("p") };
    ended(&memory, plain, &answered(200), NOON).await;
    for key in ["g", "g-op"] {
        let said = memory.store.begin_plain(ping_under(key), NOON).await.unwrap();
        assert!(matches!(&said, Begun::Refused(no) if no.code == Code::KeyReuse), "{said:?}");
    }
    for key in ["p", "p-op"] {
        assert_eq!(becomes(&memory, governed(key), NOON).await, Err(Some(Code::KeyReuse)), "{key}");
    }
}

/// The database refuses by itself, tried with raw SQL.
#[tokio::test]
async fn the_database_keeps_a_key_with_what_it_names() {
    let memory = Memory::new();
    succeeded(&memory, with_both(memory.refund("pi_1", 500), "own", "op")).await;
    succeeded(&memory, memory.refund("pi_2", 500)).await;
    let plain = NewPlain { caller_key: Some("p".into()), ..ping(&memory, "a") };
    ended(&memory, plain, &answered(200), NOON).await;
    assert!(is_generated_key(LIBRARYS[0]));
    let shell = memory.shell();
    let insert = |caller: &str, action: &str, key: &str, effect: &str, plain: &str| {
        format!("INSERT INTO further_key VALUES ('{caller}', '{action}', '{key}', {effect}, {plain}, 0)")
    };
    for statement in [
        "UPDATE further_key SET effect = 2".to_owned(),
        "UPDATE further_key SET key = 'x'".to_owned(),
        "DELETE FROM further_key".to_owned(),
        // It names something else already, or what it is to name is not there, or of another action.
        insert("agent", "refund", "op", "2", "NULL"),
        insert("agent", "refund", "own", "2", "NULL"),
        insert("agent", "ping", "p", "NULL", "1"),
        insert("agent", "refund", "x", "99", "NULL"),
        insert("agent", "ping", "x", "1", "NULL"),
        insert("agent", "ping", "x", "NULL", "99"),
        insert("other", "ping", "x", "NULL", "1"),
        insert("agent", "refund", "x", "1", "1"),
        insert("agent", "refund", "x", "NULL", "NULL"),
        // What it names stays, and nothing else takes it for its own.
        "UPDATE effect SET pruned_at = 1 WHERE key = 1; DELETE FROM effect WHERE key = 1".to_owned(),
        "INSERT INTO effect (id, invocation, caller, action, listener, fingerprint, caller_key, provider_key, can_read_back,
             target, request_digest, created_at, stage, claimed_at, run)
         SELECT 'eff_x', 'inv_x', caller, action, listener, zeroblob(32), 'op', 'p', 0, target, request_digest, 0,
             'dispatching', 0, 1 FROM effect WHERE key = 1"
            .to_owned(),
        "INSERT INTO plain_invocation (id, caller, action, listener, fingerprint, caller_key, target, created_at, status, run)
         VALUES ('inv_y', 'agent', 'refund', 'api', zeroblob(32), 'op', 'POST x', 0, 'running', 1)"
            .to_owned(),
    ] {
        let said = shell.execute_batch(&format!("BEGIN; {statement}; COMMIT"));
        assert!(said.is_err(), "the database allowed: {statement}");
        shell.execute_batch("ROLLBACK").unwrap();
    }
    shell.execute_batch(&insert("other", "refund", "x", "2", "NULL")).unwrap();
}
