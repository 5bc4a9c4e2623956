//! Readers of single values. Each records a fault and gives `None` when the value is not what it should be.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use oncegate_policy::time::Timestamp;
use serde_json::{Map, Number, Value};
use toml::de::{DeInteger, DeValue};

use crate::nearest::{nearest, quoted};
use crate::reader::Node;

/// A string; the empty one is a fault, because nothing here means anything by it.
pub(crate) fn text<'a>(node: &Node<'a>) -> Option<&'a str> {
    let text = any_text(node)?;
    if text.is_empty() {
        node.fault(format!("{} is empty", node.what));
        return None;
    }
    Some(text)
}

/// A string that may be empty.
pub(crate) fn any_text<'a>(node: &Node<'a>) -> Option<&'a str> {
    if let DeValue::String(text) = node.value {
        return Some(text);
    }
    node.wrong_type("a string");
    None
}

/// A string of one's own.
pub(crate) fn owned(node: &Node<'_>) -> Option<String> {
    text(node).map(str::to_owned)
}

/// A path, as it is written.
pub(crate) fn path(node: &Node<'_>) -> Option<PathBuf> {
    text(node).map(PathBuf::from)
}

/// `true` or `false`.
pub(crate) fn boolean(node: &Node<'_>) -> Option<bool> {
    if let DeValue::Boolean(truth) = node.value {
        return Some(*truth);
    }
    node.wrong_type("a boolean");
    None
}

/// An integer from `least` to 2^63 - 1.
pub(crate) fn integer(node: &Node<'_>, least: i64) -> Option<i64> {
    let DeValue::Integer(written) = node.value else {
        node.wrong_type("an integer");
        return None;
    };
    let read = decimal(written).filter(|number| *number >= least);
    if read.is_none() {
        node.fault(format!("{} must be an integer from {least} to {}, not {written}", node.what, i64::MAX));
    }
    read
}

/// An amount: 0 to 2^63 - 1.
pub(crate) fn amount(node: &Node<'_>) -> Option<i64> {
    integer(node, 0)
}

/// How many: at least 1.
pub(crate) fn count(node: &Node<'_>) -> Option<usize> {
    integer(node, 1).and_then(|number| usize::try_from(number).ok())
}

fn decimal(written: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(written.as_str(), written.radix()).ok()
}

/// An address with a port, such as `127.0.0.1:8080`.
pub(crate) fn socket(node: &Node<'_>) -> Option<SocketAddr> {
    let written = text(node)?;
    let read = written.parse().ok();
    if read.is_none() {
        node.fault(format!("{}: `{written}` is not an address and port such as `127.0.0.1:8080`", node.what));
    }
    read
}

/// A moment with its offset from UTC (RFC 3339), in quotes or as TOML's own.
pub(crate) fn moment(node: &Node<'_>) -> Option<Timestamp> {
    let written =
        if let DeValue::Datetime(own) = node.value { own.to_string() } else { text(node)?.to_owned() };
    let read = written.parse::<jiff::Timestamp>().ok();
    if read.is_none() {
        node.fault(format!(
            "{}: `{written}` is not a moment such as `2027-01-01T00:00:00Z`, with its offset from UTC",
            node.what
        ));
    }
    read.map(|moment| Timestamp(moment.as_millisecond()))
}

/// A span of time: `500ms`, `12s`, `10min` or `10m`, `24h`, `30d`.
pub(crate) fn duration(node: &Node<'_>) -> Option<Duration> {
    let written = text(node)?;
    let read = parse_duration(written);
    if read.is_none() {
        node.fault(format!(
            "{}: `{written}` is not a duration: write a whole number and a unit, such as `500ms`, `12s`, `10min`, \
             `24h` or `30d`",
            node.what
        ));
    }
    read
}

/// A span of time that is not zero.
pub(crate) fn positive_duration(node: &Node<'_>) -> Option<Duration> {
    let read = duration(node)?;
    if read.is_zero() {
        node.fault(format!("{} must be longer than zero", node.what));
        return None;
    }
    Some(read)
}

fn parse_duration(written: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(written)?;
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    // Timestamps are signed milliseconds: a span that does not fit there is a slip of the pen.
    let span = number.checked_mul(milliseconds).filter(|span| i64::try_from(*span).is_ok())?;
    Some(Duration::from_millis(span))
}

/// A size in bytes: an integer, or `512B`, `64KiB`, `1MiB`, `1GiB`. Never zero.
pub(crate) fn size(node: &Node<'_>) -> Option<usize> {
    if matches!(node.value, DeValue::Integer(_)) {
        return count(node);
    }
    let DeValue::String(written) = node.value else {
        node.wrong_type("a size such as `1MiB`, or a number of bytes");
        return None;
    };
    let read = parse_size(written).filter(|size| *size > 0);
    if read.is_none() {
        node.fault(format!(
            "{}: `{written}` is not a size: write a number of bytes, or a whole number with `KiB`, `MiB` or `GiB`",
            node.what
        ));
    }
    read
}

fn parse_size(written: &str) -> Option<usize> {
    let (number, unit) = number_and_unit(written)?;
    let bytes: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(bytes).and_then(|size| usize::try_from(size).ok())
}

fn number_and_unit(written: &str) -> Option<(u64, &str)> {
    let digits = written.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = written.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// One of a few words.
pub(crate) fn word<T: Clone>(node: &Node<'_>, known: &[(&str, T)]) -> Option<T> {
    let written = any_text(node)?;
    let found = known.iter().find(|(word, _)| *word == written).map(|(_, meaning)| meaning.clone());
    if found.is_none() {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        let hint = match nearest(written, words.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known: {}", quoted(&words)),
        };
        node.fault(format!("{}: unknown word `{written}`; {hint}", node.what));
    }
    found
}

/// Every item of a list, each read by `read`; `None` if one is faulty.
pub(crate) fn list<'a, T>(node: &Node<'a>, read: impl Fn(&Node<'a>) -> Option<T>) -> Option<Vec<T>> {
    // Collected in two steps so that every faulty item is reported, not only the first.
    let read: Vec<Option<T>> = node.items()?.iter().map(read).collect();
    read.into_iter().collect()
}

/// A list with at least one item.
pub(crate) fn some_list<'a, T>(node: &Node<'a>, read: impl Fn(&Node<'a>) -> Option<T>) -> Option<Vec<T>> {
    let items = list(node, read)?;
    if items.is_empty() {
        node.fault(format!("{} is empty", node.what));
        return None;
    }
    Some(items)
}

/// Any value that JSON has.
pub(crate) fn json(node: &Node<'_>) -> Option<Value> {
    match node.value {
        DeValue::String(text) => Some(Value::String(text.to_string())),
        DeValue::Boolean(truth) => Some(Value::Bool(*truth)),
        DeValue::Integer(written) => json_integer(node, written),
        DeValue::Float(written) => json_number(node, written.as_str()),
        DeValue::Datetime(_) => {
            node.fault(format!("{}: JSON has no dates: write it in quotes", node.what));
            None
        }
        DeValue::Array(_) => list(node, json).map(Value::Array),
        DeValue::Table(table) => {
            let entries = crate::reader::entries(table, node.place.file, node.log);
            let members: Vec<Option<(String, Value)>> =
                entries.iter().map(|(name, _, member)| Some(((*name).to_owned(), json(member)?))).collect();
            members.into_iter().collect::<Option<Map<String, Value>>>().map(Value::Object)
        }
    }
}

fn json_integer(node: &Node<'_>, written: &DeInteger<'_>) -> Option<Value> {
    if written.radix() == 10 {
        return json_number(node, written.as_str());
    }
    let read = decimal(written).map(|number| Value::Number(number.into()));
    if read.is_none() {
        node.fault(format!("{}: {written} is too large", node.what));
    }
    read
}

fn json_number(node: &Node<'_>, written: &str) -> Option<Value> {
    // TOML allows a plus sign, JSON does not.
    let read = written.trim_start_matches('+').parse::<Number>().ok().map(Value::Number);
    if read.is_none() {
        node.fault(format!("{}: JSON has no number `{written}`", node.what));
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (written, milliseconds) in [
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("12s", Some(12_000)),
            ("10min", Some(600_000)),
            ("10m", Some(600_000)),
            ("24h", Some(86_400_000)),
            ("30d", Some(2_592_000_000)),
            ("12 s", Some(12_000)),
            ("12", None),
            ("s", None),
            ("1.5s", None),
            ("-1s", None),
            ("1w", None),
            ("99999999999999999d", None),
        ] {
            assert_eq!(parse_duration(written), milliseconds.map(Duration::from_millis), "{written}");
        }
    }

    #[test]
    fn sizes() {
        for (written, bytes) in [
            ("1MiB", Some(1 << 20)),
            ("64KiB", Some(64 << 10)),
            ("2 GiB", Some(2 << 30)),
            ("512B", Some(512)),
            ("512", Some(512)),
            ("1MB", None),
            ("MiB", None),
            ("99999999999999GiB", None),
        ] {
            assert_eq!(parse_size(written), bytes, "{written}");
        }
    }
}
