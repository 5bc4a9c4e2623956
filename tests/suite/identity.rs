//! Every case of `identity.toml`, over real sockets: what counts as the same.
//!
//! Cases with `later` need another clock and are the store's and policy's to test.

use oncegate_tests::{agent::Ask, answer::Answer, conf::Conf, script::Reply, sidecar::Sidecar};
use toml::Table;

use crate::{
    api_actions::desk,
    cases::{attempt, load, must, text},
    shop::{DESK, Shop, desk_conf, ticket},
};

#[test]
fn identity_cases() {
    let (later, now): (Vec<Table>, Vec<Table>) =
        load("identity.toml").into_iter().partition(|case| case.contains_key("later"));
    assert_eq!(later.len(), 2, "cases left to tests with a clock");
    assert!(now.len() >= 14, "only {} cases", now.len());
    let wrong: Vec<String> =
        now.iter().filter_map(|case| attempt(must(case, "name"), || play(case)).err()).collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), now.len(), wrong.join("\n"));
}

/// A header that says for whom it is done is content where that was declared: the record of one tenant is no answer to
/// another, and what a read-back asks is asked for the tenant of its effect.
#[test]
fn a_tenant_in_a_header_is_content_where_that_was_declared() {
    let (provider, home) = desk(|at| {
        let conf = desk_conf(at);
        let rest = conf.rest.replace(
            "subject = ",
            &format!(
                "scope_headers = [\"X-Tenant\"]\nverify = {{ url = \"https://{DESK}/v1/tickets?of={{{{input.title}}}}\", \
                 status = 200 }}\nsubject = "
            ),
        );
        Conf { rest, ..conf }
    });
    let sidecar = home.serve();
    let ask = |tenant: &str| {
        sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a")).field("X-Tenant", tenant))
    };
    let (one, two) = (ask("one"), ask("two"));
    assert_eq!([one.outcome(), two.outcome()], ["succeeded", "succeeded"], "{one:?} {two:?}");
    assert_ne!(one.effect(), two.effect());
    assert_eq!(
        [ask("one").effect(), ask("two").effect()],
        [one.effect(), two.effect()],
        "each its own record"
    );
    assert_eq!(provider.record().writes().len(), 2);
    ask(" ").assert_refused(403, "oncegate_ambiguous");

    provider.on_write(Reply::lost());
    let lost = ask("three").assert_unknown().effect();
    assert_eq!(sidecar.reconcile(&home, "ops", &lost).code, 0);
    let looks = provider.record().requests().into_iter().filter(|asked| asked.method == "GET");
    let tenants: Vec<_> = looks.map(|asked| asked.head.field("x-tenant").map(str::to_owned)).collect();
    assert_eq!(tenants, [Some("three".to_owned())]);
}

fn conf(case: &Table, at: std::net::SocketAddr, limit: u64) -> Conf {
    let key = text(case, "operation_key").map(|key| format!("operation_key = \"{key}\"\n"));
    Conf::default().stripe_host(at).refund(key.as_deref().unwrap_or_default()).daily_limit(limit)
}

fn play(case: &Table) -> Result<(), String> {
    let name = must(case, "name");
    let state = must(case, "first_state");
    let small = if state == "refused" { 10_000 } else { 500_000 };
    let shop = Shop::open_with(|at| conf(case, at, small));
    let mut sidecar = shop.home.serve();
    match state {
        "unknown" => shop.books.lose(1),
        "failed" if name.contains("429") => {
            shop.provider.on_write(Reply::with("429 Too Many Requests", &[("Retry-After", "1")], REFUSED));
        }
        "failed" => shop.provider.on_write(Reply::json("402 Payment Required", REFUSED)),
        "succeeded" | "refused" => {}
        other => panic!("no such state: {other}"),
    }
    let first = ask(&sidecar, case, "first");
    if first.outcome() != state {
        return Err(format!("{name}: the first was to be {state}: {first:?}"));
    }
    if state == "refused" {
        first.assert_refused(403, "oncegate_limit_exceeded");
        drop(sidecar);
        shop.home.write(&conf(case, shop.provider.addr(), 500_000).text());
        sidecar = shop.home.serve();
    }
    let sent = shop.writes();
    assert_eq!(sent, usize::from(state != "refused"), "{name}: the first");
    let second = ask(&sidecar, case, "second");
    judge(case, &first, &second, shop.writes() - sent).map_err(|e| format!("{name}: {e}; second: {second:?}"))
}

const REFUSED: &str = r#"{"error":{"type":"card_error","code":"some_code","message":"no"}}"#;

fn ask(sidecar: &Sidecar, case: &Table, which: &str) -> Answer {
    let request = case[which].as_table().expect("a table");
    sidecar.billing().refund(text(request, "key"), must(request, "form"))
}

fn judge(case: &Table, first: &Answer, second: &Answer, sent: usize) -> Result<(), String> {
    let expect = must(case, "expect");
    let allowed = usize::from(expect == "new");
    if sent != allowed {
        return Err(format!("{sent} sent for the second, expected {allowed}"));
    }
    let effect = second.header("oncegate-effect");
    let same = effect.is_some() && effect == first.header("oncegate-effect");
    let right = match expect {
        "new" => second.outcome() == "succeeded" && second.status == 200 && !same,
        "key_reuse" => {
            second.assert_refused(400, "oncegate_key_reuse");
            second.json()["error"]["type"] == "idempotency_error"
        }
        "unresolved_effect" => {
            second.assert_own(422, "oncegate_unresolved_effect");
            second.text().contains(&first.effect())
        }
        "repeat" if first.outcome() == "unknown" => {
            second.assert_unknown();
            same
        }
        "repeat" => {
            let replay = second.header("x-idempotent-replay") == Some("current-state");
            let shown = second.status == first.status && second.json() == first.json();
            same && replay && shown && second.header("retry-after").is_none()
        }
        other => panic!("no such expectation: {other}"),
    };
    if right { Ok(()) } else { Err(format!("not a {expect}; first: {first:?}")) }
}
