//! What another client, and another request, say of an effect: the same refund asked for by curl is a repeat, and no request
//! speaks for the effect of another.

use oncegate_tests::{agent::Ask, conf::Conf, script::Reply};

use crate::{
    api_actions::desk,
    law::call,
    shop::{DESK, KEYS, REFUND, Shop},
};

/// Each release of an SDK sends the version that it was made for, and curl none.
#[test]
fn p2_the_same_refund_by_another_client_is_answered_from_the_record() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let by_sdk = |version: &str, key: &str| Ask::refund(REFUND).field("Stripe-Version", version).key(key);
    let agent = sidecar.billing();
    shop.books.lose(1);
    let lost = agent.ask("api.stripe.com", &by_sdk("2026-10-28.endive", KEYS[0]));
    lost.assert_unknown();
    agent.refund(None, REFUND).assert_unknown();
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &lost.effect()).code, 0);
    let looks = shop.provider.record().requests().into_iter().filter(|asked| asked.method == "GET");
    let versions: Vec<_> = looks.map(|asked| asked.head.field("stripe-version").map(str::to_owned)).collect();
    assert!(!versions.is_empty() && versions.iter().all(|one| one.as_deref() == Some("2026-10-28.endive")));

    let others =
        [agent.refund(Some(KEYS[1]), REFUND), agent.ask("api.stripe.com", &by_sdk("2027-01-01.x", KEYS[2]))];
    for other in others {
        assert_eq!((other.outcome(), other.effect()), ("succeeded", lost.effect()), "{other:?}");
    }
    assert_eq!(shop.writes(), 1, "refunded once");
}

#[test]
fn p8_no_request_names_the_effect_of_another() {
    let (provider, home) = desk(|at| {
        Conf::default().host(DESK, at).with(&format!(
            "[actions.pay]\nmethod = \"POST\"\nurl = \"https://{DESK}/payouts\"\nsubject = \"{{{{input.to}}}}\"\n\
             body = {{ to = \"{{{{input.to}}}}\", ref = \"{{{{effect.id}}}}\" }}\n\
             verify = {{ url = \"https://{DESK}/payouts?ref={{{{effect.id}}}}\", match = [{{ path = \"data.*.id\" }}] }}\n\
             [actions.free]\nmethod = \"POST\"\nurl = \"https://{DESK}/free\"\ngoverned = false\n"
        ))
    });
    let sidecar = home.serve();
    provider.on_write(Reply::lost());
    let lost = call(&sidecar, "billing-agent", "POST", "/actions/pay/invoke", r#"{"input":{"to":"alice"}}"#);
    let lost = lost.json()["data"]["effectId"].as_str().unwrap().to_owned();
    let sent = provider.record().writes().len();
    for body in [
        format!(r#"{{"to":"bob","ref":"{lost}"}}"#),
        format!(r#"{{"to":"bob","ref":"oncegate-{lost}"}}"#),
        format!(r#"{{"to":"{}"}}"#, lost.to_ascii_lowercase()),
        format!(r#"{{"to":"bob","notes":[{{"{lost}":1}}]}}"#),
    ] {
        sidecar
            .billing()
            .ask(DESK, &Ask::json("/payouts", &body))
            .assert_refused(400, "oncegate_invalid_input");
    }
    // A replay would be answered with what was sent under its key.
    let key = format!("oncegate-{lost}");
    let json = |body: &str| Ask::json("/free", body);
    for ask in [
        json("{}").field("Idempotency-Key", &key),
        json(&format!(r#"{{"idempotency_key":"{key}"}}"#)),
        json(&format!(r#"{{"a":[{{"{key}":1}}]}}"#)),
        Ask::json(&format!("/free?key={key}"), "{}"),
        json(&format!(r#"{{"note":"for {lost}"}}"#)),
    ] {
        sidecar.billing().ask(DESK, &ask).assert_refused(400, "oncegate_invalid_input");
    }
    assert_eq!(provider.record().writes().len(), sent);
    let own = sidecar.billing().ask(DESK, &Ask::json("/payouts", r#"{"to":"bob","ref":"order-17"}"#));
    assert_eq!(own.outcome(), "succeeded", "{own:?}");
}

/// A template joins what came: what leaves is looked at, not its parts.
#[test]
fn p8_no_template_puts_together_the_name_of_another_effect() {
    let joining = |name: &str, how: &str| {
        format!("[actions.{name}]\nmethod = \"POST\"\nurl = \"https://{DESK}/{name}\"\n{how}\n")
    };
    let (provider, home) = desk(|at| {
        Conf::default()
            .host(DESK, at)
            .host("keys.test", at)
            .with(&joining(
                "pay",
                &format!(
                    "body = {{ ref = \"{{{{effect.id}}}}\" }}\nverify = {{ url = \"https://{DESK}/pay?ref={{{{effect.id}}}}\", match = [{{ path = \"data.*.id\" }}] }}"
                ),
            ))
            .with(&joining("in-body", "body = { ref = \"{{input.a}}_{{input.b}}\" }"))
            .with(&joining("in-field", "headers = { \"X-Ref\" = \"{{input.a}}_{{input.b}}\" }"))
            .with(&joining("in-mark", "body = { metadata = { oncegate_effect = \"{{input.a}}_{{input.b}}\" } }"))
            .with(&joining("key-in-field", "headers = { \"Idempotency-Key\" = \"{{input.a}}_{{input.b}}\" }").replace(DESK, "keys.test"))
            .with(&joining("key-in-body", "body = { key = \"{{input.a}}_{{input.b}}\" }").replace(DESK, "keys.test"))
            .with("[actions.key-in-url]\nmethod = \"POST\"\nurl = \"https://keys.test/url?key={{input.a}}_{{input.b}}\"\n")
    });
    let sidecar = home.serve();
    provider.on_write(Reply::lost());
    let invoke = |action: &str, input: &str| {
        let path = format!("/actions/{action}/invoke");
        call(&sidecar, "billing-agent", "POST", &path, &format!(r#"{{"input":{input}}}"#))
    };
    let lost = invoke("pay", "{}").json()["data"]["effectId"].as_str().unwrap().to_owned();
    let sent = provider.record().writes().len();
    let (a, b) = lost.split_once('_').unwrap();
    for (action, a) in [("in-body", a), ("in-field", a), ("in-mark", a)]
        .into_iter()
        .chain(["key-in-field", "key-in-body", "key-in-url"].map(|action| (action, "oncegate-eff")))
    {
        let refused = invoke(action, &format!(r#"{{"a":"{a}","b":"{b}"}}"#));
        assert_eq!(refused.json()["error"]["details"]["reason"], "invalid_input", "{action}: {refused:?}");
    }
    for (host, target, a) in [(DESK, "/in-field", a), ("keys.test", "/key-in-field", "oncegate-eff")] {
        let ask = Ask::json(target, &format!(r#"{{"a":"{a}","b":"{b}"}}"#));
        sidecar.billing().ask(host, &ask).assert_refused(400, "oncegate_invalid_input");
    }
    assert_eq!(provider.record().writes().len(), sent);
    assert_eq!(invoke("in-body", r#"{"a":"x","b":"y"}"#).json()["data"]["status"], "succeeded");
}
