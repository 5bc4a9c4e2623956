//! Faults of actions, and what two sections say about each other.

use super::{check, config, faults};

/// One line of hosts and secrets before each case, so that lines count from 2.
fn check_with_host(cases: &[(&str, &[&str])]) {
    let before = "hosts.\"a.example\" = {}\nhosts.\"plain.example\".plain = true\n\
                  secrets.K = { from = { env = \"K\" }, allowed_hosts = [\"a.example\"] }\n";
    for (text, expected) in cases {
        check(&[(&format!("{before}{text}"), expected)]);
    }
}

#[test]
fn actions_on_their_own() {
    check_with_host(&[
        ("[actions.x]\n", &["4:10: [actions.x]: an action needs either `adapter`, or `method` and `url`"]),
        (
            "[actions.effects]\nmethod = \"post\"\nurl = \"https://{{input.h}}/x\"",
            &[
                "4:10: `effects` cannot be an action's name: the API needs it for itself",
                "5:10: `method`: unknown word `post`; did you mean `POST`?",
                "6:7: `url`: the host of a URL must be fixed: placeholders belong in the path or the query",
            ],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\noperation_key = \"{{secret:K}}\"\n\
             subject = \"{{effect.id}}\"\nheaders = { \"Content-Length\" = \"1\", X = \"{{response.a}}\" }\n\
             fault_drill = \"drop\"\nwhen = [{ path = \"kind\" }, { path = \"input.a\", equals = \"{{input.b}}\" }]",
            &[
                "7:17: `operation_key` cannot hold `{{secret:K}}`: a secret identifies nothing",
                "8:11: `subject` cannot hold `{{effect.id}}`: it is made before there is an effect",
                "9:13: `headers`: `Content-Length` is written by Oncegate itself and cannot be set",
                "9:41: `X` cannot hold `{{response.a}}`: there is no answer yet",
                "10:15: `fault_drill`: unknown word `drop`; known: `drop_response_after_send`, `reset_after_send`, `timeout`, `status_500_after_send`, `truncate_answer`, `crash_before_record`",
                "11:18: `path`: `kind` must begin with `input.`",
                "11:57: `equals` is compared as it stands here: it cannot hold placeholders",
            ],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\ninput_schema = { type = \"objekt\" }\n\
             approval_when = \"amount >= 1\"\nresponse = { succeeded_when = [] }\n\
             idempotency = { header = \"Idempotency-Key\" }\nheaders = { idempotency-key = \"a\" }",
            &[
                "7:16: `input_schema` is not a JSON Schema: \"objekt\" is not valid under any of the schemas listed \
                 in the 'anyOf' keyword",
                "8:17: `approval_when`: `amount >= 1` is not of the form `amount > 5000`",
                "9:31: `succeeded_when` is empty",
                "10:15: missing key `window` in `idempotency`",
            ],
        ),
        (
            "[actions.x]\nmethod = \"GET\"\nurl = \"https://a.example/x/{{effect.id}}\"\ngoverned = false\n\
             impact = { dimension = \"resource_mutations\", amount = \"-1\", bound = \"exakt\" }\napproval_when = \"amount > 1\"",
            &[
                "6:7: `url` cannot hold `{{effect.id}}`: the action is not governed: it makes no effect",
                "8:1: `impact` does not go with `governed = false`: there is no effect",
                "8:55: `amount`: `-1` is not an integer, `input.PATH` or `count(input.PATH)`, with or without `* INTEGER`",
                "8:69: `bound`: unknown word `exakt`; did you mean `exact`?",
                "9:1: `approval_when` needs `impact`: it is about its amount",
            ],
        ),
    ]);
}

#[test]
fn adapters() {
    check(&[
        ("[actions.x]\nadapter = { account = \"a\" }", &["2:11: missing key `type` in `adapter`"]),
        (
            "[actions.x]\nadapter = { type = \"resend.email_send\", fence = \"recipient\", red_secret = \"K\" }",
            &[
                "1:10: the adapter `resend.email_send` needs `credential_secret`",
                "2:49: `fence`: unknown word `recipient`; did you mean `recipients`?",
                "2:62: unknown key `red_secret`; did you mean `read_secret`?",
            ],
        ),
        (
            "[actions.x]\nadapter = { type = \"github.file_update\", repository = \"a/b/c\", branh = \"x\" }",
            &[
                "1:10: the adapter `github.file_update` needs `credential_secret`",
                "2:55: `repository`: `a/b/c` is not a repository such as `owner/name`",
                "2:64: unknown key `branh`; did you mean `branch`?",
            ],
        ),
        (
            "[hosts.\"api.stripe.com\"]\n[secrets.K]\nfrom = { vault = true }\nallowed_hosts = [\"api.stripe.com\"]\n\
             [actions.x]\nsubject = \"a\"\nurl = \"https://api.stripe.com/v1/x\"\ncredential_secret = \"K\"\n\
             adapter = { type = \"stripe.write\", mode = \"test\", path = \"/v2/x\", curency = \"usd\" }\n\
             impact = { dimension = \"money\", amount = \"input.amount\" }\n\
             verify = { url = \"https://b.example/x\" }",
            &[
                "7:1: `url` does not go with `adapter`: the adapter knows it",
                "9:58: `path`: `/v2/x` is not a path such as `/v1/transfers`",
                "9:67: unknown key `curency`; known: `mode`, `path`, `type`",
                "10:10: missing key `currency` in `impact`",
            ],
        ),
        (
            "[hosts.\"api.github.com\"]\n[secrets.K]\nfrom = { vault = true }\nallowed_hosts = [\"api.github.com\"]\n\
             [actions.x]\ncredential_secret = \"K\"\nmethod = \"POST\"\n\
             adapter = { type = \"github.write\", path = \"/user/repos\", method = \"GET\", markbody = true }",
            &[
                "7:1: `method` does not go with `adapter`: the adapter knows it",
                "8:43: `path`: `/user/repos` is not a path such as `/repos/owner/name/issues`",
                "8:67: `method`: unknown word `GET`; known: `POST`, `PUT`, `PATCH`, `DELETE`",
                "8:74: unknown key `markbody`; did you mean `mark_body`?",
            ],
        ),
        ("[actions.x]\nadapter = \"stripe.refund\"", &["2:11: `adapter` must be a table, not a string"]),
        (
            "[actions.x]\nadapter = { type = \"stripe.refnd\" }",
            &["2:11: unknown adapter `stripe.refnd`; did you mean `stripe.refund`?"],
        ),
        (
            "[hosts.\"api.stripe.com\"]\n[actions.x]\nfault_drill = \"drop_response_after_send\"\nsubject = \"a\"\n\
             adapter = { type = \"stripe.refund\", mode = \"live\", accout = \"a\" }",
            &[
                "2:10: the adapter `stripe.refund` needs `credential_secret`",
                "3:1: `fault_drill` is refused with `mode = \"live\"` unless `allow_live_drill = true`: a drill loses the answer on purpose",
                "4:1: `subject` does not go with `adapter`: the adapter knows it",
                "5:11: missing key `currency` in `adapter`",
                "5:52: unknown key `accout`; did you mean `account`?",
            ],
        ),
        (
            "[actions.x]\nadapter = { type = \"stripe.refund\", mode = \"test\", currency = \"usd\" }\n\
             credential_secret = \"STRIPE_KY\"\n\
             [secrets.STRIPE_KEY]\nfrom = { vault = true }\nallowed_hosts = [\"a.example\"]",
            &["3:21: there is no secret `STRIPE_KY`; did you mean `STRIPE_KEY`?"],
        ),
    ]);
}

#[test]
fn secrets_stay_where_they_may() {
    check_with_host(&[
        (
            "[hosts.\"b.example\"]\ncredential = { query = \"k\", value = \"{{secret:K}}\" }\n\
             [hosts.\".a.example\"]\ncredential = { header = \"k\", value = \"{{secret:K}}\" }",
            &[
                "5:37: the secret `K` may not go to `b.example`: see its `allowed_hosts`",
                "5:37: the secret `K` may not stand in the url: see its `allowed_placements`",
                "7:38: the secret `K` may not go to `.a.example`: see its `allowed_hosts`",
            ],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\nheaders = { A = \"{{secret:K}}\" }\n\
             body = { list = [{ key = \"{{secret:K}}\" }] }\n\
             verify = { url = \"https://a.example/x?k={{secret:K}}\" }",
            &[
                "8:26: `key` cannot hold `{{secret:K}}`: secrets go into headers and the host's credential",
                "9:18: `url`: a secret cannot stand in an action's URL: declare it as the host's credential",
            ],
        ),
        (
            "[secrets.BAD]\nfrom = { env = \"\" }\nallowed_hosts = [\"c.example\"]\n\
             [hosts.\"d.example\"]\ncredential = { header = \"k\", value = \"{{secret:BAD}}\" }",
            &["5:16: `env` is empty"],
        ),
    ]);
}

#[test]
fn hosts_and_schemes() {
    check_with_host(&[
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.exmple/x\"",
            &[
                "6:1: `a.exmple` is not a declared host: add `[hosts.\"a.exmple\"]`; did you mean `a.example`?",
            ],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"http://a.example:443/x\"\n\
             [actions.y]\nmethod = \"POST\"\nurl = \"https://plain.example:80/y\"\n\
             [actions.z]\nmethod = \"POST\"\nurl = \"http://plain.example/z\"",
            &[
                "6:1: `a.example:443` is spoken to over TLS: write `https://`, or `plain = true` at the host",
                "9:1: `plain.example:80` is declared with `plain = true`: write `http://`, or remove that",
            ],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\n\
             verify = { url = \"https://b.example/x\", match = [{ equals = 1 }], statos = 200 }",
            &[
                "7:18: `verify` looks at https://b.example:443, but `x` writes to https://a.example:443: only the \
                 action's own host can say what became of it",
                "7:50: missing key `path` in a condition of `match`",
                "7:67: unknown key `statos`; did you mean `status`?",
            ],
        ),
    ]);
}

#[test]
fn at_most_ten_checks() {
    let conditions = ["{ path = \"a\" }"; 11].join(", ");
    let verify = format!("verify = {{ url = \"https://a.example/x\", match = [{conditions}] }}");
    check_with_host(&[(
        &format!("[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\n{verify}"),
        &["7:49: `match` has 11 conditions: at most 10 are allowed"],
    )]);
}

#[test]
fn callers_limits_and_times() {
    let hash = "ab".repeat(32);
    check(&[
        (
            &format!(
                "[callers.a]\nkey_sha256 = \"{hash}\"\nscopes = []\nlisten = \"127.0.0.1:8080\"\n\
                 [callers.b]\nkey_sha256 = [\"{}\", \"{}\"]\nscopes = []\nlisten = \"127.0.0.1:0\"\n\
                 [callers.c]\nscopes = []\nlisten = \"127.0.0.1:0\"\n[proxy]\nlisten = \"127.0.0.1:8080\"",
                hash.to_uppercase(),
                "cd".repeat(32)
            ),
            &[
                "4:10: `127.0.0.1:8080` is listened on already: see t.toml:13:1",
                "6:15: `b` has the same key as `a` at t.toml:2:14: nobody could tell them apart",
            ],
        ),
        (
            "[limits.l]\ndimension = \"resource_mutations\"\nperiod = \"day\"\namount = 1\naction = \"refnd\"\n\
             [actions.refund]\nadapter = { type = \"github.file_update\" }",
            &[
                "5:10: there is no action `refnd`; did you mean `refund`?",
                "6:10: the adapter `github.file_update` needs `credential_secret`",
            ],
        ),
    ]);
}

#[test]
fn a_schema_is_compiled_and_fetches_nothing() {
    let schema = |schema: &str| {
        format!("[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\ninput_schema = {schema}")
    };
    let numbers = "{ type = \"object\", properties = { a = { type = \"integer\", minimum = 1, multipleOf = 0.5 }, \
                   b = { maxLength = 3, pattern = \"^a+$\" } } }";
    check_with_host(&[(&schema(numbers), &[])]);
    let remote = crate::tests::faults(&schema("{ \"$ref\" = \"https://b.example/s.json\" }"));
    assert!(remote.iter().any(|fault| fault.contains("`input_schema` is not a JSON Schema")), "{remote:#?}");
    check_with_host(&[
        (&schema("7"), &["7:16: `input_schema` must be a table, or JSON as text, not an integer"]),
        (
            &schema("\"object\""),
            &["7:16: `input_schema`: the text is not JSON: expected value at line 1 column 1"],
        ),
        (&schema("'[]'"), &["7:16: `input_schema`: the text is not a JSON object"]),
    ]);
}

#[test]
fn a_schema_that_needs_null_is_written_as_text() {
    let config = config(
        "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\n\
         input_schema = '{\"properties\": {\"a\": {\"enum\": [1, null]}}}'\n",
    );
    let name = oncegate_policy::action::ActionName::parse("x").unwrap();
    let schema = config.actions[&name].input_schema.clone().unwrap();
    assert_eq!(schema.to_string(), r#"{"properties":{"a":{"enum":[1,null]}}}"#);
}

#[test]
fn p10_what_when_asks_for_is_not_moved_by_the_body() {
    let moved = |body: &str| {
        faults(&format!(
            "[hosts.\"a.example\"]\n[actions.pay]\nmethod = \"POST\"\nurl = \"https://a.example/pay\"\n\
             when = [{{ path = \"input.kind\", equals = \"x\" }}]\nbody = {body}\n"
        ))
    };
    let elsewhere = "t.toml:6:1: `when` asks for `input.kind`, which `body` puts elsewhere, where the provider reads it: call the input what the \
                     body calls it";
    for body in ["{ type = \"{{input.kind}}\" }", "{ type = \"of {{input.kind}}\" }", "[\"{{input.kind}}\"]"]
    {
        let said = moved(body);
        assert!(said.iter().any(|fault| fault == elsewhere), "{body}: {said:?}");
    }
    for body in ["{ kind = \"{{input.kind}}\", note = \"of {{input.kind}}\" }", "{ kind = \"x\" }"] {
        assert!(moved(body).is_empty(), "{body}");
    }
    // What the URL takes is read there, wherever else it is put.
    let taken = faults(
        "[hosts.\"a.example\"]\n[actions.pay]\nmethod = \"POST\"\nurl = \"https://a.example/pay/{{input.kind}}\"\n\
         when = [{ path = \"input.kind\", equals = \"x\" }]\nbody = { type = \"{{input.kind}}\" }\n",
    );
    assert!(taken.is_empty(), "{taken:?}");
}
