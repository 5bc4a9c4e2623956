//! Plain hosts through `CONNECT`: some clients tunnel whatever the scheme is.

use std::io::Write;

use oncegate_tests::{
    agent::{Agent, Ask},
    answer::Answer,
    conf::Conf,
    provider::Provider,
    sidecar::{Home, Sidecar},
    wire::Wire,
};

const PLAIN: &str = "plain.test";

fn serving(provider: &Provider, undeclared: &str) -> (Home, Sidecar) {
    let host = format!("[hosts.\"{PLAIN}:80\"]\nconnect_to = \"{}\"\n", provider.addr());
    let action = format!("[actions.note]\nmethod = \"POST\"\nurl = \"http://{PLAIN}/v1/notes\"\n");
    let conf = Conf::default().proxy(&format!("undeclared_hosts = \"{undeclared}\""));
    let home = Home::new(&conf.with(&host).with(&action));
    let sidecar = home.serve();
    (home, sidecar)
}

/// Asks in clear inside a tunnel to port 80, each request on the same connection.
fn ask(agent: &Agent, host: &str, asks: &[Ask]) -> Vec<Answer> {
    let mut wire = agent.connect();
    let head = format!(
        "CONNECT {host}:80 HTTP/1.1\r\nHost: {host}:80\r\nProxy-Authorization: {}\r\n\r\n",
        agent.basic()
    );
    wire.stream.write_all(head.as_bytes()).unwrap();
    let opened = wire.head().unwrap().unwrap();
    assert!(opened.line.contains(" 200 "), "{opened:?}");
    let mut inside = Wire::new(wire.stream);
    let answered = asks.iter().map(|ask| {
        inside.stream.write_all(&ask.bytes(host)).unwrap();
        Answer::read(&mut inside, false).unwrap()
    });
    answered.collect()
}

fn note() -> Ask {
    Ask::json("/v1/notes", r#"{"a":1}"#)
}

#[test]
fn a_plain_host_is_governed_inside_a_tunnel_too() {
    for undeclared in ["deny", "tunnel"] {
        let provider = Provider::plain();
        let (home, sidecar) = serving(&provider, undeclared);
        let agent = sidecar.billing();
        let seen = ask(&agent, PLAIN, &[Ask::get("/v1/notes"), note(), note(), Ask::json("/v1/other", "{}")]);
        assert_eq!(seen[0].status, 200, "{:?}", seen[0]);
        assert_eq!((seen[1].status, seen[1].outcome()), (200, "succeeded"), "{:?}", seen[1]);
        assert_eq!(seen[2].header("x-idempotent-replay"), Some("current-state"), "{:?}", seen[2]);
        seen[3].assert_refused(403, "oncegate_undeclared");
        assert_eq!((provider.record().writes().len(), home.effects().len()), (1, 1), "{undeclared}");

        // What is asked for in absolute form is the same request.
        let whole = agent.absolute(PLAIN, &Ask::json("http://plain.test/v1/notes", r#"{"a":1}"#)).unwrap();
        assert_eq!(whole.effect(), seen[1].effect());

        let halted = sidecar.cli(&home, "ops", &["halt", "--reason", "stop"]);
        assert_eq!(halted.code, 0, "{halted:?}");
        let stopped = ask(&agent, PLAIN, &[Ask::json("/v1/notes", r#"{"a":2}"#)]);
        stopped[0].assert_refused(403, "oncegate_halted");
        assert_eq!(provider.record().writes().len(), 1, "{undeclared}");
    }
}

/// TLS inside is for a host that is declared so, and clear for one that is declared plain; a host that nobody declared is
/// refused on the `CONNECT`, but for port 443.
#[test]
fn what_nobody_declared_is_refused_before_anything_is_said_in_it() {
    let provider = Provider::plain();
    let (_home, sidecar) = serving(&provider, "deny");
    let agent = sidecar.billing();
    let refused = agent.tunnel_to("undeclared.test:80", "undeclared.test").err().unwrap();
    refused.assert_refused(403, "oncegate_undeclared");
    let mut tunnel = agent.tunnel_to(&format!("{PLAIN}:80"), PLAIN).ok().unwrap();
    tunnel.ask(&note()).assert_refused(403, "oncegate_undeclared");
    assert!(provider.record().requests().is_empty());
}
