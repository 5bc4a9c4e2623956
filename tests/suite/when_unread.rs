//! A `when` that cannot be judged is no `when` that does not hold: what hides the body gets past no action.

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    conf::Conf,
    provider::Provider,
    sidecar::{Home, Sidecar},
};

use crate::{law::approval_in, shop::DESK};

/// A governed operation among others at one URL, which are passed on.
const GRAPHQL: &str = r#"
[actions.paygql]
method = "POST"
url = "https://tickets.test/graphql"
when = [{ path = "input.operationName", equals = "pay" }]
requires_approval = true
subject = "{{input.operationName}}"

[actions.upload]
method = "POST"
url = "https://tickets.test/files/{{input.folder}}"
governed = false

[actions.upload-of-accounts]
method = "POST"
url = "https://tickets.test/files/{{input.folder}}"
when = [{ path = "input.folder", equals = "accounts" }]
requires_approval = true
subject = "{{input.folder}}"

[actions.order]
method = "POST"
url = "https://tickets.test/orders/{{input.order}}/capture"
subject = "{{input.order}}"

[actions.on-order]
method = "POST"
url = "https://tickets.test/orders/{{input.id}}/{{input.verb}}"
governed = false
"#;
/// Where everything else goes.
const ANY: &str =
    "[actions.anygql]\nmethod = \"POST\"\nurl = \"https://tickets.test/graphql\"\ngoverned = false\n";
/// The same, said in a way that holds of a body that is not read.
const NAMELESS: &str = "[actions.a-nameless]\nmethod = \"POST\"\nurl = \"https://tickets.test/graphql\"\nwhen = [{ path = \"input.operationName\", absent = true }]\ngoverned = false\n";
const PAY: &str = r#"{"operationName":"pay"}"#;

fn ask(sidecar: &Sidecar, target: &str, content_type: &str, body: &str) -> Answer {
    let ask = Ask::new("POST", target).field("Content-Type", content_type).body(body);
    sidecar.billing().ask(DESK, &ask)
}

/// Bodies that a server could take for a payment, and that are not read as one.
const HIDDEN: [(&str, &str); 6] = [
    ("text/plain", PAY),
    ("application/json", r#"[{"operationName":"pay"}]"#),
    ("application/json", r#" "pay""#),
    ("application/graphql", "mutation { pay }"),
    (
        "multipart/form-data; boundary=x",
        "--x\r\nContent-Disposition: form-data; name=\"operationName\"\r\n\r\npay\r\n--x--\r\n",
    ),
    ("", r#"[{"operationName":"pay"}]"#),
];

fn nothing_hidden_passes(conf: impl FnOnce(Conf) -> Conf) {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&conf(Conf::default().host(DESK, provider.addr())));
    let sidecar = home.serve();
    approval_in(&ask(&sidecar, "/graphql", "application/json", PAY));
    for (content_type, body) in HIDDEN {
        for target in ["/graphql", "/graphql?operationName=find"] {
            let no = ask(&sidecar, target, content_type, body);
            assert_eq!(
                (no.status, no.code()),
                (403, "oncegate_ambiguous"),
                "{target} {content_type} {body}: {no:?}"
            );
            no.assert_refused(403, "oncegate_ambiguous");
        }
    }
    let packed = Ask::form("/graphql", "operationName=find").field("Content-Encoding", "deflate");
    sidecar.billing().ask(DESK, &packed).assert_refused(403, "oncegate_ambiguous");
    assert_eq!((provider.record().requests().len(), home.effects().len()), (0, 1));
    // What is read, or is not there, is judged as it was.
    let find = r#"{"operationName":"find"}"#;
    for (content_type, body) in
        [("application/json", find), ("application/x-www-form-urlencoded", "operationName=find"), ("", find)]
    {
        let passed = ask(&sidecar, "/graphql", content_type, body);
        assert_eq!((passed.status, passed.header("oncegate-effect")), (200, None), "{content_type} {body}");
    }
    assert_eq!(ask(&sidecar, "/graphql", "text/plain", "").status, 200);
    assert_eq!(provider.record().writes().len(), 4);
}

#[test]
fn p10_a_hidden_operation_does_not_pass_as_another_action() {
    nothing_hidden_passes(|conf| conf.with(GRAPHQL).with(ANY));
}

#[test]
fn p10_nor_where_the_host_allows_writes() {
    nothing_hidden_passes(|conf| conf.with("writes = \"allow\"").with(GRAPHQL));
}

#[test]
fn p10_nor_by_what_is_not_seen_in_it() {
    nothing_hidden_passes(|conf| conf.with(GRAPHQL).with(ANY).with(NAMELESS));
}

#[test]
fn what_the_url_says_decides_without_the_body() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&Conf::default().host(DESK, provider.addr()).with(GRAPHQL));
    let sidecar = home.serve();
    assert_eq!(ask(&sidecar, "/files/pictures", "image/png", "bytes").status, 200);
    approval_in(&ask(&sidecar, "/files/accounts", "text/csv", "a,b"));
    assert_eq!(provider.record().writes().len(), 1);
    // Said in two places for the narrower action, it is not the wider one's for that.
    ask(&sidecar, "/orders/O1/capture", "application/json", r#"{"order":"O2"}"#)
        .assert_refused(403, "oncegate_ambiguous");
    assert_eq!(provider.record().writes().len(), 1);
}

/// A trial run is told from the real one by a member that is there or not: what a server takes for nothing is neither.
const TRIAL: &str = r#"
[actions.real]
method = "POST"
url = "https://tickets.test/pay"
when = [{ path = "input.dry_run", absent = true }]
requires_approval = true

[actions.trial]
method = "POST"
url = "https://tickets.test/pay"

[actions.big]
method = "POST"
url = "https://tickets.test/push"
when = [{ path = "input.force", equals = true }]
requires_approval = true

[actions.push]
method = "POST"
url = "https://tickets.test/push"
"#;

#[test]
fn p5_no_approval_is_passed_by_what_a_server_takes_for_nothing_or_for_true() {
    const FORM: &str = "application/x-www-form-urlencoded";
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&Conf::default().host(DESK, provider.addr()).with(TRIAL));
    let sidecar = home.serve();
    for (target, content_type, body) in [
        ("/pay", "application/json", r#"{"dry_run":null}"#),
        ("/pay", "application/json", r#"{"dry_run":false}"#),
        ("/pay", "application/json", r#"{"dry_run":[]}"#),
        ("/pay", FORM, "dry_run="),
        ("/pay", FORM, "dry_run=0"),
        ("/pay?dry_run=", FORM, "a=1"),
        ("/push", "application/json", r#"{"force":1}"#),
        ("/push", "application/json", r#"{"force":[true]}"#),
        ("/push", FORM, "force=on"),
        ("/push", FORM, "force=TRUE"),
    ] {
        ask(&sidecar, target, content_type, body).assert_refused(403, "oncegate_ambiguous");
    }
    for (action, body) in [("trial", r#"{"dry_run":null}"#), ("push", r#"{"force":1}"#)] {
        let named = sidecar.cli(&home, "billing-agent", &["invoke", action, "--input", body]);
        assert!(named.code != 0 && named.err.contains("decides which action this is"), "{action}: {named:?}");
    }
    assert!(provider.record().requests().is_empty());
    for (target, body) in [("/pay", "{}"), ("/push", r#"{"force":true}"#)] {
        approval_in(&ask(&sidecar, target, "application/json", body));
    }
    for (target, body) in [("/pay", r#"{"dry_run":true}"#), ("/push", r#"{"force":false}"#), ("/push", "{}")]
    {
        assert_eq!(ask(&sidecar, target, "application/json", body).status, 200, "{body}");
    }
    assert_eq!(provider.record().writes().len(), 3);
}

/// What is asked of the items of a list, and a write of the same URL that asks nothing.
const MEMBERS: &str = r#"
[actions.invite-admin]
method = "POST"
url = "https://tickets.test/members"
when = [{ path = "input.items.*.role", equals = "admin" }]
requires_approval = true
subject = "admins"

[actions.invite]
method = "POST"
url = "https://tickets.test/members"
identical_within = "0s"

[actions.bill]
method = "POST"
url = "https://tickets.test/bills"
input_schema = { properties = { lines = { items = { properties = { amount = { maximum = 100 } } } }, most = { items = { maximum = 100 } } } }
"#;

/// PHP and Rack go through `items[3][role]=admin` as through a list, and qs makes one of it.
#[test]
fn p10_a_list_in_other_numbers_is_no_way_around() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&Conf::default().host(DESK, provider.addr()).with(MEMBERS));
    let sidecar = home.serve();
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    approval_in(&ask(&sidecar, "/members", form, "items[0][role]=admin"));
    for (content_type, body) in [
        (form, "items[3][role]=admin"),
        (form, "items[00][role]=admin"),
        (form, "items[x][role]=admin"),
        (form, "items[role]=admin"),
        (form, "items[0][role]=viewer&items[2][role]=admin"),
        (form, "items.0.role=admin"),
        (json, r#"{"items":{"0":{"role":"admin"}}}"#),
        (json, r#"{"items":{"role":"admin"}}"#),
    ] {
        ask(&sidecar, "/members", content_type, body).assert_refused(403, "oncegate_ambiguous");
    }
    ask(&sidecar, "/members?items[3][role]=admin", form, "").assert_refused(403, "oncegate_ambiguous");
    for (content_type, body) in [
        (form, "lines[0][amount]=9000"),
        (form, "lines[3][amount]=9000"),
        (form, "lines[x][amount]=9000"),
        (form, "most[3]=9000"),
        (form, "most=9000"),
        (json, r#"{"lines":{"0":{"amount":9000}}}"#),
    ] {
        ask(&sidecar, "/bills", content_type, body).assert_refused(400, "oncegate_invalid_input");
    }
    assert!(provider.record().requests().is_empty());
    for (target, content_type, body) in [
        ("/members", form, "items[0][role]=viewer&items[1][role]=viewer"),
        ("/members", json, r#"{"items":[],"others":{"3":{"role":"admin"}}}"#),
        ("/members", json, r#"{"name":"a"}"#),
        ("/bills", form, "lines[0][amount]=100&most[]=5"),
        ("/bills", json, r#"{"lines":[{"amount":100}],"most":null}"#),
    ] {
        let sent = ask(&sidecar, target, content_type, body);
        assert_eq!(sent.status, 200, "{content_type} {body}: {sent:?}");
    }
    assert_eq!(provider.record().writes().len(), 5);
}
