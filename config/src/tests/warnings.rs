//! What is allowed and doubtful.

use super::warnings;

const PAGE: &str = "2:10: `verify` of action `x` has no `match` on something that is there: a page of a gateway, or of another \
    kind, with status 200 is taken for the provider's record";
const HOST: &str = "[hosts.\"a.example\"]\n";

fn check(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        let found = warnings(&format!("{HOST}{text}"));
        let found: Vec<&str> = found.iter().map(|fault| fault.trim_start_matches("t.toml:")).collect();
        assert_eq!(&found, expected, "in:\n{text}");
    }
}

#[test]
fn actions() {
    check(&[
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"",
            &[
                "2:10: action `x` has neither `operation_key` nor `subject`: a varied retry cannot be recognised",
                "2:10: action `x` has neither a provider key (`idempotency`) nor a read-back (`verify`): only a person \
                 can settle it when its answer is lost",
            ],
        ),
        ("[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\ngoverned = false", &[]),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\ngoverned = false\n\
             when = [{ path = \"input.operationName\", equals = \"find\" }]",
            &[
                "2:10: `when` of action `x` asks for `operationName`, which an agent may give to any GraphQL document: \
                 ask for the document too (`input.query`, or `input.extensions.persistedQuery.sha256Hash`)",
            ],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\ngoverned = false\n\
             when = [{ path = \"input.operationName\", equals = \"find\" }, { path = \"input.query\", equals = \"{a}\" }]",
            &[],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\nsubject = \"x\"\nrequires_approval = true\n\
             verify = { url = \"https://a.example/x\", match = [{ path = \"a\", equals = 1 }] }",
            &[
                "2:10: `verify` of action `x` says the same whatever was asked: it names neither input nor effect",
                "2:10: action `x` waits for approval, but no caller has `approvals:decide`",
            ],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\nsubject = \"x\"\n\
             verify = { url = \"https://a.example/x/{{response.id}}\" }",
            &[
                PAGE,
                "2:10: `verify` of action `x` needs the provider's answer: when that is lost, only a person can settle it",
            ],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x/{{input.id}}/close\"\nsubject = \"{{input.id}}\"\n\
             verify = { url = \"https://a.example/x/{{input.id}}\", match = [{ path = \"state\", equals = \"closed\" }] }",
            &[],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\nsubject = \"x\"\n\
             verify = { url = \"https://a.example/x\", match = [{ path = \"d.*.id\", equals = \"{{input.id}}\", absent = true }] }",
            &[
                PAGE,
                "2:10: `verify` of action `x` names neither the effect nor all that makes its `operation_key`: what \
               another effect of the same input has done is taken for this one's",
            ],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\noperation_key = \"x:{{input.id}}\"\n\
             verify = { url = \"https://a.example/x\", match = [{ path = \"d.*.id\", equals = \"{{input.id}}\" }] }",
            &[],
        ),
        (
            "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\nsubject = \"x\"\n\
             verify = { url = \"https://a.example/x\", match = [{ path = \"d.*.ref\", equals = \"{{effect.id}}\" }] }",
            &[],
        ),
        (
            "[actions.a]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\ngoverned = false\n\
             [actions.b]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\ngoverned = false",
            &["6:10: action `b` never matches: `a` matches every request it could match"],
        ),
    ]);
}

#[test]
fn hosts_and_limits() {
    check(&[
        (
            "writes = \"allow\"",
            &[
                "1:8: `writes = \"allow\"`: a write that no action claims goes out, and nothing is recorded of it",
            ],
        ),
        ("http2 = true", &["2:1: `http2`: HTTP/2 to providers is not built, HTTP/1.1 is used"]),
        ("http2 = false", &[]),
        (
            "websockets = \"allow\"",
            &[
                "1:8: `websockets = \"allow\"`: whatever an agent writes inside goes out, and nothing is recorded of it",
            ],
        ),
        (
            "credential = { query = \"key\", value = \"abc\" }",
            &["1:8: the credential of this host names no secret: it stands in the file as it is"],
        ),
        (
            "plain = true\ncredential = { basic = { user = \"{{secret:K}}\", password = \"\" } }\n\
             [secrets.K]\nfrom = { file = \"k\" }\nallowed_hosts = [\".example\"]",
            &["1:8: the credential of this host is sent in plain text"],
        ),
        (
            "[secrets.K]\nfrom = { vault = true }",
            &[
                "2:10: the vault has no key (`[vault] key`): what is put into it through the API is not encrypted, only \
               readable by the sidecar's user alone",
            ],
        ),
        (
            "[limits.l]\ndimension = \"mony\"\nperiod = \"day\"\namount = 1",
            &["2:9: no action counts against the limit `l`: it holds nothing back"],
        ),
    ]);
}

#[test]
fn a_prefix_that_nothing_begins_with() {
    let config = |prefix: &str, action: &str| {
        format!(
            "[actions.x]\n{action}\n[limits.l]\ndimension = \"money\"\ncurrency = \"usd\"\nperiod = \"day\"\namount = 1\n\
             resource_prefix = \"{prefix}\"\n[secrets.K]\nfrom = {{ env = \"K\" }}\nallowed_hosts = [\"api.stripe.com\"]"
        )
    };
    let counts = |prefix: &str, action: &str| {
        !warnings(&config(prefix, action))
            .iter()
            .any(|told| told.contains("no action counts against the limit `l`"))
    };
    let refund = "adapter = { type = \"stripe.refund\", account = \"acct_1Nx\", mode = \"test\", currency = \"usd\" }\n\
                  credential_secret = \"K\"";
    for prefix in ["pi_", "pi_3", "p", "ch_1", "py_", "acct_", "acct_1Nx/", "acct_other/pi_1", "acct_1Nx/ch_"]
    {
        assert!(counts(prefix, refund), "{prefix}");
    }
    for prefix in ["payment_intent/pi_", "ACCT_1Nx/", "acct_1Nx/*", "pi-", "refund"] {
        assert!(!counts(prefix, refund), "{prefix}");
    }
    let declared = "method = \"POST\"\nurl = \"https://a.example/x\"\n\
                    impact = { dimension = \"money\", currency = \"usd\", amount = \"1\" }";
    assert!(!counts("x", declared), "without a subject there is no resource");
    assert!(counts("x", &format!("{declared}\nsubject = \"{{{{input.id}}}}\"")));
}

#[test]
fn a_write_that_moves_money_and_says_no_amount() {
    let told = |path: &str, more: &str| {
        let text = format!(
            "[actions.x]\nadapter = {{ type = \"stripe.write\", mode = \"test\", path = \"{path}\" }}\ncredential_secret = \"K\"\n\
             subject = \"{{{{input.id}}}}\"\nverify = {{ url = \"https://api.stripe.com/v1/x/{{{{input.id}}}}\" }}\n{more}\n\
             [secrets.K]\nfrom = {{ env = \"K\" }}\nallowed_hosts = [\"api.stripe.com\"]"
        );
        warnings(&text).iter().any(|told| told.contains("moves money"))
    };
    for path in [
        "/v1/payouts",
        "/v1/charges/{{input.charge}}/refund",
        "/v1/invoices/{{input.id}}/pay",
        "/v1/transfers",
    ] {
        assert!(told(path, ""), "{path}");
        let counted = "impact = { dimension = \"money\", currency = \"usd\", amount = \"input.amount\" }";
        assert!(!told(path, counted), "{path}");
    }
    for path in ["/v1/customers", "/v1/charges/{{input.charge}}", "/v1/payouts/{{input.id}}"] {
        assert!(!told(path, ""), "{path}");
    }
}

#[test]
fn an_agent_that_waits_longer_than_anybody_listens() {
    let long = "is longer than `[proxy] upstream_timeout`: nobody listens to the provider for so long, and the agent is \
                answered then";
    check(&[(
        "[proxy]\nrespond_within = \"3min\"\n[control]\nrespond_within = \"121s\"",
        &[&format!("3:1: `respond_within` {long}"), &format!("5:1: `respond_within` {long}")],
    )]);
}

#[test]
fn an_action_that_takes_requests_from_a_governed_one() {
    let action = |name: &str, path: &str, more: &str| {
        format!("[actions.{name}]\nmethod = \"POST\"\nurl = \"https://a.example/{path}\"\n{more}\n")
    };
    let kept = "subject = \"x\"\nidempotency = { header = \"k\", window = \"1h\" }";
    let wide = action("wide", "v1/{{input.kind}}", kept);
    let takes = "7:10: action `narrow` takes POST https://a.example/v1/x from `wide`: what is declared of `wide` does not hold there";
    check(&[
        (&(wide.clone() + &action("narrow", "v1/x", "governed = false")), &[takes]),
        (&(wide.clone() + &action("narrow", "v2/x", "governed = false")), &[]),
        (&(action("wide", "v1/{{input.kind}}", "governed = false") + &action("narrow", "v1/x", kept)), &[]),
    ]);
    let dry = "governed = false\nwhen = [{ path = \"input.dry\", equals = true }]";
    let special = "7:10: action `dry` takes POST https://a.example/v1/x from `pay`: what is declared of `pay` does not hold there";
    check(&[
        (&(action("pay", "v1/x", kept) + &action("dry", "v1/x", dry)), &[special]),
        (
            &(action("pay", "v1/x", kept) + &action("dry", "v1/x", &dry.replace("governed = false", kept))),
            &[],
        ),
        (&(action("pay", "v1/x", "governed = false") + &action("dry", "v1/x", dry)), &[]),
    ]);
    let told_apart = |value: &str| format!("{kept}\nwhen = [{{ path = \"input.k\", equals = \"{value}\" }}]");
    let wide = action("wide", "v1/{{input.kind}}", &told_apart("a"));
    check(&[(&(wide + &action("narrow", "v1/x", &told_apart("b"))), &[])]);
}
