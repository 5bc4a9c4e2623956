//! Each way in which another configuration comes passes the gate of admissions: what was planned before is admitted under
//! the limits of neither.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    process::Command,
    thread,
};

use oncegate_tests::{
    agent::Ask,
    conf::{CREDENTIAL, Conf},
    script::Reply,
    wait::until,
};
use rustix::fs::OFlags;
use tempfile::TempDir;

use crate::{
    law::{approval_in, call_at, detail},
    reload::{TAKEN, save, wait_log},
    shop::{REFUND, Shop},
};

/// One charge a day of the 500 dollars that its limit lets through.
const LIMIT: &str = "[limits.refunds-per-day]\ndimension = \"money\"\ncurrency = \"usd\"\nperiod = \"day\"\namount = 50000\naction = \"refund\"\n";

/// The action and its limit under another name.
fn renamed(text: &str) -> String {
    text.replace("[actions.refund]", "[actions.refund-eu]").replace("\"refund\"", "\"refund-eu\"")
}

/// A secret's command that ends when a test says so: a pipe that it reads to its end.
struct HeldCommand(TempDir);

impl HeldCommand {
    fn new() -> HeldCommand {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("credential"), CREDENTIAL).unwrap();
        assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
        HeldCommand(folder)
    }

    fn source(&self) -> String {
        let at = self.0.path().display();
        format!("from = {{ command = [\"sh\", \"-c\", \"cat {at}/pipe > {at}/read; cat {at}/credential\"] }}")
    }

    /// Waits until it runs. It ends when what is returned is dropped.
    fn running(&self) -> fs::File {
        let mut open = OpenOptions::new();
        open.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        until("the secret's command to run", || open.open(self.0.path().join("pipe")).ok())
    }
}

#[test]
fn p5_what_was_approved_before_a_reload_passes_no_limit_after_it() {
    let command = HeldCommand::new();
    let conf = |at| {
        let mut conf = Conf::default().stripe_host(at).refund("requires_approval = true").with(LIMIT);
        conf.rest = conf.rest.replace("from = { env = \"STRIPE_SECRET_KEY\" }", &command.source());
        conf
    };
    let shop = Shop::open_with(conf);
    let sidecar = shop.home.serve();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    tunnel.start(&Ask::refund(REFUND));
    drop(command.running());
    let parked = tunnel.answer().unwrap();
    let (control, approve) = (sidecar.control, format!("/approvals/{}/approve", approval_in(&parked)));
    let approved = thread::spawn(move || call_at(control, "ops", None, ("POST", &approve, "{}")));
    let held = command.running();
    save(&shop.home, &renamed(&conf(shop.provider.addr()).text()));
    wait_log(&sidecar, TAKEN, 1);
    drop(held);
    assert_eq!(approved.join().unwrap().status, 200);
    let effect = parked.effect();
    until("the effect to end", || Some(()).filter(|()| detail(&sidecar, &effect)["stage"] == "rejected"));
    assert_eq!((shop.writes(), shop.home.money()), (0, (0, 0, 0)));
}

/// A replay that waits for its secret goes by what is declared when it is sent: its action may be gone by then.
#[test]
fn p2_a_replay_does_not_outlive_its_action() {
    let command = HeldCommand::new();
    let conf = |at| {
        let mut conf = Conf::default().stripe_host(at).refund("");
        conf.rest = conf.rest.replace("from = { env = \"STRIPE_SECRET_KEY\" }", &command.source());
        conf
    };
    let shop = Shop::open_with(conf);
    let sidecar = shop.home.serve();
    shop.provider.on_write(Reply::lost());
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    tunnel.start(&Ask::refund(REFUND));
    drop(command.running());
    let effect = tunnel.answer().unwrap().assert_unknown().effect();
    let (control, replay) = (sidecar.control, format!("/actions/effects/{effect}/replay"));
    let replayed = thread::spawn(move || call_at(control, "ops", None, ("POST", &replay, "{}")));
    let held = command.running();
    save(&shop.home, &renamed(&conf(shop.provider.addr()).text()));
    wait_log(&sidecar, TAKEN, 1);
    drop(held);
    let answer = replayed.join().unwrap();
    assert_eq!(answer.status, 409, "{answer:?}");
    assert_eq!(shop.writes(), 1);
    let shown = detail(&sidecar, &effect);
    let replays = shown["attempts"].as_array().unwrap().iter().filter(|one| one["kind"] == "replay").count();
    assert_eq!((shown["outcome"].as_str(), replays), (Some("unknown"), 0), "{shown}");
}
