//! The request for a refund that was asked for through the API.

use oncegate_policy::refusal::Refusal;
use serde_json::{Value, json};

use super::invalid;
use crate::built::{Built, is_header_text, plain_header};
use crate::form_body;

/// Where a refund is made (<https://docs.stripe.com/api/refunds/create>).
const URL: &str = "https://api.stripe.com/v1/refunds";
/// The member that names a connected account. Stripe has no such parameter: it goes out as `Stripe-Account`
/// (<https://docs.stripe.com/connect/authentication>).
const ACCOUNT_MEMBER: &str = "stripe_account";

pub(super) fn build(input: &Value) -> Result<Built, Refusal> {
    let Value::Object(members) = input else { return Err(invalid("The input must be an object")) };
    let mut members = members.clone();
    let mut headers = vec![plain_header("content-type", "application/x-www-form-urlencoded")];
    match members.remove(ACCOUNT_MEMBER) {
        None | Some(Value::Null) => {}
        Some(Value::String(account)) if !account.trim().is_empty() && is_header_text(&account) => {
            headers.push(plain_header("stripe-account", &account));
        }
        Some(_) => return Err(invalid(format!("{ACCOUNT_MEMBER} must be the id of an account, acct_…"))),
    }
    let body = form_body::encode(&members).map_err(invalid)?;
    Ok(Built { method: "POST".to_owned(), url: URL.to_owned(), headers, body: Some(body) })
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
