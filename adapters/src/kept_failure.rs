//! What the answer to a replay proves of the first try.

use oncegate_policy::exchange::Answer;
use oncegate_policy::json;
use serde_json::Value;

use crate::Adapter;

/// What an endpoint answers to what it has looked at. Others come from before it: a key that was rotated (401), rights
/// (403), another account (404), a gateway (413, 421), a limit (429); none of these was kept of the first try.
const LOOKED_AT: [u16; 3] = [400, 402, 422];
impl Adapter {
    /// Whether a refusal of a replay is the one that the first try got, where the provider keeps failures under the key
    /// at all. It then proves that nothing was applied; any other is one of this try only.
    #[must_use]
    pub fn repeats_a_kept_failure(&self, answer: &Answer) -> bool {
        match self {
            Self::StripeRefund(_) | Self::StripeWrite(_) => is_stripes_own(answer),
            Self::ResendEmail(_) | Self::GithubFile(_) | Self::GithubWrite(_) => false,
            // What it says inside a 2xx, it says itself.
            Self::Declared(_) => LOOKED_AT.contains(&answer.status) || (200..=299).contains(&answer.status),
        }
    }
}

/// Stripe says of a kept answer that it is one (`Idempotent-Replayed`). Without the field, a refusal counts that the same
/// bytes would have got the first time: a card that was declined, a parameter that cannot be read. Everything else depends
/// on what was done meanwhile, or would be said just so if the first try had been done: the key is used, the charge is
/// refunded, less is left than is asked (<https://docs.stripe.com/api/idempotent_requests>,
/// <https://docs.stripe.com/error-codes>).
fn is_stripes_own(answer: &Answer) -> bool {
    let replayed = answer.headers.iter().find(|(name, _)| name == "idempotent-replayed");
    if replayed.is_some_and(|(_, value)| value.eq_ignore_ascii_case("true")) {
        return true;
    }
    let body = json::of_answer(&answer.body).unwrap_or_default();
    let error = &body["error"];
    let says = |member: &str| error.get(member).and_then(Value::as_str);
    let of_the_request = match says("type") {
        Some("card_error") => true,
        Some("invalid_request_error") => says("code").is_some_and(|code| code.starts_with("parameter_")),
        Some(_) | None => false,
    };
    LOOKED_AT.contains(&answer.status) && of_the_request
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stripe_refund::StripeRefund;

    fn answer(status: u16, replayed: Option<&str>, body: &Value) -> Answer {
        let headers = replayed.map(|value| ("idempotent-replayed".to_owned(), value.to_owned()));
        let headers = headers.into_iter().collect();
        Answer { status, reason: None, headers, body: body.to_string().into_bytes() }
    }

    #[test]
    fn only_what_stripe_kept_or_says_of_the_request_is_of_the_first_try() {
        let stripe =
            Adapter::StripeRefund(StripeRefund { account: None, currency: "usd".into(), live: false });
        let error = |kind: &str, code: &str| json!({ "error": { "type": kind, "code": code } });
        for (status, replayed, body, counts) in [
            (402, None, error("card_error", "card_declined"), true),
            (400, None, error("invalid_request_error", "parameter_invalid_integer"), true),
            (400, None, error("invalid_request_error", ""), false),
            (400, None, error("invalid_request_error", "amount_too_large"), false),
            (400, None, error("invalid_request_error", "balance_insufficient"), false),
            (400, None, error("idempotency_error", ""), false),
            (400, None, error("invalid_request_error", "idempotency_key_in_use"), false),
            (400, None, error("invalid_request_error", "charge_already_refunded"), false),
            (400, Some("true"), error("invalid_request_error", "charge_already_refunded"), true),
            (400, Some("false"), json!({}), false),
            (404, None, error("invalid_request_error", "resource_missing"), false),
            (404, Some("true"), error("invalid_request_error", "resource_missing"), true),
            (401, None, error("invalid_request_error", ""), false),
            (403, None, error("invalid_request_error", ""), false),
            (429, None, error("invalid_request_error", "rate_limit"), false),
            (400, None, json!("<html>"), false),
            (400, None, json!({ "message": "no" }), false),
        ] {
            let answer = answer(status, replayed, &body);
            assert_eq!(stripe.repeats_a_kept_failure(&answer), counts, "{status} {replayed:?} {body}");
        }
    }
}
