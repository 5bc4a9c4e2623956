//! From a request's bytes to an action's input.

use std::ops::Range;

use serde_json::{Map, Value, json};

use crate::fingerprint::digest_hex;
use crate::form;
use crate::json::{BodyFault, excerpt, lookalike, strict};
use crate::other_method::is_asked_by;

/// How a body was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyKind {
    /// No bytes.
    Empty,
    /// JSON.
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// Anything else: known by its digest only.
    Opaque,
}

/// Reads a request body by its `Content-Type` (RFC 9110 section 8.3) into the members of an input.
///
/// JSON (`application/json`, `+json`) that is no object becomes the member `body`. What is neither JSON nor a
/// form becomes the member `body_sha256`; of a multipart body the boundary does not enter, nor do those of its parts, so that
/// the same parts are the same request whoever made them up. Without a type, a body is JSON only if it
/// strictly is a JSON object. Reads at most what it is given: the caller bounds the body.
pub fn read(content_type: Option<&str>, bytes: &[u8]) -> Result<(BodyKind, Value), BodyFault> {
    if bytes.is_empty() {
        return Ok((BodyKind::Empty, Value::Object(Map::new())));
    }
    match content_type.map(str::trim).filter(|declared| !declared.is_empty()) {
        Some(declared) => read_as(declared, bytes),
        None => match strict(bytes) {
            Ok(value @ Value::Object(_)) => Ok((BodyKind::Json, value)),
            Ok(_) | Err(_) => Ok((BodyKind::Opaque, opaque(bytes))),
        },
    }
}

/// Whether every member of a body that was read as `kind` stands in the input: an opaque body and JSON that is no object
/// can hold anything below names of their own.
#[must_use]
pub fn shows_members(kind: BodyKind, bytes: &[u8]) -> bool {
    match kind {
        BodyKind::Empty | BodyKind::Form => true,
        BodyKind::Json => bytes.trim_ascii_start().first() == Some(&b'{'),
        BodyKind::Opaque => false,
    }
}

/// Whether bodies of a type are known by their digest only, whatever is in them. One without a type may be JSON.
#[must_use]
pub fn is_opaque(content_type: &str) -> bool {
    let essence = essence(content_type);
    !essence.is_empty() && !is_json(&essence) && essence != FORM
}

/// Whether a type is that of a form.
#[must_use]
pub fn is_form(content_type: &str) -> bool {
    essence(content_type) == FORM
}

/// A type without its parameters, in lower case.
fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

const FORM: &str = "application/x-www-form-urlencoded";

/// Whether a type, in lower case and without parameters, is JSON. One that begins as that of a form does is none, whatever
/// its end says: some servers compare the beginning alone, or what stands before a comma.
fn is_json(essence: &str) -> bool {
    let other =
        essence.starts_with(FORM) || essence.starts_with("multipart/") || essence.contains([',', ' ']);
    essence == "application/json" || (essence.ends_with("+json") && !other)
}

fn read_as(content_type: &str, bytes: &[u8]) -> Result<(BodyKind, Value), BodyFault> {
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let essence = essence.trim().to_ascii_lowercase();
    if is_json(&essence) {
        check_charset(parameters)?;
        return Ok((BodyKind::Json, Value::Object(members(strict(bytes)?))));
    }
    if essence == FORM {
        check_charset(parameters)?;
        return Ok((BodyKind::Form, form::parse(bytes)?));
    }
    match boundary(&essence, parameters) {
        Some(boundary) => Ok((BodyKind::Opaque, opaque(&without_any(bytes, boundary.as_bytes())))),
        None => Ok((BodyKind::Opaque, opaque(bytes))),
    }
}

/// The boundary of a multipart body (RFC 2046 section 5.1.1). Libraries make a new one for each request.
fn boundary<'a>(essence: &str, parameters: &'a str) -> Option<&'a str> {
    let named = |parameter: &'a str| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    };
    let boundary = parameters.split(';').find_map(named)?;
    (essence.starts_with("multipart/") && !boundary.is_empty()).then_some(boundary)
}

/// Boundaries of parts that are multipart themselves, at most: mail has a handful.
const INNER_BOUNDARIES_MAX: usize = 8;

/// The bytes without the boundary, and without those of parts that are multipart themselves.
fn without_any(bytes: &[u8], boundary: &[u8]) -> Vec<u8> {
    let mut left = without(bytes, boundary);
    for _ in 0..INNER_BOUNDARIES_MAX {
        let Some(at) = inner_boundary(&left) else { break };
        let inner: Vec<u8> = left.splice(at, []).collect();
        left = without(&left, &inner);
    }
    left
}

/// Where the next boundary of a part stands: in its `Content-Type`, which may go on in lines that begin with white space.
fn inner_boundary(bytes: &[u8]) -> Option<Range<usize>> {
    const FIELD: &[u8] = b"content-type:";
    const NAME: &[u8] = b"boundary=";
    let (mut begin, mut in_field) = (0, false);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let named = line.get(..FIELD.len()).is_some_and(|start| start.eq_ignore_ascii_case(FIELD));
        in_field = named || (in_field && line.first().is_some_and(|byte| b" \t".contains(byte)));
        let name = || line.windows(NAME.len()).position(|word| word.eq_ignore_ascii_case(NAME));
        if let Some(name) = in_field.then(name).flatten() {
            let value = line.get(name + NAME.len()..).unwrap_or_default();
            let quote = usize::from(value.first() == Some(&b'"'));
            let ends = |byte: &u8| b"\"; \t\r\n".contains(byte);
            let length = value.iter().skip(quote).position(ends).unwrap_or(value.len() - quote);
            let start = begin + name + NAME.len() + quote;
            // One that was taken out already is empty.
            if length > 0 {
                return Some(start..start + length);
            }
        }
        begin += line.len();
    }
    None
}

/// The bytes with the boundary taken out of every delimiter line.
fn without(bytes: &[u8], boundary: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let begins_a_line = kept.last().is_none_or(|last| *last == b'\n');
        let delimiter = rest.strip_prefix(b"--").and_then(|after| after.strip_prefix(boundary));
        if let (true, Some(after)) = (begins_a_line, delimiter) {
            kept.extend_from_slice(b"--");
            rest = after;
        } else {
            kept.push(*first);
            rest = after;
        }
    }
    kept
}

/// The members of an object; any other value as the one member `body`.
fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::from_iter([("body".to_owned(), value)])
        }
    }
}

/// Whether a body that was read into `members` asks for another method than that of its request (`_method` and the like):
/// as a parameter of a form, a member of JSON, or a part of a multipart body.
///
/// Parts are looked for without the boundary, which readers take from different places: each line that could be the
/// `Content-Disposition` of a part counts.
#[must_use]
pub fn asks_for_another_method(content_type: Option<&str>, bytes: &[u8], members: &Value) -> bool {
    let member = members.as_object().is_some_and(|members| members.keys().any(|name| is_asked_by(name)));
    member || has_part(content_type, bytes, is_asked_by)
}

/// Whether a name, of a cookie or of a member, is bound to a parameter by some server, in one spelling or another.
#[must_use]
pub fn binds(name: &str, parameter: &str) -> bool {
    let name = name.split('[').next().unwrap_or_default();
    name == parameter || lookalike(&json!({ name: null }), parameter).is_some()
}

/// Whether a body says a parameter of this name, as a server could bind it: as a parameter of a form, a member of JSON, or a
/// part of a multipart body.
#[must_use]
pub fn says(content_type: Option<&str>, bytes: &[u8], members: &Value, parameter: &str) -> bool {
    let bound = |name: &str| binds(name, parameter);
    let member = members.as_object().is_some_and(|members| members.keys().any(|name| bound(name)));
    member || has_part(content_type, bytes, bound)
}

/// Whether a field that names a part of a multipart body holds such a name.
fn has_part(content_type: Option<&str>, bytes: &[u8], is_one: impl Fn(&str) -> bool) -> bool {
    let essence = content_type.unwrap_or_default().trim_start().as_bytes();
    if !essence.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/")) {
        return false;
    }

    const FIELD: &[u8] = b"content-disposition";
    let mut in_field = false;
    for line in bytes.split(|byte| matches!(byte, b'\r' | b'\n')).filter(|line| !line.is_empty()) {
        let begins = line.trim_ascii_start();
        let named = begins.get(..FIELD.len()).is_some_and(|start| start.eq_ignore_ascii_case(FIELD));
        // A line that begins with white space goes on with the field before it.
        in_field = named || (in_field && begins.len() < line.len());
        if in_field && has_word(line, &is_one) {
            return true;
        }
    }
    false
}

/// Whether such a name stands in a field's line by itself, quoted or not, escaped or not.
fn has_word(line: &[u8], is_one: impl Fn(&str) -> bool) -> bool {
    let unescaped: Vec<u8> = line.iter().copied().filter(|byte| *byte != b'\\').collect();
    let separates = |byte: &u8| byte.is_ascii_whitespace() || b";,:\"'=?".contains(byte);
    let decoded = |word| percent_encoding::percent_decode(word).decode_utf8_lossy();
    unescaped.split(separates).any(|word| is_one(&decoded(word)))
}

fn opaque(bytes: &[u8]) -> Value {
    json!({ "body_sha256": digest_hex(bytes) })
}

/// The text that a provider would decode with another charset is not the text judged here.
fn check_charset(parameters: &str) -> Result<(), BodyFault> {
    let utf8 = |value: &str| {
        let value = value.trim().trim_matches('"');
        value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
    };
    let other = parameters
        .split(';')
        .filter_map(|parameter| parameter.split_once('='))
        .any(|(name, value)| name.trim().eq_ignore_ascii_case("charset") && !utf8(value));
    if other { Err(BodyFault::Charset) } else { Ok(()) }
}

/// One input out of what the URL captured, the query parameters that the template left, and the body.
///
/// A captured value is placed at its dotted path, a query parameter (brackets nest as in a form) under its
/// name. Whatever is given in two places is refused, since the provider may read the other one.
pub fn merge(
    captured: &[(String, String)],
    rest_query: &[(String, String)],
    body: Value,
) -> Result<Value, BodyFault> {
    let mut input = members(body);
    if let Value::Object(parameters) = form::tree(rest_query)? {
        for (name, value) in parameters {
            if input.contains_key(&name) {
                return Err(BodyFault::TwoPlaces { name: excerpt(&name) });
            }
            input.insert(name, value);
        }
    }
    for (path, value) in captured {
        place(&mut input, path, value, path)?;
    }
    Ok(Value::Object(input))
}

/// Puts `value` at the dotted `path` below `members`; `whole` is the path for the fault.
fn place(members: &mut Map<String, Value>, path: &str, value: &str, whole: &str) -> Result<(), BodyFault> {
    let two_places = || BodyFault::TwoPlaces { name: excerpt(whole) };
    let Some((name, below)) = path.split_once('.') else {
        if members.contains_key(path) {
            return Err(two_places());
        }
        members.insert(path.to_owned(), Value::String(value.to_owned()));
        return Ok(());
    };
    let inner = members.entry(name).or_insert_with(|| Value::Object(Map::new()));
    place(inner.as_object_mut().ok_or_else(two_places)?, below, value, whole)
}
