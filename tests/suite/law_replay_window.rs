//! A replay reaches the provider while its key is known there, or not at all.

use std::{
    fs, io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use oncegate_tests::{
    agent::Ask,
    conf::Conf,
    gate::Gate,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
    wait::until,
};

use crate::{
    elsewhere::reload,
    law::{call, data, detail, says_no},
    shop::{DESK, ticket, ticket_action},
};

fn desk(at: SocketAddr, window: &str) -> Conf {
    let keyed = format!("idempotency = {{ header = \"X-Key\", window = \"{window}\" }}\n");
    Conf::default().host(DESK, at).with(&ticket_action("open-ticket", DESK)).with(&keyed)
}

#[track_caller]
fn lost_ticket(provider: &Provider, sidecar: &Sidecar) -> String {
    provider.on_write(Reply::lost());
    sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a"))).assert_unknown().effect()
}

/// The provider turned out to forget sooner.
#[test]
fn p2_a_window_that_was_made_shorter_counts() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk(provider.addr(), "24h"));
    let sidecar = home.serve();
    let effect = lost_ticket(&provider, &sidecar);
    reload(&home, &sidecar, &desk(provider.addr(), "1ms"));
    let replay = call(&sidecar, "ops", "POST", &format!("/actions/effects/{effect}/replay"), "");
    says_no(&replay, 409, "REPLAY_REFUSED", "window_closed");
    assert_eq!(provider.record().writes().len(), 1);
}

/// The effect was on its way when the replay was asked for, so that nothing was known of it. It became unknown while the
/// credential was fetched, under a window that had been made shorter: what is judged is the effect that is claimed.
#[test]
fn p2_a_replay_is_judged_when_it_is_claimed() {
    let secret = "[secrets.KEY]\nallowed_hosts = [\"tickets.test\"]\nfrom = { command = [\"sh\", \"-c\", \"\
         if test -e hold; then mkfifo asked; read go < asked; fi; echo sk_test_desk\"] }\n";
    let conf = |at: SocketAddr, window: &str| {
        let mut conf = Conf::default().with(secret);
        let host = desk(at, window).rest.replace(
            "ca_file = ",
            "credential = { header = \"Authorization\", value = \"{{secret:KEY}}\" }\nca_file = ",
        );
        conf.rest.push_str(&host);
        conf
    };
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&conf(provider.addr(), "24h"));
    let sidecar = home.serve();
    let gate = Gate::default();
    provider.on_write(Reply::lost().after(&gate));
    thread::scope(|scope| {
        let asked = scope.spawn(|| sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a"))));
        provider.record().wait_writes(1);
        reload(&home, &sidecar, &conf(provider.addr(), "1ms"));
        fs::write(home.path("hold"), "").unwrap();
        let listed = data(&call(&sidecar, "ops", "GET", "/actions/effects", ""));
        let effect = listed.as_array().unwrap()[0]["id"].as_str().unwrap().to_owned();
        let path = format!("/actions/effects/{effect}/replay");
        let replay = scope.spawn({
            let (sidecar, path) = (&sidecar, path.clone());
            move || call(sidecar, "ops", "POST", &path, "")
        });
        until("its credential to be asked for", || home.path("asked").exists().then_some(()));
        gate.open();
        asked.join().unwrap().assert_unknown();
        fs::write(home.path("asked"), "go\n").unwrap();
        says_no(&replay.join().unwrap(), 409, "REPLAY_REFUSED", "window_closed");
        assert_eq!(
            detail(&sidecar, &effect)["attempts"].as_array().unwrap().len(),
            1,
            "and none is on record"
        );
    });
    assert_eq!(provider.record().writes().len(), 1);
}

/// Passes the first connection on at once, and each later one when it has waited for so long.
fn slow_to_connect(to: SocketAddr, after: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, from) in listener.incoming().flatten().enumerate() {
            let begun = Instant::now();
            thread::spawn(move || {
                if number > 0 {
                    until("the delay", || (begun.elapsed() > after).then_some(()));
                }
                let to = TcpStream::connect(to).unwrap();
                let (mut here, mut there) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || _ = io::copy(&mut here, &mut there));
                let (mut here, mut there) = (from, to);
                _ = io::copy(&mut there, &mut here);
                _ = here.shutdown(Shutdown::Both);
            });
        }
    });
    at
}

/// It was asked for in time; its connection stood only after the provider had forgotten the key.
#[test]
fn p2_a_replay_that_took_too_long_to_begin_is_not_sent() {
    let provider = Provider::tls(&[DESK]);
    let at = slow_to_connect(provider.addr(), Duration::from_secs(3));
    let home = Home::new(&desk(at, "2s"));
    let sidecar = home.serve();
    let effect = lost_ticket(&provider, &sidecar);
    let replay = data(&call(&sidecar, "ops", "POST", &format!("/actions/effects/{effect}/replay"), ""));
    assert_eq!(replay["outcome"], "unknown");
    assert_eq!(provider.record().writes().len(), 1);
    let shown = detail(&sidecar, &effect);
    assert_eq!(shown["attempts"].as_array().unwrap().last().unwrap()["seen"], "not_sent", "{shown}");
}
