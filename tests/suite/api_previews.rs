//! Previews: what would be sent and taken, and an invocation that is bound to one.

use oncegate_tests::{
    conf::Conf,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
    wait::until,
};
use serde_json::{Value, json};

use crate::{
    api_invoke::invoke,
    law::{call, data, detail, says_no},
    shop::{DESK, Shop, TICKETS_PER_DAY, ticket_action},
};

/// The input of the usual refund.
fn input() -> Value {
    json!({ "payment_intent": "pi_3Pabc", "amount": 12_000 })
}

#[track_caller]
fn preview(sidecar: &Sidecar, caller: &str, body: &Value) -> Value {
    let answer = call(sidecar, caller, "POST", "/actions/refund/previews", &body.to_string());
    assert_eq!(answer.status, 201, "{answer:?}");
    data(&answer)
}

/// An invocation under a key of its own that is bound to a preview.
#[track_caller]
fn bound(
    sidecar: &Sidecar,
    caller: &str,
    key: &str,
    preview: &Value,
    input: &Value,
) -> oncegate_tests::answer::Answer {
    let body = json!({ "input": input, "previewId": preview["id"] });
    invoke(sidecar, caller, Some(key), "refund", &body)
}

#[track_caller]
fn stale(sidecar: &Sidecar, caller: &str, key: &str, preview: &Value, why: &str) {
    let answer = bound(sidecar, caller, key, preview, &input());
    says_no(&answer, 409, "STALE_PLAN", "stale_preview");
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(why), "{why:?} is not in {message:?}");
}

#[test]
fn it_shows_everything_but_the_credential_and_sends_nothing() {
    let shop = Shop::open_with(|at| {
        Conf::default()
            .stripe_host(at)
            .refund("fault_drill = \"drop_response_after_send\"\noperation_key = \"refund:{{input.payment_intent}}\"")
            .daily_limit(10_000)
    });
    let sidecar = shop.home.serve();
    let shown = preview(&sidecar, "billing-agent", &json!({ "input": input(), "ttlSeconds": 60 }));
    assert_eq!(shown["change"]["method"], "POST");
    assert_eq!(shown["change"]["url"], "https://api.stripe.com/v1/refunds");
    let body = shown["change"]["body"].as_str().unwrap();
    assert!(body.contains("payment_intent=pi_3Pabc") && body.contains("amount=12000"), "{body}");
    assert_eq!(shown["credential"], json!({ "secrets": ["STRIPE_KEY"], "places": ["header authorization"] }));
    assert!(!shown.to_string().contains("sk_test_"), "{shown}");
    assert_eq!(json!([shown["impact"]["amount"], shown["impact"]["unit"]]), json!([12_000, "usd"]));
    let limit = &shown["limits"][0];
    let took = json!([limit["name"], limit["available"], limit["availableAfter"], limit["fits"]]);
    assert_eq!(took, json!(["refunds-per-day", 10_000, -2_000, false]));
    assert_eq!(
        json!([shown["faultDrill"], shown["operationKey"]]),
        json!(["drop_response_after_send", "refund:pi_3Pabc"])
    );
    let guarantees = shown["guarantees"].to_string();
    assert!(guarantees.contains("Fault drill") && guarantees.contains("24 h"), "{guarantees}");
    let unmet: Vec<_> =
        shown["preconditions"].as_array().unwrap().iter().filter(|one| one["met"] == false).collect();
    assert_eq!((unmet.len(), &unmet[0]["name"]), (1, &json!("room_on_limits")));
    assert_eq!((shown["status"].as_str(), shown["requiresApproval"].as_bool()), (Some("valid"), Some(false)));
    assert_eq!((shop.writes(), shop.home.effects().len()), (0, 0));
}

#[test]
fn one_invocation_is_bound_to_it() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let shown = preview(&sidecar, "billing-agent", &json!({ "input": input() }));
    let other = json!({ "payment_intent": "pi_3Pabc", "amount": 12_001 });
    let varied = bound(&sidecar, "billing-agent", "a", &shown, &other);
    says_no(&varied, 409, "STALE_PLAN", "stale_preview");
    stale(&sidecar, "ops", "a", &shown, "another caller");
    assert_eq!((shop.writes(), shop.home.effects().len()), (0, 0));

    let done = data(&bound(&sidecar, "billing-agent", "a", &shown, &input()));
    assert_eq!(done["status"], "succeeded", "a refusal left the key free: {done}");
    let effect = done["effectId"].as_str().unwrap();
    assert_eq!(detail(&sidecar, effect)["previewId"], shown["id"]);
    let path = format!("/actions/previews/{}", shown["id"].as_str().unwrap());
    let used = data(&call(&sidecar, "billing-agent", "GET", &path, ""));
    assert_eq!(json!([used["status"], used["effectId"]]), json!(["used", effect]));
    // A repeat is answered as one, whatever has become of the preview.
    let again = bound(&sidecar, "billing-agent", "a", &shown, &input());
    assert_eq!(again.header("x-idempotent-replay"), Some("current-state"));
    stale(&sidecar, "billing-agent", "b", &shown, "has been used");
    assert_eq!(shop.writes(), 1);
}

#[test]
fn a_refresh_takes_the_place_of_the_old_one_and_time_ends_both() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let old = preview(&sidecar, "billing-agent", &json!({ "input": input() }));
    let path = format!("/actions/previews/{}/refresh", old["id"].as_str().unwrap());
    let new = data(&call(&sidecar, "billing-agent", "POST", &path, r#"{"ttlSeconds":1}"#));
    assert_eq!(new["refreshedFrom"], old["id"]);
    assert_ne!(new["id"], old["id"]);
    stale(&sidecar, "billing-agent", "a", &old, "refreshed");
    let path = format!("/actions/previews/{}", new["id"].as_str().unwrap());
    until("the preview to lapse", || {
        let shown = data(&call(&sidecar, "billing-agent", "GET", &path, ""));
        Some(()).filter(|()| shown["status"] == "expired")
    });
    stale(&sidecar, "billing-agent", "a", &new, "has expired");
    assert_eq!((shop.writes(), shop.home.effects().len()), (0, 0));
}

#[test]
fn what_the_provider_said_must_still_be_so() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    // No amount: what is left to refund is read, before the preview and before the call.
    let rest = json!({ "charge": "ch_of_the_payment" });
    let shown = preview(&sidecar, "billing-agent", &json!({ "input": rest }));
    let amount = shown["impact"]["amount"].as_u64().unwrap();
    shop.books.made_elsewhere("pi_3Pabc", 500);
    let answer = bound(&sidecar, "billing-agent", "a", &shown, &rest);
    says_no(&answer, 409, "STALE_PLAN", "stale_preview");
    let fresh = preview(&sidecar, "billing-agent", &json!({ "input": rest }));
    assert_eq!(fresh["impact"]["amount"].as_u64(), Some(amount - 500));
    assert_eq!(data(&bound(&sidecar, "billing-agent", "a", &fresh, &rest))["status"], "succeeded");
    assert_eq!(shop.writes(), 1);
}

#[test]
fn what_cannot_be_previewed_says_why() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    for (body, reason) in [
        (json!({ "input": { "amount": 1 } }), "invalid_input"),
        (json!({ "input": [] }), "invalid_input"),
        (json!({ "input": input(), "ttlSeconds": 0 }), ""),
        (json!({ "input": input(), "ttlSeconds": 86_401 }), ""),
    ] {
        let answer = call(&sidecar, "billing-agent", "POST", "/actions/refund/previews", &body.to_string());
        assert_eq!(answer.status, 400, "{answer:?}");
        if !reason.is_empty() {
            says_no(&answer, 400, "VALIDATION_ERROR", reason);
        }
    }
    let no_such = "/actions/previews/prv_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    says_no(&call(&sidecar, "billing-agent", "GET", no_such, ""), 404, "NOT_FOUND", "");
    let body = json!({ "input": input(), "previewId": "prv_01ARZ3NDEKTSV4RRFFQ69G5FAV" });
    let unknown = invoke(&sidecar, "billing-agent", Some("a"), "refund", &body);
    says_no(&unknown, 409, "STALE_PLAN", "stale_preview");
}

/// What was shown is what a person agreed to: the account that it goes to, too.
#[test]
fn the_credential_and_the_server_must_still_be_the_same() {
    let provider = Provider::tls(&[DESK]);
    let conf = |secret: &str| {
        let secret_of = |name: &str| {
            format!(
                "[secrets.{name}]\nfrom = {{ env = \"STRIPE_SECRET_KEY\" }}\nallowed_hosts = [\"{DESK}\"]\n"
            )
        };
        let credential = format!(
            "[hosts.\"{DESK}\"]\nca_file = \"upstream-ca.pem\"\ncredential = {{ header = \"X-Key\", value = \"{{{{secret:{secret}}}}}\" }}\n"
        );
        let at = format!("connect_to = \"{}\"\n", provider.addr());
        let conf = Conf::default().with(&secret_of("ONE")).with(&secret_of("TWO")).with(&(credential + &at));
        conf.with(&ticket_action("refund", DESK)).with(TICKETS_PER_DAY)
    };
    let home = Home::new(&conf("ONE"));
    let sidecar = home.serve();
    let ticket = json!({ "title": "a" });
    let shown = preview(&sidecar, "billing-agent", &json!({ "input": ticket }));
    assert_eq!(shown["credential"]["secrets"], json!(["ONE"]));
    home.write(&conf("TWO").text());
    until("the reload", || Some(()).filter(|()| sidecar.log().contains("the configuration was reloaded")));
    let answer = bound(&sidecar, "billing-agent", "a", &shown, &ticket);
    says_no(&answer, 409, "STALE_PLAN", "stale_preview");
    assert_eq!(provider.record().writes().len(), 0);
    let again = preview(&sidecar, "billing-agent", &json!({ "input": ticket }));
    assert_eq!(data(&bound(&sidecar, "billing-agent", "a", &again, &ticket))["status"], "succeeded");
}

/// What the call would be refused for is no met precondition.
#[test]
fn it_says_what_is_in_the_way() {
    let shop = Shop::open_with(|at| {
        Conf::default().stripe_host(at).refund("operation_key = \"refund:{{input.metadata.order_id}}\"")
    });
    let sidecar = shop.home.serve();
    let of = |charge: &str, order: u32, amount: u32| json!({ "input": { "payment_intent": charge, "amount": amount, "metadata": { "order_id": order.to_string() } } });
    let done_before = |body: &Value| {
        let shown = preview(&sidecar, "billing-agent", body);
        assert_eq!(shown["repeatOf"], Value::Null, "{shown}");
        let conditions = shown["preconditions"].as_array().unwrap();
        conditions.iter().find(|one| one["name"] == "not_done_before").unwrap().clone()
    };
    let met = done_before(&of("pi_1", 1, 500));
    assert_eq!((&met["met"], met.get("code")), (&json!(true), None), "{met}");
    shop.provider.on_write(Reply::lost());
    let unknown = data(&invoke(&sidecar, "billing-agent", Some("k1"), "refund", &of("pi_1", 1, 500)));
    for (body, code) in [(of("pi_1", 1, 400), "key_reuse"), (of("pi_1", 2, 400), "unresolved_effect")] {
        let unmet = done_before(&body);
        assert_eq!((&unmet["met"], &unmet["code"]), (&json!(false), &json!(code)), "{unmet}");
        let said = unmet["description"].as_str().unwrap();
        assert!(said.contains(unknown["effectId"].as_str().unwrap()), "{said}");
    }
    assert_eq!(shop.writes(), 1);
}
