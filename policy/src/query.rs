//! The query of a request target, read as a form (WHATWG URL, "application/x-www-form-urlencoded").

use percent_encoding::percent_decode_str;

use crate::path::Ambiguity;

/// Most parameters in one query.
pub const MAX_PARAMETERS: usize = 256;
/// Longest raw query in bytes.
pub const MAX_QUERY: usize = 32 * 1024;

/// Name and value of every parameter, decoded, in the order they came.
///
/// A parameter without `=` has the empty value; empty pieces (`a=1&&b=2`) are nothing. What two servers
/// could split or decode differently is refused, as for a path.
pub fn parse(raw_query: Option<&str>) -> Result<Vec<(String, String)>, Ambiguity> {
    let Some(raw) = raw_query else { return Ok(Vec::new()) };
    if raw.len() > MAX_QUERY {
        return Err(Ambiguity::QueryTooLong);
    }
    raw.bytes().try_for_each(check_raw)?;

    let mut pairs = Vec::new();
    for piece in raw.split('&').filter(|piece| !piece.is_empty()) {
        if pairs.len() == MAX_PARAMETERS {
            return Err(Ambiguity::QueryTooMany);
        }
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        if name.is_empty() {
            return Err(Ambiguity::QueryName);
        }
        pairs.push((decode(name)?, decode(value)?));
    }
    Ok(pairs)
}

/// Whether a raw byte may stand in a query.
pub(crate) fn check_raw(byte: u8) -> Result<(), Ambiguity> {
    match byte {
        0x80.. => Err(Ambiguity::NotAscii),
        0..=0x20 | 0x7f => Err(Ambiguity::Control),
        b';' => Err(Ambiguity::QuerySemicolon),
        b'#' => Err(Ambiguity::Delimiter),
        _ => Ok(()),
    }
}

/// Form decoding of one name or value: `+` is a space, escapes are bytes of UTF-8.
pub(crate) fn decode(raw: &str) -> Result<String, Ambiguity> {
    if !escapes_are_whole(raw.as_bytes()) {
        return Err(Ambiguity::BadEscape);
    }
    let spaced = raw.replace('+', " ");
    let text = percent_decode_str(&spaced).decode_utf8().map_err(|_| Ambiguity::BadUtf8)?;
    Ok(text.into_owned())
}

/// Whether every `%` is followed by two hex digits.
pub(crate) fn escapes_are_whole(raw: &[u8]) -> bool {
    raw.iter().enumerate().filter(|(_, byte)| **byte == b'%').all(|(at, _)| {
        matches!(raw.get(at + 1..at + 3), Some([high, low]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
    })
}
