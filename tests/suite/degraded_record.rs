//! A record that is damaged, cut off, of a newer version, or on a disk that cannot be written: what is wrong is said,
//! nothing is sent, the file is left as it is, and with the good one all goes on.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use oncegate_tests::{
    agent::Ask,
    binary::Build,
    sidecar::{Done, finish},
};
use rusqlite::Connection;
use rustix::process::geteuid;

use crate::{
    degraded::{mounts, ready, under},
    law::lost,
    shop::{REFUND, Shop},
};

/// A shop that has ended in order with one refund unknown: its database is one file.
struct Closed {
    shop: Shop,
    db: PathBuf,
    good: Vec<u8>,
    effect: String,
}

fn closed() -> Closed {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    assert_eq!(sidecar.stop(), 0);
    let db = shop.home.path("oncegate.db");
    let good = fs::read(&db).unwrap();
    Closed { shop, db, good, effect }
}

impl Closed {
    /// With the good file back, the unknown refund is there, is found, and was made once.
    #[track_caller]
    fn goes_on(&self) {
        fs::write(&self.db, &self.good).unwrap();
        assert_eq!(self.shop.home.run(&["check"]).code, 0);
        let sidecar = self.shop.home.serve();
        assert_eq!(sidecar.reconcile(&self.shop.home, "ops", &self.effect).code, 0);
        assert_eq!((self.shop.writes(), self.shop.home.money()), (1, (12_000, 0, 0)));
    }
}

/// Where the pages of a table begin.
fn root_page(db: &Path, table: &str) -> usize {
    let sql = "select rootpage from sqlite_schema where name = ?1";
    let page: i64 = Connection::open(db).unwrap().query_row(sql, [table], |row| row.get(0)).unwrap();
    usize::try_from(page - 1).unwrap() * 4096
}

#[track_caller]
fn says(done: &Done, code: i32, words: &[&str]) {
    assert_eq!(done.code, code, "{done:?}");
    for word in words {
        assert!(done.out.contains(word) || done.err.contains(word), "{word:?} is not in {done:?}");
    }
}

#[test]
fn a_file_that_cannot_be_used_is_said_and_left_alone() {
    let closed = closed();
    let garbage = [b"not what it was ".repeat(16), closed.good[256..].to_vec()].concat();
    let half = closed.good[..closed.good.len() / 2].to_vec();
    let newer = {
        // Bytes 60 to 63 of the header: `user_version`.
        let mut newer = closed.good.clone();
        newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
        newer
    };
    let damaged = &["oncegate.db is damaged", "restore a backup"][..];
    for (bytes, words) in
        [(garbage, damaged), (half, damaged), (newer, &["version 99", "use the newer oncegate"])]
    {
        fs::write(&closed.db, &bytes).unwrap();
        says(&closed.shop.home.run(&["check"]), 2, words);
        let started = closed.shop.home.try_serve(Build::Plain, &[]).err().expect("it does not serve");
        says(&started, 2, words);
        says(&closed.shop.home.run_on_db(&["effects"]), 2, words);
        assert!(fs::read(&closed.db).unwrap() == bytes, "the file was changed");
    }
    assert_eq!(closed.shop.writes(), 1);
    closed.goes_on();
}

/// The list of effects itself is gone: whoever starts notices when it is needed.
#[test]
fn a_page_that_is_damaged_stops_governed_writes() {
    let closed = closed();
    let at = root_page(&closed.db, "effect");
    let mut bytes = closed.good.clone();
    bytes[at..at + 4096].fill(0xa5);
    fs::write(&closed.db, &bytes).unwrap();
    match closed.shop.home.try_serve(Build::Plain, &[]) {
        Err(done) => says(&done, 2, &["oncegate.db"]),
        Ok(sidecar) => {
            let agent = sidecar.billing();
            agent.refund(None, REFUND).assert_refused(403, "oncegate_store_unavailable");
            let read = agent.ask("api.stripe.com", &Ask::get("/v1/payment_intents/pi_1"));
            assert_eq!(read.status, 200, "reads pass: {read:?}");
            says(&ready(&closed.shop.home, &sidecar), 1, &["it is damaged: stop the sidecar"]);
            sidecar.kill9();
        }
    }
    assert_eq!(closed.shop.writes(), 1, "nothing was sent");
    for left in ["oncegate.db-wal", "oncegate.db-shm"] {
        drop(fs::remove_file(closed.shop.home.path(left)));
    }
    closed.goes_on();
}

/// By its file system, or by its mode for those whom a mode stops.
#[test]
fn a_record_that_cannot_be_written_is_said() {
    let closed = closed();
    let script = match mounts() {
        Some(_) => "mount --bind $DB $DB && mount -o remount,bind,ro $DB && exec \"$@\"",
        None if geteuid().is_root() => return,
        None => "chmod 0400 $DB && exec \"$@\"",
    };
    let here = |args| {
        let mut command = under(&closed.shop.home, args, mounts().unwrap_or(&["env"]), script);
        command.env("DB", &closed.db);
        command
    };
    says(&finish(here(&["check"])), 2, &["cannot write", "oncegate.db", "os error"]);
    let started = closed.shop.home.launch(here(&["serve"])).err().expect("it does not serve");
    says(&started, 2, &["oncegate.db", "os error"]);
    fs::set_permissions(&closed.db, PermissionsExt::from_mode(0o600)).unwrap();
    closed.goes_on();
}
