//! What an action is judged by is what its provider reads: a parameter of the query is no member of a body.

use oncegate_tests::{
    agent::Ask,
    provider::Provider,
    sidecar::{Home, Sidecar},
};

use crate::shop::DESK;

const ACTIONS: &str = r#"
[actions.pay]
method = "POST"
url = "https://tickets.test/pay"
operation_key = "pay:{{input.order}}"
subject = "{{input.order}}"
impact = { dimension = "resource_mutations", amount = "input.amount", bound = "exact" }

[actions.sized]
method = "POST"
url = "https://tickets.test/sized"
input_schema = { type = "object", required = ["amount"], properties = { amount = { maximum = 5 } } }
subject = "sized"

[actions.named]
method = "POST"
url = "https://tickets.test/named?amount={{input.amount}}"
subject = "named"
impact = { dimension = "resource_mutations", amount = "input.amount", bound = "exact" }

[actions.rehearse]
method = "POST"
url = "https://tickets.test/orders"
when = [{ path = "input.dry_run", equals = true }, { path = "input.kind", equals = "rehearsal" }]
governed = false

[actions.order]
method = "POST"
url = "https://tickets.test/orders"
subject = "{{input.order}}"

[actions.transfer]
method = "GET"
url = "https://tickets.test/transfer?to={{input.to}}"
subject = "{{input.to}}"
impact = { dimension = "resource_mutations", amount = "input.amount", bound = "exact" }

[actions.remove]
method = "DELETE"
url = "https://tickets.test/files"
subject = "{{input.file}}"

[limits.each-day]
dimension = "resource_mutations"
period = "day"
amount = 20
"#;
const PAY: &str = r#"{"order":"a","amount":5000}"#;

fn sent(sidecar: &Sidecar, provider: &Provider, ask: &Ask) -> (u16, usize) {
    let before = provider.record().writes().len();
    let answer = sidecar.billing().ask(DESK, ask);
    if answer.status == 403 {
        answer.assert_refused(403, "oncegate_ambiguous");
    }
    (answer.status, provider.record().writes().len() - before)
}

/// A small amount in the query, and the true one where the provider looks: in a body that is not read, in one that is
/// read and does not say it, in none.
#[test]
fn p5_a_judged_member_is_not_taken_from_the_query_in_place_of_the_body() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&crate::shop::desk_conf(provider.addr()).with(ACTIONS));
    let sidecar = home.serve();
    let of = |to: &str, content_type: &str, body: &str| {
        Ask::new("POST", to).field("Content-Type", content_type).body(body.to_owned())
    };
    let bare = |method: &str, to: &str| Ask::new(method, to).field("Content-Length", "0");
    let other = [
        of("/pay?order=q&amount=5", "text/plain", PAY),
        of("/pay?order=q&amount=5", "application/json, application/json", PAY),
        of("/pay?order=q&amount=5", "multipart/form-data; boundary=b", "--b--\r\n"),
        of("/pay?order=q&amount=5", "application/json", "[]"),
        of("/pay?amount=5", "application/json", r#"{"order":"b"}"#),
        of("/pay?order=b", "application/json", r#"{"amount":5}"#),
        of("/pay?amount[value]=5", "application/json", r#"{"order":"b"}"#),
        of("/pay?order=c&amount=5", "application/x-www-form-urlencoded", ""),
        bare("POST", "/pay?order=c&amount=5"),
        of("/sized?amount=5", "text/plain", PAY),
        bare("POST", "/sized?amount=5"),
        of("/named?amount=5", "text/plain", PAY),
        of("/named?amount=5", "application/json", "[5000]"),
        of("/orders?dry_run=true&kind=rehearsal", "application/json", r#"{"order":"d"}"#),
        of("/orders?kind=rehearsal", "application/json", r#"{"order":"d","dry_run":true}"#),
        Ask::new("DELETE", "/files?file=f")
            .field("Content-Type", "application/json")
            .body(r#"{"all":true}"#.to_owned()),
    ];
    for ask in &other {
        assert_eq!(sent(&sidecar, &provider, ask), (403, 0), "{ask:?}");
    }
    // Said where it is read, it is what it was; and what judges nothing may stand anywhere.
    let read = [
        of("/pay?expand=all&locale=de", "application/json", r#"{"order":"e","amount":5}"#),
        of("/pay", "application/x-www-form-urlencoded", "order=f&amount=5"),
        of("/sized?trace=1", "application/json", r#"{"amount":5}"#),
        bare("POST", "/named?amount=5"),
        of("/orders?trace=1", "application/json", r#"{"order":"g","dry_run":true,"kind":"rehearsal"}"#),
        of("/orders?trace=1", "application/json", r#"{"order":"g"}"#),
        Ask::new("DELETE", "/files?file=f"),
    ];
    for ask in &read {
        assert_eq!(sent(&sidecar, &provider, ask), (200, 1), "{ask:?}");
    }
}

/// One body that is a form to who asks for the type, and JSON to who does not.
#[test]
fn p5_json_under_the_type_of_a_form_is_refused() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&crate::shop::desk_conf(provider.addr()).with(ACTIONS));
    let sidecar = home.serve();
    let both = r#"{"order":"a","amount":5000,"z":"&order=q&amount=5&x="}"#;
    for body in [both.to_owned(), PAY.to_owned(), format!("\u{feff} {both}"), format!(" \n[{both}]")] {
        let ask =
            Ask::new("POST", "/pay").field("Content-Type", "application/x-www-form-urlencoded").body(body);
        let answer = sidecar.billing().ask(DESK, &ask);
        answer.assert_refused(400, "oncegate_invalid_input");
        assert!(answer.text().contains("send it as application/json"), "{answer:?}");
    }
    assert!(provider.record().requests().is_empty());
}

/// `/orders/7.json` is order 7 to Rails, and `?action=refund` given twice is that action to PHP.
#[test]
fn p6_a_format_and_another_spelling_of_the_query_are_no_other_operation() {
    let provider = Provider::tls(&[DESK]);
    let actions = r#"
[actions.refund]
method = "POST"
url = "https://tickets.test/orders/{{input.id}}"
operation_key = "refund:{{input.id}}"
subject = "{{input.id}}"

[actions.attach]
method = "PUT"
url = "https://tickets.test/files/{{input.name}}"
subject = "{{input.name}}"

[actions.pay]
method = "POST"
url = "https://tickets.test/api.php?action=pay"
subject = "pay"
"#;
    let mut conf = crate::shop::desk_conf(provider.addr()).with(actions);
    conf.rest = conf.rest.replacen("[actions.", "writes = \"allow\"\n\n[actions.", 1);
    let home = Home::new(&conf);
    let sidecar = home.serve();
    for (target, code) in [
        ("/orders/7.json", "oncegate_ambiguous"),
        ("/orders/7.XML", "oncegate_ambiguous"),
        ("/orders/7.", "oncegate_ambiguous"),
        ("/v1/tickets.json", "oncegate_undeclared"),
        ("/api.php?action=pay&action=pay", "oncegate_undeclared"),
        ("/api.php?Action=pay", "oncegate_undeclared"),
        ("/api.php", "oncegate_undeclared"),
    ] {
        let answer = sidecar.billing().ask(DESK, &Ask::json(target, r#"{"title":"x"}"#));
        assert_eq!((answer.status, answer.code()), (403, code), "{target}");
    }
    assert!(provider.record().requests().is_empty());
    let file = Ask::new("PUT", "/files/a.json").field("Content-Type", "text/plain").body("x".to_owned());
    for ask in [file, Ask::json("/orders/7", "{}"), Ask::json("/api.php?action=search", "{}")] {
        assert_eq!(sent(&sidecar, &provider, &ask), (200, 1), "{ask:?}");
    }
}

/// A GET's parameters are in its URL: what its body says is read by no server.
#[test]
fn p5_a_body_of_a_method_that_has_none_is_not_judged() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&crate::shop::desk_conf(provider.addr()).with(ACTIONS));
    let sidecar = home.serve();
    let get = |target: &str| Ask::new("GET", target);
    let form = "application/x-www-form-urlencoded";
    for (content_type, body) in [("application/json", r#"{"amount":1}"#), (form, "amount=1")] {
        let ask = get("/transfer?to=bob").field("Content-Type", content_type).body(body.to_owned());
        sidecar.billing().ask(DESK, &ask).assert_refused(403, "oncegate_ambiguous");
    }
    assert!(provider.record().requests().is_empty());
    sidecar.billing().ask(DESK, &get("/transfer?to=bob&amount=1"));
    assert_eq!(provider.record().requests().len(), 1);
}

/// What a schema says of a member holds however the member is written, and whether or not the body is read.
#[test]
fn p10_a_schema_is_passed_by_no_other_way_to_write_a_member() {
    let provider = Provider::tls(&[DESK]);
    let actions = r#"
[actions.invite]
method = "POST"
url = "https://tickets.test/teams/{{input.team}}"
subject = "{{input.team}}"
input_schema = { properties = { role = { enum = ["user"] }, seats = { type = "integer", maximum = 3 } } }

[actions.bounded]
method = "POST"
url = "https://tickets.test/bounded"
input_schema = { properties = { seats = { maximum = 3 } } }

[actions.upload]
method = "POST"
url = "https://tickets.test/uploads/{{input.team}}"
subject = "{{input.team}}"
input_schema = { type = "object", required = ["team"], properties = { team = { enum = ["a", "b"] } } }

[actions.letter]
method = "POST"
url = "https://tickets.test/letters"
input_schema = { type = "object", required = ["body_sha256"], properties = { note = { type = "string" } } }
"#;
    let home = Home::new(&crate::shop::desk_conf(provider.addr()).with(actions));
    let sidecar = home.serve();
    let of = |to: &str, content_type: &str, body: &str| {
        Ask::new("POST", to).field("Content-Type", content_type).body(body.to_owned())
    };
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    for (ask, status) in [
        (of("/teams/a", "text/plain", r#"{"role":"admin"}"#), 400),
        (of("/teams/a", "multipart/form-data; boundary=b", "--b--\r\n"), 400),
        (of("/teams/a", json, r#"[{"role":"admin"}]"#), 400),
        (of("/teams/a", json, r#"{"Role":"admin","role":"user"}"#), 403),
        (of("/teams/a", json, r#"{"ROLE":"admin"}"#), 403),
        (of("/teams/a", json, r#"{"seats":"4"}"#), 400),
        (of("/teams/a", form, "role=user&seats=4"), 400),
        (of("/bounded", form, "seats=4"), 400),
        (of("/bounded", json, r#"{"seats":"4"}"#), 400),
        (of("/uploads/c", "text/plain", "x"), 400),
    ] {
        let answer = sidecar.billing().ask(DESK, &ask);
        assert_eq!(answer.status, status, "{ask:?} {answer:?}");
    }
    assert!(provider.record().requests().is_empty());
    for ask in [
        of("/teams/b", form, "role=user&seats=3"),
        of("/teams/c", json, r#"{"role":"user","seats":3,"Seat":1}"#),
        of("/bounded", form, "seats=3"),
        of("/uploads/a", "multipart/form-data; boundary=b", "--b--\r\n"),
        of("/letters", "text/plain", "x"),
    ] {
        assert_eq!(sent(&sidecar, &provider, &ask), (200, 1), "{ask:?}");
    }
}

/// What an operator declares of a request holds on the way through the proxy as well.
#[test]
fn p5_a_proxied_request_is_the_one_that_was_declared() {
    let provider = Provider::tls(&[DESK]);
    let actions = r#"
[actions.pay]
method = "POST"
url = "https://tickets.test/pay"
headers = { "Content-Type" = "application/json", "X-Account" = "ops", "X-For" = "{{input.to}}" }
scope_headers = ["x-account"]
body = { to = "{{input.to}}", cents = "{{input.amount}}", currency = "usd", scopes = ["read"], opts = { dry = true } }
subject = "{{input.to}}"
impact = { dimension = "resource_mutations", amount = "input.amount", bound = "exact" }
"#;
    let home = Home::new(&crate::shop::desk_conf(provider.addr()).with(actions));
    let sidecar = home.serve();
    let pay = |content_type: &str, body: &str| {
        let ask = Ask::new("POST", "/pay").field("Content-Type", content_type).body(body.to_owned());
        ask.field("X-Account", "other").field("X_For", "carl").field("X-For", "carl")
    };
    let json = "application/json";
    for (content_type, body) in [
        (json, r#"{"to":"bob","cents":99000000,"currency":"usd","amount":1}"#),
        (json, r#"{"to":"bob","cents":1,"currency":"eur","amount":1}"#),
        (json, r#"{"to":"bob","cents":1,"currency":"usd","amount":1,"scopes":["read","admin"]}"#),
        (json, r#"{"to":"bob","cents":1,"currency":"usd","amount":1,"scopes":{"0":"admin"}}"#),
        (json, r#"{"to":"bob","cents":1,"currency":"usd","amount":1,"opts":"dry=false"}"#),
        ("application/x-www-form-urlencoded", "to=bob&cents=1&currency=usd&amount=1"),
    ] {
        let answer = sidecar.billing().ask(DESK, &pay(content_type, body));
        answer.assert_refused(400, "oncegate_invalid_input");
    }
    let spelled = r#"{"to":"bob","cents":1,"Cents":9000,"currency":"usd","amount":1}"#;
    sidecar.billing().ask(DESK, &pay(json, spelled)).assert_refused(403, "oncegate_ambiguous");
    assert!(provider.record().requests().is_empty());
    let body = r#"{"to":"bob","cents":1,"currency":"usd","amount":1}"#;
    let answer = sidecar.billing().ask(DESK, &pay("application/json; charset=utf-8", body));
    assert_eq!(answer.status, 200, "{answer:?}");
    let sent = provider.record().wait_writes(1).remove(0);
    for (name, value) in [("content-type", json), ("x-account", "ops"), ("x-for", "bob")] {
        assert_eq!(sent.head.field(name), Some(value), "{:?}", sent.head);
    }
    assert_eq!(sent.head.field("x_for"), None, "another spelling of it");
    assert_eq!(sent.text(), body);
    // Another account in the agent's own field is no other request: it never leaves.
    let again = Ask::json("/pay", body).field("X-Account", "third");
    assert_eq!(sidecar.billing().ask(DESK, &again).status, 200);
    assert_eq!(provider.record().writes().len(), 1);
}

/// What says in another place what the body says: PHP reads a cookie before it, Rack a POST without a type as a form.
#[test]
fn p5_the_body_that_was_judged_is_the_one_that_is_read() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&crate::shop::desk_conf(provider.addr()).with(ACTIONS));
    let sidecar = home.serve();
    let small = r#"{"order":"e","amount":5,"z":"&order=a&amount=5000&x="}"#;
    for cookie in ["s=1; amount=5000", "AMOUNT=5000", "order%5B%5D=a", "order[x]=a"] {
        let ask = Ask::json("/pay", small).field("Cookie", cookie);
        sidecar.billing().ask(DESK, &ask).assert_refused(403, "oncegate_ambiguous");
    }
    let comma = Ask::new("POST", "/pay").field("Content-Type", "application/x-www-form-urlencoded,a+json");
    assert_eq!(sidecar.billing().ask(DESK, &comma.body(small.to_owned())).status, 400);
    assert!(provider.record().requests().is_empty());
    let bare = Ask::new("POST", "/pay").field("Cookie", "session=1").body(small.to_owned());
    assert_eq!(sent(&sidecar, &provider, &bare), (200, 1));
    let taken_off = Ask::json("/pay", &small.replace("\"e\"", "\"f\"")).field("Connection", "content-type");
    assert_eq!(sent(&sidecar, &provider, &taken_off), (200, 1));
    for write in provider.record().writes() {
        assert_eq!(write.head.field("content-type"), Some("application/json"), "{:?}", write.head);
    }
}
