//! How servers spell what they echo.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::PATTERN_BYTES_MIN;

/// What URLs leave as it is (RFC 3986 section 2.3). A credential in a query is placed in this spelling.
const URL_ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The value as it is, and as servers spell what they echo: in URLs, JSON, HTML, hex and base64.
pub(super) fn spellings(value: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::from([value.to_owned()]);
    for set in [NON_ALPHANUMERIC, URL_ENCODED] {
        let upper = utf8_percent_encode(value, set).to_string();
        all.insert(lower_escapes(&upper));
        all.insert(upper.replace("%20", "+"));
        all.insert(upper);
    }
    let json = value.replace('\\', "\\\\").replace('"', "\\\"");
    all.insert(json.replace('/', "\\/"));
    // Gson and Go escape what means something in HTML.
    let escaped = |c: char| if "<>&='".contains(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    all.insert(json.chars().map(escaped).collect());
    // .NET escapes these as well, in capitals: base64 has a plus.
    let dotnet = |c: char| match c {
        '"' | '&' | '\'' | '+' | '<' | '>' | '`' => format!("\\u{:04X}", u32::from(c)),
        '\\' => "\\\\".to_owned(),
        other => other.into(),
    };
    all.insert(value.chars().map(dotnet).collect());
    all.insert(json);
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    all.insert(html.replace('\'', "&#39;"));
    all.insert(
        html.replace('\'', "&#39;").replace('/', "&#x2F;").replace('`', "&#x60;").replace('=', "&#x3D;"),
    );
    // An answer that is passed on is not read as JSON: whole values in escapes are looked for as they are.
    all.insert(value.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect());
    all.insert(value.chars().map(|c| format!("\\u{:04X}", u32::from(c))).collect());
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    all.insert(hex.to_ascii_uppercase());
    all.insert(hex);
    all.extend(inside_base64(value));
    all
}

/// `%2F` as `%2f`: the digits after a percent sign only.
fn lower_escapes(escaped: &str) -> String {
    let mut pieces = escaped.split('%');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at(piece.len().min(2));
        out.push('%');
        out.push_str(&digits.to_ascii_lowercase());
        out.push_str(rest);
    }
    out
}

/// What the base64 of any text around the value has in common: three alignments, without the characters at both
/// ends that the neighbours have a part in. Nothing for a short value, whose remains could be any text.
fn inside_base64(value: &str) -> Vec<String> {
    if value.len() < 2 * PATTERN_BYTES_MIN {
        return Vec::new();
    }
    let mut all = Vec::new();
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value.as_bytes());
        let from = [0, 2, 3][before];
        let whole = bytes.len() / 3 * 4;
        let to = whole + [0, 1, 2][bytes.len() % 3];
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            all.extend(engine.encode(&bytes).get(from..to).map(str::to_owned));
        }
    }
    all
}
