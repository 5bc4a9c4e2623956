//! The same thing under another name: a charge for its payment intent, another spelling of a path, a GET for a POST.

use oncegate_tests::{agent::Ask, conf::Conf, provider::Provider, script::Reply, sidecar::Home};
use serde_json::json;

use crate::{
    law::lost,
    shop::{DESK, Shop},
};

/// A model that is told not to retry tries the other parameter.
#[test]
fn p6_a_charge_is_fenced_with_its_payment_intent() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let lost = "payment_intent=pi_of_the_payment&amount=5000";
    let first = sidecar.billing().refund(None, lost).assert_unknown().effect();
    for varied in [
        "charge=ch_of_the_payment&amount=5000",
        "charge=ch_of_the_payment&amount=4900",
        "charge=ch_of_the_payment",
    ] {
        let again = sidecar.billing().refund(None, varied);
        again.assert_own(422, "oncegate_unresolved_effect");
        assert!(again.reason.contains(&first), "{varied}: {again:?}");
    }
    assert_eq!((shop.writes(), shop.home.money()), (1, (0, 5_000, 5_000)));
    let other = sidecar.billing().refund(None, "charge=ch_of_another&amount=100");
    assert_eq!((other.status, shop.writes()), (200, 2), "another payment is free: {other:?}");
}

/// And the other way round.
#[test]
fn p6_a_payment_intent_is_fenced_with_its_charge() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    sidecar.billing().refund(None, "charge=ch_of_the_payment&amount=5000").assert_unknown();
    let again = sidecar.billing().refund(None, "payment_intent=pi_of_the_payment&amount=4900");
    again.assert_own(422, "oncegate_unresolved_effect");
    assert_eq!(shop.writes(), 1);
    assert_eq!(lost(&shop, &sidecar).len(), 30, "others are as before");
}

/// Lost answers and reads that fail come together. A charge that cannot be read may be of any payment: it is sent unless a
/// refund of the other kind is unknown, and is found again whether it can be read by then or not.
#[test]
fn p6_a_charge_that_cannot_be_read_is_in_the_way_of_its_payment_all_the_same() {
    for unread_first in [true, false] {
        let shop = Shop::open();
        let sidecar = shop.home.serve();
        let unreadable =
            || shop.provider.on_read(Reply::json("500 Internal Server Error", r#"{"error":{}}"#));
        unreadable();
        assert_eq!(sidecar.billing().refund(None, "charge=ch_of_another&amount=1").status, 200);
        shop.books.lose(1);
        if unread_first {
            unreadable();
            sidecar.billing().refund(None, "charge=ch_of_the_payment&amount=5000").assert_unknown();
        } else {
            sidecar.billing().refund(None, "payment_intent=pi_of_the_payment&amount=5000").assert_unknown();
            unreadable();
        }
        for varied in ["charge=ch_of_the_payment&amount=4900", "payment_intent=pi_of_the_payment&amount=4800"]
        {
            let again = sidecar.billing().refund(None, varied);
            again.assert_own(422, "oncegate_unresolved_effect");
        }
        assert_eq!(shop.writes(), 2, "{unread_first}");
    }
}

/// To many servers the case of a path and a slash at its end make no difference: what is governed is not let through by a
/// rule for everything else.
#[test]
fn p1_a_governed_write_in_another_spelling_of_its_path_is_refused() {
    let provider = Provider::tls(&[DESK]);
    let actions = r#"
writes = "allow"

[actions.pay]
method = "POST"
url = "https://tickets.test/v1/pay"
subject = "{{input.order}}"

[actions.anything]
method = "POST"
url = "https://tickets.test/{{input.a}}/{{input.b}}/"
governed = false
"#;
    let mut conf = Conf::default().host(DESK, provider.addr());
    conf.rest.push_str(actions);
    let home = Home::new(&conf);
    let sidecar = home.serve();
    let ask = |method: &str, target: &str| {
        let body = json!({ "order": "o1" }).to_string();
        sidecar.billing().ask(
            DESK,
            &Ask::new(method, target).field("Content-Type", "application/json").body(body.as_str()),
        )
    };
    for target in ["/v1/pay/", "/V1/pay", "/v1/Pay", "/v1/PAY/", "/v1/p%41y"] {
        ask("POST", target).assert_refused(403, "oncegate_undeclared");
    }
    assert!(provider.record().writes().is_empty());
    for (method, target) in
        [("POST", "/v1/pays"), ("POST", "/v1/pay/x"), ("PUT", "/v1/pay/"), ("POST", "/v2/pay/")]
    {
        assert_eq!(ask(method, target).status, 200, "{method} {target}: the operator lets it through");
    }
    let governed = ask("POST", "/v1/pay");
    assert_eq!((governed.status, governed.outcome()), (200, "succeeded"));
}

/// Slack takes every method's arguments in a query as well, and a GET then posts the message.
#[test]
fn p1_a_write_that_its_provider_takes_by_get_is_no_read() {
    let provider = Provider::tls(&["slack.com"]);
    let say = r#"
[actions.say]
preset = "slack"
method = "POST"
url = "https://slack.com/api/chat.postMessage"
subject = "{{input.channel}}"
requires_approval = true
"#;
    let home = Home::new(&Conf::default().host("slack.com", provider.addr()).with(say));
    let sidecar = home.serve();
    let ask = |method: &str, target: &str| sidecar.billing().ask("slack.com", &Ask::new(method, target));
    for method in ["GET", "HEAD", "OPTIONS"] {
        for target in
            ["/api/chat.postMessage?channel=C1&text=hi", "/api/Chat.PostMessage/?channel=C1&text=hi"]
        {
            let answer = ask(method, target);
            assert_eq!((answer.status, answer.code()), (403, "oncegate_undeclared"), "{method} {target}");
        }
    }
    assert!(provider.record().requests().is_empty());
    assert_eq!(ask("GET", "/api/conversations.list").status, 200);
    let checked = home.run(&["check"]);
    assert!(
        checked.code == 0 && format!("{}{}", checked.out, checked.err).contains("writes by GET"),
        "{checked:?}"
    );
}
