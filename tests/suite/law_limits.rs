//! Limits through the API: safe to repeat, bound to the configuration, there after a restart.

use serde_json::json;

use crate::{
    law::{call, data, lost, says_no},
    shop::{REFUND, Shop},
};

const NEW: &str = r#"{"name":"refunds-total","dimension":"money","currency":"usd","period":"total","amount":15000,"actionName":"refund"}"#;

#[test]
fn made_changed_and_archived() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    says_no(&call(&sidecar, "billing-agent", "POST", "/impact-limits", NEW), 403, "AUTHORIZATION_ERROR", "");
    let made = call(&sidecar, "ops", "POST", "/impact-limits", NEW);
    assert_eq!(made.status, 201, "{made:?}");
    let id = data(&made)["id"].as_str().unwrap().to_owned();
    // Clients send it again when the answer is lost, without a key.
    let again = call(&sidecar, "ops", "POST", "/impact-limits", NEW);
    assert_eq!((again.status, data(&again)["id"].as_str()), (200, Some(id.as_str())));
    let other = NEW.replace("15000", "16000");
    says_no(&call(&sidecar, "ops", "POST", "/impact-limits", &other), 409, "CONFLICT", "name_taken");

    let effect = lost(&shop, &sidecar);
    let limit = data(&call(&sidecar, "ops", "GET", &format!("/impact-limits/{id}"), ""));
    assert_eq!(
        json!([limit["reserved"], limit["unknownExposure"], limit["available"]]),
        json!([12_000, 12_000, 3_000])
    );
    let full = sidecar.billing().refund(None, "payment_intent=pi_2&amount=3001");
    full.assert_refused(403, "oncegate_limit_exceeded");
    assert!(full.reason.contains("refunds-total"), "{full:?}");

    // After a restart it counts as before.
    sidecar.kill9();
    let sidecar = shop.home.serve();
    sidecar
        .billing()
        .refund(None, "payment_intent=pi_2&amount=3001")
        .assert_refused(403, "oncegate_limit_exceeded");
    let path = format!("/impact-limits/{id}");
    let lowered = data(&call(&sidecar, "ops", "PATCH", &path, r#"{"amount":5000,"name":"refunds-ever"}"#));
    assert_eq!(
        json!([lowered["name"], lowered["available"]]),
        json!(["refunds-ever", -7_000]),
        "lowering frees nothing"
    );
    says_no(
        &call(&sidecar, "ops", "PATCH", &path, r#"{"name":"refunds-per-day"}"#),
        409,
        "CONFLICT",
        "name_taken",
    );
    says_no(&call(&sidecar, "ops", "PATCH", &path, r#"{"amount":-1}"#), 400, "VALIDATION_ERROR", "");
    assert_eq!(sidecar.stop(), 0);
    let sidecar = shop.home.serve();
    let limit = data(&call(&sidecar, "ops", "GET", &path, ""));
    assert_eq!(json!([limit["name"], limit["amount"]]), json!(["refunds-ever", 5_000]));

    for _ in 0..2 {
        let archived = data(&call(&sidecar, "ops", "DELETE", &path, ""));
        assert!(archived["archivedAt"].is_string(), "{archived}");
    }
    assert_eq!(sidecar.billing().refund(None, "payment_intent=pi_2&amount=3001").status, 200);
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &effect).code, 0);
    let limit = data(&call(&sidecar, "ops", "GET", &path, ""));
    assert_eq!(json!([limit["reserved"], limit["consumed"]]), json!([0, 12_000]), "its hold still settles");
    assert_eq!(sidecar.stop(), 0);
    let sidecar = shop.home.serve();
    let counting = data(&call(&sidecar, "ops", "GET", "/impact-limits", ""));
    assert_eq!(counting.as_array().map(Vec::len), Some(1), "it stays archived: {counting}");
}

#[test]
fn what_an_operator_wrote_is_changed_where_it_was_written() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let listed = data(&call(&sidecar, "ops", "GET", "/impact-limits", ""));
    let path = format!("/impact-limits/{}", listed[0]["id"].as_str().unwrap());
    says_no(&call(&sidecar, "ops", "PATCH", &path, r#"{"amount":1}"#), 409, "CONFLICT", "declared_in_file");
    says_no(&call(&sidecar, "ops", "DELETE", &path, ""), 409, "CONFLICT", "declared_in_file");
    let same =
        r#"{"name":"refunds-per-day","dimension":"money","currency":"usd","period":"day","amount":50000}"#;
    assert_eq!(call(&sidecar, "ops", "POST", "/impact-limits", same).status, 200, "the very same is there");
    for body in [
        "{}",
        &NEW.replace("refund\"", "no-such-action\""),
        &NEW.replace("usd", "dollars"),
        &NEW.replace("total\",\"amount", "week\",\"amount"),
        &NEW.replace("15000", "-1"),
        &NEW.replace("15000", "1.5"),
        &NEW.replace("refunds-total", " "),
    ] {
        says_no(&call(&sidecar, "ops", "POST", "/impact-limits", body), 400, "VALIDATION_ERROR", "");
    }
    says_no(&call(&sidecar, "ops", "DELETE", "/impact-limits/lim_x", ""), 404, "NOT_FOUND", "");
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
    assert_eq!(shop.home.money(), (12_000, 0, 0));
}

/// A limit in a unit that no action has would hold nothing.
#[test]
fn p5_a_limit_that_says_two_units_is_not_made() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    for (field, said) in [
        ("unit", json!({ "dimension": "money", "currency": "usd", "unit": "eur" })),
        ("currency", json!({ "dimension": "emails", "currency": "usd" })),
        ("currency", json!({ "dimension": "resource_mutations", "currency": "usd" })),
    ] {
        let mut limit = json!({ "name": "x", "period": "day", "amount": 1 });
        limit.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
        let answer = call(&sidecar, "ops", "POST", "/impact-limits", &limit.to_string());
        assert_eq!(answer.status, 400, "{said}: {answer:?}");
        assert_eq!(answer.json()["error"]["details"][0]["field"], field, "{said}");
    }
}
