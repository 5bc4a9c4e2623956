//! Connections that were redirected: TLS from the first byte, and the name in it says where they go.

use std::{io::Write, net::SocketAddr};

use oncegate_tests::{
    agent::{Agent, Ask},
    conf::{Conf, stripe_conf},
    sidecar::{Home, Sidecar},
    wait::until,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::shop::{REFUND, Shop};

/// With a port for redirected connections of `billing-agent`.
fn redirected(conf: &Conf, port: u16) -> String {
    let listen = format!("[callers.billing-agent]\ntransparent_listen = \"127.0.0.1:{port}\"");
    conf.text().replace("[callers.billing-agent]", &listen)
}

/// Whoever is redirected there.
fn agent(sidecar: &Sidecar) -> Agent {
    let at = sidecar.ready()["callers"]["billing-agent"]["transparent_listen"].as_str().unwrap();
    sidecar.keyless(at.parse().unwrap())
}

fn open(conf: impl FnOnce(Conf) -> Conf) -> Shop {
    let shop = Shop::open();
    shop.home.write(&redirected(&conf(stripe_conf(shop.provider.addr())), 0));
    shop
}

#[test]
fn a_client_that_knows_no_proxy_is_governed() {
    let shop = open(|conf| conf);
    let sidecar = shop.home.serve_traced();
    let agent = agent(&sidecar);
    shop.books.lose(1);
    let mut tunnel = agent.straight("api.stripe.com", true).unwrap();
    let lost = tunnel.ask(&Ask::refund(REFUND)).assert_unknown().effect();
    let read = tunnel.ask(&Ask::get("/v1/payment_intents/pi_1"));
    assert_eq!((read.status, &read.json()["id"]), (200, &json!("pi_1")), "and on the same connection");
    let again = sidecar.billing().refund(None, REFUND);
    assert_eq!(again.effect(), lost, "the same caller, and so the same refund, whichever way it came");
    assert_eq!(shop.home.effect(&lost)["caller"], "billing-agent");
    assert_eq!(shop.writes(), 1);
    let sent = shop.provider.record().requests();
    let credential = format!("Bearer {}", oncegate_tests::conf::CREDENTIAL);
    assert!(sent.iter().all(|request| request.head.field("authorization") == Some(&credential)), "{sent:?}");
    assert_eq!(sidecar.stop(), 0, "with the connection open");
}

#[test]
fn what_nobody_declared_is_refused_inside() {
    let shop = open(|conf| conf);
    let sidecar = shop.home.serve();
    for host in ["undeclared.test", "localhost"] {
        let answer = agent(&sidecar).straight(host, true).unwrap().ask(&Ask::get("/"));
        answer.assert_refused(403, "oncegate_undeclared");
    }
    let mut tunnel = agent(&sidecar).straight("api.stripe.com", true).unwrap();
    let elsewhere = tunnel.ask(&Ask::get("/v1/charges").field("Host", "api.resend.com"));
    elsewhere.assert_refused(403, "oncegate_ambiguous");
    assert_eq!(shop.provider.record().connections(), 0);
}

#[test]
fn without_a_name_there_is_only_an_alert() {
    let shop = open(|conf| conf);
    let sidecar = shop.home.serve();
    let agent = agent(&sidecar);
    for (name, named) in [("api.stripe.com", false), ("127.0.0.1", true)] {
        let Err(error) = agent.straight(name, named) else { panic!("TLS without a name") };
        assert!(error.to_string().contains("UnrecognisedName"), "{error}");
    }
    // Not TLS at all: nothing that could pass for an answer.
    let mut wire = agent.connect();
    wire.stream.write_all(b"GET http://api.stripe.com/ HTTP/1.1\r\nHost: api.stripe.com\r\n\r\n").unwrap();
    assert!(wire.head().ok().flatten().is_none_or(|head| !head.line.starts_with("HTTP/")));
    assert_eq!(shop.provider.record().connections(), 0);
}

#[test]
fn what_is_passed_on_unread_goes_to_public_addresses_only() {
    let shop = open(|conf| conf.proxy("undeclared_hosts = \"tunnel\""));
    let sidecar = shop.home.serve();
    let agent = agent(&sidecar);
    let refused = agent.straight("localhost", true).unwrap().ask(&Ask::get("/"));
    refused.assert_refused(403, "oncegate_undeclared");
    assert_eq!(agent.straight("api.stripe.com", true).unwrap().ask(&Ask::refund(REFUND)).status, 200);
    assert_eq!(shop.writes(), 1);
}

#[test]
fn what_leads_back_to_the_proxy_is_not_dialled() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    drop(taken);
    // As where the sidecar resolves names by the same table that redirects the agent.
    let here = SocketAddr::from(([127, 0, 0, 1], port));
    let home = Home::new(&Conf::default());
    home.write(&redirected(&stripe_conf(here), port));
    let sidecar = home.serve();
    let answer = agent(&sidecar).straight("api.stripe.com", true).unwrap().ask(&Ask::refund(REFUND));
    let effect = home.effect(&answer.effect());
    assert_eq!(effect["outcome"], "failed", "{answer:?} {effect}");
    assert_eq!(answer.code(), "oncegate_not_sent", "{answer:?}");
    assert!(answer.reason.contains("address_refused"), "{answer:?}");
    assert_eq!(home.effects().len(), 1, "it did not come in again");
    assert_eq!(home.money(), (0, 0, 0));
}

#[test]
fn a_caller_that_is_not_declared_any_more_is_nobody() {
    let shop = open(|conf| conf);
    let sidecar = shop.home.serve();
    let agent = agent(&sidecar);
    let mut tunnel = agent.straight("api.stripe.com", true).unwrap();
    assert_eq!(tunnel.ask(&Ask::get("/v1/payment_intents/pi_1")).status, 200);
    shop.home.write(&stripe_conf(shop.provider.addr()).text());
    kill_process(Pid::from_raw(sidecar.pid().cast_signed()).unwrap(), Signal::HUP).unwrap();
    until("the port to let nobody in", || agent.straight("api.stripe.com", true).err());
    tunnel.ask(&Ask::refund(REFUND)).assert_refused(403, "oncegate_denied");
    assert_eq!(shop.writes(), 0);
}

#[test]
fn env_gives_trust_and_no_proxy() {
    let shop = open(|conf| conf);
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.stop(), 0);
    let env = shop.home.run(&["env", "--as", "billing-agent", "--transparent", "--json"]);
    let env = env.json();
    let names: Vec<_> =
        env.as_object().unwrap().keys().filter(|name| name.to_lowercase().contains("proxy")).collect();
    assert!(names.is_empty(), "{names:?}");
    assert_eq!(env["SSL_CERT_FILE"], shop.home.path("ca/bundle.pem").to_str().unwrap());
    assert!(!env["JAVA_TOOL_OPTIONS"].as_str().unwrap().contains("proxy"), "{env}");
    let shell = shop.home.run(&["env", "--as", "billing-agent", "--transparent"]);
    assert!(shell.out.contains("unset HTTPS_PROXY\n"), "{shell:?}");
    assert_eq!(shop.home.run(&["env", "--as", "ops", "--transparent"]).code, 2, "it has no such port");
}
