//! A process that runs out of descriptors, or is told to stop with writes on their way.

use std::{
    fs::File,
    io::Write,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use oncegate_tests::{
    agent::Ask,
    binary::Build,
    conf::stripe_conf,
    gate::Gate,
    script::{Act, Reply, When},
    sidecar::Sidecar,
    wait::{PATIENCE, until},
};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::{
    degraded::{pid, ready},
    shop::{REFUND, Shop},
};

/// How often a listener tries again that can accept nobody.
const COMPLAIN_EVERY_MS: u128 = 50;

fn complaints(sidecar: &Sidecar) -> usize {
    sidecar.log().matches("could not be accepted").count()
}

#[test]
fn without_descriptors_nobody_is_accepted_until_there_are_some() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    // Open, and nothing was asked in it: no connection to the provider is kept.
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    let usual = getrlimit(Resource::Nofile);
    prlimit(pid(&sidecar), Resource::Nofile, Rlimit { current: Some(3), maximum: usual.maximum }).unwrap();

    // Somebody waits to be accepted; and whoever is inside is told that nothing was sent, which frees its hold.
    let agent = sidecar.billing();
    let begun = Instant::now();
    let mut waiting = agent.connect();
    let connect = format!(
        "CONNECT api.stripe.com:443 HTTP/1.1\r\nHost: api.stripe.com:443\r\nProxy-Authorization: {}\r\n\r\n",
        agent.basic()
    );
    waiting.stream.write_all(connect.as_bytes()).unwrap();
    until("it to be said", || Some(()).filter(|()| complaints(&sidecar) > 0));
    waiting.stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(waiting.head().is_err(), "there is no descriptor for it");
    let (said, may) = (complaints(&sidecar), begun.elapsed().as_millis() / COMPLAIN_EVERY_MS + 2);
    assert!(said as u128 <= may, "{said} times, and not {may}");
    let unsent = tunnel.ask(&Ask::refund(REFUND));
    assert_eq!((unsent.outcome(), shop.writes()), ("failed", 0), "{unsent:?}");
    assert_eq!(shop.home.money(), (0, 0, 0), "what never left holds nothing");

    prlimit(pid(&sidecar), Resource::Nofile, usual).unwrap();
    waiting.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let accepted = waiting.head().unwrap().expect("an answer");
    assert!(accepted.line.contains(" 200 "), "{accepted:?}");
    assert_eq!(ready(&shop.home, &sidecar).code, 0);
    assert_eq!(agent.refund(None, "payment_intent=pi_2&amount=200").status, 200);
    assert_eq!((shop.writes(), shop.home.money()), (1, (200, 0, 0)));
}

/// A provider that never answers, to `n` writes.
fn hang(shop: &Shop, n: usize) -> Gate {
    let gate = Gate::default();
    for _ in 0..n {
        shop.provider.on_write(Reply { when: When::Whole, acts: vec![Act::UntilEnd(gate.clone())] });
    }
    gate
}

/// The writes that are on their way are given as long as their provider is; then they are unknown, and the end is in order.
#[test]
fn a_stop_waits_for_writes_as_long_as_their_provider_may_take() {
    const WRITES: u64 = 5;
    let shop = Shop::open_with(|at| stripe_conf(at).timing("4s", "6s"));
    let gate = hang(&shop, 5);
    let sidecar = shop.home.serve();
    let agents: Vec<_> = (0..WRITES)
        .map(|n| {
            let agent = sidecar.billing();
            thread::spawn(move || agent.refund(None, &format!("payment_intent=pi_{n}&amount=100")))
        })
        .collect();
    shop.provider.record().wait_writes(5);
    let begun = Instant::now();
    assert_eq!(sidecar.stop(), 0, "an end in order");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    for agent in agents {
        agent.join().unwrap().assert_unknown();
    }
    assert_eq!(shop.home.unresolved().len(), 5);
    assert!(
        shop.home.unresolved().iter().all(|row| row["stage"] == "reconciling"),
        "none is left to the sweep"
    );
    assert_eq!(shop.home.money(), (0, 100 * WRITES, 100 * WRITES));
    gate.open();
}

/// A second signal waits for nobody: what was on its way is left to the next start, and is held.
#[test]
fn a_second_signal_leaves_writes_to_the_next_start() {
    let shop = Shop::open();
    let gate = hang(&shop, 1);
    let mut sidecar = shop.home.serve();
    let agent = sidecar.billing();
    let cut = thread::spawn(move || {
        let mut tunnel = agent.tunnel("api.stripe.com");
        tunnel.start(&Ask::refund(REFUND));
        tunnel.answer()
    });
    shop.provider.record().wait_writes(1);
    let begun = Instant::now();
    kill_process(pid(&sidecar).unwrap(), Signal::TERM).unwrap();
    until("the first signal to be heard", || Some(()).filter(|()| sidecar.log().contains("stopping:")));
    kill_process(pid(&sidecar).unwrap(), Signal::TERM).unwrap();
    assert_eq!(sidecar.ended(), 1);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop(cut.join().unwrap());
    assert_eq!(shop.home.unresolved()[0]["stage"], "dispatching");
    drop(sidecar);
    let sidecar = shop.home.serve();
    let swept = until("the sweep", || {
        let rows = shop.home.unresolved();
        Some(rows[0].clone()).filter(|row| row["stage"] == "reconciling")
    });
    sidecar.billing().refund(None, REFUND).assert_unknown();
    assert_eq!(
        (swept["amount"].as_u64(), shop.home.money(), shop.writes()),
        (Some(12_000), (0, 12_000, 12_000), 1)
    );
    gate.open();
}

/// A terminal under Ctrl-S, or a collector that hangs: nobody reads the log, and everything goes on.
#[test]
fn who_does_not_read_the_log_stops_nothing() {
    let shop = Shop::open();
    let fifo = shop.home.path("log");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Both ends are held open here, and nothing is read.
    let unread = File::options().read(true).write(true).open(&fifo).unwrap();
    let serve = shop.home.command(Build::Plain, &["serve"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"exec "$0" "$@" 2>log"#]).arg(serve.get_program()).args(serve.get_args());
    shell.env_clear().envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("ONCEGATE_LOG", "trace").current_dir(shop.home.dir());
    let sidecar = shop.home.launch(shell).unwrap();
    // Many more lines than a pipe takes.
    for number in 0..20 {
        let refund = format!("payment_intent=pi_{number}&amount=100");
        assert_eq!(sidecar.billing().ask("api.stripe.com", &Ask::refund(&refund)).status, 200, "{number}");
    }
    assert_eq!(shop.writes(), 20);
    assert_eq!(sidecar.cli(&shop.home, "ops", &["halt", "--reason", "test"]).code, 0);
    assert_eq!(sidecar.stop(), 0);
    drop(unread);
}
