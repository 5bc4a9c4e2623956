//! Replay: the very same bytes under the provider's key, or nothing at all.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use oncegate_tests::{
    agent::Ask, conf::Conf, gate::Gate, provider::Provider, record::Request, script::Reply, sidecar::Home,
    wait::until,
};
use serde_json::json;

use crate::{
    law::{call, detail, kinds, lost, ops, says_no},
    shop::{DESK, REFUND, Shop, TICKETS_PER_DAY, ticket, ticket_action},
};

const MADE: &str = r#"{"id":"re_made","object":"refund","amount":12000,"status":"succeeded"}"#;

/// What the provider deduplicates on and what it would apply. The order of the fields means nothing to anybody.
fn sent(request: &Request) -> (String, Vec<(String, String)>, Vec<u8>) {
    let mut fields = request.head.fields.clone();
    fields.sort();
    (format!("{} {}", request.method, request.target), fields, request.body.clone())
}

#[test]
fn the_same_bytes_under_the_same_key() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    shop.provider.on_write(Reply::with("200 OK", &[("Idempotent-Replayed", "true")], MADE));
    let replayed = ops(&shop.home, &sidecar, &["effect", "replay", &effect]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    let writes = shop.provider.record().writes();
    assert_eq!(writes.len(), 2);
    let key = writes[0].head.field("idempotency-key").expect("a provider key");
    assert!(key.contains(&effect), "{key}");
    assert_eq!(sent(&writes[0]), sent(&writes[1]), "not a byte differs");
    let shown = detail(&sidecar, &effect);
    assert_eq!(json!([shown["outcome"], shown["grade"]]), json!(["succeeded", "acknowledged"]));
    let attempts: Vec<_> = shown["attempts"].as_array().unwrap().iter().map(|a| a["kind"].clone()).collect();
    assert_eq!(attempts, ["dispatch", "replay"]);
    assert!(kinds(&shown).contains(&"replayed"), "{shown}");
    assert_eq!(shop.home.money(), (12_000, 0, 0));
    let repeat = sidecar.billing().refund(None, REFUND);
    assert_eq!((repeat.status, &repeat.json()["id"]), (200, &json!("re_made")), "{repeat:?}");
    let settled = call(&sidecar, "ops", "POST", &format!("/actions/effects/{effect}/replay"), "");
    says_no(&settled, 409, "REPLAY_REFUSED", "not_unknown");
    assert_eq!(shop.writes(), 2);
}

#[test]
fn what_a_replay_says_counts_only_if_it_speaks_of_the_first_try() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    let error = r#"{"error":{"type":"card_error","code":"charge_disputed","message":"no"}}"#;
    let used = r#"{"error":{"type":"idempotency_error","message":"this key was used already"}}"#;
    let busy = r#"{"error":{"type":"invalid_request_error","code":"idempotency_key_in_use"}}"#;
    let done = r#"{"error":{"type":"invalid_request_error","code":"charge_already_refunded"}}"#;
    let another = r#"{"error":{"type":"invalid_request_error","code":"resource_missing"}}"#;
    // Turned away at the door, lost again, a fault of the provider's: it is as unknown as before.
    for reply in [
        Reply::json("401 Unauthorized", error),
        Reply::json("429 Too Many Requests", error),
        Reply::lost(),
        Reply::json("500 Internal Server Error", error),
        // The first try may well have been applied: that is just what these say then.
        Reply::json("400 Bad Request", used),
        Reply::json("400 Bad Request", busy),
        Reply::json("400 Bad Request", done),
        // Another account's key, a gateway.
        Reply::json("404 Not Found", another),
        Reply::json("400 Bad Request", "<html>"),
        Reply::json("413 Content Too Large", "<html>"),
    ] {
        shop.provider.on_write(reply);
        assert_eq!(ops(&shop.home, &sidecar, &["effect", "replay", &effect]).code, 13);
        assert_eq!(shop.home.money(), (0, 12_000, 12_000));
    }
    // Its definite refusal of this key settles it.
    shop.provider.on_write(Reply::json("402 Payment Required", error));
    assert_eq!(ops(&shop.home, &sidecar, &["effect", "replay", &effect]).code, 1);
    assert_eq!((shop.home.money(), shop.writes()), ((0, 0, 0), 12));
}

/// Stripe says itself what it has kept of the first try.
#[test]
fn a_failure_that_stripe_has_kept_settles_whatever_it_says() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    let kept = r#"{"error":{"type":"invalid_request_error","code":"charge_already_refunded"}}"#;
    shop.provider.on_write(Reply::with("400 Bad Request", &[("Idempotent-Replayed", "true")], kept));
    assert_eq!(ops(&shop.home, &sidecar, &["effect", "replay", &effect]).code, 1);
    assert_eq!((shop.home.money(), shop.writes()), ((0, 0, 0), 2));
}

/// A desk that reads a key, with what more the action says.
fn keyed_desk(more: &str) -> (Provider, Home) {
    let provider = Provider::tls(&[DESK]);
    let conf =
        Conf::default().host(DESK, provider.addr()).with(&ticket_action("open-ticket", DESK)).with(more);
    let home = Home::new(&conf.with(TICKETS_PER_DAY));
    (provider, home)
}

/// Where it is not known that failures are kept under the key, one is an answer to this try alone: the key may be used
/// already, because the first try was done.
#[test]
fn p3_a_refusal_of_the_replay_is_none_of_the_first_try() {
    let (provider, home) = keyed_desk("idempotency = { header = \"X-Key\", window = \"24h\" }\n");
    let sidecar = home.serve();
    provider.on_write(Reply::lost());
    let effect =
        sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a"))).assert_unknown().effect();
    for (status, body) in [
        ("400 Bad Request", r#"{"error":"this key was used already","status":"SETTLED"}"#),
        ("402 Payment Required", r#"{"error":"no"}"#),
        ("404 Not Found", "<html>"),
        ("422 Unprocessable Entity", r#"{"error":"DUPLICATE_REQUEST_ID"}"#),
    ] {
        provider.on_write(Reply::json(status, body));
        assert_eq!(ops(&home, &sidecar, &["effect", "replay", &effect]).code, 13, "{status}");
        assert_eq!(home.exposure("tickets-per-day")["unknown_exposure"], 1, "{status}");
    }
    let shown = detail(&sidecar, &effect);
    let last = shown["evidence"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap().to_owned();
    assert!(last.contains("422") && last.ends_with("this says nothing of the first try"), "{last}");
    provider.on_write(Reply::json("200 OK", r#"{"ok":true}"#));
    assert_eq!(ops(&home, &sidecar, &["effect", "replay", &effect]).code, 0);
    assert_eq!(
        (provider.record().writes().len(), home.exposure("tickets-per-day")["consumed"].clone()),
        (6, json!(1))
    );
}

/// A provider that keeps keys of successes alone does a second time what it did and called a failure.
#[test]
fn p2_no_replay_where_the_key_of_the_first_answer_is_not_kept() {
    let (provider, home) = keyed_desk("preset = \"checkout-com\"\n");
    let sidecar = home.serve();
    let ask = |title: &str| sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket(title)));
    provider.on_write(Reply::json("502 Bad Gateway", "{}"));
    let answered = ask("answered").assert_unknown().effect();
    let replay = call(&sidecar, "ops", "POST", &format!("/actions/effects/{answered}/replay"), "");
    says_no(&replay, 409, "REPLAY_REFUSED", "replay_unsupported");
    assert_eq!(provider.record().writes().len(), 1);
    assert_eq!(detail(&sidecar, &answered)["attempts"].as_array().unwrap().len(), 1, "and none is on record");

    // Nothing was answered: either it was done, and the key is known, or it was not.
    provider.on_write(Reply::lost());
    let lost = ask("lost").assert_unknown().effect();
    provider.on_write(Reply::json("200 OK", r#"{"ok":true}"#));
    assert_eq!(ops(&home, &sidecar, &["effect", "replay", &lost]).code, 0);
    assert_eq!(provider.record().writes().len(), 3);
}

#[test]
fn the_key_that_asked_never_replays() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let effect = sidecar.agent("ops").refund(None, REFUND).assert_unknown().effect();
    let path = format!("/actions/effects/{effect}/replay");
    says_no(&call(&sidecar, "ops", "POST", &path, ""), 403, "AUTHORIZATION_ERROR", "own_request");
    says_no(&call(&sidecar, "billing-agent", "POST", &path, ""), 403, "AUTHORIZATION_ERROR", "");
    assert_eq!(ops(&shop.home, &sidecar, &["effect", "replay", &effect]).code, 15);
    assert_eq!(shop.writes(), 1);
}

#[test]
fn never_while_halted() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    assert_eq!(ops(&shop.home, &sidecar, &["halt", "--reason", "stop"]).code, 0);
    let path = format!("/actions/effects/{effect}/replay");
    says_no(&call(&sidecar, "ops", "POST", &path, ""), 409, "REPLAY_REFUSED", "halted");
    assert_eq!(shop.writes(), 1);
    assert_eq!(ops(&shop.home, &sidecar, &["resume"]).code, 0);
    assert_eq!(ops(&shop.home, &sidecar, &["effect", "replay", &effect]).code, 0);
}

#[test]
fn one_at_a_time() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    let gate = Gate::default();
    shop.provider.on_write(Reply::json("200 OK", MADE).after(&gate));
    let path = format!("/actions/effects/{effect}/replay");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| call(&sidecar, "ops", "POST", &path, ""));
        shop.provider.record().wait_writes(2);
        says_no(&call(&sidecar, "ops", "POST", &path, ""), 409, "REPLAY_REFUSED", "in_flight");
        gate.open();
        assert_eq!(first.join().unwrap().json()["data"]["outcome"], "succeeded");
    });
    assert_eq!(shop.writes(), 2);
}

/// A ticket whose answer is lost, at a desk whose action has these lines more.
fn desk(more: &str) -> (Provider, Home) {
    let provider = Provider::tls(&[DESK]);
    let conf = |at: SocketAddr| {
        let action = format!("{}{more}\n", ticket_action("open-ticket", DESK));
        Conf::default().host(DESK, at).with(&action).with(TICKETS_PER_DAY)
    };
    let home = Home::new(&conf(provider.addr()));
    provider.on_write(Reply::lost());
    (provider, home)
}

#[test]
fn unsupported_without_a_provider_key() {
    let (provider, home) = desk("");
    let sidecar = home.serve();
    let effect =
        sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a"))).assert_unknown().effect();
    let path = format!("/actions/effects/{effect}/replay");
    says_no(&call(&sidecar, "ops", "POST", &path, ""), 409, "REPLAY_REFUSED", "replay_unsupported");
    let done = ops(&home, &sidecar, &["effect", "replay", &effect]);
    assert_eq!(done.code, 15, "{done:?}");
    assert_eq!(provider.record().writes().len(), 1);
}

/// The operator has learned that the provider does not deduplicate, or does so by another key.
#[test]
fn p2_no_replay_where_the_key_is_not_read_any_more() {
    let header = |name: &str| format!("idempotency = {{ header = \"{name}\", window = \"24h\" }}\n");
    let member = "idempotency = { body = \"key\", window = \"24h\" }\n";
    let conf = |at: SocketAddr, more: &str| {
        let action = format!("{}{more}", ticket_action("open-ticket", DESK));
        Conf::default().host(DESK, at).with(&action).with(TICKETS_PER_DAY)
    };
    for (then, others) in [(header("X-Key"), [member, ""]), (member.to_owned(), [&header("X-Key"), ""])] {
        let provider = Provider::tls(&[DESK]);
        let home = Home::new(&conf(provider.addr(), &then));
        let sidecar = home.serve();
        provider.on_write(Reply::lost());
        let ask = Ask::json("/v1/tickets", &ticket("a"));
        let effect = sidecar.billing().ask(DESK, &ask).assert_unknown().effect();
        let path = format!("/actions/effects/{effect}/replay");
        for (count, now) in others.into_iter().enumerate() {
            home.write(&conf(provider.addr(), now).text());
            until("the file to be taken", || {
                let taken = sidecar.log().matches("action open-ticket changed").count();
                (taken > count).then_some(())
            });
            let refused = call(&sidecar, "ops", "POST", &path, "");
            says_no(&refused, 409, "REPLAY_REFUSED", "replay_unsupported");
        }
        assert_eq!(provider.record().writes().len(), 1, "{then}");
        // As it was declared when it was sent.
        home.write(&conf(provider.addr(), &then).text());
        until("the file to be taken", || {
            (sidecar.log().matches("action open-ticket changed").count() > 2).then_some(())
        });
        assert_eq!(ops(&home, &sidecar, &["effect", "replay", &effect]).code, 0);
        assert_eq!(provider.record().writes().len(), 2, "{then}");
    }
}

#[test]
fn not_after_the_window() {
    let (provider, home) = desk(r#"idempotency = { header = "Idempotency-Key", window = "1s" }"#);
    let sidecar = home.serve();
    let effect =
        sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a"))).assert_unknown().effect();
    // The window began before the answer came, so it has closed a second after it, by the sidecar's own clock too.
    let answered = Instant::now();
    until("the window to close", || (answered.elapsed() > Duration::from_secs(1)).then_some(()));
    let path = format!("/actions/effects/{effect}/replay");
    says_no(&call(&sidecar, "ops", "POST", &path, ""), 409, "REPLAY_REFUSED", "window_closed");
    assert_eq!(provider.record().writes().len(), 1);
}

#[test]
fn a_declared_provider_key_makes_it_possible() {
    let (provider, home) = desk(r#"idempotency = { header = "Idempotency-Key", window = "1h" }"#);
    let sidecar = home.serve();
    let ask = Ask::json("/v1/tickets", &ticket("a")).key("the-agents-own");
    let effect = sidecar.billing().ask(DESK, &ask).assert_unknown().effect();
    assert_eq!(ops(&home, &sidecar, &["effect", "replay", &effect]).code, 0);
    let writes = provider.record().writes();
    assert_eq!(sent(&writes[0]), sent(&writes[1]));
    assert_ne!(
        writes[0].head.field("idempotency-key"),
        Some("the-agents-own"),
        "the key is the effect's own"
    );
}
