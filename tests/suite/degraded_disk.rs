//! A disk that is full, and has room again: governed writes are refused meanwhile and nothing is lost; reads pass; and
//! what is wrong is said. No restart is needed.

use std::{
    fs,
    io::Write,
    process::{ChildStdin, Stdio},
    thread,
};

use oncegate_tests::{
    agent::Ask,
    conf::stripe_conf,
    gate::Gate,
    script::Reply,
    sidecar::{Home, Sidecar},
    wait::until,
};
use rustix::process::{Resource, Rlimit, prlimit};

use crate::{
    degraded::{mounts, pid, ready, under},
    law::detail,
    shop::{REFUND, Shop},
};

/// Mounts a small disk at the folder of the database, and beside the sidecar fills and frees it when it is told to.
const SMALL_DISK: &str = r#"
mount -t tmpfs -o size=2m,mode=700 none data || exit 97
exec 3<&0
( while read -r word <&3; do
    case "$word" in
        fill) cat /dev/zero > data/ballast 2> /dev/null ;;
        free) rm data/ballast ;;
    esac
    echo "$word" >> told
done ) &
exec "$@" < /dev/null 3<&-
"#;
/// A write beyond what a process may write is an error to it, and not its end.
const BOUNDED: &str = "trap '' XFSZ; exec \"$@\"";

/// How the disk is full.
enum Disk {
    /// It has 2 MiB of its own.
    Small(ChildStdin),
    /// No file may grow: what a quota does.
    Bounded,
}

impl Disk {
    fn fill(&mut self, home: &Home, sidecar: &Sidecar) {
        self.tell(home, sidecar, "fill", Some(1));
    }

    fn free(&mut self, home: &Home, sidecar: &Sidecar) {
        self.tell(home, sidecar, "free", None);
    }

    fn tell(&mut self, home: &Home, sidecar: &Sidecar, word: &str, bytes: Option<u64>) {
        match self {
            Disk::Small(teller) => {
                writeln!(teller, "{word}").unwrap();
                until("the disk to change", || {
                    fs::read_to_string(home.path("told"))
                        .ok()
                        .filter(|told| told.ends_with(&format!("{word}\n")))
                });
            }
            Disk::Bounded => {
                let limit = Rlimit { current: bytes, maximum: None };
                prlimit(pid(sidecar), Resource::Fsize, limit).unwrap();
            }
        }
    }

    /// What the operator is told.
    fn sentence(&self) -> &'static str {
        match self {
            Disk::Small(_) => "its disk is full: make room on it",
            Disk::Bounded => "its disk fails: the sidecar's log says how",
        }
    }
}

fn shop() -> Shop {
    let shop = Shop::open_with(|at| {
        let mut conf = stripe_conf(at);
        conf.store = vec!["path = \"data/oncegate.db\"".into()];
        conf
    });
    fs::create_dir(shop.home.path("data")).unwrap();
    shop
}

/// The effects of a limit and what it holds, as the API says it.
fn limit(shop: &Shop, sidecar: &Sidecar) -> (u64, u64, u64) {
    let limits = sidecar.cli(&shop.home, "ops", &["limits", "--json"]).json();
    let cents = |name: &str| limits[0][name].as_u64().unwrap_or_else(|| panic!("{name} in {limits}"));
    (cents("consumed"), cents("reserved"), cents("unknownExposure"))
}

fn fills_and_is_freed(shop: &Shop, sidecar: Sidecar, mut disk: Disk) {
    let (home, agent) = (&shop.home, sidecar.billing());
    assert_eq!(agent.refund(None, REFUND).status, 200);
    shop.books.lose(1);
    let lost = agent.refund(None, "payment_intent=pi_2&amount=200").assert_unknown().effect();
    let gate = Gate::default();
    shop.provider.on_write(Reply::json("200 OK", r#"{"id":"re_3","object":"refund"}"#).after(&gate));
    let held = sidecar.billing();
    let flying = thread::spawn(move || held.refund(None, "payment_intent=pi_3&amount=300"));
    shop.provider.record().wait_writes(3);
    assert_eq!(ready(home, &sidecar).code, 0);

    disk.fill(home, &sidecar);
    for _ in 0..2 {
        let refused = agent.refund(None, "payment_intent=pi_4&amount=400");
        refused.assert_refused(403, "oncegate_store_unavailable");
    }
    assert_eq!(shop.writes(), 3, "what cannot be recorded is not sent");
    let read = agent.ask("api.stripe.com", &Ask::get("/v1/payment_intents/pi_1"));
    assert_eq!((read.status, read.code()), (200, "(no Oncegate-Code)"), "reads pass");
    let told = ready(home, &sidecar);
    assert!(told.code == 1 && told.err.contains(disk.sentence()), "{told:?}");
    // The answer comes, and cannot be recorded.
    gate.open();
    let unrecorded = flying.join().unwrap().assert_unknown().effect();
    assert_ne!(sidecar.reconcile(home, "ops", &lost).code, 0, "what a look finds is not recorded either");
    // Who stops everything is told what is in the way, and that it was not done.
    let halted = sidecar.cli(home, "ops", &["halt", "--reason", "full"]);
    assert!(halted.code != 0 && halted.err.contains(disk.sentence()), "{halted:?}");
    if let Disk::Small(_) = disk {
        assert!(halted.err.contains("SERVICE_UNAVAILABLE"), "{halted:?}");
        assert!(halted.err.contains("Nothing was recorded"), "{halted:?}");
    }
    assert_eq!(limit(shop, &sidecar), (12_000, 500, 200), "and all is there as it was");

    disk.free(home, &sidecar);
    until("it to be ready by itself", || Some(()).filter(|()| ready(home, &sidecar).code == 0));
    let now = agent.refund(None, "payment_intent=pi_4&amount=400");
    assert_eq!((now.status, shop.writes()), (200, 4), "{now:?}");
    assert_eq!(sidecar.reconcile(home, "ops", &lost).code, 0, "the refund is found");
    // The answer was read, so it is kept until it can be: nobody has to ask the provider for it.
    let kept = until("what was not recorded to be recorded", || {
        Some(detail(&sidecar, &unrecorded)).filter(|effect| effect["stage"] != "dispatching")
    });
    assert_eq!((&kept["outcome"], &kept["responseStatus"]), (&"succeeded".into(), &200.into()), "{kept}");
    assert_eq!(kept["attempts"].as_array().map(Vec::len), Some(1), "nobody looked: {kept}");
    let again = agent.refund(None, "payment_intent=pi_3&amount=300");
    assert!(again.status == 200 && again.text().contains("re_3"), "{again:?}");
    assert_eq!(limit(shop, &sidecar), (12_900, 0, 0));
    assert_eq!(shop.writes(), 4, "nothing was sent twice");
    assert_eq!(sidecar.stop(), 0);
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    // Where no disk can be mounted, the other test is what there is.
    let Some(before) = mounts() else { return };
    let shop = shop();
    let mut command = under(&shop.home, &["serve"], before, SMALL_DISK);
    command.stdin(Stdio::piped());
    let mut sidecar = shop.home.launch(command).unwrap_or_else(|done| panic!("{done:?}"));
    let teller = sidecar.stdin().expect("a pipe");
    fills_and_is_freed(&shop, sidecar, Disk::Small(teller));
}

#[test]
fn a_bound_on_what_may_be_written_refuses_writes_until_it_is_lifted() {
    let shop = shop();
    let command = under(&shop.home, &["serve"], &["env"], BOUNDED);
    let sidecar = shop.home.launch(command).unwrap_or_else(|done| panic!("{done:?}"));
    fills_and_is_freed(&shop, sidecar, Disk::Bounded);
}
