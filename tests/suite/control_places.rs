//! Who connects and asks nothing, or waits for a person, keeps no operator out.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use oncegate_tests::{conf::key_of, sidecar::Sidecar, wait::PATIENCE};
use serde_json::json;

use crate::{
    law::{call, data},
    shop::Shop,
};

/// As many as the control listener serves at once.
const CONNECTIONS: usize = 512;
/// Far less than what a long poll, or an idle connection, may take.
const SOON: Duration = Duration::from_secs(5);

/// The operator's last resort, and how long it took.
fn halts(sidecar: &Sidecar) {
    let begun = Instant::now();
    let halted = call(sidecar, "ops", "POST", "/environment/halt", &json!({ "reason": "stop" }).to_string());
    assert_eq!(halted.status, 200, "{halted:?}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

fn connect(sidecar: &Sidecar) -> TcpStream {
    let tcp = TcpStream::connect(sidecar.control).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp
}

#[test]
fn calls_that_wait_for_a_decision_leave_room_for_it() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let asked = data(&call(&sidecar, "billing-agent", "POST", "/approvals", r#"{"title":"may I?"}"#));
    let id = asked["id"].as_str().unwrap();
    let key = key_of("billing-agent");
    let poll = format!(
        "GET /api/v2/approvals/{id}?waitSeconds=55 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\n\r\n",
        sidecar.control
    );
    let ask = |_| {
        let mut tcp = connect(&sidecar);
        tcp.write_all(poll.as_bytes()).unwrap();
        tcp
    };
    let mut polls: Vec<TcpStream> = (0..CONNECTIONS).map(ask).collect();
    halts(&sidecar);
    // What cannot wait is answered as pending, and its connection ends.
    let mut last = String::new();
    polls.pop().unwrap().read_to_string(&mut last).unwrap();
    assert!(last.starts_with("HTTP/1.1 200") && last.contains(r#""status":"pending""#), "{last}");
    // A decision reaches those that wait, the first among them.
    let denied = call(&sidecar, "ops", "POST", &format!("/approvals/{id}/deny"), "{}");
    assert_eq!(denied.status, 200, "{denied:?}");
    let mut first = [0; 4096];
    let read = polls[0].read(&mut first).unwrap();
    let first = String::from_utf8_lossy(&first[..read]);
    assert!(first.contains(r#""status":"denied""#), "{first}");
}

#[test]
fn connections_that_ask_nothing_give_up_their_places() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let silent: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(&sidecar)).collect();
    halts(&sidecar);
    // Kept after an answer, the same.
    let key = key_of("billing-agent");
    let get = format!(
        "GET /api/v2/impact-limits HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\n\r\n",
        sidecar.control
    );
    let kept: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut tcp = connect(&sidecar);
            tcp.write_all(get.as_bytes()).unwrap();
            let mut answer = [0; 64];
            assert!(tcp.read(&mut answer).unwrap() > 0);
            tcp
        })
        .collect();
    halts(&sidecar);
    drop((silent, kept));
}
