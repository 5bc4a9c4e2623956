//! Every case of `matching.toml`, over real sockets: which action a request means.

use oncegate_tests::{
    agent::{Agent, Ask},
    answer::Answer,
    conf::Conf,
    provider::Provider,
    script::Reply,
    sidecar::Home,
};
use serde_json::json;
use toml::Table;

use crate::{
    cases::{attempt, load, must, text},
    shop::{DESK, desk_conf},
};

const HOST: &str = "api.stripe.com";

fn conf(at: std::net::SocketAddr) -> Conf {
    Conf::default().stripe_host(at).with(
        r#"
[actions.refund]
method = "POST"
url = "https://api.stripe.com/v1/refunds"

[actions.capture]
method = "POST"
url = "https://api.stripe.com/v1/charges/{{input.charge}}/capture"
subject = "{{input.charge}}"
"#,
    )
}

#[test]
fn matching_cases() {
    let provider = Provider::tls(&[HOST]);
    let home = Home::new(&conf(provider.addr()));
    let sidecar = home.serve();
    let cases = load("matching.toml");
    assert!(cases.len() >= 24, "only {} cases", cases.len());
    let mut wrong = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let before = provider.record().requests().len();
        let expect = must(case, "expect");
        // Actions lose their answer, so that the view of open effects tells which action it was.
        let action = matches!(expect, "refund" | "capture");
        if action {
            provider.on_write(Reply::lost());
        }
        let name = format!("{} (connect {:?})", must(case, "request"), text(case, "connect"));
        let played = attempt(&name, || {
            let answer = play(&sidecar.billing(), case, number);
            let sent = provider.record().requests().len() - before;
            judge(&home, case, &answer, sent).map_err(|e| format!("{name}: {e}; {answer:?}"))
        });
        wrong.extend(played.err());
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    let plain = provider.record().all_bytes();
    assert!(!String::from_utf8_lossy(&plain).contains("//refunds"), "an ambiguous path went out");
}

fn play(agent: &Agent, case: &Table, number: usize) -> Answer {
    let (method, target) = must(case, "request").split_once(' ').unwrap();
    if method == "CONNECT" {
        return agent.tunnel_to(target, HOST).err().expect("a refused CONNECT");
    }
    let mut ask = Ask::new(method, target);
    if !matches!(method, "GET" | "HEAD" | "TRACE") {
        ask = Ask::form(target, &format!("n={number}"));
        ask.method = method.to_owned();
    }
    for (name, value) in case.get("headers").and_then(toml::Value::as_table).into_iter().flatten() {
        ask = ask.field(name, value.as_str().unwrap());
    }
    if target.starts_with("http://") {
        return agent.absolute(HOST, &ask).unwrap();
    }
    let authority = text(case, "connect").unwrap_or("api.stripe.com:443");
    match agent.tunnel_to(authority, text(case, "sni").unwrap_or(HOST)) {
        Ok(mut tunnel) => tunnel.ask(&ask),
        Err(refused) => refused,
    }
}

fn judge(home: &Home, case: &Table, answer: &Answer, sent: usize) -> Result<(), String> {
    let expect = must(case, "expect");
    match expect {
        "refund" | "capture" => {
            answer.assert_unknown();
            let row = home.unresolved().into_iter().find(|row| row["id"] == answer.effect());
            let row = row.ok_or("no open effect")?;
            let input = case.get("input").and_then(|i| i.get("charge")).and_then(toml::Value::as_str);
            if row["action"] != expect || input.is_some_and(|charge| row["subject"] != json!(charge)) {
                return Err(format!("it was taken for {row}"));
            }
            if sent == 1 { Ok(()) } else { Err(format!("sent {sent} times")) }
        }
        "passthrough" => {
            let through = answer.status == 200 && sent == 1 && answer.header("oncegate-effect").is_none();
            if through { Ok(()) } else { Err(format!("did not pass; sent {sent} times")) }
        }
        code => {
            let status = if code == "invalid_request" { 400 } else { 403 };
            let wanted = (status, format!("oncegate_{code}"));
            let got = (answer.status, answer.code().to_owned());
            if sent > 0 || got != wanted || answer.outcome() != "refused" {
                return Err(format!("{got:?} instead of {wanted:?}; sent {sent} times"));
            }
            Ok(())
        }
    }
}

/// Each refusal is kept, and what an agent writes into it is not for it to choose.
#[test]
fn a_refusal_keeps_little_of_what_it_refuses() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()));
    let sidecar = home.serve();
    let long = format!("/{}", "a".repeat(8_000));
    sidecar.billing().ask(DESK, &Ask::json(&long, "{}")).assert_refused(403, "oncegate_undeclared");
    let rows = home
        .query("SELECT length(text) AS text, length(detail) AS detail FROM event WHERE text LIKE '%aaaa%'");
    assert_eq!(rows.len(), 1, "{rows:?}");
    let letters = rows[0]["text"].as_u64().unwrap() + rows[0]["detail"].as_u64().unwrap();
    assert!(letters < 400, "{letters} letters for one refusal");
}
