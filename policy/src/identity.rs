//! Keys: which ones a library made by itself, and which ones are well-formed.

/// Longest key in characters.
pub const MAX_KEY: usize = 255;

/// What client libraries put before a UUID when their caller gave no key. Each new call gets a new one, so
/// such a key identifies one try and not the operation.
const LIBRARY_PREFIXES: [&str; 4] =
    ["stripe-node-retry-", "stainless-node-retry-", "stainless-python-retry-", "idempotency-key-"];

/// Whether a library made this key by itself: a bare UUID of any version (RFC 9562; hyphenated or 32 hex
/// digits, in any case), a known prefix before one, or stripe-go's clock and six random characters.
#[must_use]
pub fn is_generated_key(key: &str) -> bool {
    let uuid = LIBRARY_PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(key);
    is_uuid(uuid) || is_stripe_go(key)
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
