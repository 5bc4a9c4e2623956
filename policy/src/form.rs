//! `application/x-www-form-urlencoded` with nested brackets, as payment APIs use it.
//!
//! `a[b]=`, `a[]=` and `a[0][id]=` become objects and arrays of texts. Brackets have no standard, so what
//! common parsers build differently is refused.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::json::{BodyFault, excerpt, is_reserved};

/// Most fields in one form.
pub const MAX_FIELDS: usize = 1_000;
/// Deepest nesting of brackets in one name.
pub const MAX_BRACKETS: usize = 16;

/// Everything but what form encoding leaves alone, and never `+` for a space, so that every parser agrees.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*');

/// Reads a form into an object; every leaf is a text. A field without `=` is the empty text, and no bytes at
/// all are the empty object.
///
/// What begins as JSON is refused: many servers read JSON whatever the type says, and one body can say different things
/// to both (`{"amount":5000,"x":"&amount=5"}`). As a form it would have a brace in the name of its first field.
pub fn parse(bytes: &[u8]) -> Result<Value, BodyFault> {
    if begins_as_json(bytes) {
        return Err(BodyFault::JsonAsForm);
    }
    if bytes.contains(&b';') {
        return Err(BodyFault::Semicolon);
    }
    let mut pairs = Vec::new();
    for piece in bytes.split(|b| *b == b'&').filter(|piece| !piece.is_empty()) {
        if pairs.len() == MAX_FIELDS {
            return Err(BodyFault::TooManyFields { max: MAX_FIELDS });
        }
        let cut = piece.iter().position(|b| *b == b'=');
        let (name, value) = match cut {
            Some(at) => (piece.get(..at), piece.get(at + 1..)),
            None => (Some(piece), None),
        };
        pairs.push((decode(name.unwrap_or_default())?, decode(value.unwrap_or_default())?));
    }
    tree(&pairs)
}

/// Whether a JSON parser could find an object or an array here, also one that passes over a byte order mark.
#[must_use]
pub fn begins_as_json(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let inside = |list: &[u8]| {
        let first = list.trim_ascii_start().first().copied();
        first.is_some_and(|first| first.is_ascii_digit() || b"{[\"]-tfn".contains(&first))
    };
    match bytes.split_first() {
        Some((b'{', _)) => true,
        Some((b'[', list)) => inside(list),
        Some(_) | None => false,
    }
}

/// Builds the object that decoded names and values mean; also used for query parameters.
pub(crate) fn tree(pairs: &[(String, String)]) -> Result<Value, BodyFault> {
    let mut root = BTreeMap::new();
    for (name, value) in pairs {
        insert(&mut root, name, value)?;
    }
    Ok(Value::Object(root.into_iter().map(|(name, node)| (name, node.into_value())).collect()))
}

/// `bytes` with one more encoded pair at the end.
#[must_use]
pub fn append(bytes: &[u8], name: &str, value: &str) -> Vec<u8> {
    let mut out = bytes.to_vec();
    if !out.is_empty() && !out.ends_with(b"&") {
        out.push(b'&');
    }
    out.extend(utf8_percent_encode(name, ENCODED).flat_map(str::bytes));
    out.push(b'=');
    out.extend(utf8_percent_encode(value, ENCODED).flat_map(str::bytes));
    out
}

fn decode(raw: &[u8]) -> Result<String, BodyFault> {
    if !crate::query::escapes_are_whole(raw) {
        return Err(BodyFault::BadEscape);
    }
    let spaced: Vec<u8> = raw.iter().map(|b| if *b == b'+' { b' ' } else { *b }).collect();
    let text = percent_decode(&spaced).decode_utf8().map_err(|_| BodyFault::BadUtf8)?;
    Ok(text.into_owned())
}

/// One place in the form while it is read.
enum Node {
    Text(String),
    /// Filled by `name[]`.
    List(Vec<Node>),
    /// Filled by `name[key]`.
    Keyed(BTreeMap<String, Node>),
}

impl Node {
    fn into_value(self) -> Value {
        match self {
            Node::Text(text) => Value::String(text),
            Node::List(items) => Value::Array(items.into_iter().map(Node::into_value).collect()),
            Node::Keyed(members) => keyed(members),
        }
    }
}

/// An array if the keys are exactly `0` to `n-1`, else an object.
fn keyed(members: BTreeMap<String, Node>) -> Value {
    let count = members.len();
    let mut members: Map<String, Value> =
        members.into_iter().map(|(name, node)| (name, node.into_value())).collect();
    if count == 0 || !(0..count).all(|index| members.contains_key(&index.to_string())) {
        return Value::Object(members);
    }
    Value::Array((0..count).filter_map(|index| members.remove(&index.to_string())).collect())
}

fn insert(root: &mut BTreeMap<String, Node>, name: &str, value: &str) -> Result<(), BodyFault> {
    let (base, keys) = split_name(name)?;
    match keys.split_first() {
        Some((key, rest)) => {
            let node = root.entry(base.to_owned()).or_insert_with(|| empty_for(key));
            place(node, key, rest, name, value)
        }
        None => put_text(root, base, name, value),
    }
}

/// Puts `value` under `key` of `node`, and under `rest` below that.
fn place(node: &mut Node, key: &str, rest: &[&str], name: &str, value: &str) -> Result<(), BodyFault> {
    let conflict = || BodyFault::Conflict { name: excerpt(name) };
    match (node, key, rest.split_first()) {
        (Node::List(items), "", None) => {
            items.push(Node::Text(value.to_owned()));
            Ok(())
        }
        (Node::List(items), "", Some((next, below))) => {
            // Parsers differ in whether a second `a[][b]` opens a new item, so there may be only one.
            if !items.is_empty() {
                return Err(conflict());
            }
            let mut item = empty_for(next);
            place(&mut item, next, below, name, value)?;
            items.push(item);
            Ok(())
        }
        (Node::Keyed(members), key, None) if !key.is_empty() => put_text(members, key, name, value),
        (Node::Keyed(members), key, Some((next, below))) if !key.is_empty() => {
            let node = members.entry(key.to_owned()).or_insert_with(|| empty_for(next));
            place(node, next, below, name, value)
        }
        (Node::Text(_) | Node::List(_) | Node::Keyed(_), _, _) => Err(conflict()),
    }
}

fn put_text(
    members: &mut BTreeMap<String, Node>,
    key: &str,
    name: &str,
    value: &str,
) -> Result<(), BodyFault> {
    match members.get(key) {
        None => {
            members.insert(key.to_owned(), Node::Text(value.to_owned()));
            Ok(())
        }
        Some(Node::Text(_)) => Err(BodyFault::Duplicate { name: excerpt(name) }),
        Some(Node::List(_) | Node::Keyed(_)) => Err(BodyFault::Conflict { name: excerpt(name) }),
    }
}

fn empty_for(key: &str) -> Node {
    if key.is_empty() { Node::List(Vec::new()) } else { Node::Keyed(BTreeMap::new()) }
}

/// `a[b][]` is `a` and the keys `b` and the empty one.
fn split_name(name: &str) -> Result<(&str, Vec<&str>), BodyFault> {
    // Some servers drop spaces before a name or end it at a NUL: there it is another one.
    if name.trim() != name || name.chars().any(char::is_control) {
        return Err(BodyFault::Mangled { name: excerpt(name) });
    }
    let unbalanced = || BodyFault::Brackets { name: excerpt(name) };
    let (base, mut rest) = match name.find('[') {
        Some(at) => name.split_at(at),
        None => (name, ""),
    };
    if base.is_empty() && rest.is_empty() {
        return Err(BodyFault::EmptyName);
    }
    if base.is_empty() || base.contains(']') {
        return Err(unbalanced());
    }
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let (key, after) = rest.strip_prefix('[').and_then(|r| r.split_once(']')).ok_or_else(unbalanced)?;
        if key.contains('[') {
            return Err(unbalanced());
        }
        if keys.len() == MAX_BRACKETS {
            return Err(BodyFault::TooDeep { max: MAX_BRACKETS });
        }
        keys.push(key);
        rest = after;
    }
    if is_reserved(base) || keys.iter().any(|key| is_reserved(key)) {
        return Err(BodyFault::Reserved { name: excerpt(name) });
    }
    Ok((base, keys))
}
