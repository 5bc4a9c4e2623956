//! One spelling per meaning: what the fingerprint is taken over.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Longest run of zeros that is written out; [`super::strict`] lets nothing larger through.
const MAX_ZEROS: i64 = 1_000;

/// The canonical spelling of a value, the same for JSON and form encoding of one request.
///
/// Members are sorted by their UTF-8 bytes and nothing is indented. A number becomes the text of its exact
/// value in plain decimal notation, a boolean the text `true` or `false`; `null` stays. Texts are taken as
/// they are, without Unicode folding. An object whose members are exactly `0` to `n-1` is the array of them,
/// since forms spell lists with indices.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("\"true\""),
        Value::Bool(false) => out.push_str("\"false\""),
        Value::Number(number) => write_text(&plain_decimal(number.as_str()), out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => write_list(items.iter(), out),
        Value::Object(members) => match as_list(members) {
            Some(items) => write_list(items.into_iter(), out),
            None => write_members(members, out),
        },
    }
}

fn write_list<'a>(items: impl Iterator<Item = &'a Value>, out: &mut String) {
    out.push('[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_value(item, out);
    }
    out.push(']');
}

fn write_members(members: &Map<String, Value>, out: &mut String) {
    // Sorted here and not trusted to the map: a feature of serde_json switches it to insertion order.
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| name.as_bytes());
    out.push('{');
    for (at, (name, value)) in sorted.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_text(name, out);
        out.push(':');
        write_value(value, out);
    }
    out.push('}');
}

/// The items in order, if the members are exactly `0` to `n-1` and there is at least one.
pub(crate) fn as_list(members: &Map<String, Value>) -> Option<Vec<&Value>> {
    if members.is_empty() {
        return None;
    }
    (0..members.len()).map(|index| members.get(index.to_string().as_str())).collect()
}

/// Writes a JSON string in its shortest ASCII-escape form (RFC 8785 section 3.2.2.2).
pub(crate) fn write_text(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    // Runs without anything to escape are written at once. What is escaped has one byte.
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        let (run, from) = rest.split_at(at);
        out.push_str(run);
        let (escaped, after) = from.split_at(1);
        match escaped {
            "\"" => out.push_str("\\\""),
            "\\" => out.push_str("\\\\"),
            "\u{8}" => out.push_str("\\b"),
            "\t" => out.push_str("\\t"),
            "\n" => out.push_str("\\n"),
            "\u{c}" => out.push_str("\\f"),
            "\r" => out.push_str("\\r"),
            control => {
                for byte in control.bytes() {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\u{byte:04x}");
                }
            }
        }
        rest = after;
    }
    out.push_str(rest);
    out.push('"');
}

/// The exact value of a JSON number in plain decimal notation: `1.20e1` is `12`, `-0` is `0`.
pub(crate) fn plain_decimal(number: &str) -> String {
    let (sign, unsigned) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    if significant.is_empty() {
        return "0".to_owned();
    }
    let leading_zeros = all.len() - significant.len();
    let digits = significant.trim_end_matches('0');
    let point = exponent
        .parse::<i64>()
        .ok()
        .and_then(|e| e.checked_add(i64::try_from(whole.len()).ok()?))
        .and_then(|p| p.checked_sub(i64::try_from(leading_zeros).ok()?));
    match point {
        Some(point) if (-MAX_ZEROS..=MAX_ZEROS).contains(&point) => place_point(sign, digits, point),
        // Beyond what `strict` lets through: still one spelling per value, but not written out.
        Some(point) => format!("{sign}0.{digits}e{point}"),
        None => number.to_ascii_lowercase(),
    }
}

/// `digits` with the decimal point after `point` of them.
fn place_point(sign: &str, digits: &str, point: i64) -> String {
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    let before = usize::try_from(point).unwrap_or(0);
    if point <= 0 {
        return format!("{sign}0.{}{digits}", zeros(-point));
    }
    match digits.split_at_checked(before) {
        Some((whole, "")) => format!("{sign}{whole}"),
        Some((whole, fraction)) => format!("{sign}{whole}.{fraction}"),
        None => {
            let missing = point - i64::try_from(digits.len()).unwrap_or(point);
            format!("{sign}{digits}{}", zeros(missing))
        }
    }
}
