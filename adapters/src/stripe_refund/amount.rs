//! How much a refund without an amount takes: what is left on the charge.

use oncegate_policy::exchange::Answer;
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::json;
use serde_json::Value;

/// What is left, from a payment intent or a charge; `None` when the answer does not say.
///
/// A charge says it exactly: `amount` less `amount_refunded` (<https://docs.stripe.com/api/charges/object>). A
/// payment intent whose `latest_charge` did not come expanded only says what was received: the most it can be
/// (<https://docs.stripe.com/api/payment_intents/object>).
pub(crate) fn left(read: &Answer) -> Option<Impact> {
    if read.status != 200 {
        return None;
    }
    let object = json::of_answer(&read.body).ok()?;
    match object.get("object").and_then(Value::as_str)? {
        "charge" => left_on(&object),
        "payment_intent" => match object.get("latest_charge").filter(|charge| charge.is_object()) {
            Some(charge) => left_on(charge),
            None => impact(&object, number(&object, "amount_received")?, Bound::UpperBound),
        },
        _ => None,
    }
}

fn left_on(charge: &Value) -> Option<Impact> {
    let left = number(charge, "amount")?.checked_sub(number(charge, "amount_refunded")?)?;
    impact(charge, left, Bound::Exact)
}

fn impact(object: &Value, amount: i64, bound: Bound) -> Option<Impact> {
    let currency = object.get("currency")?.as_str()?.to_ascii_lowercase();
    (amount >= 0).then_some(Impact { dimension: Dimension::Money { currency }, amount: Some(amount), bound })
}

fn number(object: &Value, name: &str) -> Option<i64> {
    json::amount(object.get(name)?).ok().and_then(|amount| i64::try_from(amount).ok())
}
