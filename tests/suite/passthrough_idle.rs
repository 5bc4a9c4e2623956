//! What is passed on over connections that were idle: a provider may close one just when a request comes.

use std::net::SocketAddr;

use oncegate_tests::{
    agent::Ask,
    conf::Conf,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
};

use crate::shop::DESK;

fn ok() -> Reply {
    Reply::json("200 OK", "{}")
}

/// A host on which everything is passed on; how long a connection may be idle for a write.
fn serving(at: SocketAddr, reuse: &str) -> (Home, Sidecar) {
    let conf = Conf::default().proxy(&format!("reuse_idle_within = \"{reuse}\"")).host(DESK, at);
    let home = Home::new(&conf.with("writes = \"allow\""));
    let sidecar = home.serve();
    (home, sidecar)
}

/// The connections that carried the requests so far.
fn connections(desk: &Provider) -> Vec<usize> {
    desk.record().requests().iter().map(|request| request.connection).collect()
}

#[test]
fn a_read_that_a_closing_connection_took_along_goes_once_more() {
    for method in ["GET", "HEAD", "OPTIONS"] {
        let desk = Provider::tls(&[DESK]);
        let (_home, sidecar) = serving(desk.addr(), "1s");
        let agent = sidecar.billing();
        for reply in [ok(), Reply::lost(), ok().at(oncegate_tests::script::When::Head)] {
            desk.on_read(reply);
        }
        assert_eq!(agent.ask(DESK, &Ask::get("/a")).status, 200);
        let mut tunnel = agent.tunnel(DESK);
        tunnel.start(&Ask::new(method, "/b"));
        let answer = if method == "HEAD" { tunnel.answer_to_head() } else { tunnel.answer() }.unwrap();
        assert_eq!(answer.status, 200, "{method}: {answer:?}");
        assert_eq!(connections(&desk), [0, 0, 1], "{method}");
    }
}

/// One that ends on a fresh connection, or with a part of an answer, does not: nothing says that it was not read.
#[test]
fn a_read_goes_once_more_only_where_nothing_was_said_on_a_connection_that_was_idle() {
    let desk = Provider::tls(&[DESK]);
    let (_home, sidecar) = serving(desk.addr(), "1s");
    let agent = sidecar.billing();
    desk.on_read(Reply::lost());
    let fresh = agent.ask(DESK, &Ask::get("/a"));
    assert_eq!((fresh.status, fresh.header("oncegate-code")), (422, Some("oncegate_not_sent")), "{fresh:?}");
    assert_eq!(connections(&desk), [0]);

    desk.on_read(ok());
    assert_eq!(agent.ask(DESK, &Ask::get("/b")).status, 200);
    desk.on_read(Reply::raw("HTTP/1.1 200 O").then(oncegate_tests::script::Act::Fin));
    assert_eq!(agent.ask(DESK, &Ask::get("/c")).status, 422);
    assert_eq!(connections(&desk), [0, 1, 1]);
}

/// Neither does a write, nor what brings a body; they are asked for over a connection that was idle for a moment only.
#[test]
fn a_write_is_passed_on_once_and_over_no_connection_that_was_idle_for_long() {
    let desk = Provider::tls(&[DESK]);
    let (_home, sidecar) = serving(desk.addr(), "0s");
    let agent = sidecar.billing();
    desk.on_read(ok());
    assert_eq!(agent.ask(DESK, &Ask::get("/a")).status, 200);
    desk.on_write(ok());
    assert_eq!(agent.ask(DESK, &Ask::json("/b", "{}")).status, 200);
    assert_eq!(connections(&desk), [0, 1], "not over the one that the read has left");

    let (_home, sidecar) = serving(desk.addr(), "20s");
    let agent = sidecar.billing();
    for (ask, code) in [
        (Ask::json("/c", "{}"), "oncegate_outcome_unknown"),
        (Ask::new("DELETE", "/c"), "oncegate_outcome_unknown"),
        (Ask::get("/c").body("{}"), "oncegate_not_sent"),
    ] {
        desk.on_read(ok());
        assert_eq!(agent.ask(DESK, &Ask::get("/a")).status, 200);
        let before = desk.record().requests().len();
        if ask.method == "GET" {
            desk.on_read(Reply::lost())
        } else {
            desk.on_write(Reply::lost())
        }
        let answer = agent.ask(DESK, &ask);
        assert_eq!((answer.status, answer.header("oncegate-code")), (422, Some(code)), "{answer:?}");
        let seen = desk.record().requests();
        assert_eq!(seen.len(), before + 1, "{}: sent once", ask.method);
        assert_eq!(seen[before].connection, seen[before - 1].connection, "{}: over that one", ask.method);
    }
}
