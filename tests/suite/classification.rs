//! Every case of `classification.toml`, over real sockets: what the wire showed, and what that means.
//!
//! Here: the cases that a provider's bytes decide. Those that take a deadline, a peer that cannot be reached or a
//! process of their own are in [`crate::classification_slow`].

use std::collections::BTreeMap;

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    conf::Conf,
    provider::Provider,
    script::{Act, Reply, When},
    sidecar::Home,
};
use toml::Table;

use crate::{
    cases::{attempt, load, must, text},
    classification_slow,
    shop::{DESK, TICKETS_PER_DAY, ticket, ticket_action},
};

/// What a case must come to.
pub(crate) struct Expected<'c> {
    pub(crate) wire: &'c str,
    pub(crate) outcome: &'c str,
    pub(crate) told: &'c str,
}

#[test]
fn classification_cases() {
    let cases = load("classification.toml");
    assert!(cases.len() >= 34, "only {} cases", cases.len());
    let bench = Bench::new();
    let mut wrong = Vec::new();
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for case in cases.iter().filter(|case| !classification_slow::takes(must(case, "wire"))) {
        match (text(case, "provider"), script(must(case, "wire"))) {
            (None, Some(script)) => {
                *sums.entry(must(case, "outcome")).or_default() += 1;
                *sums.entry("succeeded").or_default() += script.before;
                wrong.extend(attempt(must(case, "wire"), || bench.play(case, script)).err());
            }
            (Some("stripe.refund"), Some(script)) => {
                wrong.extend(attempt("stripe", || bench.play_refund(case, script)).err());
            }
            (Some("github.file_update"), Some(script)) => {
                wrong.extend(attempt("github", || bench.play_file(case, script)).err());
            }
            (provider, _) => panic!("a case that no test knows: {provider:?} {case}"),
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    // Successes are consumed, unknowns are held, and failures have let go.
    let row = bench.home.exposure("tickets-per-day");
    assert_eq!(row["consumed"].as_u64(), sums.get("succeeded").copied(), "{row}; {sums:?}");
    assert_eq!(row["reserved"].as_u64(), sums.get("unknown").copied(), "{row}; {sums:?}");
    assert_eq!(row["unknown_exposure"], row["reserved"], "{row}");
    assert_eq!(bench.elsewhere.record().connections(), 0, "a redirect was followed");
}

#[test]
fn every_case_is_played_somewhere() {
    for case in load("classification.toml") {
        let wire = must(&case, "wire");
        assert_ne!(script(wire).is_some(), classification_slow::takes(wire), "played once: {wire}");
    }
}

/// What the provider does, after so many successes on the same connection.
struct Script {
    before: u64,
    reply: Reply,
    body_bytes: usize,
}

fn script(wire: &str) -> Option<Script> {
    let plain = |reply| Some(Script { before: 0, reply, body_bytes: 0 });
    let ok = || Reply::json("200 OK", r#"{"ok":true}"#);
    let second = |reply| Some(Script { before: 1, reply, body_bytes: 0 });
    let large = |reply| Some(Script { before: 0, reply, body_bytes: 900_000 });
    let refuse = |status| plain(Reply::json(status, r#"{"error":"no"}"#));
    let later = |status| plain(Reply::with(status, &[("Retry-After", "1")], r#"{"error":"no"}"#));
    let to = |status, place| plain(Reply::with(status, &[("Location", place)], "{}"));
    if let Some(body) = wire.strip_prefix("409 ") {
        return plain(Reply::json("409 Conflict", body));
    }
    match wire {
        "kept-alive connection accepts the bytes, then resets" => second(Reply::reset()),
        "reset after half of the request body was written" => large(Reply::reset().at(When::Body(450_000))),
        "HTTP/1.1 200 with a complete body" => plain(ok()),
        "HTTP/1.1 200 head, body cut after 10 of 400 bytes" => {
            plain(Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n0123456789").then(Act::Close))
        }
        "HTTP/1.1 200 head with a garbled chunk length" => plain(
            Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n")
                .then(Act::Close),
        ),
        "HTT" => plain(Reply::raw("HTT").then(Act::Close)),
        "100 Continue, then close" => plain(Reply::raw("HTTP/1.1 100 Continue\r\n\r\n").then(Act::Close)),
        "103 Early Hints, then 201" => {
            let hints = Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n");
            let created = Reply::json("201 Created", r#"{"id":1}"#).acts;
            plain(created.into_iter().fold(hints, Reply::then))
        }
        "400" => refuse("400 Bad Request"),
        "402" => refuse("402 Payment Required"),
        "404" => refuse("404 Not Found"),
        "408" => refuse("408 Request Timeout"),
        "409" => refuse("409 Conflict"),
        "425 Too Early" => refuse("425 Too Early"),
        "500" => refuse("500 Internal Server Error"),
        "429 with Retry-After: 1" => later("429 Too Many Requests"),
        "503 with Retry-After: 1" => later("503 Service Unavailable"),
        "303 See Other with Location" => to("303 See Other", "/v1/tickets/1"),
        "307 Temporary Redirect to another host" => {
            to("307 Temporary Redirect", "https://elsewhere.test/v1/tickets")
        }
        "early 413 while the request body is still being written, then close" => {
            let fields = [("Connection", "close")];
            large(Reply::with("413 Content Too Large", &fields, "{}").at(When::Head).then(Act::Close))
        }
        "two answers on one connection for one request" => {
            let [Act::Send(one)] = &ok().acts[..] else { unreachable!("one answer") };
            plain(Reply::raw([one.as_slice(), one.as_slice()].concat()))
        }
        "200 without length, TLS closed with close_notify" => {
            plain(Reply::raw("HTTP/1.1 200 OK\r\n\r\n{}").then(Act::Close))
        }
        "200 without length, connection ends without close_notify" => {
            plain(Reply::raw("HTTP/1.1 200 OK\r\n\r\n{}").then(Act::Fin))
        }
        _ => None,
    }
}

const GITHUB: &str = r#"
[secrets.GITHUB_TOKEN]
from = { env = "STRIPE_SECRET_KEY" }
allowed_hosts = ["api.github.com"]

[actions.put]
adapter = { type = "github.file_update", repository = "owner/name" }
credential_secret = "GITHUB_TOKEN"
"#;

struct Bench {
    provider: Provider,
    stripe: Provider,
    github: Provider,
    elsewhere: Provider,
    home: Home,
    sidecar: oncegate_tests::sidecar::Sidecar,
}

impl Bench {
    fn new() -> Bench {
        let provider = Provider::tls(&[DESK]);
        provider.narrow();
        let stripe = Provider::tls(&["api.stripe.com"]);
        let github = Provider::tls(&["api.github.com"]);
        let elsewhere = Provider::tls(&["elsewhere.test"]);
        let conf = Conf::default()
            .host(DESK, provider.addr())
            .host("elsewhere.test", elsewhere.addr())
            .stripe_host(stripe.addr())
            .refund("")
            .host("api.github.com", github.addr())
            .with(GITHUB)
            .with(&ticket_action("open-ticket", DESK))
            .with(TICKETS_PER_DAY);
        let home = Home::new(&conf);
        let sidecar = home.serve();
        Bench { provider, stripe, github, elsewhere, home, sidecar }
    }

    fn play(&self, case: &Table, script: Script) -> Result<(), String> {
        let wire = must(case, "wire");
        let agent = self.sidecar.billing();
        let mut tunnel = agent.tunnel(DESK);
        for round in 0..script.before {
            let warm = tunnel.ask(&Ask::json("/v1/tickets", &ticket(&format!("before {wire} {round}"))));
            assert_eq!(warm.status, 200, "{warm:?}");
        }
        let answered = script.reply.clone();
        self.provider.on_write(script.reply);
        let note = "n".repeat(script.body_bytes);
        let title = wire.replace(['"', '\\'], "'");
        let body = format!(r#"{{"title":"{title}","note":"{note}"}}"#);
        let before = self.provider.record().writes().len();
        let reads = self.provider.record().requests().len() - before;
        let answer = tunnel.ask(&Ask::json("/v1/tickets", &body));
        let writes = self.provider.record().writes().len() - before;
        judge(&self.home, &Expected::of(case), &answer, Some(&answered))?;
        let allowed = case.get("writes_seen").and_then(toml::Value::as_integer).unwrap_or(1);
        if i64::try_from(writes).unwrap() != allowed {
            return Err(format!("{wire}: {writes} writes reached the provider"));
        }
        let looked = self.provider.record().requests().len() - self.provider.record().writes().len() - reads;
        if looked > 0 { Err(format!("{wire}: something was fetched, a redirect perhaps")) } else { Ok(()) }
    }

    fn play_refund(&self, case: &Table, script: Script) -> Result<(), String> {
        let answered = script.reply.clone();
        self.stripe.on_write(script.reply);
        let answer = self.sidecar.billing().refund(None, "payment_intent=pi_1&amount=100");
        judge(&self.home, &Expected::of(case), &answer, Some(&answered))?;
        let writes = self.stripe.record().writes().len();
        if writes == 1 { Ok(()) } else { Err(format!("stripe: {writes} writes")) }
    }

    fn play_file(&self, case: &Table, script: Script) -> Result<(), String> {
        let answered = script.reply.clone();
        self.github.on_write(script.reply);
        let body = r#"{"message":"m","content":"aGk=","sha":"3d21ec53a331a6f037a91c368710b99387d012c1","branch":"main"}"#;
        let ask = Ask { method: "PUT".into(), ..Ask::json("/repos/owner/name/contents/doc.md", body) };
        let answer = self.sidecar.billing().ask("api.github.com", &ask);
        judge(&self.home, &Expected::of(case), &answer, Some(&answered))?;
        let writes = self.github.record().writes().len();
        if writes == 1 { Ok(()) } else { Err(format!("github: {writes} writes")) }
    }
}

impl<'c> Expected<'c> {
    pub(crate) fn of(case: &'c Table) -> Expected<'c> {
        let outcome = must(case, "outcome");
        Expected { wire: must(case, "wire"), outcome, told: text(case, "agent_was_told").unwrap_or(outcome) }
    }
}

/// What the agent was told, and what was recorded. `answered` is what the provider said, if it said something.
pub(crate) fn judge(
    home: &Home,
    expected: &Expected<'_>,
    answer: &Answer,
    answered: Option<&Reply>,
) -> Result<(), String> {
    let Expected { wire, outcome, told } = expected;
    if answer.outcome() != *told {
        return Err(format!("{wire}: the agent was told {}, not {told}: {answer:?}", answer.outcome()));
    }
    if !answer.complete || answer.header("retry-after").is_some() || answer.header("location").is_some() {
        return Err(format!("{wire}: not an answer for an agent: {answer:?}"));
    }
    match *told {
        "unknown" => drop(answer.assert_unknown()),
        "failed" if answered.is_none() => drop(answer.assert_own(422, "oncegate_not_sent")),
        _ => {
            let Some(Act::Send(bytes)) =
                answered.and_then(|r| r.acts.iter().rfind(|a| matches!(a, Act::Send(_))))
            else {
                return Err(format!("{wire}: nothing to compare {answer:?} with"));
            };
            let said = String::from_utf8_lossy(bytes);
            if !said.starts_with(&format!("HTTP/1.1 {} ", answer.status)) || !said.ends_with(&answer.text()) {
                return Err(format!("{wire}: not as the provider gave it: {answer:?}"));
            }
        }
    }
    let effect = home.wait_outcome(&answer.effect(), outcome);
    let open = home.unresolved().iter().any(|row| row["id"] == effect["id"]);
    if open == (*outcome == "unknown") { Ok(()) } else { Err(format!("{wire}: open is {open}: {effect}")) }
}
