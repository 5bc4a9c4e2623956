//! The request for a refund that was asked for through the API.

use oncegate_policy::refusal::Refusal;
use serde_json::{Value, json};

use crate::built::Built;
use crate::form_body;
use crate::stripe::{ACCOUNT_MEMBER, apart, invalid};

/// Where a refund is made (<https://docs.stripe.com/api/refunds/create>).
const URL: &str = "https://api.stripe.com/v1/refunds";
pub(super) fn build(input: &Value) -> Result<Built, Refusal> {
    let (members, headers) = apart(input)?;
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
