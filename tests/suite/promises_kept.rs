//! The promises of DESIGN section 1, each in a test with its name: P6 to P10.

use oncegate_tests::{
    agent::Ask,
    binary::Build,
    conf::{CREDENTIAL, CREDENTIAL_ENV, Conf, stripe_conf},
    gate::Gate,
    provider::Provider,
    script::Reply,
    sidecar::{Home, finish},
    wait::until,
};
use serde_json::json;

use crate::shop::{DESK, KEYS, REFUND, Shop, VARIED, ticket_action};

#[test]
fn p6_a_repeat_never_reaches_the_provider() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
    assert_eq!((first.status, first.outcome()), (200, "succeeded"));
    for key in [Some("refund:ord_1"), Some(KEYS[0]), None] {
        let repeat = sidecar.billing().refund(key, REFUND);
        assert_eq!((repeat.status, &repeat.body), (200, &first.body), "{key:?}: {repeat:?}");
        assert_eq!(repeat.header("x-idempotent-replay"), Some("current-state"), "{key:?}");
        assert_eq!(repeat.reason, "OK (recorded; not sent again)", "{key:?}");
        assert_eq!(repeat.effect(), first.effect());
    }
    let reuse = sidecar.billing().refund(Some("refund:ord_1"), VARIED);
    reuse.assert_refused(400, "oncegate_key_reuse");
    assert_eq!(reuse.json()["error"]["type"], "idempotency_error");
    assert_eq!(shop.writes(), 1);
    assert_eq!(shop.home.effects().len(), 1, "a refusal makes no effect");

    shop.books.lose(1);
    let lost = sidecar.billing().refund(None, "payment_intent=pi_2&amount=100");
    lost.assert_unknown();
    let varied = sidecar.billing().refund(Some("refund:ord_2"), "payment_intent=pi_2&amount=90");
    varied.assert_own(422, "oncegate_unresolved_effect");
    assert!(varied.text().contains(&lost.effect()));
    assert_eq!(shop.writes(), 2);
}

#[test]
fn p7_the_agent_never_holds_the_credential() {
    let books = oncegate_tests::stripe::Stripe::default();
    let stripe = books.serve();
    let desk = Provider::tls(&[DESK]);
    let home =
        Home::new(&stripe_conf(stripe.addr()).host(DESK, desk.addr()).with(&ticket_action("open", DESK)));
    let sidecar = home.serve();
    let refund = sidecar.billing().refund(None, REFUND);
    assert_eq!(refund.status, 200);
    let read = sidecar
        .billing()
        .ask("api.stripe.com", &Ask::get("/v1/refunds/re_1").field("Authorization", "Bearer mine"));
    assert_eq!(read.status, 200, "{read:?}");
    let own = Ask::json("/v1/tickets", r#"{"title":"a"}"#).field("Authorization", "Bearer the-agents-own");
    assert_eq!(sidecar.billing().ask(DESK, &own).status, 200);

    let real = format!("Bearer {CREDENTIAL}");
    for request in stripe.record().requests() {
        let sent: Vec<_> =
            request.head.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case("authorization")).collect();
        assert_eq!(sent.len(), 1, "what the agent sent is overwritten: {request:?}");
        assert_eq!(sent[0].1, real);
    }
    let elsewhere = String::from_utf8_lossy(&desk.record().all_bytes()).into_owned();
    assert!(elsewhere.contains("the-agents-own") && !elsewhere.contains(CREDENTIAL), "{elsewhere}");
    for answer in [refund, read] {
        assert!(!answer.everything().contains(CREDENTIAL), "{answer:?}");
    }
    drop(sidecar);
    // Nor is it in the environment of a command that runs behind it, even when the operator's shell has it.
    let seen = finish(home.command(Build::Plain, &["run", "--as", "billing-agent", "--", "env"]));
    assert_eq!(seen.code, 0, "{seen:?}");
    assert!(seen.out.contains("HTTPS_PROXY=http://"), "{seen:?}");
    assert!(!seen.out.contains(CREDENTIAL) && !seen.out.contains(CREDENTIAL_ENV), "{seen:?}");
}

#[test]
fn p7_a_credential_stays_with_its_hosts() {
    // The secret may go to api.stripe.com; a configuration that sends it elsewhere is refused.
    let at = "127.0.0.1:9".parse().unwrap();
    let other = "[hosts.\"evil.test\"]\ncredential = { header = \"Authorization\", value = \"Bearer {{secret:STRIPE_KEY}}\" }\n";
    let home = Home::new(&stripe_conf(at).with(other));
    let done = home.run(&["check"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(format!("{}{}", done.out, done.err).contains("STRIPE_KEY"), "{done:?}");
}

#[test]
fn p8_the_agent_cannot_decide() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let effect = sidecar.billing().refund(None, REFUND).assert_unknown().effect();
    let made = shop.books.refunds()[0]["id"].as_str().unwrap().to_owned();
    // The provider's own record says failed. The look that the asker asked for must not settle that.
    shop.books.set_status(&made, "failed");
    assert_eq!(sidecar.reconcile(&shop.home, "billing-agent", &effect).code, 13);
    assert_eq!(shop.home.money(), (0, 12_000, 12_000), "the hold is not the asker's to free");
    for args in [
        ["effect", "resolve", &effect, "--outcome", "failed", "--reason", "I am sure that it failed"]
            .as_slice(),
        ["effect", "replay", &effect].as_slice(),
    ] {
        let done = sidecar.cli(&shop.home, "billing-agent", args);
        assert_ne!(done.code, 0, "{args:?}: {done:?}");
    }
    assert_eq!((shop.home.effect(&effect)["outcome"].clone(), shop.writes()), (json!("unknown"), 1));
    // Another's look may.
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &effect).code, 1);
    let settled = shop.home.effect(&effect);
    assert_eq!(json!([settled["outcome"], settled["verification"]]), json!(["failed", "provider"]));
    assert_eq!(shop.home.money(), (0, 0, 0));
}

#[test]
fn p9_hanging_up_changes_nothing() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    let refund = r#"{"id":"re_late","object":"refund","status":"succeeded","amount":12000}"#;
    shop.provider.on_write(Reply::json("200 OK", refund).after(&gate));
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    tunnel.start(&Ask::refund(REFUND));
    shop.provider.record().wait_writes(1);
    tunnel.hang_up();
    assert_eq!(shop.home.money(), (0, 12_000, 0));
    gate.open();
    until("the answer to be recorded", || Some(()).filter(|()| shop.home.money() == (12_000, 0, 0)));
    let repeat = sidecar.billing().refund(Some(KEYS[0]), REFUND);
    assert_eq!((repeat.status, &repeat.json()["id"]), (200, &json!("re_late")), "{repeat:?}");
    assert_eq!(shop.writes(), 1);
}

#[test]
fn p9_a_client_that_leaves_before_its_request_is_whole_asks_for_nothing() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    let bytes = Ask::refund(REFUND).bytes("api.stripe.com");
    tunnel.send(&bytes[..bytes.len() - 1]).unwrap();
    tunnel.hang_up();
    let next = sidecar.billing().refund(None, "payment_intent=pi_2&amount=100");
    assert_eq!(next.status, 200);
    assert_eq!((shop.home.effects().len(), shop.writes()), (1, 1), "only the next one");
}

#[test]
fn p10_refused_before_anything_is_sent() {
    let undeclared = Provider::tls(&["undeclared.test"]);
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let agent = sidecar.billing();
    let stripe = |ask: &Ask| agent.ask("api.stripe.com", ask);
    agent.ask("undeclared.test", &Ask::get("/")).assert_refused(403, "oncegate_undeclared");
    stripe(&Ask::form("/v1/customers", "name=x")).assert_refused(403, "oncegate_undeclared");
    stripe(&Ask::new("DELETE", "/v1/customers/cus_1")).assert_refused(403, "oncegate_undeclared");
    stripe(&Ask::form("/v1//refunds", REFUND)).assert_refused(403, "oncegate_ambiguous");
    stripe(&Ask::refund("payment_intent=pi_1&amount=-1")).assert_refused(400, "oncegate_invalid_input");
    stripe(&Ask::refund("payment_intent=pi_1&amount=50001")).assert_refused(403, "oncegate_limit_exceeded");
    let big = format!("{REFUND}&x={}", "x".repeat(1_100_000));
    stripe(&Ask::refund(&big)).assert_refused(400, "oncegate_body_too_large");
    let stranger = agent
        .authorized(None)
        .raw(b"CONNECT api.stripe.com:443 HTTP/1.1\r\nHost: api.stripe.com:443\r\n\r\n");
    assert_eq!(stranger.unwrap().status, 407);
    assert!(shop.provider.record().requests().is_empty(), "nothing reached the provider");
    assert_eq!(undeclared.record().connections(), 0);
    assert_eq!(shop.home.effects(), Vec::<serde_json::Value>::new(), "and nothing was promised");
    assert_eq!(shop.home.money(), (0, 0, 0));
}

#[test]
fn p10_an_amount_that_cannot_be_established() {
    let shop = Shop::open_with(|at| {
        let action = "[actions.pay]\nmethod = \"POST\"\nurl = \"https://api.stripe.com/v1/payouts\"\nimpact = { dimension = \"money\", unit = \"usd\", amount = \"input.amount\", bound = \"exact\" }\n";
        Conf::default().stripe_host(at).with(action).daily_limit(1_000)
    });
    let sidecar = shop.home.serve();
    let none = sidecar.billing().ask("api.stripe.com", &Ask::form("/v1/payouts", "note=x"));
    none.assert_refused(403, "oncegate_amount_unbounded");
    let fits = sidecar.billing().ask("api.stripe.com", &Ask::form("/v1/payouts", "amount=700"));
    assert_eq!((fits.status, shop.home.money()), (404, (0, 0, 0)), "the stand-in knows no payouts: {fits:?}");
    assert_eq!(shop.writes(), 1);
}
