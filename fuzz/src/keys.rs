//! Keys and fingerprints: the same request in another spelling is the same, and a key that was made up is seen.

use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::identity::{is_generated_key, valid_key};
use oncegate_policy::json;
use oncegate_policy::template::{Scope, Template};
use serde_json::Value;

/// Three lines: a key, a template, and JSON.
pub fn run(data: &[u8]) {
    let Some([key, template, text]) = crate::lines(data) else { return };
    assert_eq!(is_generated_key(key), made_up(key), "{key:?}");
    let plain = key.bytes().all(|b| matches!(b, b' '..=b'~'));
    assert_eq!(valid_key(key), plain && key.trim() == key && (1..=255).contains(&key.len()), "{key:?}");
    let Ok(input) = json::strict(text.as_bytes()) else { return };
    if let Ok(template) = Template::parse(template) {
        let scope = Scope::of_input(&input);
        let rendered = template.render_identity(&scope);
        assert_eq!(rendered, template.render_identity(&scope));
        // An empty template is refused where it is configured; every other one says something.
        if let (Ok(rendered), [_, ..]) = (rendered, template.pieces()) {
            assert!(!rendered.is_empty(), "{text:?}");
        }
    }
    let print = |value: &Value| Fingerprint::of("a", value, &[]);
    let respelled: Value =
        serde_json::from_str(&serde_json::to_string_pretty(&input).expect("JSON")).expect("JSON");
    assert_eq!(print(&input), print(&backwards(&respelled)), "{text:?}");
    assert_ne!(print(&input), Fingerprint::of("b", &input, &[]));
    assert_ne!(print(&input), Fingerprint::of("a", &input, &[("stripe-account".into(), "acct_1".into())]));
    if let Value::Object(members) = &input {
        for name in members.keys().filter(|name| !members[*name].is_null()) {
            let mut less = members.clone();
            less.remove(name);
            assert_ne!(print(&input), print(&Value::Object(less)), "{name} does not count");
        }
    }
}

/// The shapes of keys that libraries make, letter by letter: `x` is a hexadecimal digit, `9` a digit, `*` what base64 for
/// URLs has.
fn made_up(key: &str) -> bool {
    const UUIDS: [&str; 2] = ["xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"];
    const DIGEST: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    let key = match key.as_bytes() {
        [b'"', .., b'"'] => &key[1..key.len() - 1],
        _ => key,
    };
    let like = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text.bytes().zip(shape.bytes()).all(|(byte, want)| match want {
                b'x' => byte.is_ascii_hexdigit(),
                b'9' => byte.is_ascii_digit(),
                b'*' => byte.is_ascii_alphanumeric() || b"-_".contains(&byte),
                exact => byte == exact,
            })
    };
    let uuid = |text: &str| UUIDS.iter().any(|shape| like(text, shape));
    let drawn = |text: &str| uuid(text) || like(text, DIGEST);
    // `stainless-`, a language, `-retry-`: what was drawn is as long as one of the three shapes.
    let of_the_family = [36, 32, 64].into_iter().any(|long| {
        let cut = key.len().checked_sub(long).filter(|cut| key.is_char_boundary(*cut));
        let before = cut.and_then(|cut| key[..cut].strip_prefix("stainless-")?.strip_suffix("-retry-"));
        let named = before.is_some_and(|language| language.bytes().all(|b| b.is_ascii_alphanumeric()));
        named && cut.is_some_and(|cut| drawn(&key[cut..]))
    });
    like(key, "9999999999999999999_******")
        || uuid(key)
        || ["stripe-node-retry-", "idempotency-key-"]
            .iter()
            .any(|prefix| key.strip_prefix(prefix).is_some_and(drawn))
        || of_the_family
}

/// Members in another order, at every depth.
fn backwards(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().rev().map(|(name, value)| (name.clone(), backwards(value))).collect()
        }
        Value::Array(items) => items.iter().map(backwards).collect(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain.clone(),
    }
}
