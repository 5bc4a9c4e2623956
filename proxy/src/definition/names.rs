//! How the API and the configuration spell the same thing.

/// Members of a definition that stand under another name in the configuration, or the same.
pub(crate) const MEMBERS: [(&str, &str); 23] = [
    ("description", "description"),
    ("enabled", "enabled"),
    ("method", "method"),
    ("urlTemplate", "url"),
    ("headers", "headers"),
    ("scopeHeaders", "scope_headers"),
    ("bodyTemplate", "body"),
    ("inputSchema", "input_schema"),
    ("requiresApproval", "requires_approval"),
    ("approvalWhen", "approval_when"),
    ("approvalExpires", "approval_expires"),
    ("operationKey", "operation_key"),
    ("identicalWithin", "identical_within"),
    ("subject", "subject"),
    ("when", "when"),
    ("faultDrill", "fault_drill"),
    ("credentialSecret", "credential_secret"),
    ("adapter", "adapter"),
    ("impact", "impact"),
    ("verify", "verify"),
    ("idempotency", "idempotency"),
    ("response", "response"),
    ("governed", "governed"),
];

/// Words that faults use of other sections.
const ELSEWHERE: [(&str, &str); 2] =
    [("allowedHosts", "allowed_hosts"), ("allowedPlacements", "allowed_placements")];

/// The configuration's key of a member.
pub(crate) fn key(member: &str) -> Option<&'static str> {
    MEMBERS.iter().find(|(api, _)| *api == member).map(|(_, key)| *key)
}

/// The member that a key of an action stands for.
pub(crate) fn member(key: &str) -> Option<&'static str> {
    MEMBERS.iter().find(|(_, known)| *known == key).map(|(api, _)| *api)
}

/// A key below one of an action's keys (`section`), as the API spells it.
pub(crate) fn inner(section: &str, key: &str) -> String {
    match (section, key) {
        ("impact", "currency") => "unit".to_owned(),
        ("adapter" | "response", key) => camel(key),
        (_, key) => key.to_owned(),
    }
}

/// A quoted word of a fault, as the API spells it. `section` is the action's key below which the fault stands.
pub(crate) fn word(section: Option<&str>, key: &str) -> String {
    if let Some(section) = section {
        let inner = inner(section, key);
        // `url` of a `verify` and `body` of an `idempotency` are the API's own words.
        if inner != key || matches!((section, key), ("verify", "url") | ("idempotency", "body")) {
            return inner;
        }
    }
    let elsewhere = || ELSEWHERE.iter().find(|(_, known)| *known == key).map(|(api, _)| *api);
    member(key).or_else(elsewhere).unwrap_or(key).to_owned()
}

/// `readSecret` as `read_secret`.
pub(crate) fn snake(text: &str) -> String {
    let mut snake = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// `read_secret` as `readSecret`.
pub(crate) fn camel(text: &str) -> String {
    let mut words = text.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut camel, word| {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
        camel
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_both_ways() {
        for (camels, snakes) in [("type", "type"), ("readSecret", "read_secret"), ("aBC", "a_b_c")] {
            assert_eq!((snake(camels), camel(snakes)), (snakes.to_owned(), camels.to_owned()));
        }
        for (api, toml) in MEMBERS {
            assert_eq!((key(api), member(toml)), (Some(toml), Some(api)));
        }
    }

    #[test]
    fn a_word_depends_on_where_it_stands() {
        for (section, key, spelled) in [
            (None, "url", "urlTemplate"),
            (Some("verify"), "url", "url"),
            (Some("idempotency"), "body", "body"),
            (Some("impact"), "currency", "unit"),
            (Some("response"), "failed_when", "failedWhen"),
            (Some("adapter"), "credential_secret", "credentialSecret"),
            (Some("headers"), "allowed_hosts", "allowedHosts"),
            (Some("verify"), "governed", "governed"),
        ] {
            assert_eq!(word(section, key), spelled, "{section:?} {key}");
        }
    }
}
