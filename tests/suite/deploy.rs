//! What stands in `deploy/`: the examples are accepted, a copy of a database in use is whole, and a restored one sends
//! nothing before somebody says so.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use oncegate_tests::{
    binary::{Build, oncegate},
    conf::stripe_conf,
    sidecar::{Done, Home, finish},
};
use serde_json::json;

use crate::{
    law::{lost, ops},
    shop::{REFUND, Shop},
};

const SETTLED: &str = "payment_intent=pi_2&amount=100";
const LATER: &str = "payment_intent=pi_3&amount=700";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A script of `deploy/`, as the sidecar's user runs it.
fn script(name: &str, args: &[&Path]) -> Done {
    let mut command = Command::new(repository().join("deploy").join(name));
    command.args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("ONCEGATE_BIN", oncegate(Build::Plain)).stdin(Stdio::null());
    finish(command)
}

/// The backup that is made of a home's database now.
#[track_caller]
fn backup(home: &Home) -> PathBuf {
    let done = script("backup.sh", &[&home.path("oncegate.db"), &home.path("backups")]);
    assert_eq!(done.code, 0, "{done:?}");
    PathBuf::from(done.out.trim())
}

#[test]
fn every_example_is_accepted_by_check() {
    let mut seen = 0;
    for entry in fs::read_dir(repository().join("deploy/examples")).unwrap() {
        let file = entry.unwrap().path().join("oncegate.toml");
        let mut command = Command::new(oncegate(Build::Plain));
        command.args(["check", "--json", "--config"]).arg(&file).env_clear().stdin(Stdio::null());
        command.env("STRIPE_SECRET_KEY", "sk_test_1x").env("HELPDESK_TOKEN", "made-up");
        let done = finish(command);
        assert_eq!(done.code, 0, "{}: {done:?}", file.display());
        assert_eq!(done.json(), json!({"ok": true, "faults": [], "warnings": []}), "{}", file.display());
        seen += 1;
    }
    assert!(seen >= 2, "only {seen} examples");
}

#[test]
fn ready_says_whether_the_sidecar_works() {
    let shop = Shop::open();
    assert_eq!(shop.home.run(&["ready"]).code, 2, "none runs");
    let sidecar = shop.home.serve();
    let ready = shop.home.run(&["ready", "--json"]);
    assert_eq!((ready.code, ready.json()), (0, json!({"status": "ready"})), "{ready:?}");
    assert_eq!(sidecar.stop(), 0);
    assert_eq!(shop.home.run(&["ready"]).code, 2, "none runs any more");
}

#[test]
fn what_agents_trust_is_in_a_place_that_others_may_read() {
    let shop = Shop::open();
    let text = stripe_conf(shop.provider.addr()).text();
    shop.home.write(&text.replace("dir = \"ca\"", "dir = \"ca\"\ntrust_dir = \"for/agents\""));
    let mode = |name: &str| fs::metadata(shop.home.path(name)).unwrap().permissions().mode() & 0o777;
    let sidecar = shop.home.serve();
    assert_eq!(mode("ca/ca.key"), 0o600);
    assert_eq!(mode("ca"), 0o700);
    for folder in [
        "for/agents",
        "for/agents/shims",
        "for/agents/shims/python",
        "for/agents/shims/node",
        "for/agents/shims/wget",
    ] {
        assert_eq!(mode(folder), 0o755, "{folder}");
    }
    for file in [
        "ca.pem",
        "bundle.pem",
        "truststore.p12",
        "shims/python/sitecustomize.py",
        "shims/node/preload.cjs",
        "shims/wget/wgetrc",
    ] {
        assert_eq!(mode(&format!("for/agents/{file}")), 0o644, "{file}");
    }
    let key = fs::read_to_string(shop.home.path("ca/ca.key")).unwrap();
    assert!(key.contains("PRIVATE KEY"));
    for file in ["ca.pem", "bundle.pem"] {
        let text = fs::read_to_string(shop.home.path(&format!("for/agents/{file}"))).unwrap();
        assert!(text.contains("BEGIN CERTIFICATE") && !text.contains("PRIVATE"), "{file}");
    }
    let told = shop.home.run(&["run", "--as", "billing-agent", "--", "printenv", "SSL_CERT_FILE"]);
    let bundle = shop.home.path("for/agents/bundle.pem");
    assert_eq!((told.code, told.out.trim()), (0, bundle.to_str().unwrap()), "{told:?}");
    assert_eq!(sidecar.stop(), 0);
}

#[test]
fn a_database_that_nobody_serves_can_be_halted() {
    let shop = Shop::open();
    let db = shop.home.path("oncegate.db").display().to_string();
    let halt = |reason: &str| shop.home.run(&["halt", "--db", &db, "--reason", reason, "--json"]);
    assert_eq!(halt("too early").code, 2, "there is none yet");
    let sidecar = shop.home.serve();
    assert_eq!(halt("in use").code, 2, "a sidecar holds it");
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
    assert_eq!(sidecar.stop(), 0);
    assert_eq!(halt("").code, 2, "no reason");
    let halted = halt("the disk was full");
    let document = halted.json();
    assert_eq!(
        json!([halted.code, document["halted"], document["haltReason"], document["haltedBy"]]),
        json!([0, true, "the disk was full", "command-line"]),
    );
    let sidecar = shop.home.serve();
    let refused = sidecar.billing().refund(None, SETTLED);
    refused.assert_refused(403, "oncegate_halted");
    assert!(refused.reason.contains("the disk was full"), "{refused:?}");
    assert_eq!(shop.writes(), 1);
}

#[test]
fn a_backup_of_a_database_in_use_is_whole() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.billing().refund(None, SETTLED).status, 200);
    let unknown = lost(&shop, &sidecar);
    let place = backup(&shop.home);
    let copy = place.join("oncegate.db").display().to_string();
    let read = |args: &[&str]| shop.home.run(&[args, &["--db", &copy, "--json"]].concat()).json();
    assert_eq!(read(&["effects"]), json!(shop.home.effects()), "the same, while the sidecar runs");
    assert_eq!(read(&["effect", "show", &unknown])["outcome"], "unknown");
    let verified = read(&["audit", "verify"]);
    let (events, head) = (verified["events"].as_u64().unwrap(), fs::read_to_string(place.join("backup.env")));
    assert!(verified["intact"] == true && events > 0, "{verified}");
    assert!(head.unwrap().contains(&format!("chain_events={events}\n")));
    let mode = fs::metadata(&place).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "of the sidecar's user alone");
    // One that cannot be made leaves nothing behind that looks like one.
    let done = script("backup.sh", &[&shop.home.path("upstream-ca.pem"), &shop.home.path("other")]);
    assert_ne!(done.code, 0, "{done:?}");
    assert_eq!(fs::read_dir(shop.home.path("other")).unwrap().count(), 0);
}

#[test]
fn a_restored_database_sends_nothing_until_somebody_says_so() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.billing().refund(None, SETTLED).status, 200);
    let unknown = lost(&shop, &sidecar);
    let place = backup(&shop.home);
    assert_eq!(sidecar.billing().refund(None, LATER).status, 200, "the backup knows nothing of this");
    assert_eq!(shop.writes(), 3);

    let db = shop.home.path("oncegate.db");
    let running = script("restore.sh", &[&place, &db]);
    assert!(running.code != 0 && running.err.contains("a sidecar runs"), "{running:?}");
    assert_eq!(sidecar.stop(), 0);
    let newer = script("restore.sh", &[&place, &db]);
    assert!(newer.code != 0 && newer.err.contains("is intact and knows"), "{newer:?}");
    assert_eq!(shop.home.effects().len(), 3, "nothing was changed");
    let restored = script("restore.sh", &[Path::new("--older"), &place, &db]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let kept = fs::read_dir(shop.home.dir()).unwrap().map(|entry| entry.unwrap().file_name());
    let kept: Vec<_> = kept.filter(|name| name.to_string_lossy().contains(".db.replaced-")).collect();
    assert!(!kept.is_empty(), "the database that was in place is kept");

    let sidecar = shop.home.serve();
    for form in [LATER, "payment_intent=pi_4&amount=1"] {
        let refused = sidecar.billing().refund(None, form);
        refused.assert_refused(403, "oncegate_halted");
        assert!(refused.reason.contains("restored from a backup"), "{refused:?}");
    }
    assert_eq!(sidecar.billing().refund(None, SETTLED).status, 200, "from the record");
    sidecar.billing().refund(None, REFUND).assert_unknown();
    assert_eq!(shop.writes(), 3);
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &unknown).code, 0, "looking works under the halt");
    assert_eq!(ops(&shop.home, &sidecar, &["audit", "verify"]).code, 0);
    assert_eq!(shop.home.money(), (12_100, 0, 0), "the 700 are missing: docs/deploy.md says what to do");
    // And this is why: what was sent since the backup would be sent again.
    assert_eq!(ops(&shop.home, &sidecar, &["resume"]).code, 0);
    assert_eq!(sidecar.billing().refund(None, LATER).status, 200);
    assert_eq!(shop.writes(), 4);
}

#[test]
fn a_backup_that_was_changed_is_not_restored() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.billing().refund(None, SETTLED).status, 200);
    let place = backup(&shop.home);
    assert_eq!(sidecar.stop(), 0);
    let db = shop.home.path("oncegate.db");
    fs::remove_file(&db).unwrap();
    let mut bytes = fs::read(place.join("oncegate.db")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(place.join("oncegate.db"), &bytes).unwrap();
    let done = script("restore.sh", &[&place, &db]);
    assert!(done.code != 0 && done.err.contains("not what they were"), "{done:?}");
    assert!(!db.exists());
}
