//! Amounts: judged as written, in the smallest unit, never as a float.

use serde_json::Value;

/// Why a member is no amount. The value is never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountFault {
    /// Neither a number nor a text.
    #[error("the amount must be a whole number")]
    NotANumber,
    /// A sign, a space, an exponent, a fraction, a leading zero, or anything but digits.
    #[error("the amount must be plain digits, without sign, space, exponent, fraction or leading zero")]
    Spelling,
    /// Over 2^63-1.
    #[error("the amount is larger than 9223372036854775807")]
    TooLarge,
}

/// The amount in minor units that a JSON number or a form text spells: plain digits, 0 to 2^63-1.
pub fn amount(value: &Value) -> Result<u64, AmountFault> {
    let text = match value {
        Value::Number(number) => number.as_str(),
        Value::String(text) => text.as_str(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            return Err(AmountFault::NotANumber);
        }
    };
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !plain || (text.len() > 1 && text.starts_with('0')) {
        return Err(AmountFault::Spelling);
    }
    text.parse::<i64>().ok().and_then(|amount| u64::try_from(amount).ok()).ok_or(AmountFault::TooLarge)
}
