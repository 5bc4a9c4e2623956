//! Every kind of fault that one entry can have on its own, with its place.

use super::{check, faults};

#[test]
fn single_tables() {
    check(&[
        ("[proxy]\nlistn = \"127.0.0.1:1\"", &["2:1: unknown key `listn`; did you mean `listen`?"]),
        (
            "[store]\nfoobar = 1",
            &["2:1: unknown key `foobar`; known: `keep_responses`, `max_waiting`, `path`"],
        ),
        ("[prxy]\n", &["1:2: unknown section `prxy`; did you mean `proxy`?"]),
        ("proxy = 1", &["1:1: `proxy` must be a table, not an integer"]),
        ("callers = []", &["1:11: `callers` must be a table, not a list"]),
        ("[proxy]\nlisten = 8080", &["2:10: `listen` must be a string, not an integer"]),
        (
            "[proxy]\nlisten = \"localhost:8080\"",
            &["2:10: `listen`: `localhost:8080` is not an address and port such as `127.0.0.1:8080`"],
        ),
        (
            "[proxy]\nundeclared_hosts = \"tunel\"",
            &["2:20: `undeclared_hosts`: unknown word `tunel`; did you mean `tunnel`?"],
        ),
        (
            "[proxy]\nundeclared_hosts = \"pass\"",
            &["2:20: `undeclared_hosts`: unknown word `pass`; known: `deny`, `tunnel`"],
        ),
        (
            "[proxy]\nrequest_timeout = \"30\"",
            &[
                "2:19: `request_timeout`: `30` is not a duration: write a whole number and a unit, such as `500ms`, \
               `12s`, `10min`, `24h` or `30d`",
            ],
        ),
        ("[proxy]\nrequest_timeout = \"0s\"", &["2:19: `request_timeout` must be longer than zero"]),
        (
            "[proxy]\nmax_request_body = \"1MB\"",
            &[
                "2:20: `max_request_body`: `1MB` is not a size: write a number of bytes, or a whole number with `KiB`, \
               `MiB` or `GiB`",
            ],
        ),
        (
            "[proxy]\nmax_request_body = 1.5",
            &[
                "2:20: `max_request_body` must be a size such as `1MiB`, or a number of bytes, not a number with a \
               fraction",
            ],
        ),
        (
            "[proxy]\nmax_connections = 0",
            &["2:19: `max_connections` must be an integer from 1 to 9223372036854775807, not 0"],
        ),
        ("[ca]\ndir = \"\"", &["2:7: `dir` is empty"]),
        ("[proxy]\nupstream_timeout = \"5s\"", &[]),
        (
            "[proxy]\nupstream_timeout = 5\nrespond_within = \"5d\"",
            &["2:20: `upstream_timeout` must be a string, not an integer"],
        ),
    ]);
}

#[test]
fn callers() {
    check(&[
        (
            "[callers.a]\n",
            &["1:10: missing key `key_sha256` in [callers.a]", "1:10: missing key `scopes` in [callers.a]"],
        ),
        ("[callers.a]\nlisten = \"unix:/run/a\"\nscopes = []", &[]),
        ("[callers.a]\ntransparent_listen = \"127.0.0.1:8443\"\nscopes = []", &[]),
        (
            "[callers.a]\ntransparent_listen = \"unix:/run/a\"\nscopes = []",
            &[
                "2:22: `transparent_listen`: `unix:/run/a` is not an address and port such as `127.0.0.1:8080`",
            ],
        ),
        (
            "[callers.a]\nlisten = \"127.0.0.1:8443\"\ntransparent_listen = \"127.0.0.1:8443\"\nscopes = []",
            &["3:22: `127.0.0.1:8443` is listened on already: see t.toml:2:10"],
        ),
        (
            "[callers.a]\nlisten = \"unix:\"\nscopes = []",
            &["2:10: `listen`: the path after `unix:` is empty"],
        ),
        (
            "[callers.\"a b\"]\nlisten = \"127.0.0.1:0\"\nscopes = []",
            &["1:10: `a b` cannot be a caller's name: use 1 to 64 letters, digits, `_`, `.` and `-`"],
        ),
        (
            "[callers.a]\nkey_sha256 = \"my-secret-key\"\nscopes = [\"actions:invoke\", \"actions:invok\", 1]",
            &[
                "2:14: `key_sha256` must be the SHA-256 of the key: 64 hexadecimal digits",
                "3:29: an item of `scopes`: unknown word `actions:invok`; did you mean `actions:invoke`?",
                "3:46: an item of `scopes` must be a string, not an integer",
            ],
        ),
        (
            "[callers.a]\nkey_sha256 = []\nscopes = []",
            &["2:14: `key_sha256` must hold one hash, or two while a key is being replaced"],
        ),
        (
            "[callers.a]\nkey_sha256 = [{ sha256 = \"ab\", expires = \"soon\" }]\nscopes = []\n\
             expires = 2027-01-01T00:00:00",
            &[
                "2:26: `sha256` must be the SHA-256 of the key: 64 hexadecimal digits",
                "2:42: `expires`: `soon` is not a moment such as `2027-01-01T00:00:00Z`, with its offset from UTC",
                "4:11: `expires`: `2027-01-01T00:00:00` is not a moment such as `2027-01-01T00:00:00Z`, with its offset \
                 from UTC",
            ],
        ),
    ]);
}

#[test]
fn secrets() {
    check(&[
        (
            "[secrets.key]\nfrom = { env = \"A\", file = \"b\" }\nallowed_hosts = []",
            &[
                "1:10: `key` cannot be a secret's name: use `A-Z`, `0-9` and `_`",
                "2:8: `from` needs exactly one of `env`, `file`, `command`, `vault`, `oauth2`",
                "3:17: `allowed_hosts` is empty",
            ],
        ),
        (
            "[secrets.K]\nfrom = { vault = false }",
            &[
                "1:10: missing key `allowed_hosts` in [secrets.K]",
                "2:18: `vault` can only be `true`: name another source, or leave it",
            ],
        ),
        (
            "[vault]\nkey = { vault = true }",
            &[
                "2:7: `key` needs exactly one of `env`, `file`, `command`",
                "2:9: unknown key `vault`; known: `command`, `env`, `file`",
            ],
        ),
        (
            "[secrets.K]\nfrom = { command = [] }\nallowed_hosts = [\"a.example:1\", \"\", \".b.example\"]\n\
             allowed_placements = [\"heder\"]",
            &[
                "2:20: `command` is empty",
                "3:18: an item of `allowed_hosts`: `a.example:1` has a port: a secret is bound to hosts, whatever the \
                 port",
                "3:33: an item of `allowed_hosts` is empty",
                "4:23: an item of `allowed_placements`: unknown word `heder`; did you mean `header`?",
            ],
        ),
    ]);
}

#[test]
fn hosts() {
    check(&[
        (
            "[hosts.\"a b\"]\n",
            &["1:8: `a b` is not a host: the host contains a character that no host name has"],
        ),
        (
            "[hosts.\"a.example\"]\n[hosts.\"A.example:443\"]\n",
            &["2:8: `A.example:443` is the same host as the one at t.toml:1:8"],
        ),
        (
            "[hosts.\"a.example\"]\ncredential = { value = \"x\" }\nreads = true\nconnect_to = \"b.example\"",
            &[
                "2:14: `credential` needs exactly one of `header`, `query`, `basic`, `sigv4`",
                "3:9: `reads` must be a string, not a boolean",
                "4:14: `connect_to`: `b.example`: the port is missing: write it as host:port",
            ],
        ),
        (
            "[hosts.\"a.example\"]\ncredential = { header = \"Host\", value = \"{{input.x}}\" }",
            &[
                "2:25: `header`: `Host` is written by Oncegate itself and cannot be set",
                "2:41: `value` cannot hold `{{input.x}}`: a credential is the same for every request",
            ],
        ),
        (
            "[hosts.\"a.example\"]\nwebsockets = \"yes\"",
            &["2:14: `websockets`: unknown word `yes`; known: `allow`, `deny`"],
        ),
        (
            "[hosts.\"a.example\"]\nplain = true\nca_file = \"x\"",
            &["3:1: `ca_file` does not go with `plain = true`: there is no certificate to check"],
        ),
    ]);
}

/// By a success that is older nobody can be recognised: it may be pruned.
#[test]
fn p6_an_identical_request_is_known_for_as_long_as_it_is_kept() {
    let action = |within: &str| {
        format!(
            "[hosts.\"a.example\"]\n[actions.a]\nmethod = \"POST\"\nurl = \"https://a.example/\"\nsubject = \"s\"\n\
             identical_within = \"{within}\"\n"
        )
    };
    let fault = "t.toml:6:20: `identical_within` must be at most 90d: a repeat after that is known by \
                 `operation_key`, or a key that the caller chooses";
    for (within, found) in [("90d", &[][..]), ("7776001s", &[fault]), ("365d", &[fault]), ("0s", &[])] {
        assert_eq!(faults(&action(within)), found, "{within}");
    }
}

#[test]
fn limits() {
    check(&[
        (
            "[limits.a]\ndimension = \"money\"\ncurrency = \"USD\"\nperiod = \"week\"\namount = -1",
            &[
                "3:12: `currency`: `USD` is not a currency: write three lower-case letters, such as `usd`",
                "4:10: `period`: unknown word `week`; known: `day`, `month`, `total`",
                "5:10: `amount` must be an integer from 0 to 9223372036854775807, not -1",
            ],
        ),
        (
            "[limits.a]\ndimension = \"money\"\nperiod = \"day\"\namount = 9223372036854775808",
            &[
                "1:9: missing key `currency` in [limits.a]",
                "4:10: `amount` must be an integer from 0 to 9223372036854775807, not 9223372036854775808",
            ],
        ),
        (
            "[limits.a]\ndimension = \"Mails\"\ncurrency = \"usd\"\nperiod = \"day\"\namount = 1",
            &[
                "2:13: `dimension`: `Mails` is not `money`, `resource_mutations` or a name of your own: 1 to 32 of \
               `a-z`, `0-9` and `_`, beginning with a letter",
            ],
        ),
        (
            "[limits.a]\ndimension = \"mails\"\nunit = \"mail\"\ncurrency = \"usd\"\nperiod = \"day\"\namount = 1",
            &["4:1: `currency` goes with `dimension = \"money\"` only"],
        ),
    ]);
}

#[test]
fn syntax() {
    check(&[
        ("[proxy]\nlisten = \n", &["2:10: not TOML: string values must be quoted, expected literal string"]),
        ("[proxy]\n[proxy]\n", &["2:2: not TOML: duplicate key `proxy`"]),
    ]);
}

#[test]
fn every_fault_of_every_section_comes_at_once_and_in_order() {
    let found = faults(
        "[limits.a]\nperiod = \"day\"\namount = 1\n[actions.b]\nmethod = \"POST\"\n[proxy]\nx = 1\n[callers.c]\nscopes = [7]",
    );
    let places: Vec<&str> = found.iter().map(|fault| fault.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(places, ["t.toml:1:9", "t.toml:4:10", "t.toml:7:1", "t.toml:8:10", "t.toml:9:11"]);
}

/// The action's own words go before the preset's.
#[test]
fn presets() {
    use std::time::Duration;

    use crate::model::{ActionKind, Idempotency, KeyPlace, Preset};
    use crate::{Presets, Source, parse_with};

    let key = |name: &str| {
        Some(Idempotency {
            place: KeyPlace::Header(name.to_owned()),
            window: Duration::from_secs(60),
            failures_kept: None,
        })
    };
    let known = Preset { hosts: vec!["a.example".into()], idempotency: key("x-key"), ..Preset::default() };
    let presets = Presets::from([("acme".to_owned(), known)]);
    let read = |lines: &str| {
        let text = format!("[actions.x]\nmethod = \"POST\"\nenabled = true\n{lines}");
        parse_with(&[Source { name: "t.toml", text: &text }], &presets)
    };
    let kept = |lines: &str| {
        let parsed = read(lines).unwrap();
        let action = parsed.config.actions.into_values().next().unwrap();
        let ActionKind::Declared(declared) = action.kind else { panic!("a declared action") };
        let doubts = parsed.warnings.iter().filter(|doubt| doubt.to_string().contains("preset")).count();
        (declared.idempotency, doubts)
    };
    let own = "idempotency = { header = \"Mine\", window = \"1min\" }";
    let here = "url = \"https://a.example/x\"\npreset = \"acme\"";
    assert_eq!(kept(here), (key("x-key"), 0));
    assert_eq!(kept(&format!("{here}\n{own}")), (key("mine"), 0));
    assert_eq!(kept("url = \"https://b.example/x\"\npreset = \"acme\""), (key("x-key"), 1));
    for (lines, expected) in [
        (
            "preset = \"acm\"",
            "t.toml:5:10: `preset`: there is no `acm` in the catalogue; did you mean `acme`?",
        ),
        (
            "preset = \"acme\"\nheaders = { X-Key = \"a\" }",
            "t.toml:6:1: `headers` sets `x-key`, which `idempotency` sets already",
        ),
        (
            "preset = \"acme\"\ngoverned = false",
            "t.toml:5:1: `preset` does not go with `governed = false`: there is no effect",
        ),
    ] {
        let faults = read(&format!("url = \"https://a.example/x\"\n{lines}")).unwrap_err();
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(told, [expected], "{lines}");
    }
}

/// What only an effect has makes a read a governed one, and is nothing that an action without effects could have.
#[test]
fn what_implies_an_effect() {
    use crate::model::ActionKind;
    use crate::{Source, parse};

    let read = |method: &str, lines: &str| {
        let text = format!(
            "[actions.x]\nmethod = \"{method}\"\nurl = \"https://a.example/x?id={{{{input.id}}}}\"\n{lines}"
        );
        parse(&[Source { name: "t.toml", text: &text }])
    };
    for (line, key, goes) in [
        ("requires_approval = true", "requires_approval", false),
        ("requires_approval = false", "requires_approval", true),
        ("subject = \"{{input.id}}\"", "subject", false),
        ("operation_key = \"x:{{input.id}}\"", "operation_key", false),
        ("impact = { dimension = \"resource_mutations\", amount = \"1\" }", "impact", false),
        ("idempotency = { header = \"k\", window = \"1h\" }", "idempotency", false),
        ("response = { failed_when = [{ path = \"ok\", equals = false }] }", "response", true),
        ("description = \"a read\"", "description", true),
    ] {
        let action = read("GET", line).unwrap().config.actions.into_values().next().unwrap();
        let ActionKind::Declared(declared) = action.kind else { panic!("a declared action") };
        let implies = !["requires_approval = false", "description = \"a read\""].contains(&line);
        assert_eq!(declared.governed, implies, "{line}");
        for method in ["GET", "POST"] {
            let told: Vec<String> = match read(method, &format!("governed = false\n{line}")) {
                Ok(_) => Vec::new(),
                Err(faults) => faults.iter().map(ToString::to_string).collect(),
            };
            let fault =
                format!("t.toml:5:1: `{key}` does not go with `governed = false`: there is no effect");
            let expected = if goes { Vec::new() } else { vec![fault] };
            assert_eq!(told, expected, "{method} {line}");
        }
    }
}

#[test]
fn headers_that_are_content() {
    use crate::model::ActionKind;
    use crate::{Source, parse};

    let read = |lines: &str| {
        let text = format!(
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\nsubject = \"s\"\n{lines}"
        );
        parse(&[Source { name: "t.toml", text: &text }])
    };
    let kept = |lines: &str| {
        let action = read(lines).unwrap().config.actions.into_values().next().unwrap();
        let ActionKind::Declared(declared) = action.kind else { panic!("a declared action") };
        declared.scope_headers
    };
    assert_eq!(kept(""), Vec::<String>::new());
    assert_eq!(kept("scope_headers = [\"X-Tenant\", \"x-region\", \"x-tenant\"]"), ["x-region", "x-tenant"]);
    let many: Vec<String> = (0..17).map(|number| format!("\"x-{number}\"")).collect();
    for (lines, expected) in [
        (
            "scope_headers = [\"X-Tenant\", \"Cookie\"]",
            "t.toml:5:30: an item of `scope_headers`: `cookie` holds a secret, which no record may have",
        ),
        (
            "scope_headers = [\"Host\"]",
            "t.toml:5:18: an item of `scope_headers`: `Host` is written by Oncegate itself and cannot be set",
        ),
        (
            &format!("scope_headers = [{}]", many.join(", ")),
            "t.toml:5:17: `scope_headers`: at most 16 headers",
        ),
        (
            "scope_headers = [\"x-tenant\"]\ngoverned = false",
            "t.toml:5:1: `scope_headers` does not go with `governed = false`: there is no effect",
        ),
    ] {
        let faults = read(lines).unwrap_err();
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(told.iter().any(|told| told == expected), "{told:?}");
    }
}
