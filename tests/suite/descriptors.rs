//! More connections than there are descriptors, or places, from somebody without a key.

use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
    process::Command,
};

use oncegate_tests::{
    agent::Ask,
    binary::Build,
    sidecar::{Home, Sidecar},
    wait::until,
};

use crate::shop::{REFUND, Shop};

/// Descriptors that the sidecar has, and may have.
const LIMIT: usize = 256;
/// Far more than the places that these give at either listener; at both together, more than there are descriptors.
const STRANGERS: usize = 160;

/// `serve`, under what a shell's `ulimit` says.
fn under(home: &Home, ulimit: &str) -> Sidecar {
    let usual = home.command(Build::Plain, &["serve"]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {ulimit} && exec \"$0\" \"$@\"")]);
    command.arg(usual.get_program()).args(usual.get_args()).current_dir(home.dir()).env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    home.launch(command).unwrap_or_else(|done| panic!("it did not start: {done:?}"))
}

fn open(sidecar: &Sidecar) -> usize {
    fs::read_dir(format!("/proc/{}/fd", sidecar.pid())).unwrap().count()
}

/// Connections that begin a request and never end it.
fn strangers(at: SocketAddr) -> Vec<TcpStream> {
    let come = || {
        let mut tcp = TcpStream::connect(at).unwrap();
        tcp.write_all(b"GET ").unwrap();
        tcp
    };
    (0..STRANGERS).map(|_| come()).collect()
}

#[test]
fn who_shows_no_key_keeps_neither_the_operator_nor_an_agent_out() {
    let shop = Shop::open();
    let sidecar = under(&shop.home, &format!("-n {LIMIT}"));
    let agent = sidecar.billing();
    let mut tunnel = agent.tunnel("api.stripe.com");
    let before = open(&sidecar);
    let held = [strangers(sidecar.proxy), strangers(sidecar.control)];
    until("some of them to be let in", || Some(()).filter(|()| open(&sidecar) > before + 40));

    let ops = |args: &[&str]| sidecar.cli(&shop.home, "ops", args);
    assert_eq!(ops(&["halt", "--reason", "somebody floods us"]).code, 0);
    tunnel.ask(&Ask::refund(REFUND)).assert_refused(403, "oncegate_halted");
    assert_eq!(ops(&["resume"]).code, 0);
    assert_eq!(tunnel.ask(&Ask::refund(REFUND)).outcome(), "succeeded", "who was there before");
    let next = agent.refund(None, "payment_intent=pi_2&amount=100");
    assert_eq!(next.outcome(), "succeeded", "who comes now: {next:?}");
    assert!(open(&sidecar) < LIMIT, "{} descriptors", open(&sidecar));
    assert!(!sidecar.log().contains("could not be accepted"), "{}", sidecar.log());
    assert!(sidecar.log().contains("fewer connections of agents than max_connections"), "{}", sidecar.log());
    drop((held, tunnel));
    assert_eq!(sidecar.stop(), 0);
}

#[test]
fn a_low_limit_is_raised_as_far_as_it_may_be() {
    let shop = Shop::open();
    let sidecar = under(&shop.home, "-Sn 64");
    let limits = fs::read_to_string(format!("/proc/{}/limits", sidecar.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers[0], numbers[1].min(65_536), "{line}");
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
}
