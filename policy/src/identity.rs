//! Keys: which ones a library made by itself, and which ones are well-formed; and how long what has no key is known.

use std::time::Duration;

/// Longest key in characters.
pub const MAX_KEY: usize = 255;

/// The longest time in which an identical request may be a repeat after a success. What could be recognised by is kept
/// for as long, whichever actions are declared meanwhile.
pub const IDENTICAL_WITHIN_MAX: Duration = Duration::from_secs(90 * 24 * 3_600);

/// What client libraries put before what they draw when their caller gave no key. Each new call gets a new one, so such a
/// key identifies one try and not the operation.
const LIBRARY_PREFIXES: [&str; 2] = ["stripe-node-retry-", "idempotency-key-"];
/// Generated clients of one family, for each language: `stainless-python-retry-`.
const LIBRARY_FAMILY: (&str, &str) = ("stainless-", "-retry-");

/// Whether a library made this key by itself: a bare UUID of any version (RFC 9562; hyphenated or 32 hex digits, in any
/// case), also between quotation marks, as a structured field is written (RFC 9651); a known prefix before one or before
/// 64 hex digits; or stripe-go's clock and six random characters.
#[must_use]
pub fn is_generated_key(key: &str) -> bool {
    let quoted = key.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let key = quoted.unwrap_or(key);
    let known =
        LIBRARY_PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix)).or_else(|| of_the_family(key));
    match known {
        Some(drawn) => is_uuid(drawn) || (drawn.len() == 64 && drawn.bytes().all(|b| b.is_ascii_hexdigit())),
        None => is_uuid(key) || is_stripe_go(key),
    }
}

/// What a client of the family has drawn.
fn of_the_family(key: &str) -> Option<&str> {
    let (family, retry) = LIBRARY_FAMILY;
    let (language, drawn) = key.strip_prefix(family)?.split_once(retry)?;
    language.bytes().all(|b| b.is_ascii_alphanumeric()).then_some(drawn)
}

/// Whether the text can be a key: 1 to 255 printable ASCII characters, and no space at its ends, since HTTP
/// drops it there (RFC 9110 section 5.5).
#[must_use]
pub fn valid_key(key: &str) -> bool {
    (1..=MAX_KEY).contains(&key.len())
        && key.bytes().all(|b| (0x20..=0x7e).contains(&b))
        && !key.starts_with(' ')
        && !key.ends_with(' ')
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    let shaped = matches!(groups.as_slice(), [8, 4, 4, 4, 12] | [32]);
    shaped && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

/// Nanoseconds since 1970 (19 digits until the year 2286), `_`, and six characters of URL-safe base64.
fn is_stripe_go(key: &str) -> bool {
    key.split_once('_').is_some_and(|(clock, random)| {
        clock.len() == 19
            && clock.bytes().all(|b| b.is_ascii_digit())
            && random.len() == 6
            && random.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    })
}
