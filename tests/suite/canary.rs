//! The search for secrets, tried: a secret in each of its encodings, planted wherever one is looked for, is found
//! there, under its name. The texts are those of `cases/canary.toml`, which the search's own code did not write.

use std::{
    any::Any,
    collections::BTreeSet,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::Command,
};

use oncegate_tests::{
    canary::{Finder, below},
    conf::{Canary, PLANTED},
    encodings::ENCODINGS,
    sidecar::finish,
    wire::Wire,
};
use rusqlite::Connection;

use crate::{
    cases::{load, must, text},
    shop::Shop,
};

/// Every encoding by its name, and a text with the secret in it.
fn planted() -> Vec<(String, Vec<u8>)> {
    let cases = load("canary.toml");
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let spelled = |case| match text(case, "hex") {
        Some(hex) => bytes(hex),
        None => must(case, "text").as_bytes().to_vec(),
    };
    cases.iter().map(|case| (must(case, "encoding").to_owned(), spelled(case))).collect()
}

/// What a failed search said of a planted secret.
#[track_caller]
fn told(searched: Result<(), Box<dyn Any + Send>>, place: &str, encoding: &str) {
    let said = searched.expect_err(&format!("{encoding} is not found in {place}"));
    let said = said.downcast_ref::<String>().expect("a sentence");
    assert!(said.contains(place) && said.contains(&format!("PLANTED, as {encoding}, at byte ")), "{said}");
    assert!(!said.contains(PLANTED), "the secret is printed");
}

/// Which encodings were found in the file of this name.
fn found(dir: &Path, file: &str) -> BTreeSet<&'static str> {
    let (hits, _) = below(dir, &BTreeSet::new());
    let here = hits.into_iter().filter(|(path, _)| path.file_name().is_some_and(|name| name == file));
    here.map(|(_, hit)| hit.encoding).collect()
}

#[test]
fn every_encoding_is_in_the_cases_and_is_told_from_the_others() {
    let cases = planted();
    let names: Vec<&str> = cases.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ENCODINGS.map(|encoding| encoding.name));
    let secret = Canary { name: "PLANTED", value: PLANTED };
    let finder = Finder::of([&secret]);
    for (name, bytes) in &cases {
        let hits = finder.hits(bytes);
        let told: Vec<_> = hits.iter().map(|hit| (hit.name, hit.encoding)).collect();
        assert_eq!(told, [("PLANTED", name.as_str())]);
    }
    // One letter less, and there is nothing to find.
    let cut = [&PLANTED.as_bytes()[1..], b" and ", &PLANTED.as_bytes()[..PLANTED.len() - 1]].concat();
    assert_eq!(finder.hits(&cut), []);
}

/// The search looks at some bytes first: which, must not matter.
#[test]
fn a_secret_is_found_wherever_it_begins_and_alone() {
    let finder = Finder::of([&Canary { name: "PLANTED", value: PLANTED }]);
    for (encoding, bytes) in planted() {
        for before in 0..40 {
            for after in [0, 1, 7, 40] {
                let text = [&vec![b'.'; before], &*bytes, &vec![b'.'; after]].concat();
                assert_eq!(finder.hits(&text).len(), 1, "{encoding}, behind {before} and before {after}");
            }
        }
    }
}

/// Files are read in parts.
#[test]
fn a_secret_is_found_across_parts_and_once() {
    /// Gives so many bytes at a time.
    struct Parts<'a>(&'a [u8], usize);
    impl std::io::Read for Parts<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            let Self(left, many) = self;
            let many = (*many).min(to.len());
            left.read(&mut to[..many])
        }
    }
    let finder = Finder::of([&Canary { name: "PLANTED", value: PLANTED }]);
    for (encoding, bytes) in planted() {
        let text = [&[b'.'; 500][..], &bytes, &[b'.'; 500], &bytes].concat();
        let whole = finder.hits(&text);
        assert_eq!(whole.len(), 2, "{encoding}");
        for many in [1, 7, 100, 499, 501, 600, 70_000] {
            assert_eq!(finder.hits_read(Parts(&text, many)).unwrap(), whole, "{encoding}, {many} at a time");
        }
    }
}

#[test]
fn what_a_client_is_sent_and_what_a_command_prints() {
    let dir = tempfile::TempDir::new().unwrap();
    for (encoding, bytes) in planted() {
        // It comes in two reads, behind an answer that is not looked at any more.
        let long = vec![b'.'; 70_000];
        let (before, after) = bytes.split_at(bytes.len() / 2);
        let stream = std::io::Read::chain(std::io::Read::chain(&*long, before), after);
        let mut wire = Wire::new(stream);
        let read = catch_unwind(AssertUnwindSafe(|| {
            wire.skim(long.len() as u64 + before.len() as u64, |_| {});
            wire.rest();
        }));
        told(read, "what a client was sent", &encoding);

        let file = dir.path().join("printed");
        fs::write(&file, &bytes).unwrap();
        let mut command = Command::new("cat");
        command.arg(&file);
        let printed = catch_unwind(AssertUnwindSafe(|| drop(finish(command))));
        told(printed, "what a command printed", &encoding);
    }
}

#[test]
fn what_a_sidecar_leaves_behind() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let all: BTreeSet<&str> = ENCODINGS.iter().map(|encoding| encoding.name).collect();
    // In the write-ahead log of the database first; and nobody folds it in, because somebody reads.
    let db = Connection::open(shop.home.path("oncegate.db")).unwrap();
    let pages = |sql: &str| db.query_row(sql, (), |row| row.get::<_, i64>(1)).unwrap();
    db.execute_batch("create table planted (bytes blob)").unwrap();
    for (_, bytes) in planted() {
        db.execute("insert into planted values (?1)", [bytes]).unwrap();
    }
    assert_eq!(found(shop.home.dir(), "oncegate.db-wal"), all);
    assert!(pages("pragma wal_checkpoint(truncate)") == 0, "all is in the database now");
    assert_eq!(found(shop.home.dir(), "oncegate.db"), all);
    db.execute_batch("drop table planted; vacuum; pragma wal_checkpoint(truncate)").unwrap();
    drop(db);
    assert_eq!(found(shop.home.dir(), "oncegate.db"), BTreeSet::new());

    let managed = shop.home.path("managed/deeper");
    fs::create_dir_all(&managed).unwrap();
    let lines: Vec<u8> =
        planted().into_iter().flat_map(|(_, bytes)| [bytes, b"\n".to_vec()].concat()).collect();
    fs::write(managed.join("actions.toml"), &lines).unwrap();
    assert_eq!(found(shop.home.dir(), "actions.toml"), all);
    // In its own log, and found by the end of the sidecar itself.
    let log = shop.home.path("stderr-0.log");
    fs::write(&log, [fs::read(&log).unwrap(), lines].concat()).unwrap();
    shop.home.holds_secrets("managed/deeper/actions.toml", "planted above");
    let ended = catch_unwind(AssertUnwindSafe(|| drop(sidecar))).expect_err("it is found");
    let said = ended.downcast_ref::<String>().unwrap();
    for name in all {
        assert!(said.contains(&format!("stderr-0.log: PLANTED, as {name}, at byte ")), "{name}: {said}");
    }
    assert!(!said.contains("actions.toml") && !said.contains(PLANTED), "{said}");
}
