//! Any other write at Stripe: keyed, marked, and found again in the list of its kind.

use oncegate_tests::{
    agent::Ask, conf::Conf, provider::Provider, script::Reply, sidecar::Home, stripe::form,
};
use serde_json::json;

const HOST: &str = "api.stripe.com";
const TRANSFER: &str = "amount=1200&currency=usd&destination=acct_2";
const VARIED: &str = "amount=1300&currency=usd&destination=acct_2&description=again";

fn open() -> (Provider, Home) {
    let stripe = Provider::tls(&[HOST]);
    let conf = Conf::default().stripe_host(stripe.addr()).with(
        r#"
[actions.transfer]
adapter = { type = "stripe.write", mode = "test", path = "/v1/transfers" }
credential_secret = "STRIPE_KEY"
subject = "{{input.destination}}"
impact = { dimension = "money", currency = "usd", amount = "input.amount" }

[actions.refund]
adapter = { type = "stripe.refund", mode = "test", currency = "usd" }
credential_secret = "STRIPE_KEY"

[actions.payout]
adapter = { type = "stripe.write", mode = "test", path = "/v1/payouts" }
credential_secret = "STRIPE_KEY"
subject = "payout"
impact = { dimension = "money", currency = "usd", amount = "input.amount" }

[actions.annotate]
adapter = { type = "stripe.write", mode = "test", path = "/v1/refunds/{{input.refund}}" }
credential_secret = "STRIPE_KEY"

[actions.note]
method = "POST"
url = "https://api.stripe.com/v1/charges/{{input.charge}}"
"#,
    );
    let home = Home::new(&conf.daily_limit(50_000));
    (stripe, home)
}

#[test]
fn a_lost_transfer_is_found_by_its_mark() {
    let (stripe, home) = open();
    let sidecar = home.serve();
    let agent = sidecar.billing();
    let ask = |body: &str| agent.ask(HOST, &Ask::form("/v1/transfers", body).key("stripe-node-retry-1"));
    stripe.on_write(Reply::lost());
    let lost = ask(TRANSFER);
    lost.assert_unknown();
    assert_eq!(lost.json()["error"]["code"], "oncegate_outcome_unknown");
    let effect = lost.effect();
    let varied = agent.ask(HOST, &Ask::form("/v1/transfers", VARIED));
    varied.assert_own(422, "oncegate_unresolved_effect");
    assert_eq!(varied.json()["error"]["type"], "api_error");
    assert_eq!(home.money(), (0, 1_200, 1_200));

    let writes = stripe.record().writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].head.field("idempotency-key"), Some(format!("oncegate-{effect}").as_str()));
    let sent = form(&writes[0].text());
    assert_eq!(sent["metadata"]["oncegate_effect"], effect);

    let other = json!({"id": "tr_0", "object": "transfer", "metadata": {}});
    let ours = json!({"id": "tr_1", "object": "transfer", "amount": 1200, "created": 32_503_680_000_i64,
        "metadata": sent["metadata"]});
    let list = json!({"object": "list", "has_more": false, "data": [other, ours]}).to_string();
    stripe.on_read(Reply::json("200 OK", &list));
    assert_eq!(sidecar.reconcile(&home, "ops", &effect).code, 0);
    let asked = stripe.record().requests().pop().unwrap().target;
    assert!(asked.starts_with("/v1/transfers?limit=100&destination=acct_2&created[gte]="), "{asked}");
    assert_eq!(home.effect(&effect)["grade"], "confirmed");
    assert_eq!(home.money(), (1_200, 0, 0));
    let again = ask(TRANSFER);
    assert_eq!((again.status, &again.json()["id"]), (200, &json!("tr_1")), "{again:?}");
    assert_eq!(stripe.record().writes().len(), 1, "sent once");
}

#[test]
fn another_currency_slips_past_no_limit() {
    let (stripe, home) = open();
    let sidecar = home.serve();
    let euros = sidecar.billing().ask(HOST, &Ask::form("/v1/transfers", &TRANSFER.replace("usd", "eur")));
    euros.assert_refused(400, "oncegate_invalid_input");
    assert_eq!(stripe.record().writes().len(), 0);
}

/// An agent that could write a mark would settle what it is not sure of, and free its own hold.
#[test]
fn p8_no_request_moves_a_mark() {
    let (stripe, home) = open();
    let sidecar = home.serve();
    let agent = sidecar.billing();
    for path in ["/v1/refunds/re_1", "/v1/charges/ch_1"] {
        for body in ["metadata[oncegate_effect]=", "metadata%5Boncegate_effect%5D=eff_1", "metadata="] {
            let moved = agent.ask(HOST, &Ask::form(path, body));
            moved.assert_refused(400, "oncegate_invalid_input");
        }
    }
    assert_eq!(stripe.record().writes().len(), 0);
    stripe.on_write(Reply::json("200 OK", r#"{"id":"re_1","object":"refund"}"#));
    assert_eq!(agent.ask(HOST, &Ask::form("/v1/refunds/re_1", "metadata[note]=late")).status, 200);
}

/// `failed` is a state that Stripe documents of a new refund and a new payout: it is the provider's own word. A failed one
/// that is only written to is no failure.
#[test]
fn what_failed_at_once_is_a_failure() {
    let (stripe, home) = open();
    let sidecar = home.serve();
    let agent = sidecar.billing();
    let failed = |object: &str| {
        Reply::json("200 OK", &json!({"id": "x_1", "object": object, "status": "failed"}).to_string())
    };
    for (path, body) in
        [("/v1/refunds", "payment_intent=pi_1&amount=1200"), ("/v1/payouts", "amount=1200&currency=usd")]
    {
        stripe.on_write(failed("refund"));
        let answer = agent.ask(HOST, &Ask::form(path, body));
        assert_eq!((answer.status, answer.outcome()), (200, "failed"), "{path} {answer:?}");
        assert_eq!(home.money(), (0, 0, 0));
    }
    stripe.on_write(failed("refund"));
    let noted = agent.ask(HOST, &Ask::form("/v1/refunds/re_1", "metadata[note]=late"));
    assert_eq!((noted.status, noted.outcome()), (200, "succeeded"), "{noted:?}");
}
