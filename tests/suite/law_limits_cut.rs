//! What was consumed stays counted, whatever fails half-way through a change of a limit; and a change that answers 500
//! was not made.

use std::{fs, io::Write, process::Stdio, thread};

use oncegate_tests::{
    conf::{Conf, stripe_conf},
    sidecar::Sidecar,
    wait::until,
};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{
    degraded::{mounts, under},
    law::{call, call_at, data},
    shop::{REFUND, Shop},
};

const DAILY: &str = r#"{"name":"daily","dimension":"money","currency":"usd","period":"day","amount":15000}"#;
/// Makes `managed/` unwritable, and writable again, when it is told to.
const CLOSABLE: &str = r#"
mkdir -m 700 managed && mount --bind managed managed || exit 97
exec 3<&0
( while read -r word <&3; do
    mount -o "remount,bind,$word" managed && echo "$word" >> told
done ) &
exec "$@" < /dev/null 3<&-
"#;

fn shop() -> Shop {
    Shop::open_with(|at| Conf::default().stripe_host(at).refund(""))
}

/// A limit of 15,000 of which 12,000 are consumed: its path.
fn consumed(shop: &Shop, sidecar: &Sidecar) -> String {
    let made = data(&call(sidecar, "ops", "POST", "/impact-limits", DAILY));
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
    assert_eq!(shop.writes(), 1);
    format!("/impact-limits/{}", made["id"].as_str().unwrap())
}

/// The one limit that counts is called so and has 12,000 consumed, and nothing goes past it.
#[track_caller]
fn still_counts(shop: &Shop, sidecar: &Sidecar, path: &str, name: &str) {
    let counting = data(&call(sidecar, "ops", "GET", "/impact-limits", ""));
    assert_eq!(counting.as_array().map(Vec::len), Some(1), "{counting}");
    let limit = &counting[0];
    let said = json!([limit["name"], limit["consumed"], limit["available"]]);
    assert_eq!(said, json!([name, 12_000, 3_000]));
    assert!(path.ends_with(limit["id"].as_str().unwrap()), "it is the same one: {limit}");
    let more = sidecar.billing().refund(None, "payment_intent=pi_2&amount=3001");
    more.assert_refused(403, "oncegate_limit_exceeded");
    assert_eq!(shop.writes(), 1);
}

fn managed(shop: &Shop) -> String {
    fs::read_to_string(shop.home.path("managed/limits.toml")).unwrap()
}

#[test]
fn p5_a_rename_that_is_cut_off_forgets_nothing() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let path = consumed(&shop, &sidecar);
    let hand = Connection::open(shop.home.path("oncegate.db")).unwrap();
    hand.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (control, limit) = (sidecar.control, path.clone());
    let asking = thread::spawn(move || {
        call_at(control, "ops", None, ("PATCH", &limit, r#"{"name":"refunds-per-day"}"#));
    });
    until("the file to say it", || Some(()).filter(|()| managed(&shop).contains("refunds-per-day")));
    sidecar.kill9();
    hand.execute_batch("ROLLBACK").unwrap();
    assert!(asking.join().is_err(), "nobody has answered");
    let sidecar = shop.home.serve();
    still_counts(&shop, &sidecar, &path, "refunds-per-day");
}

#[test]
fn p5_what_cannot_be_recorded_of_a_limit_is_not_changed() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let path = consumed(&shop, &sidecar);
    let (before, hand) = (managed(&shop), Connection::open(shop.home.path("oncegate.db")).unwrap());
    let refusing =
        "CREATE TRIGGER no_update BEFORE UPDATE ON impact_limit BEGIN SELECT RAISE(ABORT, 'no'); END;
        CREATE TRIGGER no_insert BEFORE INSERT ON impact_limit BEGIN SELECT RAISE(ABORT, 'no'); END";
    hand.execute_batch(refusing).unwrap();
    let more = DAILY.replace("daily", "more");
    for (method, path, body) in [
        ("PATCH", path.as_str(), r#"{"name":"refunds-per-day"}"#),
        ("PATCH", &path, r#"{"amount":90000}"#),
        ("DELETE", &path, ""),
        ("POST", "/impact-limits", more.as_str()),
    ] {
        let failed = call(&sidecar, "ops", method, path, body).json();
        let said = failed["error"]["message"].as_str().unwrap_or_default();
        assert!(said.ends_with("Nothing was changed."), "{method} {body}: {failed}");
        assert_eq!(managed(&shop), before, "{method} {body}");
    }
    hand.execute_batch("DROP TRIGGER no_update; DROP TRIGGER no_insert").unwrap();
    still_counts(&shop, &sidecar, &path, "daily");
    assert_eq!(sidecar.stop(), 0);
    still_counts(&shop, &shop.home.serve(), &path, "daily");
}

#[test]
fn p5_a_limit_that_cannot_be_taken_out_of_its_file_has_never_ceased_to_count() {
    // Where nothing can be mounted, the tests above are what there is.
    let Some(before) = mounts() else { return };
    let shop = shop();
    let mut command = under(&shop.home, &["serve"], before, CLOSABLE);
    command.stdin(Stdio::piped());
    let mut sidecar = shop.home.launch(command).unwrap_or_else(|done| panic!("{done:?}"));
    let mut teller = sidecar.stdin().expect("a pipe");
    let mut tell = |word: &str| {
        writeln!(teller, "{word}").unwrap();
        until("managed/ to be another", || {
            fs::read_to_string(shop.home.path("told"))
                .ok()
                .filter(|told| told.ends_with(&format!("{word}\n")))
        });
    };
    let path = consumed(&shop, &sidecar);
    tell("ro");
    for (method, body) in [("DELETE", ""), ("PATCH", r#"{"amount":90000}"#)] {
        let failed = call(&sidecar, "ops", method, &path, body);
        assert_eq!(failed.status, 500, "{failed:?}");
        still_counts(&shop, &sidecar, &path, "daily");
    }
    tell("rw");
    let archived = data(&call(&sidecar, "ops", "DELETE", &path, ""));
    assert!(archived["archivedAt"].is_string(), "{archived}");
}

#[test]
fn p5_a_limit_that_is_renamed_by_hand_is_the_same_one() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
    let limits = || -> Value { data(&call(&sidecar, "ops", "GET", "/impact-limits", "")) };
    let id = limits()[0]["id"].clone();
    shop.home.write(&stripe_conf(shop.provider.addr()).text().replace("refunds-per-day", "daily"));
    let renamed =
        until("the file to be taken", || Some(limits()).filter(|limits| limits[0]["name"] == "daily"));
    assert_eq!(renamed.as_array().map(Vec::len), Some(1), "{renamed}");
    assert_eq!(json!([renamed[0]["id"], renamed[0]["consumed"]]), json!([id, 12_000]));
}
