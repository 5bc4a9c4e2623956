//! A replay reaches the provider while its key is known there, or not at all.

use std::{
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use oncegate_tests::{
    agent::Ask,
    conf::Conf,
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

/// Passes the first connection on at once, and each later one when `after` is over.
fn slow_to_connect(to: SocketAddr, after: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        let begun = Instant::now();
        for (number, from) in listener.incoming().flatten().enumerate() {
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
