//! What operators watch: the metrics after a known history, one line of the log for each request, and `watch`.

use std::{io::Write, net::TcpStream};

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    conf::{BILLING_KEY, CREDENTIAL, Conf, OPS_KEY, stripe_conf},
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
    wait::{PATIENCE, until},
    wire::Wire,
};
use serde_json::{Value, json};

use crate::{
    api_invoke::invoke,
    degraded::under,
    shop::{DESK, REFUND, Shop, VARIED},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

pub(crate) fn metrics(sidecar: &Sidecar, key: Option<&str>) -> Answer {
    let mut tcp = TcpStream::connect(sidecar.control).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let (host, key) =
        (sidecar.control, key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default());
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n{key}Connection: close\r\n\r\n");
    tcp.write_all(head.as_bytes()).unwrap();
    Answer::read(&mut Wire::new(tcp), false).unwrap()
}

/// A success, an unknown, its repeat, a varied retry, and a host that nobody declared.
fn history(shop: &Shop, sidecar: &Sidecar) -> String {
    let agent = sidecar.billing();
    let traced = Ask::refund("payment_intent=pi_secret_input&amount=500")
        .field("traceparent", PARENT)
        .field("tracestate", "vendor=opaque");
    assert_eq!(agent.ask("api.stripe.com", &traced).status, 200);
    shop.books.lose(1);
    let effect = agent.refund(None, REFUND).assert_unknown().effect();
    agent.refund(None, REFUND).assert_unknown();
    agent.refund(None, VARIED).assert_own(422, "oncegate_unresolved_effect");
    agent.ask("undeclared.test", &Ask::get("/")).assert_own(403, "oncegate_undeclared");
    effect
}

#[test]
fn metrics_tell_the_history_and_nothing_else() {
    let shop = Shop::open();
    let sidecar = shop.home.serve_traced();
    history(&shop, &sidecar);
    assert_eq!(metrics(&sidecar, None).status, 401);
    let answer = metrics(&sidecar, Some(BILLING_KEY));
    assert_eq!(answer.status, 200, "any key may read it");
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"), "{answer:?}");
    let text = answer.text();
    let request = |outcome: &str, code: &str, repeat: bool| {
        format!(
            "oncegate_requests_total{{action=\"refund\",outcome=\"{outcome}\",code=\"{code}\",repeat=\"{repeat}\"}} 1"
        )
    };
    let limit = "{limit=\"refunds-per-day\",period=\"day\",unit=\"usd\"}";
    for line in [
        request("succeeded", "", false),
        request("unknown", "", false),
        request("unknown", "", true),
        request("refused", "unresolved_effect", false),
        "oncegate_requests_total{action=\"(undeclared)\",outcome=\"refused\",code=\"undeclared\",repeat=\"false\"} 1".to_owned(),
        "oncegate_effects_unknown 1".to_owned(),
        "oncegate_effects_awaiting_approval 0".to_owned(),
        format!("oncegate_limit_amount{limit} 50000"),
        format!("oncegate_limit_consumed{limit} 500"),
        format!("oncegate_limit_held{limit} 12000"),
        format!("oncegate_limit_unknown{limit} 12000"),
        format!("oncegate_limit_available{limit} 37500"),
        "oncegate_commit_seconds_count{verb=\"admit\"} 4".to_owned(),
        "oncegate_commit_seconds_count{verb=\"record\"} 2".to_owned(),
        "oncegate_upstream_seconds_count{action=\"refund\"} 2".to_owned(),
        "oncegate_halted 0".to_owned(),
        "oncegate_reload_faults 0".to_owned(),
        "oncegate_log_lines_lost_total 0".to_owned(),
    ] {
        assert!(text.lines().any(|seen| seen == line), "no {line} in:\n{text}");
    }
    for name in [
        "oncegate_effects_unknown_oldest_seconds ",
        "oncegate_pool_idle_connections ",
        "oncegate_tunnels_open{",
    ] {
        assert!(text.lines().any(|line| line.starts_with(name)), "no {name} in:\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    for never in
        ["pi_", "secret_input", BILLING_KEY, OPS_KEY, CREDENTIAL, "billing-agent", "undeclared.test", TRACE]
    {
        assert!(!text.contains(never), "{never} in:\n{text}");
    }
}

#[test]
fn looks_are_counted_by_what_they_found() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = history(&shop, &sidecar);
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &effect).code, 0, "the refund is found");
    let text = metrics(&sidecar, Some(OPS_KEY)).text();
    assert!(text.contains("oncegate_reconcile_attempts_total{finding=\"matched\"} 1\n"), "{text}");
    assert!(text.contains("oncegate_effects_unknown 0\n"), "{text}");
    assert!(text.contains("oncegate_effects_unknown_oldest_seconds 0.0\n"), "{text}");
}

#[test]
fn open_metrics_need_no_key_and_open_nothing_else() {
    let shop = Shop::open_with(|at| stripe_conf(at).control("metrics = \"open\""));
    let sidecar = shop.home.serve();
    assert_eq!(metrics(&sidecar, None).status, 200);
    let other = crate::law::call(&sidecar, "billing-agent", "POST", "/environment/halt", "{}");
    assert_eq!(other.status, 403);
}

/// The JSON lines of the log that are about requests.
fn lines(sidecar: &Sidecar) -> Vec<Value> {
    let log = sidecar.log();
    let all =
        log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}")));
    all.filter(|line| line["listener"].is_string()).collect()
}

#[test]
fn one_line_for_each_request_with_its_trace_and_no_body() {
    let shop = Shop::open_with(|at| stripe_conf(at).with("[log]\nformat = \"json\"\nlevel = \"info\"\n"));
    let sidecar = shop.home.serve();
    let effect = history(&shop, &sidecar);
    let lines = until("five lines", || Some(lines(&sidecar)).filter(|lines| lines.len() >= 5));
    let told: Vec<_> = lines
        .iter()
        .map(|line| json!([line["action.name"], line["outcome"], line["code"], line["repeat"]]))
        .collect();
    assert_eq!(
        json!(told),
        json!([
            ["refund", "succeeded", null, false],
            ["refund", "unknown", null, false],
            ["refund", "unknown", null, true],
            ["refund", "refused", "unresolved_effect", false],
            [null, "refused", "undeclared", false],
        ])
    );
    let [first, second, third, fourth, _] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(first["trace.id"], TRACE);
    assert!(first["effect.id"].as_str().unwrap().starts_with("eff_"), "{first}");
    assert!(first["invocation.id"].as_str().unwrap().starts_with("inv_"), "{first}");
    assert_eq!(
        json!([first["caller"], first["listener"], first["provider.status"]]),
        json!(["billing-agent", "proxy", 200])
    );
    for time in ["plan_ms", "admit_ms", "upstream_ms", "record_ms", "total_ms"] {
        assert!(first[time].as_f64().is_some_and(|ms| ms >= 0.0), "{time}: {first}");
    }
    assert_eq!((&second["effect.id"], &third["effect.id"]), (&json!(effect), &json!(effect)));
    assert_eq!((&fourth["effect.id"], &fourth["upstream_ms"]), (&json!(effect), &Value::Null), "{fourth}");
    let log = sidecar.log();
    for never in ["pi_", "secret_input", BILLING_KEY, CREDENTIAL, "vendor=opaque", "b7ad6b7169203331"] {
        assert!(!log.contains(never), "{never} in:\n{log}");
    }
}

/// What is not governed is counted and told alike, whichever way it was asked for.
#[test]
fn an_ungoverned_action_counts_and_has_its_line_at_both_listeners() {
    let provider = Provider::tls(&[DESK]);
    let search =
        "[actions.search]\nmethod = \"POST\"\nurl = \"https://tickets.test/v1/search\"\ngoverned = false\n";
    let conf = Conf::default().host(DESK, provider.addr()).with(search);
    let home = Home::new(&conf.with("[log]\nformat = \"json\"\nlevel = \"info\"\n"));
    let sidecar = home.serve();
    provider.on_write(Reply::json("200 OK", "{}"));
    assert_eq!(sidecar.billing().ask(DESK, &Ask::json("/v1/search", r#"{"q":"secret_input"}"#)).status, 200);
    let input = json!({ "input": { "q": "secret_input" } });
    for answer in ["200 OK", "422 Unprocessable Entity"] {
        provider.on_write(Reply::json(answer, "{}"));
        let key = Some(answer);
        assert_eq!(invoke(&sidecar, "billing-agent", key, "search", &input).status, 200);
    }
    assert_eq!(invoke(&sidecar, "billing-agent", Some("200 OK"), "search", &input).status, 200);
    let told: Vec<_> = until("four lines", || Some(lines(&sidecar)).filter(|lines| lines.len() >= 4))
        .iter()
        .map(|line| json!([line["action.name"], line["listener"], line["provider.status"], line["repeat"]]))
        .collect();
    assert_eq!(
        json!(told),
        json!([
            ["search", "proxy", 200, null],
            ["search", "api", 200, false],
            ["search", "api", 422, false],
            ["search", "api", 200, true],
        ])
    );
    let text = metrics(&sidecar, Some(OPS_KEY)).text();
    assert!(text.contains("oncegate_passed_on_total 3\n"), "{text}");
    assert!(!sidecar.log().contains("secret_input"), "{}", sidecar.log());
}

#[test]
fn a_key_that_nobody_has_leaves_a_line_and_a_count() {
    let shop = Shop::open_with(|at| stripe_conf(at).with("[log]\nformat = \"json\"\nlevel = \"info\"\n"));
    let sidecar = shop.home.serve();
    let ask = |authorization| {
        let stranger = sidecar.billing().authorized(authorization);
        stranger.absolute("tickets.test", &Ask::get("http://tickets.test/")).unwrap().status
    };
    // Who shows no key is asked for it, as some clients want to be.
    assert_eq!([ask(None), ask(Some("Bearer og_wrong_1")), ask(Some("Bearer og_wrong_2"))], [407; 3]);
    assert_eq!(metrics(&sidecar, None).status, 401);
    assert_eq!(metrics(&sidecar, Some("og_wrong_3")).status, 401);
    let text = metrics(&sidecar, Some(OPS_KEY)).text();
    for (listener, number) in [("proxy", 2), ("api", 1)] {
        let line = format!("oncegate_unknown_keys_total{{listener=\"{listener}\"}} {number}\n");
        assert!(text.contains(&line), "no {line} in:\n{text}");
        until("its line", || lines(&sidecar).into_iter().find(|line| line["listener"] == listener));
    }
    assert!(!sidecar.log().contains("og_wrong"), "{}", sidecar.log());
}

/// The disk under the log is full: what is served does not notice, and the operator is told by a number.
#[test]
fn lines_that_cannot_be_written_are_counted() {
    let shop = Shop::open();
    let sidecar =
        shop.home.launch(under(&shop.home, &["serve"], &["env"], "exec \"$@\" 2> /dev/full")).unwrap();
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
    let text = metrics(&sidecar, Some(OPS_KEY)).text();
    let lost = text.lines().find_map(|line| line.strip_prefix("oncegate_log_lines_lost_total "));
    assert!(lost.is_some_and(|lost| lost.parse::<u64>().unwrap() > 0), "{text}");
}

/// Another trace is another try of the same operation, not another operation.
#[test]
fn trace_context_reaches_the_provider_untouched_and_is_no_part_of_identity() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let ask = |parent: &str| Ask::refund(REFUND).field("traceparent", parent).field("tracestate", "a=1,b=2");
    assert_eq!(sidecar.billing().ask("api.stripe.com", &ask(PARENT)).status, 200);
    let other = "00-11111111111111111111111111111111-2222222222222222-00";
    let repeat = sidecar.billing().ask("api.stripe.com", &ask(other));
    assert_eq!(repeat.header("x-idempotent-replay"), Some("current-state"), "{repeat:?}");
    let writes = shop.provider.record().writes();
    let [write] = writes.as_slice() else { panic!("{} writes", writes.len()) };
    assert_eq!(write.head.field("traceparent"), Some(PARENT));
    assert_eq!(write.head.field("tracestate"), Some("a=1,b=2"));
}

#[test]
fn watch_shows_what_is_open_from_the_api_and_from_the_database() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = history(&shop, &sidecar);
    let asked = sidecar.cli(&shop.home, "ops", &["watch", "--once", "--json"]);
    let read = shop.home.run_on_db(&["watch", "--once", "--json"]);
    assert_eq!((asked.code, asked.json()), (0, read.json()), "{asked:?}");
    assert_eq!(asked.out.lines().count(), 1, "one document a line: {}", asked.out);
    let document = asked.json();
    assert_eq!(
        (&document["effects"][0]["id"], &document["limits"][0]["reserved"]),
        (&json!(effect), &json!(12_000))
    );
    let plain = sidecar.cli(&shop.home, "ops", &["watch", "--once"]).out;
    assert!(
        plain.starts_with("1 unresolved\n") && plain.contains(&effect) && plain.contains("\nheld\n"),
        "{plain}"
    );
    assert!(!plain.contains('\u{1b}'), "no terminal, no codes: {plain:?}");
}

#[test]
fn completions_for_every_shell() {
    let shop = Shop::open();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = shop.home.run(&["completions", shell]);
        assert!(
            done.code == 0 && done.out.contains("reconcile") && done.out.contains("oncegate"),
            "{done:?}"
        );
    }
    assert_eq!(shop.home.run(&["completions", "dos"]).code, 2);
}
