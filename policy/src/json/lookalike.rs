//! Members that stand for another one where names are bound in more than one spelling.

use serde_json::Value;

use super::excerpt;

/// The first member on the way to a dotted path whose name is the path's but for its spelling: many servers bind both to
/// one parameter, and what was judged is then not what they read. `*` stands for any item of an array.
///
/// Spellings are those that servers are documented to fold: the case of letters, also of those beyond ASCII that stand
/// for an ASCII one (Go's `encoding/json`: U+017F for `s`, U+212A for `k`), `.`, a space or `[` for `_`, and spaces
/// before the name (PHP: <https://www.php.net/manual/en/language.variables.external.php>), an end at the first NUL (C),
/// and `a.b` for the member `b` of `a` (data binders of the JVM and .NET).
#[must_use]
pub fn lookalike(value: &Value, dotted_path: &str) -> Option<String> {
    let (name, below) = match dotted_path.split_once('.') {
        Some((name, below)) => (name, Some(below)),
        None => (dotted_path, None),
    };
    match value {
        Value::Object(members) => {
            let folded = folded(name);
            let nested =
                |key: &str| below.is_some() && key.contains('.') && key.eq_ignore_ascii_case(dotted_path);
            let alike = |key: &&String| key.as_str() != name && (self::folded(key) == folded || nested(key));
            let other = members.keys().find(alike).map(|key| excerpt(key));
            other.or_else(|| lookalike(members.get(name)?, below?))
        }
        Value::Array(items) if name == "*" => items.iter().find_map(|item| lookalike(item, below?)),
        Value::Array(items) => lookalike(items.get(name.parse::<usize>().ok()?)?, below?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
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
