//! Members that stand for another one where names are bound in more than one spelling, and what stands for a list.

use serde_json::{Map, Value};

use super::excerpt;
use crate::form::MAX_FIELDS;

/// A member that some server takes for the one at a dotted path, or for an item on the way to it: what was judged is then not
/// what it reads. `*` stands for any item of an array.
#[must_use]
pub fn lookalike(value: &Value, dotted_path: &str) -> Option<String> {
    respelled(value, dotted_path).or_else(|| unlisted(value, dotted_path, dotted_path))
}

/// The first member on the way to a dotted path whose name is the path's but for its spelling: many servers bind both to
/// one parameter.
///
/// Spellings are those that servers are documented to fold: the case of letters, also of those beyond ASCII that stand
/// for an ASCII one (Go's `encoding/json`: U+017F for `s`, U+212A for `k`), `.`, a space or `[` for `_`, and spaces
/// before the name (PHP: <https://www.php.net/manual/en/language.variables.external.php>), an end at the first NUL (C),
/// and `a.b` for the member `b` of `a` (data binders of the JVM and .NET, and qs with `allowDots`).
#[must_use]
pub fn respelled(value: &Value, dotted_path: &str) -> Option<String> {
    let (name, below) = first(dotted_path);
    match value {
        Value::Object(members) => {
            let folded = folded(name);
            let nested = |key: &str| below.is_some() && key.contains('.') && leads_to(key, dotted_path);
            let alike = |key: &&String| key.as_str() != name && (self::folded(key) == folded || nested(key));
            let other = members.keys().find(alike).map(|key| excerpt(key));
            other.or_else(|| respelled(members.get(name)?, below?))
        }
        Value::Array(items) if name == "*" => items.iter().find_map(|item| respelled(item, below?)),
        Value::Array(items) => respelled(items.get(name.parse::<usize>().ok()?)?, below?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The place on the way to the end of `whole` that holds something else than a list where the path asks for items: for any
/// (`*`), or for one by its number, where the numbers that are there are not those of a list. `path` is what remains of it.
///
/// A form's list that does not begin at 0 is an object here. PHP and Rack hand it on as a map, whose values are gone through as
/// items are, and qs numbers it anew (<https://github.com/ljharb/qs#parsing-arrays>). One value alone is a list of one to
/// who asks for all of a name.
fn unlisted(value: &Value, path: &str, whole: &str) -> Option<String> {
    let (name, below) = first(path);
    let here = || whole.strip_suffix(path).map(|above| excerpt(above.trim_end_matches('.')));
    // The input itself is no list.
    let is_below = path.len() < whole.len();
    match value {
        Value::Array(items) if name == "*" => items.iter().find_map(|item| unlisted(item, below?, whole)),
        Value::Array(items) => unlisted(items.get(name.parse::<usize>().ok()?)?, below?, whole),
        Value::Object(members) if is_below && name == "*" => (!members.is_empty()).then(here).flatten(),
        Value::Object(members) if is_below && is_index(name) && !is_numbered(members) => here(),
        Value::Object(members) => unlisted(members.get(name)?, below?, whole),
        Value::String(text) if text.is_empty() => None,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            (is_below && name == "*").then(here).flatten()
        }
        Value::Null => None,
    }
}

/// Whether those of its members that are numbers of items are the ones that a list of that length has.
fn is_numbered(members: &Map<String, Value>) -> bool {
    let count = members.keys().filter(|key| is_index(key)).count();
    (0..count).all(|index| members.contains_key(&index.to_string()))
}

/// Whether a name is the number of an item that a form can have, in whatever spelling. A greater one is somebody's id.
fn is_index(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
        && name.parse().is_ok_and(|index: usize| index <= MAX_FIELDS)
}

fn first(dotted_path: &str) -> (&str, Option<&str>) {
    match dotted_path.split_once('.') {
        Some((name, below)) => (name, Some(below)),
        None => (dotted_path, None),
    }
}

/// Whether a name with dots in it is the path, or the beginning of it.
fn leads_to(key: &str, dotted_path: &str) -> bool {
    let mut path = dotted_path.split('.');
    key.split('.').all(|part| path.next().is_some_and(|own| own == "*" || own.eq_ignore_ascii_case(part)))
}

/// One spelling for all that some server takes for the same name.
fn folded(name: &str) -> String {
    let name = name.split('\0').next().unwrap_or_default().trim();
    let one = |character| match character {
        '.' | ' ' | '[' => '_',
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other,
    };
    name.chars().map(one).flat_map(char::to_lowercase).collect()
}
