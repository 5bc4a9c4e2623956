//! The configuration changes while the sidecar runs: taken whole or not at all, without a restart.

use std::{fs, path::Path};

use oncegate_tests::{
    agent::{Agent, Ask},
    conf::{BILLING_KEY, Conf, FILE_FIRST, FILE_SECOND, digest, stripe_conf},
    gate::Gate,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
    wait::until,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    law::{call, data},
    secrets::credentials,
    shop::{DESK, REFUND, Shop, desk_conf, ticket, ticket_action},
};

const REFUSED: &str = "the configuration was not reloaded: the one before stays in force";
pub(crate) const TAKEN: &str = "the configuration was reloaded";

fn actions(sidecar: &Sidecar) -> Vec<String> {
    let listed = data(&call(sidecar, "ops", "GET", "/actions", ""));
    listed.as_array().unwrap().iter().map(|action| action["name"].as_str().unwrap().to_owned()).collect()
}

fn wait_actions(sidecar: &Sidecar, names: &[&str]) {
    until(&format!("the actions to be {names:?}"), || Some(()).filter(|()| actions(sidecar) == names));
}

pub(crate) fn wait_log(sidecar: &Sidecar, line: &str, times: usize) {
    until(&format!("{times} times in the log: {line}; now {}", sidecar.log()), || {
        Some(()).filter(|()| sidecar.log().matches(line).count() >= times)
    });
}

fn hang_up(sidecar: &Sidecar) {
    kill_process(Pid::from_raw(sidecar.pid().cast_signed()).unwrap(), Signal::HUP).unwrap();
}

/// As editors save: a new file in the old one's place.
pub(crate) fn save(home: &Home, text: &str) {
    fs::write(home.path("new.tmp"), text).unwrap();
    fs::rename(home.path("new.tmp"), home.config()).unwrap();
}

fn desk() -> (Provider, Home) {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()));
    (provider, home)
}

fn opens(agent: &Agent, path: &str, title: &str) -> u16 {
    agent.ask(DESK, &Ask::json(path, &ticket(title))).status
}

#[test]
fn an_action_that_is_added_is_served_without_a_restart() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let close = ticket_action("close-ticket", DESK).replace("/v1/tickets", "/v1/closed");
    assert_eq!(opens(&sidecar.billing(), "/v1/closed", "a"), 403);
    save(&home, &desk_conf(provider.addr()).with(&close).text());
    wait_actions(&sidecar, &["close-ticket", "open-ticket"]);
    assert_eq!(opens(&sidecar.billing(), "/v1/closed", "a"), 200);
    wait_log(&sidecar, "action close-ticket added", 1);
    // In place, as a shell's `>` does.
    home.write(&desk_conf(provider.addr()).text());
    wait_actions(&sidecar, &["open-ticket"]);
    assert_eq!(provider.record().writes().len(), 1);
}

#[test]
fn a_faulty_file_changes_nothing_and_says_so() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let faulty =
        desk_conf(provider.addr()).with("[actions.bad]\nmetod = \"POST\"\n[limits.bad]\namount = -1\n");
    save(&home, &faulty.text());
    wait_log(&sidecar, REFUSED, 1);
    let log = sidecar.log();
    for fault in ["unknown key `metod`; did you mean `method`?", "must be an integer from 0"] {
        assert!(log.contains(fault), "{fault} is not in {log}");
    }
    assert_eq!(actions(&sidecar), ["open-ticket"]);
    assert_eq!(opens(&sidecar.billing(), "/v1/tickets", "a"), 200);
    // The same faulty text once more says nothing new; a good one is taken.
    save(&home, &desk_conf(provider.addr()).with(&ticket_action("other", DESK).replace("/v1", "/v2")).text());
    wait_actions(&sidecar, &["open-ticket", "other"]);
    assert_eq!(sidecar.log().matches(REFUSED).count(), 1, "{}", sidecar.log());
}

#[test]
fn hangup_reloads_and_ends_nothing() {
    let (_provider, home) = desk();
    let mut sidecar = home.serve();
    hang_up(&sidecar);
    wait_log(&sidecar, TAKEN, 1);
    // What no text of the configuration shows.
    let trusted = fs::read(home.path("upstream-ca.pem")).unwrap();
    fs::write(home.path("upstream-ca.pem"), "no certificate").unwrap();
    hang_up(&sidecar);
    wait_log(&sidecar, REFUSED, 1);
    assert!(sidecar.log().contains("upstream-ca.pem cannot be used"), "{}", sidecar.log());
    assert_eq!(opens(&sidecar.billing(), "/v1/tickets", "a"), 200);
    fs::write(home.path("upstream-ca.pem"), trusted).unwrap();
    hang_up(&sidecar);
    wait_log(&sidecar, TAKEN, 2);
    assert!(sidecar.alive());
    assert_eq!(opens(&sidecar.billing(), "/v1/tickets", "b"), 200);
}

#[test]
fn what_is_taken_away_is_printed() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    save(&home, &Conf::default().host(DESK, provider.addr()).text());
    wait_actions(&sidecar, &[]);
    wait_log(&sidecar, TAKEN, 1);
    let log = sidecar.log();
    for said in ["action open-ticket removed", "limit tickets-per-day removed"] {
        let line = log.lines().find(|line| line.contains(said)).unwrap_or_else(|| panic!("{said}: {log}"));
        assert!(line.contains("WARN"), "{line}");
    }
    let limits = data(&call(&sidecar, "ops", "GET", "/impact-limits", ""));
    assert_eq!(limits, json!([]), "the record knows it too");
    assert_eq!(opens(&sidecar.billing(), "/v1/tickets", "a"), 403);
}

/// `check` calls it a fault; a start and a reload do without, since it is fetched for each request.
#[test]
fn a_secret_that_cannot_be_had_is_said() {
    let (provider, home) = desk();
    let secret = "[secrets.PAY]\nfrom = { env = \"NO_SUCH\" }\nallowed_hosts = [\"pay.example\"]\n";
    let said = "WARN secret PAY: the environment variable NO_SUCH is not set";
    let sidecar = home.serve();
    save(&home, &format!("{}\n{secret}", desk_conf(provider.addr()).text()));
    wait_log(&sidecar, said, 1);
    sidecar.stop();
    wait_log(&home.serve(), said, 1);
}

#[test]
fn what_cannot_change_while_it_runs_is_named() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let text = desk_conf(provider.addr()).text().replace("path = \"oncegate.db\"", "path = \"other.db\"");
    save(&home, &text);
    wait_log(&sidecar, "[store] was changed: that takes effect at the next start", 1);
    assert_eq!(opens(&sidecar.billing(), "/v1/tickets", "a"), 200);
    assert!(!home.path("other.db").exists());
}

/// A key that nobody else has, and the text with its hash in the old one's place.
fn rotated(text: &str) -> (&'static str, String) {
    let key = "og_billing_second_4b7e";
    let (old, new) = (digest(BILLING_KEY), digest(key));
    assert!(text.contains(&old));
    (key, text.replace(&old, &new))
}

#[test]
fn a_revoked_key_is_refused_inside_an_open_tunnel() {
    let (provider, home) = desk();
    let sidecar = home.serve();
    let agent = sidecar.billing();
    let mut tunnel = agent.tunnel(DESK);
    let ask = |title: &str| Ask::json("/v1/tickets", &ticket(title));
    assert_eq!(tunnel.ask(&ask("a")).status, 200);
    let (key, text) = rotated(&desk_conf(provider.addr()).text());
    // Both are valid while the key is being replaced.
    let old = digest(BILLING_KEY);
    let new = digest(key);
    let both = text.replace(&format!("\"{new}\""), &format!("[\"{new}\", \"{old}\"]"));
    save(&home, &both);
    wait_log(&sidecar, "caller billing-agent changed", 1);
    assert_eq!(tunnel.ask(&ask("b")).status, 200);
    let renewed = agent.authorized(Some(&format!("Bearer {key}")));
    assert_eq!(renewed.ask(DESK, &ask("c")).status, 200);

    save(&home, &text);
    wait_log(&sidecar, "caller billing-agent changed", 2);
    tunnel.ask(&ask("d")).assert_own(403, "oncegate_denied");
    assert_eq!(agent.tunnel_to(&format!("{DESK}:443"), DESK).err().unwrap().status, 407);
    assert_eq!(renewed.ask(DESK, &ask("e")).status, 200);
    assert_eq!(provider.record().writes().len(), 4, "what was refused was not sent");
    assert!(!sidecar.log().contains(&old), "no hash in the log");
}

#[test]
fn whoever_loses_a_listener_of_their_own_is_refused_there() {
    let (provider, home) = desk();
    let path = home.path("own.sock");
    let own = format!("listen = \"unix:{}\"\nscopes = [\"actions:invoke\"]", path.display());
    let text = desk_conf(provider.addr()).text().replacen("scopes = [\"actions:invoke\"]", &own, 1);
    home.write(&text);
    let sidecar = home.serve();
    let status = || connect_through(&path);
    assert!(status().contains(" 200 "), "{}", status());
    save(&home, &desk_conf(provider.addr()).text());
    wait_log(&sidecar, "caller billing-agent changed", 1);
    assert!(status().contains(" 407 "), "{}", status());
}

/// The first line of the answer to a `CONNECT` without a key.
fn connect_through(socket: &Path) -> String {
    use std::io::{BufRead, BufReader, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(oncegate_tests::wait::PATIENCE)).unwrap();
    stream.write_all(format!("CONNECT {DESK}:443 HTTP/1.1\r\nHost: {DESK}:443\r\n\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn a_rotated_secret_is_used_inside_an_open_tunnel() {
    let shop = Shop::open_with(|at| {
        let conf = stripe_conf(at);
        Conf {
            rest: conf.rest.replace("{ env = \"STRIPE_SECRET_KEY\" }", "{ file = \"stripe.key\" }"),
            ..conf
        }
    });
    shop.home.write_secret("stripe.key", &format!("{FILE_FIRST}\n"));
    let sidecar = shop.home.serve_traced();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    assert_eq!(tunnel.ask(&Ask::refund(REFUND)).status, 200);
    shop.home.write_secret("stripe.key", &format!("{FILE_SECOND}\n"));
    assert_eq!(tunnel.ask(&Ask::refund("payment_intent=pi_2&amount=100")).status, 200);
    assert_eq!(credentials(&shop), [format!("Bearer {FILE_FIRST}"), format!("Bearer {FILE_SECOND}")]);
}

#[test]
fn a_request_on_its_way_keeps_the_configuration_it_began_with() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    let refund = r#"{"id":"re_1","object":"refund","status":"succeeded","amount":12000}"#;
    shop.provider.on_write(Reply::json("200 OK", refund).after(&gate));
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    tunnel.start(&Ask::refund(REFUND));
    shop.provider.record().wait_writes(1);
    save(&shop.home, &Conf::default().text());
    wait_actions(&sidecar, &[]);
    gate.open();
    let answer = tunnel.answer().unwrap();
    assert_eq!((answer.status, &answer.json()["id"]), (200, &json!("re_1")), "{answer:?}");
    tunnel.ask(&Ask::refund("payment_intent=pi_2&amount=1")).assert_refused(403, "oncegate_undeclared");
    assert_eq!(shop.writes(), 1);
}

#[test]
fn edits_through_the_api_are_judged_with_the_files_of_this_moment() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let limit = r#"{"name":"first","dimension":"money","currency":"usd","period":"total","amount":1}"#;
    assert_eq!(call(&sidecar, "ops", "POST", "/impact-limits", limit).status, 201);
    let text = fs::read_to_string(shop.home.config()).unwrap();
    // A person is in the middle of an edit.
    save(&shop.home, &format!("{text}\n[actions.half"));
    let next = limit.replace("first", "other");
    let refused = call(&sidecar, "ops", "POST", "/impact-limits", &next);
    crate::law::says_no(&refused, 409, "CONFLICT", "configuration_faulty");
    let dir = shop.home.dir().display().to_string();
    assert!(!refused.everything().contains(&dir), "no path of this machine: {refused:?}");
    save(&shop.home, &text);
    let made = until("the limit to be taken", || {
        Some(call(&sidecar, "ops", "POST", "/impact-limits", &next)).filter(|answer| answer.status < 300)
    });
    assert_eq!(data(&made)["name"], "other");
    let names = |listed: &Value| -> Vec<String> {
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let there = names(&data(&call(&sidecar, "ops", "GET", "/impact-limits", "")));
    assert_eq!(there.len(), 3, "{there:?}");
    // And what a person changes in `managed/` counts as well.
    fs::remove_file(shop.home.path("managed/limits.toml")).unwrap();
    until("the limits to be those of the file", || {
        let listed = data(&call(&sidecar, "ops", "GET", "/impact-limits", ""));
        Some(()).filter(|()| names(&listed) == ["refunds-per-day"])
    });
}

#[test]
fn a_key_under_another_name_is_said() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    sidecar.billing().refund(None, REFUND).assert_unknown();
    let text = fs::read_to_string(shop.home.config()).unwrap();
    shop.home.write(&text.replace("[callers.billing-agent]", "[callers.chief]"));
    let said = "caller chief has a key that was billing-agent's";
    wait_log(&sidecar, said, 1);
    let log = sidecar.log();
    let line = log.lines().find(|line| line.contains(said)).unwrap();
    assert!(line.contains("of which 1 effects are not settled"), "{line}");
}

/// What is left of a file that was cut off: nobody could halt, deny or resolve under it.
#[test]
fn a_file_without_callers_is_not_taken() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let good = fs::read_to_string(shop.home.config()).unwrap();
    shop.home.write("");
    wait_log(&sidecar, REFUSED, 1);
    assert!(sidecar.log().contains("it takes every caller away"), "{}", sidecar.log());
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200, "the one before stays in force");
    let checked = shop.home.run(&["check"]);
    assert!(checked.code == 0 && checked.out.contains("warning: there are no callers"), "{checked:?}");
    shop.home.write(&format!("{good}\n"));
    wait_log(&sidecar, TAKEN, 1);
}
