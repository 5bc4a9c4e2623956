//! The cases of `classification.toml` that take a deadline, a peer that cannot be reached, or a kill.

use std::net::SocketAddr;

use oncegate_tests::{
    agent::Ask,
    conf::Conf,
    dead::{Refusing, Silent},
    gate::Gate,
    provider::Provider,
    script::{Act, Reply, When},
    sidecar::Home,
    wait::until,
};
use toml::Table;

use crate::{
    cases::{load, must},
    classification::{Expected, judge},
    shop::{DESK, TICKETS_PER_DAY, desk_conf, ticket, ticket_action},
};

const NO_NAME: &str = "name does not resolve";
const REFUSED: &str = "connection refused";
const WRONG_NAME: &str = "certificate is for another host";
const NO_HANDSHAKE: &str = "TLS handshake times out";
const CLOSED_BEFORE: &str =
    "kept-alive connection was already closed; nothing was written; a fresh one connects and answers 200";
const LATE: &str = "no byte for respond_within; then 200 before upstream_timeout";
const NEVER: &str = "no byte for upstream_timeout";
const HUNG_UP: &str = "client hangs up after 1 s; the provider answers 200 after 3 s";
const KILLED: &str = "the process is killed after the request was written";

/// Whether a case is played here.
pub(crate) fn takes(wire: &str) -> bool {
    [NO_NAME, REFUSED, WRONG_NAME, NO_HANDSHAKE, CLOSED_BEFORE, LATE, NEVER, HUNG_UP, KILLED].contains(&wire)
}

fn case(wire: &str) -> Table {
    let found = load("classification.toml").into_iter().find(|case| must(case, "wire") == wire);
    found.unwrap_or_else(|| panic!("no case: {wire}"))
}

/// One request to a host that it never reaches.
#[track_caller]
fn never_sent(wire: &str, conf: &Conf, host: &str) {
    let home = Home::new(&conf.clone().with(&ticket_action("open-ticket", host)).with(TICKETS_PER_DAY));
    let sidecar = home.serve();
    let answer = sidecar.billing().ask(host, &Ask::json("/v1/tickets", &ticket(wire)));
    let case = case(wire);
    judge(&home, &Expected::of(&case), &answer, None).unwrap();
    let row = home.exposure("tickets-per-day");
    assert_eq!((row["consumed"].as_u64(), row["reserved"].as_u64()), (Some(0), Some(0)), "{row}");
    let shown = sidecar.cli(&home, "ops", &["effect", "show", &answer.effect(), "--json"]).json();
    assert!(shown["evidence"].as_array().is_some_and(|all| !all.is_empty()), "the proof is kept: {shown}");
}

#[test]
fn name_does_not_resolve() {
    never_sent(NO_NAME, &Conf::default().with("[hosts.\"no-such-host.invalid\"]\n"), "no-such-host.invalid");
}

#[test]
fn connection_refused() {
    let nobody = Refusing::default();
    never_sent(REFUSED, &Conf::default().host(DESK, nobody.addr()), DESK);
}

#[test]
fn certificate_is_for_another_host() {
    let provider = Provider::tls(&["other.test"]);
    never_sent(WRONG_NAME, &Conf::default().host(DESK, provider.addr()), DESK);
    assert!(provider.record().requests().is_empty());
}

#[test]
fn tls_handshake_times_out() {
    let silent = Silent::default();
    let conf = Conf::default().host(DESK, silent.addr()).timing("30s", "2s");
    never_sent(NO_HANDSHAKE, &conf, DESK);
    assert_eq!(silent.connections(), 1);
    let first = silent.read_first();
    assert_eq!(first.first(), Some(&0x16), "a TLS handshake record and nothing else");
    assert!(!String::from_utf8_lossy(&first).contains("POST "), "a request in clear");
}

fn desk(conf: impl FnOnce(SocketAddr) -> Conf) -> (Provider, Home) {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&conf(provider.addr()));
    (provider, home)
}

#[test]
fn kept_alive_connection_was_already_closed() {
    let (provider, home) = desk(desk_conf);
    let sidecar = home.serve();
    let closed = Gate::default();
    // Closed without a word once the answer is out; that the sidecar ends its side too shows that it has noticed.
    provider.on_write(Reply::json("200 OK", "{}").then(Act::CloseThen(closed.clone())));
    let mut tunnel = sidecar.billing().tunnel(DESK);
    assert_eq!(tunnel.ask(&Ask::json("/v1/tickets", &ticket("first"))).status, 200);
    let reply = Reply::json("200 OK", r#"{"ok":true}"#);
    provider.on_write(reply.clone());
    assert!(closed.pass(), "the sidecar lets go of the dead connection");
    let answer = tunnel.ask(&Ask::json("/v1/tickets", &ticket("second")));
    judge(&home, &Expected::of(&case(CLOSED_BEFORE)), &answer, Some(&reply)).unwrap();
    let writes = provider.record().writes();
    assert_eq!(writes.len(), 2, "one each");
    assert_ne!(writes[0].connection, writes[1].connection);
}

#[test]
fn late_answer_still_counts() {
    let (provider, home) = desk(|at| desk_conf(at).timing("4s", "60s"));
    let sidecar = home.serve();
    let gate = Gate::default();
    let reply = Reply::json("200 OK", r#"{"ok":true}"#);
    provider.on_write(reply.clone().after(&gate));
    let answer = sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("late")));
    answer.assert_unknown();
    assert_eq!(home.effect(&answer.effect())["outcome"], "unknown", "recorded before it was said");
    assert_eq!(home.exposure("tickets-per-day")["unknown_exposure"], 1);
    gate.open();
    judge(&home, &Expected::of(&case(LATE)), &answer, None).unwrap();
    assert_eq!(home.exposure("tickets-per-day")["consumed"], 1);
    assert_eq!(provider.record().writes().len(), 1);
    let again = sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("late")));
    assert_eq!((again.status, again.text().as_str()), (200, r#"{"ok":true}"#), "{again:?}");
    assert_eq!(provider.record().writes().len(), 1);
}

#[test]
fn no_byte_for_upstream_timeout() {
    let (provider, home) = desk(|at| desk_conf(at).timing("4s", "6s"));
    let sidecar = home.serve();
    let given_up = Gate::default();
    provider.on_write(Reply { when: When::Whole, acts: vec![Act::UntilEnd(given_up.clone())] });
    let answer = sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("never")));
    answer.assert_unknown();
    assert!(given_up.pass(), "the sidecar ends the connection after upstream_timeout");
    judge(&home, &Expected::of(&case(NEVER)), &answer, None).unwrap();
    assert_eq!(provider.record().writes().len(), 1);
    assert_eq!(home.exposure("tickets-per-day")["unknown_exposure"], 1);
}

#[test]
fn client_hangs_up() {
    let (provider, home) = desk(desk_conf);
    let sidecar = home.serve();
    let gate = Gate::default();
    provider.on_write(Reply::json("200 OK", "{}").after(&gate));
    let mut tunnel = sidecar.billing().tunnel(DESK);
    tunnel.start(&Ask::json("/v1/tickets", &ticket("hung up")));
    provider.record().wait_writes(1);
    tunnel.hang_up();
    gate.open();
    let outcome = must(&case(HUNG_UP), "outcome").to_owned();
    until("the effect to settle", || Some(()).filter(|()| home.effects()[0]["outcome"] == outcome.as_str()));
    assert_eq!((home.effects().len(), provider.record().writes().len()), (1, 1));
    assert_eq!(home.exposure("tickets-per-day")["consumed"], 1);
}

#[test]
fn killed_after_the_request_was_written() {
    let (provider, home) = desk(desk_conf);
    let sidecar = home.serve();
    let never = Gate::default();
    provider.on_write(Reply::json("200 OK", "{}").after(&never));
    let mut tunnel = sidecar.billing().tunnel(DESK);
    tunnel.start(&Ask::json("/v1/tickets", &ticket("killed")));
    provider.record().wait_writes(1);
    sidecar.kill9();
    let sidecar = home.serve();
    let outcome = must(&case(KILLED), "outcome").to_owned();
    let id = home.effects()[0]["id"].as_str().unwrap().to_owned();
    home.wait_outcome(&id, &outcome);
    let again = sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("killed")));
    again.assert_unknown();
    assert_eq!((again.effect(), provider.record().writes().len()), (id, 1));
    never.open();
}
