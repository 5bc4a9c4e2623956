//! Requests that Oncegate and a server behind it could read in two ways: names of fields with `_`, parts that name a
//! method, members that differ in case.

use oncegate_tests::{
    agent::Ask,
    conf::Conf,
    provider::Provider,
    sidecar::{Home, Sidecar},
};

use crate::shop::{DESK, TICKETS_PER_DAY, desk_conf, ticket};

fn ask(sidecar: &Sidecar, ask: &Ask) -> oncegate_tests::answer::Answer {
    sidecar.billing().ask(DESK, ask)
}

/// CGI, WSGI and PHP write `-` as `_`: the two spellings are one field to what runs behind them.
#[test]
fn a_field_in_its_other_spelling_is_the_same_field() {
    let provider = Provider::tls(&[DESK]);
    let key = "\n[secrets.KEY]\nfrom = { env = \"STRIPE_SECRET_KEY\" }\nallowed_hosts = [\"tickets.test\"]\n";
    let mut conf = Conf::default().with(key).host(DESK, provider.addr());
    conf.rest.push_str("credential = { header = \"X-Api-Key\", value = \"{{secret:KEY}}\" }\n");
    let home = Home::new(&conf.with(&crate::shop::ticket_action("open-ticket", DESK)).with(TICKETS_PER_DAY));
    let sidecar = home.serve();
    for name in
        ["X_HTTP_Method_Override", "x-http_method", "X_Method-Override", "X_Original_URL", "X_Rewrite_Url"]
    {
        for bare in [Ask::get("/v1/tickets"), Ask::json("/v1/tickets", &ticket("printer"))] {
            ask(&sidecar, &bare.field(name, "DELETE")).assert_refused(403, "oncegate_ambiguous");
        }
    }
    for name in ["Idempotency_Key", "Content_Type", "Content_Encoding"] {
        let write = Ask::json("/v1/tickets", &ticket("printer")).field(name, "other");
        ask(&sidecar, &write).assert_refused(403, "oncegate_ambiguous");
    }
    assert!(provider.record().requests().is_empty(), "{:?}", provider.record().requests());
    // What ends here ends here in both spellings, and the place of the credential is ours in both.
    let gone = ["Transfer_Encoding", "Content_Length", "Proxy_Authorization", "Keep_Alive", "X_Api_Key"];
    for bare in [Ask::get("/v1/tickets"), Ask::json("/v1/tickets", &ticket("printer"))] {
        let full = gone.iter().fold(bare, |ask, name| ask.field(name, "mine")).field("My_Own", "kept");
        assert_eq!(ask(&sidecar, &full).status, 200);
        let seen = provider.record().requests().pop().unwrap();
        for name in gone {
            assert_eq!(seen.head.field(name), None, "{name}: {seen:?}");
        }
        assert_eq!((seen.head.field("my_own"), seen.head.field("x-api-key").is_some()), (Some("kept"), true));
    }
}

fn multipart(disposition: &str) -> Ask {
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nprinter\r\n--b\r\n{disposition}\r\n\r\nDELETE\r\n--b--\r\n"
    );
    Ask::new("POST", "/v1/tickets").field("Content-Type", "multipart/form-data; boundary=b").body(body)
}

/// A part is a parameter like that of a form.
#[test]
fn a_body_that_names_a_method_is_refused() {
    let provider = Provider::tls(&[DESK]);
    let action = format!("[actions.open]\nmethod = \"POST\"\nurl = \"https://{DESK}/v1/tickets\"\n");
    let home = Home::new(&Conf::default().host(DESK, provider.addr()).with(&action));
    let sidecar = home.serve();
    let parts = [
        "Content-Disposition: form-data; name=\"_method\"",
        "content-disposition:form-data;name=_method",
        "X-Other: 1\r\nContent-Disposition: form-data;\r\n name=\"_method\"",
        "Content-Disposition: form-data; name=\"_met\\hod\"",
        "Content-Disposition: form-data; name*=UTF-8''%5Fmethod",
    ];
    for disposition in parts {
        ask(&sidecar, &multipart(disposition)).assert_refused(403, "oncegate_ambiguous");
    }
    let json = Ask::json("/v1/tickets", r#"{"title":"printer","_method":"DELETE"}"#);
    ask(&sidecar, &json).assert_refused(403, "oncegate_ambiguous");
    assert!(provider.record().requests().is_empty());
    let innocent = "Content-Disposition: form-data; name=\"file\"; filename=\"my_method.txt\"\r\n\r\n<input name=\"_method\">";
    assert_eq!(ask(&sidecar, &multipart(innocent)).status, 200);
}

/// Servers read the names of the fields among parameters too, in whatever case, and some take `method` itself.
#[test]
fn a_parameter_that_asks_for_another_method_is_refused_under_each_of_its_names() {
    let provider = Provider::tls(&[DESK]);
    let action = format!("[actions.open]\nmethod = \"POST\"\nurl = \"https://{DESK}/v1/tickets\"\n");
    let home = Home::new(&Conf::default().host(DESK, provider.addr()).with(&action));
    let sidecar = home.serve();
    let names =
        ["_method", "_Method", "_HttpMethod", "X-HTTP-Method-Override", "x_http_method", "X-Method-Override"];
    for name in names {
        let query = format!("/v1/tickets?{name}=DELETE");
        for asked in [
            Ask::get(&query),
            Ask::json(&query, &ticket("printer")),
            Ask::form("/v1/tickets", &format!("title=printer&{name}=DELETE")),
            Ask::json("/v1/tickets", &format!(r#"{{"title":"printer","{name}":"DELETE"}}"#)),
            multipart(&format!("Content-Disposition: form-data; name=\"{name}\"")),
        ] {
            ask(&sidecar, &asked).assert_refused(403, "oncegate_ambiguous");
        }
    }
    ask(&sidecar, &Ask::get("/v1/tickets?method=post")).assert_refused(403, "oncegate_ambiguous");
    ask(&sidecar, &Ask::json("/v1/tickets?Method=delete", "{}")).assert_refused(403, "oncegate_ambiguous");
    assert!(provider.record().requests().is_empty(), "{:?}", provider.record().requests());
    // What names no method, or the request's own, is a parameter like any other.
    assert_eq!(ask(&sidecar, &Ask::get("/v1/tickets?method=card")).status, 200);
    assert_eq!(ask(&sidecar, &Ask::get("/v1/tickets?method=get")).status, 200);
    let call = r#"{"title":"printer","method":"delete"}"#;
    assert_eq!(ask(&sidecar, &Ask::json("/v1/tickets", call)).status, 200);
}

/// Forms cannot carry it.
const KEY_IN_BODY: &str = "idempotency = { body = \"request_id\", window = \"24h\" }\n";
/// An action that judges an amount, a subject, two keys and a kind.
const PAY: &str = r#"
[actions.pay]
method = "POST"
url = "https://tickets.test/v1/pay"
subject = "{{input.order.id}}"
operation_key = "pay-{{input.nonce}}"
impact = { dimension = "money", currency = "usd", amount = "input.amount" }
idempotency = { body = "request_id", window = "24h" }
when = [{ path = "input.kind", equals = "refund", absent = true }]
"#;

fn payments(pay: &str) -> (Provider, Sidecar, Home) {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()).with(pay));
    let sidecar = home.serve();
    (provider, sidecar, home)
}

/// Many servers bind members whatever their case, and the last one wins.
#[test]
fn a_member_in_another_case_than_the_judged_one_is_refused() {
    let (provider, sidecar, _home) = payments(PAY);
    let with = |more: &str| {
        let body = format!(r#"{{"amount":1,"order":{{"id":"o1"}},"nonce":"n1","note":"a"{more}}}"#);
        ask(&sidecar, &Ask::json("/v1/pay", &body))
    };
    for more in [
        r#","Amount":99999"#,
        r#","AMOUNT":null"#,
        r#","Order":{"id":"o2"}"#,
        r#","Nonce":"n2""#,
        r#","Request_ID":"r""#,
        r#","Kind":"refund""#,
        r#"," amount":99999"#,
        r#","amount\u0000":99999"#,
        r#","order.id":"o2""#,
        r#","Order.Id":"o2""#,
        r#","request.id":"r""#,
        r#","request id":"r""#,
        ",\"\u{212a}ind\":\"refund\"",
    ] {
        with(more).assert_refused(403, "oncegate_ambiguous");
    }
    let inner = Ask::json("/v1/pay", r#"{"amount":1,"order":{"id":"o1","ID":"o2"},"nonce":"n1"}"#);
    ask(&sidecar, &inner).assert_refused(403, "oncegate_ambiguous");
    let query = Ask::json("/v1/pay?Amount=99999", r#"{"amount":1,"order":{"id":"o1"},"nonce":"n1"}"#);
    ask(&sidecar, &query).assert_refused(403, "oncegate_ambiguous");
    assert!(provider.record().requests().is_empty(), "{:?}", provider.record().requests());
    assert_eq!(with(r#","Note":"b""#).status, 200, "what is not judged is the provider's own");
}

/// A form's names as PHP reads them: spaces before one are dropped, and one ends at a NUL.
#[test]
fn names_of_a_form_that_servers_mangle_are_refused() {
    let (provider, sidecar, _home) = payments(&PAY.replace(KEY_IN_BODY, ""));
    let plain = ask(&sidecar, &Ask::form("/v1/pay", "amount=5&order[id]=o9&nonce=n9"));
    assert_eq!(plain.status, 200, "{plain:?}");
    for more in
        ["+amount=5000", "%20amount=5000", "%09amount=5000", "amount%00=5000", "amount+=5000", "x%0A=1"]
    {
        let answer = ask(&sidecar, &Ask::form("/v1/pay", &format!("amount=5&order[id]=o1&{more}")));
        answer.assert_refused(400, "oncegate_invalid_input");
    }
    for more in ["order.id=o2", "Order[id]=o2", "AMOUNT=5000"] {
        let answer = ask(&sidecar, &Ask::form("/v1/pay", &format!("amount=5&order[id]=o1&{more}")));
        answer.assert_refused(403, "oncegate_ambiguous");
    }
    assert_eq!(provider.record().writes().len(), 1);
}

/// Actions at one path are told apart by a parameter of the query: the body, or a cookie, says another one.
#[test]
fn p10_what_the_query_tells_is_said_by_nothing_else() {
    let provider = Provider::tls(&[DESK]);
    let actions = r#"
[actions.refund]
method = "POST"
url = "https://tickets.test/api?action=refund"
[actions.list]
method = "POST"
url = "https://tickets.test/api?action=list"
governed = false
[actions.ping]
method = "POST"
url = "https://tickets.test/api?action=ping"
"#;
    let part = "--b\r\nContent-Disposition: form-data; name=\"action\"\r\n\r\nrefund\r\n--b--\r\n";
    let (form, json) = ("application/x-www-form-urlencoded", "application/json");
    for writes in ["deny", "allow"] {
        let conf = crate::shop::desk_conf(provider.addr()).with(actions);
        let host = format!("[hosts.\"{DESK}\"]\n");
        let home = Home::new(&Conf {
            rest: conf.rest.replace(&host, &format!("{host}writes = \"{writes}\"\n")),
            ..conf
        });
        let sidecar = home.serve();
        let of = |query: &str, content_type: &str, body: &str| {
            Ask::new("POST", &format!("/api?action={query}"))
                .field("Content-Type", content_type)
                .body(body.to_owned())
        };
        let sent = provider.record().requests().len();
        let queries: &[&str] = if writes == "allow" { &["list", "ping", "other"] } else { &["list", "ping"] };
        for query in queries {
            for ask in [
                of(query, form, "action=refund&amount=50"),
                of(query, form, "Action=refund"),
                of(query, form, "action[]=refund"),
                of(query, json, r#"{"action":"refund"}"#),
                of(query, "multipart/form-data; boundary=b", part),
                of(query, form, "x=1").field("Cookie", "s=1; action=refund"),
                // Rack takes what has no type for a form, and Express looks into what is packed.
                Ask::new("POST", &format!("/api?action={query}")).body("action=refund&amount=50".to_owned()),
                of(query, form, "packed").field("Content-Encoding", "deflate"),
            ] {
                sidecar.billing().ask(DESK, &ask).assert_refused(403, "oncegate_ambiguous");
            }
        }
        assert_eq!(provider.record().requests().len(), sent);
        assert_eq!(sidecar.billing().ask(DESK, &of("list", form, "page=2")).status, 200);
        assert_eq!(
            sidecar.billing().ask(DESK, &of("refund", json, r#"{"amount":5}"#)).outcome(),
            "succeeded"
        );
    }
}

/// Under a schema nothing may stand where a declared body or field puts an input, but what the input says.
#[test]
fn p10_a_schema_reads_what_a_declared_body_makes_of_it() {
    let provider = Provider::tls(&[DESK]);
    let actions = r##"
[actions.pay]
method = "POST"
url = "https://tickets.test/pay"
body = { cents = "{{input.amount}}", to = "{{input.to}}" }
input_schema = { "$ref" = "#/$defs/pay", "$defs" = { pay = { properties = { amount = { type = "integer", maximum = 5000 } } } } }
[actions.field]
method = "POST"
url = "https://tickets.test/field"
headers = { "X-Amount" = "{{input.amount}}" }
input_schema = { properties = { amount = { type = "integer", maximum = 5000 } } }
"##;
    let home = Home::new(&crate::shop::desk_conf(provider.addr()).with(actions));
    let sidecar = home.serve();
    for ask in [
        Ask::json("/pay", r#"{"amount":5,"cents":90000,"to":"bob"}"#),
        Ask::json("/pay", r#"{"cents":90000,"to":"bob"}"#),
        Ask::json("/field", r#"{"x":1}"#).field("X-Amount", "90000"),
        Ask::json("/field", r#"{"x":1}"#).field("X_Amount", "90000"),
    ] {
        sidecar.billing().ask(DESK, &ask).assert_refused(400, "oncegate_invalid_input");
    }
    assert!(provider.record().requests().is_empty());
    for ask in [
        Ask::json("/pay", r#"{"amount":5,"cents":5,"to":"bob"}"#),
        Ask::json("/field", r#"{"amount":5}"#).field("X-Amount", "90000"),
    ] {
        assert_eq!(sidecar.billing().ask(DESK, &ask).outcome(), "succeeded");
    }
}
