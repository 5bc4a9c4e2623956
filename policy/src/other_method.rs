//! Parameters by which servers take a request for one of another method than its own.

/// Names that mean nothing else: Rails, Laravel and Symfony (`_method`), Salesforce (`_HttpMethod`), and the names of the
/// fields, which some servers read among parameters too.
const NAMES: [&str; 5] =
    ["_method", "_httpmethod", "x-http-method-override", "x-http-method", "x-method-override"];

/// Names that may be anybody's own: what they say tells (Graph APIs take `?method=delete`).
const NAMES_BY_VALUE: [&str; 2] = ["method", "httpmethod"];

const METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];

/// Whether a parameter of this name asks for another method, whatever it says. Names are told without case, and `.`, a
/// space and `[` are read as `_` and `-` are: PHP makes one of the other.
#[must_use]
pub fn is_asked_by(name: &str) -> bool {
    NAMES.iter().any(|known| alike(name, known))
}

/// Whether a parameter of the query asks for another method than the request's own.
#[must_use]
pub fn is_asked_in_query(name: &str, value: &str, own: &str) -> bool {
    let another = |method: &str| value.eq_ignore_ascii_case(method) && !own.eq_ignore_ascii_case(method);
    let common = || NAMES_BY_VALUE.iter().any(|known| alike(name, known));
    is_asked_by(name) || (common() && METHODS.into_iter().any(another))
}

fn alike(name: &str, known: &str) -> bool {
    let folded = |byte: u8| match byte {
        b'_' | b'.' | b' ' | b'[' => b'-',
        other => other.to_ascii_lowercase(),
    };
    name.len() == known.len() && name.bytes().map(folded).eq(known.bytes().map(folded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_nothing_else_ask_whatever_they_say() {
        for name in
            ["_method", "_METHOD", ".method", "_HttpMethod", "X-HTTP-Method-Override", "x_http_method"]
        {
            assert!(is_asked_by(name) && is_asked_in_query(name, "", "POST"), "{name}");
        }
        for name in ["method", "payment_method", "_method_", "methods", ""] {
            assert!(!is_asked_by(name), "{name}");
        }
    }

    #[test]
    fn a_common_name_asks_by_the_word_of_another_method() {
        for (name, value, own, asked) in [
            ("method", "post", "GET", true),
            ("Method", "DELETE", "POST", true),
            ("httpMethod", "patch", "POST", true),
            ("method", "post", "POST", false),
            ("method", "card", "POST", false),
            ("method", "", "POST", false),
            ("payment_method", "delete", "POST", false),
        ] {
            assert_eq!(is_asked_in_query(name, value, own), asked, "{name}={value} of a {own}");
        }
    }
}
