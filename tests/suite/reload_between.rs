//! What came in before a reload and is admitted after it: never under the limits of neither.

use oncegate_tests::{agent::Ask, conf::Conf, gate::Gate, provider::Provider, script::Reply, sidecar::Home};

use crate::{
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

/// An action moves to another server, or another port: what came for where it was is held by no limit of either place.
#[test]
fn p5_what_came_before_an_action_moved_passes_no_limit_after_it() {
    const ELSEWHERE: &str = "eu.tickets.test";
    const BODY: &str = r#"{"amount":90000}"#;
    let provider = Provider::tls(&[DESK, ELSEWHERE]);
    let conf = |server: &str, currency: &str| {
        let pay = format!(
            "[actions.pay]\nmethod = \"POST\"\nurl = \"https://{server}/v1/pay\"\nimpact = {{ dimension = \"money\", currency = \"{currency}\", amount = \"input.amount\" }}\n[limits.paid]\ndimension = \"money\"\ncurrency = \"{currency}\"\nperiod = \"day\"\namount = 5000\naction = \"pay\""
        );
        let hosts = [DESK, ELSEWHERE, "tickets.test:8443"];
        hosts.iter().fold(Conf::default(), |conf, host| conf.host(host, provider.addr())).with(&pay).text()
    };
    for moved_to in [ELSEWHERE, "tickets.test:8443"] {
        let home = Home::new(&Conf::default());
        save(&home, &conf(DESK, "usd"));
        let sidecar = home.serve();
        let mut tunnel = sidecar.billing().tunnel(DESK);
        let ask = Ask::json("/v1/pay", BODY);
        tunnel.ask(&ask).assert_refused(403, "oncegate_limit_exceeded");
        let bytes = ask.bytes(DESK);
        let (first, rest) = bytes.split_at(bytes.len() - 3);
        tunnel.send(first).unwrap();
        save(&home, &conf(moved_to, "eur"));
        wait_log(&sidecar, TAKEN, 1);
        tunnel.send(rest).unwrap();
        tunnel.answer().unwrap().assert_refused(403, "oncegate_undeclared");
        assert!(provider.record().writes().is_empty(), "{moved_to}");
    }
}
