//! The request for a refund that was asked for through the API.

use oncegate_policy::refusal::Refusal;
use serde_json::{Map, Value, json};

use crate::built::Built;
use crate::form_body;
use crate::stripe::{ACCOUNT_MEMBER, apart, invalid, same_currency};

/// Where a refund is made (<https://docs.stripe.com/api/refunds/create>).
const URL: &str = "https://api.stripe.com/v1/refunds";
/// As the clients of the published API spell parameters, and how Stripe does.
const SPELLINGS: [(&str, &str); 3] = [
    ("paymentIntent", "payment_intent"),
    ("refundApplicationFee", "refund_application_fee"),
    ("reverseTransfer", "reverse_transfer"),
];

pub(super) fn build(input: &Value, currency: &str) -> Result<Built, Refusal> {
    same_currency(input, currency)?;
    let (mut members, headers) = apart(input)?;
    // The currency of a payment's refund is that of the payment: where it is the action's, it goes no further, and a request
    // with it is the same as one without.
    if members.contains_key("payment_intent") || members.contains_key("charge") {
        members.remove("currency");
    }
    let body = form_body::encode(&members).map_err(invalid)?;
    Ok(Built { method: "POST".to_owned(), url: URL.to_owned(), headers, body: Some(body) })
}

/// In Stripe's own spelling, by which a refund is judged.
///
/// # Errors
/// `invalid_input`: one parameter in two spellings.
pub(crate) fn spelled(input: Value) -> Result<Value, Refusal> {
    let members = match input {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Ok(input);
        }
    };
    let mut spelled = Map::new();
    for (name, value) in members {
        let own =
            SPELLINGS.iter().find(|(published, _)| *published == name).map(|(_, own)| (*own).to_owned());
        let own = own.unwrap_or(name);
        if spelled.insert(own.clone(), value).is_some() {
            return Err(invalid(format!("The input says {own} in two spellings")));
        }
    }
    Ok(Value::Object(spelled))
}

/// What tools that are built from the listing need to know of a refund's input.
pub(crate) fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "payment_intent": { "type": "string", "description": "the payment to refund, pi_…" },
            "charge": { "type": "string", "description": "or its charge, ch_…" },
            "amount": { "type": "integer", "minimum": 0, "description": "in minor units; all that is left if missing" },
            "reason": { "type": "string", "enum": ["duplicate", "fraudulent", "requested_by_customer"] },
            "metadata": { "type": "object", "additionalProperties": { "type": "string" } },
            ACCOUNT_MEMBER: { "type": "string", "description": "a connected account, acct_…" },
        },
    })
}
