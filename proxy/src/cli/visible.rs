//! What others wrote, as a terminal may show it. A subject, a note or a provider's text can hold characters that a
//! terminal obeys instead of showing: a line of its own beside ours, colours, a cleared screen, text in the other
//! direction. Whoever approves money must not be shown something else than what is sent.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::Value;

/// Whether a terminal obeys this character instead of showing it: the control characters of Unicode, and its marks that
/// turn or hide text (Unicode Standard Annex 9, section 2; the zero-width characters beside them).
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// One line of text, with what a terminal would obey spelled out: `\n`, `\u{1b}`.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    spelled(text, |_| false)
}

/// The same for text of ours that has lines.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    spelled(text, |character| character == '\n')
}

fn spelled(text: &str, is_ours: impl Fn(char) -> bool) -> Cow<'_, str> {
    let hidden = |character: char| is_obeyed(character) && !is_ours(character);
    if !text.chars().any(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len().saturating_mul(2));
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' if hidden(character) => shown.extend(character.escape_default()),
            _ if hidden(character) => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// A JSON document on lines of its own. What a terminal would obey is written in JSON's own spelling (RFC 8259, section
/// 7), so that it means the same to a program: outside its texts a document has no such character but the line's end.
pub(crate) fn json(written: &str) -> Cow<'_, str> {
    let hidden = |character: char| is_obeyed(character) && character != '\n';
    if !written.chars().any(hidden) {
        return Cow::Borrowed(written);
    }
    let mut shown = String::with_capacity(written.len().saturating_mul(2));
    for character in written.chars() {
        if hidden(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Every text of a document, and every name in it, as one line each.
pub(crate) fn document(document: &Value) -> Value {
    match document {
        Value::String(text) => line(text).into_owned().into(),
        Value::Array(members) => members.iter().map(self::document).collect(),
        Value::Object(members) => {
            let shown = members.iter().map(|(name, value)| (line(name).into_owned(), self::document(value)));
            Value::Object(shown.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => document.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_obeyed_that_others_wrote() {
        let table = [
            ("plain Ünïcödé 漢字 \u{1f600}", "plain Ünïcödé 漢字 \u{1f600}"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[2J\u{7}\u{7f}", "\\u{1b}[2J\\u{7}\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("usd \u{202e}00021\u{202c}", "usd \\u{202e}00021\\u{202c}"),
            ("a\u{200b}b\u{feff}\u{e0041}", "a\\u{200b}b\\u{feff}\\u{e0041}"),
        ];
        for (text, shown) in table {
            assert_eq!(line(text), shown, "{text:?}");
        }
        assert_eq!(lines("one\ntwo \u{1b}[1m\n"), "one\ntwo \\u{1b}[1m\n");
    }

    #[test]
    fn a_document_means_the_same_to_a_program() {
        let document = json!({ "a\u{9b}": ["\u{202e}x\u{1b}\n", "\u{e0041}", 12, null, true] });
        let written = serde_json::to_string_pretty(&document).unwrap();
        let shown = json(&written);
        assert!(!shown.chars().any(|character| is_obeyed(character) && character != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), document);
        assert_eq!(
            self::document(&document),
            json!({ "a\\u{9b}": ["\\u{202e}x\\u{1b}\\n", "\\u{e0041}", 12, null, true] })
        );
    }
}
