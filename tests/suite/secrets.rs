//! Secrets through the API: put, rotated, listed, deleted; used where they are declared, and never read back.

use std::{fs, net::SocketAddr};

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    conf::{BILLING_KEY, Conf, VAULT_FIRST as FIRST, VAULT_SECOND as SECOND, digest},
    sidecar::{Home, Sidecar},
    wait::until,
};
use serde_json::{Value, json};

use crate::{
    law::{call, data, says_no},
    shop::{REFUND, Shop},
};

const VAULT_KEY: &str = "[vault]\nkey = { file = \"vault.key\" }\n";
/// Stripe's host and action, and the secret that they name declared by nobody yet.
const HOST: &str = r#"
[hosts."api.stripe.com"]
credential = { header = "Authorization", value = "Bearer {{secret:STRIPE_KEY}}" }
ca_file = "upstream-ca.pem"
"#;

fn put(sidecar: &Sidecar, name: &str, body: &Value) -> Answer {
    call(sidecar, "ops", "PUT", &format!("/secrets/{name}"), &body.to_string())
}

/// A shop whose configuration names no secret, with a key for the vault if wanted.
fn shop(key: Option<&str>) -> (Shop, SocketAddr) {
    let shop = Shop::open_with(|_| Conf::default().with(if key.is_some() { VAULT_KEY } else { "" }));
    match key {
        Some(key) => shop.home.write_secret("vault.key", key),
        None => shop.home.holds_secrets("managed/vault.json", "a vault without a key is not encrypted"),
    }
    let at = shop.provider.addr();
    (shop, at)
}

/// What the writes at the provider carried, in the order of their arrival.
pub(crate) fn credentials(shop: &Shop) -> Vec<String> {
    let writes = shop.provider.record().writes();
    writes.iter().map(|write| write.head.field("authorization").unwrap_or_default().to_owned()).collect()
}

/// Adds Stripe to the configuration of a running sidecar.
fn declare(home: &Home, sidecar: &Sidecar, at: SocketAddr) {
    let text = fs::read_to_string(home.config()).unwrap();
    let conf = Conf::default().refund("").rest;
    home.write(&format!("{text}{HOST}connect_to = \"{at}\"\n{conf}"));
    until("the action to be there", || {
        let listed = data(&call(sidecar, "ops", "GET", "/actions", ""));
        Some(()).filter(|()| listed.as_array().unwrap().len() == 1)
    });
}

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

#[test]
fn put_rotated_used_and_never_read_back() {
    let (shop, at) = shop(Some(KEY));
    let sidecar = shop.home.serve_traced();
    let made = put(&sidecar, "STRIPE_KEY", &json!({ "value": FIRST, "description": "refunds" }));
    assert_eq!(made.status, 201, "{made:?}");
    let made = data(&made);
    assert_eq!(
        json!([made["id"], made["name"], made["source"], made["allowedHosts"], made["allowedPlacements"]]),
        json!(["sec_STRIPE_KEY", "STRIPE_KEY", "vault", null, null])
    );
    declare(&shop.home, &sidecar, at);
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    assert_eq!(tunnel.ask(&Ask::refund(REFUND)).status, 200);

    // Sent again, rotated, and restricted: the next request inside the same tunnel carries the new value.
    assert_eq!(put(&sidecar, "STRIPE_KEY", &json!({ "value": FIRST })).status, 200);
    let rotated =
        json!({ "value": SECOND, "allowedHosts": ["api.stripe.com"], "allowedPlacements": ["header"] });
    let rotated = data(&put(&sidecar, "STRIPE_KEY", &rotated));
    assert_eq!(
        json!([rotated["description"], rotated["allowedHosts"], rotated["createdAt"]]),
        json!(["refunds", ["api.stripe.com"], made["createdAt"]])
    );
    assert_eq!(tunnel.ask(&Ask::refund("payment_intent=pi_2&amount=100")).status, 200);
    assert_eq!(credentials(&shop), [format!("Bearer {FIRST}"), format!("Bearer {SECOND}")]);

    // What is not said stays as it is; `null` clears it.
    let kept = data(&put(&sidecar, "STRIPE_KEY", &json!({ "value": SECOND })));
    assert_eq!(kept["allowedHosts"], json!(["api.stripe.com"]));
    let cleared = json!({ "value": SECOND, "allowedHosts": null, "allowedPlacements": null });
    assert_eq!(data(&put(&sidecar, "STRIPE_KEY", &cleared))["allowedHosts"], json!(null));

    let shown = call(&sidecar, "ops", "GET", "/secrets/STRIPE_KEY", "");
    let listed = call(&sidecar, "ops", "GET", "/secrets", "");
    assert_eq!(data(&listed).as_array().unwrap(), &[data(&shown)]);
    let files = ["managed/vault.json", "managed/secrets.toml"]
        .map(|file| fs::read_to_string(shop.home.path(file)).unwrap());
    for text in [shown.everything(), listed.everything(), sidecar.log()].iter().chain(&files) {
        assert!(!text.contains(FIRST) && !text.contains(SECOND), "{text}");
    }
    // And after a restart it is there.
    sidecar.kill9();
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.billing().refund(None, "payment_intent=pi_3&amount=100").status, 200);
}

#[test]
fn who_may_and_what_is_refused() {
    let (shop, at) = shop(None);
    let sidecar = shop.home.serve();
    let good = json!({ "value": FIRST });
    for (method, path) in
        [("PUT", "/secrets/A"), ("DELETE", "/secrets/A"), ("GET", "/secrets"), ("GET", "/secrets/A")]
    {
        let answer = call(&sidecar, "billing-agent", method, path, &good.to_string());
        says_no(&answer, 403, "AUTHORIZATION_ERROR", "");
    }
    for (name, body) in [
        ("lower", good.clone()),
        ("A", json!({})),
        ("A", json!({ "value": 7 })),
        ("A", json!({ "value": "" })),
        ("A", json!({ "value": "two\nlines" })),
        ("A", json!({ "value": FIRST, "allowedHosts": [] })),
        ("A", json!({ "value": FIRST, "allowedHosts": FIRST })),
        ("A", json!({ "value": FIRST, "allowedHosts": ["x.example:8443"] })),
        ("A", json!({ "value": FIRST, "allowedPlacements": ["cookie"] })),
        ("A", json!({ "value": FIRST, "description": { "text": FIRST } })),
    ] {
        let answer = put(&sidecar, name, &body);
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_str()),
            (400, Some("VALIDATION_ERROR")),
            "{body}"
        );
        assert!(!answer.everything().contains(FIRST), "{answer:?}");
    }
    assert_eq!(data(&call(&sidecar, "ops", "GET", "/secrets", "")), json!([]), "nothing was kept");
    assert!(!shop.home.path("managed").exists());

    // A host that the list leaves out, while something there names the secret.
    assert_eq!(put(&sidecar, "STRIPE_KEY", &good).status, 201);
    declare(&shop.home, &sidecar, at);
    let elsewhere =
        put(&sidecar, "STRIPE_KEY", &json!({ "value": SECOND, "allowedHosts": ["other.example"] }));
    assert_eq!(elsewhere.status, 400, "{elsewhere:?}");
    assert!(
        elsewhere.json()["error"]["message"].as_str().unwrap().contains("may not go to `api.stripe.com`")
    );
    says_no(&call(&sidecar, "ops", "DELETE", "/secrets/STRIPE_KEY", ""), 409, "CONFLICT", "in_use");
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
    let sent = shop.provider.record().all_bytes();
    assert!(String::from_utf8_lossy(&sent).contains(FIRST), "what was refused has changed nothing");
    assert!(sidecar.log().contains("the vault has no key"), "{}", sidecar.log());
}

#[test]
fn deleted_and_deleted_again() {
    let (shop, _) = shop(None);
    let sidecar = shop.home.serve();
    assert_eq!(put(&sidecar, "A", &json!({ "value": FIRST })).status, 201);
    assert_eq!(put(&sidecar, "B", &json!({ "value": SECOND })).status, 201);
    for deleted in [true, false] {
        let answer = data(&call(&sidecar, "ops", "DELETE", "/secrets/A", ""));
        assert_eq!(answer, json!({ "deleted": deleted, "name": "A" }));
    }
    assert_eq!(call(&sidecar, "ops", "GET", "/secrets/A", "").status, 404);
    assert!(!fs::read_to_string(shop.home.path("managed/vault.json")).unwrap().contains(FIRST));
    assert_eq!(call(&sidecar, "ops", "GET", "/secrets/sec_B", "").status, 200);
    assert_eq!(put(&sidecar, "A", &json!({ "value": FIRST })).status, 201, "and it can be made again");
}

#[test]
fn what_a_person_declared_is_changed_where_they_wrote_it() {
    let shop = Shop::open_with(|at| {
        oncegate_tests::conf::stripe_conf(at)
            .with("[secrets.OURS]\nfrom = { vault = true }\nallowed_hosts = [\"api.stripe.com\"]\n")
    });
    shop.home.holds_secrets("managed/vault.json", "a vault without a key is not encrypted");
    let sidecar = shop.home.serve();
    let theirs = put(&sidecar, "STRIPE_KEY", &json!({ "value": FIRST }));
    says_no(&theirs, 409, "CONFLICT", "declared_in_file");
    says_no(&call(&sidecar, "ops", "DELETE", "/secrets/OURS", ""), 409, "CONFLICT", "declared_in_file");
    let wider = json!({ "value": FIRST, "allowedHosts": ["api.stripe.com", "other.example"] });
    says_no(&put(&sidecar, "OURS", &wider), 409, "CONFLICT", "declared_in_file");
    assert_eq!(data(&call(&sidecar, "ops", "GET", "/secrets/OURS", ""))["createdAt"], json!(null));
    assert_eq!(
        put(&sidecar, "OURS", &json!({ "value": FIRST, "allowedHosts": ["api.stripe.com"] })).status,
        201
    );
    assert!(!shop.home.path("managed/secrets.toml").exists());
    assert_eq!(data(&call(&sidecar, "ops", "GET", "/secrets/STRIPE_KEY", ""))["source"], "env");
}

#[test]
fn another_vault_key_is_refused_at_start_and_by_check() {
    let (shop, _) = shop(Some(KEY));
    let sidecar = shop.home.serve();
    assert_eq!(put(&sidecar, "A", &json!({ "value": FIRST })).status, 201);
    assert_eq!(sidecar.stop(), 0);
    fs::write(shop.home.path("vault.key"), KEY.replace("00", "ff")).unwrap();
    let started = shop.home.try_serve(oncegate_tests::binary::Build::Plain, &[]).err().unwrap();
    assert_eq!(started.code, 2, "{started:?}");
    let checked = shop.home.run(&["check"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    for said in [&started.err, &checked.out] {
        assert!(said.contains("is not the key that managed/vault.json was encrypted with"), "{said}");
    }
    fs::write(shop.home.path("vault.key"), KEY).unwrap();
    let sidecar = shop.home.serve();
    assert_eq!(data(&call(&sidecar, "ops", "GET", "/secrets", ""))[0]["name"], "A");
}

#[test]
fn a_key_that_has_expired_is_unknown_on_both_listeners() {
    let shop = Shop::open();
    let text = fs::read_to_string(shop.home.config()).unwrap();
    let hash = digest(BILLING_KEY);
    let until_then = |moment: &str| {
        let key = format!("[{{ sha256 = \"{hash}\", expires = \"{moment}\" }}]");
        text.replace(&format!("\"{hash}\""), &key)
    };
    shop.home.write(&until_then("2999-01-01T00:00:00Z"));
    let sidecar = shop.home.serve();
    let identity = data(&call(&sidecar, "billing-agent", "GET", "/auth/identity", ""));
    assert_eq!(identity["expiresAt"], "2999-01-01T00:00:00.000Z", "{identity}");
    let never = data(&call(&sidecar, "ops", "GET", "/auth/identity", ""));
    assert_eq!(never["expiresAt"], json!(null));
    let agent = sidecar.billing();
    let mut tunnel = agent.tunnel("api.stripe.com");
    assert_eq!(tunnel.ask(&Ask::refund(REFUND)).status, 200);
    shop.home.write(&until_then("2020-01-01T00:00:00+01:00"));
    until("the key to be unknown to the API", || {
        let answer = call(&sidecar, "billing-agent", "GET", "/auth/identity", "");
        Some(()).filter(|()| answer.status == 401)
    });
    tunnel.ask(&Ask::refund("payment_intent=pi_2&amount=1")).assert_own(403, "oncegate_denied");
    assert_eq!(agent.tunnel_to("api.stripe.com:443", "api.stripe.com").err().unwrap().status, 407);
    assert_eq!(shop.writes(), 1);

    let made = shop.home.run(&[
        "key",
        "new",
        "next",
        "--scope",
        "actions:invoke",
        "--expires",
        "2999-01-01T00:00:00Z",
    ]);
    let declared = made.out.split_once("[callers.next]").unwrap().1;
    shop.home.write(&format!("{text}\n[callers.next]{declared}"));
    assert_eq!(shop.home.run(&["check"]).code, 0, "{made:?}");
}

#[test]
fn p8_who_asked_does_not_put_what_its_effect_is_read_back_with() {
    let (shop, at) = shop(Some(KEY));
    let sidecar = shop.home.serve();
    assert_eq!(put(&sidecar, "STRIPE_KEY", &json!({ "value": FIRST })).status, 201);
    declare(&shop.home, &sidecar, at);
    shop.books.lose(1);
    let own = sidecar.agent("ops").refund(None, REFUND).assert_unknown().effect();
    says_no(&put(&sidecar, "STRIPE_KEY", &json!({ "value": SECOND })), 409, "CONFLICT", "own_open_effects");
    let gone = call(&sidecar, "ops", "DELETE", "/secrets/STRIPE_KEY", "");
    says_no(&gone, 409, "CONFLICT", "in_use");
    assert_eq!(
        put(&sidecar, "OTHER", &json!({ "value": SECOND })).status,
        201,
        "nothing is read back with it"
    );
    assert_eq!(
        sidecar.reconcile(&shop.home, "ops", &own).code,
        0,
        "found with the key that it was sent with"
    );
    assert_eq!(put(&sidecar, "STRIPE_KEY", &json!({ "value": SECOND })).status, 200, "it is settled");

    // Another's effect: a key that leaked is replaced at any time.
    shop.books.lose(1);
    sidecar.billing().refund(None, "payment_intent=pi_2&amount=100").assert_unknown();
    assert_eq!(put(&sidecar, "STRIPE_KEY", &json!({ "value": FIRST })).status, 200);
}
