//! A database that is moved or removed under a running sidecar: what it would go on writing, nobody would find after a
//! restart. So nothing is admitted, and it is said.

use std::fs;

use oncegate_tests::{agent::Ask, binary::Build, sidecar::finish, wait::until};

use crate::{
    degraded::ready,
    shop::{REFUND, Shop},
};

const SENTENCE: &str = "was moved or removed";
const NONE: &str = "there was no database at";

#[test]
fn nothing_is_sent_on_the_word_of_a_file_that_nobody_will_find() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let agent = sidecar.billing();
    assert!(sidecar.log().contains(NONE), "{}", sidecar.log());
    assert_eq!(agent.refund(None, REFUND).status, 200);
    let (db, log, away) =
        (shop.home.path("oncegate.db"), shop.home.path("oncegate.db-wal"), shop.home.path("away"));
    for (file, made_anew) in [(&db, false), (&log, false), (&db, true)] {
        fs::rename(file, &away).unwrap();
        if made_anew {
            fs::write(file, "").unwrap();
        }
        agent
            .refund(None, "payment_intent=pi_2&amount=200")
            .assert_refused(403, "oncegate_store_unavailable");
        assert_eq!(agent.ask("api.stripe.com", &Ask::get("/v1/payment_intents/pi_1")).status, 200);
        let told = ready(&shop.home, &sidecar);
        assert!(told.code == 1 && told.err.contains(SENTENCE), "{told:?}");
        // Put back, it is the same file.
        fs::rename(&away, file).unwrap();
        until("it to be ready again", || Some(()).filter(|()| ready(&shop.home, &sidecar).code == 0));
    }
    assert!(sidecar.log().contains(SENTENCE), "{}", sidecar.log());
    assert_eq!((agent.refund(None, "payment_intent=pi_2&amount=200").status, shop.writes()), (200, 2));
    sidecar.stop();
    let again = shop.home.serve();
    assert!(!again.log().contains(NONE), "{}", again.log());
    assert_eq!(shop.home.effects().len(), 2);
    again.stop();
    // What a copy leaves that had no room is no record either.
    fs::write(shop.home.path("oncegate.db"), "").unwrap();
    let checked = shop.home.run(&["check"]);
    assert!(checked.code == 0 && checked.out.contains("warning: "), "{checked:?}");
    assert!(checked.out.contains("oncegate.db has nothing in it"), "{checked:?}");
    let emptied = shop.home.serve();
    assert!(emptied.log().contains("a file with nothing in it"), "{}", emptied.log());
    emptied.stop();
    let checked = finish(shop.home.command(Build::Plain, &["check"]));
    assert_eq!(checked.code, 0, "{checked:?}");
}

/// After a power cut the record stands in the log, and in a young sidecar nowhere else. SQLite removes the log of a file with
/// nothing in it, and begins a new one beside a new file.
#[test]
fn a_log_that_has_lost_its_database_is_left_alone() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
    sidecar.kill9();
    let (db, log, away) =
        (shop.home.path("oncegate.db"), shop.home.path("oncegate.db-wal"), shop.home.path("away"));
    fs::copy(&db, shop.home.path("copied")).unwrap();
    let logged = fs::read(&log).unwrap();
    let refused = |words: &str| {
        for told in [
            shop.home.run(&["check"]),
            shop.home.try_serve(Build::Plain, &[]).err().expect("it does not serve"),
        ] {
            assert_eq!(told.code, 2, "{told:?}");
            assert!(told.out.contains(words) || told.err.contains(words), "{told:?}");
        }
    };
    fs::rename(&db, &away).unwrap();
    refused("put that back, or restore a backup");
    assert!(!db.exists());
    fs::write(&db, "").unwrap();
    refused("put that back, or restore a backup");
    assert_eq!(shop.home.run_on_db(&["effects"]).code, 2);
    assert!(fs::read(&log).unwrap() == logged, "the log was changed");
    fs::rename(&away, &db).unwrap();
    let again = shop.home.serve();
    assert_eq!(shop.home.effects().len(), 1);
    again.stop();
    // A copy of the file alone, made while all stood in the log, is what a first start leaves that was killed at once: it is
    // begun in, and that is said.
    fs::copy(shop.home.path("copied"), &db).unwrap();
    let checked = shop.home.run(&["check"]);
    assert!(checked.code == 0 && checked.out.contains("has nothing in it"), "{checked:?}");
    assert!(fs::read(&db).unwrap() == fs::read(shop.home.path("copied")).unwrap(), "the file was changed");
    let begun = shop.home.serve();
    assert!(begun.log().contains("a file with nothing in it"), "{}", begun.log());
    begun.stop();
    assert_eq!(shop.writes(), 1);
}

/// `check` says what `serve` would end on.
#[test]
fn what_a_start_would_end_on_is_said_before() {
    let shop = Shop::open();
    let check = || shop.home.run(&["check"]);
    assert_eq!(check().code, 0);
    let text = fs::read_to_string(shop.home.config()).unwrap();
    let with = |command: &str| {
        let secret = format!(
            "[secrets.OWN]\nfrom = {{ command = [\"{command}\"] }}\nallowed_hosts = [\"api.stripe.com\"]\n"
        );
        shop.home.write(&format!("{text}\n{secret}"));
        check()
    };
    fs::write(shop.home.path("plain.sh"), "#!/bin/sh\n").unwrap();
    for (command, is_there) in [("sh", true), ("/bin/sh", true), ("./plain.sh", false), ("./none.sh", false)]
    {
        let told = with(command);
        let doubted = told.out.contains(&format!("warning: secret OWN: there is no program `{command}`"));
        assert_eq!((told.code, doubted), (0, !is_there), "{command}: {told:?}");
    }
    shop.home.write(&text.replace("path = \"oncegate.db\"", "path = \"nowhere/oncegate.db\""));
    let told = check();
    assert!(told.code == 2 && told.out.contains("cannot be written"), "{told:?}");
    assert_eq!(shop.home.try_serve(Build::Plain, &[]).err().map(|done| done.code), Some(2));
    assert!(
        fs::read_dir(shop.home.dir())
            .unwrap()
            .all(|file| { !file.unwrap().file_name().to_string_lossy().starts_with(".oncegate-check-") })
    );
}
