//! What came in before a reload and is admitted after it: never under the limits of neither.

use oncegate_tests::{
    agent::{Ask, Tunnel},
    conf::Conf,
    gate::Gate,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
};

use crate::{
    law::call,
    reload::{TAKEN, save, wait_log},
    shop::{DESK, Shop},
};

/// One charge a day of the 500 dollars that its limit lets through.
const LIMIT: &str = "[limits.refunds-per-day]\ndimension = \"money\"\ncurrency = \"usd\"\nperiod = \"day\"\namount = 50000\naction = \"refund\"\n";
/// The same adapter, for one charge.
const SPECIAL: &str = "[actions.special]\nadapter = { type = \"stripe.refund\", account = \"acct_1Nxyz\", mode = \"test\", currency = \"usd\" }\ncredential_secret = \"STRIPE_KEY\"\nwhen = [{ path = \"input.charge\", equals = \"ch_1\" }]\n";
/// Held in its plan by the read of its charge, and more than its limit lets through.
const LARGE: &str = "charge=ch_1&amount=90000";
const CHARGE: &str =
    r#"{"object":"charge","id":"ch_1","payment_intent":"pi_1","currency":"usd","amount":90000}"#;

#[test]
fn p5_what_was_planned_before_a_reload_passes_no_limit_after_it() {
    type Edit = fn(String) -> String;
    let renamed: Edit =
        |text| text.replace("[actions.refund]", "[actions.refund-eu]").replace("\"refund\"", "\"refund-eu\"");
    let taken_over: Edit = |text| text.replace("action = \"refund\"", "action = \"special\"") + SPECIAL;
    for (what, edit) in [("renamed with its limit", renamed), ("taken over with its limit", taken_over)] {
        let shop = Shop::open_with(|at| Conf::default().stripe_host(at).refund("").with(LIMIT));
        let sidecar = shop.home.serve();
        let gate = Gate::default();
        shop.provider.on_read(Reply::json("200 OK", CHARGE).after(&gate));
        let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
        tunnel.start(&Ask::refund(LARGE));
        shop.provider.record().wait_for("the read of the charge", |all| !all.is_empty());
        let text = Conf::default().stripe_host(shop.provider.addr()).refund("").with(LIMIT).text();
        save(&shop.home, &edit(text));
        wait_log(&sidecar, TAKEN, 1);
        gate.open();
        tunnel.answer().unwrap().assert_refused(403, "oncegate_undeclared");
        shop.provider.on_read(Reply::json("200 OK", CHARGE));
        tunnel.ask(&Ask::refund(LARGE)).assert_refused(403, "oncegate_limit_exceeded");
        assert_eq!(shop.writes(), 0, "{what}");
    }
}

/// One charge of 900 dollars, whose last bytes are still to come.
fn held(sidecar: &Sidecar) -> (Tunnel, Vec<u8>) {
    let ask = Ask::json("/v1/pay", r#"{"amount":90000}"#);
    let mut tunnel = sidecar.billing().tunnel(DESK);
    tunnel.ask(&ask).assert_refused(403, "oncegate_limit_exceeded");
    let mut bytes = ask.bytes(DESK);
    let rest = bytes.split_off(bytes.len() - 3);
    tunnel.send(&bytes).unwrap();
    (tunnel, rest)
}

/// An action, and a limit of 50 for it alone.
fn pay(name: &str, server: &str, currency: &str) -> String {
    format!(
        "[actions.{name}]\nmethod = \"POST\"\nurl = \"https://{server}/v1/pay\"\nimpact = {{ dimension = \"money\", currency = \"{currency}\", amount = \"input.amount\" }}\n[limits.of-{name}]\ndimension = \"money\"\ncurrency = \"{currency}\"\nperiod = \"day\"\namount = 5000\naction = \"{name}\""
    )
}

/// An action moves to another server, or another port: what came for where it was is held by no limit of either place.
#[test]
fn p5_what_came_before_an_action_moved_passes_no_limit_after_it() {
    const ELSEWHERE: &str = "eu.tickets.test";
    let provider = Provider::tls(&[DESK, ELSEWHERE]);
    let conf = |server: &str, currency: &str| {
        let hosts = [DESK, ELSEWHERE, "tickets.test:8443"].iter();
        let hosts = hosts.fold(Conf::default(), |conf, host| conf.host(host, provider.addr()));
        hosts.with(&pay("pay", server, currency))
    };
    for moved_to in [ELSEWHERE, "tickets.test:8443"] {
        let home = Home::new(&conf(DESK, "usd"));
        let sidecar = home.serve();
        let (mut tunnel, rest) = held(&sidecar);
        save(&home, &conf(moved_to, "eur").text());
        wait_log(&sidecar, TAKEN, 1);
        tunnel.send(&rest).unwrap();
        tunnel.answer().unwrap().assert_refused(403, "oncegate_undeclared");
        assert!(provider.record().writes().is_empty(), "{moved_to}");
    }
}

/// An edit through the API takes what else stands in the files with it, before their watcher does.
#[test]
fn p5_what_an_edit_through_the_api_takes_along_is_a_reload() {
    const LIMIT: &str = r#"{"name":"mine","dimension":"resource_mutations","period":"day","amount":5}"#;
    const SECRET: &str = r#"{"value":"v","allowedHosts":["tickets.test"]}"#;
    const ACTION: &str = r#"{"name":"other","method":"POST","urlTemplate":"https://other.test/x"}"#;
    let provider = Provider::tls(&[DESK]);
    let conf = |name: &str| {
        let hosts = Conf::default().host(DESK, provider.addr()).host("other.test", provider.addr());
        hosts.with(&pay(name, DESK, "usd"))
    };
    for (method, path, body) in
        [("POST", "/impact-limits", LIMIT), ("PUT", "/secrets/NEW", SECRET), ("POST", "/actions", ACTION)]
    {
        let home = Home::new(&conf("pay"));
        let sidecar = home.serve();
        let (mut tunnel, rest) = held(&sidecar);
        save(&home, &conf("pay-eu").text());
        let edited = call(&sidecar, "ops", method, path, body);
        assert!([200, 201].contains(&edited.status), "{path}: {edited:?}");
        tunnel.send(&rest).unwrap();
        tunnel.answer().unwrap().assert_refused(403, "oncegate_undeclared");
        assert!(provider.record().writes().is_empty(), "{path}");
    }
}

/// What is passed on and not recorded is governed, or denied, by the configuration that stands when its last byte comes.
#[test]
fn p10_what_came_to_be_passed_on_is_not_after_a_reload() {
    let provider = Provider::tls(&[DESK]);
    let conf = |rest: &str| Conf::default().host(DESK, provider.addr()).with(rest);
    let free = pay("pay", DESK, "usd");
    let free = format!("{}\ngoverned = false\n", free.lines().take(3).collect::<Vec<_>>().join("\n"));
    let other = "[actions.other]\nmethod = \"POST\"\nurl = \"https://tickets.test/other\"\n";
    for (what, after) in [("governed", pay("pay", DESK, "usd")), ("denied", other.to_owned())] {
        let home = Home::new(&conf(&free));
        let sidecar = home.serve();
        let mut tunnel = sidecar.billing().tunnel(DESK);
        let bytes = Ask::json("/v1/pay", r#"{"amount":90000}"#).bytes(DESK);
        let (first, rest) = bytes.split_at(bytes.len() - 3);
        tunnel.send(first).unwrap();
        save(&home, &conf(&after).text());
        wait_log(&sidecar, TAKEN, 1);
        tunnel.send(rest).unwrap();
        let answer = tunnel.answer().unwrap();
        assert_eq!(answer.status, 403, "{what}: {answer:?}");
        assert!(provider.record().writes().is_empty(), "{what}");
    }
}
