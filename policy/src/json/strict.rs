//! The strict reader: structure is read here, scalars by `serde_json`.
//!
//! `serde_json` keeps the last of two equal members and gives two member names a magic meaning, so it never
//! sees an object. One pass, linear in the length of the body.

use serde_json::{Map, Number, Value};

use super::fault::{BodyFault, excerpt};

/// Deepest nesting of arrays and objects.
pub const MAX_DEPTH: usize = 64;
/// Longest number in characters.
pub const MAX_NUMBER: usize = 400;

/// Reads one JSON text (RFC 8259) that every parser reads alike (RFC 7493), or says why it is none.
///
/// Refused: duplicate members, bad UTF-8, a byte order mark, lone surrogates, more than [`MAX_DEPTH`] levels,
/// trailing bytes, integers outside -2^63..=2^64-1, other numbers that overflow or underflow a double, and
/// numbers of over [`MAX_NUMBER`] characters. Numbers keep the digits they were written with.
pub fn strict(bytes: &[u8]) -> Result<Value, BodyFault> {
    if bytes.starts_with(BYTE_ORDER_MARK) {
        return Err(BodyFault::ByteOrderMark);
    }
    read(bytes, false)
}

/// Reads a provider's answer, which nobody judges but us: what is beside the point in it must not hide the point.
///
/// As [`strict`], but a byte order mark is passed over, a lone surrogate is U+FFFD, and a number that parsers do not agree
/// on is the text of its digits. Two members of one name are refused here too: which of them counts is not known.
pub fn of_answer(bytes: &[u8]) -> Result<Value, BodyFault> {
    read(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes), true)
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn read(bytes: &[u8], lenient: bool) -> Result<Value, BodyFault> {
    let text = std::str::from_utf8(bytes).map_err(|_| BodyFault::BadUtf8)?;
    let mut reader = Reader { text, at: 0, lenient };
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.peek().is_some() {
        return Err(BodyFault::Trailing { at: reader.at });
    }
    Ok(value)
}

/// Whether `serde_json` would give a member of this name a meaning of its own when the value is read again.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with("$serde_json::private::")
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Whether it is an answer.
    lenient: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes the next byte after white space if it is `wanted`.
    fn take(&mut self, wanted: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(wanted);
        if found {
            self.at += 1;
        }
        found
    }

    fn syntax(&self) -> BodyFault {
        BodyFault::Syntax { at: self.at }
    }

    fn value(&mut self, depth: usize) -> Result<Value, BodyFault> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(self.deeper(depth)?),
            Some(b'[') => self.array(self.deeper(depth)?),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(_) | None => Err(self.syntax()),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, BodyFault> {
        if depth == MAX_DEPTH { Err(BodyFault::TooDeep { max: MAX_DEPTH }) } else { Ok(depth + 1) }
    }

    fn object(&mut self, depth: usize) -> Result<Value, BodyFault> {
        self.at += 1;
        let mut members = Map::new();
        if self.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.syntax());
            }
            let name = self.string()?;
            if is_reserved(&name) {
                return Err(BodyFault::Reserved { name: excerpt(&name) });
            }
            if members.contains_key(&name) {
                return Err(BodyFault::Duplicate { name: excerpt(&name) });
            }
            if !self.take(b':') {
                return Err(self.syntax());
            }
            members.insert(name, self.value(depth)?);
            if self.take(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.take(b',') {
                return Err(self.syntax());
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, BodyFault> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return Err(self.syntax());
            }
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, BodyFault> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word) {
            return Err(self.syntax());
        }
        self.at += word.len();
        Ok(value)
    }

    fn string(&mut self) -> Result<String, BodyFault> {
        let start = self.at;
        let bad = BodyFault::BadString { at: start };
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return Err(bad),
            }
        }
        self.at += 1;
        let token = self.text.get(start..self.at).ok_or(BodyFault::BadString { at: start })?;
        match serde_json::from_str(token) {
            Ok(text) => Ok(text),
            Err(_) if self.lenient => serde_json::from_str(&without_lone_surrogates(token)).map_err(|_| bad),
            Err(_) => Err(bad),
        }
    }

    fn number(&mut self) -> Result<Value, BodyFault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        let token = self.text.get(start..self.at).unwrap_or_default();
        if token.len() > MAX_NUMBER {
            return Err(BodyFault::NumberRange { number: excerpt(token) });
        }
        let number: Number = token.parse().map_err(|_| BodyFault::Syntax { at: start })?;
        match in_range(token) {
            true => Ok(Value::Number(number)),
            false if self.lenient => Ok(Value::String(token.to_owned())),
            false => Err(BodyFault::NumberRange { number: excerpt(token) }),
        }
    }
}

/// A string as it is written, with U+FFFD for each escaped half of a pair that stands alone.
fn without_lone_surrogates(token: &str) -> String {
    let unit = |at: &str| {
        let digits = at.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut out, mut rest) = (String::with_capacity(token.len()), token);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let next = escape.get(6..).unwrap_or_default();
        let (written, length) = match (unit(escape), unit(next)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (escape.get(..12), 12),
            (Some(0xd800..=0xdfff), _) => (Some("\\ufffd"), 6),
            (_, _) => (escape.get(..2), 2),
        };
        out.push_str(written.unwrap_or(escape));
        rest = escape.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Whether a well-formed number is one that common parsers agree on.
fn in_range(token: &str) -> bool {
    let mantissa = token.split(['e', 'E']).next().unwrap_or(token);
    if !token.contains(['.', 'e', 'E']) {
        let bounds = i128::from(i64::MIN)..=i128::from(u64::MAX);
        return token.parse::<i128>().is_ok_and(|integer| bounds.contains(&integer));
    }
    let is_zero = !mantissa.bytes().any(|b| matches!(b, b'1'..=b'9'));
    // Used for the range only: the value itself is never taken from the float.
    token.parse::<f64>().is_ok_and(|double| double.is_finite() && (is_zero || double != 0.0))
}
